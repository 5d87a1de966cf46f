package commitment

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// Usage is a machine that ran, with what it costs when no commitment covers it.
type Usage struct {
	Cluster  fleet.ClusterID
	Node     string // uid
	Offering fleet.Offering
	Machine  fleet.InstanceType
	Running  fleet.Interval // To zero: still there
	List     *fleet.Money   // on-demand list price per hour; nil: unknown
	Price    *fleet.Money   // what an uncovered hour costs; nil: unknown
	// Weights split List and Price over CPU, memory and GPUs, where commitments cover one of them only.
	Weights market.Weights
}

// Eligible says whether commitments cover such machines at all: never Spot, and nothing outside the three clouds.
func Eligible(o fleet.Offering) bool {
	return o.Purchase != fleet.PurchaseSpot && slices.ContainsFunc(kindRules, func(r kindRule) bool { return r.cloud == o.Cloud })
}

// span is a stretch of time, in milliseconds from the start of the interval, with units of something in it.
type span struct{ from, to, units int64 }

func (s span) size() int64 { return (s.to - s.from) * s.units }

// lane is what one commitment can cover apart from others: a whole machine, or on Google one resource of it. Amounts are units times
// milliseconds; a machine has unit units, of which Amazon's count normalised size.
type lane struct {
	cluster  fleet.ClusterID
	node     string
	held     string // commitment whose empty place this is
	offering fleet.Offering
	machine  fleet.InstanceType
	family   string
	resource Resource
	unit     int64
	list     *fleet.Money // per machine and hour, of this resource
	price    *fleet.Money
	live     []span // all of it
	free     []span // not covered by those that count moments; valid until the first of the others
	left     int64  // not covered
}

// of gives price x amount / machine, floored to zero parts.
func (l *lane) cost(perHour *fleet.Money, amount int64) *fleet.Money {
	if perHour == nil {
		return nil
	}
	m := perHour.MulDiv(amount, l.unit*hourMillis)
	return &m
}

// within is how much of the lane lies in the stretch.
func (l *lane) within(from, to int64) (sum int64) {
	for _, s := range l.live {
		if d := min(s.to, to) - max(s.from, from); d > 0 {
			sum += d * s.units
		}
	}
	return sum
}

// lanes cuts what ran within the interval into lanes, in an order that does not depend on the order of usage.
func lanes(in fleet.Interval, usage []Usage) []*lane {
	var out []*lane
	for i := range usage {
		u := &usage[i]
		from, to := offset(in, u.Running.From), in.To.Sub(in.From).Milliseconds()
		if !u.Running.To.IsZero() {
			to = min(to, offset(in, u.Running.To))
		}
		if from < to && Eligible(u.Offering) {
			out = append(out, u.lanes(from, to, 1)...)
		}
	}
	slices.SortStableFunc(out, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.node, b.node), cmp.Compare(a.resource, b.resource))
	})
	return out
}

// lanes of a number of machines of this kind.
func (u *Usage) lanes(from, to, machines int64) []*lane {
	base := lane{cluster: u.Cluster, node: u.Node, offering: u.Offering, machine: u.Machine, family: Family(u.Offering.Cloud, u.Offering.InstanceType),
		resource: ResourceMachine, unit: 1000, list: u.List, price: u.Price}
	fill := func(l lane) *lane {
		l.live = []span{{from, to, l.unit * machines}}
		l.free, l.left = slices.Clone(l.live), l.live[0].size()
		return &l
	}
	switch u.Offering.Cloud {
	case fleet.CloudAWS:
		if n := NormalisationMilli(u.Offering.InstanceType); n > 0 {
			base.unit = n
		}
	case fleet.CloudGCP:
		list, price := u.split(u.List), u.split(u.Price)
		var out []*lane
		for i, r := range []struct {
			resource Resource
			units    int64
		}{{ResourceCPU, u.Machine.CPUMilli}, {ResourceMemory, u.Machine.MemMiB}, {ResourceGPU, int64(u.Machine.GPUCount) * 1000}} {
			if r.units <= 0 || r.units > maxUnits {
				if list[i] != nil && *list[i] != 0 || price[i] != nil && *price[i] != 0 {
					return []*lane{fill(base)} // it has a price and no size: nothing of it can be told apart
				}
				continue
			}
			l := base
			l.resource, l.unit, l.list, l.price = r.resource, r.units, list[i], price[i]
			out = append(out, fill(l))
		}
		if len(out) > 0 {
			return out
		}
	}
	return []*lane{fill(base)}
}

