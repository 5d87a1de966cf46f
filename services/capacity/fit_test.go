package capacity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// computeOf is the compute capability of the models of this file's machines.
func computeOf(m fleet.GPUModel) (int64, bool) {
	v, ok := map[fleet.GPUModel]int64{"L4": 89, "H100": 90, "T4": 75}[m]
	return v, ok
}

// gfd is what feature discovery says about a node.
func gfd(driver, cuda, compute string) map[string]string {
	out := map[string]string{}
	for i, v := range strings.Split(driver, ".") {
		out["nvidia.com/cuda.driver."+[]string{"major", "minor", "rev"}[i]] = v
	}
	for i, v := range strings.Split(cuda, ".") {
		out["nvidia.com/cuda.runtime."+[]string{"major", "minor"}[i]] = v
	}
	for i, v := range strings.Split(compute, ".") {
		out["nvidia.com/gpu.compute."+[]string{"major", "minor"}[i]] = v
	}
	return out
}

func TestDriversFit(t *testing.T) {
	t.Parallel()
	note := func(key, v string) map[string]string { return map[string]string{key: v} }
	rule := func(key, op, v string) *capacity.Placement {
		return &capacity.Placement{NodeTerms: [][]capacity.Requirement{{{Key: key, Operator: op, Values: []string{v}}}}}
	}
	old, recent := gfd("535.104.05", "12.2", "8.9"), gfd("560.35.03", "12.6", "8.9")
	for name, c := range map[string]struct {
		notes  map[string]string
		labels map[string]string
		at     *capacity.Placement
		node   map[string]string // labels of the machine that has room
		policy capacity.Policy
		want   string // cause of the pod's waiting, the new machine, or what blocks it
	}{
		"nothing is asked":                             {node: nil, want: "room n"},
		"the driver is new enough":                     {notes: note(capacity.NoteMinDriver, "550.54"), node: recent, want: "room n"},
		"the driver is too old, and no new one known":  {notes: note(capacity.NoteMinDriver, "550.54"), node: old, want: "fits_nothing [driver]"},
		"the driver is not known":                      {notes: note(capacity.NoteMinDriver, "550.54"), node: nil, want: "fits_nothing [driver]"},
		"the policy names the driver of new machines":  {notes: note(capacity.NoteMinDriver, "550.54"), node: old, policy: capacity.Policy{GPUDriver: "550.54.14"}, want: "new_node one"},
		"it names one that is too old":                 {notes: note(capacity.NoteMinDriver, "560"), node: old, policy: capacity.Policy{GPUDriver: "550.54.14"}, want: "fits_nothing [driver]"},
		"CUDA by the newest that the driver runs":      {notes: note(capacity.NoteMinCUDA, "12.4"), node: recent, want: "room n"},
		"CUDA too new for the driver":                  {notes: note(capacity.NoteMinCUDA, "12.4"), node: old, want: "fits_nothing [cuda]"},
		"CUDA by the driver's table":                   {notes: note(capacity.NoteMinCUDA, "12.4"), node: old, policy: capacity.Policy{GPUDriver: "550.54.14"}, want: "new_node one"},
		"a label asks as an annotation does":           {labels: note(capacity.NoteMinCUDA, "13.0"), node: recent, want: "fits_nothing [cuda]"},
		"compute capability by the model":              {notes: note(capacity.NoteMinCompute, "9.0"), node: recent, want: "new_node big"},
		"compute capability that no chip has":          {notes: note(capacity.NoteMinCompute, "12.0"), node: recent, want: "fits_nothing [compute_capability]"},
		"affinity to the driver's label":               {at: rule("nvidia.com/cuda.driver.major", "Gt", "549"), node: recent, want: "room n"},
		"affinity that an old driver does not meet":    {at: rule("nvidia.com/cuda.driver.major", "Gt", "549"), node: old, want: "fits_nothing [driver]"},
		"affinity to the chip's label":                 {at: rule("nvidia.com/gpu.compute.major", "Gt", "8"), node: recent, want: "new_node big"},
		"the policy asks for a workload":               {node: old, policy: capacity.Policy{GPUNeeds: []capacity.GPUNeed{{Workload: "ns/", CUDA: "12.4"}}}, want: "fits_nothing [cuda]"},
		"the policy asks for another workload":         {node: old, policy: capacity.Policy{GPUNeeds: []capacity.GPUNeed{{Workload: "other/", CUDA: "12.4"}}}, want: "room n"},
		"the pod says more than the policy":            {notes: note(capacity.NoteMinCUDA, "12.0"), node: old, policy: capacity.Policy{GPUNeeds: []capacity.GPUNeed{{CUDA: "12.4"}}}, want: "room n"},
		"a version that is none is not guessed":        {notes: note(capacity.NoteMinDriver, "latest"), node: recent, want: "fits_nothing [where]"},
		"newer words of feature discovery":             {notes: note(capacity.NoteMinDriver, "550"), node: note("nvidia.com/cuda.driver-version.full", "570.86.15"), want: "room n"},
		"feature discovery says something unreadable":  {notes: note(capacity.NoteMinDriver, "550"), node: note("nvidia.com/cuda.driver-version.full", "N/A"), want: "fits_nothing [driver]"},
		"two needs, one of which nothing meets at all": {notes: map[string]string{capacity.NoteMinCompute: "12.0", capacity.NoteMinDriver: "550"}, node: recent, want: "fits_nothing [compute_capability]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := input([]capacity.Node{node("n", "one", fleet.PurchaseOnDemand)}, pod("p1", "", 1000, 1))
			x.Policy = c.policy
			for i := range x.Candidates { // what runs as "one" says nothing about other types
				x.Candidates[i].Labels = nil
			}
			told := &capacity.Told{NodeLabels: []map[string]string{c.node}, PodLabels: []map[string]string{c.labels}, Placements: []*capacity.Placement{c.at}}
			capacity.Rule(&x, told)
			capacity.Fit(&x, told, []map[string]string{c.notes}, computeOf)
			p := decide(t, x)
			w := p.Waiting[0]
			got := string(w.Cause) + " " + w.Node
			switch w.Cause {
			case capacity.CauseNew:
				got = "new_node " + p.Add[*w.Group].Offering.InstanceType
			case capacity.CauseNothing:
				got = fmt.Sprint("fits_nothing ", w.Blocked)
			}
			if got != c.want {
				t.Errorf("%s, want %s; reasons %v", got, c.want, w.Reasons)
			}
		})
	}
}

