package packing

import (
	"sort"

	"plimsoll.dev/services/fleet"
)

// withinBudget leaves out pods, batch before economy before standard, of a class the dearest first, until the plan costs no more than the
// budget. Gold pods stay; what they alone cost too much is told in Over.
func withinBudget(pods []Pod, offerings []Offering, opts Options) *Answer {
	budget := *opts.Budget
	a := packSome(pods, offerings, opts, nil)
	if a.Cost <= budget {
		return a
	}
	b := &budgeter{pods: pods, offerings: offerings, opts: opts, budget: budget, out: make([]bool, len(pods))}
	for _, class := range []Class{ClassBatch, ClassEconomy, ClassStandard} {
		units := b.units(class, a.Proof)
		b.cost = packSome(pods, offerings, quickly(opts), b.out).Cost
		n, fits := b.least(units)
		b.set(units, n)
		if fits {
			return b.finish(units, n)
		}
	}
	a = packSome(pods, offerings, opts, b.out)
	a.Over = max(0, a.Cost-budget)
	return b.tell(a)
}

type budgeter struct {
	pods      []Pod
	offerings []Offering
	opts      Options
	budget    fleet.Money
	out       []bool
	gangs     map[string]Class
	cost      fleet.Money // of the plan without the class that is being cut down
}

// unit is pods that are left out together: one pod, or a gang.
type unit struct {
	pods  []int
	value int64
}

// units lists what a class may lose, the dearest first by what the proof says a pod is worth.
func (b *budgeter) units(class Class, proof *Proof) []unit {
	p := newProblem(b.pods, b.offerings, b.opts)
	gangs := map[string]int{}
	var out []unit
	for i := range b.pods {
		r := b.pods[i].Rules
		if b.classOf(i) != class {
			continue
		}
		v := proof.values[p.every[p.of[i]].key].value
		if r != nil && r.Gang != "" {
			if at, ok := gangs[r.Gang]; ok {
				out[at].pods = append(out[at].pods, i)
				out[at].value += v
				continue
			}
			gangs[r.Gang] = len(out)
		}
		out = append(out, unit{[]int{i}, v})
	}
	sort.SliceStable(out, func(x, y int) bool {
		return out[x].value*int64(len(out[y].pods)) > out[y].value*int64(len(out[x].pods))
	})
	return out
}

// classOf is the class of a pod; of a gang that of its first pod.
func (b *budgeter) classOf(i int) Class {
	r := b.pods[i].Rules
	if r == nil || r.Gang == "" {
		return r.class()
	}
	if b.gangs == nil {
		b.gangs = map[string]Class{}
		for k := range b.pods {
			if q := b.pods[k].Rules; q != nil && q.Gang != "" && b.gangs[q.Gang] == "" {
				b.gangs[q.Gang] = q.class()
			}
		}
	}
	return b.gangs[r.Gang]
}

func (b *budgeter) set(units []unit, n int) {
	for k, u := range units {
		for _, i := range u.pods {
			b.out[i] = k < n
		}
	}
}

func (b *budgeter) fits(units []unit, n int) bool {
	b.set(units, n)
	return packSome(b.pods, b.offerings, quickly(b.opts), b.out).Cost <= b.budget
}

func quickly(opts Options) Options {
	opts.quick = true
	return opts
}

// least is how many units must go; false if even without all the rest costs too much.
func (b *budgeter) least(units []unit) (int, bool) {
	if !b.fits(units, len(units)) {
		return len(units), false
	}
	low, high := 0, len(units)
	guess, saved := 0, int64(0)
	for guess < len(units) && saved < int64(b.cost-b.budget) {
		saved += units[guess].value
		guess++
	}
	for step := max(1, guess/20); low < high && step < len(units) && guess > low && guess < high; step *= 4 { // look around the guess first
		if b.fits(units, guess) {
			high, guess = guess, max(0, guess-step)
		} else {
			low, guess = guess+1, guess+step
		}
	}
	for low < high {
		if mid := (low + high) / 2; b.fits(units, mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return high, true
}

// finish packs for good, leaves out a little more if that is needed, and takes back what the rest of the budget allows.
func (b *budgeter) finish(units []unit, n int) *Answer {
	b.set(units, n)
	a := packSome(b.pods, b.offerings, b.opts, b.out)
	for a.Cost > b.budget && n < len(units) {
		n = min(len(units), n+max(1, n/50))
		b.set(units, n)
		a = packSome(b.pods, b.offerings, b.opts, b.out)
	}
	tries := 12
	if len(b.pods) <= 200 {
		tries = len(b.pods)
	}
	for k := n - 1; k >= 0 && tries > 0 && (b.opts.Stop == nil || !b.opts.Stop()); k-- {
		tries--
		for _, i := range units[k].pods {
			b.out[i] = false
		}
		c := packSome(b.pods, b.offerings, b.opts, b.out)
		if c.Cost <= b.budget && len(c.Nodes) > 0 && placed(c) > placed(a) {
			a = c
			continue
		}
		for _, i := range units[k].pods {
			b.out[i] = true
		}
	}
	return b.tell(a)
}

func placed(a *Answer) int {
	n := 0
	for k := range a.Nodes {
		n += len(a.Nodes[k].Pods)
	}
	return n
}

// tell names the pods that were left out for money.
func (b *budgeter) tell(a *Answer) *Answer {
	have := map[int]bool{}
	for _, u := range a.Unplaced {
		have[u.Pod] = true
	}
	for i, out := range b.out {
		if out && !have[i] {
			a.Unplaced = append(a.Unplaced, Unplaced{Pod: i, Reasons: []Reason{{Constraint: ConstraintBudget, Detail: string(b.classOf(i))}}})
		}
	}
	sort.SliceStable(a.Unplaced, func(x, y int) bool { return a.Unplaced[x].Pod < a.Unplaced[y].Pod })
	return a
}
