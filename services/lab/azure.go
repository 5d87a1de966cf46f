package lab

import "math"

// azurePredictive is predictive autoscale of Azure Virtual Machine Scale Sets beside the standard rule that it requires. The standard rule is
// the one that the portal offers: mean use of ten minutes over 70 % adds an instance, under 30 % takes one away, five minutes of cooldown
// after either, and none is taken away where the rest would be over the first threshold again. The forecast needs seven days of history, looks back
// on at most fifteen, and only ever adds: instances for the predicted load at the same threshold, ahead of it by the set time (here the
// start-up time and one step of the forecast). Microsoft does not publish the model; here it is the mean of the same five minutes of earlier days, the
// same weekday counting double.
// https://learn.microsoft.com/azure/azure-monitor/autoscale/autoscale-predictive and /autoscale/autoscale-flapping
type azurePredictive struct {
	target float64
	cold   int
	ten    window
	last   int // slot of the last action of the rule
	steps  []float64
	sum    float64
}

const (
	azureStep     = 300 / SlotSeconds
	azureCooldown = 300 / SlotSeconds
	azureWindow   = 600 / SlotSeconds
	azureLow      = 30.0 / 70.0 // the lower threshold as a share of the upper one
	azureHistory  = 7           // days without which there is no forecast
	azureLookback = 15          // days
)

func newAzure(target float64, cold int) Policy {
	return &azurePredictive{target: target, cold: cold, ten: newWindow(azureWindow), last: -azureCooldown}
}

// Step takes the larger of rule and forecast; the rule takes nothing away that the forecast wants.
func (a *azurePredictive) Step(o *Observation) int {
	use := a.ten.add(part(o.Busy, float64(o.Ready)))
	a.sum += o.Busy
	if (o.Slot+1)%azureStep == 0 {
		a.steps = append(a.steps, a.sum/azureStep)
		a.sum = 0
	}
	have := o.Replicas()
	want := have
	if o.Slot-a.last >= azureCooldown && (o.Slot+1)%(60/SlotSeconds) == 0 {
		switch {
		case use > a.target:
			want = have + 1
		case use < azureLow*a.target && have > 1 && use*float64(o.Ready)/float64(have-1) <= a.target:
			want = have - 1
		}
	}
	floor := a.floor(o.Slot + 1)
	if want < have && want < floor {
		want = have
	}
	want = max(want, floor)
	if want != have {
		a.last = o.Slot
	}
	return want
}

// floor is the count for the largest load that is predicted up to the time for which a start has to begin now.
func (a *azurePredictive) floor(slot int) int {
	perDay := SlotsPerDay / azureStep
	if len(a.steps) < azureHistory*perDay {
		return 0
	}
	most := 0.0
	for at := slot / azureStep; at <= (slot+a.cold+azureStep)/azureStep; at++ {
		sum, weight := 0.0, 0.0
		for day := 1; day <= azureLookback; day++ {
			i := at - day*perDay
			if i < 0 {
				break
			}
			if i >= len(a.steps) {
				continue
			}
			w := 1.0
			if day%7 == 0 {
				w = 2
			}
			sum += w * a.steps[i]
			weight += w
		}
		most = math.Max(most, part(sum, weight))
	}
	return int(math.Ceil(most/a.target - 1e-9))
}
