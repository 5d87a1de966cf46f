package packing

import (
	"compress/gzip"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ruled makes workloads of up to 14 equal pods and gives nearly all of them rules: half are spread over zones, a fifth run one per
// machine, a seventh are gangs, a sixth have at most 40 % on one offering, a tenth follow another workload into its zone and a
// tenth keep off another workload's machines.
func ruled(seed uint64, pods []Pod) []Pod {
	r := rand.New(rand.NewPCG(seed, 2))
	out := slices.Clone(pods)
	at := map[string][]int{}
	var kinds []string
	for i := range out {
		k := wantsOf(&out[i]) + " " + strconv.FormatInt(out[i].CPUMilli, 10) + " " + strconv.FormatInt(out[i].MemMiB, 10) + " " + strconv.FormatInt(out[i].GPUCount*1000+out[i].GPUMilli, 10)
		if at[k] == nil {
			kinds = append(kinds, k)
		}
		at[k] = append(at[k], i)
	}
	var before []string // workloads of the kind whose zone others may follow
	n := 0
	for _, k := range kinds {
		before = before[:0]
		for left := at[k]; len(left) > 0; n++ {
			size := min(len(left), 1+r.IntN(14))
			name := "w" + strconv.Itoa(n)
			rules := &Rules{Workload: name, Labels: []string{name}}
			if r.IntN(7) == 0 {
				rules.Gang = name
			} else {
				if r.IntN(2) == 0 {
					rules.Spread = []Spread{{Label: name, Topology: TopologyZone, MaxSkew: 1 + r.Int64N(2)}}
				} else if len(before) > 0 && r.IntN(5) == 0 {
					rules.Affinity = []Term{{before[r.IntN(len(before))], TopologyZone}}
				}
				if r.IntN(5) == 0 {
					rules.AntiAffinity = []Term{{name, TopologyNode}}
				} else if n > 0 && r.IntN(8) == 0 {
					rules.AntiAffinity = []Term{{"w" + strconv.Itoa(r.IntN(n)), TopologyNode}}
				}
				if r.IntN(6) == 0 && len(rules.Affinity) == 0 && (len(rules.Spread) == 0 || out[left[0]].GPUCount == 0) { // else often more than there are pools for
					rules.MaxPoolMilli = 400
				}
			}
			if rules.Gang == "" && len(rules.Affinity) == 0 {
				before = append(before, name)
			}
			for _, i := range left[:size] {
				out[i].Rules = rules
			}
			left = left[size:]
		}
	}
	return out
}

// zonesOver puts offerings in zones, every type in most of them at a price of its own.
func zonesOver(seed uint64, offs []Offering, zones int) []Offering {
	r := rand.New(rand.NewPCG(seed, 3))
	var out []Offering
	for i := range offs {
		for z := range zones {
			if z > 0 && r.IntN(5) == 0 {
				continue
			}
			o := offs[i]
			o.Zone = "z" + strconv.Itoa(z)
			price := o.Price.MulDiv(950+r.Int64N(100), 1000)
			o.Price = &price
			out = append(out, o)
		}
	}
	return out
}

func used() (float64, int64) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(), u.Maxrss / 1024
}

// ruledGoals are what packing under rules must keep: the most CPU-seconds and the most times the bound.
var ruledGoals = []struct {
	name, pods, catalog string
	made                [3]int // pods, shapes, offerings per zone of made-up instances
	cpu, gap            float64
}{
	{name: "2000x500", made: [3]int{2_000, 200, 170}, cpu: 4, gap: 1.025},
	{name: "20000x500", made: [3]int{20_000, 300, 170}, cpu: 12, gap: 1.03},
	{name: "trace-2000x500", pods: "pods_spec33_2000.csv", catalog: "catalog_500.csv", cpu: 4, gap: 1.025},
	{name: "trace-20000x500", pods: "pods_spec33_20000.csv.gz", catalog: "catalog_500.csv", cpu: 10, gap: 1.04},
}

// TestRuledInstances names the instances of BenchmarkRules, for scripts.
func TestRuledInstances(t *testing.T) {
	for _, c := range ruledGoals {
		t.Logf("instance: %s", c.name)
	}
}

// BenchmarkRules packs pods that nearly all have rules across machines.
func BenchmarkRules(b *testing.B) {
	dir := os.Getenv("PLIMSOLL_PACKING_DATA")
	for _, c := range ruledGoals {
		b.Run(c.name, func(b *testing.B) {
			var pods []Pod
			var offs []Offering
			switch {
			case c.pods == "":
				pods, offs = sample(11, c.made[0], c.made[1], c.made[2])
				offs = zonesOver(11, offs, 3)
			case dir == "":
				b.Skip("PLIMSOLL_PACKING_DATA is not set; it names a directory with pods and catalogues")
			default:
				pods, offs = readInto(b, dir, c.pods, ReadPods), readInto(b, dir, c.catalog, ReadOfferings)
			}
			pods = ruled(11, pods)
			for b.Loop() {
				start, _ := used()
				a, err := Pack(pods, offs, Options{})
				if err != nil {
					b.Fatal(err)
				}
				cpu, mib := used()
				b.StopTimer()
				if err := Check(pods, offs, Options{}, a); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				b.ReportMetric(cpu-start, "cpu-s")
				b.ReportMetric(float64(mib), "peak-MiB")
				b.ReportMetric(1+a.Gap(), "x-bound")
				b.ReportMetric(a.Weighed.Float(), "$/h")
				b.ReportMetric(float64(len(a.Unplaced)), "unplaced")
				missed := 0.0
				if 1+a.Gap() > c.gap || cpu-start > c.cpu || mib > 512 {
					missed = 1
					b.Errorf("%s: %.4f times the bound in %.1f CPU-seconds and %d MiB; want %.2f in %.0f and 512", c.name, 1+a.Gap(), cpu-start, mib, c.gap, c.cpu)
				}
				b.ReportMetric(missed, "missed")
			}
		})
	}
}

// readInto reads a file of instances, packed or not.
func readInto[T any](b testing.TB, dir, name string, read func(io.Reader) ([]T, error)) []T {
	b.Helper()
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			b.Fatal(err)
		}
	}
	out, err := read(r)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// BenchmarkRulesStopped packs under rules with a deadline, and tells how the answer stands against the bound that the full time proves.
func BenchmarkRulesStopped(b *testing.B) {
	c := ruledGoals[0]
	pods, offs := sample(11, c.made[0], c.made[1], c.made[2])
	offs = zonesOver(11, offs, 3)
	pods = ruled(11, pods)
	full, err := Pack(pods, offs, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, limit := range []time.Duration{100 * time.Millisecond, time.Second} {
		b.Run(limit.String(), func(b *testing.B) {
			for b.Loop() {
				start := time.Now()
				a, err := Pack(pods, offs, Options{Stop: func() bool { return time.Since(start) > limit }})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(start).Seconds(), "s")
				b.ReportMetric(a.Weighed.Float()/full.Bound.Float(), "x-bound")
				b.ReportMetric(full.Bound.Float()/max(1e-9, a.Bound.Float()), "bound-x")
				b.ReportMetric(float64(len(a.Unplaced)), "unplaced")
				if err := Check(pods, offs, Options{}, a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
