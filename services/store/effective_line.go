package store

import (
	"context"
	"slices"
	"time"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// EffectiveLine is what the next machine on demand cost a tenant at moments of a span: its own price where it has one, after what its
// commitments left over then. It is loaded once and computed outside any transaction; not safe for concurrent use.
type EffectiveLine struct {
	prices *commitment.Prices
	bought []commitment.Commitment
	nodes  []commitment.Node
	places []string // zones that commitments on single zones hold, by the account's names
	zones  map[string]string
}

// LoadEffectiveLine reads what the prices of an offering's machine over a span depend on.
func LoadEffectiveLine(ctx context.Context, tx *Tx, book *market.PriceBook, o fleet.Offering, span fleet.Interval) (*EffectiveLine, error) {
	own, err := TenantPrices(ctx, tx)
	if err != nil {
		return nil, err
	}
	l := &EffectiveLine{prices: commitment.NewPrices(book, Contracts(own))}
	bought, err := Commitments(ctx, tx, span.From, span.To)
	if err != nil {
		return nil, err
	}
	for _, c := range bought {
		if c.Kind.Cloud() == o.Cloud && (c.Region == "" || c.Region == o.Region) {
			l.bought = append(l.bought, c.Commitment)
			if c.Zone != "" && c.InstanceType == o.InstanceType && !slices.Contains(l.places, c.Zone) {
				l.places = append(l.places, c.Zone)
			}
		}
	}
	if len(l.bought) == 0 {
		return l, nil
	}
	slices.Sort(l.places)
	nodes, err := NodeLives(ctx, tx, span.From, span.To)
	if err != nil {
		return nil, err
	}
	// Machines of other clouds take nothing of these commitments.
	l.nodes = slices.DeleteFunc(nodes, func(n commitment.Node) bool { return n.Offering.Cloud != o.Cloud })
	if l.zones, err = ZoneIDs(ctx, tx); err != nil {
		return nil, err
	}
	return l, nil
}

// maxLineWork bounds machines times moments of one line: about two CPU-seconds.
const maxLineWork = 600_000

// At gives the price per hour at each of some moments, ascending; nil: unknown. zone, if any, is the only zone asked for, under its id or
// the account's name; otherwise the cheapest zone counts. list has the on-demand price that a history lists at each moment, which comes
// before the price book's; nil where it lists none. Over many machines neighbouring moments share an answer.
func (l *EffectiveLine) At(ctx context.Context, o fleet.Offering, zone string, moments []time.Time, list []*fleet.Money) ([]*fleet.Money, error) {
	out := make([]*fleet.Money, len(moments))
	zones := append([]string{""}, l.places...)
	if zone != "" {
		zones = []string{zone}
		for name, id := range l.zones {
			if id == zone {
				zones = []string{name}
			}
		}
	}
	stride := 1 + len(l.nodes)*len(moments)*len(zones)/maxLineWork
	for i := range moments {
		if i%stride != 0 && alike(list[i], list[i-1]) {
			out[i] = out[i-1]
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = l.at(o, zones, moments[i], list[i])
	}
	return out, nil
}

func alike(a, b *fleet.Money) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

func (l *EffectiveLine) at(o fleet.Offering, zones []string, at time.Time, list *fleet.Money) (best *fleet.Money) {
	left := l.left(at)
	for _, zone := range zones {
		o.Zone = zone
		c := l.prices.Of(o, fleet.InstanceType{Cloud: o.Cloud, Name: o.InstanceType}, at)
		if list != nil {
			c.List = commitment.Known{Hour: list, AsOf: at}
		}
		if q := commitment.Marginal(c, 1, left); q.PerHour != nil && (best == nil || *q.PerHour < *best) {
			best = q.PerHour
		}
	}
	return best
}

// left is what the machines of a moment leave of the commitments, as if both went on for an hour.
func (l *EffectiveLine) left(at time.Time) commitment.State {
	var running []commitment.Node
	for _, n := range l.nodes {
		if !n.Life.From.After(at) && (n.Life.To.IsZero() || n.Life.To.After(at)) {
			n.Life = fleet.Interval{From: at, To: at.Add(time.Hour)}
			running = append(running, n)
		}
	}
	var bought []commitment.Commitment
	for _, c := range l.bought {
		if !c.Term.From.After(at) && (c.Term.To.IsZero() || c.Term.To.After(at)) {
			bought = append(bought, c)
		}
	}
	in := commitment.HourInput(fleet.Interval{From: at, To: at.Add(time.Hour)}, running, bought, l.prices)
	return commitment.Left(at, in.Usage, bought, in.List)
}
