package store

import (
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/ledger"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Bounds of what is said of the GPUs of one object, and of one node's holdings.
const (
	maxGPUParts = 64
	maxGPUCount = 4096
	maxHoldings = 4096
)

// brokenReasons are the cluster's words for a container that holds its resources and cannot run.
var brokenReasons = []string{"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff",
	"InvalidImageName", "RunContainerError", "StartError"}

// gpuGroup and gpuShare are ledger.GPUGroup and ledger.GPUShare as they are kept.
type gpuGroup struct {
	Device    string        `json:"device,omitempty"`
	Mode      string        `json:"mode"`
	Count     int           `json:"count"`
	Replicas  int           `json:"replicas,omitempty"`
	Instances []gpuInstance `json:"instances,omitempty"`
}

type gpuInstance struct {
	Profile string `json:"profile"`
	Count   int    `json:"count"`
}

type gpuShare struct {
	Device    string `json:"device,omitempty"`
	Instance  string `json:"instance,omitempty"`
	Profile   string `json:"profile,omitempty"`
	Count     int    `json:"count,omitempty"`
	CoreMilli int64  `json:"core_milli,omitempty"`
	MemMilli  int64  `json:"mem_milli,omitempty"`
	MemMiB    int64  `json:"mem_mib,omitempty"`
	Claim     string `json:"claim,omitempty"`
}

func gpuGroupsOf(list []*agentv1.GPUGroup) []gpuGroup {
	out := make([]gpuGroup, 0, len(list))
	for _, g := range list {
		k := gpuGroup{Device: g.GetDevice(), Mode: g.GetMode(), Count: int(g.GetCount()), Replicas: int(g.GetReplicas())}
		for _, i := range g.GetInstances() {
			k.Instances = append(k.Instances, gpuInstance{i.GetProfile(), int(i.GetCount())})
		}
		out = append(out, k)
	}
	return out
}

func gpuShareOf(s *agentv1.GPUShare) gpuShare {
	return gpuShare{Device: s.GetDevice(), Instance: s.GetInstance(), Profile: s.GetProfile(), Count: int(s.GetCount()), CoreMilli: int64(s.GetCoreMilli()),
		MemMilli: int64(s.GetMemMilli()), MemMiB: s.GetMemMib(), Claim: s.GetClaim()}
}

func gpuSharesOf(list []*agentv1.GPUShare) []gpuShare {
	out := make([]gpuShare, 0, len(list))
	for _, s := range list {
		out = append(out, gpuShareOf(s))
	}
	return out
}

func ledgerGroups(list []gpuGroup) []ledger.GPUGroup {
	var out []ledger.GPUGroup
	for _, g := range list {
		k := ledger.GPUGroup{Device: g.Device, Mode: ledger.GPUMode(g.Mode), Count: g.Count, Replicas: g.Replicas}
		for _, i := range g.Instances {
			k.Instances = append(k.Instances, ledger.GPUInstance{Profile: i.Profile, Count: i.Count})
		}
		out = append(out, k)
	}
	return out
}

// ledger turns a memory in MiB into thousandths of the GPU's, rounded up; of a GPU whose memory nobody knows it stays out.
func (s gpuShare) ledger(gpuMiB int64) ledger.GPUShare {
	milli := s.MemMilli
	if milli == 0 && s.MemMiB > 0 && gpuMiB > 0 {
		milli = (s.MemMiB*1000 + gpuMiB - 1) / gpuMiB
	}
	return ledger.GPUShare{Device: s.Device, Profile: s.Profile, Count: s.Count, CoreMilli: s.CoreMilli, MemMilli: milli}
}

func checkGPUGroups(node string, list []*agentv1.GPUGroup) error {
	if len(list) > maxGPUParts {
		return tooMany("groups of GPUs on one node", len(list), maxGPUParts)
	}
	for _, g := range list {
		if len(g.GetInstances()) > maxGPUParts {
			return tooMany("MIG profiles on one node", len(g.GetInstances()), maxGPUParts)
		}
		if err := checkTexts(nil, g.GetMode(), g.GetDevice()); err != nil {
			return err
		}
		ok := countsOK(g.GetCount(), g.GetReplicas())
		for _, i := range g.GetInstances() {
			ok = ok && countsOK(i.GetCount())
			if err := checkTexts(nil, i.GetProfile()); err != nil {
				return err
			}
		}
		if !ok {
			return bad("node %s has a number of GPUs that cannot be right", node)
		}
	}
	return nil
}

func checkGPUShares(pod string, list []*agentv1.GPUShare) error {
	if len(list) > maxGPUParts {
		return tooMany("shares of GPUs in one pod", len(list), maxGPUParts)
	}
	for _, s := range list {
		if err := checkTexts(nil, s.GetProfile(), s.GetDevice(), s.GetInstance(), s.GetClaim()); err != nil {
			return err
		}
		if !countsOK(s.GetCount()) || s.GetCoreMilli() < 0 || s.GetMemMilli() < 0 || s.GetMemMib() < 0 || s.GetMemMib() > 1<<30 {
			return bad("pod %s has a share of GPUs that cannot be right", pod)
		}
	}
	return nil
}

func countsOK(all ...int32) bool {
	return !slices.ContainsFunc(all, func(n int32) bool { return n < 0 || n > maxGPUCount })
}

// queueTroubles opens and ends times in which pods hold resources and cannot run.
func (s *Source) queueTroubles(b *pgx.Batch, tx *Tx, pods []*agentv1.Pod, inv *agentv1.Inventory, at time.Time) {
	var rows [][]any
	broken := []string{}
	said := slices.Clone(inv.GetGonePods())
	for _, d := range pods {
		said = append(said, d.GetUid())
		if d.GetNode() != "" && d.GetEndedMs() == 0 && slices.Contains(brokenReasons, d.GetReason()) {
			rows = append(rows, []any{tx.Tenant, s.Cluster, d.GetUid(), at, d.GetReason()})
			broken = append(broken, d.GetUid())
		}
	}
	// What begins or ends is news of the pod from then on: the hour may have closed already.
	const end, touch = `WITH done AS (UPDATE pod_trouble SET to_at = greatest($3, from_at) WHERE tenant_id = $1 AND cluster_id = $2 AND to_at IS NULL AND uid <> ALL ($4)`,
		` RETURNING uid) UPDATE pod SET touched_from = least(touched_from, $3) WHERE tenant_id = $1 AND cluster_id = $2 AND uid IN (SELECT uid FROM done)`
	switch {
	case inv.GetSnapshot():
		b.Queue(end+touch, tx.Tenant, s.Cluster, at, broken)
	case len(said) > 0:
		b.Queue(end+` AND uid = ANY ($5)`+touch, tx.Tenant, s.Cluster, at, broken, said)
	}
	if len(broken) > 0 {
		b.Queue(`UPDATE pod p SET touched_from = least(touched_from, $3) WHERE tenant_id = $1 AND cluster_id = $2 AND uid = ANY ($4)
  AND NOT EXISTS (SELECT FROM pod_trouble t WHERE t.tenant_id = $1 AND t.cluster_id = $2 AND t.uid = p.uid AND t.to_at IS NULL)`, tx.Tenant, s.Cluster, at, broken)
	}
	// A pod that goes from one trouble to the next keeps the first reason: pulling fails in two words by turns.
	queueRows(b, "INSERT INTO pod_trouble (tenant_id, cluster_id, uid, from_at, reason)", "ON CONFLICT DO NOTHING", rows)
}

func (s *Source) prepareHoldings(now time.Time, p *prepared, h *agentv1.GPUHoldings) error {
	if len(h.GetHoldings()) > maxHoldings {
		return tooMany("holdings of one node", len(h.GetHoldings()), maxHoldings)
	}
	if err := s.checkTime(now, h.GetAtMs()); err != nil {
		return err
	}
	if h.GetNode() == "" {
		return bad("holdings name no node")
	}
	if err := checkTexts(nil, h.GetNode()); err != nil {
		return err
	}
	for _, x := range h.GetHoldings() {
		if x.GetNamespace() == "" || x.GetPod() == "" {
			return bad("a holding names no pod")
		}
		if err := checkTexts(nil, x.GetNamespace(), x.GetPod(), x.GetContainer()); err != nil {
			return err
		}
		if err := checkGPUShares(x.GetPod(), []*agentv1.GPUShare{x.GetShare()}); err != nil {
			return err
		}
	}
	at := millis(h.GetAtMs())
	p.queue = func(b *pgx.Batch, tx *Tx) { s.queueHoldings(b, tx, h, at) }
	return nil
}

func (s *Source) queueHoldings(b *pgx.Batch, tx *Tx, h *agentv1.GPUHoldings, at time.Time) {
	name := func(x *agentv1.GPUHolding) string {
		k := x.GetShare()
		return strings.Join([]string{x.GetContainer(), k.GetDevice(), k.GetInstance(), k.GetProfile(), k.GetClaim()}, "|")
	}
	full := func(x *agentv1.GPUHolding) string { return x.GetNamespace() + "|" + x.GetPod() + "|" + name(x) }
	list := unique(h.GetHoldings(), full)
	held, spaces, pods := []string{}, []string{}, []string{}
	rows := make([][]any, 0, len(list))
	for _, x := range list {
		held, spaces, pods = append(held, full(x)), append(spaces, x.GetNamespace()), append(pods, x.GetPod())
		rows = append(rows, []any{tx.Tenant, s.Cluster, h.GetNode(), x.GetNamespace(), x.GetPod(), name(x), x.GetContainer(), gpuShareOf(x.GetShare()), at})
	}
	b.Queue(`UPDATE gpu_holding SET to_at = greatest($4, from_at) WHERE tenant_id = $1 AND cluster_id = $2 AND node = $3 AND to_at IS NULL
  AND namespace || '|' || pod || '|' || holding <> ALL ($5)`, tx.Tenant, s.Cluster, h.GetNode(), at, held)
	// Pods that hold something new are costed again from their beginning: what they asked for was all that was known.
	b.Queue(`UPDATE pod p SET touched_from = '-infinity' FROM unnest($4::text[], $5::text[], $6::text[]) AS n (namespace, name, held)
WHERE p.tenant_id = $1 AND p.cluster_id = $2 AND p.node = $3 AND (p.ended_at IS NULL OR p.ended_at > $7) AND p.namespace = n.namespace AND p.name = n.name AND NOT EXISTS (
  SELECT FROM gpu_holding g WHERE g.tenant_id = $1 AND g.cluster_id = $2 AND g.node = $3 AND g.to_at IS NULL AND g.namespace || '|' || g.pod || '|' || g.holding = n.held)`,
		tx.Tenant, s.Cluster, h.GetNode(), spaces, pods, held, at)
	queueRows(b, "INSERT INTO gpu_holding (tenant_id, cluster_id, node, namespace, pod, holding, container, share, from_at)", "ON CONFLICT DO NOTHING", rows)
}
