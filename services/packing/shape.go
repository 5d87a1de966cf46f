package packing

import (
	"sort"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
)

// Dimensions of a size. GPUs are counted in thousandths, twice where machines share them: see fractions.
const (
	dimCPU = iota
	dimMem
	dimGPU
	dimPods
	dimHeavy
	dims
)

type vec [dims]int32

func (a *vec) fits(c *vec) bool {
	return a[0] <= c[0] && a[1] <= c[1] && a[2] <= c[2] && a[3] <= c[3] && a[4] <= c[4]
}

func (a *vec) add(b *vec, n int32) {
	a[0] += n * b[0]
	a[1] += n * b[1]
	a[2] += n * b[2]
	a[3] += n * b[3]
	a[4] += n * b[4]
}

// copies is how often need goes into the capacity, at most most.
func (a *vec) copies(c *vec, most int32) int32 {
	for d := range a {
		if a[d] > 0 {
			most = min(most, c[d]/a[d])
		}
	}
	return max(most, 0)
}

// shape is pods that ask for the same.
type shape struct {
	need  [2]vec // on machines that give whole GPUs; on machines that share them
	gpus  int32
	milli int32 // of each GPU; 1000 where nothing shares
	want  int   // index of its wants
	pods  []int
	count int64
	key   string // all that it asks for
}

// offer is a usable offering inside a problem.
type offer struct {
	index int // in the caller's list
	price fleet.Money
	cost  float64 // price, for the linear program
	cap   vec
	share int // 0 or 1: which need counts
	gpus  int32
	stock int64 // -1: no limit
	class int   // offerings of a class accept the same wants and share alike
}

// problem is the input in shapes and the offerings worth looking at, cheapest first.
type problem struct {
	pods    []Pod
	given   []Offering
	opts    Options
	shapes  []shape
	offs    []offer
	accepts [][]bool // [want][offer]
	classes [][]int  // shapes each class accepts
	unfit   []Unplaced
	every   []shape // all shapes, those that fit nothing too
	of      []int   // shape of each pod in every
	kept    []int   // index in shapes of each of every; -1: fits nothing
}

func newProblem(pods []Pod, given []Offering, opts Options) *problem {
	p := &problem{pods: pods, given: given, opts: opts}
	shares := opts.ShareGPUs
	for i := range given {
		shares = shares || given[i].SharesGPUs
	}
	wants := p.group(shares)
	p.usable(wants)
	p.dropUnfit()
	p.classify(wants)
	if shares {
		p.fractions()
	}
	return p
}

// fractions weighs the fractions of GPUs for the bounds. That the thousandths on a machine add up is not enough: two pods of 600 do not
// share a GPU, and nothing may be small enough to use what a pod of 810 leaves. So the first GPU dimension counts for a pod above half a
// GPU also what no pod of the input can use beside it, and the second counts a pod above 1000-a as a whole GPU and one below a as nothing,
// which holds for every packing (a dual feasible function); a is where the input's pods need the most GPUs by that count.
func (p *problem) fractions() {
	var reach [1001]int32 // the most that pods can fill of so many thousandths
	for room := int32(1); room <= 1000; room++ {
		for i := range p.every {
			if s := &p.every[i]; s.gpus > 0 && s.milli <= room {
				reach[room] = max(reach[room], s.milli+reach[room-s.milli])
			}
		}
	}
	count := func(milli, a int32) int32 {
		switch {
		case milli > 1000-a:
			return 1000
		case milli < a:
			return 0
		}
		return milli
	}
	best, most := int32(500), int64(-1)
	for i := range p.shapes {
		a := p.shapes[i].milli
		if p.shapes[i].gpus == 0 || a > 500 {
			continue
		}
		sum := int64(0)
		for k := range p.shapes {
			if s := &p.shapes[k]; s.milli < 1000 {
				sum += s.count * int64(s.gpus*count(s.milli, a))
			}
		}
		if sum > most {
			best, most = a, sum
		}
	}
	for _, shapes := range [2][]shape{p.shapes, p.every} {
		for i := range shapes {
			s := &shapes[i]
			if s.gpus == 0 {
				continue
			}
			if s.milli > 500 {
				s.need[1][dimGPU] = s.gpus * (1000 - reach[1000-s.milli])
			}
			s.need[1][dimHeavy] = s.gpus * count(s.milli, best)
		}
	}
}

