package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// story is what happens to a tenant with two clusters in the hours after start, and when somebody says so: every fact has a chapter. Whatever
// a chapter tells of hours that closed in an earlier one is late.
type story struct {
	chapters    []int // data has come so many minutes far at the end of each
	nodes       []storyNode
	pods        []storyPod
	usage       []storyUse
	commitments []commitment.Commitment
	priced      int // the chapter in which the odd machines' price is named
	// settled says that machines which commitments may cover, and their ends, are told in time: only then has a commitment used the same machines
	// whenever somebody looks (docs/adr/0015).
	settled bool
}

type storyNode struct {
	cluster       int
	uid, machine  string
	cloud         fleet.Cloud
	region        string
	purchase      fleet.Purchase
	cpu, mem      int64
	model         fleet.GPUModel
	gpus          int
	groups        string // JSON as agents say it
	from, ready   time.Time
	to            time.Time // zero: stays
	told, toldEnd int
	shares        []string // JSON of what pods may ask of its GPUs
}

type storyPod struct {
	cluster       int
	uid, node     string
	workload      int // -1: a bare pod
	cpu, mem, gpu int64
	asked, held   string // JSON; held is what the kubelet says
	from, to      time.Time
	told, toldEnd int
	troubled      fleet.Interval
	reason        string
	told2         int // of the trouble and of the kubelet's word
}

type storyUse struct {
	cluster, workload, hour int
	cpu, mem, sm, gpuMiB    *float64
	told                    int
}

const storyWorkloads = 4

// machines that stories are made of: real types with real prices, and one that nobody sells.
var storyMachines = []storyNode{
	{machine: "p5.48xlarge", cloud: "aws", region: "us-east-1", cpu: 192_000, mem: 2 << 20, model: "H100", gpus: 8, groups: `[{"mode": "mig", "count": 8, "instances": [{"profile": "1g.10gb", "count": 28}, {"profile": "3g.40gb", "count": 8}]}]`,
		shares: []string{`[{"profile": "1g.10gb", "count": 1}]`, `[{"profile": "3g.40gb", "count": 1}]`, `[{"profile": "1g.10gb", "count": 3}]`, `[{"profile": "7g.80gb"}]`}},
	{machine: "p4d.24xlarge", cloud: "aws", region: "us-east-1", cpu: 96_000, mem: 1152 << 10, model: "A100-40GB", gpus: 8, groups: `[{"mode": "whole", "count": 6}, {"mode": "mig", "count": 2, "instances": [{"profile": "2g.10gb", "count": 3}]}]`,
		shares: []string{`[{"count": 2}]`, `[{"profile": "2g.10gb"}]`, `[{"core_milli": 250, "mem_milli": 250}]`}},
	{machine: "g6.12xlarge", cloud: "aws", region: "us-east-1", cpu: 48_000, mem: 192 << 10, model: "L4", gpus: 4, groups: `[{"mode": "time_slice", "count": 4, "replicas": 11}]`, shares: []string{`[{"count": 1}]`, `[{"count": 5}]`}},
	{machine: "g5.xlarge", cloud: "aws", region: "us-east-1", cpu: 4000, mem: 16 << 10, model: "A10G", gpus: 1, groups: `[{"mode": "mps", "count": 1, "replicas": 10}]`, shares: []string{`[{"core_milli": 200, "mem_mib": 6144}]`, `[{"count": 1}]`}},
	{machine: "g5.xlarge", cloud: "aws", region: "us-east-1", cpu: 4000, mem: 16 << 10, model: "A10G", gpus: 1, groups: `[]`, shares: []string{`[{"core_milli": 250, "mem_mib": 5000}]`, `[]`, `[{"device": "GPU-1", "claim": "a/b", "core_milli": 500}]`}},
	{machine: "m5.large", cloud: "aws", region: "us-east-1", cpu: 2000, mem: 8 << 10, groups: `[]`},
	{machine: "m5.xlarge", cloud: "aws", region: "us-east-1", cpu: 4000, mem: 16 << 10, groups: `[]`},
	{machine: "a2-highgpu-1g", cloud: "gcp", region: "us-central1", cpu: 12_000, mem: 85 << 10, model: "A100-40GB", gpus: 1, groups: `[{"device": "GPU-1", "mode": "time_slice", "count": 1, "replicas": 4}]`,
		shares: []string{`[{"device": "GPU-1", "count": 1}]`, `[{"count": 1}]`}},
	{machine: "n2-standard-8", cloud: "gcp", region: "us-central1", cpu: 8000, mem: 32 << 10, groups: `[]`},
	{machine: "of our own", cloud: "onprem", region: "cellar", cpu: 64_000, mem: 512 << 10, model: "H100", gpus: 2, groups: `[]`, shares: []string{`[]`, `[{"core_milli": 333}]`}},
}

