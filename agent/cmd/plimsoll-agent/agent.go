package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"plimsoll.dev/agent/act"
	"plimsoll.dev/agent/collect"
	"plimsoll.dev/agent/serve"
	"plimsoll.dev/agent/uplink"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// agent ties the rooms together: it is the uplink's Handler and carries plans to act and results to the spool.
type agent struct {
	actor   *act.Actor
	collect *collect.Collector
	dict    *collect.Dictionary
	spool   *uplink.Spool
	clock   *collect.Clock
	log     *slog.Logger
	board   *serve.Board
	hello   *agentv1.Hello // what does not change

	karpenter *act.Karpenter // nil: machines are not steered

	plans chan *agentv1.Plan // at most one waits: a newer plan takes the place of an older one

	// mu guards failed.
	mu     sync.Mutex
	failed error
}

// runAgent runs until ctx ends or the agent is fenced.
func runAgent(ctx context.Context, cfg Config, role, node, version string, log *slog.Logger) error {
	state, err := uplink.OpenState(cfg.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = state.Close() }()
	spool, err := uplink.OpenSpool(state.Path("spool"), cfg.Spool.MaxBytes, time.Now())
	if err != nil {
		return err
	}
	defer func() { _ = spool.Close() }()
	dict, err := collect.OpenDictionary(state.Path("series.jsonl"))
	if err != nil {
		return err
	}
	defer func() { _ = dict.Close() }()
	journal, err := act.OpenJournal(state.Path("act.log"))
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &agent{dict: dict, spool: spool, clock: &collect.Clock{}, log: log, plans: make(chan *agentv1.Plan, 1)}
	a.board = serve.NewBoard(serve.Env{NowMS: a.clock.NowMS, Observed: func() map[string]int32 { return a.collect.Observed() }, Frozen: func() bool { return a.actor.Frozen() }})
	parts, err := build(cfg, role, node, version, a.board, log)
	if err != nil {
		return err
	}
	defer parts.close()
	a.hello = parts.hello
	a.collect = collect.New(collect.Config{
		Sample: seconds(cfg.Intervals.SampleSeconds), Frame: seconds(cfg.Intervals.FrameSeconds),
		Resync: seconds(cfg.Intervals.InventoryResyncSeconds), FramesOnly: role == "node",
	}, parts.sources, spool, dict, a.clock, log)
	limits := act.Limits{MaxReplicas: cfg.Limits.MaxReplicas, MaxReplicasPerWorkload: cfg.Limits.MaxReplicasPerWorkload,
		MaxActionsPerMinute: cfg.Limits.MaxActionsPerMinute, Freeze: cfg.Limits.Freeze}
	actuator, err := route(cfg, parts.actuator, parts.rest, a.board)
	if err != nil {
		return err
	}
	a.actor = act.New(act.Config{Mode: cfg.Mode, Limits: limits}, journal, actuator,
		act.Env{NowMS: a.clock.NowMS, Observed: a.collect.Observed, TransitMS: a.clock.TransitMS}, log)
	if a.karpenter, err = provisioner(cfg, parts.rest); err != nil {
		return err
	}
	if a.karpenter != nil && role == "controller" {
		a.actor.UseProvisioner(a.karpenter)
	}
	var loops map[string]func(context.Context) error
	if role == "controller" {
		more, stop, err := a.gentle(cfg, parts, state)
		if err != nil {
			return err
		}
		defer stop()
		loops = more
	}
	spool.OnLost(a.lost)

	stream := "controller"
	if role == "node" {
		stream = "node/" + node
	}
	up, err := uplink.New(uplink.Config{
		Endpoint: cfg.Endpoint, Transport: uplink.Transport(cfg.Uplink.Transport), Stream: stream, ClusterName: cfg.ClusterName,
		Version: version, Token: tokenReader(cfg),
	}, state, spool, a, log)
	if err != nil {
		return err
	}
	stopHTTP, err := serveHealth(ctx, cfg.MetricsAddress, a, up, log)
	if err != nil {
		return err
	}
	defer stopHTTP()
	if role == "controller" {
		stop, err := serveAutoscalers(ctx, cfg, a.board, a.actor, journal, a.clock.NowMS(), log)
		if err != nil {
			return err
		}
		defer stop()
	}
	log.Info("agent started", "role", role, "version", version, "mode", cfg.Mode, "epoch", spool.Epoch())
	a.run(ctx, cancel, up, loops)
	log.Info("agent stopped")
	return a.failure()
}

