package capacity

import (
	"cmp"
	"slices"

	"plimsoll.dev/services/fleet"
)

// PlaceKind tells where replicas are or would be.
type PlaceKind string

// The kinds.
const (
	PlaceRuns  PlaceKind = "runs"  // they run there
	PlaceSpare PlaceKind = "spare" // there is room on a machine that runs
	PlaceNew   PlaceKind = "new"   // on a machine to be bought
)

// Place is a number of replicas that cost the same. Prices are per replica-hour: a machine's over as many replicas as an empty one holds.
type Place struct {
	Kind     PlaceKind
	Offering fleet.Offering
	Count    int // 0: as many as anybody wants; only of the last
	Price    fleet.Money
	Weighed  fleet.Money // with the chance to lose the machine, and for new ones what the ladder costs when it cannot be had
}

// Places are what replicas of one workload cost in a cluster, cheapest first, and how many it could have at most.
type Places struct {
	List  []Place
	Reach *int // by stock and the caps of the policy; nil: no limit known
}

const (
	maxReplicasMachine = 512 // counted on one machine
	maxPlaces          = 256
	leastChance        = 10_000 // millionths, of a ladder: what comes after is not asked for
	million            = 1_000_000
)

// PlacesOf works out what replicas of a workload cost in the cluster. like is a pod of the same service elsewhere, for a workload of which no pod is here; nil:
// none. A machine whose price is not known gives no place: then there are fewer places than replicas. What a commitment pays for costs nothing more; room on
// other machines costs its share, since consolidation would give it back. Errors are of the input.
func PlacesOf(in Input, workload string, like *Pod) (Places, error) {
	if err := in.validate(); err != nil {
		return Places{}, err
	}
	in.Policy = in.Policy.WithDefaults()
	own := Likeness(in.Pods, workload)
	if own == nil && like != nil {
		own = &Pod{CPUMilli: like.CPUMilli, MemMiB: like.MemMiB, GPUCount: like.GPUCount, GPUMilli: like.GPUMilli, MIG: like.MIG, Models: like.Models, Archs: like.Archs, SpotOK: like.SpotOK, Class: like.Class}
	}
	if own == nil {
		return Places{}, nil
	}
	ask := *own
	ask.UID, ask.Name, ask.Node, ask.Phase, ask.Workload = "", "", "", fleet.PodPending, ""
	in.Pods = append(slices.Clone(in.Pods), ask)
	d := &planner{in: &in, leaving: map[int]bool{}, moved: map[string]int{}, evicted: map[int]int64{}, bound: in.bound(), has: map[string]int{}, plan: &Plan{}}
	d.settle()
	d.limit()
	pod := len(in.Pods) - 1
	d.pending = slices.DeleteFunc(d.pending, func(i int) bool { return i == pod || in.Pods[i].Workload == workload }) // its own are what is asked about
	d.spare()
	var out []Place
	have := 0
	for _, h := range d.hosts {
		for _, p := range d.placesOn(h, pod, workload) {
			out, have = append(out, p), have+p.Count
		}
	}
	fresh, most := d.newPlaces(pod)
	if most != nil {
		*most += have
	}
	return Places{List: ordered(append(out, fresh...)), Reach: most}, nil
}

// Likeness is a pod of a workload: one that has a place, else one that waits for it; nil: there is none.
func Likeness(pods []Pod, workload string) *Pod {
	var found *Pod
	for i := range pods {
		p := &pods[i]
		if p.Workload == workload && p.Phase != fleet.PodTerminating && (found == nil || found.Node == "" && p.Node != "") {
			found = p
		}
	}
	return found
}

// holdsOf is how many replicas fit into a room, one by one.
func (d *planner) holdsOf(r room, pod int, shares bool) (n int) {
	p := &d.in.Pods[pod]
	r.gpus = slices.Clone(r.gpus)
	for n < maxReplicasMachine && r.fits(p, shares) {
		r.take(p, shares)
		n++
		if d.bound && len(p.Affinity)+len(p.Anti)+len(p.Spread) > 0 {
			break // rules between its pods: one of them on a machine is all that is certain
		}
	}
	return n
}

