package httpapi

import (
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

const gib = 1 << 30

// openCostGroup sums the lines of one name.
type openCostGroup struct {
	rows     map[ledger.Resource]*ledger.Row
	shared   fleet.Money
	workload bool
	mixed    map[string]bool // properties that differ between its lines
	props    map[string]string
	labels   map[string]string
	some     bool
}

func (g *openCostGroup) add(l *openCostLine) {
	if g.rows == nil {
		g.rows, g.props, g.mixed = map[ledger.Resource]*ledger.Row{}, map[string]string{}, map[string]bool{}
	}
	r := g.rows[l.Resource]
	if r == nil {
		r = &ledger.Row{Kind: l.Kind, Resource: l.Resource}
		g.rows[l.Resource] = r
	}
	r.Amount = r.Amount.Add(l.Amount)
	r.Quantity += l.Quantity
	r.Measured += l.Measured
	r.Used += l.Used
	g.workload = g.workload || l.Kind == ledger.KindWorkload
	for name, v := range map[string]string{"cluster": l.cluster, "node": l.node, "namespace": l.namespace, "controllerKind": l.kind, "controller": l.controller} {
		if old, ok := g.props[name]; ok && old != v {
			g.mixed[name] = true
		}
		g.props[name] = v
	}
	switch {
	case !g.some:
		g.labels, g.some = l.labels, true
	default: // what all have in common
		same := map[string]string{}
		for k, v := range g.labels {
			if l.labels[k] == v {
				same[k] = v
			}
		}
		g.labels = same
	}
}

func (g *openCostGroup) amount(r ledger.Resource) fleet.Money {
	if row := g.rows[r]; row != nil {
		return row.Amount
	}
	return 0
}

func (g *openCostGroup) total() (sum fleet.Money) {
	for _, r := range g.rows {
		sum = sum.Add(r.Amount)
	}
	return sum.Add(g.shared)
}

// openCostSpan is a time as OpenCost writes it.
type openCostSpan struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// openCostItem is an allocation in OpenCost's shape. What Plimsoll does not cost (volumes, network, load balancers) is 0.
type openCostItem struct {
	Name       string         `json:"name"`
	Properties map[string]any `json:"properties"`
	Window     openCostSpan   `json:"window"`
	Start      time.Time      `json:"start"`
	End        time.Time      `json:"end"`
	Minutes    float64        `json:"minutes"`

	CPUCores          float64 `json:"cpuCores"`
	CPURequestAverage float64 `json:"cpuCoreRequestAverage"`
	CPUUsageAverage   float64 `json:"cpuCoreUsageAverage"`
	CPUCoreHours      float64 `json:"cpuCoreHours"`
	CPUCost           float64 `json:"cpuCost"`
	CPUAdjustment     float64 `json:"cpuCostAdjustment"`
	CPUEfficiency     float64 `json:"cpuEfficiency"`

	GPUCount      float64 `json:"gpuCount"`
	GPUHours      float64 `json:"gpuHours"`
	GPUCost       float64 `json:"gpuCost"`
	GPUAdjustment float64 `json:"gpuCostAdjustment"`
	GPUEfficiency float64 `json:"gpuEfficiency"`

	NetworkTransferBytes float64  `json:"networkTransferBytes"`
	NetworkReceiveBytes  float64  `json:"networkReceiveBytes"`
	NetworkCost          float64  `json:"networkCost"`
	NetworkAdjustment    float64  `json:"networkCostAdjustment"`
	LoadBalancerCost     float64  `json:"loadBalancerCost"`
	LoadBalancerAdjust   float64  `json:"loadBalancerCostAdjustment"`
	PVBytes              float64  `json:"pvBytes"`
	PVByteHours          float64  `json:"pvByteHours"`
	PVCost               float64  `json:"pvCost"`
	PVs                  struct{} `json:"pvs"`
	PVAdjustment         float64  `json:"pvCostAdjustment"`

	RAMBytes          float64 `json:"ramBytes"`
	RAMRequestAverage float64 `json:"ramByteRequestAverage"`
	RAMUsageAverage   float64 `json:"ramByteUsageAverage"`
	RAMByteHours      float64 `json:"ramByteHours"`
	RAMCost           float64 `json:"ramCost"`
	RAMAdjustment     float64 `json:"ramCostAdjustment"`
	RAMEfficiency     float64 `json:"ramEfficiency"`

	ExternalCost    float64 `json:"externalCost"`
	SharedCost      float64 `json:"sharedCost"`
	TotalCost       float64 `json:"totalCost"`
	TotalEfficiency float64 `json:"totalEfficiency"`
}

// item shows a group. Efficiency is the use of what was held, of the part whose use is known; 0 when none is.
func (g *openCostGroup) item(name string, from, to time.Time) *openCostItem {
	hours := to.Sub(from).Hours()
	v := &openCostItem{Name: name, Properties: map[string]any{}, Window: openCostSpan{from, to}, Start: from, End: to, Minutes: to.Sub(from).Minutes(),
		CPUCost: g.amount(ledger.ResourceCPU).Float(), RAMCost: g.amount(ledger.ResourceMemory).Float(), GPUCost: g.amount(ledger.ResourceGPU).Float(),
		ExternalCost: g.amount(ledger.ResourceCommitment).Float(), SharedCost: g.shared.Float(), TotalCost: g.total().Float()}
	for key, value := range g.props {
		if value != "" && !g.mixed[key] {
			v.Properties[key] = value
		}
	}
	if len(g.labels) > 0 {
		v.Properties["labels"] = g.labels
	}
	var rows []ledger.Row
	use := func(r ledger.Resource, scale float64) (held, average, used, efficiency float64) {
		row := g.rows[r]
		if row == nil || hours <= 0 {
			return 0, 0, 0, 0
		}
		rows = append(rows, *row)
		if row.Measured > 0 {
			efficiency = row.Used / row.Measured
		}
		return row.Quantity * scale, row.Quantity * scale / hours, row.Used * scale / hours, efficiency
	}
	v.CPUCoreHours, v.CPUCores, v.CPUUsageAverage, v.CPUEfficiency = use(ledger.ResourceCPU, 1)
	v.RAMByteHours, v.RAMBytes, v.RAMUsageAverage, v.RAMEfficiency = use(ledger.ResourceMemory, gib)
	v.GPUHours, v.GPUCount, _, v.GPUEfficiency = use(ledger.ResourceGPU, 1)
	v.CPURequestAverage, v.RAMRequestAverage = v.CPUCores, v.RAMBytes
	v.TotalEfficiency, _ = ledger.Efficiency(rows)
	return v
}
