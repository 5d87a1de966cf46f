package backtest

import (
	"math"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
)

// Report is the figures of one run.
type Report struct {
	Params    availability.Params `json:"params"`
	FitFrom   string              `json:"fit_from" doc:"the span that parameters and fitted baselines come from; not scored"`
	FitTo     string              `json:"fit_to"`
	Every     float64             `json:"look_every_seconds" doc:"0: every look of the trace"`
	Rows      int                 `json:"rows"`
	BadCount  int                 `json:"bad_rows"`
	Bad       []BadRow            `json:"bad,omitempty"`
	All       []Result            `json:"all" doc:"one per target, over all campaigns outside the fitting span"`
	Campaigns []CampaignResult    `json:"campaigns"`
	Beats     bool                `json:"beats_all" doc:"the model's Brier score is the lowest for available and survives over all campaigns"`
}

// CampaignResult is the same for one campaign.
type CampaignResult struct {
	Name    string   `json:"name"`
	Results []Result `json:"results"`
}

// Result scores the forecasts of one target.
type Result struct {
	Target      Target  `json:"target"`
	N           int     `json:"n"`
	Observed    float64 `json:"observed" doc:"mean truth"`
	Scores      []Brier `json:"brier"`
	Calibration float64 `json:"calibration_error" doc:"mean distance of the model's probability from the frequency in its bin, weighted by count"`
	Reliability []Bin   `json:"reliability"`
}

// Brier is the mean squared error of one forecaster's probabilities: 0 is perfect, and whoever always says the mean gets mean x (1 - mean).
type Brier struct {
	Forecaster string  `json:"forecaster"`
	Score      float64 `json:"score"`
	Log        float64 `json:"log" doc:"mean negative logarithm of what was said of what came true, in nats; probabilities count as 0.002 to 0.998"`
}

// Bin is one line of the reliability table: of the times the model said about Mean, Observed came true.
type Bin struct {
	From     float64 `json:"from"`
	To       float64 `json:"to"`
	N        int     `json:"n"`
	Mean     float64 `json:"mean"`
	Observed float64 `json:"observed"`
}

// Of finds a forecaster's score; NaN where there is none.
func (r Result) Of(forecaster string) float64 {
	for _, s := range r.Scores {
		if s.Forecaster == forecaster {
			return s.Score
		}
	}
	return math.NaN()
}

// Run scores the model on a trace.
func Run(t *Trace, o Options) (Report, error) {
	if err := o.Params.Validate(); err != nil {
		return Report{}, err
	}
	all := run(t, o)
	r := Report{Params: o.Params, FitFrom: stamp(o.Fit, true), FitTo: stamp(o.Fit, false), Every: o.Every.Seconds(), Rows: t.Rows, BadCount: t.BadCount, Bad: t.Bad}
	r.All = results(all, -1)
	for i, c := range t.campaigns {
		if results := results(all, i); len(results) > 0 {
			r.Campaigns = append(r.Campaigns, CampaignResult{c.name, results})
		}
	}
	if len(r.All) == 0 {
		return Report{}, fleet.Errorf(fleet.CodeInvalid, "the trace has nothing to score outside the fitting span")
	}
	r.Beats = beats(r.All)
	return r, nil
}

func stamp(i fleet.Interval, from bool) string {
	if i.From.Equal(i.To) {
		return ""
	}
	if from {
		return i.From.UTC().Format("2006-01-02T15:04:05Z")
	}
	return i.To.UTC().Format("2006-01-02T15:04:05Z")
}

func beats(all []Result) bool {
	for _, r := range all {
		if r.Target != TargetAvailable && r.Target != TargetSurvives {
			continue
		}
		for _, s := range r.Scores[1:] {
			if s.Score <= r.Scores[0].Score {
				return false
			}
		}
	}
	return true
}

// results of one campaign, or of all for -1, outside the fitting span.
func results(all []sample, campaign int) []Result {
	var out []Result
	for _, target := range Targets() {
		a := adder{bins: make([]Bin, 10)}
		for i := range all {
			if s := &all[i]; s.target == target && !s.fit && (campaign < 0 || s.campaign == campaign) {
				a.add(s)
			}
		}
		if a.n > 0 {
			out = append(out, a.result(target))
		}
	}
	return out
}

// unsure bounds what anybody is taken to have said, so that one who was sure and wrong does not cost everything.
const unsure = 0.002

type adder struct {
	n     int
	truth float64
	brier [forecasters]float64
	log   [forecasters]float64
	bins  []Bin
}

func (a *adder) add(s *sample) {
	a.n++
	a.truth += s.truth
	for i, p := range s.p {
		a.brier[i] += s.truth*(1-p)*(1-p) + (1-s.truth)*p*p
		q := min(max(p, unsure), 1-unsure)
		a.log[i] -= s.truth*math.Log(q) + (1-s.truth)*math.Log(1-q)
	}
	b := &a.bins[min(int(s.p[0]*10), 9)]
	b.N++
	b.Mean += s.p[0]
	b.Observed += s.truth
}

func (a *adder) result(t Target) Result {
	n := float64(a.n)
	r := Result{Target: t, N: a.n, Observed: a.truth / n}
	for i, name := range Forecasters() {
		r.Scores = append(r.Scores, Brier{name, a.brier[i] / n, a.log[i] / n})
	}
	for i, b := range a.bins {
		if b.N == 0 {
			continue
		}
		b.From, b.To = float64(i)/10, float64(i+1)/10
		b.Mean /= float64(b.N)
		b.Observed /= float64(b.N)
		r.Calibration += float64(b.N) / n * math.Abs(b.Mean-b.Observed)
		r.Reliability = append(r.Reliability, b)
	}
	return r
}
