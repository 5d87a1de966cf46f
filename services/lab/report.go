package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
)

// Report is the scorecard as one page: tables and charts, nothing loaded from elsewhere, light and dark.
type Report struct {
	Ours      string // the policy that is set against the others
	Against   string // drawn beside it over time
	Span      string // test or train
	Seed      uint64
	Board     Board
	Hindsight []Hindsight
	Mixed     []MixBoard
	Pools     []PoolBoard
	Tuned     []Hindsight         // the sections mixed and pooled against ways to buy tuned in hindsight
	strips    map[string][2]Strip // by workload: the whole span, and its hardest hours
}

// Add plays a load for the charts over time: ours and the policy against it, which need not be on the board.
func (r *Report) Add(l Load) error {
	policies := []Entry{}
	for _, name := range []string{r.Ours, r.Against} {
		found, err := Named([]string{name})
		if err != nil {
			return err
		}
		policies = append(policies, found...)
	}
	whole, zoom, err := Strips(l, policies)
	if err != nil {
		return err
	}
	if r.strips == nil {
		r.strips = map[string][2]Strip{}
	}
	r.strips[l.Trace.Name] = [2]Strip{whole, zoom}
	return nil
}

//go:embed report.html
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// WriteHTML writes the page. Same report, same bytes.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{Ours: r.Ours, Span: r.Span, Seed: r.Seed}
	numbers := map[string]int{}
	for i, name := range r.Board.Policies() {
		numbers[name] = i + 1
		p.Policies = append(p.Policies, numbered{i + 1, name, name == r.Ours})
	}
	for _, c := range r.Board.Columns {
		p.Columns = append(p.Columns, c)
		p.Charts = append(p.Charts, r.chart(c, numbers))
	}
	for _, m := range r.Board.Measures() {
		t := sheet{Title: m.Title}
		for _, n := range p.Policies {
			cells := []string{}
			for _, c := range r.Board.Columns {
				cell := "-"
				if row, ok := r.Board.Row(c.Workload, n.Name); ok {
					cell = m.Cell(row)
				}
				cells = append(cells, cell)
			}
			t.Rows = append(t.Rows, sheetRow{n, cells})
		}
		p.Tables = append(p.Tables, t)
	}
	for i := range r.Hindsight {
		p.Hindsight = append(p.Hindsight, hindsightView(&r.Hindsight[i]))
	}
	for i := range r.Tuned {
		p.Hindsight = append(p.Hindsight, hindsightView(&r.Tuned[i]))
	}
	for i := range r.Mixed {
		p.Markets = append(p.Markets, mixedView(&r.Mixed[i]))
	}
	for i := range r.Pools {
		p.Markets = append(p.Markets, pooledView(&r.Pools[i]))
	}
	if all := slices.Concat(r.Hindsight, r.Tuned); len(all) > 0 {
		v := Judge(all)
		p.Verdict = &verdictView{v.Holds, orNone(v.Dearer), orNone(v.Cheaper), orNone(v.Alone)}
	}
	return reportTemplate.Execute(w, p)
}

// What the template is given.
type page struct {
	Ours, Span string
	Seed       uint64
	Policies   []numbered
	Columns    []Column
	Charts     []chartView
	Tables     []sheet
	Hindsight  []hindsightPart
	Verdict    *verdictView
	Markets    []marketView
}

// marketView is a section that buys in markets.
type marketView struct {
	Title, Note string
	Head        []string
	Rows        []marketRow
	Points      []point // cost against lateness
	XTicks      []tickMark
	YTicks      []tickMark
	SLO         float64
	Held        []heldBar // what was held, where that is known
	HeldHeight  int
}

// heldBar is what a buyer held, in machine-hours.
type heldBar struct {
	Y, Spot, OnDemand float64 // widths of 320
	Name, Text        string
	Ours              bool
}

// frontier draws the rows of a section by cost and late share, numbered as in its table; what is later than 3 % stands at the edge.
func (v *marketView) frontier(cost, late []float64) {
	low, high := math.Inf(1), 0.0
	for _, c := range cost {
		low, high = math.Min(low, c), math.Max(high, c)
	}
	if len(cost) == 0 || high <= 0 {
		return
	}
	low, high = 0.9*low, 1.05*high
	const latest = 0.03
	for i := range cost {
		kind := "fine"
		switch {
		case v.Rows[i].Ours:
			kind = "ours"
		case late[i] > marketLate:
			kind = "late"
		}
		v.Points = append(v.Points, point{X: round1(plotWide * (cost[i] - low) / (high - low)), Y: round1(plotHigh * (1 - math.Min(late[i], latest)/latest)), N: i + 1, Kind: kind,
			Tell: fmt.Sprintf("%s: %.3f, %.2f %% late", v.Rows[i].Policy, cost[i], 100*late[i])})
	}
	for i := range 5 {
		x := low + (high-low)*float64(i)/4
		v.XTicks = append(v.XTicks, tickMark{round1(plotWide * float64(i) / 4), fmt.Sprintf("%.2f", x)})
	}
	for i := range 4 {
		v.YTicks = append(v.YTicks, tickMark{round1(plotHigh * (1 - float64(i)/3)), fmt.Sprintf("%d %%", i)})
	}
	v.SLO = round1(plotHigh * (1 - marketLate/latest))
}

