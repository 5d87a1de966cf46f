package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/optimizer/quantile"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const sloPolicy = "mode: enforce\nmin: 1\nmax: 8\nslo: {class: gold, requests_per_replica: 10}\n"

// serving stores what the agent sees of a serving workload of two replicas in the last minutes.
func (e *estate) serving(seq int64, name string, running float64) {
	e.t.Helper()
	last := time.Now().UTC().Truncate(time.Second).Add(time.Duration(seq-5) * time.Minute) // later ones are later, however fast the test is
	for i := range 12 {
		at := last.Add(time.Duration(i-11) * 15 * time.Second)
		w := &agentv1.WorkloadObservation{Workload: "chat/Deployment/" + name, Replicas: 2, Ready: 2}
		for signal, v := range map[string]float64{"running_requests": running, "queue_length": 0, "request_rate": 4} {
			w.Signals = append(w.Signals, &agentv1.Signal{Name: signal, Value: v, AtMs: at.UnixMilli(), PodsReported: 2})
		}
		body, err := proto.Marshal(&agentv1.Observation{AtMs: at.UnixMilli(), Workloads: []*agentv1.WorkloadObservation{w}})
		if err != nil {
			e.t.Fatal(err)
		}
		e.exec(`INSERT INTO observation (tenant_id, cluster_id, at, stream, epoch, seq, body) VALUES ($1, $2, $3, 'controller', 1, $4, $5)`,
			e.tenant, e.cluster, at, seq*100+int64(i), body)
	}
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3 WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, last)
}

func TestAPlanLearnsAndKeepsWhatItLearned(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeEnforce)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: id, Document: sloPolicy, Mode: fleet.ModeEnforce, CreatedBy: "test"}, 1)
		return err
	})
	for i, took := range []int{200, 210, 220, 230, 240, 300} {
		created := time.Now().UTC().Add(time.Duration(-i-2) * time.Hour)
		e.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, phase, created_at, ready_at) VALUES ($1, $2, $3, $3, 'chat', 'chat/Deployment/llm', 'Running', $4, $5)`,
			e.tenant, e.cluster, "start-"+strconv.Itoa(i), created, created.Add(time.Duration(took)*time.Second))
	}
	p := e.planners(&PlanWorker{})
	e.serving(1, "llm", 45) // 4.5 replicas' worth on two
	p.ask(e.cluster)
	p.done()
	first := e.learned(id)
	if first.Began != optimizer.BeganNew || len(first.State) < 1000 {
		t.Fatalf("kept %s, %d bytes; want a new beginning", first.Began, len(first.State))
	}
	if n := quantile.KeptColdSlots(first.State); n != 18 { // nine tenths of the starts take up to 270 s
		t.Errorf("it looks %d slots ahead; want the 18 that starts take", n)
	}
	e.decidedAgain(id, optimizer.ReasonNoForecast) // ten minutes are not over

	e.exec(`UPDATE workload_learned SET state = $2 WHERE tenant_id = $1`, e.tenant, append(first.State[:len(first.State)-1:len(first.State)-1], ^first.State[len(first.State)-1]))
	e.exec(`DELETE FROM observation WHERE tenant_id = $1`, e.tenant)
	e.serving(2, "llm", 1)
	p.ask(e.cluster)
	p.done()
	second := e.learned(id)
	if second.Began != optimizer.BeganDamaged || bytes.Equal(second.State, first.State) {
		t.Errorf("kept %s after it was damaged; want it to say so", second.Began)
	}
	e.decidedAgain(id, optimizer.ReasonRelearning, optimizer.ReasonNoForecast)
}

func (e *estate) learned(id fleet.WorkloadID) store.Learned {
	e.t.Helper()
	var out store.Learned
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		all, err := store.LearnedOf(ctx, tx, []fleet.WorkloadID{id})
		out = all[id]
		return err
	})
	return out
}

// decidedAgain wants the newest decision to have the reasons, and its stored input to give it again.
func (e *estate) decidedAgain(id fleet.WorkloadID, codes ...optimizer.ReasonCode) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		rows, err := store.Decisions(ctx, tx, store.DecisionFilter{Workload: id, Limit: 1})
		if err != nil || len(rows) == 0 {
			e.t.Fatalf("%d decisions, %v", len(rows), err)
		}
		d, err := store.DecisionByID(ctx, tx, rows[0].ID)
		if err != nil {
			return err
		}
		var was optimizer.Decision
		if err := json.Unmarshal(d.Detail, &was); err != nil {
			return err
		}
		for _, c := range codes {
			found := false
			for _, r := range was.Reasons {
				found = found || r.Code == c
			}
			if !found {
				e.t.Errorf("reason %s is missing: %+v", c, was.Reasons)
			}
		}
		in, err := store.PlanInputOf(ctx, tx, d.PlanID)
		if err != nil {
			return err
		}
		plan, err := optimizer.Decide(in)
		if err != nil {
			return err
		}
		a, _ := json.Marshal(plan.Decisions[0])
		b, _ := json.Marshal(was)
		if !bytes.Equal(a, b) {
			e.t.Errorf("decided again it is\n%s\nnot\n%s", a, b)
		}
		return nil
	})
}
