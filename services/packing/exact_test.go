package packing

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

// exhaust is the least cost of placing all pods, by trying every partition; false if there is none.
func exhaust(pods []Pod, offs []Offering, opts Options) (fleet.Money, bool) {
	p := &problem{pods: pods, given: offs, opts: opts}
	stock := make([]int64, len(offs))
	for j := range offs {
		stock[j] = 1000
		if offs[j].Stock != nil {
			stock[j] = *offs[j].Stock
		}
	}
	fits := map[[2]int]bool{}
	for j := range offs {
		for set := 1; set < 1<<len(pods); set++ {
			n := Node{Offering: j}
			for i := range pods {
				if set>>i&1 == 1 {
					n.Pods = append(n.Pods, i)
				}
			}
			fits[[2]int{j, set}] = p.checkNode(&n) == nil
		}
	}
	best, found := fleet.Money(0), false
	var try func(left int, cost fleet.Money)
	try = func(left int, cost fleet.Money) {
		if found && cost >= best {
			return
		}
		if left == 0 {
			best, found = cost, true
			return
		}
		low := left & -left
		for rest := left &^ low; ; rest = (rest - 1) & (left &^ low) {
			for j := range offs {
				if stock[j] > 0 && fits[[2]int{j, low | rest}] {
					stock[j]--
					try(left&^(low|rest), cost+*offs[j].Price)
					stock[j]++
				}
			}
			if rest == 0 {
				break
			}
		}
	}
	try(1<<len(pods)-1, 0)
	return best, found
}

func TestSmallInstancesAreSolvedAsWellAsByTryingEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pods, offs := drawPods(t, 6), drawOfferings(t, 5)
		opts := Options{ShareGPUs: rapid.Bool().Draw(t, "share"), NoCPUOnGPU: rapid.Bool().Draw(t, "ban")}
		best, ok := exhaust(pods, offs, opts)
		a, err := Pack(pods, offs, opts)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !ok && len(a.Unplaced) == 0:
			t.Fatal("placed what cannot be placed")
		case ok && len(a.Unplaced) > 0:
			t.Fatalf("left out %d pods that can be placed for %s", len(a.Unplaced), best)
		case ok && a.Bound > best:
			t.Fatalf("the bound %s is above the optimum %s", a.Bound, best)
		case ok && a.Cost != best:
			t.Fatalf("costs %s, could cost %s", a.Cost, best)
		}
	})
}

func TestAnotherOfferingNeverRaisesTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pods, offs := drawPods(t, 30), drawOfferings(t, 10)
		before, err := Pack(pods, offs, Options{Effort: 1})
		if err != nil {
			t.Fatal(err)
		}
		after, err := Pack(pods, append(offs, drawOfferings(t, 3)...), Options{Effort: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(before.Unplaced) > 0 { // more machines may place more pods
			return
		}
		if len(after.Unplaced) > 0 {
			t.Fatalf("with more offerings %d pods are left out", len(after.Unplaced))
		}
		if after.Bound > before.Cost {
			t.Fatalf("with more offerings the bound is %s, but %s was reached without", after.Bound, before.Cost)
		}
		if float64(after.Bound) > float64(before.Bound)*1.002+1000 {
			t.Fatalf("another offering raised the bound from %s to %s", before.Bound, after.Bound)
		}
	})
}

