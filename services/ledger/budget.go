package ledger

import (
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// Basis says which figure a threshold is held against.
type Basis string

// Bases of a budget threshold.
const (
	BasisActual   Basis = "actual"
	BasisForecast Basis = "forecast"
)

// Spend is the cost of one UTC day.
type Spend struct {
	Day    time.Time
	Amount fleet.Money
}

// Outlook of the month that now lies in.
type Outlook struct {
	From, To time.Time   // the month, [From, To), UTC
	ToDate   fleet.Money // spent so far
	Forecast fleet.Money // at the month's end, if the recent rate holds
	Rate     fleet.Money // per day, that the forecast used
	Known    bool        // false: there was nothing to take a rate from; Forecast is then ToDate
}

// rateDays is how many days back the forecast takes its rate from: a full week, so that weekends count as often as they come.
const rateDays = 7

// Look adds up the month and draws a line to its end with the mean rate of the last seven days (of fewer, when fewer have any
// cost). days may be in any order and reach into the month before.
func Look(days []Spend, now time.Time) Outlook {
	now = now.UTC()
	o := Outlook{From: time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)}
	o.To = o.From.AddDate(0, 1, 0)
	today := now.Truncate(24 * time.Hour)
	window := fleet.Interval{From: today.AddDate(0, 0, 1-rateDays), To: now}
	first := now
	var recent fleet.Money
	for _, d := range days {
		if !d.Day.Before(o.From) && d.Day.Before(o.To) {
			o.ToDate = o.ToDate.Add(d.Amount)
		}
		if !d.Day.Before(window.From) && !d.Day.After(now) && d.Amount != 0 {
			recent = recent.Add(d.Amount)
			if d.Day.Before(first) {
				first = d.Day
			}
		}
	}
	o.Forecast = o.ToDate
	elapsed := int64(now.Sub(first).Seconds())
	if elapsed < int64(time.Hour.Seconds()) {
		return o
	}
	o.Known = true
	o.Rate = recent.MulDiv(24*3600, elapsed)
	o.Forecast = o.ToDate.Add(recent.MulDiv(int64(o.To.Sub(now).Seconds()), elapsed))
	return o
}

// Crossing is a threshold of a budget that a figure has reached.
type Crossing struct {
	Basis   Basis
	Percent int
	Figure  fleet.Money
}

// Crossed lists the thresholds (percent of limit) that the outlook reaches, actual before forecast, rising. A threshold that the
// actual figure reaches is not reported for the forecast as well.
func Crossed(limit fleet.Money, thresholds []int, o Outlook) []Crossing {
	sorted := slices.Clone(thresholds)
	slices.Sort(sorted)
	var actual, forecast []Crossing
	for _, percent := range slices.Compact(sorted) {
		at := limit.MulDiv(int64(percent), 100)
		switch {
		case percent <= 0 || limit <= 0:
		case o.ToDate >= at:
			actual = append(actual, Crossing{BasisActual, percent, o.ToDate})
		case o.Known && o.Forecast >= at:
			forecast = append(forecast, Crossing{BasisForecast, percent, o.Forecast})
		}
	}
	return append(actual, forecast...)
}