func anyStory() *rapid.Generator[*story] {
	return rapid.Custom(func(t *rapid.T) *story {
		s := &story{settled: rapid.IntRange(0, 3).Draw(t, "settled") > 0}
		for at := 0; at < 29*60; {
			at += rapid.IntRange(2*60, 9*60).Draw(t, "chapter")
			s.chapters = append(s.chapters, at)
		}
		last := len(s.chapters) - 1
		s.priced = rapid.IntRange(0, last).Draw(t, "priced")
		moment := func(name string, from, to int) time.Time {
			return start.Add(time.Duration(rapid.IntRange(from*60_000, to*60_000).Draw(t, name)) * time.Millisecond)
		}
		end := s.chapters[last]
		// A fact is told in the chapter in which it happens, or, being late, in any after it.
		told := func(name string, at time.Time, late bool) int {
			first := 0
			for first < last && !start.Add(time.Duration(s.chapters[first])*time.Minute).After(at) {
				first++
			}
			if late && rapid.Bool().Draw(t, name+" late") {
				return rapid.IntRange(first, last).Draw(t, name+" told")
			}
			return first
		}
		for i := range rapid.IntRange(1, 9).Draw(t, "nodes") {
			n := rapid.SampledFrom(storyMachines).Draw(t, "machine")
			n.cluster, n.uid = rapid.IntRange(0, 1).Draw(t, "cluster"), fmt.Sprintf("n%d", i)
			n.purchase = rapid.SampledFrom([]fleet.Purchase{fleet.PurchaseOnDemand, fleet.PurchaseOnDemand, fleet.PurchaseSpot}).Draw(t, "purchase")
			if n.cloud == fleet.CloudOnPrem {
				n.purchase = fleet.PurchaseOnDemand
			}
			n.from = moment("from", -90, end-30)
			n.ready = n.from.Add(time.Duration(rapid.IntRange(0, 20*60_000).Draw(t, "boot")) * time.Millisecond)
			if rapid.Bool().Draw(t, "churn") {
				n.to = n.from.Add(time.Duration(rapid.OneOf(rapid.IntRange(1, 90_000), rapid.IntRange(60_000, 12*3_600_000)).Draw(t, "life")) * time.Millisecond)
			}
			free := !s.settled || n.purchase == fleet.PurchaseSpot || n.cloud == fleet.CloudOnPrem
			n.told = told("node", n.from, free)
			if n.toldEnd = n.told; !n.to.IsZero() {
				n.toldEnd = max(n.told, told("end", n.to, free))
			}
			s.nodes = append(s.nodes, n)
		}
		for i := range rapid.IntRange(0, 24).Draw(t, "pods") {
			n := rapid.SampledFrom(s.nodes).Draw(t, "on")
			p := storyPod{cluster: n.cluster, uid: fmt.Sprintf("p%d", i), node: n.uid, workload: rapid.IntRange(-1, storyWorkloads-1).Draw(t, "of"),
				cpu: rapid.Int64Range(0, n.cpu).Draw(t, "cpu"), mem: rapid.Int64Range(0, n.mem).Draw(t, "mem"), asked: "[]"}
			if n.gpus > 0 {
				p.gpu = 1000 * rapid.Int64Range(0, int64(n.gpus)).Draw(t, "gpus")
				p.asked = rapid.SampledFrom(n.shares).Draw(t, "asked")
				if rapid.IntRange(0, 3).Draw(t, "kubelet") == 0 {
					p.held = rapid.SampledFrom(n.shares).Draw(t, "held")
				}
			}
			p.from = n.from.Add(time.Duration(rapid.IntRange(0, 8*3_600_000).Draw(t, "pod from")) * time.Millisecond)
			if rapid.Bool().Draw(t, "pod ends") {
				p.to = p.from.Add(time.Duration(rapid.IntRange(1, 10*3_600_000).Draw(t, "pod life")) * time.Millisecond)
			}
			p.told = max(told("pod", p.from, true), n.told)
			if p.toldEnd = p.told; !p.to.IsZero() {
				p.toldEnd = max(p.told, told("pod end", p.to, true))
			}
			if rapid.IntRange(0, 3).Draw(t, "troubled") == 0 {
				p.troubled.From = p.from.Add(time.Duration(rapid.IntRange(0, 3_600_000).Draw(t, "trouble")) * time.Millisecond)
				p.troubled.To = p.troubled.From.Add(time.Duration(rapid.IntRange(1, 7_200_000).Draw(t, "trouble's length")) * time.Millisecond)
				p.reason = rapid.SampledFrom([]string{"CrashLoopBackOff", "ImagePullBackOff"}).Draw(t, "reason")
			}
			p.told2 = max(p.told, told("more of the pod", p.from, true))
			s.pods = append(s.pods, p)
		}
		for range rapid.IntRange(0, 20).Draw(t, "uses") {
			u := storyUse{cluster: rapid.IntRange(0, 1).Draw(t, "cluster"), workload: rapid.IntRange(0, storyWorkloads-1).Draw(t, "workload"), hour: rapid.IntRange(0, end/60-1).Draw(t, "hour")}
			for _, v := range []**float64{&u.cpu, &u.mem, &u.sm, &u.gpuMiB} {
				if rapid.Bool().Draw(t, "known") {
					x := rapid.SampledFrom([]float64{0, 0.25, 0.75, 3, 40, 4096, 70_000}).Draw(t, "use")
					*v = &x
				}
			}
			u.told = told("use", start.Add(time.Duration(u.hour+1)*time.Hour-time.Millisecond), true)
			s.usage = append(s.usage, u)
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "commitments") {
			s.commitments = append(s.commitments, anyStoryCommitment(t, i, end))
		}
		return s
	})
}

