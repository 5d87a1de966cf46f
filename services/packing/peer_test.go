package packing

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ruledProgram writes pods under rules as a mixed-integer program of the plain kind: so many pods of a shape on a machine. It may rent of every
// offering as many machines as an answer has of it, and a few more.
type ruledProgram struct {
	p     *problem
	x     *across
	slots []int // offering of each machine
	on    [][]string
	rows  []string
	ints  []string
	bins  []string
	cost  []string
}

func newRuledProgram(pods []Pod, offs []Offering, a *Answer, more int) *ruledProgram {
	x := newAcross(pods, offs, Options{}, nil)
	x.p, x.zones = newPinned(pods, offs, Options{}, nil, nil), zonesOf(offs)
	m := &ruledProgram{p: x.p, x: x}
	have := make([]int, len(offs))
	for n := range a.Nodes {
		have[a.Nodes[n].Offering]++
	}
	for j := range offs {
		for range have[j] + more {
			m.slots = append(m.slots, j)
		}
	}
	return m
}

func (m *ruledProgram) row(terms []string, rel string, v int64) {
	if len(terms) > 0 {
		m.rows = append(m.rows, strings.Join(terms, "\n ")+" "+rel+" "+strconv.FormatInt(v, 10))
	}
}

// machines writes what fits on each machine, and that every pod is on one.
func (m *ruledProgram) machines() {
	p := m.p
	m.on = make([][]string, len(p.shapes)) // by shape and machine; empty: cannot
	for i := range p.shapes {
		m.on[i] = make([]string, len(m.slots))
	}
	for n, j := range m.slots {
		o, z := &p.given[j], fmt.Sprintf("z%d", n)
		m.bins = append(m.bins, z)
		m.cost = append(m.cost, fmt.Sprintf("+ %.9f %s", o.weighed().Float(), z))
		var size [4][]string
		for i := range p.shapes {
			s := &p.shapes[i]
			if p.fails(&p.pods[s.pods[0]], j) != [unary]bool{} {
				continue
			}
			v := fmt.Sprintf("x%d_%d", i, n)
			m.on[i][n] = v
			m.ints = append(m.ints, v)
			for d, need := range []int64{int64(s.need[0][dimCPU]), int64(s.need[0][dimMem]), int64(s.gpus), 1} {
				if need > 0 {
					size[d] = append(size[d], fmt.Sprintf("+ %d %s", need, v))
				}
			}
			most := s.count
			if s.bond != nil {
				most = min(most, int64(s.bond.most))
			}
			m.row([]string{"+ " + v, fmt.Sprintf("- %d %s", most, z)}, "<=", 0)
		}
		for d, room := range []int64{o.CPUMilli, o.MemMiB, o.GPUCount, o.MaxPods} {
			if len(size[d]) > 0 {
				m.row(append(size[d], fmt.Sprintf("- %d %s", room, z)), "<=", 0)
			}
		}
		if n > 0 && m.slots[n-1] == j { // machines of one offering are alike: in order
			m.row([]string{fmt.Sprintf("+ z%d", n-1), "- " + z}, ">=", 0)
		}
	}
	for i := range p.shapes {
		m.row(m.sum(i, "+", func(int) bool { return true }), "=", p.shapes[i].count)
	}
}

// sum is the pods of a shape on some of the machines.
func (m *ruledProgram) sum(i int, sign string, on func(j int) bool) []string {
	var out []string
	for n, v := range m.on[i] {
		if v != "" && on(m.slots[n]) {
			out = append(out, sign+" "+v)
		}
	}
	return out
}

func (m *ruledProgram) labelled(label, sign string, on func(j int) bool) []string {
	var out []string
	for i := range m.p.shapes {
		if m.p.shapes[i].rules.has(label) {
			out = append(out, m.sum(i, sign, on)...)
		}
	}
	return out
}

