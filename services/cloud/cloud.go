// Package cloud holds what the adapters of the clouds have in common: the shapes they return, how a price is read, and how a list of
// pages is fetched whole or not at all. It knows none of them, decides nothing, and keeps nothing. An adapter returns numbers and names,
// never behaviour; a list is complete or it is an error; an unknown price is nil, never zero.
package cloud

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// InstanceType is a machine that a cloud sells in a region.
type InstanceType struct {
	fleet.InstanceType
	GPUName       string // as the cloud spells it, for audit
	NetworkMbps   int64  // 0: not told
	LocalDiskGB   int64  // NVMe, in 10^9 bytes; 0: none, or not told
	LocalDiskTold bool   // so that a LocalDiskGB of 0 is none
	Interconnect  string // of machines among each other: efa, infiniband, gpudirect; none: the network only; empty: not told
	FabricGbps    int64  // of the interconnect; 0: not told
	AddressPods   int64  // pods that the network interfaces have addresses for; 0: not told
	SpotSold      bool   // as far as the cloud tells
}

// Price is one row of a price list, per machine-hour.
type Price struct {
	Offering fleet.Offering
	Hour     *fleet.Money // nil: the cloud lists the machine, but no price that can be one
	ID       string       // the cloud's own id of the price, for audit; of a price made of parts, all of them
	From     time.Time    // since when it holds, by the cloud; zero: not told
}

// SpotPrice is what a pool costs from a moment on.
type SpotPrice struct {
	Region       string
	Zone         string // as the account sees it; empty: the whole region
	ZoneID       string // the same for all accounts, where the cloud has one
	InstanceType string
	At           time.Time
	Hour         *fleet.Money // nil: no price that can be one
	Text         string       // as the cloud wrote it
	ID           string
}

// CommitmentKind tells apart what clouds sell ahead, in the words that the rest of the house uses.
type CommitmentKind string

// Kinds of commitments.
const (
	CapacityBlock       CommitmentKind = "aws_capacity_block"
	CapacityReservation CommitmentKind = "aws_capacity_reservation"
	ZonalRI             CommitmentKind = "aws_zonal_ri"
	RegionalRI          CommitmentKind = "aws_regional_ri"
	InstanceSP          CommitmentKind = "aws_ec2_instance_sp"
	ComputeSP           CommitmentKind = "aws_compute_sp"
	AzureReservation    CommitmentKind = "azure_reservation"
	AzureSP             CommitmentKind = "azure_savings_plan"
	GCPResource         CommitmentKind = "gcp_resource_cud"
	GCPFlexible         CommitmentKind = "gcp_flexible_cud"
)

// Commitment is one purchase that a cloud reports. Amounts that it does not tell are nil.
type Commitment struct {
	Ref          string // the cloud's id
	Kind         CommitmentKind
	Region       string
	Zone         string
	InstanceType string
	Family       string
	Resource     string // machine, vcpu, memory or gpu
	GPUModel     fleet.GPUModel
	QuantityMill int64        // thousandths of machines, vCPUs or GPUs; MiB of memory
	Upfront      *fleet.Money // of all of it, once
	Recurring    *fleet.Money // of all of it, per hour
	Spend        *fleet.Money // that a plan commits to, per hour
	Rates        []Rate       // of a plan
	Flexible     *bool        // size flexibility, where the cloud tells
	From, To     time.Time    // To zero: until cancelled
	State        string       // in the cloud's words
}

// Rate is what a plan charges for a type in a region, per hour.
type Rate struct {
	Region       string
	InstanceType string
	Hour         fleet.Money
}

// Capacity is what a capacity reservation holds at this moment.
type Capacity struct {
	Ref          string
	Region       string
	Zone         string
	InstanceType string
	Total        int
	Available    int
	From, To     time.Time // To zero: until cancelled
	State        string
}

// SkipReason says why a row of a list was left out or lost its price.
type SkipReason string

// Reasons. The first two leave the row out: it is none of ours. The others keep it with an unknown price.
const (
	SkipForeign     SkipReason = "foreign"      // another product, system, tenancy or state than we look at
	SkipUnknown     SkipReason = "unknown"      // something that this version has no word for
	SkipMissing     SkipReason = "missing"      // no price
	SkipNotPositive SkipReason = "not_positive" // zero or negative
	SkipMalformed   SkipReason = "malformed"    // no number, or above what any machine costs
	SkipCurrency    SkipReason = "currency"     // another currency than asked for
	SkipConflict    SkipReason = "conflict"     // two rows give the same thing different prices
)

// List is a complete list, sorted, with what was left out of it.
type List[T any] struct {
	Items   []T
	Skipped map[SkipReason]int
}

// Skip counts a row.
func (l *List[T]) Skip(r SkipReason) {
	if l.Skipped == nil {
		l.Skipped = map[SkipReason]int{}
	}
	l.Skipped[r]++
}

// Note counts a row whose price could not be read; an empty reason is none.
func (l *List[T]) Note(r SkipReason) {
	if r != "" {
		l.Skip(r)
	}
}

// Settle sorts prices and makes one row of those of one offering. Rows that disagree leave the price unknown: stale is better than wrong.
func Settle(l *List[Price]) {
	slices.SortStableFunc(l.Items, func(a, b Price) int {
		return cmp.Or(CompareOfferings(a.Offering, b.Offering), cmp.Compare(a.ID, b.ID), a.From.Compare(b.From))
	})
	out := l.Items[:0]
	for _, p := range l.Items {
		if n := len(out); n > 0 && out[n-1].Offering == p.Offering {
			if !same(out[n-1].Hour, p.Hour) {
				l.Skip(SkipConflict)
				out[n-1].Hour = nil
			}
			continue
		}
		out = append(out, p)
	}
	l.Items = out
}

func same(a, b *fleet.Money) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// SettleSpot sorts Spot prices by pool and time and drops rows that say the same twice.
func SettleSpot(l *List[SpotPrice]) {
	order := func(a, b SpotPrice) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone), a.At.Compare(b.At), cmp.Compare(a.Text, b.Text))
	}
	slices.SortStableFunc(l.Items, order)
	l.Items = slices.CompactFunc(l.Items, func(a, b SpotPrice) bool { return order(a, b) == 0 })
}

// SettleTypes sorts machines and drops repeated ones.
func SettleTypes(l *List[InstanceType]) {
	slices.SortStableFunc(l.Items, func(a, b InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	l.Items = slices.CompactFunc(l.Items, func(a, b InstanceType) bool { return a.Name == b.Name })
}

// SettleCommitments sorts commitments and drops repeated ones.
func SettleCommitments(l *List[Commitment]) {
	slices.SortStableFunc(l.Items, func(a, b Commitment) int { return cmp.Compare(a.Ref, b.Ref) })
	l.Items = slices.CompactFunc(l.Items, func(a, b Commitment) bool { return a.Ref == b.Ref })
}

// SettleCapacity sorts reservations and drops repeated ones.
func SettleCapacity(l *List[Capacity]) {
	slices.SortStableFunc(l.Items, func(a, b Capacity) int { return cmp.Compare(a.Ref, b.Ref) })
	l.Items = slices.CompactFunc(l.Items, func(a, b Capacity) bool { return a.Ref == b.Ref })
}

// CompareOfferings orders by region, type, zone and purchase; an adapter's lists are of one cloud.
func CompareOfferings(a, b fleet.Offering) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Purchase, b.Purchase))
}

// SortRates orders by region and type.
func SortRates(rates []Rate) {
	slices.SortStableFunc(rates, func(a, b Rate) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Hour, b.Hour))
	})
}
