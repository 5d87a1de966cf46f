package replay

import (
	"fmt"
	"math"
	"sort"

	"plimsoll.dev/services/fleet"
)

// node is a machine. Exported fields are saved.
type node struct {
	Number    uint64
	UID, Name string
	Zone      string
	Phase     fleet.NodePhase
	StartedMS int64
	ReadyMS   int64 // while booting: when it will be ready
	EndedMS   int64
	LostMS    int64 // 0, or when an interruption takes it away
	EmptyMS   int64 // 0, or since when nothing runs here
	FreeCPU   int64
	FreeMem   int64
	GPUs      []uint64 // number of the pod that holds each GPU; 0 = free
	Images    []string // workload keys whose image is here
	Rev       int64
	PoolName  string

	pool *poolState
	pods int
}

// poolState is what a pool remembers between steps.
type poolState struct {
	cfg     *Pool
	index   int
	nodes   []*node
	backoff []int64 // per zone: no launch before this
	fails   []int   // per zone, in a row
	Seconds float64 // node-seconds since the start
}

func newPoolState(cfg *Pool, index int) *poolState {
	return &poolState{cfg: cfg, index: index, backoff: make([]int64, len(cfg.Zones)), fails: make([]int, len(cfg.Zones))}
}

// addNode asks for a machine; it is billed from now and ready after its boot.
func (w *World) addNode(p *poolState, zone string) *node {
	w.nextNode++
	k := w.nextNode
	t := p.cfg.Type
	n := &node{
		Number: k, UID: uuid(w.ids, forNode, k), Zone: zone, Phase: fleet.NodeBooting, PoolName: p.cfg.Name,
		Name:      fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", 16+k/62_500%200, k/250%250, 4+k%250),
		StartedMS: w.now, ReadyMS: w.now + fifth(p.cfg.BootSeconds, draw(w.cfg.Seed, forBoot, k, 0)), EmptyMS: w.now,
		FreeCPU: allocatableCPU(t), FreeMem: allocatableMem(t), GPUs: make([]uint64, t.GPUCount), pool: p,
	}
	w.nodes = append(w.nodes, n)
	p.nodes = append(p.nodes, n)
	w.changed(&n.Rev)
	return n
}

// stepNodes boots, interrupts, loses and removes machines.
func (w *World) stepNodes() {
	var gone bool
	for _, n := range w.nodes {
		switch {
		case n.LostMS > 0 && w.now >= n.LostMS:
			w.spent.Lost++
			w.event("node_lost", "Node/"+n.Name, "", "SpotInterruption", fmt.Sprintf("%s %s in %s was reclaimed", n.pool.cfg.Type.Name, n.pool.cfg.Purchase, n.Zone))
			w.endNode(n)
			gone = true
		case n.Phase == fleet.NodeBooting && w.now >= n.ReadyMS:
			n.Phase, n.ReadyMS = fleet.NodeReady, w.now
			w.changed(&n.Rev)
		case n.pool.cfg.Purchase == fleet.PurchaseSpot && n.LostMS == 0 && w.now%60_000 == 0 && w.interrupted(n):
			w.notice(n)
		case n.pods > 0:
			n.EmptyMS = 0
		case n.EmptyMS == 0:
			n.EmptyMS = w.now
		case float64(w.now-n.EmptyMS) >= 1000*n.pool.cfg.EmptySeconds && len(n.pool.nodes) > n.pool.cfg.MinNodes && n.Phase == fleet.NodeReady:
			w.endNode(n)
			gone = true
		}
	}
	if gone {
		w.nodes = living(w.nodes)
		for _, l := range w.loads {
			w.reconcile(l)
		}
	}
}

func living(nodes []*node) []*node {
	kept := nodes[:0]
	for _, n := range nodes {
		if n.EndedMS == 0 {
			kept = append(kept, n)
		}
	}
	return kept
}

// endNode takes a machine out of its pool, and its pods with it. The caller removes it from w.nodes.
func (w *World) endNode(n *node) {
	n.Phase, n.EndedMS = fleet.NodeTerminated, w.now
	w.changed(&n.Rev)
	for _, p := range w.pods {
		if p.node == n && p.EndedMS == 0 {
			w.endPod(p, fleet.PodFailed, "NodeLost")
		}
	}
	w.pods = livingPods(w.pods)
	n.pool.nodes = living(n.pool.nodes)
	w.endedNodes = append(w.endedNodes, n)
}

