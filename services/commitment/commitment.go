// Package commitment knows what a tenant has already paid for: reservations, savings plans, capacity reservations and committed use. It
// applies them to what runs in the providers' own order, says what is used and unused to the nano-unit, what one more machine costs on
// top, and what to buy next. It is pure; no reserved hour is ever used twice, and an unknown price stays unknown.
package commitment

import (
	"time"

	"plimsoll.dev/services/fleet"
)

// Kind is a product that a cloud sells.
type Kind string

// Kinds, as clouds name them.
const (
	KindCapacityBlock    Kind = "aws_capacity_block"
	KindCapacity         Kind = "aws_capacity_reservation"
	KindZonalRI          Kind = "aws_zonal_ri"
	KindRegionalRI       Kind = "aws_regional_ri"
	KindInstanceSP       Kind = "aws_ec2_instance_sp"
	KindComputeSP        Kind = "aws_compute_sp"
	KindAzureReservation Kind = "azure_reservation"
	KindAzureSP          Kind = "azure_savings_plan"
	KindGCPResource      Kind = "gcp_resource_cud"
	KindGCPFlexible      Kind = "gcp_flexible_cud"
)

// kindRule is how a kind is applied. Stages run in order within a cloud; clouds never share usage.
type kindRule struct {
	kind    Kind
	cloud   fleet.Cloud
	stage   int
	spend   bool // commits money per hour, not machines
	instant bool // counts what runs at each moment; the others count what ran within the clock hour
	needs   []string
}

var kindRules = []kindRule{
	{KindCapacityBlock, fleet.CloudAWS, 0, false, true, []string{"region", "zone", "instance_type", "quantity"}},
	{KindCapacity, fleet.CloudAWS, 1, false, true, []string{"region", "zone", "instance_type", "quantity"}},
	{KindZonalRI, fleet.CloudAWS, 2, false, false, []string{"region", "zone", "instance_type", "quantity"}},
	{KindRegionalRI, fleet.CloudAWS, 3, false, false, []string{"region", "instance_type", "quantity"}},
	{KindInstanceSP, fleet.CloudAWS, 4, true, false, []string{"region", "family", "hourly_commitment"}},
	{KindComputeSP, fleet.CloudAWS, 5, true, false, []string{"hourly_commitment"}},
	{KindAzureReservation, fleet.CloudAzure, 0, false, false, []string{"region", "instance_type", "quantity"}},
	{KindAzureSP, fleet.CloudAzure, 1, true, false, []string{"hourly_commitment"}},
	{KindGCPResource, fleet.CloudGCP, 0, false, true, []string{"region", "resource", "quantity"}},
	{KindGCPFlexible, fleet.CloudGCP, 1, true, false, []string{"hourly_commitment"}},
}

func (k Kind) rule() (kindRule, bool) {
	for _, r := range kindRules {
		if r.kind == k {
			return r, true
		}
	}
	return kindRule{}, false
}

// Kinds lists all kinds in the order of application, cloud by cloud.
func Kinds() []Kind {
	out := make([]Kind, len(kindRules))
	for i, r := range kindRules {
		out[i] = r.kind
	}
	return out
}

// Cloud that sells the kind; empty for an unknown one.
func (k Kind) Cloud() fleet.Cloud {
	r, _ := k.rule()
	return r.cloud
}

// Spend says whether the kind commits money per hour instead of machines.
func (k Kind) Spend() bool {
	r, _ := k.rule()
	return r.spend
}

// Resource is what a quantity counts: whole machines, or one resource of them.
type Resource string

// Resources. Quantities are thousandths of machines, vCPUs and GPUs, and MiB of memory.
const (
	ResourceMachine Resource = "machine"
	ResourceCPU     Resource = "vcpu"
	ResourceMemory  Resource = "memory"
	ResourceGPU     Resource = "gpu"
)

// Rate is what a spend plan charges for a machine: a price per hour, or a discount off the on-demand price. The most specific rate counts:
// type before family, a region before all.
type Rate struct {
	InstanceType string       `json:"instance_type,omitempty"`
	Family       string       `json:"family,omitempty"`
	Region       string       `json:"region,omitempty"` // empty: all
	Hour         *fleet.Money `json:"hour,omitempty"`
	DiscountPPM  int64        `json:"discount_ppm,omitempty"` // millionths off the on-demand price; when Hour is nil
}

// Ratio is how many units of a size-flexible group one machine of a type counts for, in thousandths.
type Ratio struct {
	InstanceType string `json:"instance_type"`
	Milli        int64  `json:"milli"`
}

