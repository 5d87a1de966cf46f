package focus

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// timeFormat is how FOCUS writes times.
const timeFormat = "2006-01-02T15:04:05Z"

// provider is what people call a cloud and its machines.
type provider struct{ name, service string }

func providerOf(c fleet.Cloud) provider {
	switch c {
	case fleet.CloudAWS:
		return provider{"AWS", "Amazon Elastic Compute Cloud"}
	case fleet.CloudAzure:
		return provider{"Microsoft", "Virtual Machines"}
	case fleet.CloudGCP:
		return provider{"Google Cloud", "Compute Engine"}
	default:
		return provider{"On premises", "Machines"}
	}
}

// metrics of an origin charge: nano-units, and pico-units of a commitment.
type metrics struct{ list, contracted, billed, committed int64 }

// origin fills what all allocated charges of a fund have in common: the dimensions and unit prices of the origin charge.
func (n NodeHour) origin(index int, f fund, total int64, finding string) (Row, metrics) {
	r := header(n.Account, n.Hour, n.Machine.Offering.Cloud, n.Version, n.AsOf)
	o := n.Machine.Offering
	r[AvailabilityZone], r[RegionID], r[RegionName] = o.Zone, o.Region, o.Region
	r[SubAccountID], r[SubAccountName], r[SubAccountType] = n.Cluster.ID, cmp.Or(n.Cluster.Name, n.Cluster.ID), "Kubernetes cluster"
	r[ResourceID], r[ResourceName], r[ResourceType] = n.Machine.UID, n.Machine.Name, "Kubernetes node"
	r[SkuID] = strings.Join([]string{cmp.Or(string(o.Cloud), "onprem"), cmp.Or(o.Region, "any"), cmp.Or(o.InstanceType, "machine")}, "/")
	r[SkuPriceID], r[SkuMeter] = r[SkuID]+"/"+string(o.Purchase), "Machine hours"
	details := map[string]any{"CoreCount": float64(n.Machine.CPUMilli) / 1000, "GpuCount": n.Machine.GPUCount, "MemorySize": float64(n.Machine.MemMiB) / 1024}
	if o.InstanceType != "" {
		details["InstanceType"] = o.InstanceType
	}
	if n.Machine.GPUModel != "" {
		details["x_GpuModel"] = n.Machine.GPUModel
	}
	r[SkuPriceDetails] = object(details)
	r[Tags] = object(n.tags())
	r[ChargeDescription] = cmp.Or(o.InstanceType, "machine") + " " + string(o.Purchase) + " in " + cmp.Or(o.Zone, o.Region, n.Cluster.Name)
	r[XCapacityType], r[XPriceSource], r[XFinding] = string(o.Purchase), n.Source, finding
	r[PricingCategory] = "Standard"
	if o.Purchase == fleet.PurchaseSpot {
		r[PricingCategory] = "Dynamic"
	}

	unit := mulDiv(f.amount, pico, max(f.quantity, 1))
	if f.claim == nil && f.amount == total && n.Effective != nil && *n.Effective > 0 {
		unit = int64(*n.Effective)
	}
	list := unit
	if n.List != nil {
		list = int64(*n.List)
	} else if r[XFinding] == "" {
		r[XFinding] = "the list price is not known; the contracted price stands for it"
	}
	m := metrics{list: mulDiv(f.quantity, list, pico), contracted: f.amount, billed: f.amount}
	if f.claim != nil {
		unit, m.contracted, m.billed = list, m.list, 0
		m.committed = f.quantity
		r.commitment(f.claim.Commitment, "Used", n.Account.Currency)
		if f.claim.Commitment.Spend {
			m.committed = mulDiv(f.amount, pico/fleet.NanosPerUnit, 1)
		}
	}
	r[ListUnitPrice], r[ContractedUnitPrice] = nano(list), nano(unit)
	r[XOriginChargeID] = originID(n, index)
	r[XOriginEffectiveCost], r[XOriginListCost] = nano(f.amount), nano(m.list)
	r[XOriginContractedCost], r[XOriginBilledCost] = nano(m.contracted), nano(m.billed)
	r[XOriginPricingQuantity] = decimal(f.quantity, 12)
	r[ConsumedUnit] = "Hours"
	return r, m
}

