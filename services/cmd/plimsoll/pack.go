package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// packInput bounds what a file of pods or offerings may unpack to.
const packInput = 512 << 20

func packCommand(_ context.Context, args []string, stdout, stderr io.Writer) error {
	started := time.Now()
	set := flag.NewFlagSet("plimsoll pack", flag.ContinueOnError)
	podsFile := set.String("pods", "", "CSV `FILE` (or .csv.gz) of pods: name,cpu_milli,mem_mib,gpu_count,gpu_milli,gpu_models,spot_ok[,arch]")
	catalogFile := set.String("catalog", "", "CSV `FILE` (or .csv.gz) of offerings; docs/packing.md tells the columns")
	rulesFile := set.String("constraints", "", "YAML or JSON `FILE` of limits, daemons, equivalent models, budget and rules of workloads; docs/packing.md tells the fields")
	existingFile := set.String("existing", "", "CSV `FILE` of running machines, a line per pod: node,instance_type,zone,capacity_type,pod[,reservation_id]")
	moveCost := set.String("move-cost", "0.05", "with -existing: what moving a pod costs, in $/h over the time a plan should pay off")
	asJSON := set.Bool("json", false, "print JSON: every node with its pods")
	deadline := set.Duration("deadline", 0, "stop with the best so far this long after the start, reading included; 0: when done")
	ban := set.Bool("no-cpu-on-gpu", false, "keep pods without GPUs off machines with GPUs")
	share := set.Bool("share-gpus", false, "all machines share GPUs by gpu_milli; otherwise those whose gpu_sharing is 1")
	effort := set.Int("effort", 0, "how long to improve, 1 to 100; 0: the default, 10")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	if *podsFile == "" || *catalogFile == "" || *effort < 0 || *effort > 100 || *deadline < 0 {
		fmt.Fprintln(stderr, "plimsoll pack: give -pods and -catalog; -effort is 0 to 100, -deadline not negative")
		return errUsage
	}
	pods, err := packRead(*podsFile, packing.ReadPods)
	if err != nil {
		return err
	}
	offerings, err := packRead(*catalogFile, packing.ReadOfferings)
	if err != nil {
		return err
	}
	opts := packing.Options{ShareGPUs: *share, NoCPUOnGPU: *ban, Effort: *effort}
	if *deadline > 0 {
		opts.Stop = func() bool { return time.Since(started) >= *deadline }
	}
	if *rulesFile != "" {
		if err := packConstraints(*rulesFile, pods, &opts); err != nil {
			return err
		}
	}
	if *existingFile != "" {
		moving, err := fleet.ParseMoney(*moveCost)
		if err != nil {
			return err
		}
		rows, err := packRead(*existingFile, readRunning)
		if err != nil {
			return err
		}
		return packFrom(stdout, *asJSON, rows, pods, offerings, moving, opts)
	}
	answer, err := packing.Pack(pods, offerings, opts)
	if err != nil {
		return err
	}
	if err := packing.Check(pods, offerings, opts, answer); err != nil {
		return err
	}
	cpu, peak := packUsage()
	if *asJSON {
		return packJSON(stdout, pods, offerings, answer, cpu, peak, nil, func(int) string { return "" })
	}
	return packText(stdout, pods, offerings, answer, cpu, peak)
}

// packRead opens a file, unpacks it if it is packed, and reads it whole.
func packRead[T any](name string, read func(io.Reader) ([]T, error)) ([]T, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "%v", err)
	}
	defer f.Close()
	var r io.Reader = bufio.NewReaderSize(f, 1<<16)
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(r); err != nil {
			return nil, fleet.Errorf(fleet.CodeInvalid, "%s: %v", name, err)
		}
	}
	out, err := read(io.LimitReader(r, packInput))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// packUsage is the CPU time and the most memory this process has used so far.
func packUsage() (cpu time.Duration, peak int64) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Maxrss * packRSSUnit
}

