package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// Bounds of a rollout of a capacity policy.
const (
	MaxRolloutClusters    = 200
	capacityRolloutsShown = 200
	// CapacityRolloutActor is who takes the steps that nobody takes by hand.
	CapacityRolloutActor = "rollout"
	// CapacityRolloutAlert is the kind of the alert of a rollout that was taken back.
	CapacityRolloutAlert = "capacity_rollout"
	// oldPlan is how far a plan is put back that nobody may carry out any more.
	oldPlan = time.Hour
)

// CapacityRollout is a capacity policy on its way to be that of its clusters.
type CapacityRollout struct {
	capacity.Rollout
	ID         string
	Document   capacity.Policy // proposed
	Bases      []CapacityBase  // of the parts
	Hourly     int             // machines of a cluster that may come or go within an hour under it
	CreatedBy  string
	CreatedAt  time.Time
	StageAt    time.Time // our clock
	LookedAt   *time.Time
	FinishedAt *time.Time
	Seq        int  // of its newest step
	Default    *int // version of the tenant's default that was read: done, it is the default; nil: it becomes the policy of each of its clusters
}

// CapacityBase is what a part was planned by before.
type CapacityBase struct {
	Name   string // of the cluster
	Policy capacity.Policy
}

// CapacityStep is a step that was taken.
type CapacityStep struct {
	Seq     int
	At      time.Time
	What    string
	Step    int
	Actor   string
	Outcome string
}