// interrupted tells whether the cloud takes the node back within this minute.
func (w *World) interrupted(n *node) bool {
	perMinute := n.pool.cfg.HazardPerHour / 60
	if w.stockOut(n.pool, n.Zone, w.now) {
		perMinute *= 10
	}
	return uniform(draw(w.cfg.Seed, forHazard, n.Number, uint64(w.now/60_000))) < 1-math.Exp(-perMinute)
}

// notice announces the loss: replicas on the node start to drain at once, and their owners ask for others.
func (w *World) notice(n *node) {
	n.LostMS = w.now + int64(1000*n.pool.cfg.NoticeSeconds)
	n.Phase = fleet.NodeDraining
	w.spent.Notices++
	w.changed(&n.Rev)
	w.event("interruption_notice", "Node/"+n.Name, "", "SpotInterruption",
		fmt.Sprintf("%s in %s will be reclaimed in %.0f s", n.pool.cfg.Type.Name, n.Zone, n.pool.cfg.NoticeSeconds))
	for _, p := range w.pods {
		if p.node == n && p.Phase != fleet.PodTerminating {
			w.terminate(p)
		}
	}
	for _, l := range w.loads {
		w.reconcile(l)
	}
}

// stockOut tells whether a zone has no machine of the pool's type at a time: spells that begin by chance, the same for every policy.
func (w *World) stockOut(p *poolState, zone string, ms int64) bool {
	if p.cfg.StockOutsPerWeek == 0 {
		return false
	}
	stream := uint64(p.index)<<8 | zoneIndex(p.cfg.Zones, zone)
	for k := ms/hourMillis - 4; k <= ms/hourMillis; k++ {
		if uniform(draw(w.cfg.Seed, forStock, stream, uint64(3*k))) > p.cfg.StockOutsPerWeek/168 {
			continue
		}
		begin := k*hourMillis + int64(hourMillis*uniform(draw(w.cfg.Seed, forStock, stream, uint64(3*k+1))))
		length := int64(1000 * p.cfg.StockOutSeconds * math.Min(4, exponential(draw(w.cfg.Seed, forStock, stream, uint64(3*k+2)))))
		if ms >= begin && ms < begin+length {
			return true
		}
	}
	return false
}

func zoneIndex(zones []string, zone string) uint64 {
	for i, z := range zones {
		if z == zone {
			return uint64(i)
		}
	}
	return uint64(len(zones))
}

// quietestZone is the zone with the fewest nodes of the pool, among those not backed off when respect is set; "" if there is none.
func (p *poolState) quietestZone(now int64, respect bool) string {
	best, fewest := "", math.MaxInt
	for i, zone := range p.cfg.Zones {
		if respect && now < p.backoff[i] {
			continue
		}
		count := 0
		for _, n := range p.nodes {
			if n.Zone == zone {
				count++
			}
		}
		if count < fewest {
			best, fewest = zone, count
		}
	}
	return best
}

// launch tries to get one machine for a waiting pod: zone by zone, backing off from those that have none.
func (w *World) launch(p *poolState, l *workloadState) *node {
	for range p.cfg.Zones {
		if len(p.nodes) >= p.cfg.MaxNodes {
			return nil
		}
		zone := p.quietestZone(w.now, true)
		if zone == "" {
			return nil
		}
		w.spent.Launches++
		i := zoneIndex(p.cfg.Zones, zone)
		if !w.stockOut(p, zone, w.now) {
			p.fails[i] = 0
			return w.addNode(p, zone)
		}
		w.spent.FailedLaunches++
		p.backoff[i] = w.now + 120_000<<min(p.fails[i], 3)
		p.fails[i]++
		w.event("capacity_failure", "NodePool/"+p.cfg.Name, l.cfg.Key, "InsufficientInstanceCapacity",
			fmt.Sprintf("no %s %s in %s", p.cfg.Type.Name, p.cfg.Purchase, zone))
	}
	return nil
}

// fits tells whether the pod's requests are free on the node.
func (n *node) fits(p *pod) bool {
	if n.LostMS > 0 || n.EndedMS > 0 || n.FreeCPU < p.load.cfg.CPUMilli || n.FreeMem < p.load.cfg.MemMiB {
		return false
	}
	return n.freeGPUs() >= int(p.load.cfg.GPUMilli/1000)
}

func (n *node) freeGPUs() int {
	free := 0
	for _, owner := range n.GPUs {
		if owner == 0 {
			free++
		}
	}
	return free
}

func (n *node) has(image string) bool {
	i := sort.SearchStrings(n.Images, image)
	return i < len(n.Images) && n.Images[i] == image
}

func (n *node) hold(image string) {
	if !n.has(image) {
		n.Images = append(n.Images, image)
		sort.Strings(n.Images)
	}
}