type packNode struct {
	Node         string   `json:"node,omitempty"` // of those that run
	InstanceType string   `json:"instance_type"`
	Zone         string   `json:"zone"`
	CapacityType string   `json:"capacity_type"`
	Reservation  string   `json:"reservation_id,omitempty"`
	Price        string   `json:"price_per_hour"`
	Pods         []string `json:"pods"`
}

type packReason struct {
	Constraint string `json:"constraint"`
	Detail     string `json:"detail,omitempty"` // the limit, label, gang or class it is about
	Offerings  int    `json:"offerings"`
	Alone      int    `json:"alone"`
}

type packUnplaced struct {
	Pod     string       `json:"pod"`
	Blocked []string     `json:"blocked_by,omitempty"` // no offering meets these constraints together
	Reasons []packReason `json:"reasons"`
}

// packChange tells what a plan from running machines changes.
type packChange struct {
	Before       string   `json:"cost_before_per_hour"`
	Anew         string   `json:"cost_anew_per_hour"` // of packing everything anew
	Milliseconds float64  `json:"planned_in_ms"`
	Moved        []string `json:"moved_pods"`
	Ended        []string `json:"ended_nodes"`
}

type packDocument struct {
	CostPerHour   string         `json:"cost_per_hour"`
	BoundPerHour  string         `json:"bound_per_hour"`
	Gap           float64        `json:"gap"`
	Weighed       string         `json:"weighed_cost_per_hour"` // with the hazard of interruptions: what the bound bounds
	OverBudget    string         `json:"over_budget_per_hour,omitempty"`
	Relaxed       []string       `json:"spreads_given_up,omitempty"`
	Contradictory []string       `json:"contradictions,omitempty"`
	Pods          int            `json:"pods"`
	Shapes        int            `json:"shapes"`
	Offerings     int            `json:"offerings"`
	Useful        int            `json:"useful_offerings"`
	CPUSeconds    float64        `json:"cpu_seconds"`
	PeakMiB       float64        `json:"peak_memory_mib"`
	Stopped       bool           `json:"stopped_at_deadline"`
	Change        *packChange    `json:"change,omitempty"`
	Nodes         []packNode     `json:"nodes"`
	Unschedulable []packUnplaced `json:"unschedulable"`
}

func packJSON(out io.Writer, pods []packing.Pod, offerings []packing.Offering, a *packing.Answer, cpu time.Duration, peak int64, change *packChange, name func(node int) string) error {
	d := packDocument{Weighed: a.Weighed.String(), Relaxed: a.Relaxed, Contradictory: packing.Contradictions(pods), CostPerHour: a.Cost.String(), BoundPerHour: a.Bound.String(), Gap: a.Gap(), Pods: len(pods), Shapes: a.Stats.Shapes,
		Offerings: len(offerings), Useful: a.Stats.Offerings, CPUSeconds: cpu.Seconds(), PeakMiB: float64(peak) / (1 << 20), Stopped: a.Stats.Stopped, Change: change,
		Nodes: []packNode{}, Unschedulable: []packUnplaced{}}
	if a.Over > 0 {
		d.OverBudget = a.Over.String()
	}
	for k, n := range a.Nodes {
		o := &offerings[n.Offering]
		node := packNode{Node: name(k), InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: string(o.Purchase), Reservation: o.ReservationID, Price: o.Price.String()}
		for _, i := range n.Pods {
			node.Pods = append(node.Pods, pods[i].Name)
		}
		d.Nodes = append(d.Nodes, node)
	}
	for _, u := range a.Unplaced {
		d.Unschedulable = append(d.Unschedulable, packUnplaced{Pod: pods[u.Pod].Name, Blocked: packNames(u.Blocked), Reasons: packReasons(u.Reasons)})
	}
	e := json.NewEncoder(out)
	e.SetIndent("", " ")
	return e.Encode(d)
}

