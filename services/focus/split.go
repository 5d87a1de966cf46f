package focus

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// MethodID names how we split a machine's hour; docs/guides/focus.md describes it.
const MethodID = "plimsoll-node-hour-v1"

// Account is the tenant whose costs are exported.
type Account struct {
	ID, Name string
	Currency string
}

// Cluster is where a machine ran.
type Cluster struct{ ID, Name string }

// Machine is what an origin charge is for.
type Machine struct {
	UID, Name, Pool string
	Offering        fleet.Offering
	CPUMilli        int64
	MemMiB          int64
	GPUModel        string
	GPUCount        int
}

// Line is what an owner bears of one resource of the machine's hour, as posted in the ledger.
type Line struct {
	Kind     ledger.Kind
	Resource ledger.Resource
	Owner    ledger.Owner
	Name     string            // of the workload: namespace/Kind/name
	Labels   map[string]string // of the workload
	Amount   fleet.Money       // negative only for residual
	Quantity float64
}

// Commitment is what was paid already.
type Commitment struct {
	ID, Ref, Kind string
	Cloud         fleet.Cloud
	Region        string
	Spend         bool // commits money per hour, not machines
	Capacity      bool // reserves capacity and discounts nothing
}

// Claim is what a machine's hour took of a commitment.
type Claim struct {
	Commitment Commitment
	Machine    bool  // covers whole machines, of which UnitMillis counts thousandths times milliseconds
	UnitMillis int64 // 0: not known
	Amount     fleet.Money
}

// NodeHour is an hour of one machine as the ledger closed it.
type NodeHour struct {
	Account         Account
	Cluster         Cluster
	Machine         Machine
	Hour            time.Time
	Millis          int64 // that it ran within the hour
	Version         int
	AsOf            time.Time
	List, Effective *fleet.Money // per hour
	Source          string
	Lines           []Line
	Claims          []Claim
}

// Unused is what nobody used of a commitment in an hour.
type Unused struct {
	Account    Account
	Commitment Commitment
	Hour       time.Time
	Version    int
	AsOf       time.Time
	Team       string
	Amount     fleet.Money
	Hours      float64
}

// pico is the number of parts that quantities and ratios are counted in: twelve decimal places.
const pico = 1_000_000_000_000

// fund is a part of the machine's hour that one price paid for: a commitment, or none.
type fund struct {
	claim    *Claim
	amount   int64 // nano-units
	quantity int64 // pico-hours
}

// Rows splits a machine's hour into allocated charges: one per owner and per commitment that paid for it. Their EffectiveCost adds up to
// the sum of Lines exactly. An hour that cost nothing has no rows.
func (n NodeHour) Rows() []Row {
	lines := slices.Clone(n.Lines)
	slices.SortStableFunc(lines, compareLine)
	left := make([]int64, len(lines))
	var total int64
	for i, l := range lines {
		left[i] = int64(l.Amount)
		total += int64(l.Amount)
	}
	if total <= 0 {
		return nil
	}
	funds, finding := n.funds(total)
	var rows []Row
	rest := total
	for i, f := range funds {
		if f.amount == 0 {
			continue
		}
		parts := apportion(f.amount, left, rest)
		for j := range left {
			left[j] -= parts[j]
		}
		rest -= f.amount
		rows = append(rows, n.charges(i, f, total, lines, parts, finding)...)
	}
	return rows
}

