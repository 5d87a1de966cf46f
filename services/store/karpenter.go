package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// CapabilityKarpenter is how an agent says that it may write Karpenter's objects.
const CapabilityKarpenter = "karpenter"

const (
	// maxOrderActions bounds one order; an agent tells at most maxResults at once, those of replicas included.
	maxOrderActions = 600
	// karpenterOrdersKept is how many orders of a cluster are kept.
	karpenterOrdersKept = 200
	// karpenterAgain is how long an order that was not carried out as a whole is left before the same is said again; longer where somebody else holds what it is about.
	karpenterAgain, karpenterYield = time.Minute, 10 * time.Minute
	// karpenterRefresh is how long what was done is taken to hold: somebody may have deleted a pool since. What is as it should be is not written again.
	karpenterRefresh = 30 * time.Minute
	// karpenterSilent is how old an agent's last word may be for anything to be sent.
	karpenterSilent = 2 * time.Minute
	// maxActionSpec bounds what is kept of an object before and after, in bytes.
	maxActionSpec = 64 << 10
	// maxOwnedPools of others that one cluster's plans may write.
	maxOwnedPools = 50
	// ownPoolPrefix of the names of NodePools that are made for plans.
	ownPoolPrefix = "plimsoll-"
)

// KarpenterPolicy says whether and how a cluster's capacity plans are carried out through Karpenter.
type KarpenterPolicy struct {
	Version        int // 0: none was saved
	Enabled        bool
	ClassGroup     string
	ClassKind      string
	ClassName      string
	ReservationKey string
	Prices         bool
	Own            []string // NodePools that others made and that plans shall write; the agent must allow it too
	UpdatedBy      string
	UpdatedAt      time.Time
}

var (
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	kindName   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

// Validate refuses what has no meaning.
func (p *KarpenterPolicy) Validate() error {
	for _, f := range []struct {
		field string
		ok    bool
	}{
		{"body.class_group", objectName.MatchString(p.ClassGroup)}, {"body.class_kind", kindName.MatchString(p.ClassKind)}, {"body.class_name", objectName.MatchString(p.ClassName)},
		{"body.reservation_key", p.ReservationKey == "" || labelKey.MatchString(p.ReservationKey)},
	} {
		if !f.ok {
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "a node class is named by API group, kind and name, a reservation by the key of a node label", Field: f.field}
		}
	}
	if len(p.Own) > maxOwnedPools {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: fmt.Sprintf("at most %d pools of others are taken over", maxOwnedPools), Field: "body.own"}
	}
	for i, name := range p.Own {
		switch {
		case !objectName.MatchString(name):
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "a NodePool is named by lower-case letters, digits, dashes and dots", Field: "body.own"}
		case strings.HasPrefix(name, ownPoolPrefix):
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "a pool of Plimsoll's making is its own already", Field: "body.own"}
		case slices.Contains(p.Own[:i], name):
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "a pool is named twice", Field: "body.own"}
		}
	}
	return nil
}

// KarpenterPolicyOf reads a cluster's; one with version 0 where there is none.
func KarpenterPolicyOf(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (p KarpenterPolicy, err error) {
	err = tx.pgx.QueryRow(ctx, `SELECT version, enabled, class_group, class_kind, class_name, reservation_key, prices, own, updated_by, updated_at FROM karpenter_policy WHERE tenant_id = $1 AND cluster_id = $2`,
		tx.Tenant, cluster).Scan(&p.Version, &p.Enabled, &p.ClassGroup, &p.ClassKind, &p.ClassName, &p.ReservationKey, &p.Prices, &p.Own, &p.UpdatedBy, &p.UpdatedAt)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return p, fmt.Errorf("load Karpenter policy: %w", err)
	}
	return p, nil
}

