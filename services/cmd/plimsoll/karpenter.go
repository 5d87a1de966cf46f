package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/capacity/karpenter"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/encoding/protojson"
)

// karpenterState is what runs, as the file of -state tells it.
type karpenterState struct {
	Machines []struct {
		Name         string   `json:"name"`
		Pool         string   `json:"pool"`
		InstanceType string   `json:"instance_type"`
		Zone         string   `json:"zone"`
		CapacityType string   `json:"capacity_type"`
		Reservation  string   `json:"reservation_id"`
		Pods         []string `json:"pods"`
	} `json:"machines"`
	Pools    []string `json:"pools"`    // NodePools of ours
	Overlays []string `json:"overlays"` // NodeOverlays of ours
	Dry      []struct {
		InstanceType string `json:"instance_type"` // empty: any
		Zone         string `json:"zone"`
		CapacityType string `json:"capacity_type"`
	} `json:"dry"` // offerings that have run out
}

// karpenterCommand plans what Karpenter shall be told and prints it as the plan that the agent takes.
func karpenterCommand(_ context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll karpenter", flag.ContinueOnError)
	podsFile := set.String("pods", "", "CSV `FILE` of all pods, running and pending, as for plimsoll pack")
	catalogFile := set.String("catalog", "", "CSV `FILE` of offerings at effective prices")
	listedFile := set.String("listed", "", "CSV `FILE` of the same offerings at the prices that Karpenter knows; without, overlays tell all of them")
	stateFile := set.String("state", "", "JSON `FILE` of what runs: machines with their pods, pools and overlays of ours, offerings that have run out")
	class := set.String("class", "karpenter.k8s.aws/EC2NodeClass/default", "node class as group/kind/name")
	generation := set.Uint64("generation", 0, "of the plan; each plan needs a higher one")
	id := set.String("plan", "", "id of the plan; default: made from the generation")
	reservation := set.String("reservation-key", "karpenter.k8s.aws/capacity-reservation-id", "node label that names a reservation")
	taint := set.Bool("taint-gpus", true, "keep pods without GPUs off machines with GPUs")
	moveCost := set.String("move-cost", "0.05", "what moving a pod costs, in $/h over the time a plan should pay off")
	rounds := set.Int("rounds", 0, "how long to search for the order of pools; 0: the default")
	emptyAfter := set.Duration("empty-after", 30*time.Second, "how long a machine is empty before Karpenter ends it")
	valid := set.Duration("valid", 10*time.Minute, "how long the plan may be applied")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	parts := strings.Split(*class, "/")
	if *podsFile == "" || *catalogFile == "" || *generation == 0 || len(parts) != 3 || *rounds < 0 || *rounds > 100_000 || *emptyAfter < time.Second || *emptyAfter > time.Hour {
		fmt.Fprintln(stderr, "plimsoll karpenter: give -pods, -catalog and -generation; -class is group/kind/name, -rounds 0 to 100000, -empty-after 1s to 1h")
		return errUsage
	}
	moving, err := fleet.ParseMoney(*moveCost)
	if err != nil {
		return err
	}
	in := karpenter.Input{}
	if in.Pods, err = packRead(*podsFile, packing.ReadPods); err != nil {
		return err
	}
	if in.Offerings, err = packRead(*catalogFile, packing.ReadOfferings); err != nil {
		return err
	}
	if *listedFile != "" {
		listed, err := packRead(*listedFile, packing.ReadOfferings)
		if err != nil {
			return err
		}
		if len(listed) != len(in.Offerings) {
			return fleet.Errorf(fleet.CodeInvalid, "-listed has %d offerings, -catalog %d", len(listed), len(in.Offerings))
		}
		for i := range listed {
			in.Listed = append(in.Listed, listed[i].Price)
		}
	}
	overlays, err := karpenterRunning(&in, *stateFile)
	if err != nil {
		return err
	}
	settings := karpenter.Settings{Class: karpenter.Class{Group: parts[0], Kind: parts[1], Name: parts[2]}, ReservationKey: *reservation, TaintGPUs: *taint, Rounds: *rounds,
		EmptyAfterSec: int64(*emptyAfter / time.Second)}
	packed, err := karpenterPack(&in, moving, settings)
	if err != nil {
		return err
	}
	plan, err := karpenter.Compose(in, settings)
	if err != nil {
		return err
	}
	if *id == "" {
		*id = fmt.Sprintf("capacity-%d", *generation)
	}
	now := time.Now()
	b, err := protojson.MarshalOptions{Multiline: true, Indent: " ", UseProtoNames: true}.Marshal(&agentv1.Plan{PlanId: *id, Generation: *generation, CreatedMs: now.UnixMilli(),
		ExpiresMs: now.Add(*valid).UnixMilli(), Capacity: plan.Actions(overlays)})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s; Karpenter is expected to buy for %s (%s as the packing comes), %d pods by the rest; %d pools, %d overlays, %d retired\n",
		packed, plan.Bought, plan.Plain, plan.Rest, len(plan.Pools), len(plan.Overlays), len(plan.Retire))
	_, err = fmt.Fprintf(stdout, "%s\n", b)
	return err
}

