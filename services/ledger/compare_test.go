package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
)

// openCost is OpenCost's arithmetic as it is documented: none of its code, and nothing that it does beside.
type openCost struct{ cpu, ram, gpu float64 } // base prices of a core, a GB and a GPU

// split is appendix A of the OpenCost specification: the node's price in the ratio of the base prices.
func (o openCost) split(node, cpus, gb, gpus float64) (cpu, ram, gpu float64) {
	ramMultiple := gpus*o.gpu/o.ram + cpus*o.cpu/o.ram + gb
	ram = node / ramMultiple
	return cpus * ram * o.cpu / o.ram, gb * ram, gpus * ram * o.gpu / o.ram
}

// awsDefaults are configs/aws.json of OpenCost: a core, a GB and any GPU an hour.
var awsDefaults = openCost{0.031611, 0.004237, 0.95}

// gpus is the GPU-hours of a pod: nvidia.com/gpu that it requests times its hours. Resources of other names are none.
func (openCost) gpus(requested, hours float64) float64 { return requested * hours }

// idleShare is what a workload carries of idle: its part of what all workloads of the scope cost, or no number where they cost nothing.
func (openCost) idleShare(mine, all, idle float64) string {
	if all == 0 {
		return "nothing (0 / 0)"
	}
	return fmt.Sprintf("%.2f", mine/all*idle)
}

// efficiency is cost-weighted use over requests.
func (o openCost) efficiency(cpuUsed, cpuAsked, ramUsed, ramAsked float64) float64 {
	cpu, ram := cpuAsked*o.cpu, ramAsked*o.ram
	return (cpuUsed/cpuAsked*cpu + ramUsed/ramAsked*ram) / (cpu + ram)
}

func cents(m fleet.Money) string { return fmt.Sprintf("%.2f", m.Float()) }

// The figures on docs/compare-opencost.md are computed here: what OpenCost's documented rule makes of an input, and what the ledger does.
func TestFiguresOfTheComparison(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/compare-opencost.md")
	if err != nil {
		t.Fatal(err)
	}
	_, figures, ok := strings.Cut(string(page), "\n## The figures\n")
	if !ok {
		t.Fatal("the page has no figures")
	}
	var got []string
	for _, line := range strings.Split(figures, "\n") {
		if strings.HasPrefix(line, "## ") {
			break
		}
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| case ") {
			got = append(got, line)
		}
	}
	var want []string
	for _, row := range comparison(t) {
		want = append(want, "| "+strings.Join(row[:], " | ")+" |")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the page's figures are others than those computed (-computed +page):\n%s\n%s", d, strings.Join(want, "\n"))
	}
}

