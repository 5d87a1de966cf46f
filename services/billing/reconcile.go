package billing

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Cause says why a bill and the ledger differ. The amounts of all causes add up to the gap exactly.
type Cause string

// Causes.
const (
	CausePrice        Cause = "price"           // the same hours at another price
	CauseHours        Cause = "hours"           // more or fewer hours billed than seen
	CauseTimeShift    Cause = "time_shift"      // hours that are billed on another day than they ran
	CauseCommitment   Cause = "commitment"      // what a commitment costs, amortised otherwise, and its unused part
	CauseUnknownPrice Cause = "unknown_price"   // a machine that is seen and has no price here
	CauseUnseen       Cause = "unseen_resource" // a machine that no agent has seen
	CauseUnbilled     Cause = "unbilled"        // a machine that ran and is on no bill
	CauseNotYet       Cause = "not_billed_yet"  // days that no bill reaches
	CauseOwn          Cause = "own_machine"     // a machine that no cloud bills
	CauseTax          Cause = "tax"
	CauseSupport      Cause = "support"
	CauseNetwork      Cause = "network"
	CauseStorage      Cause = "storage"
	CauseCredit       Cause = "credit" // credits, refunds and adjustments
	CauseOther        Cause = "other_service"
)

// Level is how a pair was found.
type Level string

// Levels.
const (
	LevelResource   Level = "resource"   // the bill's resource is this machine
	LevelGroup      Level = "group"      // machines of one type, place and way of buying, of which the bill names none that is known
	LevelCommitment Level = "commitment" // unused parts of commitments of one cloud
)

// Estimate is what the ledger has for a machine and a day.
type Estimate struct {
	Day          time.Time
	Cluster      string
	Node, Name   string // uid and name
	ProviderID   string // the cloud's name of it, as Kubernetes writes it; empty: not known
	Cloud        fleet.Cloud
	Region       string
	InstanceType string
	Purchase     fleet.Purchase
	Millis       int64 // that it ran
	Cost         fleet.Money
	Unpriced     bool // it has no price, or none for a part of the day
	Committed    bool // a commitment paid for a part
}

// UnusedEstimate is what the ledger has for the unused part of commitments of a cloud on a day.
type UnusedEstimate struct {
	Day   time.Time
	Cloud fleet.Cloud
	Cost  fleet.Money
}

// Node names a machine.
type Node struct{ Cluster, UID, Name string }

func compareNode(a, b Node) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.UID, b.UID))
}

// Part is a cause with its amount: what the bill has more.
type Part struct {
	Cause  Cause
	Amount Amount
}

// Pair is what bill and ledger say about the same thing on a day.
type Pair struct {
	Day           time.Time
	Level         Level
	Cloud         fleet.Cloud
	Provider      string
	Service       string
	Region        string
	InstanceType  string
	Purchase      fleet.Purchase
	Resource      string // the bill's, of LevelResource
	Nodes         []Node // sorted
	Estimate      Amount
	Bill          Amount
	EstimateHours Amount
	BillHours     Amount
	HoursKnown    bool
	Parts         []Part // sorted by cause
}

// Gap is what the bill has more.
func (p Pair) Gap() Amount { return p.Bill.Sub(p.Estimate) }

// BillOnly is a row of the bill that the ledger has nothing for.
type BillOnly struct {
	Row    Row
	Amount Amount
	Cause  Cause
}

// LedgerOnly is a machine's day that the bill has nothing for.
type LedgerOnly struct {
	Estimate Estimate
	Cause    Cause
}

// Line sums a day of one service.
type Line struct {
	Day      time.Time
	Provider string
	Service  string
	Estimate Amount
	Bill     Amount
}

// Reconciliation is the comparison of a span.
type Reconciliation struct {
	Estimate   Amount
	Bill       Amount
	Causes     []Part // of the whole gap, sorted by cause
	Lines      []Line // by day, provider, service
	Pairs      []Pair // by day, level, resource, type
	BillOnly   []BillOnly
	LedgerOnly []LedgerOnly
	// Shares of money in pairs: of the ledger's, and of what the bill has for machines. Nil: there is none.
	EstimateMatched *float64
	BillMatched     *float64
	NoEffective     int // lines of the bill without an effective cost, whose billed cost stands for it
}

// Gap is what the bill has more.
func (r Reconciliation) Gap() Amount { return r.Bill.Sub(r.Estimate) }

