package market

import "plimsoll.dev/services/fleet"

// ReplicaOn is the price of one replica for one hour on a machine of an offering, at the effective price. seen is what the
// cluster reported of the machine; the catalogue's figures win where the type is known. nil when the price is unknown.
func (b *PriceBook) ReplicaOn(o fleet.Offering, seen fleet.InstanceType, cpuMilli, memMiB, gpuMilli int64) *fleet.Money {
	if known, ok := b.InstanceType(o.Cloud, o.InstanceType); ok {
		seen = known
	}
	return ReplicaHour(b.Price(o).Effective, seen, b.Weights(o.Cloud), cpuMilli, memMiB, gpuMilli)
}