// sample makes pods and offerings like those of a GPU cluster: some shapes often, many rarely, offerings in families with a discount on Spot.
func sample(seed uint64, pods, shapes, offerings int) ([]Pod, []Offering) {
	r := rand.New(rand.NewPCG(seed, 1))
	one := func(v []int64) int64 { return v[r.IntN(len(v))] }
	kinds := make([]Pod, shapes)
	for i := range kinds {
		p := Pod{CPUMilli: 500 * (1 + r.Int64N(30)), MemMiB: 512 * (1 + r.Int64N(110)), SpotOK: r.IntN(5) < 2}
		if r.IntN(10) < 8 {
			p.GPUCount, p.GPUMilli = one([]int64{1, 1, 1, 1, 1, 1, 2, 4}), 1000
			if p.GPUCount == 1 && r.IntN(2) == 0 {
				p.GPUMilli = one([]int64{230, 320, 470, 650, 810})
			}
			if r.IntN(3) == 0 {
				p.GPUModels = [][]fleet.GPUModel{{"T4"}, {"A10"}, {"A100"}, {"T4", "A10"}}[r.IntN(4)]
			}
		}
		kinds[i] = p
	}
	out := make([]Pod, pods)
	for i := range out {
		k := min(r.IntN(shapes), r.IntN(shapes), r.IntN(shapes))
		out[i] = kinds[k]
		out[i].Name = "p" + strconv.Itoa(i)
	}
	var offs []Offering
	for len(offs) < offerings {
		cores := one([]int64{4, 8, 16, 32, 48, 64, 96})
		o := Offering{CPUMilli: cores*1000 - 100, MemMiB: cores*one([]int64{2048, 4096, 8192}) - 1500, MaxPods: 110, Arch: "amd64"}
		price := float64(cores)*0.03 + float64(o.MemMiB)*0.000004
		first := len(offs) / 2 // one large machine of each model, so that most pods fit something
		if first < 3 {
			o.CPUMilli, o.MemMiB = 95_900, 786_000
			price = 5
		}
		if first < 3 || r.IntN(3) == 0 {
			m := r.IntN(3)
			o.GPUCount = one([]int64{1, 1, 2, 4, 8})
			if first < 3 {
				m, o.GPUCount = first, 8
			}
			o.GPUModel = []fleet.GPUModel{"T4", "A10", "A100"}[m]
			price += float64(o.GPUCount) * []float64{0.3, 0.6, 3}[m]
		}
		o.InstanceType = "m" + strconv.Itoa(len(offs)/2)
		for _, purchase := range []fleet.Purchase{fleet.PurchaseOnDemand, fleet.PurchaseSpot} {
			o.Purchase = purchase
			m := fleet.Money(price * (0.8 + 0.4*r.Float64()) * 1e6 * 1e3)
			o.Price = &m
			offs = append(offs, o)
			price *= 0.35
		}
	}
	return out, offs[:offerings]
}

func TestMediumInstancesComeCloseToTheMixedIntegerOptimum(t *testing.T) {
	t.Parallel()
	cbc, err := exec.LookPath("cbc")
	if err != nil {
		t.Skip("cbc is not installed (Debian: coinor-cbc); it is the oracle of this test")
	}
	for _, seed := range []uint64{1, 2, 3, 6, 7} { // such as cbc can prove in a second
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			pods, offs := sample(seed, 150, 8, 14)
			opts := Options{NoCPUOnGPU: seed%2 == 1}
			if seed%3 == 0 { // quotas that bind
				free, err := Pack(pods, offs, opts)
				if err != nil {
					t.Fatal(err)
				}
				opts.Limits = []Limit{{Name: "nodes", Resource: ResourceNodes, Max: int64(len(free.Nodes)) - 2}, {Name: "spot", Where: []Selector{{Key: "capacity_type", Values: []string{"spot"}}}, Resource: ResourceNodes, Max: 12}}
			}
			a, err := Pack(pods, offs, opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(pods, offs, opts, a); err != nil {
				t.Fatal(err)
			}
			best, proven := cbcOptimum(t, cbc, newProblem(pods, offs, opts))
			t.Logf("%d pods, %d left out: cost %s, cbc %.6f (proven %v), bound %s", len(pods), len(a.Unplaced), a.Cost, best, proven, a.Bound)
			if a.Bound.Float() > best+1e-6 || (proven && a.Cost.Float() < best-1e-6) {
				t.Errorf("bound %s and cost %s do not enclose the optimum %f", a.Bound, a.Cost, best)
			}
			if a.Cost.Float() > best*1.01+1e-9 {
				t.Errorf("cost %s is more than a hundredth above cbc's %f", a.Cost, best)
			}
		})
	}
}