// Commitment is one purchase.
type Commitment struct {
	ID           string
	Ref          string // the provider's id, or the tenant's own; unique within a tenant
	Kind         Kind
	Region       string // empty: all regions (plans)
	Zone         string
	InstanceType string
	Family       string // "m5" of AWS, "n2" of Google; of a spend plan on Google: the only family it covers, empty for all that are eligible
	Resource     Resource
	GPUModel     fleet.GPUModel // of a GPU resource commitment
	Quantity     int64          // see Resource; 0 for spend plans
	// Upfront is paid once for the term, Recurring per hour; together they are what the commitment costs.
	Upfront, Recurring fleet.Money
	// Spend is what a spend plan commits to pay per hour, at its discounted rates.
	Spend       fleet.Money
	DiscountPPM int64 // of a spend plan where no rate matches; 0: it covers only what has a rate
	Rates       []Rate
	Ratios      []Ratio // of an Azure reservation with instance size flexibility
	// Flexible overrides what the family says about size flexibility of a regional RI; nil: as the family says.
	Flexible *bool
	Term     fleet.Interval // To zero: until cancelled
	Owner    string         // team that bears what is unused; empty: nobody in particular
}

// Active is how long the commitment runs within span.
func (c *Commitment) Active(span fleet.Interval) time.Duration {
	a := c.active(span)
	return a.To.Sub(a.From)
}

// active is the part of span in which the commitment runs.
func (c *Commitment) active(span fleet.Interval) fleet.Interval {
	if c.Term.From.After(span.From) {
		span.From = c.Term.From
	}
	if !c.Term.To.IsZero() && c.Term.To.Before(span.To) {
		span.To = c.Term.To
	}
	if span.To.Before(span.From) {
		span.To = span.From
	}
	return span
}

// Bought is what the part of the commitment that lies in span costs, amortised: the upfront payment evenly over the term, and the hourly
// ones. Parts of a term add up to the whole exactly.
func (c *Commitment) Bought(span fleet.Interval) fleet.Money {
	a := c.active(span)
	return c.costUntil(a.To) - c.costUntil(a.From)
}

// Paid is what is paid within span: what is due for its time, and the upfront payment if the term begins in it. Over a whole term it is what
// Bought is.
func (c *Commitment) Paid(span fleet.Interval) (upfront, recurring fleet.Money) {
	a := c.active(span)
	if !c.Term.From.Before(span.From) && c.Term.From.Before(span.To) && c.Term.To.After(c.Term.From) {
		upfront = c.Upfront
	}
	return upfront, c.dueUntil(a.To) - c.dueUntil(a.From)
}

// dueUntil is what was paid by the hour until t.
func (c *Commitment) dueUntil(t time.Time) fleet.Money {
	hourly := c.Recurring
	if c.Kind.Spend() {
		hourly = c.Spend
	}
	return hourly.MulDiv(max(t.Sub(c.Term.From).Milliseconds(), 0), hourMillis)
}

func (c *Commitment) costUntil(t time.Time) fleet.Money {
	elapsed := t.Sub(c.Term.From).Milliseconds()
	if elapsed <= 0 {
		return 0
	}
	cost := c.dueUntil(t)
	if term := c.Term.To.Sub(c.Term.From).Milliseconds(); !c.Term.To.IsZero() && term > 0 {
		cost = cost.Add(c.Upfront.MulDiv(min(elapsed, term), term))
	}
	return cost
}

// HourCost is the amortised cost of a full hour, rounded.
func (c *Commitment) HourCost() fleet.Money {
	if c.Kind.Spend() {
		return c.Spend
	}
	cost := c.Recurring
	if term := c.Term.To.Sub(c.Term.From).Milliseconds(); !c.Term.To.IsZero() && term > 0 {
		cost = cost.Add(c.Upfront.MulDiv(hourMillis, term))
	}
	return cost
}

const hourMillis = int64(time.Hour / time.Millisecond)

// Bounds of what a commitment may say; they keep every product here inside an int64.
const (
	maxMachines = 100_000
	maxUnits    = 1_000_000_000 // milli-vCPU, MiB or milli-GPU
	maxPayment  = fleet.Money(4_000_000_000 * fleet.NanosPerUnit)
	maxHourly   = fleet.Money(50_000 * fleet.NanosPerUnit) // ten years of it and an upfront payment fit into Money
	maxRates    = 5_000
	maxTerm     = 10 * 366 * 24 * time.Hour
)

// Validate says what is wrong, with Field set to the name of the column.
func (c *Commitment) Validate() error {
	r, ok := c.Kind.rule()
	if !ok {
		return invalid("kind", "unknown kind %q", c.Kind)
	}
	given := map[string]bool{"region": c.Region != "", "zone": c.Zone != "", "instance_type": c.InstanceType != "", "family": c.Family != "",
		"resource": c.Resource != "", "quantity": c.Quantity != 0, "hourly_commitment": c.Spend != 0}
	for _, column := range r.needs {
		if !given[column] {
			return invalid(column, "%s needs it", c.Kind)
		}
	}
	switch {
	case c.Ref == "":
		return invalid("ref", "is missing")
	case c.Term.From.IsZero():
		return invalid("starts_at", "is missing")
	case !c.Term.To.IsZero() && !c.Term.To.After(c.Term.From):
		return invalid("ends_at", "must be after starts_at")
	case !c.Term.To.IsZero() && c.Term.To.Sub(c.Term.From) > maxTerm:
		return invalid("ends_at", "a term has at most ten years")
	case c.Term.To.IsZero() && c.Kind != KindCapacity:
		return invalid("ends_at", "is missing; only a capacity reservation runs until it is cancelled")
	case c.Upfront < 0 || c.Upfront > maxPayment:
		return invalid("upfront", "must be from 0 to %s", maxPayment)
	case c.Recurring < 0 || c.Recurring > maxHourly:
		return invalid("recurring_hour", "must be from 0 to %s", maxHourly)
	}
	if r.spend {
		return c.validateSpend()
	}
	return c.validateQuantity(r)
}

