package focus

import (
	"math/big"
	"strconv"
	"time"

	"plimsoll.dev/services/fleet"
)

// Purchase is what is paid for a commitment in an hour: its recurring fee, or once, in the first hour of its term, what is paid up front. Usage
// under it and what is unused have it as their EffectiveCost; its own is 0, so that nothing counts twice.
type Purchase struct {
	Account    Account
	Commitment Commitment
	Hour       time.Time
	AsOf       time.Time
	Team       string
	Upfront    bool
	Amount     fleet.Money
	Millis     int64 // of the term within the hour; of the whole term, if up front
	Quantity   int64 // machines in thousandths, that it commits to; 0: not counted
}

// Row is the charge of the purchase.
func (p Purchase) Row() Row {
	const hour = int64(time.Hour / time.Millisecond)
	c := p.Commitment
	r := header(p.Account, p.Hour, c.Cloud, 1, p.AsOf)
	r[ChargeCategory], r[ChargeFrequency] = "Purchase", "Recurring"
	r[RegionID], r[RegionName] = c.Region, c.Region
	r[ResourceID], r[ResourceName], r[ResourceType] = c.Ref, c.Ref, "Commitment"
	r[SkuID], r[SkuMeter] = "commitment/"+c.Kind, "Commitment hours"
	r[SkuPriceID] = r[SkuID] + "/" + c.Ref + "/recurring"
	r[ChargeDescription] = "Recurring fee of " + c.Ref
	quantity := mulDiv(p.Millis, pico, hour)
	unit := mulDiv(int64(p.Amount), pico, max(quantity, 1))
	if p.Upfront {
		r[ChargeFrequency], r[SkuMeter], r[PricingUnit] = "One-Time", "Commitments", "Commitments"
		r[SkuPriceID] = r[SkuID] + "/" + c.Ref + "/upfront"
		r[ChargeDescription] = "Upfront fee of " + c.Ref
		quantity, unit = pico, int64(p.Amount)
	}
	r.commitment(c, "", p.Account.Currency)
	r[PricingCategory] = "Standard"
	r[EffectiveCost], r[BilledCost] = nano(0), nano(int64(p.Amount))
	r[ListCost], r[ContractedCost], r[ListUnitPrice], r[ContractedUnitPrice] = nano(int64(p.Amount)), nano(int64(p.Amount)), nano(unit), nano(unit)
	r[PricingQuantity] = decimal(quantity, 12)
	if !c.Capacity {
		r[CommitmentDiscountQuantity] = p.committed()
	}
	r[XHourVersion], r[XTeam], r[XCapacityType] = strconv.Itoa(1), p.Team, string(fleet.PurchaseReserved)
	return r
}

// committed is how much the purchase commits to: money of a spend plan, else hours of all it covers. Twelve places.
func (p Purchase) committed() string {
	if p.Commitment.Spend {
		return nano(int64(p.Amount)) + "000"
	}
	machines := p.Quantity
	if machines <= 0 {
		machines = 1000
	}
	const hour = int64(time.Hour / time.Millisecond)
	n := new(big.Int).Mul(big.NewInt(p.Millis), big.NewInt(machines))
	n.Mul(n, big.NewInt(pico/1000)).Quo(n, big.NewInt(hour))
	whole, rest := n.QuoRem(n, big.NewInt(pico), new(big.Int))
	return whole.String() + decimal(rest.Int64(), 12)[1:]
}