func (u *Usage) split(m *fleet.Money) (parts [3]*fleet.Money) {
	if m != nil {
		cpu, memory, gpu := u.Weights.Split(*m, u.Machine.CPUMilli, u.Machine.MemMiB, u.Machine.GPUModel, u.Machine.GPUCount)
		parts = [3]*fleet.Money{&cpu, &memory, &gpu}
	}
	return parts
}

// offset of t within the interval in milliseconds, cut to it.
func offset(in fleet.Interval, t time.Time) int64 {
	return min(max(t.Sub(in.From).Milliseconds(), 0), in.To.Sub(in.From).Milliseconds())
}

// covers says whether the commitment may cover the lane.
func (c *Commitment) covers(l *lane) bool {
	o := l.offering
	if c.Kind.Cloud() != o.Cloud || c.Region != "" && c.Region != o.Region {
		return false
	}
	switch c.Kind {
	case KindCapacityBlock: // machines ask for a block by name, and are known as reserved
		return l.held == "" && o.Purchase == fleet.PurchaseReserved && o.Zone == c.Zone && o.InstanceType == c.InstanceType
	case KindCapacity, KindZonalRI:
		return l.held == "" && o.Zone == c.Zone && o.InstanceType == c.InstanceType
	case KindRegionalRI:
		return o.InstanceType == c.InstanceType || c.flexible() && l.family == Family(o.Cloud, c.InstanceType) && NormalisationMilli(o.InstanceType) > 0
	case KindInstanceSP:
		return l.family == c.Family
	case KindComputeSP, KindAzureSP:
		return true
	case KindAzureReservation:
		return c.ratio(o.InstanceType) > 0
	case KindGCPResource:
		if l.resource != c.Resource || c.Resource == ResourceGPU {
			return l.resource == c.Resource && l.machine.GPUModel == c.GPUModel && (c.Family == "" || c.Family == l.family)
		}
		return l.family == c.Family
	case KindGCPFlexible:
		if c.Family != "" {
			return l.family == c.Family
		}
		return l.resource != ResourceGPU && !acceleratorSeries(l.family)
	default:
		return false
	}
}

// acceleratorSeries says whether Google's flexible commitments pass over a series: those built around GPUs.
func acceleratorSeries(family string) bool {
	return strings.HasPrefix(family, "a") && len(family) > 1 && family[1] >= '0' && family[1] <= '9' || strings.HasPrefix(family, "g")
}

// per is how many of the commitment's units num/den one unit of the lane takes.
func (c *Commitment) per(l *lane) (num, den int64) {
	if c.Kind == KindAzureReservation && len(c.Ratios) > 0 {
		return c.ratio(l.offering.InstanceType), 1000
	}
	return 1, 1
}

// units that the commitment holds at a moment, in those that per speaks of.
func (c *Commitment) units() int64 {
	switch c.Kind {
	case KindGCPResource:
		return c.Quantity
	case KindAzureReservation:
		return c.Quantity / 1000 * c.ratio(c.InstanceType)
	default:
		if n := NormalisationMilli(c.InstanceType); n > 0 {
			return c.Quantity / 1000 * n
		}
		return c.Quantity
	}
}

// rate is what a spend plan charges for a machine-hour of the lane; nil: it does not cover it, or nobody knows its price.
func (c *Commitment) rate(l *lane) *fleet.Money {
	best, score := (*Rate)(nil), 0
	for i := range c.Rates {
		r := &c.Rates[i]
		s := 1
		switch {
		case r.Region != "" && r.Region != l.offering.Region, r.InstanceType != "" && r.InstanceType != l.offering.InstanceType, r.Family != "" && r.Family != l.family:
			continue
		case r.InstanceType != "" && r.Region != "":
			s = 4
		case r.InstanceType != "":
			s = 3
		case r.Region != "":
			s = 2
		}
		if s > score {
			best, score = r, s
		}
	}
	ppm := c.DiscountPPM
	if best != nil {
		if best.Hour != nil {
			return best.Hour
		}
		ppm = best.DiscountPPM
	}
	if ppm == 0 || l.list == nil {
		return nil
	}
	m := l.list.MulDiv(million-ppm, million)
	return &m
}
