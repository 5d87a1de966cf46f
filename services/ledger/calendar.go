package ledger

import (
	"time"

	"plimsoll.dev/services/fleet"
)

// Period is a unit of a calendar.
type Period string

// Periods. A fiscal year begins with the calendar's FirstMonth; quarters and halves are counted from there. Months are those of everybody.
const (
	PeriodDay     Period = "day"
	PeriodWeek    Period = "week"
	PeriodMonth   Period = "month"
	PeriodQuarter Period = "quarter"
	PeriodYear    Period = "year"
)

// Calendar is how a tenant counts its time.
type Calendar struct {
	Zone       *time.Location // nil: UTC
	FirstMonth time.Month     // of the fiscal year; zero: January
	WeekStart  time.Weekday
}

func (c Calendar) zone() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}

// Start of the period that holds t, shifted by so many periods: -1 is the one before. It is midnight of the calendar's zone, which is not
// always 24 hours after the midnight before. An unknown period is an error.
func (c Calendar) Start(p Period, t time.Time, shift int) (time.Time, error) {
	t = t.In(c.zone())
	y, m, d := t.Date()
	switch p {
	case PeriodDay:
		return c.date(y, m, d+shift), nil
	case PeriodWeek:
		back := (int(t.Weekday()) - int(c.WeekStart) + 7) % 7
		return c.date(y, m, d-back+7*shift), nil
	case PeriodMonth:
		return c.date(y, m+time.Month(shift), 1), nil
	case PeriodQuarter:
		return c.date(y, m-time.Month(c.into(m)%3)+time.Month(3*shift), 1), nil
	case PeriodYear:
		return c.date(y+shift, m-time.Month(c.into(m)), 1), nil
	}
	return time.Time{}, fleet.Errorf(fleet.CodeInvalid, "there is no period %q", string(p))
}

// date is midnight, or where the zone skips midnight the first moment of the day.
func (c Calendar) date(y int, m time.Month, d int) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, c.zone())
	// Where clocks go forward at midnight, Go gives the moment an hour before, which is the day before.
	if want := time.Date(y, m, d, 12, 0, 0, 0, c.zone()); t.Day() != want.Day() {
		t = t.Add(time.Hour)
	}
	return t.UTC()
}

// into is how many months of the fiscal year are over when m begins.
func (c Calendar) into(m time.Month) int {
	first := c.FirstMonth
	if first == 0 {
		first = time.January
	}
	return (int(m) - int(first) + 12) % 12
}

// Span of the period that holds t, shifted by so many periods, in whole hours: costs are kept by hours of UTC, and an hour belongs to the
// period in which it begins. Spans of neighbouring periods meet without a gap and without an overlap.
func (c Calendar) Span(p Period, t time.Time, shift int) (fleet.Interval, error) {
	from, err := c.Start(p, t, shift)
	if err != nil {
		return fleet.Interval{}, err
	}
	to, err := c.Start(p, t, shift+1)
	return fleet.Interval{From: WholeHour(from), To: WholeHour(to)}, err
}

// WholeHour is t, or the next full hour of UTC after it.
func WholeHour(t time.Time) time.Time {
	h := t.UTC().Truncate(time.Hour)
	if h.Before(t) {
		h = h.Add(time.Hour)
	}
	return h
}

// FiscalYear is the year by which a fiscal year is called: that in which it ends.
func (c Calendar) FiscalYear(t time.Time) int {
	t = t.In(c.zone())
	y := t.Year()
	if c.FirstMonth > time.January && t.Month() >= c.FirstMonth {
		y++
	}
	return y
}
