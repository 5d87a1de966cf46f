package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/agent/act"
	"plimsoll.dev/agent/collect"
	"plimsoll.dev/agent/uplink"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Karpenter says whether NodePools and NodeOverlays are written, and which NodePools of others.
type Karpenter struct {
	Enabled bool     `json:"enabled"` // write NodePools and NodeOverlays named plimsoll-*
	Own     []string `json:"own"`     // NodePools that others made and that Plimsoll may write once a plan does, "*" for any; restored by -hand-back
}

const (
	conflictLook  = 30 * time.Second
	conflictAgain = 10 * time.Minute // the same conflict is told again after this
	maxPlanFile   = 32 << 20
	karpenterQPS  = 400
)

func (k Karpenter) faults(kubernetes bool) []error {
	var out []error
	if k.Enabled && !kubernetes {
		out = append(out, errors.New("autoscalers.karpenter needs sources.kubernetes"))
	}
	if !k.Enabled && len(k.Own) > 0 {
		out = append(out, errors.New("autoscalers.karpenter.own names NodePools, but autoscalers.karpenter.enabled is false"))
	}
	for _, name := range k.Own {
		if name != "*" && (name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "") {
			out = append(out, fmt.Errorf("autoscalers.karpenter.own: %q cannot be the name of a NodePool", name))
		}
	}
	return out
}

// provisioner is nil where Karpenter is not steered.
func provisioner(cfg Config, rc *rest.Config) (*act.Karpenter, error) {
	if !cfg.Autoscalers.Karpenter.Enabled || rc == nil {
		return nil, nil
	}
	rc = rest.CopyConfig(rc)
	rc.QPS, rc.Burst = karpenterQPS, 2*karpenterQPS // a plan's pools are to open at nearly the same time; sixteen calls are under way at once
	objects, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return act.NewKarpenter(objects, cfg.Autoscalers.Karpenter.Own), nil
}

// watchConflicts tells when somebody else changes what a plan wrote: each conflict once in ten minutes.
func (a *agent) watchConflicts(k *act.Karpenter) func(context.Context) error {
	return func(ctx context.Context) error {
		t := time.NewTicker(conflictLook)
		defer t.Stop()
		told := map[string]time.Time{}
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-t.C:
			}
			found, err := k.Conflicts(ctx)
			if err != nil {
				a.log.Warn("it is not known who writes NodePools", "error", err)
			}
			var events []*agentv1.Event
			now := time.Now()
			for _, w := range found {
				if key := w.Error(); now.Sub(told[key]) > conflictAgain {
					a.log.Warn("conflict", "object", w.Object, "writers", strings.Join(w.Writers, ","), "fields", strings.Join(w.Fields, ","))
					events = append(events, &agentv1.Event{AtMs: a.clock.NowMS(), Kind: "conflict", Object: w.Object, Reason: "TwoWriters", Message: w.Error()})
				}
			}
			if len(events) == 0 || a.tellEvents(events) != nil {
				continue // what was not told is told at the next look
			}
			for _, e := range events {
				told[e.GetMessage()] = now
			}
		}
	}
}

// applyFile applies the plan of a file (JSON of the wire's Plan) under the same journal, fence, mode and limits as one from the service,
// writes a result for each action, one a line, and ends. No other agent may use the state directory at the same time.
func applyFile(ctx context.Context, cfg Config, path string, out io.Writer, log *slog.Logger) error {
	plan, err := readPlan(path)
	if err != nil {
		return err
	}
	state, err := uplink.OpenState(cfg.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = state.Close() }()
	journal, err := act.OpenJournal(state.Path("act.log"))
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	rc, err := restConfig(cfg.Sources.Kubernetes.Kubeconfig, buildVersion())
	if err != nil {
		return err
	}
	direct, err := act.NewKube(rc)
	if err != nil {
		return err
	}
	k, err := provisioner(cfg, rc)
	if err != nil {
		return err
	}
	actor := act.New(act.Config{Mode: cfg.Mode, Limits: act.Limits{MaxReplicas: cfg.Limits.MaxReplicas, MaxReplicasPerWorkload: cfg.Limits.MaxReplicasPerWorkload,
		MaxActionsPerMinute: cfg.Limits.MaxActionsPerMinute, Freeze: cfg.Limits.Freeze}}, journal, direct,
		act.Env{NowMS: func() int64 { return time.Now().UnixMilli() }, Observed: func() map[string]int32 { return nil }}, log)
	if k != nil {
		actor.UseProvisioner(k)
	}
	if w := cfg.WarmPools; w.Enabled {
		client, err := kubernetes.NewForConfig(rc)
		if err != nil {
			return fmt.Errorf("kubernetes: %w", err)
		}
		actor.UseWarmPools(act.NewWarmPools(client, act.WarmConfig{Namespace: w.Namespace, PriorityClass: w.PriorityClass, Image: w.Image, Max: w.Max}))
	}
	w := bufio.NewWriter(out)
	var bad []string
	plans := []string{}
	owed := actor.Recover(ctx)
	if err := leaveOwed(state, cfg.Spool.MaxBytes, owed, log); err != nil {
		return err
	}
	for _, results := range append(owed, actor.Apply(ctx, plan)) {
		if len(results) > 0 {
			plans = append(plans, results[0].GetPlanId())
		}
		for _, r := range results {
			b, err := protojson.Marshal(r)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\n", b)
			if !slices.Contains([]string{"applied", "already"}, r.GetOutcome()) && r.GetPlanId() == plan.GetPlanId() {
				bad = append(bad, r.GetActionId()+" "+r.GetOutcome()+" "+r.GetErrorCode())
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, plan := range plans {
		if err := actor.Reported(plan); err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of the plan's actions were not carried out, first: %s", len(bad), bad[0])
	}
	return nil
}

// leaveOwed puts what a former life of an enrolled agent did not tell into the spool, where the next one finds it: its service may wait for that.
func leaveOwed(state *uplink.State, maxBytes int64, owed [][]*agentv1.ActionResult, log *slog.Logger) error {
	if _, enrolled := state.Identity(); !enrolled || len(owed) == 0 {
		return nil
	}
	spool, err := uplink.OpenSpool(state.Path("spool"), maxBytes, time.Now())
	if err != nil {
		return err
	}
	a := &agent{spool: spool, clock: &collect.Clock{}, log: log}
	for _, results := range owed {
		if err := a.tellResults(results); err != nil {
			return errors.Join(err, spool.Close())
		}
	}
	return spool.Close()
}

func readPlan(path string) (*agentv1.Plan, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if info.Size() > maxPlanFile {
		return nil, fmt.Errorf("plan: %s has %d bytes; at most %d are read", path, info.Size(), maxPlanFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	plan := &agentv1.Plan{}
	if err := protojson.Unmarshal(b, plan); err != nil {
		return nil, fmt.Errorf("plan: %s: %w", path, err)
	}
	if plan.GetPlanId() == "" || plan.GetGeneration() == 0 {
		return nil, fmt.Errorf("plan: %s has no plan_id or no generation", path)
	}
	return plan, nil
}