// funds divides the hour by what paid for it. Claims that say more than the hour cost are left out and named: the machine's end has
// moved since they were made.
func (n NodeHour) funds(total int64) (funds []fund, finding string) {
	quantity := n.hours(total)
	var claimed, units int64
	known := true
	claims := slices.DeleteFunc(slices.Clone(n.Claims), func(c Claim) bool { return c.Amount <= 0 })
	for _, c := range claims {
		claimed += int64(c.Amount)
		units += c.UnitMillis
		known = known && c.Machine && c.UnitMillis > 0
	}
	if len(claims) == 0 || claimed > total {
		if claimed > total {
			finding = "claims on commitments exceed the cost of the hour"
		}
		return []fund{{amount: total, quantity: quantity}}, finding
	}
	weights := make([]int64, 0, len(claims)+1)
	for i := range claims {
		c := &claims[i]
		funds = append(funds, fund{claim: c, amount: int64(c.Amount)})
		weights = append(weights, int64(c.Amount))
	}
	funds = append(funds, fund{amount: total - claimed})
	weights = append(weights, total-claimed)
	whole := total
	if known && units <= n.Millis*1000 {
		whole = n.Millis * 1000
		for i, c := range claims {
			weights[i] = c.UnitMillis
		}
		weights[len(claims)] = whole - units
		if (total == claimed) != (whole == units) { // a part without money, or money without a part
			whole = total
			for i, f := range funds {
				weights[i] = f.amount
			}
		}
	}
	for i, q := range apportion(quantity, weights, whole) {
		funds[i].quantity = q
	}
	return funds, ""
}

// hours is how long the machine was paid for, in pico-hours: as long as it ran when that gives the amount, else what the price says.
func (n NodeHour) hours(total int64) int64 {
	const hour = int64(time.Hour / time.Millisecond)
	if n.Effective == nil || *n.Effective <= 0 {
		return mulDiv(max(n.Millis, 1), pico, hour)
	}
	if n.Millis > 0 && n.Millis <= hour && n.Effective.MulDiv(n.Millis, hour) == fleet.Money(total) {
		return mulDiv(n.Millis, pico, hour)
	}
	return max(mulDiv(total, pico, int64(*n.Effective)), 1)
}

// charges writes the allocated charges of one fund.
func (n NodeHour) charges(index int, f fund, total int64, lines []Line, parts []int64, finding string) []Row {
	base, metrics := n.origin(index, f, total, finding)
	ratios := apportion(pico, parts, f.amount)
	var rows []Row
	var weights []int64
	for i := 0; i < len(lines); {
		j := i
		row := base
		var amount int64
		var elements []element
		var byResource [3]int64
		for ; j < len(lines) && sameOwner(lines[i], lines[j]); j++ {
			if parts[j] == 0 {
				continue
			}
			amount += parts[j]
			byResource[resourceIndex(lines[j].Resource)] += parts[j]
			elements = append(elements, element{Ratio: json.Number(decimal(ratios[j], 12)), Unit: usageUnit(lines[j].Resource), Quantity: json.Number(quantity(lines[j].Quantity))})
		}
		if elements != nil {
			allocated(&row, lines[i], n, elements)
			row[EffectiveCost] = nano(amount)
			row[XCPUCost], row[XMemoryCost], row[XGPUCost] = nano(byResource[0]), nano(byResource[1]), nano(byResource[2])
			rows, weights = append(rows, row), append(weights, amount)
		}
		i = j
	}
	list, contracted := apportion(metrics.list, weights, f.amount), apportion(metrics.contracted, weights, f.amount)
	billed, quantities := apportion(metrics.billed, weights, f.amount), apportion(f.quantity, weights, f.amount)
	committed := apportion(metrics.committed, weights, f.amount)
	for i := range rows {
		r := &rows[i]
		r[ListCost], r[ContractedCost], r[BilledCost] = nano(list[i]), nano(contracted[i]), nano(billed[i])
		r[PricingQuantity] = decimal(quantities[i], 12)
		r[ConsumedQuantity] = r[PricingQuantity]
		if r[CommitmentDiscountID] != "" {
			r[CommitmentDiscountQuantity] = decimal(committed[i], 12)
		}
	}
	return rows
}

// element is one factor of a split, as FOCUS 1.3 shapes it.
type element struct {
	Ratio    json.Number `json:"AllocatedRatio"`
	Unit     string      `json:"UsageUnit"`
	Quantity json.Number `json:"UsageQuantity"`
}

