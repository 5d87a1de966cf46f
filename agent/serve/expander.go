package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"plimsoll.dev/agent/serve/contract/expander"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
)

const (
	maxOptions = 2000
	// redoHours is the work that an interruption costs: boot, pull and warm-up of a replacement, and what was lost.
	redoHours = 0.5
	// alike: options within this share of the best are as good; Cluster Autoscaler's next expander chooses among them.
	alike = 0.01
)

// Weights of what pods ask for, in the proportion of list prices of general-purpose and GPU machines in the catalogue: a vCPU about 8
// times a GiB, the smallest GPU about 16 vCPUs. They matter only where options would run different pods.
const (
	weightCPU = 8.0   // per core
	weightGiB = 1.0   //
	weightGPU = 128.0 // per device, MIG slices alike
)

// expanderServer answers Cluster Autoscaler.
type expanderServer struct {
	expander.UnimplementedExpanderServer
	board *Board
	gate  Gate
	busy  chan struct{} // bounds how many requests, which may be large, are worked on at once
	log   *slog.Logger
}

// choice is an option with what is known of it.
type choice struct {
	option *expander.Option
	known  bool
	dry    bool    // seen empty a moment ago
	score  float64 // expected nano-dollars an hour per weight of pods served
}

// BestOptions implements the contract. What it cannot rank it gives back as it came: an autoscaler is never left without an option.
func (s *expanderServer) BestOptions(ctx context.Context, req *expander.BestOptionsRequest) (*expander.BestOptionsResponse, error) {
	if len(req.GetOptions()) > maxOptions {
		return nil, status.Errorf(codes.ResourceExhausted, "%d options; %d are looked at", len(req.GetOptions()), maxOptions)
	}
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if ok, why := s.gate(); !ok {
		s.log.Info("node groups", "chosen", "all", "why", why)
		return &expander.BestOptionsResponse{Options: plain(req.GetOptions())}, nil
	}
	if s.board.env.Frozen() {
		s.log.Info("node groups", "chosen", "all", "why", "changes are frozen")
		return &expander.BestOptionsResponse{Options: plain(req.GetOptions())}, nil
	}
	best, why := choose(ctx, req, s.board.prices(), s.board.env.NowMS())
	s.log.Info("node groups", "options", len(req.GetOptions()), "chosen", strings.Join(names(best), ","), "why", why)
	return &expander.BestOptionsResponse{Options: plain(best)}, nil
}

// plain leaves the pods out of an answer: Cluster Autoscaler knows an option by its node group.
func plain(options []*expander.Option) []*expander.Option {
	out := make([]*expander.Option, 0, len(options))
	for _, o := range options {
		if o != nil {
			out = append(out, &expander.Option{NodeGroupId: o.GetNodeGroupId(), NodeCount: o.GetNodeCount(), Debug: o.GetDebug()})
		}
	}
	return out
}

func names(options []*expander.Option) []string {
	out := make([]string, 0, min(len(options), 8))
	for _, o := range options {
		if len(out) == 8 {
			return append(out, "...")
		}
		out = append(out, o.GetNodeGroupId())
	}
	return out
}

// choose returns the options that are cheapest for what they would run, or all of them, and why.
func choose(ctx context.Context, req *expander.BestOptionsRequest, prices *offerings, nowMS int64) ([]*expander.Option, string) {
	all := req.GetOptions()
	if prices == nil {
		return all, "no prices are known now"
	}
	weights := podWeights(ctx, all)
	choices := make([]choice, 0, len(all))
	for i, o := range all {
		if ctx.Err() != nil {
			return all, "the time to answer is over"
		}
		choices = append(choices, rank(o, weights[i], req, prices, nowMS))
	}
	known := slices.DeleteFunc(slices.Clone(choices), func(c choice) bool { return !c.known || c.dry })
	if len(known) == 0 {
		wet := slices.DeleteFunc(choices, func(c choice) bool { return c.dry })
		if len(wet) == 0 || len(wet) == len(all) {
			return all, "nothing is known that tells them apart"
		}
		return optionsOf(wet), "the others were out of stock a moment ago"
	}
	slices.SortStableFunc(known, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.option.GetNodeGroupId(), b.option.GetNodeGroupId()))
	})
	last := known[0].score * (1 + alike)
	best := slices.DeleteFunc(slices.Clone(known), func(c choice) bool { return c.score > last })
	return optionsOf(best), fmt.Sprintf("cheapest of %d with a price, %d without or out of stock", len(known), len(all)-len(known))
}