// group makes shapes and returns one pod per distinct set of wants.
func (p *problem) group(shares bool) []*Pod {
	byKey := map[string]int{}
	wantIndex := map[string]int{}
	var wants []*Pod
	var key []byte
	p.of = make([]int, len(p.pods))
	for i := range p.pods {
		q := &p.pods[i]
		milli := int64(1000)
		if shares && q.GPUCount > 0 {
			milli = q.GPUMilli
		}
		want := wantsOf(q)
		key = strconv.AppendInt(key[:0], q.CPUMilli, 36)
		for _, v := range [...]int64{q.MemMiB, q.GPUCount, milli} {
			key = strconv.AppendInt(append(key, ' '), v, 36)
		}
		key = append(append(key, ' '), want...)
		at, ok := byKey[string(key)]
		if !ok {
			at = len(p.shapes)
			byKey[string(key)] = at
			w, ok := wantIndex[want]
			if !ok {
				w = len(wants)
				wantIndex[want] = w
				wants = append(wants, q)
			}
			s := shapeOf(q, milli, w)
			s.key = string(key)
			p.shapes = append(p.shapes, s)
		}
		p.of[i] = at
		p.shapes[at].pods = append(p.shapes[at].pods, i)
		p.shapes[at].count++
	}
	return wants
}

func shapeOf(q *Pod, milli int64, want int) shape {
	s := shape{gpus: int32(q.GPUCount), milli: int32(milli), want: want}  //nolint:gosec // bounded by validate
	whole := vec{int32(q.CPUMilli), int32(q.MemMiB), s.gpus * 1000, 1, 0} //nolint:gosec // bounded by validate
	s.need[0], s.need[1] = whole, whole
	s.need[1][dimGPU] = s.gpus * s.milli
	return s
}

// wantsOf is all that decides on which machine a pod may run, sizes aside.
func wantsOf(q *Pod) string {
	if q.GPUCount == 0 && len(q.Archs) == 0 { // the common case
		return "cpu " + strconv.FormatBool(q.SpotOK)
	}
	models := []string{}
	if q.GPUCount > 0 {
		for _, m := range q.GPUModels {
			models = append(models, string(m))
		}
	}
	sort.Strings(models)
	archs := append([]string(nil), q.Archs...)
	sort.Strings(archs)
	return strconv.FormatBool(q.GPUCount > 0) + " " + strconv.FormatBool(q.SpotOK) + " " + strings.Join(models, "|") + " " + strings.Join(archs, "|")
}

// accepted tells whether a pod may run on an offering, sizes aside; see reasons for the words.
func (p *problem) accepted(q *Pod, o *Offering) bool {
	return archOK(q, o) && (q.SpotOK || o.Purchase != fleet.PurchaseSpot) && modelOK(q, o) && (!p.opts.NoCPUOnGPU || q.GPUCount > 0 || o.GPUCount == 0)
}

func archOK(q *Pod, o *Offering) bool {
	if len(q.Archs) == 0 {
		return o.Arch == "amd64" || o.Arch == ""
	}
	for _, a := range q.Archs {
		if a == "*" || a == o.Arch || (a == "amd64" && o.Arch == "") {
			return true
		}
	}
	return false
}

func modelOK(q *Pod, o *Offering) bool {
	if q.GPUCount == 0 || len(q.GPUModels) == 0 {
		return true
	}
	for _, m := range q.GPUModels {
		if m == o.GPUModel {
			return true
		}
	}
	return false
}