func anyStoryCommitment(t *rapid.T, i, end int) commitment.Commitment {
	c := rapid.SampledFrom([]commitment.Commitment{
		{Kind: commitment.KindRegionalRI, Region: "us-east-1", InstanceType: "m5.large", Quantity: 1000},
		{Kind: commitment.KindRegionalRI, Region: "us-east-1", InstanceType: "g5.xlarge", Quantity: 2000},
		{Kind: commitment.KindInstanceSP, Region: "us-east-1", Family: "g5", DiscountPPM: 400_000},
		{Kind: commitment.KindComputeSP, DiscountPPM: 280_000},
		{Kind: commitment.KindGCPResource, Region: "us-central1", Family: "n2", Resource: commitment.ResourceCPU, Quantity: 6000},
		{Kind: commitment.KindGCPResource, Region: "us-central1", GPUModel: "A100-40GB", Resource: commitment.ResourceGPU, Quantity: 1000},
		{Kind: commitment.KindGCPFlexible, DiscountPPM: 280_000},
	}).Draw(t, "commitment")
	money := func(name string, most int64) fleet.Money { return fleet.Money(rapid.Int64Range(1, most).Draw(t, name)) }
	if c.Kind.Spend() {
		c.Spend = money("spend", 9*fleet.NanosPerUnit)
	} else {
		c.Upfront, c.Recurring = money("upfront", 9000*fleet.NanosPerUnit), money("recurring", fleet.NanosPerUnit)
	}
	c.Ref, c.Owner = fmt.Sprintf("ref%d", i), rapid.SampledFrom([]string{"", "team0", "team1"}).Draw(t, "owner")
	c.Term.From = start.Add(time.Duration(rapid.IntRange(-9000*60, end).Draw(t, "starts")) * time.Minute)
	c.Term.To = c.Term.From.Add(time.Duration(rapid.IntRange(1, 9000*60).Draw(t, "term")) * time.Minute)
	return c
}

// life is a tenant to whom a story happens.
type life struct {
	*estate
	s        *story
	clusters [2]*estate
	agents   [2]*agent
	told     int // chapters so far
	what     string
}

