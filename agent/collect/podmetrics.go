package collect

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	scrapeTimeout   = 3 * time.Second
	scrapeAtOnce    = 16
	maxScrapedPods  = 4000
	rateWindowMS    = 15_000 // rates look back at least this far once there is history
	latencyWindowMS = 60_000 // so do latencies: a few requests make no percentile
	keepSnapshots   = 64
)

// AnnotationPort and AnnotationPath of a pod win over what the configuration says.
const (
	AnnotationPort = "plimsoll.dev/scrape-port"
	AnnotationPath = "plimsoll.dev/scrape-path"
)

// ScrapeTarget picks pods and says what their metrics mean.
type ScrapeTarget struct {
	Namespace  string // empty: all
	Selector   labels.Selector
	Annotation string // "key" or "key=value"; empty: any
	Port       int    // 0: only pods with the annotation are scraped
	Path       string
	Rules      []MetricRule
}

// MetricRule makes one signal of one metric family.
type MetricRule struct {
	Signal   string
	Families []string // the first one that the page has
	Read     ReadAs
	Quantile float64 // of ReadQuantile
}

// ReadAs says how a family is read.
type ReadAs string

// Ways of reading: the value as it is, a counter's increase per second, or a quantile of a histogram's increase.
const (
	ReadGauge    ReadAs = "gauge"
	ReadRate     ReadAs = "rate"
	ReadQuantile ReadAs = "quantile"
)

// VLLM are the rules for vLLM's own metrics, old names and new.
func VLLM() []MetricRule {
	latency, ttft := []string{"vllm:e2e_request_latency_seconds"}, []string{"vllm:time_to_first_token_seconds"}
	return []MetricRule{
		{Signal: SignalRunning, Families: []string{"vllm:num_requests_running"}, Read: ReadGauge},
		{Signal: SignalQueueLength, Families: []string{"vllm:num_requests_waiting"}, Read: ReadGauge},
		{Signal: SignalKVCache, Families: []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}, Read: ReadGauge},
		{Signal: SignalRequestRate, Families: []string{"vllm:request_success_total", "vllm:request_success"}, Read: ReadRate},
		{Signal: SignalTokensIn, Families: []string{"vllm:prompt_tokens_total", "vllm:prompt_tokens"}, Read: ReadRate},
		{Signal: SignalTokensOut, Families: []string{"vllm:generation_tokens_total", "vllm:generation_tokens"}, Read: ReadRate},
		{Signal: SignalLatencyP50, Families: latency, Read: ReadQuantile, Quantile: 0.5},
		{Signal: SignalLatencyP99, Families: latency, Read: ReadQuantile, Quantile: 0.99},
		{Signal: SignalTTFTP99, Families: ttft, Read: ReadQuantile, Quantile: 0.99},
	}
}

// Mapping makes rules of signal names and metric names. A metric that ends in _total or _bucket is a counter or a histogram;
// anything else is a gauge.
func Mapping(m map[string]string) []MetricRule {
	var out []MetricRule
	for _, signal := range sortedKeys(m) {
		r := MetricRule{Signal: signal, Families: []string{m[signal]}, Read: ReadGauge}
		switch {
		case strings.HasSuffix(m[signal], "_total"):
			r.Read = ReadRate
		case strings.HasSuffix(m[signal], "_bucket"):
			r.Families, r.Read, r.Quantile = []string{strings.TrimSuffix(m[signal], "_bucket")}, ReadQuantile, 0.99
			if strings.Contains(signal, "p50") {
				r.Quantile = 0.5
			}
		}
		out = append(out, r)
	}
	return out
}

// PodMetrics scrapes pods.
type PodMetrics struct {
	targets []ScrapeTarget
	client  *http.Client
	past    map[string][]snapshot // by pod uid, oldest first
}

// snapshot is one reading of one pod.
type snapshot struct {
	atMS       int64
	counters   map[string]float64
	histograms map[string]buckets
}

// NewPodMetrics makes the source.
func NewPodMetrics(targets []ScrapeTarget) *PodMetrics {
	dial := (&net.Dialer{Timeout: scrapeTimeout}).DialContext
	return &PodMetrics{targets: targets, past: map[string][]snapshot{},
		client: &http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}}}
}

// Name implements Source.
func (s *PodMetrics) Name() string { return "pod_metrics" }

// scrape is one pod's reading, or why there is none.
type scrape struct {
	pod      Pod
	target   *ScrapeTarget
	families map[string]*dto.MetricFamily
	err      error
}

