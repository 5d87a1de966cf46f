package lab

import (
	"embed"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"plimsoll.dev/services/fleet"
)

// Workload is a load to score policies on: a small YAML file that says where it comes from, which part of it, how large, and what a
// replica can do. docs/replay.md describes every field. The zero value of a number means the default in its comment.
type Workload struct {
	Name    string       `json:"name"`
	Note    string       `json:"note,omitempty"` // how it is built and why, in a sentence
	Source  From         `json:"source"`
	Clients *ClientRule  `json:"clients,omitempty"`
	Scale   Scale        `json:"scale"`
	Seed    uint64       `json:"seed,omitempty"`          // added to the seed of the run
	History float64      `json:"history_hours,omitempty"` // before the judged part; a policy may learn from it. Default 0
	Replica ReplicaSheet `json:"replica"`
	SLO     SLO          `json:"slo"`
}

// Kinds of source.
const (
	SourceServeGen = "servegen"  // rates and tokens per client, resampled
	SourceAzure    = "azure-llm" // requests of the Azure LLM inference traces, as they are
	SourceMooncake = "mooncake"  // requests of the Mooncake traces (CSV or JSON lines), as they are
	SourceCounts   = "counts"    // requests per step of time; arrivals and tokens drawn
	SourceInvented = "invented"  // clients that a seed makes up
)

// From is where a load comes from. Files are relative to the workload's own file or, for the built-in workloads, to the data folder.
type From struct {
	Kind   string `json:"kind"`
	File   string `json:"file,omitempty"`
	Tokens string `json:"tokens_file,omitempty"` // servegen
	Model  string `json:"model,omitempty"`       // servegen
	// Hours of the source that are taken. Default: all of a trace; needed for servegen and invented.
	Hours float64 `json:"hours,omitempty"`
	// Request is what one request of counts is made of.
	Request *RequestSheet `json:"request,omitempty"`
	// Gaps of counts: refuse (default), or hold: the last value before the gap goes on.
	Gaps   string  `json:"gaps,omitempty"`
	Shapes *Shapes `json:"shapes,omitempty"` // invented
}

// RequestSheet is the tokens of a request as distributions.
type RequestSheet struct {
	Input  SpreadSheet `json:"input"`
	Output SpreadSheet `json:"output"`
}

// SpreadSheet is a Spread in YAML.
type SpreadSheet struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// ClientRule picks clients of servegen, the largest first by the replicas they need on average.
type ClientRule struct {
	IDs    []int `json:"ids,omitempty"`    // only these
	Most   int   `json:"at_most"`          // so many; default all
	Active *Band `json:"active,omitempty"` // share of the ten-minute windows with requests
	Mean   *Band `json:"mean_replicas,omitempty"`
	Peak   *Band `json:"peak_replicas,omitempty"`  // of ten minutes
	Jump   *Band `json:"peak_over_mean,omitempty"` // at_most is meant inclusively, under is not
}

// Band is a range; what is left out does not limit.
type Band struct {
	Least *float64 `json:"at_least,omitempty"`
	Most  *float64 `json:"at_most,omitempty"`
	Below *float64 `json:"under,omitempty"`
}

func (b *Band) holds(v float64) bool {
	return b == nil || (b.Least == nil || v >= *b.Least) && (b.Most == nil || v <= *b.Most) && (b.Below == nil || v < *b.Below)
}

// Scale sizes the load; at most one is set, none leaves it as it is. A source of clients can only be thinned.
type Scale struct {
	Requests float64 `json:"requests_per_second,omitempty"` // mean
	Replicas float64 `json:"replicas,omitempty"`            // mean demand
	Factor   float64 `json:"factor,omitempty"`
}

// ReplicaSheet is a replica and its bounds.
type ReplicaSheet struct {
	PromptPerSecond float64 `json:"prompt_tokens_per_second,omitempty"` // default 5000
	OutputPerSecond float64 `json:"output_tokens_per_second,omitempty"` // of the whole batch; default 900
	SecondsPerToken float64 `json:"seconds_per_token,omitempty"`        // default 0.040
	StartSeconds    int     `json:"start_seconds,omitempty"`            // from the order to the first request; a multiple of 15, default 180
	Min             int     `json:"min,omitempty"`                      // default 1
	Max             int     `json:"max,omitempty"`                      // default twice the peak
	PricePerHour    string  `json:"price_per_hour,omitempty"`           // USD; default unknown
}

// SLO of the load. Late is a wait over LateSeconds, timed out one over TimeoutSeconds.
type SLO struct {
	Late    float64 `json:"late_ratio,omitempty"`    // default 0.01
	Timeout float64 `json:"timeout_ratio,omitempty"` // default 0.0005
}

