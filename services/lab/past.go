package lab

import (
	"math"
	"sort"
	"time"

	"plimsoll.dev/services/fleet"
)

// PastRow is one bucket of a workload's own history, as roll-ups keep it: means over the bucket; nil means that nobody said.
type PastRow struct {
	At          time.Time
	RequestRate *float64 // requests per second
	Queue       *float64 // waiting requests
	Running     *float64 // requests in service
	TokensIn    *float64 // per second
	TokensOut   *float64
}

// Past is what a history was made into, and what it lacks.
type Past struct {
	Trace   *Trace
	Buckets int    // that were asked for
	Unknown int    // of them without a value; the last known demand is held over them
	Longest int    // of the gaps, in buckets
	Known   []bool // by bucket
	Basis   string
}

// What a demand was computed from.
const (
	BasisTokens   = "tokens"   // tokens in and out per second
	BasisRequests = "requests" // requests in service
)

// Bounds of a history: buckets of a minute or an hour, at least two hours, at most a fifth of them unknown.
const (
	minPastSeconds  = 2 * 3600
	maxPastUnknown  = 0.2
	maxPastValue    = 1e9
	maxBucketSecond = 3600
)

// FromPast turns a workload's own history into a trace to replay policies on: what arrived as work, in replica units, bucket by bucket. Where
// tokens are known they say the work, otherwise the requests in service times the share of a replica that one holds; a queue that grew in a
// bucket arrived in it. Within a bucket the demand is even: minutes hide what happens within them, so that the real load is a little harder.
// history is how much of the start may only be learned from.
func FromPast(name string, rows []PastRow, bucket time.Duration, r Replica, history time.Duration) (*Past, error) {
	refuse := func(format string, args ...any) error {
		return fleet.Errorf(fleet.CodeInvalid, "history of %s: "+format, append([]any{name}, args...)...)
	}
	step := int(bucket / time.Second)
	if bucket%time.Second != 0 || step < SlotSeconds || step > maxBucketSecond || step%SlotSeconds != 0 {
		return nil, refuse("buckets of %v; want a multiple of %d s up to an hour", bucket, SlotSeconds)
	}
	if len(rows) == 0 || !r.Valid() {
		return nil, refuse("%d rows and a replica of %+v: nothing to replay", len(rows), r)
	}
	rows = append([]PastRow(nil), rows...)
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].At.Before(rows[j].At) })
	first, last := rows[0].At, rows[len(rows)-1].At
	n := int(last.Sub(first)/bucket) + 1
	if n*step > maxSlots*SlotSeconds || n*step < minPastSeconds {
		return nil, refuse("it spans %v; want two hours to %d days", last.Sub(first)+bucket, maxSlots/SlotsPerDay)
	}
	basis := basisOf(rows)
	if basis == "" {
		return nil, refuse("no row has tokens per second or running requests: the demand is not known")
	}
	share := 1 / (r.OutputPerSecond * r.SecondsPerToken)
	p := &Past{Buckets: n, Basis: basis}
	work, rate, queue := make([]float64, n), make([]float64, n), make([]float64, n)
	known := make([]bool, n)
	for i, row := range rows {
		off := row.At.Sub(first)
		k := int(off / bucket)
		if off%bucket != 0 || i > 0 && row.At.Equal(rows[i-1].At) {
			return nil, refuse("row %d at %s: want one row per %v", i+1, row.At.UTC().Format(time.RFC3339), bucket)
		}
		for _, f := range []struct {
			name string
			v    *float64
		}{{"request_rate", row.RequestRate}, {"queue_length", row.Queue}, {"running_requests", row.Running}, {"tokens_in_per_second", row.TokensIn}, {"tokens_out_per_second", row.TokensOut}} {
			if f.v != nil && !(*f.v >= 0 && *f.v <= maxPastValue) {
				return nil, refuse("row %d at %s: %s is %v; want 0 to %g", i+1, row.At.UTC().Format(time.RFC3339), f.name, *f.v, maxPastValue)
			}
		}
		busy, ok := row.busy(basis, r, share)
		if !ok {
			continue
		}
		known[k], work[k] = true, busy
		rate[k], queue[k] = valueOr(row.RequestRate, 0), valueOr(row.Queue, 0)
	}
	p.Known = known
	p.fill(known, work, rate, queue)
	if float64(p.Unknown) > maxPastUnknown*float64(n) {
		return nil, refuse("%d of its %d buckets are not known; want at most %.0f %%", p.Unknown, n, 100*maxPastUnknown)
	}
	return p, p.trace(name, step, work, rate, queue, share, history)
}

func valueOr(v *float64, def float64) float64 {
	if v == nil {
		return def
	}
	return *v
}

// basisOf is what most rows can say: tokens are better, if at least half of the rows that say anything have them.
func basisOf(rows []PastRow) string {
	tokens, running := 0, 0
	for _, r := range rows {
		if r.TokensIn != nil && r.TokensOut != nil {
			tokens++
		}
		if r.Running != nil {
			running++
		}
	}
	switch {
	case tokens > 0 && tokens*2 >= running:
		return BasisTokens
	case running > 0:
		return BasisRequests
	}
	return ""
}

// busy is the replicas in use.
func (row *PastRow) busy(basis string, r Replica, share float64) (float64, bool) {
	switch {
	case basis == BasisTokens && row.TokensIn != nil && row.TokensOut != nil:
		return *row.TokensIn/r.PromptPerSecond + *row.TokensOut/r.OutputPerSecond, true
	case basis == BasisRequests && row.Running != nil:
		return *row.Running * share, true
	}
	return 0, false
}

// fill holds the last known bucket over those that nobody told of, and counts them. What comes before the first known one takes its value.
func (p *Past) fill(known []bool, series ...[]float64) {
	firstKnown := 0
	for firstKnown < len(known)-1 && !known[firstKnown] {
		firstKnown++
	}
	run := 0
	for i := range known {
		if known[i] {
			run = 0
			continue
		}
		p.Unknown++
		run++
		p.Longest = max(p.Longest, run)
		from := firstKnown
		if i > firstKnown {
			from = i - 1
		}
		for _, s := range series {
			s[i] = s[from]
		}
	}
}

func (p *Past) trace(name string, step int, work, rate, queue []float64, share float64, history time.Duration) error {
	per := step / SlotSeconds
	t := &Trace{Name: name, Share: share, Rho: make([]float64, len(work)*per), Requests: make([]float64, len(work)*per), To: len(work) * per}
	done, came := 0.0, 0.0
	for i := range work {
		done, came = done+work[i], came+rate[i]
	}
	cost := part(done, came) // replica-seconds of one request
	before := queue[0]
	for i := range work {
		arrived := math.Max(0, work[i]+(queue[i]-before)*cost/float64(step))
		before = queue[i]
		for k := range per {
			t.Rho[i*per+k] = arrived
			t.Requests[i*per+k] = rate[i] * SlotSeconds
		}
	}
	t.From = int(history / (SlotSeconds * time.Second))
	if t.From >= t.To {
		return fleet.Errorf(fleet.CodeInvalid, "history of %s: all of its %v are for learning, nothing is left to judge", name, time.Duration(len(work)*step)*time.Second)
	}
	p.Trace = t
	return t.Check()
}