// SetKarpenterPolicy writes a cluster's if Version is the one that stands, 0 for none. It is not switched on where groups of clouds may be changed: two would buy for
// the same pods. Switching it off withdraws what has not been answered; what Karpenter was told stays until it is handed back.
func SetKarpenterPolicy(ctx context.Context, tx *Tx, cluster fleet.ClusterID, p KarpenterPolicy, by string) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := lockCluster(ctx, tx, cluster); err != nil {
		return err
	}
	if p.Enabled {
		groups, err := groupsAct(ctx, tx, cluster)
		if err != nil {
			return err
		}
		if groups {
			return fleet.Errorf(fleet.CodeConflict, "groups of clouds may be changed for this cluster, or are being changed: switch them off first")
		}
	}
	own := slices.Clone(p.Own)
	if slices.Sort(own); own == nil {
		own = []string{}
	}
	tag, err := tx.pgx.Exec(ctx, `
INSERT INTO karpenter_policy AS k (tenant_id, cluster_id, version, enabled, class_group, class_kind, class_name, reservation_key, prices, updated_by, updated_at, own)
SELECT $1, $2, 1, $4, $5, $6, $7, $8, $9, $10, $11, $12 WHERE $3 = 0 OR EXISTS (SELECT FROM karpenter_policy WHERE tenant_id = $1 AND cluster_id = $2)
ON CONFLICT (tenant_id, cluster_id) DO UPDATE SET version = k.version + 1, enabled = excluded.enabled, class_group = excluded.class_group, class_kind = excluded.class_kind,
  class_name = excluded.class_name, reservation_key = excluded.reservation_key, prices = excluded.prices, own = excluded.own, updated_by = excluded.updated_by, updated_at = excluded.updated_at WHERE k.version = $3`,
		tx.Tenant, cluster, p.Version, p.Enabled, p.ClassGroup, p.ClassKind, p.ClassName, p.ReservationKey, p.Prices, by, tx.Now, own)
	if err != nil {
		return fmt.Errorf("save Karpenter policy: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeConflict, "the policy was changed meanwhile; read it again")
	}
	if p.Enabled {
		return nil
	}
	if _, err := tx.pgx.Exec(ctx, `UPDATE karpenter_order SET state = 'withdrawn', closed_at = $3 WHERE tenant_id = $1 AND cluster_id = $2 AND state = 'open' AND kind = 'plan'`, tx.Tenant, cluster, tx.Now); err != nil {
		return fmt.Errorf("withdraw order: %w", err)
	}
	return nil
}

// lockCluster takes the planner's lock.
func lockCluster(ctx context.Context, tx *Tx, cluster fleet.ClusterID) error {
	var one int
	if err := tx.pgx.QueryRow(ctx, `SELECT 1 FROM cluster WHERE tenant_id = $1 AND id = $2 FOR UPDATE`, tx.Tenant, cluster).Scan(&one); err != nil {
		return notFound(err, "cluster")
	}
	return nil
}

