package ledger

import (
	"cmp"
	"slices"

	"plimsoll.dev/services/fleet"
)

// Merge sums rows with the same kind, resource, purchase and owner, and sorts them by these.
func Merge(rows []Row) []Row {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, compareRow)
	merged := sorted[:0]
	for _, r := range sorted {
		if n := len(merged); n > 0 && compareRow(merged[n-1], r) == 0 {
			merged[n-1].add(r)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// ShareIdle moves idle and overhead onto the workloads of one scope (a node, or a cluster), per resource and in proportion to what
// each already pays. What nobody can carry, because no workload pays for that resource, stays as it is. The sum does not change.
func ShareIdle(scope []Row) []Row {
	type carrier struct {
		owner Owner
		paid  fleet.Money
	}
	carriers := map[Resource][]carrier{}
	for _, r := range Merge(scope) {
		if r.Kind != KindWorkload || r.Amount <= 0 {
			continue
		}
		list := carriers[r.Resource]
		at := slices.IndexFunc(list, func(c carrier) bool { return c.owner == r.Owner })
		if at < 0 {
			list, at = append(list, carrier{owner: r.Owner}), len(list)
		}
		list[at].paid = list[at].paid.Add(r.Amount)
		carriers[r.Resource] = list
	}
	shared := make([]Row, 0, len(scope))
	for _, r := range scope {
		list := carriers[r.Resource]
		if r.Kind != KindIdle && r.Kind != KindOverhead || len(list) == 0 {
			shared = append(shared, r)
			continue
		}
		weights := make([]int64, len(list))
		for i, c := range list {
			weights[i] = int64(c.paid)
		}
		parts, _ := r.Amount.Split(weights)
		for i, c := range list {
			shared = append(shared, Row{Kind: KindWorkload, Resource: r.Resource, Purchase: r.Purchase, Owner: c.owner, Amount: parts[i]})
		}
		if r.Unpriced != 0 { // quantities without a price are shared with nobody
			shared = append(shared, Row{Kind: r.Kind, Resource: r.Resource, Purchase: r.Purchase, Quantity: r.Unpriced, Unpriced: r.Unpriced})
		}
	}
	return Merge(shared)
}

// Efficiency is the cost of what was used over the cost of what was held, of the rows whose use is known; false when none is.
func Efficiency(rows []Row) (ratio float64, known bool) {
	var used, held float64
	for _, r := range rows {
		if r.Kind != KindWorkload || r.Quantity <= 0 || r.Measured <= 0 {
			continue
		}
		perUnit := r.Amount.Float() / r.Quantity
		used += perUnit * r.Used
		held += perUnit * r.Measured
	}
	if held <= 0 {
		return 0, false
	}
	return used / held, true
}

func compareRow(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Purchase, b.Purchase), compareOwner(a.Owner, b.Owner))
}

func compareOwner(a, b Owner) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Team, b.Team))
}
