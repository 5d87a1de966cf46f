package httpapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// CommitmentUse is what became of a commitment in a span. used + unused = bought.
type CommitmentUse struct {
	ID      string          `json:"id"`
	Ref     string          `json:"ref"`
	Kind    commitment.Kind `json:"kind"`
	Owner   string          `json:"owner,omitempty"`
	Bought  Money           `json:"bought" doc:"amortised; zero of a capacity reservation, whose machines are billed themselves"`
	Used    Money           `json:"used"`
	Unused  Money           `json:"unused"`
	Ratio   *float64        `json:"utilisation" doc:"used over bought; null when it did not run"`
	Hours   float64         `json:"hours" doc:"of the span in which it ran"`
	Listed  *Money          `json:"listed" doc:"what the covered usage would have cost on demand; null: some of it has no list price"`
	Savings *Money          `json:"savings" doc:"listed less bought; negative when too much is unused"`
}

// CommitmentUtilisation is the use of all commitments in a span.
type CommitmentUtilisation struct {
	From   time.Time       `json:"from" doc:"as asked, or the hour of the first machine that was seen if that is later: before it nothing is known"`
	To     time.Time       `json:"to" doc:"exclusive"`
	Bought Money           `json:"bought"`
	Used   Money           `json:"used"`
	Unused Money           `json:"unused"`
	Ratio  *float64        `json:"utilisation" doc:"used over bought, in money; null when nothing was bought"`
	Items  []CommitmentUse `json:"items" doc:"most unused money first"`
}

// CoverageRow is how much eligible usage commitments cover.
type CoverageRow struct {
	Cloud           fleet.Cloud `json:"cloud"`
	Region          string      `json:"region"`
	Family          string      `json:"family"`
	EligibleHours   float64     `json:"eligible_hours" doc:"machine-hours that are not Spot; on Google a machine counts once per resource"`
	CoveredHours    float64     `json:"covered_hours"`
	Ratio           *float64    `json:"coverage" doc:"covered over eligible, at on-demand prices where all have one, else in hours"`
	OnDemandCost    Money       `json:"on_demand_cost" doc:"of the eligible usage at list prices"`
	CoveredCost     Money       `json:"covered_cost" doc:"of the covered usage at list prices"`
	UnlistedPresent bool        `json:"unlisted" doc:"some of it has no list price, and is not in the amounts"`
}

// CommitmentCoverage is the coverage of a span.
type CommitmentCoverage struct {
	From  time.Time     `json:"from"`
	To    time.Time     `json:"to" doc:"exclusive"`
	Ratio *float64      `json:"coverage" doc:"of all of it; null without eligible usage"`
	Items []CoverageRow `json:"items" doc:"dearest first"`
}

// CommitmentExpiry is a commitment that ends.
type CommitmentExpiry struct {
	ID       string          `json:"id"`
	Ref      string          `json:"ref"`
	Kind     commitment.Kind `json:"kind"`
	Owner    string          `json:"owner,omitempty"`
	EndsAt   time.Time       `json:"ends_at"`
	DaysLeft int             `json:"days_left" doc:"full days, of data time"`
	HourCost Money           `json:"hour_cost"`
	Left     Money           `json:"left" doc:"amortised cost of the rest of the term"`
}

// CommitmentSpan chooses the time of a report. Exported because huma passes over embedded types that are not.
type CommitmentSpan struct {
	From time.Time `query:"from" doc:"default: 7 days before to"`
	To   time.Time `query:"to" doc:"default: the tenant's data now; at most 92 days after from"`
}

const maxCommitmentSpan = 92 * 24 * time.Hour