// groupsAct tells whether groups of clouds may be changed for the cluster, or are being changed.
func groupsAct(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (yes bool, err error) {
	err = tx.pgx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM cloud_group WHERE tenant_id = $1 AND cluster_id = $2 AND enabled)
OR EXISTS (SELECT FROM cloud_group_action WHERE tenant_id = $1 AND cluster_id = $2 AND closed_at IS NULL)`, tx.Tenant, cluster).Scan(&yes)
	if err != nil {
		return false, fmt.Errorf("look for groups: %w", err)
	}
	return yes, nil
}

// Reasons why nothing is sent to Karpenter.
const (
	KarpenterOff      = "off"       // not switched on
	KarpenterMode     = "mode"      // cluster or agent is not in enforce
	KarpenterFrozen   = "frozen"    // kill switch of cluster or agent
	KarpenterAgent    = "agent"     // the agent does not steer Karpenter
	KarpenterNoAgent  = "silent"    // the agent says nothing
	KarpenterGroups   = "groups"    // groups of clouds are changed instead
	KarpenterWaits    = "open"      // an earlier order is not answered yet
	KarpenterHeld     = "held"      // the plan is held
	KarpenterUnpriced = "unpriced"  // a cap on spending, and machines whose price nobody knows
	KarpenterNothing  = "same"      // Karpenter was told so already
	KarpenterTooMuch  = "too_large" // more objects than one order may have
	KarpenterNoOffers = "no_offers" // nothing can be bought
)

// KarpenterWork is what is to be known before Karpenter is told anything.
type KarpenterWork struct {
	Policy   KarpenterPolicy
	Pools    []string // of ours that may exist, by name
	Overlays []string
	Warm     []string  // pools of room kept ready that may exist, by name
	Why      string    // why nothing may be sent; empty: it may
	At       time.Time // data time; zero where the agent says nothing
}

// LoadKarpenterWork reads it. lock takes the planner's lock, for an order in the same transaction.
func LoadKarpenterWork(ctx context.Context, tx *Tx, cluster fleet.ClusterID, lock bool) (w KarpenterWork, err error) {
	if w.Policy, err = KarpenterPolicyOf(ctx, tx, cluster); err != nil {
		return w, err
	}
	w.Why, w.At, err = karpenterStop(ctx, tx, cluster, lock)
	if err != nil {
		return w, err
	}
	if w.Policy, err = KarpenterPolicyOf(ctx, tx, cluster); err != nil { // as it stands under the lock
		return w, err
	}
	if w.Why == "" && !w.Policy.Enabled {
		w.Why = KarpenterOff
	}
	rows, err := tx.pgx.Query(ctx, `SELECT key FROM karpenter_object WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY key`, tx.Tenant, cluster)
	if err != nil {
		return w, fmt.Errorf("list objects: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return w, fmt.Errorf("list objects: %w", err)
	}
	for _, key := range keys {
		if name, ok := strings.CutPrefix(key, "pool/"); ok {
			w.Pools = append(w.Pools, name)
		} else if name, ok := strings.CutPrefix(key, "overlay/"); ok {
			w.Overlays = append(w.Overlays, name)
		} else if name, ok := strings.CutPrefix(key, "warm/"); ok {
			w.Warm = append(w.Warm, name)
		}
	}
	return w, nil
}

// karpenterStop is why nothing may be sent to Karpenter now, whatever the policy; an order whose time is over is ended first where the lock is taken.
func karpenterStop(ctx context.Context, tx *Tx, cluster fleet.ClusterID, lock bool) (why string, now time.Time, err error) {
	why, now, err = orderStop(ctx, tx, cluster, lock, CapabilityKarpenter)
	if err != nil || why != "" && why != KarpenterWaits {
		return why, now, err
	}
	groups, err := groupsAct(ctx, tx, cluster)
	if groups {
		why = KarpenterGroups
	}
	return why, now, err
}

// orderStop is why no order may be sent to an agent that needs a capability for it.
func orderStop(ctx context.Context, tx *Tx, cluster fleet.ClusterID, lock bool, capability string) (why string, now time.Time, err error) {
	sql := `SELECT mode, frozen, agent_limits, coalesce(capabilities, '{}'), last_seen_at, data_at, clock_speed FROM cluster WHERE tenant_id = $1 AND id = $2`
	if lock {
		sql += ` FOR UPDATE`
	}
	var mode fleet.Mode
	var frozen bool
	var limits AgentLimits
	var can []string
	var lastSeen, dataAt *time.Time
	var speed float64
	if err := tx.pgx.QueryRow(ctx, sql, tx.Tenant, cluster).Scan(&mode, &frozen, &limits, &can, &lastSeen, &dataAt, &speed); err != nil {
		return "", now, notFound(err, "cluster")
	}
	switch {
	case limits.allow(mode) != fleet.ModeEnforce:
		return KarpenterMode, now, nil
	case frozen || limits.Frozen:
		return KarpenterFrozen, now, nil
	case !slices.Contains(can, capability):
		return KarpenterAgent, now, nil
	case lastSeen == nil || dataAt == nil || tx.Now.Sub(*lastSeen) > karpenterSilent:
		return KarpenterNoAgent, now, nil
	}
	now = dataNow(tx.Now, *lastSeen, *dataAt, speed)
	if lock {
		if _, err := tx.pgx.Exec(ctx, `UPDATE karpenter_order SET state = 'expired', closed_at = $4 WHERE tenant_id = $1 AND cluster_id = $2 AND state = 'open' AND expires_at <= $3`, tx.Tenant, cluster, now, tx.Now); err != nil {
			return "", now, fmt.Errorf("expire order: %w", err)
		}
	}
	var open bool
	if err := tx.pgx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM karpenter_order WHERE tenant_id = $1 AND cluster_id = $2 AND state = 'open' AND expires_at > $3)`, tx.Tenant, cluster, now).Scan(&open); err != nil {
		return "", now, fmt.Errorf("look for an open order: %w", err)
	}
	if open {
		return KarpenterWaits, now, nil
	}
	return "", now, nil
}

