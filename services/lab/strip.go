package lab

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// Strip is a stretch of the judged span in equal buckets: what was needed, what policies wanted and had ready, and what the bound runs.
type Strip struct {
	From   int // slots from the start of the judged span
	Slots  int
	Bucket int // slots of each; the last may be shorter
	Demand []float64
	Bound  []float64 // mean replicas of a cheapest schedule; nil where the load is impossible
	Lines  []StripLine
}

// StripLine is one policy in a Strip: means of the buckets, and how many requests of each were late.
type StripLine struct {
	Policy              string
	Wanted, Ready, Late []float64
}

// stripPoints is how many buckets a strip has at most; zoomSlots is the length of the closer one.
const (
	stripPoints = 360
	zoomSlots   = 6 * SlotsPerHour
)

// playedSlots is a policy slot by slot over the judged span.
type playedSlots struct {
	name                string
	wanted, ready, late []float64
}

func playSlots(t *Trace, cfg Config, p Entry) playedSlots {
	out := playedSlots{name: p.Name}
	policy, w := p.New(t, cfg), newRun(t, cfg)
	late := 0.0
	for !w.Over() {
		o := w.Advance()
		want := policy.Step(&o)
		w.Order(want)
		if o.Slot >= t.From && o.Slot < t.To {
			out.wanted = append(out.wanted, float64(min(max(want, cfg.Min), cfg.Max)))
			out.ready = append(out.ready, float64(o.Ready))
			out.late = append(out.late, w.score.Late-late)
		}
		late = w.score.Late
	}
	return out
}

// Strips plays policies and returns the whole judged span, and the six hours of it in which the first of them left most requests late (the busiest ones if it
// left nobody late). Same load and policies, same numbers.
func Strips(l Load, policies []Entry) (whole, zoom Strip, err error) {
	t := l.Trace
	if len(policies) == 0 || t.To <= t.From {
		return whole, zoom, fleet.Errorf(fleet.CodeInvalid, "trace %s: %d policies over %d slots; want at least one of each", t.Name, len(policies), t.To-t.From)
	}
	plays := make([]playedSlots, 0, len(policies))
	for _, p := range policies {
		plays = append(plays, playSlots(t, l.Config, p))
	}
	var bound []float64
	if int(math.Ceil(t.Peak())) <= l.Config.Max {
		schedule, err := Schedule(t, l.Config)
		if err != nil {
			return whole, zoom, err
		}
		for _, n := range schedule {
			bound = append(bound, float64(n))
		}
	}
	slots := t.To - t.From
	whole = strip(t, plays, bound, 0, slots)
	from := worst(plays[0].late, zoomSlots)
	if from < 0 {
		from = worst(t.Rho[t.From:t.To], zoomSlots)
	}
	from = max(from, 0)
	return whole, strip(t, plays, bound, from, min(from+zoomSlots, slots)), nil
}

// worst is where the n values with the highest sum begin, on a full hour; -1 when there is nothing.
func worst(values []float64, n int) int {
	at, most := -1, 0.0
	for from := 0; from == 0 || from+n <= len(values); from += SlotsPerHour {
		sum := 0.0
		for _, v := range values[from:min(from+n, len(values))] {
			sum += v
		}
		if sum > most+1e-9 {
			at, most = from, sum
		}
	}
	return at
}

func strip(t *Trace, plays []playedSlots, bound []float64, from, to int) Strip {
	s := Strip{From: from, Slots: to - from, Bucket: max(1, (to-from+stripPoints-1)/stripPoints)}
	s.Demand = s.buckets(t.Rho[t.From+from:t.From+to], peakIn)
	if bound != nil {
		s.Bound = s.buckets(bound[from:to], meanIn)
	}
	for i := range plays {
		p := &plays[i]
		s.Lines = append(s.Lines, StripLine{p.name, s.buckets(p.wanted[from:to], meanIn), s.buckets(p.ready[from:to], meanIn), s.buckets(p.late[from:to], sumIn)})
	}
	return s
}

func (s *Strip) buckets(values []float64, of func([]float64) float64) []float64 {
	out := []float64{}
	for at := 0; at < len(values); at += s.Bucket {
		out = append(out, of(values[at:min(at+s.Bucket, len(values))]))
	}
	return out
}

func peakIn(values []float64) float64 {
	most := values[0]
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

func sumIn(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum
}

func meanIn(values []float64) float64 { return sumIn(values) / float64(len(values)) }
