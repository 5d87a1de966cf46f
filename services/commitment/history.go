package commitment

import (
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// Node is a machine of a cluster with the time it ran.
type Node struct {
	Cluster  fleet.ClusterID
	UID      string
	Offering fleet.Offering
	Machine  fleet.InstanceType // as its cluster reported it
	Life     fleet.Interval     // To zero: still there
}

// MaxNodeHours bounds how much history one call of History may walk through: about four CPU-seconds.
const MaxNodeHours = 1_500_000

// History allocates a span hour by hour and hands each statement on, until each returns an error.
func History(in fleet.Interval, nodes []Node, commitments []Commitment, prices *Prices, each func(Statement) error) error {
	if hours := nodeHours(in, nodes); hours > MaxNodeHours {
		return fleet.Errorf(fleet.CodeTooLarge, "%d machine-hours ran in this time, more than %d; ask for less of it", hours, MaxNodeHours)
	}
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return a.Life.From.Compare(b.Life.From) })
	var running []Node
	next := 0
	for at := in.From; at.Before(in.To); {
		hour := fleet.Interval{From: at, To: at.Truncate(time.Hour).Add(time.Hour)}
		if hour.To.After(in.To) {
			hour.To = in.To
		}
		for ; next < len(nodes) && nodes[next].Life.From.Before(hour.To); next++ {
			running = append(running, nodes[next])
		}
		running = slices.DeleteFunc(running, func(n Node) bool { return !n.Life.To.IsZero() && !n.Life.To.After(hour.From) })
		if err := each(Allocate(HourInput(hour, running, commitments, prices))); err != nil {
			return err
		}
		at = hour.To
	}
	return nil
}

// HourInput prices what ran in an hour.
func HourInput(hour fleet.Interval, running []Node, commitments []Commitment, prices *Prices) Input {
	in := Input{Interval: hour, Commitments: commitments, List: prices.List, Usage: make([]Usage, 0, len(running))}
	for _, n := range running {
		in.Usage = append(in.Usage, prices.Of(n.Offering, n.Machine, hour.From).Usage(n.Cluster, n.UID, n.Life))
	}
	return in
}

func nodeHours(in fleet.Interval, nodes []Node) (hours int64) {
	for _, n := range nodes {
		life := n.Life
		if life.To.IsZero() {
			life.To = in.To
		}
		if d := life.Overlap(in); d > 0 {
			hours += int64(d/time.Hour) + 1
		}
	}
	return hours
}
