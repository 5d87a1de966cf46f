package jobs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/riverqueue/river"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// CloseHourArgs asks to cost every hour of a cluster that is due, up to its newest data.
type CloseHourArgs struct {
	Tenant  fleet.TenantID  `json:"tenant" river:"unique"`
	Cluster fleet.ClusterID `json:"cluster" river:"unique"`
	// Since asks to cost the closed hours from there on again, because their data changed. An hour whose lines come out the same
	// keeps its version.
	Since time.Time `json:"since,omitzero" river:"unique"`
}

// Kind implements river.JobArgs.
func (CloseHourArgs) Kind() string { return "close_hour" }

// InsertOpts implements river.JobArgsWithInsertOpts: one job per cluster waits or runs at a time.
func (CloseHourArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 10}
}

// CloseHour costs the hours of clusters: inventory and usage times prices through the ledger.
type CloseHour struct {
	river.WorkerDefaults[CloseHourArgs]
	DB     *store.DB
	Prices func() *market.PriceBook
	Log    *slog.Logger
}

// Timeout of one job: a month's backlog of a large cluster fits.
func (*CloseHour) Timeout(*river.Job[CloseHourArgs]) time.Duration { return 5 * time.Minute }

// Work implements river.Worker.
func (w *CloseHour) Work(ctx context.Context, job *river.Job[CloseHourArgs]) error {
	if err := w.CatchUp(ctx, job.Args); err != nil {
		return err
	}
	return w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error { return checkBudgetsOnce(ctx, tx) })
}

