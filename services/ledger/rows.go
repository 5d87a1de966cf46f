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

// Spread says how a shared cost is divided over those who carry it.
type Spread string

// Spreads.
const (
	SpreadWeighted Spread = "weighted" // in proportion to what each pays
	SpreadEven     Spread = "even"     // the same for each
)

// ShareIdle moves idle and overhead onto the workloads of one scope (a node, or a cluster), per resource and in proportion to what
// each already pays. What nobody can carry, because no workload pays for that resource, stays as it is. The sum does not change.
func ShareIdle(scope []Row) []Row { return ShareIdleBy(scope, SpreadWeighted) }

// ShareIdleBy is ShareIdle with a spread: even gives each workload that pays for a resource the same part of its idle.
func ShareIdleBy(scope []Row, how Spread) []Row {
	carriers := map[Resource][]carrier{}
	for _, r := range Merge(scope) {
		if r.Kind == KindWorkload && r.Amount > 0 {
			carriers[r.Resource] = carry(carriers[r.Resource], r)
		}
	}
	shared := make([]Row, 0, len(scope))
	for _, r := range scope {
		list := carriers[r.Resource]
		if r.Kind != KindIdle && r.Kind != KindOverhead || len(list) == 0 {
			shared = append(shared, r)
			continue
		}
		shared = spread(shared, r, list, weightsOf(list, how))
		if r.Unpriced != 0 { // quantities without a price are shared with nobody
			shared = append(shared, Row{Kind: r.Kind, Resource: r.Resource, Purchase: r.Purchase, Quantity: r.Unpriced, Unpriced: r.Unpriced})
		}
	}
	return Merge(shared)
}

// ShareWorkloads moves the costs of the workloads that are picked, such as those of a namespace that serves all others, onto the other
// workloads: evenly, in proportion to what each pays, or by a metric of the tenant's, in whole numbers above zero by owner, which then
// counts instead of how. Without anybody to carry them they stay. The sum does not change.
func ShareWorkloads(rows []Row, picked func(Row) bool, how Spread, metric map[Owner]int64) []Row {
	var list []carrier
	for _, r := range Merge(rows) {
		if r.Kind == KindWorkload && r.Amount > 0 && !picked(r) && (metric == nil || metric[r.Owner] > 0) {
			list = carry(list, r)
		}
	}
	if len(list) == 0 {
		return Merge(rows)
	}
	weights := weightsOf(list, how)
	for i, c := range list {
		if metric != nil {
			weights[i] = metric[c.owner]
		}
	}
	shared := make([]Row, 0, len(rows))
	for _, r := range rows {
		if r.Kind != KindWorkload || !picked(r) {
			shared = append(shared, r)
			continue
		}
		shared = spread(shared, r, list, weights)
		if r.Unpriced != 0 {
			r.Amount, r.Quantity, r.Measured, r.Used = 0, r.Unpriced, 0, 0
			shared = append(shared, r)
		}
	}
	return Merge(shared)
}

// monthHours is a month as OpenCost prorates one: a year's hours over twelve.
const monthHours = 730

// Prorate is the part of a monthly cost, such as a control plane's fee, that so many milliseconds bear.
func Prorate(monthly fleet.Money, millis int64) fleet.Money {
	return monthly.MulDiv(max(millis, 0), monthHours*hourMillis)
}

// carrier is an owner with what it pays.
type carrier struct {
	owner Owner
	paid  fleet.Money
}

func carry(list []carrier, r Row) []carrier {
	at := slices.IndexFunc(list, func(c carrier) bool { return c.owner == r.Owner })
	if at < 0 {
		list, at = append(list, carrier{owner: r.Owner}), len(list)
	}
	list[at].paid = list[at].paid.Add(r.Amount)
	return list
}

func weightsOf(list []carrier, how Spread) []int64 {
	weights := make([]int64, len(list))
	for i, c := range list {
		if weights[i] = int64(c.paid); how == SpreadEven {
			weights[i] = 1
		}
	}
	return weights
}

// spread adds a row's amount to those who carry it.
func spread(rows []Row, r Row, list []carrier, weights []int64) []Row {
	parts, _ := r.Amount.Split(weights)
	for i, c := range list {
		rows = append(rows, Row{Kind: KindWorkload, Resource: r.Resource, Purchase: r.Purchase, Owner: c.owner, Amount: parts[i]})
	}
	return rows
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
