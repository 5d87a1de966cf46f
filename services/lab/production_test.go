package lab

import (
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/optimizer/quantile"
)

// production sizes a service as the planner does: signals, learning that is kept every five minutes and read back, a policy document with
// its damping and guards, a decision that passes its check.
type production struct {
	t       *testing.T
	share   float64
	input   optimizer.Input
	kept    []byte
	learner *optimizer.Learner
	signals [3]fleet.Signal
}

func newProduction(t *testing.T, tr *Trace) *production {
	t.Helper()
	p := optimizer.Policy{Mode: fleet.ModeEnforce, Max: 1000, SLO: &optimizer.SLO{LateShare: 0.01, RequestsPerReplica: 1 / tr.Share}}.WithDefaults()
	if findings := p.Validate(); optimizer.HasErrors(findings) {
		t.Fatal(findings)
	}
	d := &production{t: t, share: tr.Share}
	for i, n := range []fleet.SignalName{fleet.SignalRunning, fleet.SignalQueueLength, fleet.SignalRequestRate} {
		d.signals[i].Name = n
	}
	d.input = optimizer.Input{
		Snapshot: fleet.Snapshot{Mode: fleet.ModeEnforce, Workloads: []fleet.WorkloadState{{Workload: fleet.Workload{ID: rulesWorkload, Key: "lab/Deployment/service", Kind: "Deployment"}}}},
		Policies: map[fleet.WorkloadID]optimizer.Binding{rulesWorkload: {Version: 1, Policy: p}},
	}
	return d
}

// Step is one round of the planner.
func (d *production) Step(o *Observation) int {
	now := time.Unix(int64(o.Slot+1+1_000_000)*SlotSeconds, 0).UTC()
	for i, v := range []float64{o.Running, o.Queue, o.Rate} {
		s := &d.signals[i]
		s.Samples = append(s.Samples[max(0, len(s.Samples)-59):len(s.Samples):len(s.Samples)], fleet.Sample{At: now, Value: v, PodsReported: o.Ready, PodsUnready: o.Starting})
	}
	d.input.Snapshot.Now = now
	w := &d.input.Snapshot.Workloads[0]
	w.Replicas, w.Ready, w.Starting, w.Signals = o.Replicas(), o.Ready, o.Starting, d.signals[:]
	in, learned := optimizer.LearnAll(d.input, func(_ fleet.WorkloadID, s *optimizer.SLO, class string) *optimizer.Learner {
		if d.learner == nil || o.Slot%997 == 0 { // another planner takes over now and then
			d.learner = optimizer.NewLearner(d.kept, optimizer.BeganNew, s, class, 0)
		}
		return d.learner
	})
	if l := learned[rulesWorkload]; l.Due() {
		d.kept, l.Kept = l.Policy.Encode(), l.Policy.Next()
	}
	plan, err := optimizer.Decide(in)
	if err != nil {
		d.t.Fatal(err)
	}
	if bad := optimizer.Check(plan, in); len(bad) > 0 {
		d.t.Fatalf("slot %d: %v", o.Slot, bad)
	}
	d.input.Memory = plan.Memory
	return plan.Decisions[0].Target
}

// What is scored is what runs: through the planner's path, with all its guards and damping, the policy costs and serves as in the lab.
func TestProductionScoresAsTheLab(t *testing.T) {
	t.Parallel()
	for _, tr := range builtin(t) {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig(tr)
			lab := Run(tr, cfg, NewCQ(quantile.Params{}, cfg.ColdSlots))
			real := Run(tr, cfg, newProduction(t, tr))
			t.Logf("%s: lab %.1f replica-hours, %.3f %% late; production %.1f, %.3f %%", tr.Name, lab.Paid, 100*lab.LateRatio(), real.Paid, 100*real.LateRatio())
			if real.Paid > 1.06*lab.Paid || real.Paid < 0.97*lab.Paid {
				t.Errorf("production costs %.1f replica-hours; want about the lab's %.1f", real.Paid, lab.Paid)
			}
			if real.LateRatio() > 1.25*lab.LateRatio()+0.001 {
				t.Errorf("production leaves %.4f late; want at most about the lab's %.4f", real.LateRatio(), lab.LateRatio())
			}
		})
	}
}
