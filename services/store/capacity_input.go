package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/packing"
)

// What a plan's candidates are chosen by.
const (
	maxCapacityCandidates = 2500
	largestCPUMachine     = 64_000 // millicores, of machines without GPUs, unless the cluster has larger ones
	defaultMaxPods        = 110    // the kubelet's own default
	systemShareMilli      = 930    // of a machine's capacity that pods may use, where no rule of its cloud is known
	leastCapacityStarts   = 5      // starts that it takes to know how long one takes
)

// capacityInput is an input in the making.
type capacityInput struct {
	in      capacity.Input
	book    *market.PriceBook
	labels  []map[string]string // of in.Pods
	fraught bool                // some pod asks for a part of a GPU
	turn    CapacityTurn
	prices  *EffectivePrices
	model   *availability.Model
}

// LoadCapacityInput reads everything that a plan of the cluster's machines may look at. nil: the cluster never reported.
func LoadCapacityInput(ctx context.Context, tx *Tx, book *market.PriceBook, cluster fleet.ClusterID) (*capacity.Input, error) {
	turn, err := CapacityTurnOf(ctx, tx, cluster, false)
	if err != nil {
		return nil, err
	}
	return loadCapacityInput(ctx, tx, book, cluster, turn)
}

// LoadCapacityInputUnder reads the same as if a policy were in force on the whole cluster.
func LoadCapacityInputUnder(ctx context.Context, tx *Tx, book *market.PriceBook, cluster fleet.ClusterID, policy capacity.Policy) (*capacity.Input, error) {
	return loadCapacityInput(ctx, tx, book, cluster, CapacityTurn{Policy: policy, Share: 1000})
}

