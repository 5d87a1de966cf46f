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
	need  [3]vec // on machines that give whole GPUs; that share them; that cut them (MIG)
	gpus  int32
	milli int32 // of each GPU; 1000 where nothing shares
	want  int   // index of its wants
	pods  []int
	count int64
	key   string // all that it asks for
	rules *Rules
	pin   int32
	bond  *bond // rules by node; nil: none
	heads []int // that count it
}

// want is a pod that stands for all that may run on the same offerings.
type want struct {
	pod *Pod
	pin int32
}

// offer is a usable offering inside a problem.
type offer struct {
	index int         // in the caller's list
	price fleet.Money // weighed
	cost  float64     // price, for the linear program
	cap   vec
	share int // 0, 1 or 2: which need counts
	gpus  int32
	uses  []use // limits it takes from
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
	limits  []cap64
	takes   [][]use       // per given offering
	shared  int           // limits that came from the options; the others are stock
	pin     []int32       // per pod, an index of pins; -1: left out. nil: no pod is pinned
	pins    [][]bool      // which offerings a pinned pod may use; nil: all
	bonds   *bonds        // rules by node; nil: none
	every   []shape       // all shapes, those that fit nothing too
	of      []int         // shape of each pod in every
	kept    []int         // index in shapes of each of every; -1: fits nothing
	heads   []head        // bounds on pods of a kind
	headsOf map[int][]int // by want
}

func newProblem(pods []Pod, given []Offering, opts Options) *problem {
	return newPinned(pods, given, opts, nil, nil)
}

// newPinned makes a problem in which pods are kept to some offerings or left out.
func newPinned(pods []Pod, given []Offering, opts Options, pin []int32, pins [][]bool) *problem {
	return newCrowded(pods, given, opts, pin, pins, nil)
}