func packReasons(in []packing.Reason) []packReason {
	out := make([]packReason, 0, len(in))
	for _, r := range in {
		out = append(out, packReason{Constraint: string(r.Constraint), Detail: r.Detail, Offerings: r.Offerings, Alone: r.Alone})
	}
	return out
}

func packText(out io.Writer, pods []packing.Pod, offerings []packing.Offering, a *packing.Answer, cpu time.Duration, peak int64) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "nodes\tinstance type\tzone\tcapacity\t$/h each\t$/h\tpods\n")
	nodes := append([]packing.Node(nil), a.Nodes...)
	sort.SliceStable(nodes, func(x, y int) bool { return nodes[x].Offering < nodes[y].Offering })
	for i := 0; i < len(nodes); {
		o, k, on := &offerings[nodes[i].Offering], i, 0
		for ; k < len(nodes) && nodes[k].Offering == nodes[i].Offering; k++ {
			on += len(nodes[k].Pods)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%d\n", k-i, o.InstanceType, o.Zone, o.Purchase, *o.Price, *o.Price*fleet.Money(k-i), on)
		i = k
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d pods (%d shapes) on %d nodes: %s $/h; no packing costs less than %s $/h: gap %.2f %%\n",
		len(pods)-len(a.Unplaced), a.Stats.Shapes, len(a.Nodes), a.Cost, a.Bound, 100*a.Gap())
	fmt.Fprintf(out, "%.2f CPU-seconds, %.0f MiB; %d of %d offerings can be of use", cpu.Seconds(), float64(peak)/(1<<20), a.Stats.Offerings, len(offerings))
	if a.Stats.Stopped {
		fmt.Fprint(out, "; stopped at the deadline")
	}
	fmt.Fprintln(out)
	if a.Weighed != a.Cost {
		fmt.Fprintf(out, "with the hazard of interruptions: %s $/h, which is what the bound bounds\n", a.Weighed)
	}
	if a.Over > 0 {
		fmt.Fprintf(out, "gold pods alone cost %s $/h more than the budget\n", a.Over)
	}
	if len(a.Relaxed) > 0 {
		fmt.Fprintf(out, "spread given up, scheduled anyway: %s\n", strings.Join(a.Relaxed, ", "))
	}
	for _, c := range packing.Contradictions(pods) {
		fmt.Fprintf(out, "contradiction: %s\n", c)
	}
	return packUnschedulable(out, pods, a)
}

func packNames(in []packing.Constraint) []string {
	var out []string
	for _, c := range in {
		out = append(out, string(c))
	}
	return out
}

// packUnschedulable tells pods that fit nothing, those with the same reasons together.
func packUnschedulable(out io.Writer, pods []packing.Pod, a *packing.Answer) error {
	groups := map[string][]string{}
	var order []string
	for _, u := range a.Unplaced {
		var parts []string
		for _, r := range u.Reasons {
			part := string(r.Constraint)
			if r.Detail != "" {
				part += " " + r.Detail
			}
			if r.Offerings > 0 || r.Detail == "" {
				part += fmt.Sprintf(" %d", r.Offerings)
			}
			if r.Alone > 0 {
				part += fmt.Sprintf(" (%d fail only this)", r.Alone)
			}
			parts = append(parts, part)
		}
		key := strings.Join(parts, ", ")
		if len(u.Blocked) > 0 {
			key += "\n  no offering meets: " + strings.Join(packNames(u.Blocked), " and ")
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], pods[u.Pod].Name)
	}
	for _, key := range order {
		names := groups[key]
		more := ""
		if len(names) > 8 {
			names, more = names[:8], fmt.Sprintf(" and %d more", len(names)-8)
		}
		if _, err := fmt.Fprintf(out, "unschedulable: %s%s\n  offerings that fail: %s\n", strings.Join(names, ", "), more, key); err != nil {
			return err
		}
	}
	return nil
}