// cbcOptimum gives cbc every maximal pattern of every offering and some seconds; it tells whether what comes back is proven.
func cbcOptimum(t *testing.T, cbc string, p *problem) (float64, bool) {
	t.Helper()
	var cost []float64
	cover := make([][]string, len(p.shapes))
	limits := make([][]string, len(p.limits))
	for j := range p.offs {
		o := &p.offs[j]
		var now [16]int32
		var walk func(i int, room vec)
		walk = func(i int, room vec) {
			if i == len(p.shapes) {
				for s := range p.shapes {
					if p.fitsAlone(&p.shapes[s], j) && int64(now[s]) < p.shapes[s].count && p.shapes[s].need[0].fits(&room) {
						return // not maximal
					}
				}
				for s := range p.shapes {
					if now[s] > 0 {
						cover[s] = append(cover[s], fmt.Sprintf("+ %d x%d", now[s], len(cost)))
					}
				}
				for _, u := range o.uses {
					limits[u.limit] = append(limits[u.limit], fmt.Sprintf("+ %d x%d", u.n, len(cost)))
				}
				cost = append(cost, o.cost)
				return
			}
			most := int32(0)
			if p.fitsAlone(&p.shapes[i], j) {
				most = p.shapes[i].need[0].copies(&room, int32(p.shapes[i].count))
			}
			for n := int32(0); n <= most; n++ {
				now[i] = n
				left := room
				left.add(&p.shapes[i].need[0], -n)
				walk(i+1, left)
			}
			now[i] = 0
		}
		walk(0, o.cap)
	}
	if len(cost) > 60_000 {
		t.Skipf("%d patterns are too many for this test", len(cost))
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "m.lp")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "Minimize\n obj:")
	for x, c := range cost {
		fmt.Fprintf(w, " + %.9f x%d\n", c, x)
	}
	fmt.Fprint(w, "Subject To\n")
	for s, terms := range cover {
		fmt.Fprintf(w, " s%d: %s >= %d\n", s, strings.Join(terms, "\n "), p.shapes[s].count)
	}
	for q, terms := range limits {
		if len(terms) > 0 {
			fmt.Fprintf(w, " l%d: %s <= %d\n", q, strings.Join(terms, "\n "), p.limits[q].max)
		}
	}
	fmt.Fprint(w, "General\n")
	for x := range cost {
		fmt.Fprintf(w, " x%d\n", x)
	}
	fmt.Fprint(w, "End\n")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	solution := filepath.Join(dir, "m.sol")
	if out, err := exec.CommandContext(ctx, cbc, file, "sec", "8", "ratioGap", "0", "allowableGap", "0", "solve", "solution", solution).CombinedOutput(); err != nil {
		t.Fatalf("cbc: %v\n%s", err, out)
	}
	text, err := os.ReadFile(solution)
	if err != nil {
		t.Fatal(err)
	}
	head := strings.SplitN(string(text), "\n", 2)[0]
	_, value, ok := strings.Cut(head, "objective value")
	v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if !ok || err != nil {
		t.Skipf("cbc found nothing in its time: %s", head)
	}
	return v, strings.HasPrefix(head, "Optimal")
}

func TestAPackingThatNoSingleExchangeBettersIsFinishedExactly(t *testing.T) {
	t.Parallel()
	mig := gpu(machine("cut", "0.31", 2000, 8192), "A100-40", 2)
	mig.MIG, mig.MaxPods = true, 2
	whole := stocked(gpu(machine("whole", "0.17", 2000, 8192), "A100-40", 1), 1)
	whole.MaxPods = 2
	ps := pods(4, 500, 512)
	ps[2].MemMiB = 3000
	for i, profile := range []string{"", "1g.5gb", "", "1g.10gb"} {
		if i > 0 {
			ps[i].GPUCount, ps[i].GPUMilli = 1, 1000
		}
		if profile != "" {
			ps[i].Rules = &Rules{MIG: profile}
		}
	}
	a, err := Pack(ps, []Offering{mig, whole}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(ps, []Offering{mig, whole}, Options{}, a); err != nil {
		t.Fatal(err)
	}
	if a.Cost.String() != "0.48" || a.Bound != a.Cost { // two machines of each pair, not twice the one that holds any
		t.Errorf("cost %s, bound %s; want 0.48, proven", a.Cost, a.Bound)
	}
}