func optionsOf(choices []choice) []*expander.Option {
	out := make([]*expander.Option, 0, len(choices))
	for _, c := range choices {
		out = append(out, c.option)
	}
	return out
}

// rank gives an option its expected cost: the effective price of its nodes, and of the work that interruptions would have done again,
// over the chance that they are to be had, per weight of the pods that they would run.
func rank(o *expander.Option, weight float64, req *expander.BestOptionsRequest, prices *offerings, nowMS int64) choice {
	c := choice{option: o}
	at, ok := template(req, o.GetNodeGroupId())
	if !ok || o.GetNodeCount() <= 0 {
		return c
	}
	x, ok := prices.find(at)
	if !ok {
		return c
	}
	c.dry = x.stockedOutTill > nowMS || x.stockOut >= 1
	if c.dry {
		return c
	}
	c.known = true
	c.score = float64(x.hourNano) * float64(o.GetNodeCount()) * (1 + x.hazard*redoHours) / (1 - x.stockOut) / weight
	return c
}

// podWeights weighs the pods of each option; where some pod cannot be read, pods count alike.
func podWeights(ctx context.Context, options []*expander.Option) []float64 {
	out := make([]float64, len(options))
	readable := true
	for i, o := range options {
		pods := podsOf(o)
		for _, raw := range pods {
			w, ok := podWeight(raw)
			readable = readable && ok && ctx.Err() == nil
			out[i] += w
			if !readable {
				break
			}
		}
		if len(pods) == 0 {
			readable = false
		}
	}
	if readable {
		return out
	}
	for i, o := range options {
		out[i] = float64(max(len(podsOf(o)), 1))
	}
	return out
}

func podsOf(o *expander.Option) [][]byte {
	if len(o.GetPodBytes()) > 0 {
		return o.GetPodBytes()
	}
	return o.GetPod()
}

func podWeight(raw []byte) (float64, bool) {
	var pod corev1.Pod
	if err := pod.Unmarshal(raw); err != nil {
		return 0, false
	}
	w := 0.01 // a pod that asks for nothing still wants a place
	for i := range pod.Spec.Containers {
		for name, q := range pod.Spec.Containers[i].Resources.Requests {
			switch {
			case name == corev1.ResourceCPU:
				w += weightCPU * q.AsApproximateFloat64()
			case name == corev1.ResourceMemory:
				w += weightGiB * q.AsApproximateFloat64() / (1 << 30)
			case strings.HasPrefix(string(name), "nvidia.com/"), name == "amd.com/gpu":
				w += weightGPU * q.AsApproximateFloat64()
			}
		}
	}
	return w, w > 0 && w < 1e12
}

// Labels by which a node says what it was bought as. Ours win.
var (
	regionLabels   = []string{"plimsoll.dev/region", corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion}
	zoneLabels     = []string{"plimsoll.dev/zone", corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}
	typeLabels     = []string{"plimsoll.dev/instance-type", corev1.LabelInstanceTypeStable, corev1.LabelInstanceType}
	purchaseLabels = []string{"plimsoll.dev/purchase", "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType", "kubernetes.azure.com/scalesetpriority", "node.kubernetes.io/lifecycle"}
)

// template reads what the nodes of a group are bought as from the group's template node.
func template(req *expander.BestOptionsRequest, group string) (place, bool) {
	raw, ok := req.GetNodeBytesMap()[group]
	if !ok {
		raw, ok = req.GetNodeMap()[group]
	}
	var node corev1.Node
	if !ok || node.Unmarshal(raw) != nil {
		return place{}, false
	}
	p := place{region: first(node.Labels, regionLabels), zone: first(node.Labels, zoneLabels), instanceType: first(node.Labels, typeLabels), purchase: "on_demand"}
	if node.Labels["cloud.google.com/gke-spot"] == "true" || node.Labels["cloud.google.com/gke-preemptible"] == "true" {
		p.purchase = "spot"
	}
	switch strings.ToLower(first(node.Labels, purchaseLabels)) {
	case "spot", "preemptible":
		p.purchase = "spot"
	case "reserved", "capacity_block":
		p.purchase = "reserved"
	}
	return p, p.instanceType != ""
}

func first(labels map[string]string, keys []string) string {
	for _, k := range keys {
		if v := labels[k]; v != "" {
			return v
		}
	}
	return ""
}
