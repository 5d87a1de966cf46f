package lab

import "math"

// Hour is one hour of a run.
type Hour struct {
	Hour      int     `json:"hour"` // from the start of the judged span
	Demand    float64 `json:"demand"`
	Peak      float64 `json:"peak"`
	Ready     float64 `json:"ready"` // mean
	Most      int     `json:"most"`  // asked for
	Orders    int     `json:"orders"`
	LateRatio float64 `json:"late_ratio"`
}

// Timeline plays a policy and returns the judged span hour by hour.
func Timeline(t *Trace, cfg Config, p Entry) []Hour {
	out := []Hour{}
	var h Hour
	var before Score
	policy := p.New(t, cfg)
	w := newRun(t, cfg)
	for !w.Over() {
		o := w.Advance()
		w.Order(policy.Step(&o))
		if o.Slot < t.From || o.Slot >= t.To {
			continue
		}
		h.Demand += t.Rho[o.Slot] / SlotsPerHour
		h.Peak = math.Max(h.Peak, t.Rho[o.Slot])
		h.Ready += float64(o.Ready) / SlotsPerHour
		h.Most = max(h.Most, o.Replicas())
		if n := o.Slot - t.From + 1; n%SlotsPerHour == 0 {
			now := w.score
			h.Hour = n/SlotsPerHour - 1
			h.Orders = now.Ups + now.Downs - before.Ups - before.Downs
			h.LateRatio = part(now.Late-before.Late, now.Requests-before.Requests)
			out = append(out, h)
			h, before = Hour{}, now
		}
	}
	return out
}