// Every test that the page names is there.
func TestTheComparisonNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/compare-opencost.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(\\w+): (Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 30 {
		t.Fatalf("the page names %d tests", len(named))
	}
	for _, n := range named {
		files, err := filepath.Glob("../" + strings.TrimPrefix(n[1], "services/") + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func "+n[2]+"(")
		}
		if !found {
			t.Errorf("%s has no %s", n[1], n[2])
		}
	}
}

// comparison is a row per case: name, input, what OpenCost's rule gives, what the ledger gives.
func comparison(t *testing.T) (rows [][4]string) {
	add := func(name, input, theirs, ours string) { rows = append(rows, [4]string{name, input, theirs, ours}) }
	parts := func(s ledger.Statement) string {
		sum := func(r ledger.Resource) string { return cents(amount(s, "", r, "")) }
		return sum(ledger.ResourceGPU) + " / " + sum(ledger.ResourceCPU) + " / " + sum(ledger.ResourceMemory)
	}
	spec := openCost{cpu: 30, ram: 10, gpu: 30}
	cpu, ram, gpu := spec.split(35, 1, 1, 1)
	add("appendix A", "a node of 35.00; one GPU, core and GB at 30, 30, 10", fmt.Sprintf("%.2f / %.2f / %.2f", gpu, cpu, ram), parts(closed([]ledger.Node{node("a")})))

	n := node("a")
	n.CPUMilli, n.MemMiB, n.GPUModel, n.GPUCount, n.Price, n.Weights = 192_000, 2<<20, "H100", 8, price("55.04"), market.Catalogue().Weights(fleet.CloudAWS)
	_, _, gpu = awsDefaults.split(55.04, 192, 2048, 8)
	s := closed([]ledger.Node{n})
	ours := amount(s, "", ledger.ResourceGPU, "")
	add("one default price of GPUs", "p5.48xlarge at 55.04: the part of its eight H100", fmt.Sprintf("%.2f (%.0f %%)", gpu, 100*gpu/55.04), fmt.Sprintf("%s (%.0f %%)", cents(ours), 100*ours.Float()/55.04))

	// The node: with all three prices at 1.00 an hour its metrics were 0.0492, which is 1 / 20.325.
	own := openCost{1, 1, 1}
	cpu, ram, gpu = own.split(1, 4, 15.325, 1)
	n = node("a")
	n.CPUMilli, n.MemMiB, n.Price = 4000, 15_693, price("20.325")
	add("own prices", "4 cores, 15.325 GB, 1 GPU, each at 1.00: the machine", fmt.Sprintf("%.2f (each %.4f)", cpu+ram+gpu, cpu/4), closed([]ledger.Node{n}).NodeCost.String()+" (each 1.00)")

	n = node("a")
	n.Price = price("2")
	add("own price by the hour", "a machine of 2.00 an hour, read as by the month", fmt.Sprintf("%.4f", 2./730), cents(closed([]ledger.Node{n}).NodeCost))

	surplus := closed([]ledger.Node{node("a")}, pod("p1", "a", 1000), pod("p2", "a", 1000))
	add("more held than there is", "two pods with a GPU each on the one GPU of 15.00", fmt.Sprintf("%.2f", 15*openCost{}.gpus(2, 1)),
		cents(amount(surplus, ledger.KindWorkload, ledger.ResourceGPU, ""))+" and a residual of "+cents(amount(surplus, ledger.KindResidual, ledger.ResourceGPU, "")))

	shared := func(model fleet.GPUModel, g ledger.GPUGroup, pods []ledger.Pod) string {
		s := closed([]ledger.Node{gpuNode("a", model, g)}, pods...)
		return cents(amount(s, ledger.KindWorkload, "", string(pods[0].Owner.Workload[2:]))) + " each, idle " + cents(amount(s, ledger.KindIdle, "", ""))
	}
	whole := func(requested float64, pods int) string {
		each := 56 * openCost{}.gpus(requested, 1)
		return fmt.Sprintf("%.2f each, idle %.2f", each, 56-float64(pods)*each)
	}
	add("HAMi", "a GPU of 56.00; four pods with 25 % of cores and memory", whole(1, 4), shared("L4", ledger.GPUGroup{Mode: ledger.GPUWhole, Count: 1}, many(4, ledger.GPUShare{CoreMilli: 250, MemMilli: 250})))
	add("MIG", "an H100 of 56.00; seven pods with nvidia.com/mig-1g.10gb", whole(0, 7), shared("H100", mig(1, of("1g.10gb", 7)), many(7, ledger.GPUShare{Profile: "1g.10gb"})))
	add("time-slicing", "a GPU of 56.00 given out as four nvidia.com/gpu; four pods", whole(1, 4), shared("L4", ledger.GPUGroup{Mode: ledger.GPUTimeSliced, Count: 1, Replicas: 4}, many(4, ledger.GPUShare{})))

	quarter := 0.25
	n = gpuNode("a", "L4", ledger.GPUGroup{Mode: ledger.GPUWhole, Count: 1})
	n.Price = price("4")
	s = ledger.Close(ledger.Hour{From: hour, To: hour.Add(time.Hour), Nodes: []ledger.Node{n}, Pods: []ledger.Pod{pod("p1", "a", 1000)}, Usage: map[fleet.WorkloadID]ledger.Usage{"w-p1": {GPUSM: &quarter}}})
	ratio, _ := ledger.Efficiency(s.Rows())
	held := amount(s, ledger.KindWorkload, "", "")
	add("usage basis", "4.00 for a million tokens, a quarter of SM time used", fmt.Sprintf("%.2f of 4.00 (100 %%)", 4*openCost{}.gpus(1, 1)), fmt.Sprintf("%.2f of %s (%.0f %%)", held.Float()*ratio, cents(held), 100*ratio))

	p := pod("p1", "a", 1000)
	p.Broken = []ledger.Trouble{{Interval: fleet.Interval{From: hour, To: hour.Add(30 * time.Minute)}, Reason: "ImagePullBackOff"}}
	var broken fleet.Money
	for _, c := range closed([]ledger.Node{node("a")}, p).Causes {
		if c.Name == ledger.CauseBroken && c.Resource == ledger.ResourceGPU {
			broken += c.Amount
		}
	}
	add("no image", "a GPU of 15.00 held for half an hour of ImagePullBackOff", "0.00", cents(broken)+", its owner's, with the reason")

	add("idle by machine", "4.00 used by four and 2.00 idle; 1.00 used by one and 5.00 idle: the first, the fifth", openCost{}.idleShare(1, 4, 2)+", "+openCost{}.idleShare(1, 1, 5), idleOf(true))
	add("idle by cluster", "the same", openCost{}.idleShare(1, 5, 7)+", "+openCost{}.idleShare(1, 5, 7), idleOf(false))

	n = node("a")
	n.GPUCount, n.Price = 8, price("140")
	cpuOnly := pod("p1", "a", 0)
	cpuOnly.CPUMilli = 500
	var left fleet.Money
	for _, r := range ledger.ShareIdle(closed([]ledger.Node{n}, cpuOnly).Rows()) {
		if r.Kind == ledger.KindIdle && r.Resource == ledger.ResourceGPU {
			left += r.Amount
		}
	}
	add("eight idle GPUs", "no GPU pod, idle shared: a workload's part of "+cents(left), openCost{}.idleShare(0, 0, left.Float()), "0.00; "+cents(left)+" stay idle")

	eff := openCost{cpu: 10, ram: 1}
	add("efficiency", "2 cores and 1 GB asked for at 10 and 1, 0.5 and 0.5 used", fmt.Sprintf("%.0f %%", 100*eff.efficiency(0.5, 2, 0.5, 1)), fmt.Sprintf("%.0f %%", 100*oursEfficient(t)))
	return rows
}

// idleOf is what the first and the fifth of five workloads carry of idle memory.
func idleOf(byNode bool) string {
	row := func(kind ledger.Kind, owner string, cost string) ledger.Row {
		return ledger.Row{Kind: kind, Resource: ledger.ResourceMemory, Owner: ledger.Owner{Workload: fleet.WorkloadID(owner)}, Amount: usd(cost)}
	}
	one := []ledger.Row{row(ledger.KindWorkload, "1", "1"), row(ledger.KindWorkload, "2", "1"), row(ledger.KindWorkload, "3", "1"), row(ledger.KindWorkload, "4", "1"), row(ledger.KindIdle, "", "2")}
	other := []ledger.Row{row(ledger.KindWorkload, "5", "1"), row(ledger.KindIdle, "", "5")}
	var rows []ledger.Row
	if byNode {
		rows = append(ledger.ShareIdle(one), ledger.ShareIdle(other)...)
	} else {
		rows = ledger.ShareIdle(append(one, other...))
	}
	carried := map[fleet.WorkloadID]fleet.Money{}
	for _, r := range rows {
		carried[r.Owner.Workload] += r.Amount
	}
	return cents(carried["1"]-usd("1")) + ", " + cents(carried["5"]-usd("1"))
}

func oursEfficient(t *testing.T) float64 {
	cores, mem := 0.5, 512.0
	n := node("a")
	n.GPUCount, n.CPUMilli, n.Price = 0, 2000, price("21")
	n.Weights = market.Weights{CPUHour: usd("10"), GiBHour: usd("1")}
	p := pod("p1", "a", 0)
	p.CPUMilli, p.MemMiB = 2000, 1024
	s := ledger.Close(ledger.Hour{From: hour, To: hour.Add(time.Hour), Nodes: []ledger.Node{n}, Pods: []ledger.Pod{p}, Usage: map[fleet.WorkloadID]ledger.Usage{"w-p1": {CPUCores: &cores, MemMiB: &mem}}})
	ratio, ok := ledger.Efficiency(s.Rows())
	if !ok {
		t.Fatal("no efficiency")
	}
	return ratio
}