// rules writes spreads and affinity by zone, anti-affinity by machine, shares of pools and gangs: those that ruled makes.
func (m *ruledProgram) rules() {
	p := m.p
	in := func(zone string) func(int) bool { return func(j int) bool { return zoneOf(&p.given[j]) == zone } }
	most := p.poolMost()
	for i := range p.shapes {
		s := &p.shapes[i]
		r := s.rules
		for _, t := range r.Spread {
			zones := p.zonesFor(s.pods[0])
			for _, a := range zones {
				for _, b := range zones {
					if a != b {
						m.row(append(m.labelled(t.Label, "+", in(a)), m.labelled(t.Label, "-", in(b))...), "<=", t.MaxSkew)
					}
				}
			}
		}
		for k, t := range r.Affinity {
			for q, zone := range m.x.zones {
				v := fmt.Sprintf("a%d_%d_%d", i, k, q)
				m.bins = append(m.bins, v)
				m.row(append(m.sum(i, "+", in(zone)), fmt.Sprintf("- %d %s", s.count, v)), "<=", 0)
				m.row(append(m.labelled(t.Label, "+", in(zone)), "- "+v), ">=", 0)
			}
		}
		if s.bond != nil {
			for _, other := range s.bond.clashes {
				for n := range m.slots {
					if m.on[i][n] == "" || m.on[other][n] == "" {
						continue
					}
					v := fmt.Sprintf("c%d_%d_%d", min(i, other), max(i, other), n) // 1: the first may be here, else the second
					if i < other {
						m.bins = append(m.bins, v)
						m.row([]string{"+ " + m.on[i][n], fmt.Sprintf("- %d %s", s.count, v)}, "<=", 0)
					} else {
						m.row([]string{"+ " + m.on[i][n], fmt.Sprintf("+ %d %s", s.count, v)}, "<=", s.count)
					}
				}
			}
		}
		if r.MaxPoolMilli > 0 {
			for j := range p.given {
				m.row(m.sum(i, "+", func(k int) bool { return poolOf(&p.given[k]) == poolOf(&p.given[j]) }), "<=", int64(most[r.Workload]))
			}
		}
		if r.Gang != "" {
			var one []string
			for j := range p.given {
				terms := m.sum(i, "+", func(k int) bool { return k == j })
				if len(terms) == 0 {
					continue
				}
				v := fmt.Sprintf("g%d_%d", i, j)
				m.bins, one = append(m.bins, v), append(one, "+ "+v)
				m.row(append(terms, fmt.Sprintf("- %d %s", s.count, v)), "<=", 0)
			}
			m.row(one, "=", 1)
		}
	}
}

func (m *ruledProgram) write(w io.Writer) {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "Minimize\n obj: %s\nSubject To\n", strings.Join(m.cost, "\n "))
	for i, r := range m.rows {
		fmt.Fprintf(b, " r%d: %s\n", i, r)
	}
	fmt.Fprintf(b, "General\n %s\nBinary\n %s\nEnd\n", strings.Join(m.ints, "\n "), strings.Join(m.bins, "\n "))
	_ = b.Flush()
}

// solve runs cbc for so many seconds: what it found, whether it proved it, and the CPU-seconds it took.
func (m *ruledProgram) solve(t testing.TB, cbc string, seconds int) (value float64, proven, found bool, cpu float64) {
	t.Helper()
	dir := t.TempDir()
	file, solution := filepath.Join(dir, "m.lp"), filepath.Join(dir, "m.sol")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	m.write(f)
	f.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds+60)*time.Second)
	defer cancel()
	run := exec.CommandContext(ctx, cbc, file, "sec", strconv.Itoa(seconds), "solve", "solution", solution)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("cbc: %v\n%s", err, out)
	}
	cpu = (run.ProcessState.UserTime() + run.ProcessState.SystemTime()).Seconds()
	text, err := os.ReadFile(solution)
	if err != nil {
		return 0, false, false, cpu
	}
	head := strings.SplitN(string(text), "\n", 2)[0]
	_, v, ok := strings.Cut(head, "objective value")
	value, err = strconv.ParseFloat(strings.TrimSpace(v), 64)
	found = ok && err == nil && value > 0 && !strings.Contains(strings.ToLower(head), "infeasible") && !strings.Contains(head, "no integer")
	return value, strings.HasPrefix(head, "Optimal"), found, cpu
}