// CreateCapacityRollout begins with the shadow. A cluster that is in an open rollout already is a conflict, and so is a document that is its policy.
// seen are the versions of the policies that were read; a cluster that it lacks is taken as it is.
func CreateCapacityRollout(ctx context.Context, tx *Tx, r CapacityRollout, clusters []fleet.ClusterID, seen map[fleet.ClusterID]int) (string, error) {
	if err := validateRollout(&r, clusters); err != nil {
		return "", err
	}
	if err := ValidCapacityPolicy(r.Document); err != nil {
		return "", err
	}
	doc, err := json.Marshal(r.Document)
	if err != nil {
		return "", fmt.Errorf("encode capacity policy: %w", err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	if _, err := tx.pgx.Exec(ctx, `
INSERT INTO capacity_rollout (tenant_id, id, document, state, shares, shadow_seconds, stage_seconds, hourly, cost_over, created_by, created_at, stage_at, default_version)
VALUES ($1, $2, $3, 'shadow', $4, $5, $6, $7, $8, $9, $10, $10, $11)`, tx.Tenant, id, doc, r.Shares, r.ShadowSec, r.StageSec, r.Hourly, r.CostOver, r.CreatedBy, tx.Now, r.Default); err != nil {
		return "", fmt.Errorf("create rollout: %w", err)
	}
	same := 0
	for i, cluster := range clusters {
		if err := lockCluster(ctx, tx, cluster); err != nil {
			return "", err
		}
		base, err := CapacityPolicyOf(ctx, tx, cluster)
		if err != nil {
			return "", err
		}
		if v, ok := seen[cluster]; ok && v != base.Version || r.Default != nil && (!base.Inherits || *r.Default != base.Default) {
			return "", fleet.Errorf(fleet.CodeConflict, "the policy was changed meanwhile: load it again")
		}
		before, err := json.Marshal(base.Policy)
		if err != nil {
			return "", fmt.Errorf("encode capacity policy: %w", err)
		}
		if _, _, err := ResolveAlert(ctx, tx, CapacityRolloutAlert, capacityRolloutSubject(cluster), tx.Now); err != nil {
			return "", err
		}
		if string(before) == string(doc) {
			same++
		}
		_, err = tx.pgx.Exec(ctx, `INSERT INTO capacity_rollout_part (tenant_id, rollout_id, cluster_id, position, base, base_version, base_default) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			tx.Tenant, id, cluster, i, before, base.Version, base.Default)
		if violates(err, "capacity_rollout_part_open") {
			return "", fleet.Errorf(fleet.CodeConflict, "a rollout to one of these clusters is under way; end it first")
		}
		if err != nil {
			return "", fmt.Errorf("create rollout: %w", err)
		}
	}
	if same == len(clusters) {
		return "", fleet.Errorf(fleet.CodeConflict, "this policy is in force already")
	}
	return id, noteCapacityStep(ctx, tx, id, "shadow", 0, r.CreatedBy, "")
}

func validateRollout(r *CapacityRollout, clusters []fleet.ClusterID) error {
	bad := func(field, message string) error {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: message, Field: "body." + field}
	}
	sorted := slices.Clone(clusters)
	slices.Sort(sorted)
	switch {
	case len(clusters) == 0 || len(clusters) > MaxRolloutClusters:
		return bad("clusters", fmt.Sprintf("a rollout has 1 to %d clusters", MaxRolloutClusters))
	case len(slices.Compact(sorted)) != len(clusters):
		return bad("clusters", "a cluster is there twice")
	case len(r.Shares) == 0 || len(r.Shares) > 10 || r.Shares[len(r.Shares)-1] != 1000:
		return bad("shares", "shares are 1 to 10 numbers, and the last is 1000: all")
	case r.ShadowSec < 60 || r.ShadowSec > 7*86_400:
		return bad("shadow_seconds", "shadow_seconds is 60 to 604800")
	case r.StageSec < 300 || r.StageSec > 7*86_400:
		return bad("stage_seconds", "stage_seconds is 300 to 604800")
	case r.Hourly < 1 || r.Hourly > 1000:
		return bad("hourly", "hourly is 1 to 1000")
	case r.CostOver < 0 || r.CostOver > 10_000:
		return bad("cost_over", "cost_over is 0 to 10000 thousandths")
	}
	last := int64(0)
	for _, s := range r.Shares {
		if s <= last {
			return bad("shares", "shares rise, each from 1 to 1000 thousandths")
		}
		last = s
	}
	return nil
}

const capacityRolloutColumns = `id::text, document, state, step, shares, shadow_seconds, stage_seconds, hourly, cost_over, paused, outcome, outcome_at, created_by, created_at, stage_at, looked_at, finished_at, seq, default_version`

func (r *CapacityRollout) scan(row pgx.CollectableRow) error {
	var doc []byte
	if err := row.Scan(&r.ID, &doc, &r.State, &r.Step, &r.Shares, &r.ShadowSec, &r.StageSec, &r.Hourly, &r.CostOver, &r.Paused, &r.Outcome, &r.Where, &r.CreatedBy, &r.CreatedAt, &r.StageAt,
		&r.LookedAt, &r.FinishedAt, &r.Seq, &r.Default); err != nil {
		return fmt.Errorf("scan rollout: %w", err)
	}
	if err := json.Unmarshal(doc, &r.Document); err != nil {
		return fmt.Errorf("read capacity policy of a rollout: %w", err)
	}
	return nil
}

// CapacityRollouts lists a tenant's rollouts, or those of one cluster, newest first.
func CapacityRollouts(ctx context.Context, tx *Tx, cluster fleet.ClusterID, limit int) ([]CapacityRollout, error) {
	return capacityRollouts(ctx, tx, `($2 = '' OR id IN (SELECT rollout_id FROM capacity_rollout_part WHERE tenant_id = $1 AND cluster_id = nullif($2, '')::uuid)) ORDER BY id DESC LIMIT $3`,
		cluster, min(limit, capacityRolloutsShown))
}

// CapacityRolloutOf loads a rollout and, with lock, keeps others from moving it.
func CapacityRolloutOf(ctx context.Context, tx *Tx, id string, lock bool) (CapacityRollout, error) {
	where := `id = $2`
	if lock {
		where += ` FOR UPDATE`
	}
	list, err := capacityRollouts(ctx, tx, where, id)
	if err != nil {
		return CapacityRollout{}, err
	}
	if len(list) == 0 {
		return CapacityRollout{}, fleet.Errorf(fleet.CodeNotFound, "no such rollout")
	}
	return list[0], nil
}

func capacityRollouts(ctx context.Context, tx *Tx, where string, args ...any) ([]CapacityRollout, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+capacityRolloutColumns+` FROM capacity_rollout WHERE tenant_id = $1 AND `+where, append([]any{tx.Tenant}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("load rollouts: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r CapacityRollout, err error) { return r, r.scan(row) })
	if err != nil {
		return nil, fmt.Errorf("load rollouts: %w", err)
	}
	for i := range list {
		if err := list[i].loadParts(ctx, tx); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (r *CapacityRollout) loadParts(ctx context.Context, tx *Tx) error {
	rows, err := tx.pgx.Query(ctx, `
SELECT p.cluster_id::text, c.name, p.base, p.base_version, p.base_default, p.watched, p.silent, p.looks, p.bad, p.bad_what, p.bad_since, p.looked_at, p.data_at, p.stage_at, p.before, p.after, p.shadow
FROM capacity_rollout_part p JOIN cluster c ON c.tenant_id = p.tenant_id AND c.id = p.cluster_id WHERE p.tenant_id = $1 AND p.rollout_id = $2 ORDER BY p.position`, tx.Tenant, r.ID)
	if err != nil {
		return fmt.Errorf("load clusters of a rollout: %w", err)
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var p capacity.RolloutPart
		var b CapacityBase
		var base []byte
		var badSince, lookedAt, dataAt, stageAt *time.Time
		if err := row.Scan(&p.Cluster, &b.Name, &base, &p.BaseVersion, &p.BaseDefault, &p.Watched, &p.Silent, &p.Looks, &p.Bad, &p.BadWhat, &badSince, &lookedAt, &dataAt, &stageAt, &p.Before, &p.After, &p.Shadow); err != nil {
			return struct{}{}, fmt.Errorf("scan: %w", err)
		}
		for _, t := range []struct {
			from *time.Time
			to   *time.Time
		}{{badSince, &p.BadSince}, {lookedAt, &p.LookedAt}, {dataAt, &p.DataAt}, {stageAt, &p.StageAt}} {
			if t.from != nil {
				*t.to = t.from.UTC()
			}
		}
		if err := json.Unmarshal(base, &b.Policy); err != nil {
			return struct{}{}, fmt.Errorf("read policy: %w", err)
		}
		r.Parts, r.Bases = append(r.Parts, p), append(r.Bases, b)
		return struct{}{}, nil
	})
	if err != nil {
		return fmt.Errorf("load clusters of a rollout: %w", err)
	}
	return nil
}

// OpenCapacityRollouts lists the ids of rollouts that are under way.
func OpenCapacityRollouts(ctx context.Context, tx *Tx) ([]string, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT id::text FROM capacity_rollout WHERE tenant_id = $1 AND state IN ('shadow', 'canary') ORDER BY id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("list rollouts: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list rollouts: %w", err)
	}
	return ids, nil
}

// CapacitySteps are the steps of a rollout, oldest first.
func CapacitySteps(ctx context.Context, tx *Tx, id string) ([]CapacityStep, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT seq, at, what, step, actor, outcome FROM capacity_rollout_step WHERE tenant_id = $1 AND rollout_id = $2 ORDER BY seq LIMIT 200`, tx.Tenant, id)
	if err != nil {
		return nil, fmt.Errorf("load steps of a rollout: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[CapacityStep])
	if err != nil {
		return nil, fmt.Errorf("load steps of a rollout: %w", err)
	}
	return list, nil
}

// SaveCapacityRollout keeps where a rollout stands, which the caller has locked. moved: it took a step, of which what is the word (empty: its state).
// The step is noted once, told in the audit log and, where the rollout was taken back by itself, by an alert; plans that were made under another
// turn are not carried out any more, and the clusters are planned again. A rollout that is done becomes the policy of its clusters here.
func SaveCapacityRollout(ctx context.Context, tx *Tx, r *CapacityRollout, moved bool, what, actor string) error {
	if moved {
		r.Seq++
		r.StageAt = tx.Now
		if what == "" {
			what = string(r.State)
		}
		switch {
		case r.State == capacity.RolloutDone && r.Default != nil:
			if err := SetCapacityDefault(ctx, tx, r.Document, *r.Default, CapacityRolloutActor); err != nil {
				return err
			}
		case r.State == capacity.RolloutDone:
			for _, p := range r.Parts {
				if err := SetCapacityPolicy(ctx, tx, p.Cluster, r.Document, p.BaseVersion, CapacityRolloutActor); err != nil {
					return err
				}
			}
		}
		if !r.Open() && r.FinishedAt == nil {
			r.FinishedAt = &tx.Now
		}
	}
	b := &pgx.Batch{}
	b.Queue(`UPDATE capacity_rollout SET state = $3, step = $4, paused = $5, outcome = $6, outcome_at = $7, stage_at = $8, looked_at = $9, finished_at = $10, seq = $11 WHERE tenant_id = $1 AND id = $2`,
		tx.Tenant, r.ID, r.State, r.Step, r.Paused, r.Outcome, r.Where, r.StageAt, tx.Now, r.FinishedAt, r.Seq)
	for _, p := range r.Parts {
		b.Queue(`UPDATE capacity_rollout_part SET open = $4, watched = $5, silent = $6, looks = $7, bad = $8, bad_what = $9, bad_since = $10, looked_at = $11, data_at = $12, stage_at = $13, before = $14, after = $15, shadow = $16
WHERE tenant_id = $1 AND rollout_id = $2 AND cluster_id = $3`, tx.Tenant, r.ID, p.Cluster, r.Open(), p.Watched, p.Silent, p.Looks, p.Bad, p.BadWhat, orNull(p.BadSince), orNull(p.LookedAt), orNull(p.DataAt), orNull(p.StageAt),
			p.Before, p.After, p.Shadow)
	}
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("save rollout: %w", err)
	}
	if !moved {
		return nil
	}
	if err := noteCapacityStep(ctx, tx, r.ID, what, r.Step, actor, r.Outcome); err != nil {
		return err
	}
	return r.tell(ctx, tx, what, actor)
}

func noteCapacityStep(ctx context.Context, tx *Tx, id, what string, step int, actor, outcome string) error {
	_, err := tx.pgx.Exec(ctx, `INSERT INTO capacity_rollout_step (tenant_id, rollout_id, seq, at, what, step, actor, outcome)
SELECT $1, $2, r.seq, $3, $4, $5, $6, $7 FROM capacity_rollout r WHERE r.tenant_id = $1 AND r.id = $2`, tx.Tenant, id, tx.Now, what, step, actor, outcome)
	if err != nil {
		return fmt.Errorf("note step of a rollout: %w", err)
	}
	return nil
}

// tell makes a step known: plans of another turn are not carried out any more, the audit log has it, and whoever listens hears of it.
func (r *CapacityRollout) tell(ctx context.Context, tx *Tx, what, actor string) error {
	detail := map[string]string{"rollout": r.ID, "step": strconv.Itoa(r.Step)}
	if r.Outcome != "" {
		detail["outcome"] = r.Outcome
	}
	for i, p := range r.Parts {
		if err := ageCapacityPlan(ctx, tx, p.Cluster); err != nil {
			return err
		}
		detail["cluster_"+strconv.Itoa(i)] = string(p.Cluster)
		if err := Notify(ctx, tx, EventPlan, p.Cluster, ""); err != nil {
			return err
		}
	}
	if err := Audit(ctx, tx, actor, "capacity_rollout."+what, "capacity_rollout:"+r.ID, detail); err != nil {
		return err
	}
	if r.State != capacity.RolloutBack || actor != CapacityRolloutActor {
		return nil
	}
	names := []string{}
	for _, b := range r.Bases[:min(len(r.Bases), 20)] {
		names = append(names, b.Name)
	}
	where := ""
	for i, p := range r.Parts {
		if p.Cluster == r.Where {
			where = r.Bases[i].Name
		}
	}
	alert, opened, err := OpenAlert(ctx, tx, CapacityRolloutAlert, capacityRolloutSubject(r.Where), SeverityWarning, tx.Now,
		map[string]any{"rollout": r.ID, "clusters": names, "cluster": where, "cluster_id": r.Where, "why": r.Outcome, "step": stepNumber(r), "steps": len(r.Shares)})
	if err != nil || !opened {
		return err
	}
	return Notify(ctx, tx, EventAlert, r.Where, alert.ID)
}

func capacityRolloutSubject(cluster fleet.ClusterID) string {
	return "cluster/" + string(cluster) + "/capacity_rollout"
}

// ageCapacityPlan makes a cluster's newest plan too old to be carried out and takes back what Karpenter has not been told of it. The next look plans again.
func ageCapacityPlan(ctx context.Context, tx *Tx, cluster fleet.ClusterID) error {
	b := &pgx.Batch{}
	b.Queue(`UPDATE capacity_plan SET checked_at = least(checked_at, $3::timestamptz) WHERE tenant_id = $1 AND cluster_id = $2
AND id = (SELECT id FROM capacity_plan WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY id DESC LIMIT 1)`, tx.Tenant, cluster, tx.Now.Add(-oldPlan))
	b.Queue(`UPDATE karpenter_order SET state = 'withdrawn', closed_at = $3 WHERE tenant_id = $1 AND cluster_id = $2 AND state = 'open' AND kind = 'plan'`, tx.Tenant, cluster, tx.Now)
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("put a plan out of use: %w", err)
	}
	return nil
}

// CapacityTurn is which policy a cluster is planned by now.
type CapacityTurn struct {
	capacity.Turn
	Policy capacity.Policy
	Base   *capacity.Policy // of the cluster, where Policy is another
	Share  int64            // thousandths of the machines that may go
}

// CapacityTurnOf says which policy is in force on a cluster: its own, or in the canary of a rollout the proposed one, on a share of the machines
// and until the hour's machines are used up; then its own finds machines for pods and changes nothing else. lock keeps a rollout from moving
// until the transaction ends.
func CapacityTurnOf(ctx context.Context, tx *Tx, cluster fleet.ClusterID, lock bool) (t CapacityTurn, err error) {
	sql := `SELECT p.rollout_id::text FROM capacity_rollout_part p JOIN capacity_rollout r ON r.tenant_id = p.tenant_id AND r.id = p.rollout_id
WHERE p.tenant_id = $1 AND p.cluster_id = $2 AND p.open`
	if lock {
		sql += ` FOR SHARE`
	}
	var id string
	if err := tx.pgx.QueryRow(ctx, sql, tx.Tenant, cluster).Scan(&id); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return t, fmt.Errorf("look for a rollout: %w", err)
	}
	own, err := CapacityPolicyOf(ctx, tx, cluster)
	if err != nil {
		return t, err
	}
	t.Policy, t.Version, t.Default, t.Share = own.Policy, own.Version, own.Default, 1000
	if id == "" {
		return t, nil
	}
	r, err := CapacityRolloutOf(ctx, tx, id, false)
	if err != nil {
		return t, err
	}
	reach, share := r.Reach()
	at := slices.IndexFunc(r.Parts, func(p capacity.RolloutPart) bool { return p.Cluster == cluster })
	if at < 0 || at >= reach || r.Parts[at].BaseVersion != own.Version || r.Parts[at].BaseDefault != own.Default {
		return t, nil // not its turn yet, or somebody saved another policy, which counts
	}
	t.Rollout, t.Step = r.ID, r.Step
	used, err := machinesMoved(ctx, tx, cluster)
	if err != nil {
		return t, err
	}
	if used >= r.Hourly {
		t.Share = 0
		return t, nil
	}
	t.Base, t.Policy, t.Share, t.Proposed = &own.Policy, r.Document, share, true
	t.Policy.MaxActions = min(t.Policy.WithDefaults().MaxActions, r.Hourly-used)
	return t, nil
}

// ValidCapacityPolicy refuses what has no meaning, also time zones that nobody knows.
func ValidCapacityPolicy(p capacity.Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	for _, w := range p.Freeze {
		if _, err := time.LoadLocation(w.TimeZone); err != nil || w.TimeZone == "Local" {
			return &fleet.Error{Code: fleet.CodeInvalid, Message: fmt.Sprintf("%q is no time zone such as Europe/Berlin", w.TimeZone), Field: "body.freeze"}
		}
	}
	return nil
}

// machinesMoved counts machines that came or went within the last hour of the cluster's time.
func machinesMoved(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (n int, err error) {
	err = tx.pgx.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE n.started_at > c.data_at - interval '1 hour') + count(*) FILTER (WHERE n.ended_at > c.data_at - interval '1 hour')
FROM cluster c JOIN node n ON n.tenant_id = c.tenant_id AND n.cluster_id = c.id AND (n.ended_at IS NULL OR n.ended_at > c.data_at - interval '1 hour') WHERE c.tenant_id = $1 AND c.id = $2`,
		tx.Tenant, cluster).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count machines that moved: %w", err)
	}
	return n, nil
}

// CapacityTurnStands says that a plan made in a turn may be kept and carried out; no rollout moves on until the transaction ends.
func CapacityTurnStands(ctx context.Context, tx *Tx, in *capacity.Input) (bool, error) {
	now, err := CapacityTurnOf(ctx, tx, in.Cluster, true)
	if err != nil {
		return false, err
	}
	return now.Same(in.Turn), nil
}

// stepNumber counts from 1; 0: the shadow. The caller's rollout may have ended: its step is the last that it took.
func stepNumber(r *CapacityRollout) int {
	for i := range r.Parts {
		if r.Parts[i].Before != nil {
			return r.Step + 1
		}
	}
	return 0
}