// marketLate is the objective of the sections that buy in markets.
const marketLate = 0.01

type marketRow struct {
	N      int
	Policy string
	Ours   bool
	Cells  []string
}

// isOurs tells our own buyers by their name.
func isOurs(policy string) bool { return strings.HasSuffix(policy, PlimsollMix) }

func mixedView(b *MixBoard) marketView {
	v := marketView{Title: b.Workload + ": reserved, Spot and on demand",
		Note: fmt.Sprintf("%d Spot pools, %d windows; the priced bound is %.1f on-demand hours, on demand alone %.1f", b.Zones, len(b.Markets), b.Bound, b.Unpriced),
		Head: []string{"cost / priced bound", "late %", "over a minute %", "failed launches", "interrupted", "Spot hours", "on-demand hours"}}
	for _, row := range b.Rows {
		v.Rows = append(v.Rows, marketRow{len(v.Rows) + 1, row.Policy, isOurs(row.Policy), []string{
			fmt.Sprintf("%.3f", row.Ratio), fmt.Sprintf("%.2f", 100*row.LateRate), fmt.Sprintf("%.3f", 100*row.Timeouts), fmt.Sprint(row.Failed), fmt.Sprint(row.Lost),
			fmt.Sprintf("%.0f", row.Spot), fmt.Sprintf("%.0f", row.OnDemand)}})
	}
	cost, late, most := []float64{}, []float64{}, 1.0
	for _, row := range b.Rows {
		cost, late = append(cost, row.Ratio), append(late, row.LateRate)
		most = math.Max(most, row.Spot+row.OnDemand)
	}
	v.frontier(cost, late)
	for i, row := range b.Rows {
		v.Held = append(v.Held, heldBar{Y: float64(i * barStep), Spot: round1(320 * row.Spot / most), OnDemand: round1(320 * row.OnDemand / most), Name: row.Policy, Ours: isOurs(row.Policy),
			Text: fmt.Sprintf("%.0f + %.0f h", row.Spot, row.OnDemand)})
	}
	v.HeldHeight = len(v.Held) * barStep
	return v
}

func pooledView(b *PoolBoard) marketView {
	v := marketView{Title: strings.Join(b.Services, " + ") + ": pooled and mixed",
		Note: fmt.Sprintf("%d windows; the pooled bound is %.1f on-demand hours, the sum of the siloed ones %.1f", len(b.Markets), b.Bound, b.SiloedBound),
		Head: []string{"cost / siloed hpa-70 on demand", "cost / bound", "late %", "over a minute %", "failed launches", "interrupted"}}
	for _, row := range b.Rows {
		v.Rows = append(v.Rows, marketRow{len(v.Rows) + 1, row.Policy, isOurs(row.Policy), []string{
			fmt.Sprintf("%.3f", row.Siloed), fmt.Sprintf("%.3f", row.Ratio), fmt.Sprintf("%.2f", 100*row.LateRate), fmt.Sprintf("%.3f", 100*row.Timeouts), fmt.Sprint(row.Failed), fmt.Sprint(row.Lost)}})
	}
	cost, late := []float64{}, []float64{}
	for _, row := range b.Rows {
		cost, late = append(cost, row.Siloed), append(late, row.LateRate)
	}
	v.frontier(cost, late)
	return v
}

type numbered struct {
	N    int
	Name string
	Ours bool
}

type sheet struct {
	Title string
	Rows  []sheetRow
}

type sheetRow struct {
	Policy numbered
	Cells  []string
}

type verdictView struct {
	Holds                  bool
	Dearer, Cheaper, Alone string
}

type hindsightPart struct {
	Workload, Policy, Ratio, Late string
	Rows                          []hindsightRow
}

type hindsightRow struct {
	Family, Means, Target, Ratio, Late, Delta string
	Width, X                                  float64 // of a bar around the middle of 100
	Dearer, Found                             bool
}

