package ledger

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

const unit = fleet.NanosPerUnit

func TestWhyACostChanged(t *testing.T) {
	t.Parallel()
	gpu := func(variant string, hours float64, amount fleet.Money) Cell {
		return Cell{Group: "red", Resource: ResourceGPU, Variant: variant, Quantity: hours, Amount: amount * unit}
	}
	for name, tc := range map[string]struct {
		before, after []Cell
		want          Change
	}{
		"twice the hours at the same price": {[]Cell{gpu("od", 10, 40)}, []Cell{gpu("od", 20, 80)}, Change{Before: 40, After: 80, Quantity: 40}},
		"the same hours at half the price":  {[]Cell{gpu("od", 10, 40)}, []Cell{gpu("od", 10, 20)}, Change{Before: 40, After: 20, Price: -20}},
		"half of the hours moved to spot, which is a quarter of the price": {[]Cell{gpu("od", 8, 32), gpu("spot", 2, 2)}, []Cell{gpu("od", 4, 16), gpu("spot", 6, 6)},
			Change{Before: 34, After: 22, Mix: -12}},
		"spot that was not there before is mix":     {[]Cell{gpu("od", 10, 40)}, []Cell{gpu("od", 5, 20), gpu("spot", 5, 5)}, Change{Before: 40, After: 25, Mix: -15}},
		"a group that is new":                       {nil, []Cell{gpu("od", 1, 4)}, Change{After: 4, Quantity: 4}},
		"a group that is gone":                      {[]Cell{gpu("od", 1, 4)}, nil, Change{Before: 4, Quantity: -4}},
		"more hours, dearer, and less of the cheap": {[]Cell{gpu("od", 5, 20), gpu("spot", 5, 5)}, []Cell{gpu("od", 16, 80), gpu("spot", 4, 4)}, Change{Before: 25, After: 84, Quantity: 25, Mix: 18, Price: 16}},
		"an amount without hours":                   {[]Cell{gpu("od", 0, 3)}, []Cell{gpu("od", 0, -1)}, Change{Before: 3, After: -1, Quantity: -4}},
	} {
		got := Compare(tc.before, tc.after)
		tc.want.Group = "red"
		for _, m := range []*fleet.Money{&tc.want.Before, &tc.want.After, &tc.want.Quantity, &tc.want.Mix, &tc.want.Price} {
			*m *= unit
		}
		if len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestTheThreeReasonsAddUpToTheChange(t *testing.T) {
	t.Parallel()
	cells := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Cell {
		return Cell{Group: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"), Resource: rapid.SampledFrom([]Resource{ResourceCPU, ResourceGPU}).Draw(t, "resource"),
			Variant: rapid.SampledFrom([]string{"on_demand", "spot", "reserved"}).Draw(t, "variant"), Amount: fleet.Money(rapid.Int64Range(-1e12, 1e15).Draw(t, "amount")),
			Quantity: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0.001, 1e6)).Draw(t, "quantity")}
	}), 0, 30)
	rapid.Check(t, func(t *rapid.T) {
		before, after := cells.Draw(t, "before"), cells.Draw(t, "after")
		var was, is, sum fleet.Money
		for _, c := range before {
			was += c.Amount
		}
		for _, c := range after {
			is += c.Amount
		}
		for _, c := range Compare(before, after) {
			if c.Quantity+c.Mix+c.Price != c.After-c.Before {
				t.Fatalf("%+v does not add up", c)
			}
			sum += c.After - c.Before
		}
		if sum != is-was {
			t.Fatalf("groups changed by %d, costs by %d", sum, is-was)
		}
	})
}

func TestAPriceOfAMinuteExplainsNoMonth(t *testing.T) {
	t.Parallel()
	got := Compare([]Cell{{Group: "c", Resource: ResourceGPU, Variant: "on_demand", Amount: 1503753123281, Quantity: 0.03125}},
		[]Cell{{Group: "c", Resource: ResourceGPU, Variant: "on_demand", Amount: 0, Quantity: 191673.99999952316}})
	if want := (Change{Group: "c", Before: 1503753123281, Quantity: -1503753123281}); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestOneReasonAloneIsNamedAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var before, longer, dearer []Cell
		by := rapid.Int64Range(2, 9).Draw(t, "by")
		for _, v := range []string{"on_demand", "spot", "reserved"}[:rapid.IntRange(1, 3).Draw(t, "variants")] {
			c := Cell{Group: "g", Resource: ResourceGPU, Variant: v, Amount: fleet.Money(rapid.Int64Range(1, 1e15).Draw(t, "amount")), Quantity: float64(rapid.Int64Range(1, 1e6).Draw(t, "hours"))}
			before = append(before, c)
			c.Amount *= fleet.Money(by)
			dearer = append(dearer, c)
			c.Quantity *= float64(by)
			longer = append(longer, c)
		}
		if c := Compare(before, longer)[0]; c.Mix != 0 || c.Price != 0 {
			t.Fatalf("only longer: %+v", c)
		}
		if c := Compare(before, dearer)[0]; c.Mix != 0 || c.Quantity != 0 {
			t.Fatalf("only dearer: %+v", c)
		}
	})
}

