package packing

import (
	"math"
	"math/big"
	"slices"
	"sort"
	"strings"

	"plimsoll.dev/services/fleet"
)

// proof is a certificate: a value per pod of each shape such that no pattern of an unlimited offering is worth more than its price,
// and what a machine of a limited offering may be worth beyond its price. Then no packing of given pods costs less than the pods'
// value less what all limited machines can bring. Values are whole nano-units and every pattern's worth was bounded from above, so the
// floats of the linear program decide how good the bound is, never whether it is right.
type proof struct {
	count  []int64 // pods of each shape when the proof was made: values hold for at most so many
	value  []int64
	tolls  []int64  // of the heads
	charge *big.Int // sum over the limits of what is there times what it is worth
}

func newProof(p *problem) proof {
	pr := proof{count: make([]int64, len(p.shapes)), value: make([]int64, len(p.shapes)), tolls: make([]int64, len(p.heads)), charge: new(big.Int)}
	for i := range p.shapes {
		pr.count[i] = p.shapes[i].count
	}
	return pr
}

// bound is the least that pods so many per shape can cost.
func (pr *proof) bound(pods []int64) fleet.Money {
	sum, t := new(big.Int), new(big.Int)
	for i, v := range pr.value {
		sum.Add(sum, t.Mul(big.NewInt(v), big.NewInt(min(pods[i], pr.count[i]))))
	}
	sum.Sub(sum, pr.charge)
	if sum.Sign() <= 0 || !sum.IsInt64() {
		return 0
	}
	return fleet.Money(sum.Int64())
}

// Proof is a certificate that outlives its answer: what each shape of pods is worth on the offerings it was made for.
type Proof struct {
	values    map[string]worth // by what a pod asks for
	charge    *big.Int
	offerings uint64 // what it was made for
}

type worth struct{ count, value int64 }

func (pr *proof) export(p *problem) *Proof {
	out := &Proof{values: make(map[string]worth, len(p.shapes)), charge: pr.charge, offerings: p.fingerprint()}
	for i := range p.shapes {
		key, w := p.shapes[i].key, worth{pr.count[i], pr.value[i]}
		if p.shapes[i].pin > 0 || p.pin != nil { // of pods that were kept to some zones, what holds in each of them
			if key, _, _ = cutLast(key, " @"); p.shapes[i].pin == 0 {
				key = p.shapes[i].key
			}
			if o, ok := out.values[key]; ok {
				w = worth{min(w.count, o.count), min(w.value, o.value)}
			}
		}
		out.values[key] = w
	}
	return out
}

// bound is what the proof says of other pods, so many per shape; zero if it was made for other offerings. Shapes it does not know count
// nothing, and of those it knows at most as many as it was made for: every packing of more pods holds one of so many.
func (pr *Proof) bound(p *problem, placed []int64) fleet.Money {
	if pr == nil || pr.offerings != p.fingerprint() {
		return 0
	}
	now := proof{count: make([]int64, len(p.shapes)), value: make([]int64, len(p.shapes)), charge: pr.charge}
	for i := range p.shapes {
		w := pr.values[p.shapes[i].key]
		now.count[i], now.value[i] = w.count, w.value
	}
	return now.bound(placed)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// fingerprint tells offerings and rules apart.
func (p *problem) fingerprint() uint64 {
	h := uint64(1)
	add := func(v int64) { h = mix(h ^ uint64(v)) } //nolint:gosec // a hash
	text := func(s string) {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 0x100000001b3
		}
		add(int64(len(s)))
	}
	flag := func(b bool) {
		if b {
			add(1)
		} else {
			add(2)
		}
	}
	flag(p.opts.ShareGPUs)
	flag(p.opts.NoCPUOnGPU)
	for _, l := range p.opts.Limits {
		text(string(l.Resource))
		add(l.Max)
	}
	for _, e := range p.opts.Equivalent {
		text(string(e.For) + ">" + string(e.Use))
	}
	for _, us := range p.takes {
		for _, u := range us {
			add(int64(u.limit))
			add(u.n)
		}
	}
	for i := range p.given {
		o := &p.given[i]
		price, stock := int64(-1), int64(-1)
		if o.Price != nil {
			price = int64(*o.Price)
		}
		if o.Stock != nil {
			stock = *o.Stock
		}
		for _, v := range [...]int64{price, stock, o.CPUMilli, o.MemMiB, o.GPUCount, o.MaxPods} {
			add(v)
		}
		flag(o.SharesGPUs)
		flag(o.Purchase == fleet.PurchaseSpot)
		text(string(o.GPUModel))
		text(o.Arch)
		flag(o.MIG)
		for _, v := range [...]int64{o.HazardMilli, o.GPUMemMiB, o.DomainNodes} {
			add(v)
		}
		for _, t := range [...]string{string(o.Cloud), o.Region, o.Zone, o.InstanceType, o.Family, o.Pool, o.ReservationID, string(o.Purchase)} {
			text(t)
		}
		for _, list := range [][]string{o.Taints, o.Labels} {
			add(int64(len(list)))
			for _, t := range list {
				text(t)
			}
		}
	}
	return h
}

