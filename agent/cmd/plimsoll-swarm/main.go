// Command plimsoll-swarm is the agents' half of the latency benchmark: many agents in one process, each with its own state directory,
// spool and connection, whose workloads cross a threshold again and again. It measures, for each crossing, the time from the
// observation to the arrival of the plan that answers it. It talks to loopback only and stops by itself.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"plimsoll.dev/agent/uplink"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func main() {
	endpoint := flag.String("endpoint", "", "service on loopback")
	tokens := flag.String("tokens", "", "file with one enrolment token a line: one agent each")
	seconds := flag.Int("seconds", 60, "how long to measure after all agents are connected, at most 600")
	tick := flag.Duration("tick", 15*time.Second, "time between crossings of one agent")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(min(*seconds, 600)+180)*time.Second)
	err := run(ctx, *endpoint, *tokens, time.Duration(*seconds)*time.Second, *tick)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plimsoll-swarm:", err)
		os.Exit(1)
	}
}

// Result is what the swarm saw, as one line of JSON on standard output.
type Result struct {
	Agents       int       `json:"agents"`
	Crossings    int       `json:"crossings"`
	Answered     int       `json:"answered"`
	Milliseconds []float64 `json:"milliseconds"` // sorted, of the answered ones
	CPUSeconds   float64   `json:"cpu_seconds"`
}

func run(ctx context.Context, endpoint, tokenFile string, measure, tick time.Duration) error {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost") {
		return fmt.Errorf("the endpoint must be on loopback")
	}
	data, err := os.ReadFile(tokenFile)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "plimsoll-swarm-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var agents []*agent
	var group sync.WaitGroup
	for i, token := range lines(data) {
		a, err := newAgent(filepath.Join(dir, strconv.Itoa(i)), endpoint, token)
		if err != nil {
			return err
		}
		agents = append(agents, a)
		group.Go(func() { _ = a.uplink.Run(ctx) })
	}
	if err := connected(ctx, agents); err != nil {
		return err
	}
	for i, a := range agents {
		// Spread over the tick as agents in the field are.
		offset := time.Duration(float64(tick) * float64(i) / float64(len(agents)))
		group.Go(func() { a.cross(ctx, offset, tick) })
	}
	// The first round settles policies' first decisions and is not counted.
	if err := sleep(ctx, tick+2*time.Second); err != nil {
		return err
	}
	for _, a := range agents {
		a.reset()
	}
	if err := sleep(ctx, measure); err != nil {
		return err
	}
	r := Result{Agents: len(agents)}
	for _, a := range agents {
		a.mu.Lock()
		r.Crossings += a.crossings
		r.Milliseconds = append(r.Milliseconds, a.took...)
		a.mu.Unlock()
	}
	cancel()
	group.Wait()
	slices.Sort(r.Milliseconds)
	r.Answered, r.CPUSeconds = len(r.Milliseconds), cpuSeconds()
	return json.NewEncoder(os.Stdout).Encode(r)
}

func lines(data []byte) []string {
	var out []string
	start := 0
	for i, b := range data {
		if b == '\n' {
			if i > start {
				out = append(out, string(data[start:i]))
			}
			start = i + 1
		}
	}
	return out
}

