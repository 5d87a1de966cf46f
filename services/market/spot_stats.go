package market

import (
	"math"
	"math/bits"
	"time"

	"plimsoll.dev/services/fleet"
)

// SpotBucket sums up a pool's price over one step of time. A price that was never listed in it is none.
type SpotBucket struct {
	At                  time.Time // its beginning
	Min, Max, Avg, Last Listed    // Avg is weighted by time; Last is none when Spot was gone at the end
	OnDemand            Listed    // at the end
}

// SpotBuckets divides [from, to) into steps. changes are sorted and begin with the one in force at from, where there is one.
func SpotBuckets(changes []SpotChange, from, to time.Time, step time.Duration) []SpotBucket {
	stepSec := int64(step / time.Second)
	start, end := from.Unix(), to.Unix()
	if stepSec <= 0 || end <= start {
		return nil
	}
	out := make([]SpotBucket, 0, (end-start+stepSec-1)/stepSec)
	for at := start; at < end; at += stepSec {
		out = append(out, bucketOf(changes, at, min(at+stepSec, end)))
		for len(changes) > 1 && changes[1].At <= at+stepSec { // only the last before the next bucket still counts
			changes = changes[1:]
		}
	}
	return out
}

func bucketOf(changes []SpotChange, start, end int64) SpotBucket {
	b := SpotBucket{At: time.Unix(start, 0).UTC()}
	var sum weighted
	for i, c := range changes {
		if c.At >= end {
			break
		}
		until := end
		if i+1 < len(changes) {
			until = min(until, changes[i+1].At)
		}
		if until <= start {
			continue
		}
		b.Last, b.OnDemand = c.Spot, c.OnDemand
		if c.Spot > 0 {
			sum.add(c.Spot, until-max(c.At, start))
			b.Max = max(b.Max, c.Spot)
			if b.Min == 0 || c.Spot < b.Min {
				b.Min = c.Spot
			}
		}
	}
	b.Avg = sum.mean()
	return b
}

// weighted is an exact mean over time: 128 bits hold any price over any number of years.
type weighted struct {
	hi, lo  uint64
	seconds uint64
}

func (w *weighted) add(l Listed, seconds int64) {
	if l <= 0 || seconds <= 0 {
		return
	}
	hi, lo := bits.Mul64(uint64(l), uint64(seconds))
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, lo, 0)
	w.hi += hi + carry
	w.seconds += uint64(seconds)
}

func (w *weighted) mean() Listed {
	if w.seconds == 0 {
		return 0
	}
	lo, carry := bits.Add64(w.lo, w.seconds/2, 0)
	q, _ := bits.Div64(w.hi+carry, lo, w.seconds)
	return Listed(q) //nolint:gosec // a mean of Listed is one
}

// JumpAbove is the relative step from which a price change counts as a jump.
const JumpAbove = 0.1

// SpotStats describe a pool's price over a window. Shares are 0 to 1; ratios are NaN-free: a figure that needs what was not there
// is nil.
type SpotStats struct {
	ListedShare     float64      // of the window, with a Spot price
	Level           *fleet.Money // mean over the listed time
	Min, Max        *fleet.Money
	Last            *fleet.Money // at the window's end; nil: no Spot then
	OnDemand        *fleet.Money // mean over the listed time
	Discount        *float64     // 1 - level / on demand, over the time with both
	ChangesPerDay   float64      // of listed time, as seen: changes between two looks are not
	Volatility      *float64     // standard deviation of the logarithm's daily change
	JumpProbability *float64     // of at least one step of more than JumpAbove within a day
}

// SpotStatistics computes them over [from, to). changes are sorted and begin with the one in force at from, where there is one.
func SpotStatistics(changes []SpotChange, from, to time.Time) SpotStats {
	start, end := from.Unix(), to.Unix()
	if end <= start {
		return SpotStats{}
	}
	var spot, list, spotOfBoth, listOfBoth weighted
	var b SpotBucket
	var squares float64
	var moves, jumps int
	var before Listed
	for i, c := range changes {
		if c.At >= end {
			break
		}
		until := end
		if i+1 < len(changes) {
			until = min(until, changes[i+1].At)
		}
		if until <= start {
			continue
		}
		seconds := until - max(c.At, start)
		spot.add(c.Spot, seconds)
		if c.Spot > 0 {
			list.add(c.OnDemand, seconds)
			b.Max = max(b.Max, c.Spot)
			if b.Min == 0 || c.Spot < b.Min {
				b.Min = c.Spot
			}
			if c.OnDemand > 0 {
				spotOfBoth.add(c.Spot, seconds)
				listOfBoth.add(c.OnDemand, seconds)
			}
		}
		if before > 0 && c.Spot > 0 && c.Spot != before && c.At >= start {
			r := math.Log(float64(c.Spot) / float64(before))
			squares += r * r
			moves++
			if math.Abs(math.Expm1(r)) > JumpAbove {
				jumps++
			}
		}
		before, b.Last = c.Spot, c.Spot
	}
	s := SpotStats{ListedShare: float64(spot.seconds) / float64(end-start), Level: spot.mean().Money(), Min: b.Min.Money(), Max: b.Max.Money(),
		Last: b.Last.Money(), OnDemand: list.mean().Money()}
	if m := listOfBoth.mean(); m > 0 {
		d := 1 - float64(spotOfBoth.mean())/float64(m)
		s.Discount = &d
	}
	if days := float64(spot.seconds) / 86400; days > 0 {
		volatility, jump := math.Sqrt(squares/days), -math.Expm1(-float64(jumps)/days)
		s.ChangesPerDay, s.Volatility, s.JumpProbability = float64(moves)/days, &volatility, &jump
	}
	return s
}