func (n NodeHour) tags() map[string]any {
	tags := map[string]any{}
	if n.Machine.Pool != "" {
		tags["pool"] = n.Machine.Pool
	}
	return tags
}

// header fills what every charge of ours has.
func header(a Account, hour time.Time, cloud fleet.Cloud, version int, asOf time.Time) (r Row) {
	hour = hour.UTC()
	month := time.Date(hour.Year(), hour.Month(), 1, 0, 0, 0, 0, time.UTC)
	p := providerOf(cloud)
	r[BillingAccountID], r[BillingAccountName], r[BillingAccountType], r[BillingCurrency] = a.ID, a.Name, "Tenant", a.Currency
	r[BillingPeriodStart], r[BillingPeriodEnd] = month.Format(timeFormat), month.AddDate(0, 1, 0).Format(timeFormat)
	r[ChargePeriodStart], r[ChargePeriodEnd] = hour.Format(timeFormat), hour.Add(time.Hour).Format(timeFormat)
	r[ChargeCategory], r[ChargeFrequency] = "Usage", "Usage-Based"
	r[InvoiceIssuerName], r[ProviderName], r[PublisherName] = p.name, p.name, p.name
	r[HostProviderName], r[ServiceProviderName] = p.name, p.name
	r[ServiceCategory], r[ServiceSubcategory], r[ServiceName] = "Compute", "Virtual Machines", p.service
	r[PricingUnit] = "Hours"
	r[XAsOf], r[XHourVersion] = asOf.UTC().Format(timeFormat), strconv.Itoa(version)
	return r
}

// commitment says what paid for the row.
func (r *Row) commitment(c Commitment, status, currency string) {
	if c.Capacity {
		r[CapacityReservationID], r[CapacityReservationStatus] = c.Ref, status
		return
	}
	r[PricingCategory] = "Committed"
	r[CommitmentDiscountID], r[CommitmentDiscountName], r[CommitmentDiscountStatus] = c.Ref, c.Ref, status
	r[CommitmentDiscountType] = c.Kind
	r[CommitmentDiscountCategory], r[CommitmentDiscountUnit] = "Usage", "Hours"
	if c.Spend {
		r[CommitmentDiscountCategory], r[CommitmentDiscountUnit] = "Spend", currency
	}
}

// Row is the charge for what nobody used of a commitment. It is no split: its owner is in x_Team.
func (u Unused) Row() Row {
	r := header(u.Account, u.Hour, u.Commitment.Cloud, u.Version, u.AsOf)
	c := u.Commitment
	amount := int64(u.Amount)
	hours := int64(u.Hours*pico + 0.5)
	if hours <= 0 || u.Hours > 1e6 {
		hours = pico
	}
	unit := mulDiv(amount, pico, hours)
	r[RegionID], r[RegionName] = c.Region, c.Region
	r[ResourceID], r[ResourceName], r[ResourceType] = c.Ref, c.Ref, "Commitment"
	r[SkuID], r[SkuMeter] = "commitment/"+c.Kind, "Commitment hours"
	r[SkuPriceID] = r[SkuID] + "/" + c.Ref
	r[ChargeDescription] = "Unused part of " + c.Ref
	r[PricingCategory] = "Standard"
	r.commitment(c, "Unused", u.Account.Currency)
	r[EffectiveCost], r[BilledCost], r[ListCost], r[ContractedCost] = nano(amount), nano(0), nano(mulDiv(hours, unit, pico)), nano(mulDiv(hours, unit, pico))
	r[ListUnitPrice], r[ContractedUnitPrice], r[PricingQuantity] = nano(unit), nano(unit), decimal(hours, 12)
	if !c.Capacity {
		r[CommitmentDiscountQuantity] = r[PricingQuantity]
		if c.Spend {
			r[CommitmentDiscountQuantity] = nano(amount) + "000"
		}
	}
	r[XCostKind], r[XTeam], r[XCapacityType] = "commitment_unused", u.Team, string(fleet.PurchaseReserved)
	return r
}