// day of a row: a charge for longer than a day stands on its first.
func (r Row) day() time.Time { return r.From.Truncate(24 * time.Hour) }

// cost is the effective cost of a row, or its billed cost where lines lack that.
func (r Row) cost() Amount {
	if r.NoEffective > 0 {
		return r.Billed
	}
	return r.Effective
}

type groupKey struct {
	day      time.Time
	cloud    fleet.Cloud
	region   string
	instance string
	purchase fleet.Purchase
}

type nameKey struct {
	day  time.Time
	name string
}

// Reconcile holds the rows of bills against the ledger. Rows and estimates lie within the span that is asked about; the sums of the result are
// those of its input, and its causes add up to the gap.
func Reconcile(rows []Row, estimates []Estimate, unused []UnusedEstimate) Reconciliation {
	m := &matcher{reach: map[fleet.Cloud]fleet.Interval{}, lines: map[Line]int{}}
	for _, r := range rows {
		m.out.Bill = m.out.Bill.Add(r.cost())
		m.out.NoEffective += r.NoEffective
		if r.Kind == KindMachine {
			reach := m.reach[r.Cloud]
			m.reach[r.Cloud] = fleet.Interval{From: earlier(reach.From, r.day()), To: later(reach.To, r.To)}
		}
	}
	for _, e := range estimates {
		m.out.Estimate = m.out.Estimate.Add(AmountOf(e.Cost))
	}
	for _, u := range unused {
		m.out.Estimate = m.out.Estimate.Add(AmountOf(u.Cost))
	}
	rest, left := m.resources(rows, estimates)
	rest, left = m.groups(rest, left)
	rest = m.commitments(rest, unused)
	for _, r := range rest {
		m.billOnly(r)
	}
	for _, e := range left {
		m.ledgerOnly(e)
	}
	m.explain()
	return m.finish()
}

type matcher struct {
	out   Reconciliation
	reach map[fleet.Cloud]fleet.Interval // days that bills have machines of
	lines map[Line]int                   // by day, provider, service
	// For the share of money in pairs.
	paired, pairedBill, machineBill Amount
	unpriced, committed             []bool // of pairs
}

// names that a machine may have on a bill.
func (e Estimate) names() []string {
	first, _, _ := strings.Cut(e.Name, ".")
	names := append([]string{strings.ToLower(e.Node), strings.ToLower(e.Name), strings.ToLower(first)}, providerNames(e.ProviderID)...)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
}

// providerNames are what a bill may write for a machine that Kubernetes knows by a provider id: aws:///us-east-1a/i-0abc is i-0abc,
// azure:///subscriptions/... is the resource without its scheme, gce://project/zone/name is projects/project/zones/zone/instances/name. The whole
// path is what tells machines of scale sets apart: the last part is their number.
func providerNames(id string) []string {
	scheme, path, ok := strings.Cut(strings.ToLower(id), "://")
	path = strings.Trim(path, "/")
	if !ok || path == "" {
		return nil
	}
	parts := strings.Split(path, "/")
	last := parts[len(parts)-1]
	switch scheme {
	case "aws":
		return []string{last}
	case "azure":
		return []string{"/" + path}
	case "gce":
		if len(parts) == 3 {
			whole := "projects/" + parts[0] + "/zones/" + parts[1] + "/instances/" + last
			return []string{whole, "//compute.googleapis.com/" + whole, last}
		}
	}
	return nil
}

func (r Row) names() []string {
	last := r.Resource[strings.LastIndex(r.Resource, "/")+1:]
	names := []string{strings.ToLower(r.Resource), strings.ToLower(last), strings.ToLower(r.ResourceName)}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
}

// resources pairs rows with the machine that they name. A name that two machines have on a day names none.
func (m *matcher) resources(rows []Row, estimates []Estimate) (rest []Row, left []Estimate) {
	byName := map[nameKey]int{}
	for i, e := range estimates {
		for _, n := range e.names() {
			k := nameKey{e.Day, n}
			if _, twice := byName[k]; twice {
				byName[k] = -1
			} else {
				byName[k] = i
			}
		}
	}
	pairOf := map[int]int{}
	for _, r := range rows {
		at := -1
		if r.Kind == KindMachine {
			for _, n := range r.names() {
				if i, ok := byName[nameKey{r.day(), n}]; ok && i >= 0 && (r.Cloud == estimates[i].Cloud || r.Cloud == "" || estimates[i].Cloud == "") {
					at = i
					break
				}
			}
		}
		if at < 0 {
			rest = append(rest, r)
			continue
		}
		p, ok := pairOf[at]
		if !ok {
			e := estimates[at]
			p = m.open(Pair{Day: e.Day, Level: LevelResource, Cloud: e.Cloud, Provider: r.Provider, Service: r.Service, Region: e.Region, InstanceType: e.InstanceType, Purchase: e.Purchase, Resource: r.Resource})
			pairOf[at] = p
			m.addEstimate(p, e)
		}
		m.addRow(p, r)
	}
	for i, e := range estimates {
		if _, ok := pairOf[i]; !ok {
			left = append(left, e)
		}
	}
	return rest, left
}