// maxWorkloadBytes bounds a workload's file.
const maxWorkloadBytes = 64 << 10

// ParseWorkload reads a YAML file. Unknown fields, impossible numbers and missing ones are errors that name the field.
func ParseWorkload(text []byte) (Workload, error) {
	w := Workload{}
	if len(text) > maxWorkloadBytes {
		return w, fleet.Errorf(fleet.CodeTooLarge, "a workload of %d bytes; want at most %d", len(text), maxWorkloadBytes)
	}
	if err := yaml.UnmarshalStrict(text, &w); err != nil {
		return w, fleet.Errorf(fleet.CodeInvalid, "workload: %s", strings.ReplaceAll(err.Error(), "error unmarshaling JSON: while decoding JSON: ", ""))
	}
	return w, w.check()
}

func (w *Workload) refuse(format string, args ...any) error {
	return fleet.Errorf(fleet.CodeInvalid, "workload %s: "+format, append([]any{w.Name}, args...)...)
}

func (w *Workload) check() error {
	positive := func(v float64) bool { return v >= 0 && v < 1e12 }
	scales := 0
	for _, v := range []float64{w.Scale.Requests, w.Scale.Replicas, w.Scale.Factor} {
		if v != 0 {
			scales++
		}
	}
	r := &w.Replica
	switch {
	case w.Name == "" || len(w.Name) > 60 || strings.ContainsAny(w.Name, " ,\t\n"):
		return fleet.Errorf(fleet.CodeInvalid, "workload: name is %q; want a word of at most 60 characters", w.Name)
	case !slices.Contains([]string{SourceServeGen, SourceAzure, SourceMooncake, SourceCounts, SourceInvented}, w.Source.Kind):
		return w.refuse("source.kind is %q; want servegen, azure-llm, mooncake, counts or invented", w.Source.Kind)
	case w.Source.Kind == SourceInvented && w.Source.Shapes == nil:
		return w.refuse("source.shapes is missing: what the clients shall look like")
	case w.Source.Kind == SourceServeGen && (w.Source.Model == "" || w.Source.File == "" || w.Source.Tokens == ""):
		return w.refuse("servegen needs source.model, source.file (rates) and source.tokens_file")
	case w.Source.Kind != SourceInvented && w.Source.File == "":
		return w.refuse("source.file is missing")
	case w.Source.Kind == SourceCounts && w.Source.Request == nil:
		return w.refuse("source.request is missing: counts say nothing of the tokens of a request")
	case w.Source.Gaps != "" && w.Source.Gaps != "refuse" && w.Source.Gaps != "hold":
		return w.refuse("source.gaps is %q; want refuse or hold", w.Source.Gaps)
	case w.Clients != nil && w.Source.Kind != SourceServeGen:
		return w.refuse("clients can be picked of servegen only")
	case w.Clients != nil && (w.Clients.Most < 0 || w.Clients.Most > maxClients):
		return w.refuse("clients.at_most is %d; want 0 to %d", w.Clients.Most, maxClients)
	case (w.Source.Kind == SourceServeGen || w.Source.Kind == SourceInvented) && w.seconds() == 0:
		return w.refuse("source.hours is missing")
	case !(w.Source.Hours >= 0) || w.Source.Hours*3600 > maxSlots*SlotSeconds || w.seconds()%SlotSeconds != 0:
		return w.refuse("source.hours is %v; want 0 to %d in steps of %d s", w.Source.Hours, maxSlots/SlotsPerHour, SlotSeconds)
	case !(w.History >= 0) || w.Source.Hours > 0 && w.History >= w.Source.Hours || w.history()%SlotSeconds != 0:
		return w.refuse("history_hours is %v of %v hours; want less, in steps of %d s", w.History, w.Source.Hours, SlotSeconds)
	case scales > 1 || !positive(w.Scale.Requests) || !positive(w.Scale.Replicas) || !positive(w.Scale.Factor):
		return w.refuse("scale: want at most one of requests_per_second, replicas and factor, and none below zero")
	case !w.replica().Valid():
		return w.refuse("replica: %+v can serve nothing, or under one request at a time", w.replica())
	case r.StartSeconds < 0 || r.StartSeconds%SlotSeconds != 0 || r.StartSeconds > 86400:
		return w.refuse("replica.start_seconds is %d; want a multiple of %d up to a day", r.StartSeconds, SlotSeconds)
	case r.Min < 0 || r.Max < 0 || r.Min > maxReplicas || r.Max > maxReplicas || r.Max > 0 && r.Min > r.Max:
		return w.refuse("replica: min %d and max %d; want 0 <= min <= max <= %d", r.Min, r.Max, maxReplicas)
	case !(w.SLO.Late >= 0 && w.SLO.Late < 1) || !(w.SLO.Timeout >= 0 && w.SLO.Timeout < 1):
		return w.refuse("slo: late_ratio %v and timeout_ratio %v; want shares from 0 to under 1", w.SLO.Late, w.SLO.Timeout)
	}
	if _, err := w.Price(); err != nil {
		return err
	}
	if w.Source.Shapes != nil {
		return w.Source.Shapes.check(w)
	}
	if q := w.Source.Request; q != nil {
		return q.check(w)
	}
	return nil
}

