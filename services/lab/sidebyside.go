package lab

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// SideBySide is our policy on one column in training and in the test: as it costs over the bound, and over the best baseline of the field tuned in hindsight on
// the same span at equal or lower lateness. The second takes out how hard a span is: what makes one dear makes it dear for everybody.
type SideBySide struct {
	Workload  string  `json:"workload"`
	Train     Span    `json:"train"`
	Test      Span    `json:"test"`
	CostDelta float64 `json:"cost_difference"` // test over training, less one
	// BestDelta is the same of what ours costs over the best; left out where one of the spans has no baseline as punctual.
	BestDelta *float64 `json:"over_best_difference,omitempty"`
}

// Span is one side.
type Span struct {
	Ratio float64 `json:"cost_ratio"`
	Late  float64 `json:"late_ratio"`
	// Over is ours over the best baseline tuned in hindsight; left out where none is as punctual. Best says which one.
	Over *float64 `json:"cost_over_best,omitempty"`
	Best string   `json:"best,omitempty"`
}

// WithinTrain is how far the test may be from training.
const WithinTrain = 0.05

// PutSideBySide matches columns by their names; a column that only one span has is left out.
func PutSideBySide(train, test []Hindsight) []SideBySide {
	out := []SideBySide{}
	for i := range test {
		for j := range train {
			if train[j].Workload != test[i].Workload {
				continue
			}
			s := SideBySide{Workload: test[i].Workload, Train: spanOf(&train[j]), Test: spanOf(&test[i])}
			s.CostDelta = part(s.Test.Ratio, s.Train.Ratio) - 1
			if s.Train.Over != nil && s.Test.Over != nil {
				d := *s.Test.Over / *s.Train.Over - 1
				s.BestDelta = &d
			}
			out = append(out, s)
			break
		}
	}
	return out
}

func spanOf(h *Hindsight) Span {
	s := Span{Ratio: h.Ratio, Late: h.Late}
	if best, ok := h.Best(); ok {
		over := 1 + best.Delta
		s.Over, s.Best = &over, best.Family+" "+best.Setting()
	}
	return s
}

// Within says whether test and training are within 5 % in the cost over the bound, and in that over the best baseline.
func (s *SideBySide) Within() (bound, best bool) {
	return math.Abs(s.CostDelta) <= WithinTrain, s.BestDelta != nil && math.Abs(*s.BestDelta) <= WithinTrain
}

// WriteSideBySide prints the rows and which of them are within 5 % in which measure.
func WriteSideBySide(w io.Writer, rows []SideBySide) error {
	fmt.Fprintf(w, "\nTraining and test side by side; want within %.0f %%\n", 100*WithinTrain)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "column\tcost / bound, late %: training\ttest\tdifference\tours / best of the same span: training\ttest\tdifference")
	bound, best := []string{}, []string{}
	for i := range rows {
		s := &rows[i]
		over := func(p Span) string {
			return optional(p.Over, func(v float64) string { return fmt.Sprintf("%.3f (%s)", v, p.Best) })
		}
		fmt.Fprintf(tw, "%s\t%.3f / %.2f\t%.3f / %.2f\t%+.1f %%\t%s\t%s\t%s\n", s.Workload, s.Train.Ratio, 100*s.Train.Late, s.Test.Ratio, 100*s.Test.Late, 100*s.CostDelta,
			over(s.Train), over(s.Test), optional(s.BestDelta, func(v float64) string { return fmt.Sprintf("%+.1f %%", 100*v) }))
		a, b := s.Within()
		if a {
			bound = append(bound, s.Workload)
		}
		if b {
			best = append(best, s.Workload)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "  within %.0f %% in cost / bound: %s\n  within %.0f %% in ours / best: %s\n", 100*WithinTrain, orNone(bound), 100*WithinTrain, orNone(best))
	return err
}