// live begins the story for a tenant of its own. Clusters and workloads have the same ids in every life.
func (e *estate) live(s *story) *life {
	e.t.Helper()
	first, second := *e, *e
	first.tenant = fleet.TenantID(uuid.NewString())
	second.tenant = first.tenant
	l := &life{estate: &first, s: s, clusters: [2]*estate{&first, &second}}
	l.exec(`INSERT INTO tenant (tenant_id, name, created_at) VALUES ($1, 'Test', now())`, l.tenant)
	l.exec(`INSERT INTO tenant_directory (tenant_id, created_at) VALUES ($1, now())`, l.tenant)
	for i, c := range l.clusters {
		c.cluster = fleet.ClusterID(fmt.Sprintf("6f1f7c1e-3c0e-5d0a-9b0e-0d6a5f0b7c%02d", i))
		l.exec(`INSERT INTO cluster (tenant_id, id, name, mode, created_at) VALUES ($1, $2, $3, 'observe', now())`, l.tenant, c.cluster, fmt.Sprint("c", i))
		for w := range storyWorkloads {
			l.exec(`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, team, labels, first_seen) VALUES ($1, $2, $3, $4, $5, 'Deployment', $6, $7, '{}', $8)`,
				l.tenant, storyWorkload(i, w), c.cluster, fmt.Sprintf("ns%d/Deployment/w%d", w%2, w), fmt.Sprintf("ns%d", w%2), fmt.Sprint("w", w), fmt.Sprint("team", w%3), start)
		}
	}
	l.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.ImportCommitments(ctx, tx, s.commitments, "api", "test")
		return err
	})
	return l
}

func storyWorkload(cluster, w int) string {
	return fmt.Sprintf("6f1f7c1e-3c0e-5d0a-9b0e-0d6a5f0b%02d%02d", cluster, w)
}

// tell says everything of one chapter, without costing it.
func (l *life) tell(chapter int) {
	l.t.Helper()
	for i, c := range l.clusters {
		inv := l.s.inventory(i, chapter)
		if at := start.Add(time.Duration(l.s.chapters[chapter]) * time.Minute); len(inv.Nodes)+len(inv.Pods) > 0 {
			if l.agents[i] == nil {
				l.agents[i] = c.agent("controller")
			}
			l.agents[i].inventory(at, inv)
		}
	}
	l.tx(func(ctx context.Context, tx *store.Tx) error {
		do := func(sql string, args ...any) {
			if _, err := tx.PGX().Exec(ctx, sql, args...); err != nil {
				l.t.Fatalf("%s: %v", sql, err)
			}
		}
		for _, p := range l.s.pods {
			c, ns := l.clusters[p.cluster].cluster, p.namespace()
			if p.told2 == chapter && p.reason != "" {
				do(`INSERT INTO pod_trouble (tenant_id, cluster_id, uid, from_at, to_at, reason) VALUES ($1, $2, $3, $4, $5, $6)`, l.tenant, c, p.uid, p.troubled.From, p.troubled.To, p.reason)
				do(`UPDATE pod SET touched_from = '-infinity' WHERE tenant_id = $1 AND cluster_id = $2 AND uid = $3`, l.tenant, c, p.uid)
			}
			if p.told2 == chapter && p.held != "" {
				do(`INSERT INTO gpu_holding (tenant_id, cluster_id, node, namespace, pod, holding, container, share, from_at) SELECT $1, $2, $3, $4, $5, ordinality::text, 'c', s, $6 FROM jsonb_array_elements($7::jsonb) WITH ORDINALITY AS x (s, ordinality)`,
					l.tenant, c, p.node, ns, p.uid, p.from, p.held)
				do(`UPDATE pod SET touched_from = '-infinity' WHERE tenant_id = $1 AND cluster_id = $2 AND uid = $3`, l.tenant, c, p.uid)
			}
		}
		for _, u := range l.s.usage {
			if u.told == chapter { // as compaction says it
				do(`INSERT INTO rollup_1h (tenant_id, cluster_id, workload_id, at, samples, cpu_cores, memory_mib, gpu_sm_active_ratio, gpu_memory_used_mib) VALUES ($1, $2, $3, $4, 60, $5, $6, $7, $8)
ON CONFLICT DO NOTHING`, l.tenant, l.clusters[u.cluster].cluster, storyWorkload(u.cluster, u.workload), start.Add(time.Duration(u.hour)*time.Hour), u.cpu, u.mem, u.sm, u.gpuMiB)
				do(`INSERT INTO cost_touched (tenant_id, cluster_id, hour) SELECT tenant_id, cluster_id, hour FROM cost_hour WHERE tenant_id = $1 AND cluster_id = $2 AND hour = $3 AND state = 'closed' ON CONFLICT DO NOTHING`,
					l.tenant, l.clusters[u.cluster].cluster, start.Add(time.Duration(u.hour)*time.Hour))
			}
		}
		if l.s.priced == chapter {
			return store.SetTenantPrice(ctx, tx, store.TenantPrice{Cloud: "onprem", InstanceType: "of our own", Purchase: fleet.PurchaseOnDemand, Hour: usd(l.t, "7.123456789"), ValidFrom: start.Add(-24 * time.Hour)})
		}
		return nil
	})
	l.told = max(l.told, chapter+1)
}