func TestCalendarsOfTenants(t *testing.T) {
	t.Parallel()
	berlin, kolkata, santiago := zone(t, "Europe/Berlin"), zone(t, "Asia/Kolkata"), zone(t, "America/Santiago")
	for name, tc := range map[string]struct {
		c        Calendar
		p        Period
		at       string
		shift    int
		from, to string
	}{
		"a month in UTC": {Calendar{}, PeriodMonth, "2026-02-14T10:00:00Z", 0, "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		"a month in Berlin loses an hour in March":     {Calendar{Zone: berlin}, PeriodMonth, "2026-03-10T00:00:00Z", 0, "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		"the long day in Berlin":                       {Calendar{Zone: berlin}, PeriodDay, "2026-10-25T12:00:00Z", 0, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		"half an hour off: hours begin in their day":   {Calendar{Zone: kolkata}, PeriodDay, "2026-01-01T12:00:00Z", 0, "2025-12-31T19:00:00Z", "2026-01-01T19:00:00Z"},
		"a day that begins at one":                     {Calendar{Zone: santiago}, PeriodDay, "2026-09-06T12:00:00Z", 0, "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},
		"the fiscal year that began last April":        {Calendar{FirstMonth: time.April}, PeriodYear, "2026-02-01T00:00:00Z", 0, "2025-04-01T00:00:00Z", "2026-04-01T00:00:00Z"},
		"the fiscal quarter before":                    {Calendar{FirstMonth: time.February}, PeriodQuarter, "2026-02-10T00:00:00Z", -1, "2025-11-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		"a week that begins on Sunday":                 {Calendar{}, PeriodWeek, "2026-03-04T00:00:00Z", 0, "2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z"},
		"a week that begins on Monday, seen on Sunday": {Calendar{WeekStart: time.Monday}, PeriodWeek, "2026-03-01T00:00:00Z", 0, "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, tc.at)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tc.c.Span(tc.p, at, tc.shift)
		if err != nil || got.From.Format(time.RFC3339) != tc.from || got.To.Format(time.RFC3339) != tc.to {
			t.Errorf("%s: %v %v, want %s %s", name, got, err, tc.from, tc.to)
		}
	}
	if _, err := (Calendar{}).Span("decade", time.Now(), 0); err == nil {
		t.Error("a decade is a period")
	}
	if y := (Calendar{FirstMonth: time.April}).FiscalYear(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)); y != 2027 {
		t.Errorf("fiscal year %d", y)
	}
}

func TestPeriodsMeetWithoutGapAndHoldTheirTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/Santiago", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "America/New_York"}).Draw(t, "zone"))
		if err != nil {
			t.Skip(err)
		}
		c := Calendar{Zone: z, FirstMonth: time.Month(rapid.IntRange(1, 12).Draw(t, "first")), WeekStart: time.Weekday(rapid.IntRange(0, 6).Draw(t, "week"))}
		at := time.Unix(rapid.Int64Range(1704067200, 1893456000).Draw(t, "at"), 0).UTC().Truncate(time.Hour)
		p := rapid.SampledFrom([]Period{PeriodDay, PeriodWeek, PeriodMonth, PeriodQuarter, PeriodYear}).Draw(t, "period")
		now, err := c.Span(p, at, 0)
		if err != nil {
			t.Fatal(err)
		}
		if at.Before(now.From) || !at.Before(now.To) {
			t.Fatalf("%s is not in %v", at, now)
		}
		next, _ := c.Span(p, at, 1)
		before, _ := c.Span(p, at, -1)
		if !next.From.Equal(now.To) || !before.To.Equal(now.From) {
			t.Fatalf("%v, %v, %v do not meet", before, now, next)
		}
	})
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Skipf("this machine has no time zones: %v", err)
	}
	return z
}
