package market

import (
	"sort"

	"plimsoll.dev/services/fleet"
)

// Weights say how much one unit of each resource adds to a machine's price. Only their ratios matter: a machine's real price is
// split by them, so a dear machine stays dear.
type Weights struct {
	Version string // what they were fitted from; stored with every split
	CPUHour fleet.Money
	GiBHour fleet.Money
	GPUHour map[fleet.GPUModel]fleet.Money
}

// Weights of a cloud; a cloud of which the book knows nothing gets those over all clouds.
func (b *PriceBook) Weights(cloud fleet.Cloud) Weights {
	own, ok := b.weights[cloud]
	all := b.weights["*"]
	if !ok {
		own = Weights{Version: all.Version, CPUHour: all.CPUHour, GiBHour: all.GiBHour}
	}
	merged := make(map[fleet.GPUModel]fleet.Money, len(all.GPUHour))
	for model, v := range all.GPUHour {
		merged[model] = v
	}
	for model, v := range own.GPUHour {
		merged[model] = v
	}
	own.GPUHour = merged
	return own
}

// GPU gives the weight of one GPU of a model. A model that nobody ever priced weighs as much as the median of those known, so
// that the GPUs of a new machine still carry most of its price.
func (w Weights) GPU(model fleet.GPUModel) fleet.Money {
	if v, ok := w.GPUHour[model]; ok {
		return v
	}
	if len(w.GPUHour) == 0 {
		return 0
	}
	all := make([]fleet.Money, 0, len(w.GPUHour))
	for _, v := range w.GPUHour {
		all = append(all, v)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return all[len(all)/2]
}

// Split divides a price over a machine's CPU, memory and GPUs by the weights, exact to the nano-unit. A machine without any
// resource that weighs anything gives all of it to the CPU.
func (w Weights) Split(price fleet.Money, cpuMilli, memMiB int64, model fleet.GPUModel, gpus int) (cpu, memory, gpu fleet.Money) {
	weights := []int64{
		int64(w.CPUHour) / 1000 * cpuMilli,
		int64(w.GiBHour) / 1024 * memMiB,
		int64(w.GPU(model)) * int64(gpus),
	}
	parts, rest := price.Split(weights)
	return parts[0].Add(rest), parts[1], parts[2]
}

// ReplicaHour is the price of one replica for one hour: of each resource of the machine's price, the share that the replica
// requests. It is nil when the machine's price is unknown.
func ReplicaHour(price *fleet.Money, it fleet.InstanceType, w Weights, cpuMilli, memMiB, gpuMilli int64) *fleet.Money {
	if price == nil {
		return nil
	}
	cpu, memory, gpu := w.Split(*price, it.CPUMilli, it.MemMiB, it.GPUModel, it.GPUCount)
	sum := share(cpu, cpuMilli, it.CPUMilli).Add(share(memory, memMiB, it.MemMiB)).Add(share(gpu, gpuMilli, int64(it.GPUCount)*1000))
	return &sum
}

// share is what want of have costs when have costs m.
func share(m fleet.Money, want, have int64) fleet.Money {
	if have <= 0 || want <= 0 {
		return 0
	}
	return m.MulDiv(want, have)
}