// Collect implements Source. A pod that does not answer is missing, which is not an error of the source; only when no ready
// pod answers is it one.
func (s *PodMetrics) Collect(ctx context.Context, in Input) (Batch, error) {
	jobs := s.plan(in.Pods)
	s.scrapeAll(ctx, jobs)
	g, h, alive := newGather(), newHistograms(), map[string]bool{}
	asked, answered := 0, 0
	var firstErr error
	for _, j := range jobs {
		alive[j.pod.UID] = true
		if j.pod.Ready {
			asked++
			if j.err == nil {
				answered++
			} else if firstErr == nil {
				firstErr = j.err
			}
		}
		s.read(j, in.NowMS, g, h)
	}
	for uid := range s.past {
		if !alive[uid] {
			delete(s.past, uid)
		}
	}
	out := Batch{Workloads: h.into(g.signals(in.NowMS), g, in.NowMS)}
	if asked > 0 && answered == 0 {
		return out, fmt.Errorf("none of %d pods gave metrics: %w", asked, firstErr)
	}
	return out, nil
}

// plan picks the pods to scrape; the first target that fits a pod counts.
func (s *PodMetrics) plan(pods []Pod) []*scrape {
	var out []*scrape
	for _, p := range pods {
		for i := range s.targets {
			if s.targets[i].picks(p) && len(out) < maxScrapedPods {
				out = append(out, &scrape{pod: p, target: &s.targets[i]})
				break
			}
		}
	}
	return out
}

func (t *ScrapeTarget) picks(p Pod) bool {
	if t.Namespace != "" && t.Namespace != p.Namespace {
		return false
	}
	if t.Selector != nil && !t.Selector.Matches(labels.Set(p.Labels)) {
		return false
	}
	if key, value, hasValue := strings.Cut(t.Annotation, "="); t.Annotation != "" {
		if got, ok := p.Annotations[key]; !ok || (hasValue && got != value) {
			return false
		}
	}
	return t.port(p) > 0
}

func (t *ScrapeTarget) port(p Pod) int {
	if n, err := strconv.Atoi(p.Annotations[AnnotationPort]); err == nil && n > 0 && n < 65536 {
		return n
	}
	return t.Port
}

func (t *ScrapeTarget) url(p Pod) string {
	path := t.Path
	if a := p.Annotations[AnnotationPath]; strings.HasPrefix(a, "/") {
		path = a
	}
	return "http://" + net.JoinHostPort(p.IP, strconv.Itoa(t.port(p))) + path
}

func (t *ScrapeTarget) wants(family string) bool {
	for _, r := range t.Rules {
		for _, f := range r.Families {
			if f == family {
				return true
			}
		}
	}
	return false
}

func (s *PodMetrics) scrapeAll(ctx context.Context, jobs []*scrape) {
	slots := make(chan struct{}, scrapeAtOnce)
	var wg sync.WaitGroup
	for _, j := range jobs {
		if !j.pod.Ready || j.pod.IP == "" {
			j.err = fmt.Errorf("pod %s/%s is not ready", j.pod.Namespace, j.pod.Name)
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			text, err := fetchText(ctx, s.client, j.target.url(j.pod))
			if err == nil {
				j.families, err = parseText(text, j.target.wants)
			}
			j.err = err
		}()
	}
	wg.Wait()
}

// read turns one pod's families into signals; histograms are added up over the pods of a workload first.
func (s *PodMetrics) read(j *scrape, nowMS int64, g *gather, h *histograms) {
	got, want := map[string]float64{}, []string{}
	now := snapshot{atMS: nowMS, counters: map[string]float64{}, histograms: map[string]buckets{}}
	past := s.past[j.pod.UID]
	for _, r := range j.target.Rules {
		if r.Read == ReadQuantile {
			h.expect(j.pod, r)
		} else {
			want = append(want, r.Signal)
		}
		name, f := r.find(j.families)
		if f == nil || !j.pod.Ready {
			continue
		}
		switch r.Read {
		case ReadGauge:
			if v, ok := gauge(r.Signal, f); ok {
				got[r.Signal] = v
			}
		case ReadRate:
			if v, ok := sumFamily(f); ok {
				now.counters[name] = v
				if rate, ok := rateSince(past, name, v, nowMS); ok {
					got[r.Signal] = rate
				}
			}
		case ReadQuantile:
			if b, ok := sumHistogram(f); ok {
				now.histograms[name] = b
				if before, ok := histogramSince(past, name, nowMS); ok {
					h.add(j.pod, r, b.minus(before))
				}
			}
		}
	}
	g.pod(j.pod, want, got)
	if j.err == nil && j.pod.Ready {
		s.past[j.pod.UID] = prune(append(past, now), nowMS)
	}
}

