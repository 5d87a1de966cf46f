package capacity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
)

func TestMachinesAreHeldAgainstThePolicy(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	node := func(name string, change func(*NodeFact)) NodeFact {
		n := NodeFact{Name: name, Offering: fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g6.xlarge", Purchase: fleet.PurchaseOnDemand},
			GPUModel: "L4", GPUCount: 1, StartedAt: now.Add(-time.Hour), Labels: map[string]string{"team": "ml", "nvidia.com/cuda.driver-version.major": "570"}, Taints: []string{"nvidia.com/gpu=present:NoSchedule"}, TaintsOK: true, Kubelet: "v1.33.5-eks-3cfe0ce"}
		if change != nil {
			change(&n)
		}
		return n
	}
	p := Policy{InstanceTypes: []string{"g6.xlarge"}, Zones: []string{"us-east-1a"}, NoSpot: true,
		Rules: &NodeRules{MaxAgeHours: 48, Labels: []string{"team=ml"}, GPUTaints: []string{"nvidia.com/gpu:NoSchedule"}, MinDriver: 550, SameDriver: true}}
	type want struct {
		findings, unchecked []string
		exempt              bool
	}
	cases := map[string]struct {
		change func(*NodeFact)
		want   want
	}{
		"as it should be":                 {nil, want{}},
		"other type":                      {func(n *NodeFact) { n.Offering.InstanceType = "p5.48xlarge" }, want{findings: []string{"type"}}},
		"type not told":                   {func(n *NodeFact) { n.Offering.InstanceType = "" }, want{unchecked: []string{"type"}}},
		"other zone":                      {func(n *NodeFact) { n.Offering.Zone = "us-east-1b" }, want{findings: []string{"zone"}}},
		"on Spot":                         {func(n *NodeFact) { n.Offering.Purchase = fleet.PurchaseSpot }, want{findings: []string{"spot"}}},
		"too old":                         {func(n *NodeFact) { n.StartedAt = now.Add(-72 * time.Hour) }, want{findings: []string{"age"}}},
		"no label":                        {func(n *NodeFact) { delete(n.Labels, "team") }, want{findings: []string{"label"}}},
		"other label":                     {func(n *NodeFact) { n.Labels["team"] = "web" }, want{findings: []string{"label"}}},
		"no taint":                        {func(n *NodeFact) { n.Taints = nil }, want{findings: []string{"taint"}}},
		"taints not told":                 {func(n *NodeFact) { n.Taints, n.TaintsOK = nil, false }, want{unchecked: []string{"taint"}}},
		"old driver":                      {func(n *NodeFact) { n.Labels["nvidia.com/cuda.driver-version.major"] = "535" }, want{findings: []string{"driver"}}},
		"another driver":                  {func(n *NodeFact) { n.Labels["nvidia.com/cuda.driver-version.major"] = "580" }, want{findings: []string{"driver_differs"}}},
		"driver not told":                 {func(n *NodeFact) { delete(n.Labels, "nvidia.com/cuda.driver-version.major") }, want{unchecked: []string{"driver"}}},
		"driver by telemetry":             {func(n *NodeFact) { delete(n.Labels, "nvidia.com/cuda.driver-version.major"); n.Driver = "570.86.10" }, want{}},
		"old driver by telemetry":         {func(n *NodeFact) { delete(n.Labels, "nvidia.com/cuda.driver-version.major"); n.Driver = "535.104.05" }, want{findings: []string{"driver"}}},
		"labels before telemetry":         {func(n *NodeFact) { n.Driver = "535.104.05" }, want{}},
		"driver is no version":            {func(n *NodeFact) { delete(n.Labels, "nvidia.com/cuda.driver-version.major"); n.Driver = "none" }, want{unchecked: []string{"driver"}}},
		"kubelet of the server's version": {func(n *NodeFact) { n.Kubelet = "v1.34.3+k3s1" }, want{}},
		"kubelet three minors older":      {func(n *NodeFact) { n.Kubelet = "v1.31.0" }, want{}},
		"kubelet four minors older":       {func(n *NodeFact) { n.Kubelet = "v1.30.14" }, want{findings: []string{"kubelet_old"}}},
		"kubelet newer":                   {func(n *NodeFact) { n.Kubelet = "v1.35.0" }, want{findings: []string{"kubelet_new"}}},
		"kubelet of another major":        {func(n *NodeFact) { n.Kubelet = "v2.1.0" }, want{findings: []string{"kubelet_new"}}},
		"kubelet not told":                {func(n *NodeFact) { n.Kubelet = "" }, want{unchecked: []string{"kubelet"}}},
		"kubelet's version is a word":     {func(n *NodeFact) { n.Kubelet = "v1.x" }, want{unchecked: []string{"kubelet"}}},
		"no GPUs":                         {func(n *NodeFact) { n.GPUCount, n.Taints = 0, nil }, want{}},
		"of control plane":                {func(n *NodeFact) { n.Labels[labelControlPlane], n.Offering.InstanceType = "", "t3.large" }, want{exempt: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := []NodeFact{node("other-1", nil), node("other-2", nil), node("x", c.change)}
			for _, n := range Comply(p, "v1.34.1", now, nodes) {
				if n.Name != "x" {
					if len(n.Findings) > 0 {
						t.Errorf("%s: %+v", n.Name, n.Findings)
					}
					continue
				}
				var got want
				for _, f := range n.Findings {
					got.findings = append(got.findings, f.Code)
				}
				if len(n.Unchecked) > 0 {
					got.unchecked = n.Unchecked
				}
				got.exempt = n.Exempt
				if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(want{})); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	if got := Comply(Policy{}, "", now, []NodeFact{node("x", func(n *NodeFact) { n.Offering.InstanceType, n.Labels, n.Kubelet = "", nil, "" })}); len(got[0].Findings)+len(got[0].Unchecked) != 0 {
		t.Errorf("a policy that asks for nothing: %+v", got)
	}
}

func TestRulesAboutMachinesThatHaveNoMeaningAreRefused(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*NodeRules{
		"negative age": {MaxAgeHours: -1}, "no key": {Labels: []string{"=x"}}, "with a space": {GPUTaints: []string{"a b"}}, "negative driver": {MinDriver: -1}, "too many": {Labels: make([]string, 51)},
	} {
		if (Policy{Rules: r}).Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := (Policy{Rules: &NodeRules{Labels: []string{"team"}, GPUTaints: []string{"nvidia.com/gpu=present:NoSchedule"}}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestAKubeletIsHeldAgainstNoServerThatIsNotKnown(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]int{"": 1, "unknown": 1, "v1.34.1": 0, "1.34+": 0} {
		got := Comply(Policy{}, server, time.Time{}, []NodeFact{{Name: "x", Kubelet: "v1.33.0"}})[0]
		if len(got.Findings) != 0 || len(got.Unchecked) != want {
			t.Errorf("server %q: %+v", server, got)
		}
	}
}