// groups pairs what is left by day, place, type and way of buying.
func (m *matcher) groups(rows []Row, estimates []Estimate) (rest []Row, left []Estimate) {
	byGroup := map[groupKey][]int{}
	for i, e := range estimates {
		if e.InstanceType != "" && e.Cloud != "" {
			k := groupKey{e.Day, e.Cloud, strings.ToLower(e.Region), strings.ToLower(e.InstanceType), groupPurchase(e.Purchase, e.Committed)}
			byGroup[k] = append(byGroup[k], i)
		}
	}
	pairOf, taken := map[groupKey]int{}, map[int]bool{}
	for _, r := range rows {
		k := groupKey{r.day(), r.Cloud, strings.ToLower(r.Region), strings.ToLower(r.InstanceType), groupPurchase(r.Purchase, false)}
		members := byGroup[k]
		if r.Kind != KindMachine || r.InstanceType == "" || r.Purchase == "" || len(members) == 0 {
			rest = append(rest, r)
			continue
		}
		p, ok := pairOf[k]
		if !ok {
			e := estimates[members[0]]
			p = m.open(Pair{Day: e.Day, Level: LevelGroup, Cloud: e.Cloud, Provider: r.Provider, Service: r.Service, Region: e.Region, InstanceType: e.InstanceType, Purchase: k.purchase})
			pairOf[k] = p
			for _, i := range members {
				m.addEstimate(p, estimates[i])
				taken[i] = true
			}
		}
		m.addRow(p, r)
	}
	for i, e := range estimates {
		if !taken[i] {
			left = append(left, e)
		}
	}
	return rest, left
}

// groupPurchase puts what commitments cover with on-demand: which machine of a type a plan covers differs from bill to ledger.
func groupPurchase(p fleet.Purchase, committed bool) fleet.Purchase {
	if p == fleet.PurchaseReserved || committed {
		return fleet.PurchaseOnDemand
	}
	return p
}

// commitments pairs the unused parts by day and cloud.
func (m *matcher) commitments(rows []Row, unused []UnusedEstimate) (rest []Row) {
	type key struct {
		day   time.Time
		cloud fleet.Cloud
	}
	pairOf := map[key]int{}
	pair := func(k key, provider, service string) int {
		p, ok := pairOf[k]
		if !ok {
			p = m.open(Pair{Day: k.day, Level: LevelCommitment, Cloud: k.cloud, Provider: provider, Service: service, Purchase: fleet.PurchaseReserved})
			m.committed[p] = true
			pairOf[k] = p
		}
		return p
	}
	for _, u := range unused {
		p := pair(key{u.Day, u.Cloud}, ProviderName(u.Cloud), ServiceName(u.Cloud))
		m.out.Pairs[p].Estimate = m.out.Pairs[p].Estimate.Add(AmountOf(u.Cost))
	}
	for _, r := range rows {
		if r.Kind != KindUnused {
			rest = append(rest, r)
			continue
		}
		m.addRow(pair(key{r.day(), r.Cloud}, r.Provider, r.Service), r)
	}
	return rest
}

func (m *matcher) open(p Pair) int {
	p.HoursKnown = p.Level != LevelCommitment
	m.out.Pairs = append(m.out.Pairs, p)
	m.unpriced, m.committed = append(m.unpriced, false), append(m.committed, false)
	return len(m.out.Pairs) - 1
}

func (m *matcher) addEstimate(at int, e Estimate) {
	p := &m.out.Pairs[at]
	p.Nodes = append(p.Nodes, Node{e.Cluster, e.Node, e.Name})
	p.Estimate = p.Estimate.Add(AmountOf(e.Cost))
	p.EstimateHours = p.EstimateHours.Add(hoursOf(e.Millis))
	m.unpriced[at] = m.unpriced[at] || e.Unpriced
	m.committed[at] = m.committed[at] || e.Committed
}

