package jobs

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// standing puts a budget over the team red and how it stands.
func (e *estate) standing(b store.Budget, allowed, usual string) store.Budget {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b.Name, b.Team, b.Thresholds = "red", "red", []int{100}
		if b, err = store.SaveBudget(ctx, tx, b); err != nil {
			return err
		}
		now := time.Now().UTC()
		return store.SaveBudgetStanding(ctx, tx, store.BudgetStanding{Budget: b.ID, At: now, From: now.AddDate(0, 0, -10), To: now.AddDate(0, 0, 20),
			Forecast: ledger.Forecast{Known: true, UsualHour: usd(e.t, usual)}, Allowed: usd(e.t, allowed)})
	})
	return b
}

// recomputes fails unless every stored decision computes again from its stored input.
func (e *estate) recomputes(d store.DecisionRow) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		in, err := store.PlanInputOf(ctx, tx, d.PlanID)
		if err != nil {
			return err
		}
		if len(in.Budgets) == 0 {
			e.t.Error("the budget is not part of the stored input")
		}
		plan, err := optimizer.Decide(in)
		if err != nil {
			return err
		}
		full, err := store.DecisionByID(ctx, tx, d.ID)
		if err != nil {
			return err
		}
		var stored optimizer.Decision
		if err := json.Unmarshal(full.Detail, &stored); err != nil {
			return err
		}
		was, _ := json.Marshal(stored)
		for _, again := range plan.Decisions {
			if now, _ := json.Marshal(again); again.Workload == d.Workload && string(now) != string(was) {
				e.t.Errorf("computes to another decision:\n%s\n%s", was, now)
			}
		}
		return nil
	})
}

// hosted gives a workload two priced replicas.
func (e *estate) hosted(name string) {
	e.t.Helper()
	from := time.Now().Add(-time.Hour)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, from)
	e.exec(`UPDATE node SET name = 'n1' WHERE tenant_id = $1`, e.tenant)
	e.exec(`UPDATE workload SET cpu_milli = 2000, mem_mib = 8192, gpu_milli = 500 WHERE tenant_id = $1`, e.tenant)
	for _, p := range []string{"p1", "p2"} {
		e.pod(p, "n1", name, 500, from)
	}
}

func TestAnEnforcedBudgetHoldsAScaleUpAndIsKeptWithThePlan(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.planned("llm", fleet.ModeEnforce)
	e.hosted("llm")
	e.standing(store.Budget{Amount: usd(t, "1000"), Enforced: true}, "0.1", "0.1")
	e.observe(1, 60, "llm")
	p := e.planners(&PlanWorker{})
	p.ask(e.cluster)
	p.done()
	rows := e.decisions()
	if len(rows) != 1 || rows[0].Target != 2 || rows[0].Needed != 6 || rows[0].Binding != string(optimizer.ReasonBudget) {
		t.Fatalf("decisions: %+v", rows)
	}
	e.recomputes(rows[0])
}

func TestABreakerTripsInThePlanThatWouldRunAwayAndIsResetByHand(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.planned("llm", fleet.ModeEnforce)
	e.hosted("llm")
	budget := e.standing(store.Budget{Amount: usd(t, "100"), BreakerPercent: 150}, "100", "0.7") // trips from 1.05 an hour on
	e.observe(1, 60, "llm")
	p := e.planners(&PlanWorker{})
	p.ask(e.cluster)
	p.done()
	rows := e.decisions()
	if len(rows) != 1 || rows[0].Target != 2 || rows[0].Binding != string(optimizer.ReasonSpendBreaker) {
		t.Fatalf("decisions: %+v", rows)
	}
	e.recomputes(rows[0])
	open := func() int64 {
		return e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = $2 AND resolved_at IS NULL AND severity = 'critical'`, e.tenant, AlertBreaker)
	}
	if open() != 1 {
		t.Error("no alert of the breaker is open")
	}
	e.observe(2, 70, "llm")
	p.ask(e.cluster)
	p.done()
	if rows := e.decisions(); rows[0].Target != 2 {
		t.Errorf("an open breaker let a raise through: %+v", rows[0])
	}
	if n := e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = $2`, e.tenant, AlertBreaker); n != 1 {
		t.Errorf("%d alerts of one trip", n)
	}

	// Somebody raises the limit and resets it: the next plan may grow, and the alert is over.
	budget.BreakerPercent = 10000
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, err := store.SaveBudget(ctx, tx, budget); err != nil {
			return err
		}
		return store.ResetBreaker(ctx, tx, budget.ID)
	})
	e.observe(3, 60, "llm")
	p.ask(e.cluster)
	p.done()
	if rows := e.decisions(); rows[0].Target != 6 {
		t.Errorf("after the reset: %+v", rows[0])
	}
	e.check()
	if open() != 0 {
		t.Error("the alert stays open after the reset")
	}
}
