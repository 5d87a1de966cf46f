package collect

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

func workloadText(ws []*agentv1.WorkloadObservation) string {
	var parts []string
	for _, w := range ws {
		p := w.GetWorkload()
		for _, s := range w.GetSignals() {
			p += fmt.Sprintf(" %s=%.4g r%d u%d m%d", s.GetName(), roundTo(s.GetValue()), s.GetPodsReported(), s.GetPodsUnready(), s.GetPodsMissing())
			if s.GetName() == SignalGPUMemory {
				p = strings.Replace(p, fmt.Sprintf("%.4g", roundTo(s.GetValue())), strconv.FormatFloat(s.GetValue(), 'f', -1, 64), 1)
			}
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, "; ")
}

func roundTo(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// vllmPage is a page of a pod in vLLM's form; finished requests took 0.5 s each, and one in ten 5 s.
func vllmPage(running, waiting, finished, slow int, cache float64) string {
	return fmt.Sprintf(`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} %d.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} %d.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="m"} %g
# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="stop",model_name="m"} %d
vllm:request_success_total{finished_reason="length",model_name="m"} %d
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="m"} %d
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{le="1.0",model_name="m"} %d
vllm:e2e_request_latency_seconds_bucket{le="10.0",model_name="m"} %d
vllm:e2e_request_latency_seconds_bucket{le="+Inf",model_name="m"} %d
vllm:e2e_request_latency_seconds_sum{model_name="m"} 1
vllm:e2e_request_latency_seconds_count{model_name="m"} %d
# TYPE unrelated histogram
unrelated{le="1"} this is no number
`, running, waiting, cache, finished, slow, (finished+slow)*100, finished, finished+slow, finished+slow, finished+slow)
}

// podServer answers for all pods of a test, which all have the loopback address: the port tells them apart.
type podServer struct {
	mu    sync.Mutex
	pages map[int]string // by index; absent: 500
	ports []string
}

func newPodServer(t *testing.T, n int) *podServer {
	s := &podServer{pages: map[int]string{}}
	for i := range n {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			page, ok := s.pages[i]
			if !ok || r.URL.Path != "/metrics" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			_, _ = w.Write([]byte(page))
		}))
		t.Cleanup(srv.Close)
		_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s.ports = append(s.ports, port)
	}
	return s
}

func (s *podServer) set(i int, page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[i] = page
}

func (s *podServer) pods(ready ...bool) []Pod {
	out := pods(ready...)
	for i := range out {
		out[i].Annotations = map[string]string{AnnotationPort: s.ports[i]}
	}
	return out
}

func vllmSource() *PodMetrics {
	return NewPodMetrics([]ScrapeTarget{{Selector: labels.Everything(), Path: "/metrics", Rules: VLLM()}})
}

func collectAt(t *testing.T, s *PodMetrics, at int64, ps []Pod) string {
	t.Helper()
	b, err := s.Collect(context.Background(), Input{NowMS: at, Pods: ps})
	if err != nil {
		t.Fatal(err)
	}
	return workloadText(b.Workloads)
}

func TestVLLMPods(t *testing.T) {
	t.Parallel()
	s := newPodServer(t, 3)
	s.set(0, vllmPage(4, 1, 100, 0, 0.5))
	s.set(1, vllmPage(2, 3, 200, 0, 0.7))
	src := vllmSource()
	const w = "llm/StatefulSet/chat"
	if got, want := collectAt(t, src, 0, s.pods(true, true, false)),
		w+" kv_cache_ratio=0.6 r2 u1 m0 queue_length=4 r2 u1 m0 running_requests=6 r2 u1 m0"; got != want {
		t.Errorf("first scrape: rates and latencies need two\ngot  %s\nwant %s", got, want)
	}
	s.set(0, vllmPage(4, 1, 190, 10, 0.5))
	s.set(1, vllmPage(2, 3, 280, 20, 0.7))
	if got, want := collectAt(t, src, 10_000, s.pods(true, true, false)),
		w+" kv_cache_ratio=0.6 r2 u1 m0 latency_p50_seconds=0.5882 r2 u1 m0 latency_p99_seconds=9.4 r2 u1 m0 queue_length=4 r2 u1 m0 request_rate=20 r2 u1 m0 running_requests=6 r2 u1 m0 tokens_out_per_second=2000 r2 u1 m0"; got != want {
		t.Errorf("second scrape\ngot  %s\nwant %s", got, want)
	}
	// pod 1 restarted with counters at zero, pod 0 does not answer
	s.mu.Lock()
	delete(s.pages, 0)
	s.mu.Unlock()
	s.set(1, vllmPage(1, 0, 30, 0, 0.7))
	if got, want := collectAt(t, src, 20_000, s.pods(true, true, false)),
		w+" kv_cache_ratio=0.7 r1 u1 m1 latency_p50_seconds=0.5 r1 u1 m1 latency_p99_seconds=0.99 r1 u1 m1 queue_length=0 r1 u1 m1 request_rate=1.5 r1 u1 m1 running_requests=1 r1 u1 m1 tokens_out_per_second=150 r1 u1 m1"; got != want {
		t.Errorf("a pod is missing\ngot  %s\nwant %s", got, want)
	}
}