func (m *matcher) addRow(at int, r Row) {
	p := &m.out.Pairs[at]
	p.Bill = p.Bill.Add(r.cost())
	p.BillHours = p.BillHours.Add(r.Hours)
	p.HoursKnown = p.HoursKnown && r.NoHours == 0
	m.committed[at] = m.committed[at] || r.Commitment != ""
	m.line(p.Day, r.Provider, r.Service, Amount{}, r.cost())
}

func hoursOf(millis int64) Amount {
	const hour = int64(time.Hour / time.Millisecond)
	return Amount{units: millis / hour, atto: millis % hour * (atto / hour)}
}

func (m *matcher) billOnly(r Row) {
	b := BillOnly{Row: r, Amount: r.cost()}
	switch r.Kind {
	case KindMachine:
		b.Cause = CauseUnseen
	case KindUnused, KindPurchase:
		b.Cause = CauseCommitment
	case KindStorage:
		b.Cause = CauseStorage
	case KindNetwork:
		b.Cause = CauseNetwork
	case KindSupport:
		b.Cause = CauseSupport
	case KindTax:
		b.Cause = CauseTax
	case KindCredit:
		b.Cause = CauseCredit
	default:
		b.Cause = CauseOther
	}
	if b.Amount.Sign() == 0 {
		return // the purchase of a commitment, and what is free
	}
	m.out.BillOnly = append(m.out.BillOnly, b)
	m.line(r.day(), r.Provider, r.Service, Amount{}, b.Amount)
}

func (m *matcher) ledgerOnly(e Estimate) {
	l := LedgerOnly{Estimate: e, Cause: CauseUnbilled}
	reach, billed := m.reach[e.Cloud]
	switch {
	case e.Cloud == "":
		l.Cause = CauseOwn
	case !billed || e.Day.Before(reach.From) || !e.Day.Before(reach.To):
		l.Cause = CauseNotYet
	}
	if e.Cost == 0 && e.Unpriced {
		return // seen, without a price here and on no bill: nothing to compare
	}
	m.out.LedgerOnly = append(m.out.LedgerOnly, l)
	m.line(e.Day, ProviderName(e.Cloud), ServiceName(e.Cloud), AmountOf(e.Cost), Amount{})
}

func (m *matcher) line(day time.Time, provider, service string, estimate, bill Amount) {
	key := Line{Day: day, Provider: provider, Service: service}
	i, ok := m.lines[key]
	if !ok {
		i = len(m.out.Lines)
		m.lines[key] = i
		m.out.Lines = append(m.out.Lines, key)
	}
	l := &m.out.Lines[i]
	l.Estimate, l.Bill = l.Estimate.Add(estimate), l.Bill.Add(bill)
}

// ProviderName is what people call a cloud on bills.
func ProviderName(c fleet.Cloud) string {
	switch c {
	case fleet.CloudAWS:
		return "AWS"
	case fleet.CloudAzure:
		return "Microsoft"
	case fleet.CloudGCP:
		return "Google Cloud"
	}
	return "On premises"
}

// ServiceName is what a cloud calls its machines on FOCUS bills.
func ServiceName(c fleet.Cloud) string {
	switch c {
	case fleet.CloudAWS:
		return "Amazon Elastic Compute Cloud"
	case fleet.CloudAzure:
		return "Virtual Machines"
	case fleet.CloudGCP:
		return "Compute Engine"
	}
	return "Machines"
}

// sameHours is how far hours may lie apart and still be the same: a bill rounds them, by seconds at most.
var sameHours = hoursOf(5_000)