// karpenterRunning adds what runs, and takes off the market what has run out.
func karpenterRunning(in *karpenter.Input, file string) (overlays []string, err error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "%v", err)
	}
	var st karpenterState
	if err := json.Unmarshal(b, &st); err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "%s: %v", file, err)
	}
	pods := map[string]int{}
	for i := range in.Pods {
		pods[in.Pods[i].Name] = i
	}
	counts := map[int]int64{}
	for _, m := range st.Machines {
		j := slices.IndexFunc(in.Offerings, func(o packing.Offering) bool {
			return o.InstanceType == m.InstanceType && o.Zone == m.Zone && karpenter.CapacityType(o.Purchase) == m.CapacityType && o.ReservationID == m.Reservation
		})
		if j < 0 {
			return nil, fleet.Errorf(fleet.CodeInvalid, "machine %s is of an offering that the catalogue does not have: %s %s %s", m.Name, m.InstanceType, m.Zone, m.CapacityType)
		}
		machine := karpenter.Machine{Name: m.Name, Pool: m.Pool, Offering: j}
		for _, name := range m.Pods {
			i, ok := pods[name]
			if !ok {
				return nil, fleet.Errorf(fleet.CodeInvalid, "machine %s runs the pod %s, which is not in the list of pods", m.Name, name)
			}
			machine.Pods = append(machine.Pods, i)
		}
		counts[j]++
		in.Running = append(in.Running, machine)
	}
	for j := range in.Offerings {
		o := &in.Offerings[j]
		for _, d := range st.Dry {
			if (d.InstanceType == "" || d.InstanceType == o.InstanceType) && (d.Zone == "" || d.Zone == o.Zone) && (d.CapacityType == "" || d.CapacityType == karpenter.CapacityType(o.Purchase)) {
				n := counts[j] // those that run stay
				o.Stock = &n
			}
		}
	}
	in.Pools = st.Pools
	return st.Overlays, nil
}

// karpenterPack chooses the machines: anew, or from those that run. Pools whose machines the plan ends are opened for consolidation, so
// many machines at a time as it ends.
func karpenterPack(in *karpenter.Input, moving fleet.Money, settings karpenter.Settings) (string, error) {
	opts := packing.Options{NoCPUOnGPU: settings.TaintGPUs}
	if len(in.Running) == 0 {
		a, err := packing.Pack(in.Pods, in.Offerings, opts)
		if err != nil {
			return "", err
		}
		in.New = a.Nodes
		return fmt.Sprintf("packed for %s, at least %s, %d pods unplaced", a.Cost, a.Bound, len(a.Unplaced)), nil
	}
	running := make([]packing.Node, len(in.Running))
	for k, m := range in.Running {
		running[k] = packing.Node{Offering: m.Offering, Pods: m.Pods}
	}
	p, err := packing.Repack(in.Pods, in.Offerings, running, moving, nil, opts)
	if err != nil {
		return "", err
	}
	stays := map[int]bool{}
	for k, n := range p.Nodes {
		if p.From[k] < 0 {
			in.New = append(in.New, n)
		} else {
			stays[p.From[k]] = true
		}
	}
	for k, m := range in.Running {
		if stays[k] || len(m.Pods) == 0 {
			continue
		}
		in.Running[k].Ends = true
		in.OpenFor(m.Pool)
	}
	exchanged := in.Exchange(moving, settings)
	return fmt.Sprintf("from %s to %s, %d pods unplaced, %d to move, %d machines for cheaper ones", p.Before, p.Cost, len(p.Unplaced), len(p.Moved), exchanged), nil
}