func (c *Commitment) validateSpend() error {
	switch {
	case c.Spend <= 0 || c.Spend > maxHourly:
		return invalid("hourly_commitment", "must be above 0 and at most %s", maxHourly)
	case c.Quantity != 0:
		return invalid("quantity", "a plan commits money, not machines")
	case c.Upfront != 0:
		return invalid("upfront", "a plan costs its hourly commitment, whenever it is paid")
	case c.Recurring != 0:
		return invalid("recurring_hour", "a plan costs its hourly commitment")
	case c.DiscountPPM < 0 || c.DiscountPPM >= million:
		return invalid("discount_percent", "must be from 0 to under 100")
	case c.DiscountPPM == 0 && len(c.Rates) == 0:
		return invalid("rates", "a plan needs rates or discount_percent")
	case len(c.Rates) > maxRates:
		return invalid("rates", "at most %d", maxRates)
	}
	for _, r := range c.Rates {
		switch {
		case (r.InstanceType == "") == (r.Family == ""):
			return invalid("rates", "each names a type or a family")
		case r.Hour != nil && (*r.Hour <= 0 || *r.Hour > maxHourly), r.Hour == nil && (r.DiscountPPM <= 0 || r.DiscountPPM >= million):
			return invalid("rates", "%s%s has no rate in range", r.InstanceType, r.Family)
		case r.Hour != nil && c.Kind == KindGCPFlexible:
			return invalid("rates", "Google's flexible commitments discount each resource: give a percentage")
		}
	}
	return nil
}

func (c *Commitment) validateQuantity(r kindRule) error {
	limit, machines := int64(maxUnits), c.Kind != KindGCPResource
	if machines {
		limit = maxMachines * 1000
	}
	switch {
	case c.Quantity <= 0 || c.Quantity > limit:
		return invalid("quantity", "must be above 0 and at most %d", limit/1000)
	case machines && c.Quantity%1000 != 0:
		return invalid("quantity", "machines are bought whole")
	case c.Spend != 0:
		return invalid("hourly_commitment", "only plans have one")
	case len(c.Rates) > 0 || c.DiscountPPM != 0:
		return invalid("rates", "only plans have them")
	case len(c.Ratios) > 0 && c.Kind != KindAzureReservation:
		return invalid("ratios", "only Azure reservations have them")
	case len(c.Ratios) > maxRates:
		return invalid("ratios", "at most %d", maxRates)
	case c.Kind == KindCapacity && (c.Upfront != 0 || c.Recurring != 0):
		return invalid("recurring_hour", "a capacity reservation costs the on-demand price of its machines")
	case machines && c.Resource != "" && c.Resource != ResourceMachine:
		return invalid("resource", "%s counts machines", c.Kind)
	case !machines && c.Resource != ResourceCPU && c.Resource != ResourceMemory && c.Resource != ResourceGPU:
		return invalid("resource", "must be vcpu, memory or gpu")
	case c.Resource == ResourceGPU && c.GPUModel == "":
		return invalid("gpu_model", "a GPU commitment names its model")
	case !machines && c.Resource != ResourceGPU && c.Family == "":
		return invalid("family", "vCPU and memory are committed for a machine series")
	case r.kind == KindRegionalRI && c.Flexible != nil && *c.Flexible && NormalisationMilli(c.InstanceType) == 0:
		return invalid("size_flexible", "%s has no known size", c.InstanceType)
	}
	own := len(c.Ratios) == 0
	for _, q := range c.Ratios {
		if q.Milli <= 0 || q.Milli > 1_000_000 {
			return invalid("ratios", "%s must be above 0 and at most 1000", q.InstanceType)
		}
		own = own || q.InstanceType == c.InstanceType
	}
	if !own {
		return invalid("ratios", "must name %s itself", c.InstanceType)
	}
	return nil
}

const million = 1_000_000

func invalid(field, format string, args ...any) error {
	e := fleet.Errorf(fleet.CodeInvalid, format, args...)
	e.Field = field
	return e
}

// Reserves says how many machines of an offering's type and region the commitment pays for by its terms; false when it pays for none.
func (c *Commitment) Reserves(o fleet.Offering) (machines int, ok bool) {
	switch c.Kind {
	case KindCapacityBlock, KindZonalRI, KindRegionalRI, KindAzureReservation:
		ok = c.Kind.Cloud() == o.Cloud && c.Region == o.Region && c.InstanceType == o.InstanceType
		return int(c.Quantity / 1000), ok
	default:
		return 0, false
	}
}
