// Package quantile is the policy that sizes a service by its service level objective: several forecasts of the demand at the time an order of
// replicas becomes ready, each with the distribution of its own errors learned as it goes; and for every (forecast, quantile, hold) a
// shadow, a small queue that is run beside the real one as if it had been in charge. Once an hour the cheapest shadow that would have
// been on time takes over. Nothing is tuned by hand and nothing is replayed: a step costs the same however long the history is.
// It is pure and knows nothing but numbers: room lab scores it, and room optimizer decides with it. It never acts, and it may never read
// a clock.
package quantile

// The grain of time.
const (
	SlotSeconds = 15 // one step
	hourSlots   = 3600 / SlotSeconds
	daySlots    = 24 * hourSlots
	weekSlots   = 7 * daySlots
)

// maxColdSlots bounds a start: an hour.
const maxColdSlots = hourSlots

// maxReplicas is the most that is ever asked for.
const maxReplicas = 100_000

// Gauges is what is measured of a service in one slot, at its end.
type Gauges struct {
	Busy  float64 // replicas in use, mean over the slot
	Queue float64 // requests waiting at its end
	Rate  float64 // requests per second that arrived
}

// Params has what a person, or another service than the scoreboard's, may set. WithDefaults fills in what is zero.
type Params struct {
	// ColdSlots is how many slots pass from an order to the first one that it serves. Default 12 (180 s), at most 240 (an hour).
	ColdSlots int
	// Late is the share of late requests that is aimed at, nine tenths of the objective. Default 0.009. Shadows are chosen by a part of it,
	// since who is chosen for few late requests was lucky too.
	Late float64
	// LateSeconds: a request that waits longer to start is late. Default 5.
	LateSeconds float64
	// HalfLifeDays after which experience counts half. Default 4; +Inf: it never fades.
	HalfLifeDays float64
	// Cycle is what one up-down-up is worth avoiding, in replica-slots. Default 200 (a replica for 50 minutes).
	Cycle float64
	// CatchUpSeconds within which a backlog that makes requests late is worked off. Default 65.
	CatchUpSeconds float64
	// Quantiles of the forecasts' errors, and Holds in replica-slots: together with the forecasts they are the shadows. A hold is how long one
	// spare replica is kept; n of them are kept for a n-th of it, two minutes at least. Ascending, at most 16 of each, a hold at most a day.
	// Defaults: 0.55 to 0.997 in ten, and 4 minutes to 5 hours in six.
	Quantiles []float64
	Holds     []int
	// Prior is the share of late requests that shadows had elsewhere, per forecast, as it would be with every slot over the quantile at a hold of half an
	// hour; it falls with rarer slots (power 0.65) and longer holds (0.3). How many times as late this load is, is learned from all shadows
	// together; what follows from both counts as PriorHours of experience beside each shadow's own. The defaults are measured on the single days of
	// the first week of four workloads in docs/replay.md, and 150 hours.
	Prior      [Casts]float64
	PriorHours float64
	// First is the shadow in charge of the first hour: by forecast, and index of quantile and hold. Default: the trend at 0.985, a hold of 120.
	First *Choice
}

// Choice names a shadow.
type Choice struct {
	Cast     Cast
	Quantile int // index
	Hold     int // index
}

// WithDefaults fills in what is zero. Applying it twice equals applying it once.
func (p Params) WithDefaults() Params {
	if p.ColdSlots == 0 {
		p.ColdSlots = 12
	}
	p.ColdSlots = min(max(p.ColdSlots, 1), maxColdSlots)
	for _, d := range []struct {
		v   *float64
		def float64
	}{{&p.Late, 0.009}, {&p.LateSeconds, 5}, {&p.HalfLifeDays, 4}, {&p.Cycle, 200}, {&p.CatchUpSeconds, 65}, {&p.PriorHours, 150}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if len(p.Quantiles) == 0 {
		p.Quantiles = []float64{0.55, 0.70, 0.80, 0.88, 0.92, 0.95, 0.97, 0.985, 0.993, 0.997}
	}
	if len(p.Holds) == 0 {
		p.Holds = []int{15, 50, 120, 300, 600, 1200}
	}
	if p.Prior == ([Casts]float64{}) {
		p.Prior = [Casts]float64{CastShort: 0.0110, CastMiddle: 0.0247, CastTrend: 0.0052, CastLinear: 0.0263, CastUpper: 0.0177}
	}
	if p.First == nil {
		p.First = &Choice{Cast: CastTrend, Quantile: min(7, len(p.Quantiles)-1), Hold: min(2, len(p.Holds)-1)}
	}
	return p
}