// cost brings the data up to the end of the newest chapter that is told, and costs both clusters.
func (l *life) cost() {
	l.t.Helper()
	for _, c := range l.clusters {
		c.dataAt(start.Add(time.Duration(l.s.chapters[l.told-1]) * time.Minute))
	}
	for _, c := range l.clusters {
		c.catchUp()
	}
}

// inventory is what the agent of a cluster says in a chapter: of machines and pods that are new or ended.
func (s *story) inventory(cluster, chapter int) *agentv1.Inventory {
	inv := &agentv1.Inventory{}
	for _, n := range s.nodes {
		if n.cluster == cluster && (n.told == chapter || n.toldEnd == chapter) {
			out := &agentv1.Node{Uid: n.uid, Name: n.uid, Cloud: string(n.cloud), Region: n.region, InstanceType: n.machine, Purchase: string(n.purchase), Phase: "ready", CpuMilli: n.cpu, MemMib: n.mem,
				GpuModel: string(n.model), GpuCount: int32(n.gpus), GpuMemoryMib: 24_576, Gpus: said(n.groups, func() *agentv1.GPUGroup { return &agentv1.GPUGroup{} }), StartedMs: n.from.UnixMilli(), ReadyMs: n.ready.UnixMilli()}
			if n.toldEnd <= chapter && !n.to.IsZero() {
				out.EndedMs = n.to.UnixMilli()
			}
			if n.told < chapter { // it was not ready for a while
				out.ReadyMs += time.Hour.Milliseconds()
			}
			inv.Nodes = append(inv.Nodes, out)
		}
	}
	for _, p := range s.pods {
		if p.cluster == cluster && (p.told == chapter || p.toldEnd == chapter) {
			out := &agentv1.Pod{Uid: p.uid, Name: p.uid, Namespace: p.namespace(), Node: p.node, Phase: "ready", CpuMilli: p.cpu, MemMib: p.mem, GpuMilli: p.gpu, CreatedMs: p.from.UnixMilli(), StartedMs: p.from.UnixMilli(),
				Gpus: said(p.asked, func() *agentv1.GPUShare { return &agentv1.GPUShare{} })}
			if p.workload >= 0 {
				out.Workload = fmt.Sprintf("%s/Deployment/w%d", out.Namespace, p.workload)
			}
			if p.toldEnd <= chapter && !p.to.IsZero() {
				out.EndedMs = p.to.UnixMilli()
			}
			inv.Pods = append(inv.Pods, out)
		}
	}
	return inv
}

func (p storyPod) namespace() string {
	if p.workload < 0 {
		return "bare"
	}
	return fmt.Sprintf("ns%d", p.workload%2)
}

// said reads a JSON list of messages.
func said[M proto.Message](list string, empty func() M) (all []M) {
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(list), &raw); err != nil {
		panic(err)
	}
	for _, r := range raw {
		m := empty()
		if err := protojson.Unmarshal(r, m); err != nil {
			panic(err)
		}
		all = append(all, m)
	}
	return all
}