func (in CommitmentSpan) interval(now time.Time, back time.Duration) (fleet.Interval, error) {
	i := fleet.Interval{From: in.From.UTC(), To: in.To.UTC()}
	if in.To.IsZero() || i.To.After(now) {
		i.To = now
	}
	if in.From.IsZero() {
		i.From = i.To.Add(-back).Truncate(time.Hour)
	}
	if !i.From.Before(i.To) || i.To.Sub(i.From) > maxCommitmentSpan {
		return i, &fleet.Error{Code: fleet.CodeInvalid, Message: "from must be before to, and at most 92 days before it", Field: "query.from"}
	}
	return i, nil
}

// history is what reports on commitments are made from.
type history struct {
	span        fleet.Interval // what is known of what was asked for
	asked       time.Duration
	commitments []store.Commitment
	plain       []commitment.Commitment
	nodes       []commitment.Node
	prices      *commitment.Prices
}

func (s *Server) loadHistory(ctx context.Context, tx *store.Tx, in CommitmentSpan, back time.Duration) (h history, err error) {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return h, err
	}
	if h.span, err = in.interval(now, back); err != nil {
		return h, err
	}
	h.asked = h.span.To.Sub(h.span.From)
	// What was there before any machine was seen is not known: a commitment's hours of that time are neither used nor unused.
	first, err := store.FirstMachine(ctx, tx)
	if err != nil {
		return h, err
	}
	if first.After(h.span.From) {
		h.span.From = first
		if first.After(h.span.To) {
			h.span.From = h.span.To
		}
	}
	if h.commitments, err = store.Commitments(ctx, tx, h.span.From, h.span.To); err != nil {
		return h, err
	}
	if h.nodes, err = store.NodeLives(ctx, tx, h.span.From, h.span.To); err != nil {
		return h, err
	}
	h.plain = plainCommitments(h.commitments)
	h.prices, err = s.tenantPrices(ctx, tx)
	return h, err
}

func plainCommitments(all []store.Commitment) []commitment.Commitment {
	out := make([]commitment.Commitment, len(all))
	for i, c := range all {
		out[i] = c.Commitment
	}
	return out
}

func (s *Server) tenantPrices(ctx context.Context, tx *store.Tx) (*commitment.Prices, error) {
	own, err := store.TenantPrices(ctx, tx)
	return commitment.NewPrices(s.prices(), store.Contracts(own)), err
}

// tally walks through the span outside any transaction.
func (h history) tally(ctx context.Context) (t commitment.Tally, err error) {
	err = commitment.History(h.span, h.nodes, h.plain, h.prices, func(s commitment.Statement) error {
		t.Add(s)
		return ctx.Err()
	})
	return t, err
}

func (s *Server) commitmentUtilisation(ctx context.Context, p auth.Principal, in *CommitmentSpan) (*struct{ Body CommitmentUtilisation }, error) {
	var h history
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		h, err = s.loadHistory(ctx, tx, *in, 7*24*time.Hour)
		return err
	})
	if err != nil {
		return nil, err
	}
	tally, err := h.tally(ctx)
	if err != nil {
		return nil, err
	}
	byID := map[string]store.Commitment{}
	for _, c := range h.commitments {
		byID[c.ID] = c
	}
	out := &struct{ Body CommitmentUtilisation }{Body: CommitmentUtilisation{From: h.span.From, To: h.span.To, Items: []CommitmentUse{}}}
	balances := tally.Balances()
	slices.SortStableFunc(balances, func(a, b commitment.Balance) int {
		return cmp.Or(cmp.Compare(b.Unused, a.Unused), cmp.Compare(byID[a.Commitment].Ref, byID[b.Commitment].Ref))
	})
	var sum commitment.Balance
	for _, b := range balances {
		c := byID[b.Commitment]
		v := CommitmentUse{ID: c.ID, Ref: c.Ref, Kind: c.Kind, Owner: c.Owner, Bought: s.money(b.Bought), Used: s.money(b.Used), Unused: s.money(b.Unused), Ratio: b.Ratio(),
			Hours: float64(b.Millis) / float64(time.Hour/time.Millisecond), Listed: moneyOrNil(b.Listed, s.prices().Currency())}
		if b.Listed != nil {
			saved := s.money(b.Listed.Add(-b.Bought))
			v.Savings = &saved
		}
		sum.Bought, sum.Used, sum.Unused = sum.Bought.Add(b.Bought), sum.Used.Add(b.Used), sum.Unused.Add(b.Unused)
		out.Body.Items = append(out.Body.Items, v)
	}
	out.Body.Bought, out.Body.Used, out.Body.Unused, out.Body.Ratio = s.money(sum.Bought), s.money(sum.Used), s.money(sum.Unused), sum.Ratio()
	return out, nil
}