func newCrowded(pods []Pod, given []Offering, opts Options, pin []int32, pins [][]bool, c *crowd) *problem {
	p := &problem{pods: pods, given: given, opts: opts, pin: pin, pins: pins}
	shares := opts.ShareGPUs
	for i := range given {
		shares = shares || given[i].SharesGPUs
	}
	wants := p.group(shares)
	p.crowded(c)
	p.caps()
	p.usable(wants)
	p.dropUnfit()
	p.bind()
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
func (p *problem) group(shares bool) []want {
	byKey := map[string]int{}
	wantIndex := map[string]int{}
	var wants []want
	var key []byte
	rules := map[*Rules][2]string{nil: {}}
	p.of = make([]int, len(p.pods))
	for i := range p.pods {
		q := &p.pods[i]
		pin := int32(0)
		if p.pin != nil {
			if pin = p.pin[i]; pin < 0 {
				p.of[i] = -1
				continue
			}
		}
		milli := int64(1000)
		if shares && q.GPUCount > 0 {
			milli = q.GPUMilli
		}
		name, whole := wantsOf(q), ""
		if q.Rules != nil {
			r, ok := rules[q.Rules]
			if !ok {
				r = [2]string{q.Rules.own(), q.Rules.key()}
				rules[q.Rules] = r
			}
			name += " " + r[0]
			whole = " " + r[1]
		}
		if pin > 0 {
			at := " @" + strconv.Itoa(int(pin))
			name += at
			whole += at
		}
		key = strconv.AppendInt(key[:0], q.CPUMilli, 36)
		for _, v := range [...]int64{q.MemMiB, q.GPUCount, milli} {
			key = strconv.AppendInt(append(key, ' '), v, 36)
		}
		key = append(append(append(key, ' '), name...), whole...)
		at, ok := byKey[string(key)]
		if !ok {
			at = len(p.shapes)
			byKey[string(key)] = at
			w, ok := wantIndex[name]
			if !ok {
				w = len(wants)
				wantIndex[name] = w
				wants = append(wants, want{q, pin})
			}
			s := shapeOf(q, milli, w)
			s.key, s.pin = string(key), pin
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
	s.need[0], s.need[1], s.need[2] = whole, whole, whole
	s.rules = q.Rules
	if q.Rules != nil && q.Rules.MIG != "" {
		m, c := migNeed(q.Rules.MIG)
		s.need[2][dimGPU], s.need[2][dimHeavy] = s.gpus*m, s.gpus*c
	}
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
	return archOK(q, o) && (q.SpotOK || o.Purchase != fleet.PurchaseSpot) && p.modelOK(q, o) && (!p.opts.NoCPUOnGPU || q.GPUCount > 0 || o.GPUCount == 0) &&
		tolerated(q.Rules, o) && (q.Rules == nil || (selected(q.Rules.Where, o) && memoryOK(q, o) && migOK(q, o)))
}

func memoryOK(q *Pod, o *Offering) bool {
	return q.Rules == nil || q.GPUCount == 0 || q.Rules.GPUMemMiB == 0 || o.GPUMemMiB >= q.Rules.GPUMemMiB
}

func migOK(q *Pod, o *Offering) bool {
	return q.Rules == nil || q.Rules.MIG == "" || (o.MIG && geometries[o.GPUModel].profile(q.Rules.MIG) != nil)
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

func (p *problem) modelOK(q *Pod, o *Offering) bool {
	if q.GPUCount == 0 || len(q.GPUModels) == 0 {
		return true
	}
	for _, m := range q.GPUModels {
		if m == o.GPUModel {
			return true
		}
		for _, e := range p.opts.Equivalent {
			if e.For == m && e.Use == o.GPUModel {
				return true
			}
		}
	}
	return false
}

// usable keeps the offerings that have a price and stock and that no other beats in everything, cheapest first.
func (p *problem) usable(wants []want) {
	var all []offer
	for i := range p.given {
		o := &p.given[i]
		if !priced(o) || (o.Stock != nil && *o.Stock == 0) {
			continue
		}
		gpus := int32(o.GPUCount) //nolint:gosec // bounded by validate
		f := offer{index: i, price: o.weighed(), gpus: gpus, uses: p.takes[i], share: shareOf(o, &p.opts),
			cap: vec{int32(o.CPUMilli), int32(o.MemMiB), gpus * 1000, int32(o.MaxPods), gpus * 1000}} //nolint:gosec // bounded by validate
		f.cost = f.price.Float()
		if p.within(f.uses) {
			all = append(all, f)
		}
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].price < all[b].price })
	accepts := make([][]bool, len(all)) // [offer][want]
	for j := range all {
		accepts[j] = make([]bool, len(wants))
		for w, q := range wants {
			accepts[j][w] = p.accepted(q.pod, &p.given[all[j].index]) && (q.pin == 0 || p.pins[q.pin] == nil || p.pins[q.pin][all[j].index])
		}
	}
	var kept [][]bool
	for j := range all {
		beaten := false
		for k := 0; k < len(p.offs) && !beaten; k++ { // whatever beats j is not dearer, so it is kept already or beaten itself
			beaten = p.beats(&p.offs[k], &all[j], kept[k], accepts[j])
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
func (p *problem) beats(a, b *offer, takesA, takesB []bool) bool {
	if !b.cap.fits(&a.cap) || !fewer(a.uses, b.uses) {
		return false
	}
	if b.gpus > 0 && b.share > 0 && (a.share != b.share || (b.share == 2 && p.given[a.index].GPUModel != p.given[b.index].GPUModel)) {
		return false
	}
	for w, t := range takesB {
		if t && (!takesA[w] || !p.open(w, a.index, b.index)) {
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
		reasons, blocked := p.reasons(&p.pods[s.pods[0]]), p.contradiction(&p.pods[s.pods[0]])
		for _, pod := range s.pods {
			p.unfit = append(p.unfit, Unplaced{Pod: pod, Reasons: reasons, Blocked: blocked})
		}
	}
	p.shapes = kept
}

// classify numbers the offerings by what they accept.
func (p *problem) classify(wants []want) {
	byKey := map[string]int{}
	for j := range p.offs {
		key := make([]byte, len(wants)+1)
		for w := range wants {
			if p.accepts[w][j] && (p.offs[j].gpus > 0 || wants[w].pod.GPUCount == 0) {
				key[w] = 1
			}
		}
		key[len(wants)] = byte(p.offs[j].share) //nolint:gosec // 0 to 2
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
