package main

import (
	"fmt"
	"io"
	"slices"
)

// A price that nobody should believe misleads more than one that is missing: it goes to quarantine, is reported, and is unknown to
// all who read the catalogue.
const (
	// A list price differs between regions, by up to three times (AMD machines of Azure in India).
	onDemandFactor = 5
	// Spot's share of the on-demand price, against the median share of the same type in its other regions. Google states discounts of
	// 60 to 91 %, so shares that are further apart than four times do not come from one market.
	spotFactor = 4
	// Spot below this part of on demand is no price.
	spotFloor = 20
	// Home regions that a median needs.
	leastPeers = 5
)

// doubt is a price in quarantine.
type doubt struct {
	region, kind  string // on_demand or spot
	was, expected int64  // nano-dollars an hour
	reason        string // above_on_demand, off_on_demand, off_peers
}

// quarantine takes prices that cannot be right out of all types.
func (b *book) quarantine() {
	for _, m := range b.types {
		m.doubts = judge(m.prices, home[m.cloud])
	}
}

// judge compares a type's prices with those of its home regions and makes those it doubts unknown.
func judge(prices []price, home map[string]bool) []doubt {
	var out []doubt
	var lists []int64
	for _, p := range prices {
		if p.onDemand > 0 && home[p.region] {
			lists = append(lists, p.onDemand)
		}
	}
	if level := median(lists); level > 0 {
		for i := range prices {
			if p := &prices[i]; p.onDemand > level*onDemandFactor || p.onDemand > 0 && p.onDemand*onDemandFactor < level {
				out = append(out, doubt{p.region, "on_demand", p.onDemand, level, "off_peers"})
				p.onDemand = 0
			}
		}
	}
	var shares []int64 // of a million
	for _, p := range prices {
		if p.onDemand > 0 && p.spot > 0 && home[p.region] {
			shares = append(shares, share(p))
		}
	}
	level := median(shares)
	for i := range prices {
		p := &prices[i]
		if p.onDemand == 0 || p.spot == 0 {
			continue
		}
		d := doubt{p.region, "spot", p.spot, p.onDemand, ""}
		switch {
		case p.spot > p.onDemand:
			d.reason = "above_on_demand"
		case p.spot*spotFloor < p.onDemand:
			d.reason = "off_on_demand"
		case level > 0 && share(*p)*spotFactor < level:
			d.reason, d.expected = "off_peers", int64(float64(p.onDemand)*float64(level)/1e6)
		default:
			continue
		}
		out = append(out, d)
		p.spot = 0
	}
	return out
}

func share(p price) int64 { return int64(float64(p.spot) / float64(p.onDemand) * 1e6) }

// median of enough values; 0 otherwise.
func median(values []int64) int64 {
	if len(values) < leastPeers {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// report tells a person what is in quarantine.
func (b *book) report(w io.Writer) {
	for _, m := range b.types {
		for _, d := range m.doubts {
			fmt.Fprintf(w, "quarantined %s %s %s %s: %s, expected about %s (%s)\n", m.cloud, m.name, d.region, d.kind, nano(d.was), nano(d.expected), d.reason)
		}
	}
}
