package billing

import (
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// HourCost is what the ledger has for a machine's hour.
type HourCost struct {
	Cluster string
	Node    string // uid
	Hour    time.Time
	Millis  int64 // that the ledger counts, at least what the provider bills
	Cost    fleet.Money
}

// HourPrice is what the bill makes of it: Cost, and the price per hour that over the time gives Cost to the nano-unit.
type HourPrice struct {
	Cluster string
	Node    string
	Hour    time.Time
	Price   fleet.Money
	Cost    fleet.Money
}

// maxHourCost bounds what one hour of a machine may cost, so that no price leaves the range of money: 2,000 units in a millisecond.
const maxHourCost = fleet.Money(2_000 * fleet.NanosPerUnit)

// Restate divides what the bill has for a pair over the hours of its machines: by what the ledger has for each, or by time where that is
// nothing. The costs add up to the bill's amount, rounded to nano-units. ok is false where the bill cannot stand for the estimate: a negative
// amount, no hour to bear it, or an hour that would cost more than any machine.
func Restate(bill Amount, hours []HourCost) (prices []HourPrice, ok bool) {
	total, fits := bill.Money()
	if !fits || total < 0 || len(hours) == 0 {
		return nil, false
	}
	hours = slices.Clone(hours)
	slices.SortFunc(hours, func(a, b HourCost) int {
		if c := a.Hour.Compare(b.Hour); c != 0 {
			return c
		}
		return compareNode(Node{Cluster: a.Cluster, UID: a.Node}, Node{Cluster: b.Cluster, UID: b.Node})
	})
	weights := make([]int64, len(hours))
	var sum int64
	for i, h := range hours {
		if h.Millis <= 0 {
			return nil, false
		}
		weights[i] = max(int64(h.Cost), 0)
		sum |= weights[i]
	}
	if sum == 0 {
		for i, h := range hours {
			weights[i] = h.Millis
		}
	}
	const hour = int64(time.Hour / time.Millisecond)
	parts, _ := total.Split(weights)
	for i, h := range hours {
		if parts[i] > maxHourCost || h.Millis > hour {
			return nil, false
		}
		prices = append(prices, HourPrice{h.Cluster, h.Node, h.Hour, parts[i].MulDiv(hour, h.Millis), parts[i]})
	}
	return prices, true
}
