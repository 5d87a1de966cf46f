package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"plimsoll.dev/agent/act"
	"plimsoll.dev/agent/collect"
	"plimsoll.dev/agent/uplink"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Drain says whether machines are let go gently: cordoned, their pods told to save their work and evicted.
type Drain struct {
	Enabled  bool   `json:"enabled"`  // carry out drains of plans, and what follows
	OnNotice string `json:"onNotice"` // of the cloud: drain (default), checkpoint: only tell pods, off
	OnOthers string `json:"onOthers"` // machines that Karpenter or Cluster Autoscaler let go: checkpoint (default), off
}

// WarmPools says whether room is kept ready by placeholder pods.
type WarmPools struct {
	Enabled       bool   `json:"enabled"`
	Namespace     string `json:"namespace"`     // the agent's own
	PriorityClass string `json:"priorityClass"` // of placeholders
	Image         string `json:"image"`         // of placeholders; does nothing
	Max           int32  `json:"max"`           // placeholders of all pools together; default 20
}

const (
	leavingLook     = time.Second
	defaultWarm     = 20
	maxWarmAllowed  = 1000
	drainResultsMax = 64
)

func (d Drain) withDefaults() Drain {
	if d.OnNotice == "" {
		d.OnNotice = "drain"
	}
	if d.OnOthers == "" {
		d.OnOthers = "checkpoint"
	}
	return d
}

func (w WarmPools) withDefaults() WarmPools {
	if w.Max == 0 {
		w.Max = defaultWarm
	}
	return w
}

func (c Config) gentleFaults() []error {
	var out []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Errorf(format, args...))
		}
	}
	d, w := c.Drain, c.WarmPools
	fault(d.Enabled && !c.Sources.Kubernetes.Enabled, "drain needs sources.kubernetes")
	fault(!oneOf(d.OnNotice, "drain", "checkpoint", "off"), "drain.onNotice must be drain, checkpoint or off, not %q", d.OnNotice)
	fault(!oneOf(d.OnOthers, "checkpoint", "off"), "drain.onOthers must be checkpoint or off, not %q", d.OnOthers)
	fault(w.Enabled && !c.Sources.Kubernetes.Enabled, "warmPools needs sources.kubernetes")
	fault(w.Enabled && (w.Namespace == "" || w.PriorityClass == "" || w.Image == ""), "warmPools needs namespace, priorityClass and image")
	fault(w.Max < 0 || w.Max > maxWarmAllowed, "warmPools.max must be 0 to %d, not %d", maxWarmAllowed, w.Max)
	return out
}

// gentle gives the actor a drainer and warm pools, as far as the configuration says, and returns the loops that they need.
func (a *agent) gentle(cfg Config, parts *parts, state *uplink.State) (loops map[string]func(context.Context) error, stop func(), err error) {
	stop = func() {}
	if parts.rest == nil || !cfg.Drain.Enabled && !cfg.WarmPools.Enabled {
		return nil, stop, nil
	}
	rc := rest.CopyConfig(parts.rest) // a drain that waits must not hold up the rest of the agent's calls
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, stop, fmt.Errorf("kubernetes: %w", err)
	}
	if w := cfg.WarmPools; w.Enabled {
		a.actor.UseWarmPools(act.NewWarmPools(client, act.WarmConfig{Namespace: w.Namespace, PriorityClass: w.PriorityClass, Image: w.Image, Max: w.Max}))
	}
	if !cfg.Drain.Enabled {
		return nil, stop, nil
	}
	log, err := act.OpenDrainLog(state.Path("drain.log"))
	if err != nil {
		return nil, stop, err
	}
	workload := func(string) string { return "" }
	if parts.kube != nil {
		workload = parts.kube.Workload
	}
	d := act.NewDrainer(client, log, act.DrainEnv{NowMS: a.clock.NowMS, Allowed: a.actor.Stopped, Workload: workload, Events: a.tellEvents,
		Result: func(r *agentv1.ActionResult) error { return a.tellResults([]*agentv1.ActionResult{r}) }, Log: a.log})
	a.actor.UseDrainer(d)
	loops = map[string]func(context.Context) error{"drain": func(ctx context.Context) error {
		a.waitForCluster(ctx)
		return d.Run(ctx)
	}}
	if parts.kube != nil && (cfg.Drain.OnNotice != "off" || cfg.Drain.OnOthers != "off") {
		loops["leaving"] = func(ctx context.Context) error { return a.watchLeaving(ctx, cfg.Drain, parts.kube, d) }
	}
	return loops, func() { _ = log.Close() }, nil
}

// watchLeaving looks every second for machines that go and lets them go gently.
func (a *agent) watchLeaving(ctx context.Context, cfg Drain, kube *collect.Kube, d *act.Drainer) error {
	a.waitForCluster(ctx)
	t := time.NewTicker(leavingLook)
	defer t.Stop()
	failed := map[string]bool{} // told of, so that the log does not fill
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if a.actor.Stopped() != "" {
			continue
		}
		for _, l := range kube.Leaving(a.clock.NowMS()) {
			if l.Cause == act.CauseConsolidation && cfg.OnOthers == "off" || l.Cause != act.CauseConsolidation && cfg.OnNotice == "off" || d.Known(l.UID, l.Cause) {
				continue
			}
			_, _, err := d.Begin(act.Leave{Node: l.Node, UID: l.UID, Cause: l.Cause, DeadlineMS: l.DeadlineMS, Evict: l.Evict && cfg.OnNotice == "drain"})
			if err != nil && !failed[l.UID] && !errors.Is(err, act.ErrNotFound) {
				failed[l.UID] = len(failed) < drainResultsMax
				a.log.Warn("a machine that goes cannot be let go gently", "node", l.Node, "cause", l.Cause, "error", err)
			}
		}
	}
}

// handBackRoom undoes what drains and warm pools left in the cluster.
func handBackRoom(ctx context.Context, cfg Config, client kubernetes.Interface, log *slog.Logger) error {
	var errs []error
	if cfg.Drain.Enabled {
		n, err := act.ReleaseNodes(ctx, client)
		log.Info("handed back", "cordoned_nodes", n)
		errs = append(errs, err)
	}
	if cfg.WarmPools.Enabled {
		n, err := act.NewWarmPools(client, act.WarmConfig{Namespace: cfg.WarmPools.Namespace}).HandBack(ctx)
		log.Info("handed back", "warm_pools", n)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
