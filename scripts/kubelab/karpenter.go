package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpkwokapis "sigs.k8s.io/karpenter/kwok/apis"
	karpkwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	karpapis "sigs.k8s.io/karpenter/pkg/apis"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpcp "sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	karpctl "sigs.k8s.io/karpenter/pkg/controllers"
	karpstate "sigs.k8s.io/karpenter/pkg/controllers/state"
	karpop "sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// reservationLabel names a capacity reservation on its offering and its nodes.
// Karpenter's scheduler panics on a reserved offering without one, and the
// KWOK provider sets none.
const reservationLabel = "kubelab.test/reservation-id"

// runKarpenter is Karpenter with its KWOK cloud provider: a real node
// provisioner whose instances are KWOK nodes. It reads KUBECONFIG and
// Karpenter's own flags and environment, and KUBELAB_MARKET (see market).
// Its metrics and health ports bind every interface: v1.14.1 hard-codes ":%d".
func runKarpenter() int {
	karpv1.WellKnownLabels = karpv1.WellKnownLabels.Insert(reservationLabel)
	karpcp.ReservationIDLabel = reservationLabel
	karpcp.ReservedCapacityLabels.Insert(reservationLabel)

	ctx, op := karpop.NewOperator()
	types, err := karpkwok.ConstructInstanceTypes(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "instance types:", err)
		return 1
	}
	bare := &provider{
		CloudProvider: karpkwok.NewCloudProvider(ctx, op.GetClient(), types),
		kube:          op.GetClient(), types: types, marketFile: os.Getenv("KUBELAB_MARKET"),
	}
	decorated := overlay.Decorate(bare, op.GetClient(), op.InstanceTypeStore)
	cluster := karpstate.NewCluster(op.Clock, op.GetClient(), decorated)
	op.WithControllers(ctx, karpctl.NewControllers(ctx, op.Manager, op.Clock, op.GetClient(),
		op.EventRecorder, decorated, bare, cluster, op.InstanceTypeStore)...).Start(ctx)
	return 0
}

// printKarpenterCRDs writes what must be applied before Karpenter starts.
func printKarpenterCRDs() int {
	for _, crd := range [][]byte{karpapis.NodePoolCRD, karpapis.NodeClaimCRD, karpapis.NodeOverlayCRD, karpapis.CapacityBufferCRD, karpkwokapis.KWOKNodeClassCRD} {
		fmt.Printf("---\n%s\n", crd)
	}
	return 0
}

// market is read from the file KUBELAB_MARKET at every call: the offerings that
// have run out. Karpenter is told of a Hidden one before it asks; of another it
// learns from an InsufficientCapacityError, as with a real cloud.
type market struct {
	Dry []struct {
		InstanceType, Zone, CapacityType string // empty matches any
		Hidden                           bool
	} `json:"dry"`
}

// market: without a file every offering is to be had.
func (p *provider) market() (market, error) {
	var m market
	if p.marketFile == "" {
		return m, nil
	}
	b, err := os.ReadFile(p.marketFile)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s: %w", p.marketFile, err)
	}
	return m, nil
}

// dry says whether the offering has run out; hidden asks for the hidden ones only.
func (m market) dry(instanceType string, o *karpcp.Offering, hidden bool) bool {
	for _, d := range m.Dry {
		if (d.InstanceType == "" || d.InstanceType == instanceType) && (d.Zone == "" || d.Zone == o.Zone()) &&
			(d.CapacityType == "" || d.CapacityType == o.CapacityType()) && (d.Hidden || !hidden) {
			return true
		}
	}
	return false
}

// provider adds to the KWOK provider what a cloud has and it lacks: counted
// reservations and offerings that run out. It narrows each claim to the
// cheapest offering left before the launch: on an instance type with no
// offering left for the claim, the KWOK provider of v1.14.1 dereferences nil.
type provider struct {
	*karpkwok.CloudProvider
	kube       client.Client
	types      []*karpcp.InstanceType
	marketFile string
}

// reserved counts the nodes of each reservation.
func (p *provider) reserved(ctx context.Context) (map[string]int, error) {
	nodes := &corev1.NodeList{}
	if err := p.kube.List(ctx, nodes, client.HasLabels{reservationLabel}); err != nil {
		return nil, err
	}
	used := map[string]int{}
	for _, n := range nodes.Items {
		used[n.Labels[reservationLabel]]++
	}
	return used, nil
}

// GetInstanceTypes returns the catalogue less what is reserved and taken, and
// what the market hides.
func (p *provider) GetInstanceTypes(ctx context.Context, _ *karpv1.NodePool) ([]*karpcp.InstanceType, error) {
	used, err := p.reserved(ctx)
	if err != nil {
		return nil, err
	}
	m, err := p.market()
	if err != nil {
		return nil, err
	}
	out := make([]*karpcp.InstanceType, 0, len(p.types))
	for _, t := range p.types {
		left := &karpcp.InstanceType{Name: t.Name, Requirements: t.Requirements, Capacity: t.Capacity, Overhead: t.Overhead}
		for _, o := range t.Offerings {
			n := &karpcp.Offering{Requirements: o.Requirements, Price: o.Price, Available: o.Available, ReservationCapacity: o.ReservationCapacity}
			if n.CapacityType() == karpv1.CapacityTypeReserved {
				n.ReservationCapacity -= used[n.ReservationID()]
				n.Available = n.Available && n.ReservationCapacity > 0
			}
			n.Available = n.Available && !m.dry(t.Name, n, true)
			left.Offerings = append(left.Offerings, n)
		}
		out = append(out, left)
	}
	return out, nil
}

// Create launches the cheapest offering that the claim allows and the market has.
func (p *provider) Create(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	instanceType, offering, err := p.cheapest(ctx, claim)
	if err != nil {
		return nil, err
	}
	c := claim.DeepCopy()
	for _, r := range []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelInstanceTypeStable, Values: []string{instanceType}},
		{Key: corev1.LabelTopologyZone, Values: []string{offering.Zone()}},
		{Key: karpv1.CapacityTypeLabelKey, Values: []string{offering.CapacityType()}},
	} {
		r.Operator = corev1.NodeSelectorOpIn
		c.Spec.Requirements = slices.DeleteFunc(c.Spec.Requirements, func(old karpv1.NodeSelectorRequirementWithMinValues) bool { return old.Key == r.Key })
		c.Spec.Requirements = append(c.Spec.Requirements, r)
	}
	return p.CloudProvider.Create(ctx, c)
}

func (p *provider) cheapest(ctx context.Context, claim *karpv1.NodeClaim) (instanceType string, best *karpcp.Offering, err error) {
	types, err := p.GetInstanceTypes(ctx, nil)
	if err != nil {
		return "", nil, err
	}
	m, err := p.market()
	if err != nil {
		return "", nil, err
	}
	claimed := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	for _, t := range types {
		if !claimed.Get(corev1.LabelInstanceTypeStable).Has(t.Name) {
			continue
		}
		for _, o := range t.Offerings.Available().Compatible(claimed) {
			if !m.dry(t.Name, o, false) && (best == nil || o.Price < best.Price) {
				instanceType, best = t.Name, o
			}
		}
	}
	if best == nil {
		return "", nil, karpcp.NewInsufficientCapacityError(fmt.Errorf("no offering left for claim %s", claim.Name))
	}
	return instanceType, best, nil
}