func (q *RequestSheet) check(w *Workload) error {
	for name, s := range map[string]SpreadSheet{"input": q.Input, "output": q.Output} {
		if !(s.Mean >= 0 && s.P50 >= 0 && s.P50 <= s.P90 && s.P90 <= s.P99 && s.P99 <= 1e7 && s.Mean <= 1e7) {
			return w.refuse("source.request.%s: mean %v, p50 %v, p90 %v, p99 %v; want tokens from 0 to 10 million that do not fall", name, s.Mean, s.P50, s.P90, s.P99)
		}
	}
	if q.Input.Mean+q.Output.Mean <= 0 {
		return w.refuse("source.request: requests without tokens hold no replica")
	}
	return nil
}

func (w *Workload) seconds() int { return int(math.Round(w.Source.Hours * 3600)) }

func (w *Workload) history() int { return int(math.Round(w.History * 3600)) }

func (w *Workload) replica() Replica {
	r := DefaultReplica()
	for _, f := range []struct {
		of *float64
		v  float64
	}{{&r.PromptPerSecond, w.Replica.PromptPerSecond}, {&r.OutputPerSecond, w.Replica.OutputPerSecond}, {&r.SecondsPerToken, w.Replica.SecondsPerToken}} {
		if f.v != 0 {
			*f.of = f.v
		}
	}
	return r
}

// Price of a replica-hour; false when the file names none.
func (w *Workload) Price() (*fleet.Money, error) {
	if w.Replica.PricePerHour == "" {
		return nil, nil //nolint:nilnil // unknown is an answer
	}
	m, err := fleet.ParseMoney(w.Replica.PricePerHour)
	if err != nil || m < 0 {
		return nil, w.refuse("replica.price_per_hour is %q; want USD per hour, as 2.50", w.Replica.PricePerHour)
	}
	return &m, nil
}

// Objective is the SLO with its defaults.
func (w *Workload) Objective() SLO {
	o := w.SLO
	if o.Late == 0 {
		o.Late = 0.01
	}
	if o.Timeout == 0 {
		o.Timeout = 0.0005
	}
	return o
}

// Config is the world that the workload is scored in.
func (w *Workload) Config(t *Trace) Config {
	cfg := DefaultConfig(t)
	if w.Replica.StartSeconds > 0 {
		cfg.ColdSlots = w.Replica.StartSeconds / SlotSeconds
	}
	if w.Replica.Min > 0 {
		cfg.Min = w.Replica.Min
	}
	if w.Replica.Max > 0 {
		cfg.Max = w.Replica.Max
	}
	cfg.Max = max(cfg.Max, cfg.Min)
	return cfg
}

//go:embed workloads/*.yaml
var workloadFiles embed.FS

// The workloads that come with the program: those that need no data, and the scoreboard of docs/replay.md.
var (
	builtinNames = []string{"steady", "daily", "bursty", "on-off"}
	boardNames   = []string{"tenA", "largeS", "midM", "r1", "tenJumpy", "tenSpiky"}
	shipped      = sync.OnceValue(readShipped)
)

func readShipped() map[string]Workload {
	out := map[string]Workload{}
	for _, n := range slices.Concat(builtinNames, boardNames) {
		text, err := workloadFiles.ReadFile("workloads/" + n + ".yaml")
		if err != nil {
			panic(fmt.Sprintf("workload %s is not in the program: %v", n, err))
		}
		w, err := ParseWorkload(text)
		if err != nil {
			panic(fmt.Sprintf("workload %s of the program: %v", n, err))
		}
		out[n] = w
	}
	return out
}

func shippedInOrder(names []string) []Workload {
	out := make([]Workload, 0, len(names))
	for _, n := range names {
		out = append(out, shipped()[n])
	}
	return out
}

// Workloads of the scoreboard, in its order. How each is built is a choice; docs/replay.md gives the reasons.
func Workloads() []Workload { return shippedInOrder(boardNames) }

// BuiltinWorkloads need no data.
func BuiltinWorkloads() []Workload { return shippedInOrder(builtinNames) }