// KarpenterOrder is what an agent was told to make of Karpenter's objects.
type KarpenterOrder struct {
	ID         string
	Cluster    fleet.ClusterID
	Generation int64
	Plan       *string // capacity plan
	Kind       string  // plan, hand_back, drain
	Bought     *fleet.Money
	At         time.Time
	ExpiresAt  time.Time
	CreatedAt  time.Time
	CreatedBy  string
	State      string // open, applied, partial, refused, expired, withdrawn
	ClosedAt   *time.Time
}

// OpenKarpenterOrder writes down what the agent shall do, under the next generation of the cluster, before it is told. The caller holds the planner's lock and was told that
// something may be sent. why: the same was said before, and was done or is left for a while.
func OpenKarpenterOrder(ctx context.Context, tx *Tx, o KarpenterOrder, actions []*agentv1.CapacityAction) (made bool, why string, err error) {
	if len(actions) > maxOrderActions {
		return false, KarpenterTooMuch, nil
	}
	if len(actions) == 0 {
		return false, KarpenterNothing, nil
	}
	sum := sha256.New()
	specs, ids, absent, positions := make([]string, len(actions)), make([]string, len(actions)), make([]bool, len(actions)), make([]int32, len(actions))
	for i, a := range actions {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
		if err != nil {
			return false, "", fmt.Errorf("encode action: %w", err)
		}
		fmt.Fprintf(sum, "%d ", len(b))
		sum.Write(b)
		doc, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(a)
		if err != nil {
			return false, "", fmt.Errorf("encode action: %w", err)
		}
		specs[i], ids[i], absent[i], positions[i] = string(doc), a.GetActionId(), a.GetAbsent(), int32(i)
	}
	says := sum.Sum(nil)
	if why, err := karpenterSaid(ctx, tx, o.Cluster, says); err != nil || why != "" {
		return false, why, err
	}
	o.ID = uuid.Must(uuid.NewV7()).String()
	b := &pgx.Batch{}
	b.Queue(`
WITH c AS (UPDATE cluster SET generation = generation + 1 WHERE tenant_id = $1 AND id = $2 RETURNING generation)
INSERT INTO karpenter_order (tenant_id, cluster_id, id, generation, capacity_plan_id, kind, says, bought_nano, at, expires_at, created_at, created_by, state)
SELECT $1, $2, $3, c.generation, $4, $5, $6, $7, $8, $9, $10, $11, 'open' FROM c`,
		tx.Tenant, o.Cluster, o.ID, o.Plan, o.Kind, says, (*int64)(o.Bought), o.At, o.ExpiresAt, tx.Now, o.CreatedBy)
	b.Queue(`INSERT INTO karpenter_action (tenant_id, order_id, position, action_id, absent, spec) SELECT $1, $2, p, a, gone, s::jsonb FROM unnest($3::int[], $4::text[], $5::bool[], $6::text[]) AS u(p, a, gone, s)`,
		tx.Tenant, o.ID, positions, ids, absent, specs)
	b.Queue(`INSERT INTO karpenter_object (tenant_id, cluster_id, key) SELECT $1, $2, a FROM unnest($3::text[], $4::bool[]) AS u(a, gone) WHERE NOT gone AND a NOT LIKE 'drain/%' ON CONFLICT DO NOTHING`, tx.Tenant, o.Cluster, ids, absent)
	b.Queue(`DELETE FROM karpenter_order WHERE tenant_id = $1 AND cluster_id = $2 AND state <> 'open' AND id IN (
  SELECT id FROM karpenter_order WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY id DESC OFFSET $3 LIMIT 1000)`, tx.Tenant, o.Cluster, karpenterOrdersKept)
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return false, "", fmt.Errorf("write down an order: %w", err)
	}
	return true, "", Notify(ctx, tx, EventPlan, o.Cluster, o.ID)
}

