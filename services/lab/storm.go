package lab

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"plimsoll.dev/services/fleet"
)

// Storms on the market: the supply breaks while the need is known exactly, so that what differs is how a buyer finds capacity again.

const (
	stormSlots = 6 * SlotsPerHour
	stormFault = 4 * SlotsPerHour // by then every buyer holds what it would hold for long
	stormNeed  = 40               // replicas
	stormSpan  = SlotsPerHour / 2 // how long what has run out is out
	stormCap   = 120              // of all replicas
)

// Storm is a break of the supply.
type Storm struct {
	Name  string
	About string
	need  func(slot int) int
	stock func(pool, slot int) int32 // of the pools of Spot, the cheapest first
}

// Storms are the breaks that buyers are compared in.
func Storms() []Storm {
	during := func(slot int) bool { return within(slot, stormFault, stormSpan) }
	steady := func(int) int { return stormNeed }
	return []Storm{
		{Name: "ice-storm", About: "the need doubles while five of the six pools of Spot have run out for half an hour; what runs stays",
			need: func(slot int) int {
				if slot >= stormFault {
					return 2 * stormNeed
				}
				return stormNeed
			}, stock: nil},
		{Name: "mass-reclaim", About: "five of the six pools of Spot take everything back without a notice and have nothing for half an hour", need: steady,
			stock: func(pool, slot int) int32 {
				if pool < 5 && during(slot) {
					return 0
				}
				return stormNeed
			}},
		{Name: "both", About: "every pool of Spot takes everything back without a notice and has nothing for half an hour, and the need doubles",
			need: func(slot int) int {
				if slot >= stormFault {
					return 2 * stormNeed
				}
				return stormNeed
			}, stock: func(_, slot int) int32 {
				if during(slot) {
					return 0
				}
				return stormNeed
			}},
	}
}

// StormRow is what a buyer made of a storm.
type StormRow struct {
	Storm   string  `json:"storm"`
	Buyer   string  `json:"buyer"`
	Lost    int     `json:"lost_replicas"`
	Refused int     `json:"refused_launches"`
	Waited  int     `json:"waited"`      // replicas of the need that nothing served for a while
	P50     float64 `json:"p50_seconds"` // until something served them; those that nothing serves at the end count until then
	P95     float64 `json:"p95_seconds"`
	Longest float64 `json:"longest_seconds"`
	Cost    float64 `json:"cost_on_demand_hours"` // of two hours from the storm on
}

// The buyers of a storm.
const (
	StormOurs   = PlimsollMix
	StormLadder = "back-off ladder"
)

// PlayStorms plays every storm with the ladder, with what falls back to on demand at the first refusal, with SpotHedge and with our own buyer.
func PlayStorms() ([]StormRow, error) {
	out := []StormRow{}
	for _, storm := range Storms() {
		for _, b := range []struct {
			name string
			make func(Policy) Buyer
		}{
			{StormLadder, func(p Policy) Buyer { return &ladder{demand: p} }},
			{"spot-fallback", func(p Policy) Buyer { return &spotFallback{demand: p, share: 1} }},
			{"spothedge+1", func(p Policy) Buyer { return &spotHedge{demand: p, extra: 1} }},
			{StormOurs, func(p Policy) Buyer { return NewProcure(DefaultProcure(), p) }},
		} {
			row, err := storm.play(b.make(&known{need: storm.need}))
			if err != nil {
				return nil, err
			}
			row.Storm, row.Buyer = storm.Name, b.name
			out = append(out, row)
		}
	}
	return out, nil
}

// known is a demand that is told, not guessed.
type known struct {
	need func(slot int) int
	at   int
}

// Step says what the slot that comes needs.
func (k *known) Step(*Observation) int {
	k.at++
	return k.need(k.at)
}

// ladder is how Karpenter finds capacity, one rung at a time: what is missing is asked for in the cheapest pool, on demand included, that has not refused
// for three minutes (UnavailableOfferingsTTL of karpenter-provider-aws, pkg/cache) or since something began to be missing; a refusal is known after
// RefuseSlots, and the next rung is asked then.
type ladder struct {
	demand  Policy
	until   []int // slot up to which a pool is left out
	refused []bool
}