// Build draws the workload from the clients of its model.
func (w *Workload) Build(clients []Client, seed uint64) (*Trace, error) {
	s := &Source{Name: w.Name, Clients: clients, Keep: 1, Seconds: w.seconds(), Seed: seed + w.Seed, Replica: w.replica()}
	if len(clients) == 0 || pool(clients) == nil {
		return nil, w.refuse("the data hold no clients of %s with tokens", w.Source.Model)
	}
	if c := w.Clients; c != nil {
		s.keep(c)
		if len(s.Clients) == 0 {
			return nil, w.refuse("no client of %s is as clients asks for", w.Source.Model)
		}
	}
	if err := w.thin(s); err != nil {
		return nil, err
	}
	t, err := Draw(*s)
	if err != nil {
		return nil, err
	}
	t.Prefill = s.prefill()
	t.From = w.history() / SlotSeconds
	return t, t.Check()
}

// thin keeps so many requests, or so much work, on average.
func (w *Workload) thin(s *Source) error {
	var want float64
	var what string
	whole, per := 0.0, 1.0
	switch {
	case w.Scale.Requests > 0:
		per = float64(s.Seconds)
		want, what = w.Scale.Requests*per, "requests per second"
		for _, c := range s.Clients {
			for _, r := range c.Rates {
				if r.Offset < s.Seconds {
					whole += r.Rate * rateWindow
				}
			}
		}
	case w.Scale.Replicas > 0:
		want, what = w.Scale.Replicas, "replicas"
		for i := range s.Clients {
			whole += s.Work(&s.Clients[i], 0, s.Seconds)
		}
	case w.Scale.Factor > 0:
		whole, want, what = 1, w.Scale.Factor, "times the source"
	default:
		return nil
	}
	if want > whole {
		return w.refuse("scale asks for %v %s, the source has %.3g: its clients can only be thinned", want/per, what, whole/per)
	}
	s.Keep = want / whole
	return nil
}

// clientWork is a client with its mean and largest need in replicas over ten minutes, and the share of windows it is active in.
type clientWork struct {
	client     Client
	mean, peak float64
	active     float64
}

func (s *Source) ranked() []clientWork {
	out := make([]clientWork, 0, len(s.Clients))
	for _, c := range s.Clients {
		k := clientWork{client: c, mean: s.Work(&c, 0, s.Seconds), active: float64(len(c.Rates)*rateWindow) / float64(s.Seconds)}
		for _, w := range c.Rates {
			k.peak = max(k.peak, s.Work(&Client{Rates: []RateWindow{w}, Tokens: c.Tokens}, w.Offset, w.Offset+rateWindow))
		}
		out = append(out, k)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].mean > out[j].mean })
	return out
}

func (s *Source) keep(rule *ClientRule) {
	most := rule.Most
	if most == 0 {
		most = maxClients
	}
	kept := []Client{}
	s.mix = pool(s.Clients)
	for _, k := range s.ranked() {
		if len(rule.IDs) > 0 && !slices.Contains(rule.IDs, k.client.ID) || len(kept) >= most {
			continue
		}
		if rule.Active.holds(k.active) && rule.Mean.holds(k.mean) && rule.Peak.holds(k.peak) && rule.Jump.holds(part(k.peak, k.mean)) {
			kept = append(kept, k.client)
		}
	}
	slices.SortFunc(kept, func(a, b Client) int { return a.ID - b.ID })
	s.Clients = kept
}

const prefillLevels = 64

// prefill is the seconds that requests need to their first token, at evenly spaced quantiles, from the published tokens.
func (s *Source) prefill() []float64 {
	d := durations{}
	var levels [tokenLevels]int64
	for i := range s.Clients {
		for _, w := range s.tokens(&s.Clients[i]) {
			table(&levels, w.Input, micro/s.Replica.PromptPerSecond)
			for _, v := range levels {
				seconds := float64(v) / micro
				d.add(seconds, seconds, max(w.Rate, 0))
			}
		}
	}
	return d.levels(prefillLevels)
}

// levels are evenly spaced quantiles, rising.
func (d *durations) levels(n int) []float64 {
	total := d.total()
	if total == 0 {
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = d.quantile((float64(i)+0.5)/float64(n), total)
	}
	return out
}

// WorkloadText is the YAML of a workload of the program.
func WorkloadText(name string) ([]byte, error) {
	if _, ok := shipped()[name]; !ok {
		return nil, fleet.Errorf(fleet.CodeInvalid, "there is no workload %q; there are %s", name, strings.Join(slices.Concat(builtinNames, boardNames), ", "))
	}
	return workloadFiles.ReadFile("workloads/" + name + ".yaml")
}
