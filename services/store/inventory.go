package store

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Bounds of one inventory: more than the largest clusters have.
const (
	maxNodes       = 20_000
	maxPods        = 200_000
	maxWriters     = 20_000
	maxLabels      = 256
	maxLabelLength = 1024
)

// Labels that say whose a workload is and how much it matters; the first that is there counts.
var (
	teamLabels  = []string{"plimsoll.dev/team", "team"}
	classLabels = []string{"plimsoll.dev/class"}
)

// WorkloadIDOf is the id of a workload: the same cluster and key give the same id, today and after a re-install.
func WorkloadIDOf(cluster fleet.ClusterID, key string) fleet.WorkloadID {
	space, err := uuid.Parse(string(cluster))
	if err != nil {
		panic("store: a cluster's id is not a UUID: " + string(cluster))
	}
	return fleet.WorkloadID(uuid.NewSHA1(space, []byte(key)).String())
}

func (s *Source) prepareInventory(now time.Time, p *prepared, inv *agentv1.Inventory) error {
	for what, c := range map[string][2]int{
		"nodes": {len(inv.GetNodes()) + len(inv.GetGoneNodes()), maxNodes}, "pods": {len(inv.GetPods()) + len(inv.GetGonePods()), maxPods},
		"workloads": {len(inv.GetWorkloads()) + len(inv.GetGoneWorkloads()), maxWorkloads}, "writers": {len(inv.GetWriters()), maxWriters},
	} {
		if c[0] > c[1] {
			return tooMany(what, c[0], c[1])
		}
	}
	if err := s.checkTime(now, inv.GetAtMs()); err != nil {
		return err
	}
	if err := s.checkInventory(now, inv); err != nil {
		return err
	}
	if err := checkRules(inv); err != nil {
		return err
	}
	at := millis(inv.GetAtMs())
	p.news = true
	p.queue = func(b *pgx.Batch, tx *Tx) {
		s.queueNodes(b, tx, inv, at)
		s.queuePlacements(b, tx, inv)
		s.queuePods(b, tx, inv, at)
		s.queueWorkloads(b, tx, inv, at)
		s.queueWriters(b, tx, inv)
	}
	return nil
}

// checkInventory looks at everything that would make the database refuse the whole report.
func (s *Source) checkInventory(now time.Time, inv *agentv1.Inventory) error {
	for _, n := range inv.GetNodes() {
		if n.GetUid() == "" || n.GetName() == "" {
			return bad("a node has no uid or no name")
		}
		if err := checkTexts(n.GetLabels(), n.GetUid(), n.GetName(), n.GetPool(), n.GetCloud(), n.GetRegion(), n.GetZone(), n.GetInstanceType(),
			n.GetPurchase(), n.GetPhase(), n.GetGpuModel(), n.GetKubeletVersion(), n.GetGpuDriver()); err != nil {
			return err
		}
		if min(n.GetCpuMilli(), n.GetMemMib(), int64(n.GetGpuCount()), n.GetGpuMemoryMib()) < 0 {
			return bad("node %s has a negative size", n.GetName())
		}
		if err := checkGPUGroups(n.GetName(), n.GetGpus()); err != nil {
			return err
		}
		if err := s.checkTimes(now, n.GetStartedMs(), n.GetReadyMs(), n.GetEndedMs()); err != nil {
			return err
		}
	}
	for _, d := range inv.GetPods() {
		if d.GetUid() == "" || d.GetName() == "" || d.GetNamespace() == "" {
			return bad("a pod has no uid, name or namespace")
		}
		if err := checkTexts(d.GetNotes()); err != nil {
			return err
		}
		if err := checkTexts(d.GetLabels(), d.GetUid(), d.GetName(), d.GetNamespace(), d.GetWorkload(), d.GetNode(), d.GetPhase(), d.GetReason()); err != nil {
			return err
		}
		if min(d.GetCpuMilli(), d.GetMemMib(), d.GetGpuMilli()) < 0 {
			return bad("pod %s has a negative size", d.GetName())
		}
		if err := checkGPUShares(d.GetName(), d.GetGpus()); err != nil {
			return err
		}
		if err := s.checkTimes(now, d.GetCreatedMs(), d.GetStartedMs(), d.GetReadyMs(), d.GetEndedMs()); err != nil {
			return err
		}
	}
	for _, w := range inv.GetWorkloads() {
		if err := checkKey(w.GetKey()); err != nil {
			return err
		}
		if w.GetKey() != w.GetNamespace()+"/"+w.GetKind()+"/"+w.GetName() {
			return bad("the key %q is not that of %s/%s/%s", w.GetKey(), w.GetNamespace(), w.GetKind(), w.GetName())
		}
		if err := checkTexts(w.GetLabels(), w.GetClass()); err != nil {
			return err
		}
		if min(w.GetCpuMilli(), w.GetMemMib(), w.GetGpuMilli(), int64(w.GetReplicas())) < 0 {
			return bad("workload %s has a negative size", w.GetKey())
		}
	}
	for _, w := range inv.GetWriters() {
		if err := checkTexts(nil, w.GetWorkload(), w.GetManager(), w.GetObject(), w.GetField()); err != nil {
			return err
		}
		if err := s.checkTime(now, w.GetAtMs()); err != nil {
			return err
		}
	}
	for _, list := range [][]string{inv.GetGoneNodes(), inv.GetGonePods(), inv.GetGoneWorkloads()} {
		if err := checkTexts(nil, list...); err != nil {
			return err
		}
	}
	return nil
}