// Buy follows the total.
func (b *ladder) Buy(v *MarketView, targets []int) {
	if b.until == nil {
		b.until, b.refused = make([]int, len(v.Pools)), make([]bool, len(v.Pools))
	}
	held, had, next := 0, 0, -1
	for i := range v.Pools {
		p := &v.Pools[i]
		targets[i] = p.Held()
		held += targets[i]
		had += p.Ready + p.Starting
		if p.Failed > 0 {
			b.until[i], b.refused[i] = v.Slot+unavailableSlots, true
		}
		if b.until[i] <= v.Slot && !b.refused[i] && (next < 0 || p.Price < v.Pools[next].Price) {
			next = i
		}
	}
	want := b.demand.Step(&v.Observation)
	if had >= want {
		clear(b.refused)
	}
	if next >= 0 {
		targets[next] += missing(want, held)
	}
	dropSpot(v, targets, held-want)
}

func (m *Storm) play(b Buyer) (StormRow, error) {
	t := &Trace{Name: m.Name, Rho: make([]float64, stormSlots), From: stormFault, To: stormSlots}
	market := &Market{Name: m.Name, Silent: 1, Seed: 1, Pools: []Pool{OnDemand(stormSlots)}}
	for k := range 6 {
		p := Pool{Name: fmt.Sprintf("spot-%d", k), Region: fmt.Sprint(k / 3), Purchase: fleet.PurchaseSpot, Price: make([]int32, stormSlots), Stock: make([]int32, stormSlots)}
		for s := range stormSlots {
			p.Price[s], p.Stock[s] = int32(300_000+20_000*k), stormNeed
			if m.stock != nil {
				p.Stock[s] = m.stock(k, s)
			}
		}
		market.Pools = append(market.Pools, p)
	}
	cfg := MixConfig{BootSlots: 4, PullSlots: 6, WarmSlots: 2, DrainSlots: 2, RefuseSlots: 2, Max: stormCap}
	w, err := newRental(t, market, cfg, 0)
	if err != nil {
		return StormRow{}, err
	}
	row := StormRow{}
	view, targets, missed := MarketView{}, make([]int, len(market.Pools)), newWatch(m.need)
	for s := range stormSlots {
		if m.stock == nil && s == stormFault { // what runs stays, more there is not
			w.freeze(5, s, stormSpan)
		}
		w.advance(s, s >= stormFault)
		view.Slot, view.Starting, view.Pools = s, w.starting, w.views
		if s >= stormFault {
			for i := range w.views {
				row.Lost += w.views[i].Lost
				row.Refused += w.views[i].Failed
			}
			missed.slot(s, w.serving)
		}
		clear(targets)
		b.Buy(&view, targets)
		w.order(s+1, targets)
	}
	row.Waited, row.P50, row.P95, row.Longest = missed.result()
	row.Cost = float64(w.score.Cost) / FullPrice / SlotsPerHour
	return row, nil
}

// freeze leaves the first n pools of Spot with what they gave so far.
func (w *rental) freeze(n, from, slots int) {
	for i := range w.pools {
		if w.market.Pools[i].Purchase != fleet.PurchaseSpot || n == 0 {
			continue
		}
		n--
		for s := from; s < from+slots; s++ {
			w.market.Pools[i].Stock[s] = int32(w.pools[i].ready + w.pools[i].starting) //nolint:gosec // at most stormCap
		}
	}
}

// watch follows each replica of the need: since when nothing has served it.
type watch struct {
	need  func(int) int
	since []int // slot, by replica; -1: it is served
	waits []float64
	last  int
}

func newWatch(need func(int) int) *watch {
	w := &watch{need: need, since: make([]int, stormCap)}
	for i := range w.since {
		w.since[i] = -1
	}
	return w
}

func (w *watch) slot(s, serving int) {
	w.last = s
	for k := range w.since {
		switch missing := k < w.need(s) && k >= serving; {
		case missing && w.since[k] < 0:
			w.since[k] = s
		case !missing && w.since[k] >= 0:
			w.waits = append(w.waits, float64((s-w.since[k])*SlotSeconds))
			w.since[k] = -1
		}
	}
}

func (w *watch) result() (n int, p50, p95, longest float64) {
	all := slices.Clone(w.waits)
	for _, s := range w.since {
		if s >= 0 {
			all = append(all, float64((w.last+1-s)*SlotSeconds))
		}
	}
	slices.Sort(all)
	if n = len(all); n == 0 {
		return 0, 0, 0, 0
	}
	return n, all[n/2], all[n*95/100], all[n-1]
}

// WriteStorms prints the rows.
func WriteStorms(out io.Writer, rows []StormRow) error {
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "STORM\tBUYER\tLOST\tREFUSED\tWAITED\tP50 S\tP95 S\tLONGEST S\tCOST, ON-DEMAND HOURS")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.1f\n", r.Storm, r.Buyer, r.Lost, r.Refused, r.Waited, r.P50, r.P95, r.Longest, r.Cost)
	}
	return tw.Flush()
}