// gauge folds the label sets of one pod's page the way pods are folded into a workload.
func gauge(signal string, f *dto.MetricFamily) (float64, bool) {
	var vs []float64
	for _, m := range f.GetMetric() {
		v, ok := sample(m)
		if !ok {
			return 0, false
		}
		vs = append(vs, v)
	}
	if len(vs) == 0 {
		return 0, false
	}
	return fold(signal, vs), true
}

func (r MetricRule) find(families map[string]*dto.MetricFamily) (string, *dto.MetricFamily) {
	for _, name := range r.Families {
		if f := families[name]; f != nil {
			return name, f
		}
	}
	return "", nil
}

// rateSince is the increase per second over the rate window, or over what history there is. A counter that went back began
// again at zero.
func rateSince(past []snapshot, name string, v float64, nowMS int64) (float64, bool) {
	s := lookBack(past, nowMS, rateWindowMS, func(s snapshot) bool { _, ok := s.counters[name]; return ok })
	if s == nil {
		return 0, false
	}
	d := v - s.counters[name]
	if d < 0 {
		d = v
	}
	return d / (float64(nowMS-s.atMS) / 1000), true
}

func histogramSince(past []snapshot, name string, nowMS int64) (buckets, bool) {
	s := lookBack(past, nowMS, latencyWindowMS, func(s snapshot) bool { return s.histograms[name] != nil })
	if s == nil {
		return nil, false
	}
	return s.histograms[name], true
}

// lookBack finds the newest snapshot that is at least window old, else the oldest there is.
func lookBack(past []snapshot, nowMS, window int64, has func(snapshot) bool) *snapshot {
	var best *snapshot
	for i := range past {
		s := &past[i]
		if s.atMS < nowMS && has(*s) && (best == nil || nowMS-s.atMS >= window) {
			best = s
		}
	}
	return best
}

// prune keeps what the longest window needs.
func prune(past []snapshot, nowMS int64) []snapshot {
	first := 0
	for i := range past {
		if nowMS-past[i].atMS >= latencyWindowMS {
			first = i
		}
	}
	first = max(first, len(past)-keepSnapshots)
	return append([]snapshot(nil), past[first:]...)
}

// histograms adds up what the pods of a workload observed, by signal.
type histograms struct {
	by map[string]map[string]*histogram
}

type histogram struct {
	rule             MetricRule
	sum              buckets
	reported, silent int
}

func newHistograms() *histograms { return &histograms{by: map[string]map[string]*histogram{}} }

func (h *histograms) of(workload string, r MetricRule) *histogram {
	if h.by[workload] == nil {
		h.by[workload] = map[string]*histogram{}
	}
	x := h.by[workload][r.Signal]
	if x == nil {
		x = &histogram{rule: r, sum: buckets{}}
		h.by[workload][r.Signal] = x
	}
	return x
}

// expect notes that a ready pod should say something; add takes that back.
func (h *histograms) expect(p Pod, r MetricRule) {
	if x := h.of(p.Workload, r); p.Ready {
		x.silent++
	}
}

func (h *histograms) add(p Pod, r MetricRule, b buckets) {
	x := h.of(p.Workload, r)
	x.silent--
	x.reported++
	x.sum.add(b)
}

// into adds the quantiles to the observations. When nobody finished a request in the window there is no latency: zero is
// said only if every pod answered and nothing runs or waits, so that a stuck server never looks fast.
func (h *histograms) into(ws []*agentv1.WorkloadObservation, g *gather, nowMS int64) []*agentv1.WorkloadObservation {
	for _, w := range ws {
		idle := isIdle(w)
		for _, name := range sortedKeys(h.by[w.GetWorkload()]) {
			x := h.by[w.GetWorkload()][name]
			v, ok := x.sum.quantile(x.rule.Quantile)
			if !ok && (!idle || x.silent > 0 || x.reported == 0) {
				continue
			}
			w.Signals = append(w.Signals, &agentv1.Signal{
				Name: name, Value: v, AtMs: nowMS, PodsReported: count32(x.reported), PodsMissing: count32(x.silent), PodsUnready: count32(g.unread[w.GetWorkload()]),
			})
		}
		sort.Slice(w.Signals, func(i, j int) bool { return w.Signals[i].GetName() < w.Signals[j].GetName() })
	}
	return ws
}

// isIdle says that the pods report nothing running and nothing waiting.
func isIdle(w *agentv1.WorkloadObservation) bool {
	seen := 0
	for _, s := range w.GetSignals() {
		if s.GetName() == SignalRunning || s.GetName() == SignalQueueLength {
			seen++
			if s.GetValue() != 0 || s.GetPodsMissing() > 0 {
				return false
			}
		}
	}
	return seen == 2
}
