package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
)

// BillEstimates is what the ledger has for machines in closed hours.
type BillEstimates struct {
	Machines []billing.Estimate // by day, cluster, machine
	Unused   []billing.UnusedEstimate
	Hours    []billing.HourCost // of the machines, when asked for; Millis is 0
	Total    fleet.Money
	Open     int // hours of clusters that are not in the ledger yet
}

// maxBillMachineHours bounds what a comparison walks over.
const maxBillMachineHours = 20_000_000

// LoadBillEstimates reads the closed hours in [from, to), whole days. Machines that lived and have no cost are in it as unpriced: a bill may
// name them.
func LoadBillEstimates(ctx context.Context, tx *Tx, from, to time.Time, hours bool) (BillEstimates, error) {
	var out BillEstimates
	type key struct {
		day           time.Time
		cluster, node string
	}
	at := map[key]int{}
	unused := map[billing.UnusedEstimate]fleet.Money{}
	count, last := 0, time.Time{}
	export := FocusExport{From: from, To: to}
	export.Node = func(n focus.NodeHour) error {
		if count++; count > maxBillMachineHours {
			return fleet.Errorf(fleet.CodeTooLarge, "the span holds more than %d hours of machines; ask for less", maxBillMachineHours)
		}
		if n.Hour.After(last) {
			last = n.Hour
		}
		k := key{n.Hour.UTC().Truncate(24 * time.Hour), n.Cluster.ID, n.Machine.UID}
		i, ok := at[k]
		if !ok {
			i = len(out.Machines)
			at[k] = i
			o := n.Machine.Offering
			out.Machines = append(out.Machines, billing.Estimate{Day: k.day, Cluster: k.cluster, Node: k.node, Name: n.Machine.Name, Cloud: o.Cloud, Region: o.Region, InstanceType: o.InstanceType, Purchase: o.Purchase})
		}
		e := &out.Machines[i]
		var cost fleet.Money
		for _, l := range n.Lines {
			cost = cost.Add(l.Amount)
		}
		e.Cost, e.Millis, e.Committed = e.Cost.Add(cost), e.Millis+n.Millis, e.Committed || len(n.Claims) > 0
		out.Total = out.Total.Add(cost)
		if hours {
			out.Hours = append(out.Hours, billing.HourCost{Cluster: k.cluster, Node: k.node, Hour: n.Hour.UTC(), Cost: cost})
		}
		return nil
	}
	export.Unused = func(u focus.Unused) error {
		k := billing.UnusedEstimate{Day: u.Hour.UTC().Truncate(24 * time.Hour), Cloud: u.Commitment.Cloud}
		unused[k] = unused[k].Add(u.Amount)
		out.Total = out.Total.Add(u.Amount)
		return nil
	}
	if err := export.Walk(ctx, tx); err != nil {
		return out, err
	}
	for k, m := range unused {
		k.Cost = m
		out.Unused = append(out.Unused, k)
	}
	slices.SortFunc(out.Unused, func(a, b billing.UnusedEstimate) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Cloud, b.Cloud))
	})
	rows, err := tx.pgx.Query(ctx, `
SELECT cluster_id::text, uid, name, provider_id, cloud, region, instance_type, purchase, started_at, ended_at FROM node
WHERE tenant_id = $1 AND started_at < $3 AND (ended_at IS NULL OR ended_at > $2) ORDER BY cluster_id, uid`, tx.Tenant, from, to)
	if err != nil {
		return out, fmt.Errorf("load machines: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		e := billing.Estimate{Unpriced: true}
		var started time.Time
		var ended *time.Time
		if err := rows.Scan(&e.Cluster, &e.Node, &e.Name, &e.ProviderID, &e.Cloud, &e.Region, &e.InstanceType, &e.Purchase, &started, &ended); err != nil {
			return out, fmt.Errorf("load machines: %w", err)
		}
		until := to
		if ended != nil && ended.Before(to) {
			until = *ended
		}
		for day := later(started.UTC(), from).Truncate(24 * time.Hour); day.Before(until) && !day.After(last); day = day.Add(24 * time.Hour) {
			if i, ok := at[key{day, e.Cluster, e.Node}]; ok {
				out.Machines[i].ProviderID = e.ProviderID
				continue
			}
			if e.Day = day; len(out.Machines) > maxBillMachineHours/24 {
				return out, fleet.Errorf(fleet.CodeTooLarge, "the span holds too many machines; ask for less")
			}
			out.Machines = append(out.Machines, e)
		}
	}
	if err := rows.Err(); err != nil {
		return out, fmt.Errorf("load machines: %w", err)
	}
	slices.SortFunc(out.Machines, func(a, b billing.Estimate) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node))
	})
	coverage, err := export.Coverage(ctx, tx)
	out.Open = coverage.OpenHours
	return out, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
