// Package availability tells how likely an offering (a machine type in a zone, bought in one way) is to be had now and within the
// next hour, and how likely a machine of it is to survive that hour. It learns from a tenant's own attempts, notices, losses and
// running machines, and from prices; where nothing was seen it falls back on region, type and published interruption bands. It is
// pure: events in, probabilities out, the same bytes for the same events. It may never know how events are collected or kept, and
// it never decides what to buy.
package availability

import (
	"fmt"
	"time"

	"plimsoll.dev/services/fleet"
)

// Kind says what was seen.
type Kind string

// Kinds of events, from good news to bad. At one instant they are taken in this order, so that the worst news has the last word.
const (
	KindPrice     Kind = "price"     // Ratio: Spot price over on-demand price
	KindRunning   Kind = "running"   // machines of the offering are alive and no notice is out
	KindHad       Kind = "had"       // an attempt got a machine
	KindNotice    Kind = "notice"    // the cloud announced that it takes machines back
	KindLost      Kind = "lost"      // the cloud took machines back without (or instead of) a notice
	KindExhausted Kind = "exhausted" // an attempt failed for want of capacity: a stock-out
)

func (k Kind) rank() int {
	switch k {
	case KindPrice:
		return 0
	case KindRunning:
		return 1
	case KindHad:
		return 2
	case KindNotice:
		return 3
	case KindLost:
		return 4
	case KindExhausted:
		return 5
	}
	return -1
}

// Event is one piece of evidence about one offering.
type Event struct {
	At       time.Time
	Offering fleet.Offering
	Kind     Kind
	// Machines that were lost or are noticed, for KindNotice and KindLost. Zero means one.
	Machines int
	// Of is how many ran before that. Machines of one offering fail together, so a loss counts by its share: a pool of twenty
	// machines is one witness, not twenty. Zero means as many as were lost.
	Of int
	// Ratio is the Spot price over the on-demand price, for KindPrice.
	Ratio float64
}

// Validate refuses what the model cannot learn from.
func (e Event) Validate() error {
	switch {
	case e.Kind.rank() < 0:
		return fleet.Errorf(fleet.CodeInvalid, "unknown kind of event %q", e.Kind)
	case e.Offering.Cloud == "" || e.Offering.Region == "" || e.Offering.InstanceType == "" || e.Offering.Purchase == "":
		return fleet.Errorf(fleet.CodeInvalid, "the event does not say which offering it is about")
	case e.At.IsZero():
		return fleet.Errorf(fleet.CodeInvalid, "the event has no time")
	case e.Machines < 0 || e.Of < 0:
		return fleet.Errorf(fleet.CodeInvalid, "the event counts a negative number of machines")
	case e.Kind == KindPrice && !(e.Ratio > 0 && e.Ratio < maxRatio):
		return fleet.Errorf(fleet.CodeInvalid, "the price ratio is not between 0 and %d", maxRatio)
	}
	return nil
}

const maxRatio = 100

// share is how much of the pool a loss took, 0 to 1.
func (e Event) share() float64 {
	lost := max(e.Machines, 1)
	return float64(lost) / float64(max(e.Of, lost))
}

// Params are the constants of the model. Rates follow a power law of age: a state that has lasted long is likely to last longer.
type Params struct {
	LossFade   float64 // exponent of the age of "there" in the hazard of its loss; 0: the age does not matter
	ReturnFade float64 // exponent of the age of "not there" in the rate of its return
	AgeFloor   float64 // hours added to every age, so that a fresh state has a finite rate

	PoolHalfLife   float64 // hours after which what one offering showed counts half
	ParentHalfLife float64 // the same for the region's and the type's counts
	Strength       float64 // changes of state that the next wider level is worth in an offering's own estimate

	MoodHalfLife float64 // hours after which what happened to the neighbours counts half
	MoodSlack    float64 // observed hours of neighbours at which their mood counts half
	RegionLoss   float64 // how much the region's mood moves the log of the loss hazard
	RegionReturn float64 // the same for the rate of return
	Zone         float64 // the same for both, from all other offerings of the zone
}

// DefaultParams were fitted by `plimsoll market backtest -fit` on the first 22.75 days of nine zones of one GPU type; docs/availability.md
// has the command and what each is worth out of sample.
func DefaultParams() Params {
	return Params{
		LossFade: 0.5, ReturnFade: 0.4, AgeFloor: 0.1,
		PoolHalfLife: 72, ParentHalfLife: 72, Strength: 4,
		MoodHalfLife: 0.5, MoodSlack: 0.5, RegionLoss: 0.8, RegionReturn: 0.8, Zone: 1,
	}
}

// Validate refuses parameters for which the model has no meaning.
func (p Params) Validate() error {
	for _, c := range []struct {
		name      string
		v, lo, hi float64
	}{
		{"loss fade", p.LossFade, 0, 0.95}, {"return fade", p.ReturnFade, 0, 0.95}, {"age floor", p.AgeFloor, 0.001, 24},
		{"pool half-life", p.PoolHalfLife, 0.1, 1e5}, {"parent half-life", p.ParentHalfLife, 0.1, 1e5}, {"strength", p.Strength, 0.01, 1e4},
		{"mood half-life", p.MoodHalfLife, 0.01, 1e4}, {"mood slack", p.MoodSlack, 0.01, 1e4},
		{"region loss", p.RegionLoss, 0, 5}, {"region return", p.RegionReturn, 0, 5}, {"zone", p.Zone, 0, 5},
	} {
		if !(c.v >= c.lo && c.v <= c.hi) {
			return fleet.Errorf(fleet.CodeInvalid, "availability parameter %s must be from %v to %v, not %v", c.name, c.lo, c.hi, c.v)
		}
	}
	return nil
}

// Score is what the model thinks of one offering at one moment. All probabilities are from 0 to 1.
type Score struct {
	Offering fleet.Offering
	At       time.Time

	AvailableNow      float64 // an attempt now gets a machine
	AvailableNextHour float64 // at some moment of the next hour an attempt gets a machine
	StockOut          float64 // an attempt now fails: 1 - AvailableNow
	ReturnsNextHour   float64 // if an attempt now fails: at some moment of the next hour one succeeds
	SurvivesNextHour  float64 // a machine that runs now, or is had now, still runs in an hour
	Hazard            float64 // interruptions per machine-hour, mean over the next hour

	BackoffUntil time.Time // zero: none. Before then an attempt is not worth its trouble
	Failures     int       // in a row
	// Evidence, all faded by age: what is left of the counts now.
	Attempts, StockOuts, Interruptions, ObservedHours float64
	LastSeen                                          time.Time // newest event of the offering itself; zero: none
	PriorShare                                        float64   // how much of the estimate comes from elsewhere, mean of hazard and presence: 1 without own evidence
	PriceRatio                                        float64   // the last known one; 0: none
}

// String tells the score in one line for logs and tests.
func (s Score) String() string {
	return fmt.Sprintf("%s/%s/%s: now %.3f, hour %.3f, survives %.3f, prior %.2f", s.Offering.InstanceType, s.Offering.Zone, s.Offering.Purchase,
		s.AvailableNow, s.AvailableNextHour, s.SurvivesNextHour, s.PriorShare)
}