func connected(ctx context.Context, agents []*agent) error {
	for {
		n := 0
		for _, a := range agents {
			if a.uplink.Status().Connected {
				n++
			}
		}
		if n == len(agents) {
			return nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("only %d of %d agents connected: %w", n, len(agents), err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

const workload = "bench/Deployment/model"

// agent is one cluster with one workload, scaled by whatever plan comes.
type agent struct {
	uplink *uplink.Uplink
	spool  *uplink.Spool

	// mu guards what follows.
	mu        sync.Mutex
	replicas  int32
	waiting   time.Time // of the crossing that has no answer yet; zero: none
	want      int32
	crossings int
	took      []float64
	started   time.Time
}

func newAgent(dir, endpoint, token string) (*agent, error) {
	state, err := uplink.OpenState(dir)
	if err != nil {
		return nil, err
	}
	spool, err := uplink.OpenSpool(state.Path("spool"), 8<<20, time.Now())
	if err != nil {
		return nil, err
	}
	a := &agent{spool: spool, replicas: 2, started: time.Now()}
	a.uplink, err = uplink.New(uplink.Config{Endpoint: endpoint, Transport: uplink.TransportStream, Stream: "controller", Version: "swarm",
		Token: func() (string, error) { return token, nil }}, state, spool, a, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixMilli()
	_, err = spool.Append(&agentv1.Report{AtMs: now, Body: &agentv1.Report_Inventory{Inventory: &agentv1.Inventory{Snapshot: true, AtMs: now,
		Workloads: []*agentv1.Workload{{Key: workload, Namespace: "bench", Kind: "Deployment", Name: "model", Replicas: 2, CpuMilli: 1000, MemMib: 1024,
			GpuMilli: 1000, Scalable: true, HasReadinessProbe: true, HasRequests: true}}}}})
	return a, err
}

// cross reports a load that asks for another replica count at each tick.
func (a *agent) cross(ctx context.Context, offset, tick time.Duration) {
	if sleep(ctx, offset) != nil {
		return
	}
	for {
		if err := a.report(); err != nil {
			fmt.Fprintln(os.Stderr, "plimsoll-swarm:", err)
			return
		}
		if sleep(ctx, tick-time.Duration(rand.Int64N(int64(tick/20)))) != nil {
			return
		}
	}
}

func (a *agent) report() error {
	a.mu.Lock()
	want := int32(4)
	if a.replicas == 4 {
		want = 8
	}
	a.want, a.waiting = want, time.Now()
	a.crossings++
	now := a.waiting.UnixMilli()
	o := &agentv1.Observation{AtMs: now, Workloads: []*agentv1.WorkloadObservation{{Workload: workload, Replicas: a.replicas, Ready: a.replicas,
		Signals: []*agentv1.Signal{
			{Name: "queue_length", Value: float64(want) * 10, AtMs: now, PodsReported: a.replicas},
			{Name: "request_rate", Value: float64(want), AtMs: now, PodsReported: a.replicas},
			{Name: "latency_p99_seconds", Value: 1, AtMs: now, PodsReported: a.replicas},
			{Name: "gpu_sm_active_ratio", Value: 0.6, AtMs: now, PodsReported: a.replicas},
		}}}}
	a.mu.Unlock()
	_, err := a.spool.Append(&agentv1.Report{AtMs: now, Body: &agentv1.Report_Observation{Observation: o}})
	return err
}

func (a *agent) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crossings, a.took, a.waiting = 0, nil, time.Time{}
}

// Plan implements uplink.Handler: measure, obey, answer.
func (a *agent) Plan(p *agentv1.Plan) {
	a.mu.Lock()
	var results []*agentv1.ActionResult
	for _, act := range p.GetActions() {
		if act.GetTo() == a.want && !a.waiting.IsZero() {
			a.took = append(a.took, float64(time.Since(a.waiting).Microseconds())/1000)
			a.waiting = time.Time{}
		}
		results = append(results, &agentv1.ActionResult{ActionId: act.GetActionId(), PlanId: p.GetPlanId(), Generation: p.GetGeneration(), Outcome: "applied",
			Before: a.replicas, After: act.GetTo(), AtMs: time.Now().UnixMilli()})
		a.replicas = act.GetTo()
	}
	a.mu.Unlock()
	if len(results) > 0 {
		_, _ = a.spool.Append(&agentv1.Report{AtMs: time.Now().UnixMilli(), Body: &agentv1.Report_Results{Results: &agentv1.ActionResults{Results: results}}})
	}
}

// Hello implements uplink.Handler.
func (a *agent) Hello() *agentv1.Hello {
	return &agentv1.Hello{KubernetesVersion: "v1.36.3", Capabilities: []string{"scale"}}
}

// Config implements uplink.Handler.
func (a *agent) Config(*agentv1.Config) {}

// Standing implements uplink.Handler.
func (a *agent) Standing(*agentv1.Standing) {}

// Series implements uplink.Handler.
func (a *agent) Series() []*agentv1.SeriesDef { return nil }