// usable keeps the offerings that have a price and stock and that no other beats in everything, cheapest first.
func (p *problem) usable(wants []*Pod) {
	var all []offer
	for i := range p.given {
		o := &p.given[i]
		if !priced(o) || (o.Stock != nil && *o.Stock == 0) {
			continue
		}
		gpus := int32(o.GPUCount) //nolint:gosec // bounded by validate
		f := offer{index: i, price: *o.Price, cost: o.Price.Float(), gpus: gpus, stock: -1,
			cap: vec{int32(o.CPUMilli), int32(o.MemMiB), gpus * 1000, int32(o.MaxPods), gpus * 1000}} //nolint:gosec // bounded by validate
		if o.Stock != nil {
			f.stock = *o.Stock
		}
		if gpus > 0 && (p.opts.ShareGPUs || o.SharesGPUs) {
			f.share = 1
		}
		all = append(all, f)
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].price < all[b].price })
	accepts := make([][]bool, len(all)) // [offer][want]
	for j := range all {
		accepts[j] = make([]bool, len(wants))
		for w, q := range wants {
			accepts[j][w] = p.accepted(q, &p.given[all[j].index])
		}
	}
	var kept [][]bool
	for j := range all {
		beaten := false
		for k := 0; k < len(p.offs) && !beaten; k++ { // whatever beats j is not dearer, so it is kept already or beaten itself
			beaten = beats(&p.offs[k], &all[j], kept[k], accepts[j])
		}
		if !beaten {
			p.offs = append(p.offs, all[j])
			kept = append(kept, accepts[j])
		}
	}
	p.accepts = make([][]bool, len(wants))
	for w := range wants {
		p.accepts[w] = make([]bool, len(p.offs))
		for j := range p.offs {
			p.accepts[w][j] = kept[j][w]
		}
	}
}

func priced(o *Offering) bool { return o.Price != nil && *o.Price > 0 }

// beats tells whether a, which is not dearer, can stand in for b wherever b stands.
func beats(a, b *offer, takesA, takesB []bool) bool {
	if a.stock >= 0 || !b.cap.fits(&a.cap) || (b.gpus > 0 && a.share < b.share) {
		return false
	}
	for w, t := range takesB {
		if t && !takesA[w] {
			return false
		}
	}
	return true
}

// fitsAlone tells whether one pod of a shape fits on an offering.
func (p *problem) fitsAlone(s *shape, j int) bool {
	return p.accepts[s.want][j] && s.need[p.offs[j].share].fits(&p.offs[j].cap)
}

// dropUnfit takes away shapes that no offering can hold, with the reasons.
func (p *problem) dropUnfit() {
	var kept []shape
	p.every = p.shapes
	p.kept = make([]int, len(p.every))
	for i := range p.shapes {
		s := p.shapes[i]
		fits := false
		for j := range p.offs {
			if fits = p.fitsAlone(&s, j); fits {
				break
			}
		}
		p.kept[i] = -1
		if fits {
			p.kept[i] = len(kept)
			kept = append(kept, s)
			continue
		}
		reasons := p.reasons(&p.pods[s.pods[0]])
		for _, pod := range s.pods {
			p.unfit = append(p.unfit, Unplaced{Pod: pod, Reasons: reasons})
		}
	}
	p.shapes = kept
}

// classify numbers the offerings by what they accept.
func (p *problem) classify(wants []*Pod) {
	byKey := map[string]int{}
	for j := range p.offs {
		key := make([]byte, len(wants)+1)
		for w := range wants {
			if p.accepts[w][j] && (p.offs[j].gpus > 0 || wants[w].GPUCount == 0) {
				key[w] = 1
			}
		}
		key[len(wants)] = byte(p.offs[j].share) //nolint:gosec // 0 or 1
		c, ok := byKey[string(key)]
		if !ok {
			c = len(p.classes)
			byKey[string(key)] = c
			var in []int
			for i := range p.shapes {
				if key[p.shapes[i].want] == 1 {
					in = append(in, i)
				}
			}
			p.classes = append(p.classes, in)
		}
		p.offs[j].class = c
	}
}
