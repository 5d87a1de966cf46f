package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// SignalWindow is how far back a Snapshot's signals reach.
const SignalWindow = 15 * time.Minute

// writerMemory is how long another controller's write counts as a conflict.
const writerMemory = 10 * time.Minute

// PlanInput is what a decision for a cluster is made from, and where its replicas run so that the caller can price them.
type PlanInput struct {
	Input optimizer.Input
	// Hosts: for each workload, the machine that most of its replicas run on.
	Hosts map[fleet.WorkloadID]Host
	// Learned of the workloads whose policy has an SLO rule, as it was kept; those of which nothing is are left out.
	Learned map[fleet.WorkloadID]Learned
	// Starts: seconds from the creation of a pod until it was ready, the slow tenth, of those workloads of which it was looked up now.
	Starts map[fleet.WorkloadID]int
}

// Host is the machine under a replica, as its cluster reported it.
type Host struct {
	Offering fleet.Offering
	Machine  fleet.InstanceType
}

// LoadPlanInput locks the cluster's row, so that one planner at a time works on a cluster, and reads everything a decision may
// look at. It returns a not_found error for an unknown cluster and nil when the cluster never reported.
func LoadPlanInput(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (*PlanInput, error) {
	var (
		snap             = fleet.Snapshot{Tenant: tx.Tenant, Cluster: cluster}
		lastSeen, dataAt *time.Time
		speed            float64
		head             *string
		limits           AgentLimits
	)
	err := tx.pgx.QueryRow(ctx, `
SELECT mode, frozen, generation, head_plan_id::text, last_seen_at, data_at, clock_speed, agent_limits
FROM cluster WHERE tenant_id = $1 AND id = $2 FOR UPDATE`, tx.Tenant, cluster).
		Scan(&snap.Mode, &snap.Frozen, &snap.Generation, &head, &lastSeen, &dataAt, &speed, &limits)
	if err != nil {
		return nil, notFound(err, "cluster")
	}
	snap.Mode = limits.allow(snap.Mode)
	if lastSeen == nil || dataAt == nil {
		return nil, nil
	}
	if head != nil {
		snap.Parent = fleet.PlanID(*head)
	}
	snap.LastSeen = dataAt.UTC()
	snap.Now = dataNow(tx.Now, *lastSeen, *dataAt, speed)
	in := &PlanInput{
		Input: optimizer.Input{Policies: map[fleet.WorkloadID]optimizer.Binding{}, Memory: map[fleet.WorkloadID]optimizer.Memory{}},
		Hosts: map[fleet.WorkloadID]Host{},
	}
	byKey, err := loadBound(ctx, tx, cluster, in)
	if err != nil {
		return nil, err
	}
	if err := loadObservations(ctx, tx, cluster, snap.LastSeen.Add(-SignalWindow), byKey); err != nil {
		return nil, err
	}
	if err := loadContext(ctx, tx, cluster, snap.Now, byKey, in); err != nil {
		return nil, err
	}
	var learning []fleet.WorkloadID
	for id, b := range in.Input.Policies {
		if b.Policy.SLO != nil {
			learning = append(learning, id)
		}
	}
	if in.Learned, err = LearnedOf(ctx, tx, learning); err != nil {
		return nil, err
	}
	if in.Starts, err = startsDue(ctx, tx, cluster, snap.Now, in, byKey); err != nil {
		return nil, err
	}
	for _, w := range byKey {
		snap.Workloads = append(snap.Workloads, *w)
	}
	slices.SortFunc(snap.Workloads, func(a, b fleet.WorkloadState) int { return strings.Compare(a.Workload.Key, b.Workload.Key) })
	in.Input.Snapshot = snap
	return in, nil
}

// allow is the mode that a cluster's decisions can have with an agent of these limits. An agent that may not act forbids acting, not
// deciding: what nobody carries out is shown as a recommendation instead of being refused there again and again.
func (l AgentLimits) allow(cluster fleet.Mode) fleet.Mode {
	switch mode := fleet.Mode(l.Mode); mode {
	case fleet.ModeObserve, fleet.ModeRecommend:
		return fleet.Stricter(cluster, fleet.ModeRecommend)
	case fleet.ModeApprove:
		return fleet.Stricter(cluster, mode)
	}
	return cluster // enforce, or an agent that has not said
}

// fastReport is how long a clock that runs faster than ours stands still between two reports: at 600 times our speed the second
// that a report takes would make every signal ten minutes old.
const fastReport = 3 * time.Second

// dataNow estimates the cluster's clock: its newest report plus what passed since, at its speed.
func dataNow(now, lastSeen, dataAt time.Time, speed float64) time.Time {
	passed := max(now.Sub(lastSeen), 0)
	if speed > 1 {
		passed = max(passed-fastReport, 0)
	}
	return dataAt.Add(time.Duration(float64(passed) * speed)).UTC().Truncate(time.Millisecond)
}

// loadBound reads the workloads that have a policy, with the policy and what it remembers.
func loadBound(ctx context.Context, tx *Tx, cluster fleet.ClusterID, in *PlanInput) (map[string]*fleet.WorkloadState, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT w.id::text, w.key, w.namespace, w.kind, w.name, w.team, w.class, w.labels, w.cpu_milli, w.mem_mib, w.gpu_milli, w.replicas,
       p.version, p.document, m.memory
FROM workload w
JOIN LATERAL (SELECT version, document FROM policy p WHERE p.tenant_id = w.tenant_id AND p.workload_id = w.id
              ORDER BY version DESC LIMIT 1) p ON true
LEFT JOIN planner_memory m ON m.tenant_id = w.tenant_id AND m.workload_id = w.id
WHERE w.tenant_id = $1 AND w.cluster_id = $2 AND w.gone_at IS NULL AND w.scalable`, tx.Tenant, cluster)
	if err != nil {
		return nil, fmt.Errorf("load workloads: %w", err)
	}
	defer rows.Close()
	byKey := map[string]*fleet.WorkloadState{}
	for rows.Next() {
		w := fleet.WorkloadState{Workload: fleet.Workload{Cluster: cluster}}
		var version int
		var document string
		var memory []byte
		if err := rows.Scan(&w.Workload.ID, &w.Workload.Key, &w.Workload.Namespace, &w.Workload.Kind, &w.Workload.Name, &w.Workload.Team,
			&w.Workload.Class, &w.Workload.Labels, &w.Workload.CPUMilli, &w.Workload.MemMiB, &w.Workload.GPUMilli, &w.Replicas,
			&version, &document, &memory); err != nil {
			return nil, fmt.Errorf("read workload: %w", err)
		}
		policy, findings := tx.policies.parse(document)
		if optimizer.HasErrors(findings) {
			// Saved by an older version with looser rules: such a workload is left alone, visibly (the API lints it on read).
			continue
		}
		if memory != nil {
			var m optimizer.Memory
			if err := json.Unmarshal(memory, &m); err != nil {
				return nil, fmt.Errorf("read planner memory of %s: %w", w.Workload.ID, err)
			}
			in.Input.Memory[w.Workload.ID] = m
		}
		in.Input.Policies[w.Workload.ID] = optimizer.Binding{Version: version, Policy: policy}
		byKey[w.Workload.Key] = &w
	}
	return byKey, rows.Err()
}

// loadObservations turns the reports since from into signals, oldest sample first.
func loadObservations(ctx context.Context, tx *Tx, cluster fleet.ClusterID, from time.Time, byKey map[string]*fleet.WorkloadState) error {
	rows, err := tx.pgx.Query(ctx, `
SELECT body FROM observation WHERE tenant_id = $1 AND cluster_id = $2 AND at >= $3 ORDER BY at, epoch, seq`, tx.Tenant, cluster, from)
	if err != nil {
		return fmt.Errorf("load observations: %w", err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return fmt.Errorf("load observations: %w", err)
	}
	index := map[string]map[fleet.SignalName]int{}
	var o agentv1.Observation
	for _, body := range bodies {
		if err := proto.Unmarshal(body, &o); err != nil {
			return fmt.Errorf("read observation: %w", err)
		}
		for _, wo := range o.GetWorkloads() {
			w, ok := byKey[wo.GetWorkload()]
			if !ok {
				continue
			}
			if index[wo.GetWorkload()] == nil {
				index[wo.GetWorkload()] = map[fleet.SignalName]int{}
			}
			addObservation(w, index[wo.GetWorkload()], wo)
		}
	}
	return nil
}

// addObservation appends one report of a workload: its counts replace the older ones, its samples are added unless repeated.
func addObservation(w *fleet.WorkloadState, index map[fleet.SignalName]int, wo *agentv1.WorkloadObservation) {
	w.Replicas, w.Ready = int(wo.GetReplicas()), int(wo.GetReady())
	w.Starting, w.Draining = int(wo.GetStarting()), int(wo.GetDraining())
	for _, s := range wo.GetSignals() {
		name := fleet.SignalName(s.GetName())
		i, ok := index[name]
		if !ok {
			i = len(w.Signals)
			index[name] = i
			w.Signals = append(w.Signals, fleet.Signal{Name: name})
		}
		sig := &w.Signals[i]
		sig.Conflicting = s.GetConflicting()
		at := time.UnixMilli(s.GetAtMs()).UTC()
		if last, ok := sig.Last(); ok && !at.After(last.At) {
			continue // the same reading reported again
		}
		sig.Samples = append(sig.Samples, fleet.Sample{At: at, Value: s.GetValue(), PodsReported: int(s.GetPodsReported()),
			PodsUnready: int(s.GetPodsUnready()), PodsMissing: int(s.GetPodsMissing())})
	}
}

// loadContext reads other writers and the machines under the replicas.
func loadContext(ctx context.Context, tx *Tx, cluster fleet.ClusterID, now time.Time, byKey map[string]*fleet.WorkloadState, in *PlanInput) error {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT workload_key, manager, object, field, at FROM workload_writer
		WHERE tenant_id = $1 AND cluster_id = $2 AND at >= $3 ORDER BY workload_key, manager, object`, tx.Tenant, cluster, now.Add(-writerMemory)).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var key string
				var w fleet.Writer
				if err := rows.Scan(&key, &w.Manager, &w.Object, &w.Field, &w.At); err != nil {
					return err
				}
				if s := byKey[key]; s != nil {
					s.Writers = append(s.Writers, w)
				}
			}
			return rows.Err()
		})
	batch.Queue(`
SELECT DISTINCT ON (p.workload_key) p.workload_key, n.cloud, n.region, n.zone, n.instance_type, n.purchase, n.cpu_milli, n.mem_mib, n.gpu_model, n.gpu_count
FROM pod p JOIN node n ON n.tenant_id = p.tenant_id AND n.cluster_id = p.cluster_id AND n.name = p.node AND n.ended_at IS NULL
WHERE p.tenant_id = $1 AND p.cluster_id = $2 AND p.ended_at IS NULL AND p.workload_key <> ''
GROUP BY p.workload_key, n.cloud, n.region, n.zone, n.instance_type, n.purchase, n.cpu_milli, n.mem_mib, n.gpu_model, n.gpu_count
ORDER BY p.workload_key, count(*) DESC, n.instance_type, n.zone, n.purchase`, tx.Tenant, cluster).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var key string
				var h Host
				if err := rows.Scan(&key, &h.Offering.Cloud, &h.Offering.Region, &h.Offering.Zone, &h.Offering.InstanceType, &h.Offering.Purchase,
					&h.Machine.CPUMilli, &h.Machine.MemMiB, &h.Machine.GPUModel, &h.Machine.GPUCount); err != nil {
					return err
				}
				if s := byKey[key]; s != nil {
					in.Hosts[s.Workload.ID] = h
				}
			}
			return rows.Err()
		})
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("load plan context: %w", err)
	}
	return nil
}
