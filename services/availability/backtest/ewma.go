package backtest

import (
	"math"
	"time"
)

// ewma is the plain hazard that many schedulers keep: changes of state over hours in the state, both halved after so long, for each offering alone. It
// knows neither how old a state is nor what the neighbours do, and begins with one change in the mean of the fitting part's time there and not there.
type ewma struct {
	halfLife               float64 // hours
	at                     time.Time
	there, known           bool
	losses, hours          float64
	returns, hoursAway     float64
	startLoss, startReturn float64 // hours that the first change is worth
}

func newEWMA(halfLife float64) *ewma {
	return &ewma{halfLife: halfLife, startLoss: 4, startReturn: 2}
}

// look takes the state at a moment.
func (e *ewma) look(at time.Time, there bool) {
	if e.known {
		gap := at.Sub(e.at).Hours()
		keep := math.Exp2(-gap / e.halfLife)
		e.losses, e.hours, e.returns, e.hoursAway = e.losses*keep, e.hours*keep, e.returns*keep, e.hoursAway*keep
		gap = min(gap, 1) // of a longer one nobody knows
		if e.there {
			e.hours += gap
		} else {
			e.hoursAway += gap
		}
		switch {
		case e.there && !there:
			e.losses++
		case !e.there && there:
			e.returns++
		}
	}
	e.at, e.there, e.known = at, there, true
}

func (e *ewma) loss() float64 { return (e.losses + 1) / (e.hours + e.startLoss) }

func (e *ewma) back() float64 { return (e.returns + 1) / (e.hoursAway + e.startReturn) }

// survives is the chance that what is there stays for so many hours.
func (e *ewma) survives(hours float64) float64 { return math.Exp(-e.loss() * hours) }

// found is the chance that some look of the next hour finds it, one look each gap.
func (e *ewma) found(gap time.Duration) float64 {
	away := math.Exp(-e.back())
	if e.there {
		return 1 - (1-e.survives(gap.Hours()))*away
	}
	return 1 - away
}

// attempt is the chance that a look so long after the last finds it.
func (e *ewma) attempt(gap time.Duration) float64 {
	if e.there {
		return e.survives(gap.Hours())
	}
	return 1 - math.Exp(-e.back()*gap.Hours())
}
