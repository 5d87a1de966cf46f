package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/jobs"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/replay"
	"plimsoll.dev/services/store"
)

// demoClusterName of the demo cluster in its tenant.
const demoClusterName = "demo"

// demoSwitch is the speed control before and after the demo cluster is up.
type demoSwitch struct {
	mu   sync.Mutex
	demo *demo // guarded by mu
}

func (s *demoSwitch) set(d *demo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.demo = d
}

func (s *demoSwitch) get() *demo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.demo
}

// Speed implements httpapi.DemoControl: 0 while the demo cluster is not up.
func (s *demoSwitch) Speed() float64 {
	if d := s.get(); d != nil {
		return d.Speed()
	}
	return 0
}

// SetSpeed implements httpapi.DemoControl.
func (s *demoSwitch) SetSpeed(speed float64) error {
	d := s.get()
	if d == nil {
		return fleet.Errorf(fleet.CodeUnavailable, "the demo cluster is not up yet")
	}
	return d.SetSpeed(speed)
}

// devDemo registers the demo cluster, plays its history, lets it run, and starts a real agent on it.
func devDemo(ctx, parts context.Context, group *errgroup.Group, f devFlags, svc *service, tenant fleet.TenantID, dir, base string, control *demoSwitch, stdout io.Writer) error {
	cluster, err := devCluster(ctx, svc.db, tenant, f.loads)
	if err != nil {
		return err
	}
	// Before the history, which is costed at these prices.
	if err := extendDemoMarket(ctx, svc.db, tenant, f.seed); err != nil {
		return fmt.Errorf("make up Spot prices: %w", err)
	}
	fmt.Fprintln(stdout, "demo cluster ...")
	// Ctrl-C must end a long history; the live demo ends with the other parts.
	start, cancel := context.WithCancel(parts)
	stop := context.AfterFunc(ctx, cancel)
	d, err := startDemo(start, demoConfig{
		Tenant: tenant, Cluster: cluster, DB: svc.db, Prices: market.Catalogue(), ServiceURL: base,
		Token: func(context.Context) (string, error) {
			token, _, err := svc.keys.Issue(tenant, cluster, time.Now())
			return token, err
		},
		StateFile: filepath.Join(dir, "demo-world.json"), TraceFile: f.trace, Seed: f.seed, Workloads: f.loads, History: time.Duration(f.days) * 24 * time.Hour,
		Speed: f.speed, Log: svc.cfg.log, Progress: progress(stdout),
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return err
	}
	control.set(d)
	group.Go(func() error { return demoMarket(parts, svc, tenant, f.seed) })
	fmt.Fprintln(stdout, "  roll-ups and costs")
	if err := jobs.CatchUp(ctx, jobs.Deps{DB: svc.db, Prices: market.Catalogue, Log: svc.cfg.log}, tenant, cluster); err != nil {
		return err
	}
	group.Go(func() error {
		defer cancel()
		if err := d.Wait(); err != nil && parts.Err() == nil {
			return fmt.Errorf("demo cluster: %w", err)
		}
		return nil
	})
	config, err := devAgentConfig(ctx, svc.db, tenant, cluster, f.loads, dir, base, d.URL())
	if err != nil {
		return err
	}
	agent, err := agentBinary(f.agent)
	if err != nil {
		return err
	}
	group.Go(func() error { return runAgent(parts, agent, config, filepath.Join(dir, "agent.log"), svc) })
	return nil
}

func progress(out io.Writer) func(float64) {
	next := 0.25
	return func(share float64) {
		for share >= next && next <= 1 {
			fmt.Fprintf(out, "  history %.0f %%\n", next*100)
			next += 0.25
		}
	}
}

// devCluster finds or makes the demo cluster, in enforce mode: it is ours to scale. With the cluster come two budgets, and what
// was paid for before its history began.
func devCluster(ctx context.Context, db *store.DB, tenant fleet.TenantID, workloads int) (id fleet.ClusterID, err error) {
	err = db.Tenant(ctx, tenant, func(tx *store.Tx) error {
		all, err := store.Clusters(ctx, tx, "", 500)
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.Name == demoClusterName {
				id = c.ID
				return nil
			}
		}
		if id, err = store.CreateCluster(ctx, tx, demoClusterName, fleet.ModeEnforce); err != nil {
			return err
		}
		for i, b := range demoBudgets {
			if i == 0 { // an ordinary workload costs about 600 a month
				b.Amount += fleet.Money(workloads-replay.DemoWorkloads) * 650 * fleet.NanosPerUnit
			}
			if _, err := store.SaveBudget(ctx, tx, b); err != nil {
				return err
			}
		}
		_, err = store.ImportCommitments(ctx, tx, demoCommitments(tx.Now), "api", "demo")
		return err
	})
	return id, err
}

