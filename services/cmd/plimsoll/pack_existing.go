package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// runningRow is a line of the file of running machines: one pod on one machine, or a machine without pods.
type runningRow struct {
	node, instanceType, zone, capacityType, reservation, pod string
}

// maxRunning bounds the lines of a file of running machines.
const maxRunning = 2_000_000

func readRunning(r io.Reader) ([]runningRow, error) {
	c := csv.NewReader(r)
	c.FieldsPerRecord = -1
	head, err := c.Read()
	if err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "read the header: %v", err)
	}
	at := map[string]int{}
	for i, h := range head {
		at[h] = i
	}
	for _, n := range []string{"node", "instance_type", "zone", "capacity_type", "pod"} {
		if _, ok := at[n]; !ok {
			return nil, fleet.Errorf(fleet.CodeInvalid, "there is no column %s", n)
		}
	}
	var out []runningRow
	for line := 2; ; line++ {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil || line > maxRunning {
			return nil, fleet.Errorf(fleet.CodeInvalid, "line %d: %v", line, err)
		}
		get := func(n string) string {
			if i, ok := at[n]; ok && i < len(row) {
				return row[i]
			}
			return ""
		}
		out = append(out, runningRow{get("node"), get("instance_type"), get("zone"), get("capacity_type"), get("reservation_id"), get("pod")})
	}
}

// runningNodes finds the offering of each running machine and the pods on it. Pods that are not in the file of pods are gone.
func runningNodes(rows []runningRow, pods []packing.Pod, offerings []packing.Offering) ([]packing.Node, []string, error) {
	type key struct {
		instanceType, zone, reservation string
		purchase                        fleet.Purchase
	}
	byOffering := make(map[key]int, len(offerings))
	for i := range offerings {
		o := &offerings[i]
		byOffering[key{o.InstanceType, o.Zone, o.ReservationID, o.Purchase}] = i
	}
	byPod := make(map[string]int, len(pods))
	for i := range pods {
		if _, twice := byPod[pods[i].Name]; twice {
			return nil, nil, fleet.Errorf(fleet.CodeInvalid, "two pods are named %q; with running machines names must differ", pods[i].Name)
		}
		byPod[pods[i].Name] = i
	}
	var nodes []packing.Node
	var names []string
	byNode := map[string]int{}
	for _, r := range rows {
		purchase, err := fleet.ParsePurchase(r.capacityType)
		if err != nil {
			return nil, nil, err
		}
		off, ok := byOffering[key{r.instanceType, r.zone, r.reservation, purchase}]
		if !ok {
			return nil, nil, fleet.Errorf(fleet.CodeNotFound, "node %q is a %s %s in %s, which the catalogue does not have", r.node, r.capacityType, r.instanceType, r.zone)
		}
		n, ok := byNode[r.node]
		if !ok {
			n = len(nodes)
			byNode[r.node] = n
			nodes, names = append(nodes, packing.Node{Offering: off}), append(names, r.node)
		}
		if nodes[n].Offering != off {
			return nil, nil, fleet.Errorf(fleet.CodeInvalid, "node %q is of two offerings", r.node)
		}
		if i, ok := byPod[r.pod]; ok && r.pod != "" {
			nodes[n].Pods = append(nodes[n].Pods, i)
		}
	}
	return nodes, names, nil
}

// packFrom plans from running machines and says what that costs against packing everything anew, whose proof bounds both.
func packFrom(out io.Writer, asJSON bool, rows []runningRow, pods []packing.Pod, offerings []packing.Offering, moving fleet.Money, opts packing.Options) error {
	running, names, err := runningNodes(rows, pods, offerings)
	if err != nil {
		return err
	}
	began := time.Now()
	first, err := packing.Repack(pods, offerings, running, moving, nil, opts)
	if err != nil {
		return err
	}
	took := time.Since(began)
	anew, err := packing.Pack(pods, offerings, opts)
	if err != nil {
		return err
	}
	plan, err := packing.Repack(pods, offerings, running, moving, anew.Proof, opts)
	if err != nil {
		return err
	}
	if opts.Stop != nil { // the second may have been stopped earlier than the first
		first.Bound = plan.Bound
		plan = first
	}
	if err := packing.Check(pods, offerings, opts, &plan.Answer); err != nil {
		return err
	}
	cpu, peak := packUsage()
	kept := map[int]bool{}
	for _, f := range plan.From {
		kept[f] = true
	}
	if asJSON {
		return packJSON(out, pods, offerings, &plan.Answer, cpu, peak, &packChange{Before: plan.Before.String(), Anew: anew.Cost.String(), Milliseconds: took.Seconds() * 1e3,
			Moved: podNames(pods, plan.Moved), Ended: endedNames(names, kept)}, func(k int) string {
			if f := plan.From[k]; f >= 0 {
				return names[f]
			}
			return ""
		})
	}
	if err := packText(out, pods, offerings, &plan.Answer, cpu, peak); err != nil {
		return err
	}
	fresh := 0
	for _, f := range plan.From {
		if f < 0 {
			fresh++
		}
	}
	_, err = fmt.Fprintf(out, "from %d running nodes at %s $/h: %d stay, %d end, %d are new, %d pods move; planned in %.1f ms. Packing everything anew: %s $/h\n",
		len(running), plan.Before, len(plan.Nodes)-fresh, len(running)-len(plan.Nodes)+fresh, fresh, len(plan.Moved), took.Seconds()*1e3, anew.Cost)
	return err
}

func podNames(pods []packing.Pod, of []int) []string {
	out := []string{}
	for _, i := range of {
		out = append(out, pods[i].Name)
	}
	return out
}

func endedNames(names []string, kept map[int]bool) []string {
	out := []string{}
	for n, name := range names {
		if !kept[n] {
			out = append(out, name)
		}
	}
	return out
}