func (s *Server) commitmentCoverage(ctx context.Context, p auth.Principal, in *CommitmentSpan) (*struct{ Body CommitmentCoverage }, error) {
	var h history
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		h, err = s.loadHistory(ctx, tx, *in, 7*24*time.Hour)
		return err
	})
	if err != nil {
		return nil, err
	}
	tally, err := h.tally(ctx)
	if err != nil {
		return nil, err
	}
	out := &struct{ Body CommitmentCoverage }{Body: CommitmentCoverage{From: h.span.From, To: h.span.To, Items: []CoverageRow{}}}
	rows := tally.Coverage()
	slices.SortStableFunc(rows, func(a, b commitment.Coverage) int { return cmp.Compare(b.ListedEligible, a.ListedEligible) })
	var all commitment.Coverage
	hours := func(ms int64) float64 { return float64(ms) / float64(time.Hour/time.Millisecond) }
	for _, c := range rows {
		all.Eligible, all.Covered, all.Unlisted = all.Eligible+c.Eligible, all.Covered+c.Covered, all.Unlisted+c.Unlisted
		all.ListedEligible, all.ListedCovered = all.ListedEligible.Add(c.ListedEligible), all.ListedCovered.Add(c.ListedCovered)
		out.Body.Items = append(out.Body.Items, CoverageRow{Cloud: c.Cloud, Region: c.Region, Family: c.Family, EligibleHours: hours(c.Eligible), CoveredHours: hours(c.Covered),
			Ratio: c.Ratio(), OnDemandCost: s.money(c.ListedEligible), CoveredCost: s.money(c.ListedCovered), UnlistedPresent: c.Unlisted > 0})
	}
	out.Body.Ratio = all.Ratio()
	return out, nil
}

func (s *Server) commitmentExpiries(ctx context.Context, p auth.Principal, in *struct {
	Days int `query:"days" minimum:"1" maximum:"3660" default:"365" doc:"how far to look ahead"`
}) (*struct {
	Body struct {
		DataNow time.Time          `json:"data_now"`
		Items   []CommitmentExpiry `json:"items" doc:"soonest first"`
	}
}, error) {
	out := &struct {
		Body struct {
			DataNow time.Time          `json:"data_now"`
			Items   []CommitmentExpiry `json:"items" doc:"soonest first"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return err
		}
		all, err := store.Commitments(ctx, tx, now, time.Time{})
		if err != nil {
			return err
		}
		out.Body.DataNow, out.Body.Items = now, []CommitmentExpiry{}
		for _, c := range all {
			if c.Term.To.IsZero() || c.Term.To.After(now.AddDate(0, 0, in.Days)) {
				continue
			}
			out.Body.Items = append(out.Body.Items, CommitmentExpiry{ID: c.ID, Ref: c.Ref, Kind: c.Kind, Owner: c.Owner, EndsAt: c.Term.To.UTC(), DaysLeft: int(c.Term.To.Sub(now) / (24 * time.Hour)),
				HourCost: s.money(c.HourCost()), Left: s.money(c.Bought(fleet.Interval{From: now, To: c.Term.To}))})
		}
		slices.SortStableFunc(out.Body.Items, func(a, b CommitmentExpiry) int { return a.EndsAt.Compare(b.EndsAt) })
		return nil
	})
	return out, err
}