func hindsightView(h *Hindsight) hindsightPart {
	out := hindsightPart{Workload: h.Workload, Policy: h.Policy, Ratio: fmt.Sprintf("%.3f", h.Ratio), Late: fmt.Sprintf("%.3f", 100*h.Late)}
	for _, t := range h.Tuned {
		v := hindsightRow{Family: t.Family, Means: t.Means, Target: "none as punctual", Ratio: "-", Delta: "-", Late: "-"}
		if t.Found() {
			v.Found = true
			v.Target, v.Ratio, v.Late, v.Delta = t.Setting(), fmt.Sprintf("%.3f", t.Ratio), fmt.Sprintf("%.3f", 100*t.Late), fmt.Sprintf("%+.1f %%", 100*t.Delta)
			v.Dearer = t.Delta > 0
			v.Width = math.Min(math.Abs(t.Delta), 0.5) * 100
			v.X = 50
			if !v.Dearer {
				v.X = 50 - v.Width
			}
			v.Width, v.X = round1(v.Width), round1(v.X)
		}
		out.Rows = append(out.Rows, v)
	}
	return out
}

// chartView is the charts of one workload, in the units of their view boxes.
type chartView struct {
	Workload, Problem, Note string
	Points                  []point
	XTicks, YTicks          []tickMark
	SLO                     float64 // y of the objective
	Bars                    []bar
	BarsHeight              int
	Strips                  []stripView
}

type point struct {
	X, Y       float64
	N          int
	Kind, Tell string
}

type tickMark struct {
	At   float64
	Text string
}

type bar struct {
	Y, Width   float64
	Name, Text string
	Kind       string // ours, oracle, late, fine
}

// Sizes of the charts.
const (
	plotWide, plotHigh = 460.0, 300.0
	barStep            = 18
	leastLate          = 1e-5 // the axis of lateness ends here; nobody late is drawn on it
)

func round1(v float64) float64 { return math.Round(v*10) / 10 }

func (r *Report) chart(c Column, numbers map[string]int) chartView {
	out := chartView{Workload: c.Workload, Problem: c.Problem}
	out.Note = fmt.Sprintf("%.1f replicas on average, %.1f at peak, %.0f hours judged, %d s to start", c.Mean, c.Peak, float64(c.To-c.From)/SlotsPerHour, c.Start)
	rows := []Row{}
	most := 1.0
	for _, row := range r.Board.Rows {
		if row.Workload == c.Workload && row.Ratio > 0 {
			rows = append(rows, row)
			most = math.Max(most, row.Ratio)
		}
	}
	most = math.Min(most, 6)
	x := func(ratio float64) float64 {
		return round1(plotWide * math.Log(math.Min(math.Max(ratio, 0.9), most)/0.9) / math.Log(most/0.9))
	}
	y := func(late float64) float64 {
		return round1(plotHigh * math.Log(1/math.Max(late, leastLate)) / math.Log(1/leastLate))
	}
	for _, v := range []float64{1, 1.1, 1.25, 1.5, 2, 3, 4, 6} {
		if v <= most {
			out.XTicks = append(out.XTicks, tickMark{x(v), fmt.Sprintf("%g", v)})
		}
	}
	for _, v := range []float64{1, 0.1, 0.01, 0.001, 1e-4, leastLate} {
		text := fmt.Sprintf("%g %%", 100*v)
		if v == leastLate {
			text = "none"
		}
		out.YTicks = append(out.YTicks, tickMark{y(v), text})
	}
	out.SLO = y(c.SLO.Late)
	for _, row := range rows {
		out.Points = append(out.Points, point{x(row.Ratio), y(row.LateRate), numbers[row.Policy], r.kind(row, c),
			fmt.Sprintf("%s: %.2f of the bound, %.2f %% late", row.Policy, row.Ratio, 100*row.LateRate)})
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].Ratio < rows[j].Ratio })
	for i, row := range rows {
		out.Bars = append(out.Bars, bar{Y: float64(i * barStep), Width: round1(320 * math.Min(row.Ratio, most) / most), Name: row.Policy, Kind: r.kind(row, c),
			Text: fmt.Sprintf("%.2f / %.2f %%", row.Ratio, 100*row.LateRate)})
	}
	out.BarsHeight = len(out.Bars) * barStep
	if both, ok := r.strips[c.Workload]; ok {
		out.Strips = []stripView{viewStrip(&both[0], "The whole span"), viewStrip(&both[1], "The hardest six hours")}
	}
	return out
}

func (r *Report) kind(row Row, c Column) string {
	switch {
	case row.Policy == r.Ours:
		return "ours"
	case row.Oracle:
		return "oracle"
	case row.LateRate > c.SLO.Late:
		return "late"
	}
	return "fine"
}