func loadCapacityInput(ctx context.Context, tx *Tx, book *market.PriceBook, cluster fleet.ClusterID, turn CapacityTurn) (*capacity.Input, error) {
	c := &capacityInput{book: book, in: capacity.Input{Cluster: cluster, Nodes: []capacity.Node{}, Pods: []capacity.Pod{}, Candidates: []capacity.Candidate{}}}
	var lastSeen, dataAt *time.Time
	var limits AgentLimits
	err := tx.pgx.QueryRow(ctx, `SELECT mode, frozen, last_seen_at, data_at, agent_limits FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, cluster).
		Scan(&c.in.Mode, &c.in.Frozen, &lastSeen, &dataAt, &limits)
	if err != nil {
		return nil, notFound(err, "cluster")
	}
	if lastSeen == nil || dataAt == nil {
		return nil, nil
	}
	c.in.Mode, c.in.Frozen = limits.allow(c.in.Mode), c.in.Frozen || limits.Frozen
	// Age is counted by our clock also where the cluster's runs faster: what matters is whether the agent still speaks.
	c.in.DataAt = dataAt.UTC()
	c.in.Now = dataAt.Add(max(tx.Now.Sub(*lastSeen), 0)).UTC().Truncate(time.Millisecond)
	c.turn, c.in.Policy, c.in.Turn = turn, turn.Policy, turn.Turn
	if c.in.Policy.Pools != nil { // only Karpenter makes machines by these
		karpenter, err := KarpenterPolicyOf(ctx, tx, cluster)
		if err != nil {
			return nil, err
		}
		if !karpenter.Enabled {
			c.in.Policy.Pools = nil
		}
	}
	if c.model, err = LoadAvailability(ctx, tx); err != nil {
		return nil, err
	}
	for _, load := range []func(context.Context, *Tx) error{c.nodes, c.pods, c.planned, c.history} {
		if err := load(ctx, tx); err != nil {
			return nil, err
		}
	}
	capacity.Evidence(c.in.Nodes, c.in.Pods, c.labels, c.in.Policy)
	c.in.Restrict(turn.Rollout, turn.Share)
	c.daemons()
	if err := c.offerings(ctx, tx); err != nil {
		return nil, err
	}
	if err := c.reserved(ctx, tx); err != nil {
		return nil, err
	}
	if err := c.rules(ctx, tx); err != nil {
		return nil, err
	}
	if err := c.recall(ctx, tx); err != nil {
		return nil, err
	}
	return &c.in, nil
}

func (c *capacityInput) nodes(ctx context.Context, tx *Tx) error {
	rows, err := tx.pgx.Query(ctx, `
SELECT n.uid, n.name, n.pool, n.cloud, n.region, n.zone, n.instance_type, n.purchase, n.phase, n.cpu_milli, n.mem_mib, n.gpu_model, n.gpu_count, n.gpu_memory_mib,
  n.labels, n.started_at, n.gpus, EXISTS (SELECT FROM cluster_event e WHERE e.tenant_id = n.tenant_id AND e.cluster_id = n.cluster_id AND e.kind = 'interruption_notice'
    AND e.object = 'Node/' || n.name AND e.at >= greatest(n.started_at, $3::timestamptz - interval '1 hour'))
FROM node n WHERE n.tenant_id = $1 AND n.cluster_id = $2 AND n.ended_at IS NULL ORDER BY n.name, n.started_at DESC, n.uid LIMIT $4`,
		tx.Tenant, c.in.Cluster, c.in.DataAt, capacity.MaxNodes+1)
	if err != nil {
		return fmt.Errorf("load nodes: %w", err)
	}
	last := ""
	var n capacity.Node
	var gpuCount int
	var labels map[string]string
	var groups []gpuGroup
	_, err = pgx.ForEachRow(rows, []any{&n.UID, &n.Name, &n.Pool, &n.Offering.Cloud, &n.Offering.Region, &n.Offering.Zone, &n.Offering.InstanceType, &n.Offering.Purchase, &n.Phase,
		&n.CPUMilli, &n.MemMiB, &n.GPUModel, &gpuCount, &n.GPUMemMiB, &labels, &n.StartedAt, &groups, &n.Notice}, func() error {
		if n.Name != last {
			last = n.Name
			n.GPUCount, n.StartedAt = int64(gpuCount), n.StartedAt.UTC()
			c.in.Nodes = append(c.in.Nodes, c.sized(n, labels, groups))
		}
		labels, groups = nil, nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("load nodes: %w", err)
	}
	return nil
}

// sized takes off what the system keeps, by the rule of the machine's cloud, and says what keeps a machine where it is.
func (c *capacityInput) sized(n capacity.Node, labels map[string]string, groups []gpuGroup) capacity.Node {
	n.Fixed, n.SharesGPUs, n.Arch, n.MaxPods = "", false, labels["kubernetes.io/arch"], defaultMaxPods
	cpu, mem := n.CPUMilli*systemShareMilli/1000, n.MemMiB*systemShareMilli/1000
	if m, ok := c.book.Machine(n.Offering.Cloud, n.Offering.InstanceType); ok {
		if n.Arch == "" {
			n.Arch = m.Arch
		}
		a := m.Allocatable()
		if a.CPUMilli != nil {
			cpu = max(n.CPUMilli-(m.CPUMilli-*a.CPUMilli), 0)
		}
		if a.MemMiB != nil {
			mem = min(max(n.MemMiB-(m.MemMiB-*a.MemMiB), 0), n.MemMiB)
		}
		if a.MaxPods != nil {
			n.MaxPods = *a.MaxPods
		}
	}
	n.CPUMilli, n.MemMiB = cpu, mem
	for _, g := range groups {
		switch g.Mode {
		case "mig":
			n.Fixed = "mig"
		case "time_slice", "mps":
			n.SharesGPUs = true
		}
	}
	_, control := labels["node-role.kubernetes.io/control-plane"]
	if control || labels[capacity.LabelProtected] == "true" || labels["karpenter.sh/do-not-disrupt"] == "true" {
		n.Fixed = "protected"
	}
	return n
}

func (c *capacityInput) pods(ctx context.Context, tx *Tx) error {
	rows, err := tx.pgx.Query(ctx, `
SELECT p.uid, p.namespace || '/' || p.name, p.workload_key, p.node, p.phase, p.reason, p.cpu_milli, p.mem_mib, p.gpu_milli, p.labels, p.created_at, p.ready_at, p.gpus, coalesce(w.class, '')
FROM pod p LEFT JOIN workload w ON w.tenant_id = p.tenant_id AND w.cluster_id = p.cluster_id AND w.key = p.workload_key
WHERE p.tenant_id = $1 AND p.cluster_id = $2 AND p.ended_at IS NULL AND p.phase NOT IN ('ended', 'failed') AND `+noPlaceholder+` ORDER BY 2, p.uid LIMIT $3`, tx.Tenant, c.in.Cluster, capacity.MaxPods+1)
	if err != nil {
		return fmt.Errorf("load pods: %w", err)
	}
	var p capacity.Pod
	var gpuMilli int64
	var labels map[string]string
	var shares []gpuShare
	var ready *time.Time
	var class string
	_, err = pgx.ForEachRow(rows, []any{&p.UID, &p.Name, &p.Workload, &p.Node, &p.Phase, &p.Reason, &p.CPUMilli, &p.MemMiB, &gpuMilli, &labels, &p.Since, &ready, &shares, &class}, func() error {
		p.Since, p.ReadyAt, p.Class = p.Since.UTC(), time.Time{}, packClass(class)
		if ready != nil {
			p.ReadyAt = ready.UTC()
		}
		c.share(&p, gpuMilli, shares)
		c.in.Pods, c.labels = append(c.in.Pods, p), append(c.labels, labels)
		labels, shares = nil, nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("load pods: %w", err)
	}
	return nil
}

func packClass(class string) packing.Class {
	switch class {
	case "gold":
		return packing.ClassGold
	case "economy":
		return packing.ClassEconomy
	}
	return ""
}

// share turns thousandths of GPUs into GPUs and thousandths of each. More than one that is not whole takes whole ones.
func (c *capacityInput) share(p *capacity.Pod, milli int64, shares []gpuShare) {
	p.GPUCount, p.GPUMilli, p.MIG = 0, 0, ""
	for _, s := range shares {
		if s.Profile != "" && p.MIG == "" {
			p.MIG, p.GPUCount, p.GPUMilli = s.Profile, int64(max(s.Count, 1)), 1000
			return
		}
	}
	switch {
	case milli <= 0:
	case milli < 1000:
		p.GPUCount, p.GPUMilli, c.fraught = 1, milli, true
	default:
		p.GPUCount, p.GPUMilli = (milli+999)/1000, 1000
	}
}

// planned adds replicas that a workload's plan is about to bring: an action on its way wants more than there are.
func (c *capacityInput) planned(ctx context.Context, tx *Tx) error {
	rows, err := tx.pgx.Query(ctx, `
SELECT w.key, w.class, w.cpu_milli, w.mem_mib, w.gpu_milli, d.target, d.at,
  (SELECT count(*) FROM pod p WHERE p.tenant_id = w.tenant_id AND p.cluster_id = w.cluster_id AND p.workload_key = w.key AND p.ended_at IS NULL AND p.phase NOT IN ('ended', 'failed', 'terminating'))
FROM decision d JOIN workload w ON w.tenant_id = d.tenant_id AND w.id = d.workload_id AND w.gone_at IS NULL
WHERE d.tenant_id = $1 AND d.cluster_id = $2 AND d.state IN ('approved', 'dispatched') AND d.target > d.from_replicas ORDER BY w.key LIMIT 2000`, tx.Tenant, c.in.Cluster)
	if err != nil {
		return fmt.Errorf("load planned replicas: %w", err)
	}
	var key, class string
	var cpu, mem, gpu, target, have int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&key, &class, &cpu, &mem, &gpu, &target, &at, &have}, func() error {
		for i := have; i < min(target, have+1000) && len(c.in.Pods) <= capacity.MaxPods; i++ {
			namespace, name, _ := strings.Cut(key, "/")
			p := capacity.Pod{Name: fmt.Sprintf("%s/%s#%d", namespace, name, i+1), Workload: key, Phase: fleet.PodPending, CPUMilli: cpu, MemMiB: mem, Class: packClass(class), Planned: true, Since: at.UTC()}
			c.share(&p, gpu, nil)
			c.in.Pods, c.labels = append(c.in.Pods, p), append(c.labels, nil)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load planned replicas: %w", err)
	}
	return nil
}

// history measures how long starts take and what the day has cost.
func (c *capacityInput) history(ctx context.Context, tx *Tx) error {
	day := c.in.Now.Truncate(24 * time.Hour)
	c.in.DayLeft = float64(day.Add(24*time.Hour).Sub(c.in.Now).Milliseconds()) / float64(time.Hour.Milliseconds())
	var node, pod *float64
	var spent *int64
	err := tx.pgx.QueryRow(ctx, `
SELECT
  (SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY extract(epoch FROM ready_at - started_at)::float8) FROM node
    WHERE tenant_id = $1 AND cluster_id = $2 AND started_at > $3::timestamptz - interval '7 days' AND ready_at > started_at HAVING count(*) >= $5),
  (SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY extract(epoch FROM ready_at - coalesce(started_at, created_at))::float8) FROM (
    SELECT ready_at, started_at, created_at FROM pod WHERE tenant_id = $1 AND cluster_id = $2 AND created_at > $3::timestamptz - interval '1 day' AND ready_at > created_at LIMIT 20000) s HAVING count(*) >= $5),
  (SELECT sum(amount_nano)::bigint FROM cost_day WHERE tenant_id = $1 AND cluster_id = $2 AND day = $4::date)`,
		tx.Tenant, c.in.Cluster, c.in.DataAt, day, leastCapacityStarts).Scan(&node, &pod, &spent)
	if err != nil {
		return fmt.Errorf("measure starts: %w", err)
	}
	if node != nil {
		c.in.NodeStart = int64(*node + 0.5)
	}
	if pod != nil {
		c.in.PodStart = int64(*pod + 0.5)
	}
	if spent != nil {
		m := fleet.Money(*spent)
		c.in.SpentToday = &m
	}
	freeze := c.in.Policy.Freeze
	if c.turn.Base != nil { // a policy on its way does not open the windows of the one that it replaces
		freeze = append(slices.Clone(freeze), c.turn.Base.Freeze...)
	}
	for _, w := range freeze {
		zone, err := time.LoadLocation(w.TimeZone)
		if err != nil {
			return fmt.Errorf("time zone of a freeze window: %w", err)
		}
		c.in.Freezes = append(c.in.Freezes, w.Windows(c.in.Now, zone)...)
	}
	return nil
}

// daemons are the daemon sets that run on more than half of the machines, each with the most that one of its pods asks for.
func (c *capacityInput) daemons() {
	count, most := map[string]int{}, map[string]capacity.Daemon{}
	for i := range c.in.Pods {
		p := &c.in.Pods[i]
		if !p.Daemon || p.Node == "" {
			continue
		}
		count[p.Workload]++
		d := most[p.Workload]
		most[p.Workload] = capacity.Daemon{Name: p.Workload, CPUMilli: max(d.CPUMilli, p.CPUMilli), MemMiB: max(d.MemMiB, p.MemMiB)}
	}
	for _, w := range slices.Sorted(maps.Keys(most)) {
		if 2*count[w] > len(c.in.Nodes) {
			c.in.Daemons = append(c.in.Daemons, most[w])
		}
	}
}

// offerings lists what can be rented where the cluster has machines, and prices it and the machines that run.
func (c *capacityInput) offerings(ctx context.Context, tx *Tx) error {
	ids, err := ZoneIDs(ctx, tx)
	if err != nil {
		return err
	}
	names := namesOfZones(ids)
	zones := c.zones()
	types := c.types()
	var all []fleet.Offering
	for _, place := range slices.SortedFunc(maps.Keys(zones), func(a, b fleet.Offering) int {
		return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.Region, b.Region))
	}) {
		sold := map[string]bool{}
		for _, m := range types {
			if m.Cloud != place.Cloud {
				continue
			}
			sold[m.Name] = true
			for _, zone := range zones[place] {
				all = append(all, fleet.Offering{Cloud: place.Cloud, Region: place.Region, Zone: zone, InstanceType: m.Name, Purchase: fleet.PurchaseOnDemand})
			}
		}
		pools, err := SpotStates(ctx, tx, SpotFilter{Cloud: place.Cloud, Region: place.Region, Product: market.ProductLinux}, c.in.Now)
		if err != nil {
			return err
		}
		for _, s := range pools {
			if !sold[s.Pool.InstanceType] {
				continue
			}
			own := names.of(s.Pool.Zone)
			if s.Pool.Zone == "" {
				own = zones[place]
			}
			for _, zone := range own {
				if slices.Contains(zones[place], zone) {
					all = append(all, fleet.Offering{Cloud: place.Cloud, Region: place.Region, Zone: zone, InstanceType: s.Pool.InstanceType, Purchase: fleet.PurchaseSpot})
				}
			}
		}
	}
	slices.SortFunc(all, compareOfferings)
	all = slices.Compact(all)
	priced := slices.Clone(all)
	for i := range c.in.Nodes {
		priced = append(priced, c.in.Nodes[i].Offering)
	}
	if c.prices, err = PricesAt(ctx, tx, c.book, c.in.Now, priced...); err != nil {
		return err
	}
	c.candidates(all, types)
	c.priceNodes()
	return nil
}

func compareOfferings(a, b fleet.Offering) int {
	return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.Region, b.Region), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Purchase, b.Purchase), cmp.Compare(a.Zone, b.Zone))
}

// zones are where the cluster has machines, by cloud and region, as far as the policy allows; those of the policy are added to all regions
// of a name that begins them.
func (c *capacityInput) zones() map[fleet.Offering][]string {
	out := map[fleet.Offering][]string{}
	for i := range c.in.Nodes {
		o := c.in.Nodes[i].Offering
		if o.Region == "" || o.Cloud == "" || o.Cloud == fleet.CloudOnPrem {
			continue
		}
		place := fleet.Offering{Cloud: o.Cloud, Region: o.Region}
		if out[place] == nil {
			out[place] = []string{}
			for _, z := range c.in.Policy.Zones {
				if strings.HasPrefix(z, o.Region) {
					out[place] = append(out[place], z)
				}
			}
		}
		if o.Zone != "" && len(c.in.Policy.Zones) == 0 && !slices.Contains(out[place], o.Zone) {
			out[place] = append(out[place], o.Zone)
		}
	}
	for place, z := range out {
		slices.Sort(z)
		if len(z) == 0 && len(c.in.Policy.Zones) == 0 {
			out[place] = []string{""} // nodes that do not say their zone
		}
	}
	return out
}

// types are the machines that could hold one of the cluster's pods: of its architectures, with GPUs only where a pod wants them and of
// models that pods accept.
func (c *capacityInput) types() []market.Machine {
	archs, models, anyModel, gpus := map[string]bool{"amd64": true}, map[fleet.GPUModel]bool{}, false, false
	largest := int64(largestCPUMachine)
	for i := range c.in.Nodes {
		n := &c.in.Nodes[i]
		archs[n.Arch] = true
		if n.GPUCount == 0 {
			largest = max(largest, n.CPUMilli)
		}
	}
	for i := range c.in.Pods {
		p := &c.in.Pods[i]
		if p.GPUCount == 0 {
			continue
		}
		gpus = true
		anyModel = anyModel || len(p.Models) == 0
		for _, m := range p.Models {
			models[m] = true
		}
	}
	for _, e := range c.in.Policy.Equivalent {
		if models[e.For] {
			models[e.Use] = true
		}
	}
	for i := range c.in.Policy.Warm {
		r := &c.in.Policy.Warm[i]
		gpus = gpus || r.GPUModel != "" || len(r.InstanceTypes) > 0
		models[r.GPUModel] = true
	}
	var out []market.Machine
	clouds := map[fleet.Cloud]bool{}
	for i := range c.in.Nodes {
		clouds[c.in.Nodes[i].Offering.Cloud] = true
	}
	for _, cloud := range slices.Sorted(maps.Keys(clouds)) {
		for _, name := range c.book.SpotTypes(market.CheapestFilter{Cloud: cloud}) {
			m, ok := c.book.Machine(cloud, name)
			switch {
			case !ok || !archs[m.Arch], len(c.in.Policy.InstanceTypes) > 0 && !slices.Contains(c.in.Policy.InstanceTypes, name):
			case m.GPUCount > 0 && (!gpus || !anyModel && !models[m.GPUModel]), m.GPUCount == 0 && m.CPUMilli > largest:
			default:
				out = append(out, m)
			}
		}
	}
	return out
}

// candidates prices and sizes what can be rented. Of more than may be looked at, the cheapest per core of each kind stay, and all with GPUs first.
func (c *capacityInput) candidates(all []fleet.Offering, types []market.Machine) {
	machine := map[fleet.Offering]market.Machine{}
	for _, m := range types {
		machine[fleet.Offering{Cloud: m.Cloud, InstanceType: m.Name}] = m
	}
	for _, o := range all {
		m := machine[fleet.Offering{Cloud: o.Cloud, InstanceType: o.InstanceType}]
		quote := c.prices.Marginal(o, m.InstanceType, 1)
		if quote.PerHour == nil || *quote.PerHour < 0 {
			continue
		}
		price := max(*quote.PerHour, 1) // what a commitment has paid for already is the cheapest there is, and not unknown
		cand := capacity.Candidate{Offering: o, Price: &price, CPUMilli: m.CPUMilli * systemShareMilli / 1000, MemMiB: m.MemMiB * systemShareMilli / 1000, MaxPods: defaultMaxPods,
			VCPU: m.CPUMilli / 1000, GPUModel: m.GPUModel, GPUCount: int64(m.GPUCount), GPUMemMiB: m.GPUMemoryMiB, SharesGPUs: c.fraught, Arch: m.Arch}
		a := m.Allocatable()
		if a.CPUMilli != nil {
			cand.CPUMilli = *a.CPUMilli
		}
		if a.MemMiB != nil {
			cand.MemMiB = *a.MemMiB
		}
		if a.MaxPods != nil {
			cand.MaxPods = *a.MaxPods
		}
		if profiles, known := c.book.MIG(m.GPUModel); known && len(profiles) > 0 {
			cand.MIG = true
		}
		score := c.model.Score(o, c.in.Now)
		cand.StockOutMilli = int64(chance(score.StockOut) * 1000)
		if o.Purchase == fleet.PurchaseSpot {
			cand.HazardMilli = int64(min(max(score.Hazard, 0), 100) * 1000)
		}
		if score.BackoffUntil.After(c.in.Now) {
			cand.BackoffUntil = score.BackoffUntil.UTC()
		}
		c.in.Candidates = append(c.in.Candidates, cand)
	}
	if len(c.in.Candidates) <= maxCapacityCandidates {
		return
	}
	slices.SortStableFunc(c.in.Candidates, func(a, b capacity.Candidate) int {
		if x, y := a.GPUCount > 0, b.GPUCount > 0; x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Price.Float()/float64(max(a.CPUMilli+a.MemMiB/8, 1)), b.Price.Float()/float64(max(b.CPUMilli+b.MemMiB/8, 1)))
	})
	c.in.Candidates = c.in.Candidates[:maxCapacityCandidates]
	slices.SortFunc(c.in.Candidates, func(a, b capacity.Candidate) int { return compareOfferings(a.Offering, b.Offering) })
}

// priceNodes says what machines cost and what letting them go would save: nothing where a commitment pays for them, which shows in a
// price that is not the offering's own.
func (c *capacityInput) priceNodes() {
	for i := range c.in.Nodes {
		n := &c.in.Nodes[i]
		n.SharesGPUs = n.SharesGPUs || c.fraught
		n.Price = c.prices.Node(c.in.Cluster, n.UID, n.Offering)
		if n.Price != nil && *n.Price <= 0 {
			free := max(*n.Price, 0)
			n.Price = &free
		}
		own, _ := c.prices.Candidate(n.Offering, fleet.InstanceType{Cloud: n.Offering.Cloud, Name: n.Offering.InstanceType}).Uncovered()
		none := fleet.Money(0)
		n.Saves = &none
		if n.Price != nil && own.Hour != nil && *own.Hour == *n.Price {
			n.Saves = n.Price
		}
		if n.Offering.Purchase == fleet.PurchaseSpot {
			n.HazardMilli = int64(min(max(c.model.Score(n.Offering, c.in.Now).Hazard, 0), 100) * 1000)
		}
	}
}