// demoBudgets are one that holds and one that does not: the image model's team spends about 150 a day.
var demoBudgets = []store.Budget{
	{Name: "All clusters", Amount: 25_000 * fleet.NanosPerUnit, Thresholds: []int{50, 80, 100}},
	{Name: "Media team", Team: "media", Amount: 1_500 * fleet.NanosPerUnit, Thresholds: []int{80, 100}},
}

// demoCommitments are a Savings Plan for the chat model's machines, which ends in three weeks, and reserved CPU machines of a smaller size.
// Both are a little more than what runs at all hours, so some of them stays unused.
func demoCommitments(now time.Time) []commitment.Commitment {
	day := now.UTC().Truncate(24 * time.Hour)
	ends := day.AddDate(0, 0, 21)
	began := day.AddDate(0, -4, 0)
	return []commitment.Commitment{
		{Ref: "sp-demo-g5", Kind: commitment.KindInstanceSP, Region: "us-east-1", Family: "g5", Spend: 3_600_000_000, DiscountPPM: 370_000,
			Term: fleet.Interval{From: ends.AddDate(-1, 0, 0), To: ends}, Owner: "assistant"},
		{Ref: "ri-demo-m6i", Kind: commitment.KindRegionalRI, Region: "us-east-1", InstanceType: "m6i.large", Quantity: 9_000, Recurring: 544_500_000,
			Term: fleet.Interval{From: began, To: began.AddDate(1, 0, 0)}, Owner: "platform"},
	}
}

// devAgentConfig writes the configuration of the demo cluster's agent, with an enrolment token when it has no identity yet.
func devAgentConfig(ctx context.Context, db *store.DB, tenant fleet.TenantID, cluster fleet.ClusterID, workloads int, dir, base, sim string) (string, error) {
	secret, err := auth.NewEnrolmentToken(tenant)
	if err != nil {
		return "", err
	}
	err = db.Tenant(ctx, tenant, func(tx *store.Tx) error {
		if _, err := store.RevokeEnrolment(ctx, tx, cluster); err != nil { // of earlier starts that were never used
			return err
		}
		return store.CreateEnrolmentToken(ctx, tx, store.EnrolmentToken{ID: secret.ID, Cluster: cluster, Hash: secret.Hash, ExpiresAt: tx.Now.Add(time.Hour)})
	})
	if err != nil {
		return "", err
	}
	state := filepath.Join(dir, "agent")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", fmt.Errorf("make the agent's directory: %w", err)
	}
	doc, err := json.MarshalIndent(map[string]any{
		"endpoint": base, "token": secret.Token, "stateDir": state, "clusterName": demoClusterName, "mode": "enforce",
		"intervals": map[string]int{"sampleSeconds": 15, "frameSeconds": 60, "inventoryResyncSeconds": 300},
		"limits":    map[string]int{"maxReplicas": 400 + 20*(workloads-replay.DemoWorkloads), "maxReplicasPerWorkload": 100, "maxActionsPerMinute": 120},
		"sources":   map[string]any{"sim": map[string]string{"url": sim}},
	}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the agent's configuration: %w", err)
	}
	path := filepath.Join(dir, "agent.yaml") // JSON is YAML
	if err := os.WriteFile(path, doc, 0o600); err != nil {
		return "", fmt.Errorf("write the agent's configuration: %w", err)
	}
	return path, nil
}

// agentBinary is the given path, or plimsoll-agent beside this binary or in PATH.
func agentBinary(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "plimsoll-agent")
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath("plimsoll-agent")
	if err != nil {
		return "", fleet.Errorf(fleet.CodeInvalid, "there is no plimsoll-agent beside this binary; name it with -agent")
	}
	return found, nil
}

// runAgent keeps one agent process running until ctx ends. An agent that ends by itself is started again, as Kubernetes would.
func runAgent(ctx context.Context, binary, config, logPath string, svc *service) error {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open the agent's log: %w", err)
	}
	defer log.Close()
	runtime.LockOSThread() // withParent follows the thread
	defer runtime.UnlockOSThread()
	for {
		cmd := exec.CommandContext(ctx, binary, "--config", config)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = withParent(&syscall.SysProcAttr{Setpgid: true}) // Ctrl-C goes to us; we stop it in order
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 10 * time.Second
		err := cmd.Run()
		if ctx.Err() != nil {
			return nil
		}
		var missing *os.PathError
		if errors.As(err, &missing) {
			return fmt.Errorf("start the agent: %w", err)
		}
		svc.cfg.log.Warn("the agent ended; starting it again", "error", err, "log", logPath)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
	}
}