// run starts the three loops, and more, and waits for all of them.
func (a *agent) run(ctx context.Context, cancel context.CancelFunc, up *uplink.Uplink, more map[string]func(context.Context) error) {
	var wg sync.WaitGroup
	loop := func(name string, f func(context.Context) error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(ctx); err != nil {
				a.fail(fmt.Errorf("%s: %w", name, err))
			}
			cancel() // one ends, all end
		}()
	}
	loop("collect", a.collect.Run)
	loop("act", a.runPlans)
	loop("uplink", up.Run)
	if a.karpenter != nil {
		loop("conflicts", a.watchConflicts(a.karpenter))
	}
	for name, f := range more {
		loop(name, f)
	}
	wg.Wait()
}

func (a *agent) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = err
	}
}

func (a *agent) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(a.failed, uplink.ErrFenced) {
		return uplink.ErrFenced
	}
	return a.failed
}

// waitForCluster holds plans back until the cluster was seen once, so that limits over all workloads can be checked.
func (a *agent) waitForCluster(ctx context.Context) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for a.collect.Counters().Inventories == 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
}

// lost reacts to reports that the spool gave up.
func (a *agent) lost(kind uplink.Kind, n int) {
	switch kind {
	case uplink.KindFrame:
		a.collect.LostFrames()
	case uplink.KindInventory:
		a.collect.LostInventory()
	}
	a.log.Warn("reports were lost", "kind", int(kind), "count", n)
}

// Hello implements uplink.Handler.
func (a *agent) Hello() *agentv1.Hello {
	h := &agentv1.Hello{
		KubernetesVersion: a.hello.GetKubernetesVersion(), Capabilities: a.hello.GetCapabilities(),
		NowMs: a.clock.NowMS(), AppliedGeneration: a.actor.Generation(), Limits: a.actor.Limits(),
	}
	speed, simulated := a.clock.Simulated()
	if !simulated && slices.Contains(h.Capabilities, "sim") {
		speed, simulated = 1, true // not read yet, but its time will be data, not the wall's
	}
	if simulated {
		h.SimulatedClock, h.ClockSpeed = true, speed
	}
	return h
}

// Plan implements uplink.Handler: the newest plan waits, an older one gives way.
func (a *agent) Plan(p *agentv1.Plan) {
	for {
		select {
		case a.plans <- p:
			return
		default:
		}
		select {
		case old := <-a.plans:
			if old.GetGeneration() > p.GetGeneration() {
				p = old
			}
		default:
		}
	}
}

// Config implements uplink.Handler.
func (a *agent) Config(c *agentv1.Config) {
	if err := a.actor.Configure(c); err != nil {
		a.log.Error("the service's configuration could not be kept", "error", err)
	}
	a.collect.SetIntervals(seconds(int(c.GetSampleSeconds())), seconds(int(c.GetFrameSeconds())))
}

// Series implements uplink.Handler.
func (a *agent) Series() []*agentv1.SeriesDef { return a.dict.Announced() }

// tokenReader reads the token anew each time: a Secret may change under a running agent. A file that is absent is no error.
func tokenReader(cfg Config) func() (string, error) {
	return func() (string, error) {
		if cfg.TokenFile == "" {
			return cfg.Token, nil
		}
		b, err := os.ReadFile(cfg.TokenFile)
		if errors.Is(err, os.ErrNotExist) {
			return cfg.Token, nil
		}
		return strings.TrimSpace(string(b)), err
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