// Nothing is placed where its need is not known to be met: neither on a machine that runs nor on one that is bought, whatever versions there are.
func TestNoPodIsPlacedWhereItsDriverIsTooOld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.SampledFrom([]string{"", "470.82", "535.104.05", "550.54", "560.35.03"})
		var nodes []capacity.Node
		told := &capacity.Told{}
		facts := map[string]capacity.Facts{}
		for i := range rapid.IntRange(0, 3).Draw(t, "machines") {
			n := node(fmt.Sprint("n", i), rapid.SampledFrom([]string{"one", "four", "big"}).Draw(t, "type"), fleet.PurchaseOnDemand)
			v := version.Draw(t, "driver")
			l := map[string]string{}
			if v != "" {
				l["nvidia.com/cuda.driver-version.full"] = v
			}
			nodes, told.NodeLabels = append(nodes, n), append(told.NodeLabels, l)
			facts[n.Name] = capacity.FactsOf(l)
		}
		var pods []capacity.Pod
		var notes []map[string]string
		for i := range rapid.IntRange(1, 4).Draw(t, "pods") {
			pods = append(pods, pod(fmt.Sprint("p", i), "", 1000, 1))
			n := map[string]string{}
			if v := version.Draw(t, "asks"); v != "" {
				n[capacity.NoteMinDriver] = v
			}
			notes = append(notes, n)
		}
		x := input(nodes, pods...)
		x.Policy.GPUDriver = version.Draw(t, "image")
		told.Placements = make([]*capacity.Placement, len(pods))
		capacity.Rule(&x, told)
		capacity.Fit(&x, told, notes, computeOf)
		p := decide(t, x)
		atLeast := func(pod string, driver string) {
			for i := range pods {
				if want := notes[i][capacity.NoteMinDriver]; pods[i].Name == pod && want != "" && (driver == "" || capacity.Older(driver, want)) {
					t.Fatalf("%s asks for %s and is placed on %q", pod, want, driver)
				}
			}
		}
		for _, w := range p.Waiting {
			if w.Cause == capacity.CauseRoom {
				atLeast(w.Pod, facts[w.Node].Driver)
			}
		}
		for _, g := range p.Add {
			for _, m := range g.Machines {
				for _, name := range m.Pods {
					atLeast(name, x.Candidates[g.Candidate].Facts.Driver)
				}
			}
		}
	})
}

