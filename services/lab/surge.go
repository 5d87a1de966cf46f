package lab

import "math"

// Surge stands above a demand policy instead of a fixed cap: a count up to one and a half times the peak of the week that ended a day ago costs nothing; above
// it each replica-slot is paid from a credit of one normal day's spend that fills up within a week. A flash crowd of minutes passes; an attack of
// hours is stopped once it has cost a day. The last day has no part in the peak, so that what is being paid from credit does not raise its own cap.
type Surge struct {
	inner  Policy
	hour   int         // highest count of the hour so far
	hours  [8 * 24]int // of the last eight days, by hour
	n      int         // hours that have passed
	normal float64     // replicas of an ordinary slot
	credit float64     // replica-slots
}

// Constants of the specification.
const (
	surgeFree = 1.5            // of the peak
	surgeDays = 7              // for a full credit
	surgeFrom = 24             // hours of history before anything is capped
	surgeKeep = 1 - 1.0/40_320 // of the mean, per slot: a week
)

// NewSurge puts a credit above a policy.
func NewSurge(inner Policy) *Surge { return &Surge{inner: inner} }

// Credit left, in replica-slots.
func (a *Surge) Credit() float64 { return a.credit }

// Step decides for one slot.
func (a *Surge) Step(o *Observation) int {
	want := a.inner.Step(o)
	if a.n >= surgeFrom {
		day := a.normal * SlotsPerDay
		a.credit = min(day, a.credit+day/(surgeDays*SlotsPerDay))
		if over := want - a.free(); over > 0 {
			paid := min(over, int(a.credit))
			a.credit -= float64(paid)
			want -= over - paid
		}
	} else {
		a.credit = a.normal * SlotsPerDay
	}
	keep := min(surgeKeep, float64(o.Slot)/float64(o.Slot+1))
	a.normal = keep*a.normal + (1-keep)*float64(min(want, max(a.free(), 1)))
	a.hour = max(a.hour, want)
	if (o.Slot+1)%SlotsPerHour == 0 {
		a.hours[a.n%len(a.hours)] = a.hour
		a.n, a.hour = a.n+1, 0
	}
	return want
}

// free is the count that needs no credit.
func (a *Surge) free() int {
	peak := 0
	oldest, newest := max(0, a.n-len(a.hours)), a.n-surgeFrom
	if newest <= oldest { // the first day is all there is
		newest = a.n
	}
	for h := oldest; h < newest; h++ {
		peak = max(peak, a.hours[h%len(a.hours)])
	}
	if a.n < surgeFrom {
		return maxReplicas
	}
	return int(math.Ceil(surgeFree * float64(max(peak, 1))))
}