// placesOn are those on a machine that runs.
func (d *planner) placesOn(h *host, pod int, workload string) []Place {
	if h.fixed == "leaving" || !h.known {
		return nil
	}
	per := int64(max(d.holdsOf(d.whole(h), pod, h.shares), 1))
	cost := min(h.saves, h.price) // nothing where a commitment pays anyway
	p := Place{Offering: h.offering, Price: cost.MulDiv(1, per)}
	p.Weighed = weigh(p.Price, d.in.Nodes[h.node].HazardMilli)
	runs, spare := p, p
	runs.Kind, spare.Kind = PlaceRuns, PlaceSpare
	for _, i := range h.pods {
		if q := &d.in.Pods[i]; q.Workload == workload && q.Node != "" && q.Phase != fleet.PodTerminating {
			runs.Count++
		}
	}
	if h.open && d.refuses(&d.in.Pods[pod], &h.kind) == "" && d.welcome(pod, h) {
		spare.Count = d.holdsOf(h.room, pod, h.shares)
	}
	return slices.DeleteFunc([]Place{runs, spare}, func(p Place) bool { return p.Count == 0 })
}

// newPlaces are those on machines to be bought, and how many there can be at most; nil: no limit known. Offerings with a stock come by themselves; the others
// are one ladder, whose price is the mean over what may happen on it.
func (d *planner) newPlaces(pod int) ([]Place, *int) {
	type option struct {
		c, per int
		w      fleet.Money
	}
	var all []option
	for c := range d.kinds {
		k := &d.kinds[c]
		if d.buyable(c) != "" || !d.affords(c) || d.refuses(&d.in.Pods[pod], k) != "" {
			continue
		}
		cand := &d.in.Candidates[c]
		if per := d.holdsOf(d.roomOf(cand.CPUMilli, cand.MemMiB, cand.MaxPods, cand.GPUCount), pod, k.shares); per > 0 {
			all = append(all, option{c, per, k.weighed.MulDiv(1, int64(per))})
		}
	}
	slices.SortStableFunc(all, func(a, b option) int { return cmp.Or(cmp.Compare(a.w, b.w), cmp.Compare(a.c, b.c)) })
	var out []Place
	most := 0
	var limit *int
	var open *Place
	none := int64(million)
	for _, o := range all {
		k, cand := &d.kinds[o.c], &d.in.Candidates[o.c]
		if n := d.machines(k) * int64(o.per); n < noCap {
			most = max(most, int(min(n, 1_000_000)))
			limit = &most
		}
		p := Place{Kind: PlaceNew, Offering: k.offering, Price: k.price.MulDiv(1, int64(o.per)), Weighed: o.w}
		if cand.Stock != nil {
			if p.Count = int(min(*cand.Stock*int64(o.per), 1_000_000)); open == nil && p.Count > 0 {
				out = append(out, p)
			}
			continue
		}
		if open == nil {
			open, p.Weighed = &p, 0
		}
		miss := min(max(cand.StockOutMilli, 0), 1000)
		had := none * (1000 - miss) / 1000
		open.Weighed = open.Weighed.Add(o.w.MulDiv(had, million))
		if none -= had; none < leastChance {
			break
		}
	}
	switch {
	case open != nil:
		open.Weighed = open.Weighed.Add(all[len(all)-1].w.MulDiv(none, million)) // when nothing can be had at all: the dearest
		out = append(out, *open)
	default: // all have a stock, or there are none
		n := 0
		for _, p := range out {
			n += p.Count
		}
		if limit == nil || n < *limit {
			limit = &n
		}
	}
	return out, limit
}

// machines is how many more of a kind the caps allow.
func (d *planner) machines(k *kind) int64 {
	n := d.left.nodes
	if k.gpus > 0 && d.left.gpus < noCap {
		n = min(n, d.left.gpus/k.gpus)
	}
	if d.left.hour != nil && k.price > 0 {
		n = min(n, int64(*d.left.hour/k.price))
	}
	return n
}

// ordered sorts places by weighed price and joins those that are alike. What comes after one without an end is never used.
func ordered(list []Place) []Place {
	rank := func(p Place) int { return slices.Index([]PlaceKind{PlaceRuns, PlaceSpare, PlaceNew}, p.Kind) }
	slices.SortStableFunc(list, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Weighed, b.Weighed), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Price, b.Price), comparePlace(a.Offering, b.Offering))
	})
	out := []Place{}
	for _, p := range list {
		if n := len(out); n > 0 && p.Count > 0 {
			if q := &out[n-1]; q.Kind == p.Kind && q.Offering == p.Offering && q.Price == p.Price && q.Weighed == p.Weighed {
				q.Count += p.Count
				continue
			}
		}
		if len(out) == maxPlaces {
			break
		}
		out = append(out, p)
		if p.Count == 0 {
			break
		}
	}
	return out
}

func comparePlace(a, b fleet.Offering) int {
	return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.Region, b.Region), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Purchase, b.Purchase), cmp.Compare(a.Zone, b.Zone))
}