func TestNoFinishedRequest(t *testing.T) {
	t.Parallel()
	s := newPodServer(t, 1)
	for _, c := range []struct {
		name             string
		running, waiting int
		want             bool
	}{
		{"nothing runs and nothing waits: nobody waited", 0, 0, true},
		{"requests run and none ends: no latency is known", 3, 0, false},
		{"requests wait and none ends: no latency is known", 0, 3, false},
	} {
		s.set(0, vllmPage(c.running, c.waiting, 10, 0, 0.5))
		src := vllmSource()
		collectAt(t, src, 0, s.pods(true))
		if got := strings.Contains(collectAt(t, src, 10_000, s.pods(true)), "latency_p99_seconds=0 "); got != c.want {
			t.Errorf("%s: a latency of zero is %v", c.name, got)
		}
	}
}

func TestPodMetricsNobodyAnswers(t *testing.T) {
	t.Parallel()
	s := newPodServer(t, 1)
	if _, err := vllmSource().Collect(context.Background(), Input{Pods: s.pods(true)}); err == nil {
		t.Error("no pod answered, and that is no error")
	}
	b, err := vllmSource().Collect(context.Background(), Input{Pods: s.pods(false)})
	if err != nil || len(b.Workloads) != 1 || len(b.Workloads[0].GetSignals()) != 0 {
		t.Errorf("pods that are not ready give no signal at all: %v %v", b.Workloads, err)
	}
}

func TestScrapeTargets(t *testing.T) {
	t.Parallel()
	pod := Pod{Namespace: "llm", IP: "10.0.0.1", Labels: map[string]string{"app": "chat"}, Annotations: map[string]string{"team": "a", AnnotationPath: "/m"}}
	sel := func(s string) labels.Selector {
		x, err := labels.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, c := range []struct {
		name   string
		target ScrapeTarget
		picks  bool
	}{
		{"a selector that fits", ScrapeTarget{Selector: sel("app=chat"), Port: 80}, true},
		{"a selector that does not fit", ScrapeTarget{Selector: sel("app=other"), Port: 80}, false},
		{"another namespace", ScrapeTarget{Namespace: "x", Port: 80}, false},
		{"an annotation that is there", ScrapeTarget{Annotation: "team", Port: 80}, true},
		{"an annotation with its value", ScrapeTarget{Annotation: "team=a", Port: 80}, true},
		{"an annotation with another value", ScrapeTarget{Annotation: "team=b", Port: 80}, false},
		{"no port known", ScrapeTarget{Annotation: "team"}, false},
	} {
		if c.target.picks(pod) != c.picks {
			t.Errorf("%s: picked is %v", c.name, !c.picks)
		}
	}
	if u := (&ScrapeTarget{Port: 80, Path: "/metrics"}).url(pod); u != "http://10.0.0.1:80/m" {
		t.Error(u)
	}
}

func TestMappingReadsAnyGauge(t *testing.T) {
	t.Parallel()
	rules := Mapping(map[string]string{"queue_length": "my_backlog", "request_rate": "my_requests_total", "latency_p50_seconds": "my_latency_bucket"})
	got := fmt.Sprintf("%+v", rules)
	want := "[{Signal:latency_p50_seconds Families:[my_latency] Read:quantile Quantile:0.5} {Signal:queue_length Families:[my_backlog] Read:gauge Quantile:0} {Signal:request_rate Families:[my_requests_total] Read:rate Quantile:0}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A quantile of a histogram lies within its bounds and grows with q; what is added between two readings is never negative.
func TestHistogramProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b, before, cum, cumBefore := buckets{}, buckets{}, 0.0, 0.0
		for _, le := range []float64{0.1, 0.5, 1, 5, math.Inf(1)} {
			cumBefore += float64(rapid.IntRange(0, 5).Draw(rt, "before"))
			cum = max(cum, cumBefore) + float64(rapid.IntRange(0, 5).Draw(rt, "n"))
			b[le], before[le] = cum, cumBefore
		}
		for le, n := range b.minus(before) {
			if n < 0 {
				rt.Fatalf("bucket %g has %g", le, n)
			}
		}
		last := 0.0
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			v, ok := b.quantile(q)
			if ok != (b.total() > 0) || v < last || v > 5 || math.IsNaN(v) {
				rt.Fatalf("q %g of %v is %g (%v), before %g", q, b, v, ok, last)
			}
			last = v
		}
	})
}
