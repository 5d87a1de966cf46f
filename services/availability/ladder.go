package availability

import (
	"math"
	"time"

	"plimsoll.dev/services/fleet"
)

const (
	// attemptTime is how long a cloud takes to say no.
	attemptTime = 15 * time.Second
	// sameZone is what is left of a rung's chance when an attempt in its zone has just failed: a zone is one failure domain.
	sameZone = 0.5
	// ladderLimit ends the look ahead: whoever has no machine after a day needs another ladder.
	ladderLimit = 24 * time.Hour
	maxRungs    = 64
)

// Wait is how long a ladder of offerings needs for the first machine, without its boot.
type Wait struct {
	Expected   time.Duration // mean; at most 24 h, which stands for "not within a day"
	WithinHour float64       // chance of a machine within the hour
	First      float64       // chance that the first pass over all rungs succeeds
}

// ExpectedWait tries the rungs in order, each when its back-off allows, then waits and goes around again with doubled waits from 2 to
// 30 minutes. Only the first 64 rungs count.
func (m *Model) ExpectedWait(ladder []fleet.Offering, now time.Time) Wait {
	ladder = ladder[:min(len(ladder), maxRungs)]
	if len(ladder) == 0 {
		return Wait{Expected: ladderLimit}
	}
	w := walker{left: 1}
	type rung struct {
		score Score
		ready time.Duration // from now
	}
	rungs := make([]rung, len(ladder))
	for i, o := range ladder {
		s := m.Score(o, now)
		rungs[i] = rung{s, max(s.BackoffUntil.Sub(now), 0)}
	}
	failed := map[string]bool{}
	for i := range rungs {
		r := &rungs[i]
		if r.ready > w.at {
			continue // its back-off is not over: a later pass has it
		}
		p := r.score.AvailableNow
		if zone := r.score.Offering.Region + "/" + r.score.Offering.Zone; failed[zone] {
			p *= sameZone
		} else {
			failed[zone] = true
		}
		w.try(p)
	}
	first := 1 - w.left
	delay := firstBackoff
	for w.at < ladderLimit && w.left > 1e-6 {
		from := w.at
		w.at += delay
		delay = min(2*delay, lastBackoff)
		for i := range rungs {
			if r := &rungs[i]; r.ready <= w.at {
				w.try(returned(r.score, w.at-from))
			}
		}
	}
	w.mean += w.left * ladderLimit.Seconds()
	return Wait{time.Duration(math.Min(w.mean, ladderLimit.Seconds()) * float64(time.Second)), clamp(w.hour, 0, 1), first}
}

// returned is the chance that an offering that was not there is there after a wait.
func returned(s Score, wait time.Duration) float64 {
	return 1 - math.Pow(clamp(1-s.ReturnsNextHour, 1e-6, 1), wait.Hours())
}

type walker struct {
	at         time.Duration
	left       float64 // chance that nothing was had so far
	mean, hour float64 // seconds; chance within the hour
}

func (w *walker) try(p float64) {
	w.at += attemptTime
	got := w.left * clamp(p, 0, 1)
	w.mean += got * w.at.Seconds()
	if w.at <= time.Hour {
		w.hour += got
	}
	w.left -= got
}