func TestFactsOfPackingReasons(t *testing.T) {
	t.Parallel()
	x := input(nil, pod("p1", "", 1000, 1))
	told := &capacity.Told{Placements: []*capacity.Placement{nil}}
	capacity.Rule(&x, told)
	capacity.Fit(&x, told, []map[string]string{{capacity.NoteMinCUDA: "12.4", capacity.NoteMinCompute: "9.0"}}, computeOf)
	w := decide(t, x).Waiting[0]
	count := map[packing.Constraint]packing.Reason{}
	for _, r := range w.Reasons {
		count[r.Constraint] = r
	}
	if count[packing.ConstraintCUDA].Offerings != len(x.Candidates) || count[packing.ConstraintWhere].Offerings != 0 || count[packing.ConstraintCompute].Offerings == 0 || count[packing.ConstraintCUDA].Alone == 0 {
		t.Errorf("reasons %v", w.Reasons)
	}
}

func TestMovingAJobCostsTheWorkThatItLoses(t *testing.T) {
	t.Parallel()
	train := func(p capacity.Pod) capacity.Pod {
		p.Workload, p.ReadyAt = "ns/Job/train", now.Add(-5*time.Hour)
		return p
	}
	for name, c := range map[string]struct {
		notes  map[string]string
		drains bool
		label  bool
		want   string
	}{
		"a job that says nothing is not moved":            {want: "protected job"},
		"one that nobody can tell is not moved":           {notes: map[string]string{capacity.NoteCheckpoint: "http://:80/save"}, want: "protected job"},
		"one that is told loses what telling takes":       {notes: map[string]string{capacity.NoteCheckpoint: "http://:80/save", capacity.NoteCheckpointSeconds: "60"}, drains: true, want: "moved"},
		"one that would lose five hours of work":          {label: true, want: "no_gain"},
		"one that saved its work a minute ago":            {label: true, notes: map[string]string{capacity.NoteCheckpointed: now.Add(-time.Minute).Format(time.RFC3339)}, want: "moved"},
		"one that saved its work four hours ago":          {label: true, notes: map[string]string{capacity.NoteCheckpointed: now.Add(-4 * time.Hour).Format(time.RFC3339)}, want: "no_gain"},
		"one that says that it saved its work tomorrow":   {label: true, notes: map[string]string{capacity.NoteCheckpointed: now.Add(24 * time.Hour).Format(time.RFC3339)}, want: "no_gain"},
		"one that says when in words that nobody can use": {label: true, notes: map[string]string{capacity.NoteCheckpointed: "just now"}, want: "no_gain"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := input([]capacity.Node{node("n", "one", fleet.PurchaseOnDemand)}, train(pod("t1", "n", 7000, 1)))
			x.Policy.HorizonHours = 3
			x.Pods[0].SpotOK = true
			labels := []map[string]string{{}}
			if c.label {
				labels[0][capacity.LabelCheckpoint] = "true"
			}
			labels[0][capacity.LabelSpot] = "true"
			capacity.Evidence(x.Nodes, x.Pods, labels, x.Policy)
			capacity.Remember(&x, []map[string]string{c.notes}, c.drains)
			p := decide(t, x)
			got := "moved"
			if len(p.Drain) == 0 {
				got = p.Nodes[0].Reason
				if got == "protected" {
					got += " " + x.Pods[0].Protected
				}
			}
			if got != c.want {
				t.Errorf("%s, want %s: %q", got, c.want, told(p))
			}
		})
	}
}

func TestADriverThatOnlyTelemetryTellsMeetsNeedsAndNoSelector(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		labels map[string]string
		told   string
		want   capacity.Facts
	}{
		"telemetry alone":     {nil, "550.54.14", capacity.Facts{Driver: "550.54.14", CUDA: "12.4", Unlabelled: true}},
		"labels come first":   {map[string]string{"nvidia.com/cuda.driver-version.full": "570.86.10"}, "550.54.14", capacity.Facts{Driver: "570.86.10", CUDA: "12.8"}},
		"a word no version":   {nil, "none", capacity.Facts{}},
		"nobody tells it":     {nil, "", capacity.Facts{}},
		"a version of nought": {nil, "..", capacity.Facts{}},
	} {
		in := &capacity.Input{Nodes: []capacity.Node{{Name: "n", GPUCount: 1, Offering: fleet.Offering{InstanceType: "g6.xlarge"}}}, Candidates: []capacity.Candidate{{Offering: fleet.Offering{InstanceType: "g6.xlarge"}, GPUCount: 1}}}
		capacity.Fit(in, &capacity.Told{NodeLabels: []map[string]string{c.labels}, NodeDrivers: []string{c.told}}, nil, func(fleet.GPUModel) (int64, bool) { return 0, false })
		if in.Nodes[0].Facts != c.want || in.Candidates[0].Facts != c.want {
			t.Errorf("%s: node %+v, offering %+v", name, in.Nodes[0].Facts, in.Candidates[0].Facts)
		}
	}
}