// karpenterSaid tells whether the same was said by the newest order: KarpenterNothing where it was done, or not long ago.
func karpenterSaid(ctx context.Context, tx *Tx, cluster fleet.ClusterID, says []byte) (string, error) {
	var same, held bool
	var state string
	var closed *time.Time
	err := tx.pgx.QueryRow(ctx, `SELECT says = $3, state, closed_at, EXISTS (SELECT FROM karpenter_action a WHERE a.tenant_id = o.tenant_id AND a.order_id = o.id AND a.code IN ('conflict', 'forbidden'))
FROM karpenter_order o WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY generation DESC LIMIT 1`, tx.Tenant, cluster, says).Scan(&same, &state, &closed, &held)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("load newest order: %w", err)
	}
	again := karpenterAgain
	switch {
	case held:
		again = karpenterYield
	case state == "applied":
		again = karpenterRefresh
	}
	if same && closed != nil && tx.Now.Sub(*closed) < again {
		return KarpenterNothing, nil
	}
	return "", nil
}

// KarpenterAction is one of an order.
type KarpenterAction struct {
	ActionID   string
	Absent     bool
	Spec       []byte // JSON of the action as it is sent
	Outcome    *string
	Code       string
	Detail     string
	Before     string // JSON as the agent found it; empty: there was nothing
	After      string
	Writers    []string
	AnsweredAt *time.Time
}

const karpenterOrderColumns = `id::text, cluster_id::text, generation, capacity_plan_id::text, kind, bought_nano, at, expires_at, created_at, created_by, state, closed_at`

// KarpenterOrders lists a cluster's, newest first.
func KarpenterOrders(ctx context.Context, tx *Tx, cluster fleet.ClusterID, limit int) ([]KarpenterOrder, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+karpenterOrderColumns+` FROM karpenter_order WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY generation DESC LIMIT $3`, tx.Tenant, cluster, limit)
	if err != nil {
		return nil, fmt.Errorf("list orders: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[KarpenterOrder])
	if err != nil {
		return nil, fmt.Errorf("list orders: %w", err)
	}
	return all, nil
}

// KarpenterActions lists an order's, in the order in which they are carried out.
func KarpenterActions(ctx context.Context, tx *Tx, order string) ([]KarpenterAction, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT action_id, absent, spec, outcome, code, detail, before_spec, after_spec, writers, answered_at FROM karpenter_action WHERE tenant_id = $1 AND order_id = $2 ORDER BY position`,
		tx.Tenant, order)
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[KarpenterAction])
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	return all, nil
}

// KarpenterOrderByID reads one of a cluster's.
func KarpenterOrderByID(ctx context.Context, tx *Tx, cluster fleet.ClusterID, id string) (KarpenterOrder, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+karpenterOrderColumns+` FROM karpenter_order WHERE tenant_id = $1 AND cluster_id = $2 AND id = $3`, tx.Tenant, cluster, id)
	if err != nil {
		return KarpenterOrder{}, fmt.Errorf("load order: %w", err)
	}
	o, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[KarpenterOrder])
	if err != nil {
		return o, notFound(err, "order")
	}
	return o, nil
}