// allocated says who bears the row.
func allocated(r *Row, l Line, n NodeHour, elements []element) {
	r[AllocatedMethodID] = MethodID
	r[AllocatedMethodDetails] = object(map[string]any{"Elements": elements})
	tags := map[string]any{}
	for k, v := range l.Labels {
		tags[k] = v
	}
	set := func(key, value string) {
		if value != "" {
			tags[key] = value
		}
	}
	set("namespace", l.Owner.Namespace)
	set("team", l.Owner.Team)
	set("cost-kind", string(l.Kind))
	for k, v := range n.tags() {
		tags[k] = v
	}
	r[AllocatedTags] = object(tags)
	switch {
	case l.Kind != ledger.KindWorkload:
		r[AllocatedResourceID], r[AllocatedResourceName] = n.Machine.UID+"/"+string(l.Kind), string(l.Kind)
	case l.Owner.Workload != "":
		r[AllocatedResourceID], r[AllocatedResourceName] = string(l.Owner.Workload), cmp.Or(l.Name, string(l.Owner.Workload))
	default:
		r[AllocatedResourceID], r[AllocatedResourceName] = n.Cluster.ID+"/"+l.Owner.Namespace, cmp.Or(l.Owner.Namespace, "pods without a namespace")
	}
	r[XCostKind], r[XNamespace], r[XTeam], r[XWorkloadID] = string(l.Kind), l.Owner.Namespace, l.Owner.Team, string(l.Owner.Workload)
}

func sameOwner(a, b Line) bool { return a.Kind == b.Kind && a.Owner == b.Owner }

func compareLine(a, b Line) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Owner.Namespace, b.Owner.Namespace), cmp.Compare(a.Owner.Workload, b.Owner.Workload),
		cmp.Compare(a.Owner.Team, b.Owner.Team), cmp.Compare(a.Resource, b.Resource))
}

func resourceIndex(r ledger.Resource) int {
	switch r {
	case ledger.ResourceCPU:
		return 0
	case ledger.ResourceMemory:
		return 1
	default:
		return 2
	}
}

func usageUnit(r ledger.Resource) string {
	switch r {
	case ledger.ResourceCPU:
		return "Core-Hours"
	case ledger.ResourceMemory:
		return "GiB-Hours"
	default:
		return "GPU-Hours"
	}
}

// apportion divides total over weights, whose sum is given and above zero, by largest remainder: the parts add up to total exactly.
// Weights may be negative, as a residual is; ties go to the lower index.
func apportion(total int64, weights []int64, sum int64) []int64 {
	parts := make([]int64, len(weights))
	type remainder struct {
		index int
		value *big.Int
	}
	remainders := make([]remainder, len(weights))
	by := big.NewInt(sum)
	left := total
	for i, w := range weights {
		q, r := new(big.Int).DivMod(new(big.Int).Mul(big.NewInt(total), big.NewInt(w)), by, new(big.Int))
		parts[i] = q.Int64()
		left -= parts[i]
		remainders[i] = remainder{i, r}
	}
	slices.SortStableFunc(remainders, func(a, b remainder) int { return b.value.Cmp(a.value) })
	for i := range left {
		parts[remainders[i].index]++
	}
	return parts
}

// mulDiv is a*b/c rounded half up, of numbers that are not negative. What leaves the range is the largest number there is: then two
// inputs contradict each other, and the checker says so.
func mulDiv(a, b, c int64) int64 {
	divisor := uint64(c) //nolint:gosec // positive
	hi, lo := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0)))
	lo, carry := bits.Add64(lo, divisor/2, 0)
	if hi += carry; hi >= divisor {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, divisor)
	return int64(min(q, math.MaxInt64))
}

// nano writes nano-units with nine places.
func nano(n int64) string { return decimal(n, 9) }

// decimal writes n parts of ten to the places.
func decimal(n int64, places int) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for len(s) <= places {
		s = "0" + s
	}
	return sign + s[:len(s)-places] + "." + s[len(s)-places:]
}

// quantity writes a measured quantity with nine places.
func quantity(f float64) string { return strconv.FormatFloat(f, 'f', 9, 64) }

// object writes JSON with sorted keys.
func object(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // strings and numbers that we wrote: cannot happen
	}
	return string(b)
}

func originID(n NodeHour, fund int) string {
	return fmt.Sprintf("%s/%s/%s/%d", n.Cluster.ID, n.Machine.UID, n.Hour.UTC().Format("2006-01-02T15Z"), fund)
}
