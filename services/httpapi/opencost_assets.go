package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// openCostAsset is a machine in OpenCost's shape.
type openCostAsset struct {
	Type         string             `json:"type"`
	Properties   map[string]string  `json:"properties"`
	Labels       map[string]string  `json:"labels"`
	Window       openCostSpan       `json:"window"`
	Start        time.Time          `json:"start"`
	End          time.Time          `json:"end"`
	Minutes      float64            `json:"minutes"`
	NodeType     string             `json:"nodeType,omitempty"`
	CPUCores     float64            `json:"cpuCores"`
	RAMBytes     float64            `json:"ramBytes"`
	CPUCoreHours float64            `json:"cpuCoreHours"`
	RAMByteHours float64            `json:"ramByteHours"`
	GPUHours     float64            `json:"GPUHours"`
	CPUBreakdown map[string]float64 `json:"cpuBreakdown"`
	RAMBreakdown map[string]float64 `json:"ramBreakdown"`
	Preemptible  float64            `json:"preemptible"`
	Discount     float64            `json:"discount"`
	CPUCost      float64            `json:"cpuCost"`
	GPUCost      float64            `json:"gpuCost"`
	GPUCount     float64            `json:"gpuCount"`
	RAMCost      float64            `json:"ramCost"`
	Adjustment   float64            `json:"adjustment"`
	TotalCost    float64            `json:"totalCost"`
}

// assetSum is what machines of one name cost.
type assetSum struct {
	cost, idle map[ledger.Resource]fleet.Money
	quantity   map[ledger.Resource]float64
	first      string // uid of its first machine
	machines   map[string]bool
}

func (s *Server) openCostAssets(ctx context.Context, tx *store.Tx, r *http.Request) (any, []string, error) {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	q, err := readOpenCostQuery(r.URL.Query(), now, true)
	if err != nil {
		return nil, nil, err
	}
	rows, names, err := q.load(ctx, tx, true, now)
	if err != nil {
		return nil, nil, err
	}
	sets := make([]map[string]*assetSum, q.sets())
	for _, r := range rows {
		if r.Cluster == store.NoCluster || r.Set < 0 || r.Set >= len(sets) {
			continue // commitments are no assets of a cluster
		}
		l := openCostLine{OpenCostRow: r}
		l.name(names)
		if !q.keeps(&l) {
			continue
		}
		if sets[r.Set] == nil {
			sets[r.Set] = map[string]*assetSum{}
		}
		key := q.assetKey(l, names.Nodes[r.Node])
		a := sets[r.Set][key]
		if a == nil {
			a = &assetSum{cost: map[ledger.Resource]fleet.Money{}, idle: map[ledger.Resource]fleet.Money{}, quantity: map[ledger.Resource]float64{}, first: r.Node, machines: map[string]bool{}}
			sets[r.Set][key] = a
		}
		a.machines[r.Node] = true
		a.cost[r.Resource] = a.cost[r.Resource].Add(r.Amount)
		a.quantity[r.Resource] += r.Quantity
		if r.Kind != ledger.KindWorkload {
			a.idle[r.Resource] = a.idle[r.Resource].Add(r.Amount)
		}
	}
	data := make([]map[string]*openCostAsset, 0, len(sets))
	for i, sums := range slices.Backward(sets) {
		from, to := q.set(i)
		set := make(map[string]*openCostAsset, len(sums))
		for key, a := range sums {
			set[key] = a.asset(names, from, to)
		}
		data = append(data, set)
	}
	return data, append(q.warnings, "closed hours only"), nil
}

const openCostUndefined = "__undefined__"

func providerName(cloud string) string {
	switch fleet.Cloud(cloud) {
	case fleet.CloudAWS:
		return "AWS"
	case fleet.CloudAzure:
		return "Azure"
	case fleet.CloudGCP:
		return "GCP"
	}
	return "custom"
}

func (q *openCostQuery) assetKey(l openCostLine, n store.OpenCostNode) string {
	if len(q.aggregate) == 0 {
		return strings.Join([]string{providerName(n.Cloud), openCostUndefined, openCostUndefined, "Compute", l.cluster, "Node", "Kubernetes", l.Node, l.node}, "/")
	}
	parts := make([]string, len(q.aggregate))
	for i, f := range q.aggregate {
		parts[i] = map[string]string{"cluster": l.cluster, "type": "Node", "provider": providerName(n.Cloud), "node": l.node}[f]
	}
	return strings.Join(parts, "/")
}

func (a *assetSum) asset(names store.OpenCostNames, from, to time.Time) *openCostAsset {
	n := names.Nodes[a.first]
	hours := to.Sub(from).Hours()
	v := &openCostAsset{Type: "Node", Properties: map[string]string{"category": "Compute", "service": "Kubernetes", "provider": providerName(n.Cloud), "cluster": names.Clusters[n.Cluster]}, Labels: map[string]string{},
		Window: openCostSpan{from, to}, Start: from, End: to,
		CPUCoreHours: a.quantity[ledger.ResourceCPU], RAMByteHours: a.quantity[ledger.ResourceMemory] * gib, GPUHours: a.quantity[ledger.ResourceGPU],
		CPUBreakdown: a.breakdown(ledger.ResourceCPU), RAMBreakdown: a.breakdown(ledger.ResourceMemory),
		CPUCost: a.cost[ledger.ResourceCPU].Float(), GPUCost: a.cost[ledger.ResourceGPU].Float(), RAMCost: a.cost[ledger.ResourceMemory].Float()}
	var total fleet.Money
	for _, m := range a.cost {
		total = total.Add(m)
	}
	v.TotalCost = total.Float()
	if len(a.machines) == 1 && n.Name != "" {
		v.Properties["name"], v.Properties["providerID"] = n.Name, a.first
		v.NodeType, v.CPUCores, v.RAMBytes, v.GPUCount = n.InstanceType, float64(n.CPUMilli)/1000, float64(n.MemMiB)*(1<<20), float64(n.GPUCount)
		for key, label := range n.Labels {
			v.Labels["label_"+promName(key)] = label
		}
		if n.Purchase == string(fleet.PurchaseSpot) {
			v.Preemptible = 1
		}
		if n.Started.After(from) {
			v.Start = n.Started.UTC()
		}
		if n.Ended != nil && n.Ended.Before(to) {
			v.End = n.Ended.UTC()
		}
	} else if hours > 0 {
		v.CPUCores, v.RAMBytes, v.GPUCount = v.CPUCoreHours/hours, v.RAMByteHours/hours, v.GPUHours/hours
	}
	v.Minutes = v.End.Sub(v.Start).Minutes()
	return v
}

// breakdown says which part of a resource's cost nobody held.
func (a *assetSum) breakdown(r ledger.Resource) map[string]float64 {
	idle := 0.0
	if all := a.cost[r]; all > 0 {
		idle = a.idle[r].Float() / all.Float()
	}
	return map[string]float64{"idle": idle, "other": 0, "system": 0, "user": 1 - idle}
}