// explain gives each pair its causes. Hours that are too many on one day and too few on another are a shift, as far as they cancel.
func (m *matcher) explain() {
	type series struct {
		level               Level
		resource, node      string
		region, instanceTyp string
		purchase            fleet.Purchase
	}
	effect := make([]Amount, len(m.out.Pairs)) // of hours
	bySeries := map[series][]int{}
	var order []series
	for i := range m.out.Pairs {
		p := &m.out.Pairs[i]
		more := p.BillHours.Sub(p.EstimateHours)
		if p.HoursKnown && !m.unpriced[i] && p.EstimateHours.Sign() > 0 && more.Abs().Cmp(sameHours) > 0 {
			effect[i] = p.Estimate.Times(more, p.EstimateHours)
		}
		s := series{p.Level, p.Resource, "", p.Region, p.InstanceType, p.Purchase}
		if len(p.Nodes) == 1 && p.Level == LevelResource {
			s.node = p.Nodes[0].UID
		}
		if len(bySeries[s]) == 0 {
			order = append(order, s)
		}
		bySeries[s] = append(bySeries[s], i)
	}
	shift := make([]Amount, len(m.out.Pairs))
	for _, s := range order {
		var more, fewer Amount
		for _, i := range bySeries[s] {
			if effect[i].Sign() > 0 {
				more = more.Add(effect[i])
			} else {
				fewer = fewer.Sub(effect[i])
			}
		}
		cancels := more
		if fewer.Cmp(more) < 0 {
			cancels = fewer
		}
		up, down := cancels, cancels
		for _, i := range bySeries[s] {
			left := &up
			if effect[i].Sign() < 0 {
				left = &down
			}
			take := effect[i].Abs()
			if left.Cmp(take) < 0 {
				take = *left
			}
			*left = left.Sub(take)
			if effect[i].Sign() < 0 {
				take = take.Neg()
			}
			shift[i] = take
		}
	}
	for i := range m.out.Pairs {
		p := &m.out.Pairs[i]
		rest := p.Gap().Sub(effect[i])
		cause := CausePrice
		switch {
		case m.unpriced[i]:
			cause = CauseUnknownPrice
		case m.committed[i]:
			cause = CauseCommitment
		}
		for _, part := range []Part{{CauseHours, effect[i].Sub(shift[i])}, {CauseTimeShift, shift[i]}, {cause, rest}} {
			if part.Amount.Sign() != 0 {
				p.Parts = append(p.Parts, part)
			}
		}
		slices.SortFunc(p.Parts, func(a, b Part) int { return cmp.Compare(a.Cause, b.Cause) })
	}
}

func (m *matcher) finish() Reconciliation {
	out := &m.out
	total := map[Cause]Amount{}
	for _, p := range out.Pairs {
		for _, part := range p.Parts {
			total[part.Cause] = total[part.Cause].Add(part.Amount)
		}
		m.paired = m.paired.Add(p.Estimate)
		m.pairedBill = m.pairedBill.Add(p.Bill)
		m.line(p.Day, p.Provider, p.Service, p.Estimate, Amount{})
	}
	m.machineBill = m.pairedBill
	for _, b := range out.BillOnly {
		total[b.Cause] = total[b.Cause].Add(b.Amount)
		if b.Row.Kind == KindMachine {
			m.machineBill = m.machineBill.Add(b.Amount)
		}
	}
	for _, l := range out.LedgerOnly {
		total[l.Cause] = total[l.Cause].Sub(AmountOf(l.Estimate.Cost))
	}
	for c, a := range total {
		if a.Sign() != 0 {
			out.Causes = append(out.Causes, Part{c, a})
		}
	}
	out.EstimateMatched, out.BillMatched = share(m.paired, out.Estimate), share(m.pairedBill, m.machineBill)
	slices.SortFunc(out.Causes, func(a, b Part) int { return cmp.Compare(a.Cause, b.Cause) })
	slices.SortFunc(out.Lines, func(a, b Line) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Service, b.Service))
	})
	for i := range out.Pairs {
		slices.SortFunc(out.Pairs[i].Nodes, compareNode)
	}
	slices.SortStableFunc(out.Pairs, func(a, b Pair) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Region, b.Region), cmp.Compare(a.InstanceType, b.InstanceType),
			cmp.Compare(a.Purchase, b.Purchase))
	})
	slices.SortStableFunc(out.BillOnly, func(a, b BillOnly) int {
		return cmp.Or(b.Amount.Abs().Cmp(a.Amount.Abs()), a.Row.From.Compare(b.Row.From), cmp.Compare(a.Row.FirstLine, b.Row.FirstLine))
	})
	slices.SortStableFunc(out.LedgerOnly, func(a, b LedgerOnly) int {
		return cmp.Or(cmp.Compare(b.Estimate.Cost, a.Estimate.Cost), a.Estimate.Day.Compare(b.Estimate.Day), cmp.Compare(a.Estimate.Node, b.Estimate.Node))
	})
	return *out
}

func share(part, whole Amount) *float64 {
	if whole.Sign() <= 0 {
		return nil
	}
	s := part.Float() / whole.Float()
	return &s
}