// peers are the instances that a mixed-integer solver is given too.
var peers = []struct{ pods, shapes, offerings int }{{60, 6, 8}, {240, 20, 16}}

func peer(n int) ([]Pod, []Offering) {
	pods, offs := sample(21, peers[n].pods, peers[n].shapes, peers[n].offerings)
	offs = zonesOver(21, offs, 3)
	return ruled(21, pods), offs
}

// BenchmarkRulesPeer packs instances of a size that a mixed-integer solver (cbc) can try, and gives cbc thirty seconds for the same rules.
func BenchmarkRulesPeer(b *testing.B) {
	cbc, err := exec.LookPath("cbc")
	if err != nil {
		b.Skip("cbc is not installed (Debian: coinor-cbc); it is the peer of this benchmark")
	}
	for n, c := range peers {
		b.Run(fmt.Sprintf("%dx%d", c.pods, c.offerings), func(b *testing.B) {
			pods, offs := peer(n)
			for b.Loop() {
				start, _ := used()
				a, err := Pack(pods, offs, Options{})
				if err != nil {
					b.Fatal(err)
				}
				end, _ := used()
				if err := Check(pods, offs, Options{}, a); err != nil || len(a.Unplaced) > 0 {
					b.Fatalf("%d left out, %v", len(a.Unplaced), err)
				}
				m := newRuledProgram(pods, offs, a, 2)
				m.machines()
				m.rules()
				value, proven, found, cpu := m.solve(b, cbc, 30)
				b.ReportMetric(end-start, "cpu-s")
				b.ReportMetric(cpu, "cbc-cpu-s")
				b.ReportMetric(a.Weighed.Float(), "$/h")
				b.ReportMetric(1+a.Gap(), "x-bound")
				if !found {
					b.Log("cbc found no packing in its time")
					continue
				}
				b.ReportMetric(a.Weighed.Float()/value, "x-cbc")
				if a.Bound.Float() > value+1e-6 {
					b.Errorf("the bound %s is above what cbc found, %f", a.Bound, value)
				}
				b.Logf("cbc %f, proven %v", value, proven)
			}
		})
	}
}

// TestRulesHoldInTheMixedIntegerProgramToo compares an instance that cbc can prove: the bound and the cost enclose its optimum.
func TestRulesHoldInTheMixedIntegerProgramToo(t *testing.T) {
	t.Parallel()
	cbc, err := exec.LookPath("cbc")
	if err != nil {
		t.Skip("cbc is not installed (Debian: coinor-cbc); it is the oracle of this test")
	}
	for _, seed := range []uint64{1, 2, 3, 4} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			pods, offs := sample(seed, 16, 3, 6)
			offs = zonesOver(seed, offs, 2)
			pods = ruled(seed, pods)
			a, err := Pack(pods, offs, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(pods, offs, Options{}, a); err != nil {
				t.Fatal(err)
			}
			m := newRuledProgram(pods, offs, a, 2)
			m.machines()
			m.rules()
			value, proven, found, cpu := m.solve(t, cbc, 8)
			t.Logf("cost %s, bound %s, %d left out; cbc %f, proven %v, %.1f CPU-seconds", a.Weighed, a.Bound, len(a.Unplaced), value, proven, cpu)
			switch {
			case len(a.Unplaced) > 0 && found:
				t.Errorf("%d pods are left out, cbc places all", len(a.Unplaced))
			case len(a.Unplaced) > 0 || !found:
			case a.Bound.Float() > value+1e-6:
				t.Errorf("the bound %s is above what cbc found, %f", a.Bound, value)
			case a.Weighed.Float() > value*1.03+1e-6:
				t.Errorf("costs %s, cbc found %f", a.Weighed, value)
			case proven && a.Weighed.Float() < value-1e-6:
				t.Errorf("costs %s, which cbc proves impossible: at least %f", a.Weighed, value)
			}
		})
	}
}