// certify turns the linear program's duals into a proof. It also hands every pattern it finds that is worth more than its offering
// costs to found. limit bounds the search per offering; a search that is cut lowers the bound, never its truth.
func (k *pricer) certify(duals, heads []float64, tolls []int64, limit func(j int) int, found func(j int, items []item)) proof {
	p := k.p
	pr := newProof(p)
	for i := range p.shapes {
		v := math.Floor(duals[i] * fleet.NanosPerUnit)
		if v < 0 || math.IsNaN(v) {
			v = 0
		}
		pr.value[i] = int64(min(v, 1e15))
		k.value[i] = float64(pr.value[i])
		k.limit[i] = int32(min(p.shapes[i].count, math.MaxInt32/2)) //nolint:gosec // bounded by maxPods
	}
	k.headTolls(heads)
	k.filter()
	k.loose = k.loose[:0]
	worth := make([]int64, len(p.offs)) // upper bound on a machine's worth
	type share struct{ num, den int64 } // price over worth, at most one
	scale := make([]share, len(p.shapes))
	for i := range scale {
		scale[i] = share{1, 1}
	}
	dues := make([]int64, len(p.offs)) // price and tolls
	for j := range p.offs {
		o := &p.offs[j]
		dues[j] = int64(o.price)
		for _, u := range o.uses {
			dues[j] += mulDiv(tolls[u.limit], u.n, int64(p.limits[u.limit].scale))
		}
		due := float64(dues[j])
		steps := limit(j)
		v, items, top := k.best(j, due, min(steps, splitAfter))
		if k.steps < 0 && steps > splitAfter { // long to search: a thousandth is not worth it
			v, items, top = k.best(j, due*1.001, steps)
		}
		if v > due*1.000001 && found != nil {
			for _, t := range k.trail {
				sort.Slice(t, func(a, b int) bool { return t[a].shape < t[b].shape })
				found(j, t)
			}
			found(j, items)
		}
		worth[j] = int64(math.Ceil(max(top, v)*(1+1e-9))) + 1
		if max(top, v) > due*1.002 && o.share == 0 {
			k.loose = append(k.loose, j)
		}
		if p.stockOf(j) >= 0 || worth[j] <= dues[j] {
			continue
		}
		for i := range scale { // every shape the machine can hold is worth less, so that the machine is worth its price
			if p.fitsAlone(&p.shapes[i], j) && mulLess(dues[j], scale[i].den, scale[i].num, worth[j]) {
				scale[i] = share{dues[j], worth[j]}
			}
		}
	}
	t := new(big.Int)
	for h := range pr.tolls { // what a toll takes from a pod shrinks with the pod's value
		most := share{0, 1}
		for i := range p.shapes {
			if slices.Contains(p.shapes[i].heads, h) && mulLess(most.num, scale[i].den, scale[i].num, most.den) {
				most = scale[i]
			}
		}
		pr.tolls[h] = mulDiv(int64(k.tolls[h]), most.num, most.den) + 1
		pr.charge.Add(pr.charge, t.Mul(big.NewInt(pr.tolls[h]), big.NewInt(p.heads[h].max)))
	}
	for i, v := range pr.value {
		pr.value[i] = t.Quo(t.Mul(big.NewInt(v), big.NewInt(scale[i].num)), big.NewInt(scale[i].den)).Int64()
	}
	for j := range p.offs {
		if n := p.stockOf(j); n >= 0 && worth[j] > dues[j] {
			t.SetInt64(worth[j] - dues[j])
			pr.charge.Add(pr.charge, t.Mul(t, big.NewInt(n)))
		}
	}
	for q, u := range tolls { // rounded up: no limit is worth less than its tolls
		scale := big.NewInt(int64(p.limits[q].scale))
		t.Mul(big.NewInt(u), big.NewInt(p.limits[q].max))
		t.Add(t, new(big.Int).Sub(scale, big.NewInt(1)))
		pr.charge.Add(pr.charge, t.Quo(t, scale))
	}
	return pr
}

// stockOf is how many machines of an offering with stock there can be, and so how often a surplus may be charged; -1: it has none.
func (p *problem) stockOf(j int) int64 {
	n, own := noLimit, false
	for _, u := range p.offs[j].uses {
		n = min(n, p.limits[u.limit].max/u.n)
		own = own || u.limit >= p.shared
	}
	if !own {
		return -1
	}
	return n
}

// mulDiv is a*b/c rounded down, exactly, at most 1e17.
func mulDiv(a, b, c int64) int64 {
	t := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	if t.Quo(t, big.NewInt(c)); !t.IsInt64() {
		return 1e17
	}
	return min(t.Int64(), 1e17)
}

// mulLess tells whether a*b < c*d, exactly.
func mulLess(a, b, c, d int64) bool {
	return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)).Cmp(new(big.Int).Mul(big.NewInt(c), big.NewInt(d))) < 0
}
