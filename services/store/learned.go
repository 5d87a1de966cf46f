package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/optimizer/quantile"
)

// Learned is what an SLO rule has learned of a workload, as it is kept.
type Learned struct {
	Workload fleet.WorkloadID
	Began    optimizer.Beginning
	BeganAt  time.Time // data time
	Slot     int64     // the next to learn
	State    []byte    // of optimizer/quantile
}

// LearnedOf reads what is kept of workloads; those of which nothing is are left out.
func LearnedOf(ctx context.Context, tx *Tx, ids []fleet.WorkloadID) (map[fleet.WorkloadID]Learned, error) {
	if len(ids) == 0 {
		return map[fleet.WorkloadID]Learned{}, nil
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT workload_id::text, began, began_at, slot, state FROM workload_learned WHERE tenant_id = $1 AND workload_id = ANY ($2::uuid[])`,
		tx.Tenant, wireIDs(ids))
	if err != nil {
		return nil, fmt.Errorf("load what was learned: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Learned])
	if err != nil {
		return nil, fmt.Errorf("load what was learned: %w", err)
	}
	out := make(map[fleet.WorkloadID]Learned, len(list))
	for _, l := range list {
		out[l.Workload] = l
	}
	return out, nil
}

// LearnedNow encodes what the learners know by now, sorted by workload; those that know nothing, and with due those that are not due, are
// left out. kept is what was there before.
func LearnedNow(learners map[fleet.WorkloadID]*optimizer.Learner, kept map[fleet.WorkloadID]Learned, now time.Time, due bool) []Learned {
	var out []Learned
	for id, l := range learners {
		if l.Policy.Next() == 0 || (due && !l.Due()) {
			continue
		}
		k := Learned{Workload: id, Began: l.Began, BeganAt: kept[id].BeganAt, Slot: l.Policy.Next(), State: l.Policy.Encode()}
		if l.Kept < 0 || k.BeganAt.IsZero() {
			k.BeganAt = now
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Learned) int { return cmp.Compare(a.Workload, b.Workload) })
	return out
}

// SaveLearned keeps what was learned, in the place of what was kept before.
func SaveLearned(ctx context.Context, tx *Tx, learned []Learned) error {
	if len(learned) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	for _, l := range learned {
		if len(l.State) > quantile.MaxEncoded {
			return fmt.Errorf("what was learned of %s has %d bytes, at most %d are kept", l.Workload, len(l.State), quantile.MaxEncoded)
		}
		batch.Queue(`
INSERT INTO workload_learned (tenant_id, workload_id, began, began_at, slot, state, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, workload_id) DO UPDATE SET began = excluded.began, began_at = excluded.began_at, slot = excluded.slot,
  state = excluded.state, updated_at = excluded.updated_at`, tx.Tenant, l.Workload, l.Began, l.BeganAt, l.Slot, l.State, tx.Now)
	}
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("keep what was learned: %w", err)
	}
	return nil
}

// startsEvery is how often the starts of a workload's pods are looked at, in slots: an hour. They are looked at before anything is learned, too.
const startsEvery = 3600 / quantile.SlotSeconds

// leastStarts is how many starts of the last week it takes to know how long one takes.
const leastStarts = 5

// startsDue measures the starts of those workloads whose rule leaves them to be measured and that are due for it.
func startsDue(ctx context.Context, tx *Tx, cluster fleet.ClusterID, now time.Time, in *PlanInput, byKey map[string]*fleet.WorkloadState) (map[fleet.WorkloadID]int, error) {
	due := map[string]fleet.WorkloadID{}
	keys := []string{}
	for key, w := range byKey {
		id := w.Workload.ID
		if rule := in.Input.Policies[id].Policy.SLO; rule == nil || rule.StartSeconds > 0 || len(w.Signals) == 0 {
			continue
		}
		slot := now.Unix() / quantile.SlotSeconds
		if kept, ok := in.Learned[id]; ok && kept.Slot/startsEvery == slot/startsEvery {
			continue
		}
		due[key] = id
		keys = append(keys, key)
	}
	out := map[fleet.WorkloadID]int{}
	if len(keys) == 0 {
		return out, nil
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT workload_key, percentile_cont(0.9) WITHIN GROUP (ORDER BY extract(epoch FROM ready_at - created_at)::float8)
FROM pod WHERE tenant_id = $1 AND cluster_id = $2 AND created_at > $3 AND ready_at > created_at AND workload_key = ANY ($4)
GROUP BY workload_key HAVING count(*) >= $5`, tx.Tenant, cluster, now.Add(-7*24*time.Hour), keys, leastStarts)
	if err != nil {
		return nil, fmt.Errorf("measure starts: %w", err)
	}
	var key string
	var seconds float64
	_, err = pgx.ForEachRow(rows, []any{&key, &seconds}, func() error {
		out[due[key]] = int(seconds + 0.5)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("measure starts: %w", err)
	}
	return out, nil
}

func wireIDs(ids []fleet.WorkloadID) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}
