package lab

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// stripView is one chart over time.
type stripView struct {
	Title        string
	Lines        []pathLine
	Late         []pathLine // marks under the chart where requests were late
	TimeX, TimeY []tickMark
	Height       float64
}

type pathLine struct {
	Name, Kind string
	Y          float64 // of the name of a row of marks
	D          template.HTMLAttr
}

// Sizes of a chart over time.
const (
	timeWide, timeHigh = 960.0, 220.0
	markStep           = 16.0
)

// viewStrip draws a strip: the demand as an area, ours and the other wanted (dashed) and ready, the bound, and where each was late.
func viewStrip(s *Strip, title string) stripView {
	top := 1.0
	n := len(s.Demand)
	all := [][]float64{s.Demand, s.Bound}
	for i := range s.Lines {
		all = append(all, s.Lines[i].Wanted, s.Lines[i].Ready)
	}
	for _, values := range all {
		for _, v := range values {
			top = math.Max(top, v)
		}
	}
	top = 4 * math.Ceil(top/4) // whole numbers at the grid
	hours := func(bucket int) float64 { return float64(s.From+bucket*s.Bucket) / SlotsPerHour }
	out := stripView{Title: fmt.Sprintf("%s: %.4g hours from hour %.4g on, in steps of %s", title, float64(s.Slots)/SlotsPerHour, hours(0), duration(s.Bucket*SlotSeconds))}
	x := func(i int) float64 { return timeWide * float64(i) / float64(max(n-1, 1)) }
	line := func(values []float64, area bool) template.HTMLAttr {
		b := strings.Builder{}
		for i, v := range values {
			letter := "L"
			if i == 0 {
				letter = "M"
			}
			fmt.Fprintf(&b, "%s%.1f %.1f", letter, x(i), timeHigh*(1-v/top))
		}
		if area {
			fmt.Fprintf(&b, "L%.1f %.1fL0 %.1fZ", x(n-1), timeHigh, timeHigh)
		}
		return template.HTMLAttr(`d="` + b.String() + `"`) //nolint:gosec // numbers only
	}
	out.Lines = append(out.Lines, pathLine{Name: "demand, highest of a step", Kind: "demand", D: line(s.Demand, true)})
	if s.Bound != nil {
		out.Lines = append(out.Lines, pathLine{Name: "bound: a cheapest schedule, everything known", Kind: "oracle", D: line(s.Bound, false)})
	}
	for i := len(s.Lines) - 1; i >= 0; i-- { // ours on top
		l, kind := &s.Lines[i], "other"
		if i == 0 {
			kind = "ours"
		}
		out.Lines = append(out.Lines, pathLine{Name: l.Policy + ", wanted", Kind: kind + " wanted", D: line(l.Wanted, false)}, pathLine{Name: l.Policy + ", ready", Kind: kind, D: line(l.Ready, false)})
	}
	for i := range s.Lines {
		l := &s.Lines[i]
		y := timeHigh + 22 + markStep*float64(i+1)
		b := strings.Builder{}
		wide := math.Max(timeWide/float64(max(n, 1)), 1)
		for k, v := range l.Late {
			if v >= 0.5 { // a request
				fmt.Fprintf(&b, "M%.1f %.1fh%.1f", x(k), y, wide)
			}
		}
		kind := "other"
		if i == 0 {
			kind = "ours"
		}
		d := template.HTMLAttr(`d="` + b.String() + `"`) //nolint:gosec // numbers only
		out.Late = append(out.Late, pathLine{Name: l.Policy + " late", Kind: kind, Y: y, D: d})
	}
	out.Height = timeHigh + 44 + markStep*float64(len(s.Lines))
	step := 24.0
	unit := func(h float64) string { return fmt.Sprintf("day %.0f", h/24+1) }
	if hours(n)-hours(0) <= 48 {
		step, unit = math.Max(1, math.Round((hours(n)-hours(0))/12)), func(h float64) string { return fmt.Sprintf("%.0f h", h) }
	}
	for h := math.Ceil(hours(0)/step) * step; h < hours(0)+0.97*(hours(n)-hours(0)); h += step {
		out.TimeX = append(out.TimeX, tickMark{round1(timeWide * (h - hours(0)) / math.Max(hours(n-1)-hours(0), 1e-9)), unit(h)})
	}
	for i := range 5 {
		v := top * float64(i) / 4
		out.TimeY = append(out.TimeY, tickMark{round1(timeHigh * (1 - v/top)), fmt.Sprintf("%.3g", v)})
	}
	return out
}

func duration(seconds int) string {
	if seconds%60 == 0 {
		return fmt.Sprintf("%d min", seconds/60)
	}
	return fmt.Sprintf("%d s", seconds)
}