func checkTexts(labels map[string]string, texts ...string) error {
	for _, t := range texts {
		if err := checkText("a name in the inventory", t, 512); err != nil {
			return err
		}
	}
	if len(labels) > maxLabels {
		return tooMany("labels on one object", len(labels), maxLabels)
	}
	for k, v := range labels {
		if len(k)+len(v) > maxLabelLength || !cleanText(k) || !cleanText(v) {
			return bad("a label is too long or not text")
		}
	}
	return nil
}

// checkTimes allows zero for "not yet" and any past: a node may have started years ago.
func (s *Source) checkTimes(now time.Time, all ...int64) error {
	for _, ms := range all {
		at := millis(ms)
		if ms != 0 && (at.Before(earliest) || at.After(latest) || (!s.Replayed && at.Sub(now) > futureTolerance)) {
			return bad("the inventory holds a time (%s) that cannot be right", at.Format(time.RFC3339))
		}
	}
	return nil
}

// moment is nil for zero, which Postgres keeps as NULL.
func moment(ms int64) any {
	if ms == 0 {
		return nil
	}
	return millis(ms)
}

func momentOr(ms int64, otherwise time.Time) time.Time {
	if ms == 0 {
		return otherwise
	}
	return millis(ms)
}

func labelsOf(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// unique keeps the last of those with the same id: Postgres refuses to touch one row twice in a statement.
func unique[T any](list []T, id func(T) string) []T {
	last := make(map[string]int, len(list))
	for i, v := range list {
		last[id(v)] = i
	}
	if len(last) == len(list) {
		return list
	}
	out := make([]T, 0, len(last))
	for _, i := range slices.Sorted(maps.Values(last)) {
		out = append(out, list[i])
	}
	return out
}

// queueNodes keeps of a node's ready time the first: Kubernetes says since when it is ready, and a node that was not for a while is no new machine.
func (s *Source) queueNodes(b *pgx.Batch, tx *Tx, inv *agentv1.Inventory, at time.Time) {
	nodes := unique(inv.GetNodes(), (*agentv1.Node).GetUid)
	rows, uids := make([][]any, 0, len(nodes)), make([]string, 0, len(nodes))
	for _, n := range nodes {
		purchase := n.GetPurchase()
		if p, err := fleet.ParsePurchase(purchase); err == nil {
			purchase = string(p) // an unknown word stays as it is: such a node has no price
		}
		uids = append(uids, n.GetUid())
		rows = append(rows, []any{tx.Tenant, s.Cluster, n.GetUid(), n.GetName(), n.GetPool(), n.GetCloud(), n.GetRegion(), n.GetZone(), n.GetInstanceType(),
			purchase, n.GetPhase(), n.GetCpuMilli(), n.GetMemMib(), n.GetGpuModel(), n.GetGpuCount(), n.GetGpuMemoryMib(), labelsOf(n.GetLabels()),
			momentOr(n.GetStartedMs(), at), moment(n.GetReadyMs()), moment(n.GetEndedMs()), gpuGroupsOf(n.GetGpus()), n.GetProviderId(), taintsOf(n), n.GetKubeletVersion(), n.GetGpuDriver()})
	}
	queueRows(b, `INSERT INTO node (tenant_id, cluster_id, uid, name, pool, cloud, region, zone, instance_type, purchase, phase, cpu_milli, mem_mib,
  gpu_model, gpu_count, gpu_memory_mib, labels, started_at, ready_at, ended_at, gpus, provider_id, taints, kubelet_version, gpu_driver)`, `
ON CONFLICT (tenant_id, cluster_id, uid) DO UPDATE SET name = excluded.name, pool = excluded.pool, cloud = excluded.cloud, region = excluded.region,
  zone = excluded.zone, instance_type = excluded.instance_type, purchase = excluded.purchase, phase = excluded.phase, cpu_milli = excluded.cpu_milli,
  mem_mib = excluded.mem_mib, gpu_model = excluded.gpu_model, gpu_count = excluded.gpu_count, gpu_memory_mib = excluded.gpu_memory_mib,
  labels = excluded.labels, started_at = least(node.started_at, excluded.started_at), ready_at = least(node.ready_at, excluded.ready_at), ended_at = excluded.ended_at, gpus = excluded.gpus,
  provider_id = coalesce(nullif(excluded.provider_id, ''), node.provider_id), taints = excluded.taints,
  kubelet_version = coalesce(nullif(excluded.kubelet_version, ''), node.kubelet_version), gpu_driver = coalesce(nullif(excluded.gpu_driver, ''), node.gpu_driver),
  touched_from = CASE
    WHEN (node.name, node.cloud, node.region, node.zone, node.instance_type, node.purchase, node.cpu_milli, node.mem_mib, node.gpu_model, node.gpu_count, node.gpus) IS DISTINCT FROM
      (excluded.name, excluded.cloud, excluded.region, excluded.zone, excluded.instance_type, excluded.purchase, excluded.cpu_milli, excluded.mem_mib, excluded.gpu_model,
      excluded.gpu_count, excluded.gpus) OR excluded.started_at < node.started_at THEN '-infinity'
    WHEN node.ended_at IS DISTINCT FROM excluded.ended_at THEN least(node.touched_from, node.ended_at, excluded.ended_at)
    WHEN coalesce(node.ready_at, 'infinity') > excluded.ready_at THEN least(node.touched_from, excluded.ready_at)
    ELSE node.touched_from END,
  touched_to = CASE WHEN node.ended_at IS DISTINCT FROM excluded.ended_at THEN greatest(node.touched_to, coalesce(node.ended_at, 'infinity')) ELSE node.touched_to END
WHERE (node.name, node.pool, node.cloud, node.region, node.zone, node.instance_type, node.purchase, node.phase, node.cpu_milli, node.mem_mib,
  node.gpu_model, node.gpu_count, node.gpu_memory_mib, node.labels, node.ended_at, node.gpus, node.taints) IS DISTINCT FROM
  (excluded.name, excluded.pool, excluded.cloud, excluded.region, excluded.zone, excluded.instance_type, excluded.purchase, excluded.phase,
  excluded.cpu_milli, excluded.mem_mib, excluded.gpu_model, excluded.gpu_count, excluded.gpu_memory_mib, excluded.labels, excluded.ended_at, excluded.gpus, excluded.taints)
  OR excluded.provider_id NOT IN ('', node.provider_id) OR excluded.kubelet_version NOT IN ('', node.kubelet_version) OR excluded.gpu_driver NOT IN ('', node.gpu_driver)
  OR excluded.started_at < node.started_at OR coalesce(node.ready_at, 'infinity') > excluded.ready_at`, rows)
	switch {
	case inv.GetSnapshot():
		b.Queue(`UPDATE node SET ended_at = greatest($3, started_at), phase = 'terminated', touched_from = least(touched_from, greatest($3, started_at)), touched_to = 'infinity'
			WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL AND uid <> ALL ($4)`, tx.Tenant, s.Cluster, at, uids)
	case len(inv.GetGoneNodes()) > 0:
		b.Queue(`UPDATE node SET ended_at = greatest($3, started_at), phase = 'terminated', touched_from = least(touched_from, greatest($3, started_at)), touched_to = 'infinity'
			WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL AND uid = ANY ($4)`, tx.Tenant, s.Cluster, at, inv.GetGoneNodes())
	}
}

func (s *Source) queuePods(b *pgx.Batch, tx *Tx, inv *agentv1.Inventory, at time.Time) {
	pods := unique(inv.GetPods(), (*agentv1.Pod).GetUid)
	rows, uids := make([][]any, 0, len(pods)), make([]string, 0, len(pods))
	for _, d := range pods {
		uids = append(uids, d.GetUid())
		rows = append(rows, []any{tx.Tenant, s.Cluster, d.GetUid(), d.GetName(), d.GetNamespace(), d.GetWorkload(), d.GetNode(), d.GetPhase(), d.GetReason(),
			d.GetCpuMilli(), d.GetMemMib(), d.GetGpuMilli(), labelsOf(d.GetLabels()), momentOr(d.GetCreatedMs(), at), moment(d.GetStartedMs()),
			moment(d.GetReadyMs()), moment(d.GetEndedMs()), gpuSharesOf(d.GetGpus()), int64(d.GetPlacement()), labelsOf(d.GetNotes())}) //nolint:gosec // the same 64 bits
	}
	queueRows(b, `INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, reason, cpu_milli, mem_mib, gpu_milli, labels,
  created_at, started_at, ready_at, ended_at, gpus, placement, notes)`, `
ON CONFLICT (tenant_id, cluster_id, uid) DO UPDATE SET name = excluded.name, namespace = excluded.namespace, workload_key = excluded.workload_key,
  node = excluded.node, phase = excluded.phase, reason = excluded.reason, cpu_milli = excluded.cpu_milli, mem_mib = excluded.mem_mib,
  gpu_milli = excluded.gpu_milli, labels = excluded.labels, created_at = least(pod.created_at, excluded.created_at), started_at = excluded.started_at,
  ready_at = excluded.ready_at, ended_at = excluded.ended_at, gpus = excluded.gpus, placement = excluded.placement, notes = excluded.notes,
  touched_from = CASE
    WHEN (pod.namespace, pod.workload_key, pod.node, pod.cpu_milli, pod.mem_mib, pod.gpu_milli, pod.gpus, coalesce(pod.started_at, pod.created_at)) IS DISTINCT FROM
      (excluded.namespace, excluded.workload_key, excluded.node, excluded.cpu_milli, excluded.mem_mib, excluded.gpu_milli, excluded.gpus,
      coalesce(excluded.started_at, least(pod.created_at, excluded.created_at))) THEN '-infinity'
    WHEN pod.ended_at IS DISTINCT FROM excluded.ended_at THEN least(pod.touched_from, pod.ended_at, excluded.ended_at)
    ELSE pod.touched_from END,
  touched_to = CASE WHEN pod.ended_at IS DISTINCT FROM excluded.ended_at THEN greatest(pod.touched_to, coalesce(pod.ended_at, 'infinity')) ELSE pod.touched_to END
WHERE (pod.name, pod.namespace, pod.workload_key, pod.node, pod.phase, pod.reason, pod.cpu_milli, pod.mem_mib, pod.gpu_milli, pod.labels,
  pod.started_at, pod.ready_at, pod.ended_at, pod.gpus, pod.placement, pod.notes) IS DISTINCT FROM
  (excluded.name, excluded.namespace, excluded.workload_key, excluded.node, excluded.phase, excluded.reason, excluded.cpu_milli, excluded.mem_mib,
  excluded.gpu_milli, excluded.labels, excluded.started_at, excluded.ready_at, excluded.ended_at, excluded.gpus, excluded.placement, excluded.notes)
  OR excluded.created_at < pod.created_at`, rows)
	switch {
	case inv.GetSnapshot():
		b.Queue(`UPDATE pod SET ended_at = greatest($3, created_at), phase = 'ended', touched_from = least(touched_from, greatest($3, created_at)), touched_to = 'infinity'
			WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL AND uid <> ALL ($4)`, tx.Tenant, s.Cluster, at, uids)
	case len(inv.GetGonePods()) > 0:
		b.Queue(`UPDATE pod SET ended_at = greatest($3, created_at), phase = 'ended', touched_from = least(touched_from, greatest($3, created_at)), touched_to = 'infinity'
			WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL AND uid = ANY ($4)`, tx.Tenant, s.Cluster, at, inv.GetGonePods())
	}
	s.queueTroubles(b, tx, pods, inv, at)
}

func (s *Source) queueWorkloads(b *pgx.Batch, tx *Tx, inv *agentv1.Inventory, at time.Time) {
	workloads := unique(inv.GetWorkloads(), (*agentv1.Workload).GetKey)
	rows, keys := make([][]any, 0, len(workloads)), make([]string, 0, len(workloads))
	for _, w := range workloads {
		keys = append(keys, w.GetKey())
		rows = append(rows, []any{tx.Tenant, WorkloadIDOf(s.Cluster, w.GetKey()), s.Cluster, w.GetKey(), w.GetNamespace(), w.GetKind(), w.GetName(),
			firstLabel(w.GetLabels(), teamLabels), classOf(w), labelsOf(w.GetLabels()), w.GetCpuMilli(), w.GetMemMib(), w.GetGpuMilli(), w.GetReplicas(),
			w.GetScalable(), preflight(w), at})
	}
	queueRows(b, `INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, team, class, labels, cpu_milli, mem_mib, gpu_milli, replicas,
  scalable, preflight, first_seen)`, `
ON CONFLICT (tenant_id, id) DO UPDATE SET team = excluded.team, class = excluded.class, labels = excluded.labels, cpu_milli = excluded.cpu_milli,
  mem_mib = excluded.mem_mib, gpu_milli = excluded.gpu_milli, replicas = excluded.replicas, scalable = excluded.scalable,
  preflight = excluded.preflight, gone_at = NULL
WHERE (workload.team, workload.class, workload.labels, workload.cpu_milli, workload.mem_mib, workload.gpu_milli, workload.replicas, workload.scalable,
  workload.preflight) IS DISTINCT FROM (excluded.team, excluded.class, excluded.labels, excluded.cpu_milli, excluded.mem_mib, excluded.gpu_milli,
  excluded.replicas, excluded.scalable, excluded.preflight) OR workload.gone_at IS NOT NULL`, rows)
	switch {
	case inv.GetSnapshot():
		b.Queue(`UPDATE workload SET gone_at = $3, replicas = 0 WHERE tenant_id = $1 AND cluster_id = $2 AND gone_at IS NULL AND key <> ALL ($4)`,
			tx.Tenant, s.Cluster, at, keys)
	case len(inv.GetGoneWorkloads()) > 0:
		b.Queue(`UPDATE workload SET gone_at = $3, replicas = 0 WHERE tenant_id = $1 AND cluster_id = $2 AND gone_at IS NULL AND key = ANY ($4)`,
			tx.Tenant, s.Cluster, at, inv.GetGoneWorkloads())
	}
}

func firstLabel(labels map[string]string, names []string) string {
	for _, n := range names {
		if v := labels[n]; v != "" {
			return v
		}
	}
	return ""
}

// classOf reads how much a workload matters; what nobody knows is standard.
func classOf(w *agentv1.Workload) string {
	class := w.GetClass()
	if class == "" {
		class = firstLabel(w.GetLabels(), classLabels)
	}
	switch class {
	case "gold", "economy":
		return class
	}
	return "standard"
}

// preflight lists what makes scaling a workload unsafe or its cost unclear.
func preflight(w *agentv1.Workload) []string {
	findings := []string{}
	if !w.GetHasReadinessProbe() {
		findings = append(findings, "no_readiness_probe")
	}
	if !w.GetHasRequests() {
		findings = append(findings, "no_requests")
	}
	return findings
}

func (s *Source) queueWriters(b *pgx.Batch, tx *Tx, inv *agentv1.Inventory) {
	writers := unique(inv.GetWriters(), func(w *agentv1.Writer) string {
		return w.GetWorkload() + "\x00" + w.GetManager() + "\x00" + w.GetObject() + "\x00" + w.GetField()
	})
	rows := make([][]any, 0, len(writers))
	for _, w := range writers {
		rows = append(rows, []any{tx.Tenant, s.Cluster, w.GetWorkload(), w.GetManager(), w.GetObject(), w.GetField(), millis(w.GetAtMs())})
	}
	queueRows(b, "INSERT INTO workload_writer (tenant_id, cluster_id, workload_key, manager, object, field, at)", `
ON CONFLICT (tenant_id, cluster_id, workload_key, manager, object, field) DO UPDATE SET at = excluded.at WHERE workload_writer.at < excluded.at`, rows)
}