// CatchUp costs what is due, a day of hours per transaction, until everything up to the newest data is costed.
func (w *CloseHour) CatchUp(ctx context.Context, args CloseHourArgs) error {
	var done time.Time // start of the last hour that this run costed
	if err := w.lookForLate(ctx, args); err != nil {
		return err
	}
	for more := true; more; {
		err := w.DB.Tenant(ctx, args.Tenant, func(tx *store.Tx) (err error) {
			more, done, err = w.step(ctx, tx, args.Cluster, args.Since, done)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// settle is how long after an hour's end its last reports may still arrive.
	settle = 10 * time.Minute
	// patience is how long a closing waits for the roll-ups of its hour, in data time, and after the newest data of its block came,
	// by our clock: a backlog of data arrives in minutes. After both, use is whatever is known.
	patience     = 6 * time.Hour
	patienceHere = 10 * time.Minute
	// recheck is how far back closed hours of a tenant with commitments are looked at again when a new one closes: what its other clusters
	// and newly imported commitments leave over changes. All others are costed again when late data touches them.
	recheck = 24 * time.Hour
	// maxLate is how old data may be and still change closed hours: longer ago, pods are forgotten.
	maxLate = 60 * 24 * time.Hour
	// batchHours bounds the work of one transaction.
	batchHours = 24
	// maxBack bounds how old an hour may be that has never been costed.
	maxBack = 400 * 24 * time.Hour
)

// step costs the first batch of due hours after done in one transaction. more says that there are others.
func (w *CloseHour) step(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID, since, done time.Time) (more bool, last time.Time, err error) {
	state, ok, err := store.LockCosting(ctx, tx, cluster)
	if err != nil || !ok || state.DataAt == nil || state.FirstHour == nil {
		return false, done, err
	}
	if state.Touched, err = store.TouchedHours(ctx, tx, cluster); err != nil {
		return false, done, err
	}
	owns, err := store.Commitments(ctx, tx, state.DataAt.Add(-recheck), *state.DataAt)
	if err != nil {
		return false, done, err
	}
	due := slices.DeleteFunc(dueHours(state, since, tx.Now, len(owns) > 0), func(d dueHour) bool { return !d.from.After(done) })
	if len(due) == 0 {
		return false, done, nil
	}
	due, more = firstBatch(due)
	end := due[len(due)-1]
	in, err := store.LoadCostInput(ctx, tx, cluster, due[0].from, end.to)
	if err != nil {
		return false, done, err
	}
	book := w.Prices()
	pricing, err := newPricing(ctx, tx, book, in, fleet.Interval{From: due[0].from, To: end.to})
	if err != nil {
		return false, done, err
	}
	paid, err := w.loadPaid(ctx, tx, cluster, pricing.prices, due[0].from, end.to)
	if err != nil {
		return false, done, err
	}
	costed := w.cost(in, due, pricing, paid)
	if err := store.SaveCosting(ctx, tx, cluster, costed); err != nil {
		return false, done, err
	}
	if paid != nil {
		if err := paid.save(ctx, tx, due, costed); err != nil {
			return false, done, err
		}
	}
	hours := make([]time.Time, len(due))
	for i, d := range due {
		hours[i] = d.from
	}
	if err := store.Untouch(ctx, tx, cluster, hours); err != nil {
		return false, done, err
	}
	w.report(ctx, tx, cluster, costed)
	return more, end.from, nil
}

// lookForLate notes the closed hours that data has touched since they were costed. It is a transaction of its own, because ingest waits for
// the rows that it unmarks; it holds the costing meanwhile, so that no hour closes between what it looks at and what it notes.
func (w *CloseHour) lookForLate(ctx context.Context, args CloseHourArgs) error {
	return w.DB.Tenant(ctx, args.Tenant, func(tx *store.Tx) error {
		state, ok, err := store.LockCosting(ctx, tx, args.Cluster)
		if err != nil || !ok || state.DataAt == nil || state.FirstHour == nil {
			return err
		}
		floor, open := state.DataAt.UTC().Add(-maxLate).Truncate(time.Hour), state.FirstHour.UTC()
		if state.LastClosed != nil {
			open = state.LastClosed.UTC().Add(time.Hour)
		}
		return store.SweepTouched(ctx, tx, args.Cluster, floor, open)
	})
}

// firstBatch is the first hours that one transaction takes: so many, and all within a day or so, since their input is loaded in one.
func firstBatch(due []dueHour) (batch []dueHour, more bool) {
	n := 1
	for n < len(due) && n < batchHours && due[n].from.Sub(due[0].from) < batchHours*time.Hour {
		n++
	}
	return due[:n], n < len(due)
}

// dueHour is an hour to cost; final ones go into the ledger.
type dueHour struct {
	from, to time.Time
	final    bool
}

// dueHours lists what is to be costed, oldest first: closed hours again, then those never closed. Closed hours are those from since on,
// those that late data touched, and, when another hour closes, those of the last day that had no price or, where commitments are
// shared, all of the last day. Once an hour is not final, none after it is.
func dueHours(c store.Costing, since, now time.Time, shared bool) []dueHour {
	dataAt := c.DataAt.UTC()
	first := later(c.FirstHour.UTC(), dataAt.Add(-maxBack).Truncate(time.Hour))
	open := first
	if c.LastClosed != nil {
		open = later(c.LastClosed.UTC().Add(time.Hour), first)
	}
	var hours []dueHour
	closing := true
	for at := open; at.Before(dataAt); at = at.Add(time.Hour) {
		closing = closing && final(at, dataAt, now, c.Dirty)
		to := at.Add(time.Hour)
		if to.After(dataAt) {
			to = dataAt
		}
		hours = append(hours, dueHour{at, to, closing})
	}
	again := map[time.Time]bool{}
	add := func(list ...time.Time) {
		for _, at := range list {
			if at = at.UTC(); !at.Before(first) && at.Before(open) {
				again[at] = true
			}
		}
	}
	add(c.Touched...)
	from := open
	if len(hours) > 0 && len(hours) <= batchHours && hours[0].final {
		add(c.Unpriced...)
		if shared {
			from = open.Add(-recheck)
		}
	}
	if !since.IsZero() {
		from = since.UTC().Truncate(time.Hour)
	}
	for at := later(from, first); at.Before(open); at = at.Add(time.Hour) {
		add(at)
	}
	closed := make([]dueHour, 0, len(again))
	for at := range again {
		closed = append(closed, dueHour{at, at.Add(time.Hour), true})
	}
	slices.SortFunc(closed, func(a, b dueHour) int { return a.from.Compare(b.from) })
	return append(closed, hours...)
}

// final says whether the hour's data is complete: it is over for long enough, and its roll-ups are made or were waited for.
func final(hour, dataAt, now time.Time, dirty []store.DirtyBlock) bool {
	if hour.Add(time.Hour + settle).After(dataAt) {
		return false
	}
	return !slices.ContainsFunc(dirty, func(b store.DirtyBlock) bool {
		inBlock := !b.At.After(hour) && hour.Before(b.At.Add(2*time.Hour))
		waitedFor := hour.Add(patience).Before(dataAt) && b.MarkedAt.Add(patienceHere).Before(now)
		return inBlock && !waitedFor
	})
}

// cost closes the hours that are due. Closed hours whose lines did not change are left out.
func (w *CloseHour) cost(in *store.CostInput, due []dueHour, pricing *pricing, paid *paid) []store.CostedHour {
	costed := make([]store.CostedHour, 0, len(due))
	pods := make([]ledger.Pod, 0, len(in.Pods)) // of one hour after the other
	for _, d := range due {
		h := ledger.Hour{From: d.from, To: d.to, Usage: in.Usage[d.from]}
		prices := make([]store.NodePrice, 0, len(in.Nodes))
		h.Nodes, h.Pods = make([]ledger.Node, 0, len(in.Nodes)), pods[:0]
		weights := map[fleet.Cloud]market.Weights{}
		var covered map[string]nodeHour
		if paid != nil {
			covered = paid.allocate(d, func(node string) bool { return in.Frozen[store.HourKey{Hour: d.from, Node: node}].Effective != nil }).price
		}
		for _, n := range in.Nodes {
			if !within(n.Billed(), d) {
				continue
			}
			p := pricing.of(n, d, in.Frozen[store.HourKey{Hour: d.from, Node: n.UID}])
			if c, ok := covered[n.UID]; ok {
				p.List, p.Effective, p.Source, p.AsOf = c.list, c.effective, c.source, d.from
			}
			n.Price, n.List, n.Contracted, n.Weights = p.Effective, p.List, p.Contracted, pricing.weights(n.Offering.Cloud)
			if w, ok := in.SplitBy(d.from, n.Offering.Cloud); ok {
				n.Weights = w // as it was split before
			}
			weights[n.Offering.Cloud] = n.Weights
			prices = append(prices, p)
			h.Nodes = append(h.Nodes, n.Node)
		}
		for i := range in.Pods {
			if !in.Pods[i].Held.From.Before(d.to) {
				break // they are in order
			}
			if within(in.Pods[i].Held, d) {
				h.Pods = append(h.Pods, in.Pods[i])
			}
		}
		pods = h.Pods
		c := store.CostedHour{Hour: d.from, Statement: ledger.Close(h), Prices: prices, Weights: weights}
		c.ContentHash = contentHash(c.Statement)
		was := in.Hours[d.from]
		if was.State == "closed" && slices.Equal(was.ContentHash, c.ContentHash) {
			continue
		}
		if d.final {
			c.Version = was.Version + 1
		}
		costed = append(costed, c)
	}
	return costed
}

func within(life fleet.Interval, d dueHour) bool {
	return life.From.Before(d.to) && (life.To.IsZero() || life.To.After(d.from))
}

// contentHash tells two costings of an hour apart by their lines and causes.
func contentHash(s ledger.Statement) []byte {
	h := sha256.New()
	var b []byte
	text := func(all ...string) {
		for _, t := range all {
			b = append(append(b, t...), '|')
		}
	}
	row := func(r *ledger.Row) {
		text(string(r.Kind), string(r.Resource), string(r.Purchase), string(r.Owner.Workload), r.Owner.Namespace, r.Owner.Team)
		b = strconv.AppendInt(b, int64(r.Amount), 10)
		for _, q := range [...]float64{r.Quantity, r.Unpriced, r.Measured, r.Used} {
			if b = append(b, '|'); q != 0 {
				b = strconv.AppendFloat(b, q, 'g', 9, 64) // the last bits depend on the order of sums
			}
		}
		b = append(b, '\n')
		_, _ = h.Write(b)
		b = b[:0]
	}
	for i := range s.Lines {
		text(s.Lines[i].Node)
		row(&s.Lines[i].Row)
	}
	for i := range s.Causes {
		text(string(s.Causes[i].Name), s.Causes[i].Reason, s.Causes[i].Node)
		row(&s.Causes[i].Row)
	}
	fmt.Fprintf(h, "%d|%d", s.NodeSeconds, s.UnpricedNodeSeconds)
	return h.Sum(nil)
}

func (w *CloseHour) report(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID, costed []store.CostedHour) {
	closed, again, conflicts := 0, 0, 0
	var sum fleet.Money
	for _, c := range costed {
		if c.Version > 0 {
			closed, sum, conflicts = closed+1, sum.Add(c.Statement.NodeCost), conflicts+len(c.Statement.Conflicts)
		}
		if c.Version > 1 {
			again++
		}
	}
	if closed > 0 {
		w.Log.InfoContext(ctx, "hours closed", "tenant", tx.Tenant, "cluster", cluster, "hours", closed, "restated", again,
			"from", costed[0].Hour, "amount", sum.String(), "conflicts", conflicts)
	}
}

// pricing finds the price of a node's hour: frozen by an earlier costing, set by the tenant, of the Spot history, or listed.
type pricing struct {
	currency string
	prices   *commitment.Prices
	spot     *store.SpotPrices
	byCloud  map[fleet.Cloud]market.Weights
}

// weights that split a price, each cloud's merged once.
func (p *pricing) weights(cloud fleet.Cloud) market.Weights {
	w, ok := p.byCloud[cloud]
	if !ok {
		w = p.prices.Weights(cloud)
		p.byCloud[cloud] = w
	}
	return w
}

func newPricing(ctx context.Context, tx *store.Tx, book *market.PriceBook, in *store.CostInput, window fleet.Interval) (*pricing, error) {
	offerings := make([]fleet.Offering, len(in.Nodes))
	for i, n := range in.Nodes {
		offerings[i] = n.Offering
	}
	spot, err := store.SpotPricesOver(ctx, tx, book, window, offerings)
	if err != nil {
		return nil, err
	}
	return &pricing{currency: book.Currency(), prices: commitment.NewPrices(book, store.Contracts(in.Prices)), spot: spot, byCloud: map[fleet.Cloud]market.Weights{}}, nil
}

// of prices a node's hour. A frozen price is never changed; an hour that was frozen without one is priced as soon as somebody knows it.
// Of a Spot price that changed while the node ran within the hour, the mean counts, weighted by time.
func (p *pricing) of(n store.CostedNode, d dueHour, frozen store.FrozenPrice) store.NodePrice {
	ran := fleet.Interval{From: later(n.Life.From, d.from), To: d.to}
	if billed := n.Billed(); !billed.To.IsZero() && billed.To.Before(d.to) {
		ran.To = billed.To
	}
	price := store.NodePrice{Node: n.UID, Currency: p.currency, List: frozen.List, Contracted: frozen.Contracted, Effective: frozen.Effective, Source: frozen.Source, AsOf: frozen.AsOf}
	if frozen.Effective != nil && frozen.Contracted != nil {
		return price
	}
	// What is listed and contracted counts as of the hour's beginning, Spot for as long as it was in force.
	c := p.prices.Of(n.Offering, fleet.InstanceType{Cloud: n.Offering.Cloud, Name: n.Offering.InstanceType}, d.from)
	if n.Offering.Purchase == fleet.PurchaseSpot {
		c.Spot = p.spot.Over(n.Offering, ran)
	}
	known, _ := c.Uncovered()
	if price.Contracted = known.Hour; known.Hour == nil && n.Offering.Purchase == fleet.PurchaseReserved {
		price.Contracted = c.List.Hour // what its commitment is taken off
	}
	if frozen.Effective != nil {
		return price // frozen before contracted prices were
	}
	price.List, price.Effective, price.Source, price.AsOf = c.List.Hour, known.Hour, known.Source, known.AsOf
	if known.Hour == nil {
		price.Source, price.AsOf = c.List.Source, c.List.AsOf
	}
	return price
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
