package capacity

import (
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// Labels of pods that are read. Values of lists are joined by "_", since a label may hold neither comma nor bar.
const (
	LabelSpot       = "plimsoll.dev/spot"       // true, false
	LabelModel      = "plimsoll.dev/gpu-model"  // H100_A100-80GB
	LabelArch       = "plimsoll.dev/arch"       // amd64_arm64
	LabelZone       = "plimsoll.dev/zone"       // us-east-1a_us-east-1b
	LabelProtected  = "plimsoll.dev/protected"  // true
	LabelCheckpoint = "plimsoll.dev/checkpoint" // true: a job that may be moved
)

// Evidence fills in what pods may run on and whether they may be moved: labels first, then what the workload's replicas run on now. An
// inventory does not tell selectors, affinity and tolerations, so whatever nothing speaks for is not allowed: Spot for pods none of whose
// siblings runs there, another GPU model than theirs, another architecture. labels belong to pods by index.
func Evidence(nodes []Node, pods []Pod, labels []map[string]string, policy Policy) {
	type seen struct {
		spot, running bool
		models        []fleet.GPUModel
		archs         []string
		replicas      int
	}
	byName, of := map[string]*Node{}, map[string]*seen{}
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	for i := range pods {
		p := &pods[i]
		s := of[p.Workload]
		if s == nil {
			s = &seen{}
			of[p.Workload] = s
		}
		s.replicas++
		n := byName[p.Node]
		if n == nil || p.Workload == "" {
			continue
		}
		s.running = true
		s.spot = s.spot || n.Offering.Purchase == fleet.PurchaseSpot
		if p.GPUCount > 0 && n.GPUModel != "" && !slices.Contains(s.models, n.GPUModel) {
			s.models = append(s.models, n.GPUModel)
		}
		if n.Arch != "" && !slices.Contains(s.archs, n.Arch) {
			s.archs = append(s.archs, n.Arch)
		}
	}
	for i := range pods {
		p, s := &pods[i], of[pods[i].Workload]
		var l map[string]string
		if i < len(labels) {
			l = labels[i]
		}
		p.Daemon = kindOf(p.Workload) == "DaemonSet"
		p.SpotOK = s.spot || policy.SpotUnlabeled && p.Class != packing.ClassGold
		if n := byName[p.Node]; n != nil && n.Offering.Purchase == fleet.PurchaseSpot {
			p.SpotOK = true
		}
		if v, ok := l[LabelSpot]; ok {
			p.SpotOK = v == "true"
		}
		p.Models = nil
		if p.GPUCount > 0 {
			p.Models = slices.Clone(s.models)
			for _, v := range list(l[LabelModel]) {
				if m := fleet.GPUModel(v); !slices.Contains(p.Models, m) {
					p.Models = append(p.Models, m)
				}
			}
			slices.Sort(p.Models)
		}
		p.Archs = slices.Clone(s.archs)
		if v := list(l[LabelArch]); len(v) > 0 {
			p.Archs = v
		}
		slices.Sort(p.Archs)
		p.Where = nil
		if v := list(l[LabelZone]); len(v) > 0 {
			p.Where = []string{"zone=" + strings.Join(v, ",")}
		}
		p.Protected = protection(p, l, s.replicas)
	}
}

func list(v string) []string {
	if v == "" {
		return nil
	}
	return strings.Split(v, "_")
}

// kindOf is the kind in a workload's key, namespace/Kind/name.
func kindOf(workload string) string {
	parts := strings.SplitN(workload, "/", 3)
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

func protection(p *Pod, l map[string]string, replicas int) string {
	switch {
	case l[LabelProtected] == "true" || l["karpenter.sh/do-not-disrupt"] == "true" || l["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false":
		return "label"
	case p.MIG != "":
		return "mig"
	case p.Workload == "":
		return "bare" // nobody would make it again
	case slices.Contains(trainKinds, kindOf(p.Workload)) && l[LabelCheckpoint] != "true":
		return "job"
	case p.Class == packing.ClassGold && replicas == 1:
		return "gold_single"
	}
	return ""
}
