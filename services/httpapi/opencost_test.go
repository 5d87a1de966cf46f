package httpapi_test

import (
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
)

// ocAnswer is an answer of the OpenCost-compatible endpoints, as its clients read it.
type ocAnswer struct {
	Code    int
	Status  string
	Message string
	Warning string
	Data    []map[string]map[string]any
}

func (a *accounts) oc(path string) ocAnswer {
	a.t.Helper()
	status, _, body := a.raw("/opencost" + path)
	var out ocAnswer
	if err := json.Unmarshal(body, &out); err != nil || out.Code != status {
		a.t.Fatalf("%s: %d %.300s: %v", path, status, body, err)
	}
	return out
}

// total sums a set exactly: a double holds nine places of these amounts.
func total(t *testing.T, sets ...map[string]map[string]any) (sum fleet.Money) {
	t.Helper()
	for _, set := range sets {
		for name, item := range set {
			parts := fleet.Money(0)
			for _, f := range []string{"cpuCost", "ramCost", "gpuCost", "sharedCost", "externalCost"} {
				if v, ok := item[f].(float64); ok {
					parts += exact(t, v)
				}
			}
			all := exact(t, item["totalCost"].(float64))
			if parts != all {
				t.Errorf("%s: parts add up to %s, totalCost is %s", name, parts, all)
			}
			sum += all
		}
	}
	return sum
}

func exact(t *testing.T, f float64) fleet.Money {
	t.Helper()
	m, err := fleet.MoneyFromFloat(f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sum reads an amount from the tables.
func (a *accounts) sum(sql string, args ...any) (m fleet.Money) {
	a.t.Helper()
	if err := a.owner.QueryRow(a.t.Context(), sql, append([]any{a.tenant.ID}, args...)...).Scan(&m); err != nil {
		a.t.Fatal(err)
	}
	return m
}

// Documented fields of an allocation.
var ocFields = strings.Fields(`name properties window start end minutes cpuCores cpuCoreRequestAverage cpuCoreUsageAverage cpuCoreHours cpuCost cpuCostAdjustment cpuEfficiency gpuCount gpuHours
gpuCost gpuCostAdjustment networkTransferBytes networkReceiveBytes networkCost networkCostAdjustment loadBalancerCost loadBalancerCostAdjustment pvBytes pvByteHours pvCost pvs pvCostAdjustment
ramBytes ramByteRequestAverage ramByteUsageAverage ramByteHours ramCost ramCostAdjustment ramEfficiency externalCost sharedCost totalCost totalEfficiency`)

// The queries of OpenCost's and Kubecost's documentation, and those of boards made for them, are answered in the documented shape. The
// tenant's newest data is of 23:30 on Tuesday 3 March; costs begin on the 1st.
func TestOpenCostQueriesOfTheDocumentation(t *testing.T) {
	t.Parallel()
	a := openAccounts(t)
	for _, c := range []struct {
		name, path string
		sets       int
		names      []string // of the last set; nil: not looked at
		warning    string
	}{
		{"the UI's default", "/allocation?window=7d&aggregate=namespace&resolution=1m", 1, []string{"chat", "kube-system", "tools", "train"}, "whole hours"},
		{"the last hour in steps of ten minutes", "/allocation?window=60m&step=10m&resolution=1m&aggregate=namespace", 2, nil, "the step is rounded up"},
		{"nine days in steps of three", "/allocation/compute?window=9d&step=3d&resolution=10m&aggregate=namespace", 4, []string{"chat", "kube-system", "tools", "train"}, ""},
		{"summed into one set", "/allocation/compute?window=60m&resolution=1m&aggregate=namespace&accumulate=true", 1, nil, ""},
		{"idle shared over the cluster", "/allocation?window=1d&shareIdle=true&aggregate=namespace", 1, []string{"chat", "kube-system", "tools", "train"}, ""},
		{"idle shared by machine", "/allocation?window=1d&shareIdle=true&idleByNode=true&aggregate=namespace", 1, nil, "closed hours only"},
		{"with idle", "/allocation?window=yesterday&aggregate=namespace&includeIdle=true", 1, []string{"__idle__", "__residual__", "__unused_commitment__", "chat", "kube-system", "tools", "train"}, ""},
		{"idle by machine", "/allocation?window=2026-03-02T00:00:00Z,2026-03-02T01:00:00Z&aggregate=cluster&includeIdle=true&idleByNode=true", 1, []string{"__unused_commitment__", "node-c0/__idle__", "node-g0/__idle__", "node-s24/__idle__", "north", "south"}, ""},
		{"today by controller", "/allocation?window=today&aggregate=controller", 1, []string{"__unallocated__", "deployment:llm", "statefulset:fit"}, ""},
		{"today by kind", "/allocation?window=today&aggregate=controllerKind", 1, []string{"__unallocated__", "deployment", "statefulset"}, ""},
		{"pods, which are kept by controller", "/allocation?window=yesterday&aggregate=namespace,pod", 1, []string{"chat/deployment:llm", "kube-system/__unallocated__", "tools/__unallocated__", "train/statefulset:fit"}, "by controller"},
		{"by label", "/allocation?window=yesterday&aggregate=label:app", 1, []string{"__unallocated__", "fit", "llm"}, ""},
		{"by cluster and label", "/allocation?window=yesterday&aggregate=cluster,label:tier", 1, []string{"north/__unallocated__", "north/hot", "south/__unallocated__"}, ""},
		{"by machine", "/allocation?window=2026-03-02T00:00:00Z,2026-03-02T01:00:00Z&aggregate=node", 1, []string{"node-c0", "node-g0", "node-s24"}, "without efficiency"},
		{"nothing to group by", "/allocation?window=yesterday&includeIdle=true", 1, []string{"__residual__", "__unused_commitment__", "north/__idle__", "north/chat/deployment/llm", "north/train/statefulset/fit", "south/__idle__",
			"south/kube-system/__unallocated__/__unallocated__", "south/tools/__unallocated__/__unallocated__"}, ""},
		{"seconds of Unix", "/allocation?window=1772409600,1772496000&aggregate=cluster", 1, []string{"north", "south"}, ""},
		{"the last day, hour by hour", "/allocation?window=24h&step=1h&aggregate=cluster", 25, []string{"north", "south"}, ""},
		{"last week", "/allocation?window=lastweek&aggregate=namespace", 1, nil, ""},
		{"Kubecost's path and filters", "/model/allocation?window=yesterday&aggregate=namespace&filterNamespaces=chat,tr*&accumulate=true", 1, []string{"chat", "train"}, ""},
		{"one cluster", "/model/allocation?window=yesterday&aggregate=namespace&filterClusters=south", 1, []string{"kube-system", "tools"}, ""},
		{"filter language", "/allocation?window=yesterday&aggregate=namespace&filter=" + url.QueryEscape(`namespace:"chat","tools"+cluster:"north"`), 1, []string{"chat"}, ""},
		{"not in the filter language", "/allocation?window=yesterday&aggregate=namespace&filter=" + url.QueryEscape(`namespace!:"kube-system" + controllerKind!<~:"stateful"`), 1, []string{"chat", "tools"}, ""},
		{"label in the filter language", "/allocation?window=yesterday&aggregate=namespace&filter=" + url.QueryEscape(`label[tier]:"hot"`), 1, []string{"chat"}, ""},
		{"shared namespaces", "/allocation?window=yesterday&aggregate=namespace&shareNamespaces=kube-system", 1, []string{"chat", "tools", "train"}, ""},
		{"kubectl cost's query", "/model/allocation/compute?window=1d&aggregate=cluster,namespace&accumulate=true&includeIdle=true", 1, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) { // one after the other: they share a door
			got := a.oc(c.path)
			if got.Code != 200 || got.Status != "success" || len(got.Data) != c.sets || !strings.Contains(got.Warning, c.warning) {
				t.Fatalf("%d %s, %d sets, warning %q, message %q", got.Code, got.Status, len(got.Data), got.Warning, got.Message)
			}
			for _, set := range got.Data {
				for name, item := range set {
					for _, f := range ocFields {
						if _, ok := item[f]; !ok {
							t.Fatalf("%s has no %s", name, f)
						}
					}
					if item["name"] != name || item["minutes"].(float64) <= 0 {
						t.Errorf("%s: %v, %v minutes", name, item["name"], item["minutes"])
					}
				}
			}
			if names := slices.Sorted(maps.Keys(got.Data[len(got.Data)-1])); c.names != nil && !slices.Equal(names, c.names) {
				t.Errorf("names: %s", cmp.Diff(c.names, names))
			}
		})
	}
	for _, bad := range []string{"", "?aggregate=namespace", "?window=soon", "?window=2026-03-02T00:00:00Z,2026-03-01T00:00:00Z", "?window=1d&aggregate=colour", "?window=1d&accumulate=perhaps", "?window=1d&step=-1h", "?window=400d&step=1h",
		"?window=900d", "?window=1d&shareIdle=even", "?window=1d&filter=namespace", "?window=1d&filter=" + url.QueryEscape(`namespace:"a"|namespace:"b"`), "?window=1d&filter=" + url.QueryEscape(`pod:"a"`), "?window=1d&filterPods=x", "?window=1d&shareCost=3"} {
		if got := a.oc("/allocation" + bad); got.Code != 400 || got.Message == "" {
			t.Errorf("%s: %d %s", bad, got.Code, got.Message)
		}
	}
	if r := a.call("GET", "/opencost/allocation?window=1d", nil); r.status != 401 {
		t.Errorf("without a key: %d", r.status)
	}
	other, _ := a.newTenant("Other", "other@harbour.test")
	a.viewer = a.key(other.ID, auth.RoleViewer)
	if got := a.oc("/allocation?window=2026-03-01T00:00:00Z,2026-03-04T00:00:00Z&includeIdle=true"); len(got.Data) != 1 || len(got.Data[0]) != 0 {
		t.Errorf("another tenant sees %v", got.Data)
	}
}

// However a window is cut, grouped and shared, what the endpoints answer adds up to the daily table; by machine, to the ledger.
func TestOpenCostAddsUpToTheLedger(t *testing.T) {
	t.Parallel()
	a := openAccounts(t)
	const all = "window=2026-03-01T00:00:00Z,2026-03-04T00:00:00Z"
	everything := a.sum(`SELECT sum(amount_nano)::bigint FROM cost_day WHERE tenant_id = $1`)
	if everything != a.everything {
		t.Fatalf("the daily table holds %s, the ledger made %s", everything, a.everything)
	}
	for _, query := range []string{"aggregate=namespace", "aggregate=controller", "aggregate=cluster", "aggregate=label:app", "", "aggregate=namespace&shareIdle=true", "aggregate=namespace&shareNamespaces=kube-system,tools",
		"aggregate=namespace&shareNamespaces=tools&shareSplit=even&shareIdle=true", "step=1d&aggregate=namespace", "step=1h&aggregate=cluster", "step=7h&aggregate=controllerKind&shareIdle=true", "step=1d&accumulate=true"} {
		if got := total(t, a.oc("/allocation?"+all+"&includeIdle=true&"+query).Data...); got != everything {
			t.Errorf("%s: %s, the daily table holds %s", query, got, everything)
		}
	}
	for _, query := range []string{"aggregate=node", "aggregate=node,namespace", "aggregate=namespace&idleByNode=true", "aggregate=namespace&idleByNode=true&shareIdle=true", "aggregate=node&shareIdle=true", "step=5h&aggregate=node"} {
		if got := total(t, a.oc("/allocation?"+all+"&includeIdle=true&"+query).Data...); got != a.total {
			t.Errorf("%s: %s, the ledger holds %s", query, got, a.total)
		}
	}
	workloads := a.sum(`SELECT sum(amount_nano)::bigint FROM cost_day WHERE tenant_id = $1 AND kind = 'workload'`)
	if got := total(t, a.oc("/allocation?"+all+"&aggregate=namespace").Data...); got != workloads {
		t.Errorf("without idle: %s, workloads cost %s", got, workloads)
	}
	chat := a.sum(`SELECT sum(amount_nano)::bigint FROM cost_day WHERE tenant_id = $1 AND namespace = 'chat'`)
	if got := total(t, a.oc("/allocation?"+all+"&aggregate=namespace&filterNamespaces=chat&includeIdle=true").Data...); got != chat {
		t.Errorf("chat: %s, want %s", got, chat)
	}
	hour := a.sum(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND hour = '2026-03-02T05:00Z'`)
	if got := total(t, a.oc("/allocation?window=2026-03-02T05:00:00Z,2026-03-02T06:00:00Z&includeIdle=true&aggregate=cluster").Data...); got != hour {
		t.Errorf("one hour: %s, want %s", got, hour)
	}
	nodes := a.sum(`SELECT sum(node_nano)::bigint FROM cost_hour WHERE tenant_id = $1 AND state = 'closed' AND cluster_id <> '00000000-0000-0000-0000-000000000000'`)
	for _, query := range []string{"", "&aggregate=cluster", "&aggregate=type", "&aggregate=provider", "&step=1d"} {
		var sum fleet.Money
		for _, set := range a.oc("/assets?" + all + query).Data {
			for name, asset := range set {
				parts := exact(t, asset["cpuCost"].(float64)) + exact(t, asset["ramCost"].(float64)) + exact(t, asset["gpuCost"].(float64))
				if whole := exact(t, asset["totalCost"].(float64)); whole != parts {
					t.Errorf("%s: parts %s, total %s", name, parts, whole)
				}
				sum += exact(t, asset["totalCost"].(float64))
			}
		}
		if sum != nodes {
			t.Errorf("assets%s: %s, machines cost %s", query, sum, nodes)
		}
	}
}

// Figures of one workload over one day, computed by hand.
func TestOpenCostFigures(t *testing.T) {
	t.Parallel()
	a := openAccounts(t)
	set := a.oc("/allocation?window=2026-03-02T00:00:00Z,2026-03-03T00:00:00Z&aggregate=controller").Data[0]
	llm := set["deployment:llm"]
	// Three GPUs and 70,001 MiB held all day; 7 cores requested, half a core and half of the GPUs used.
	for field, want := range map[string]float64{"gpuHours": 72, "gpuCount": 3, "cpuCoreHours": 168, "cpuCores": 7, "cpuCoreUsageAverage": 0.5, "cpuEfficiency": 0.5 / 7, "gpuEfficiency": 0.5,
		"ramBytes": 70_001 * (1 << 20), "minutes": 1440, "ramEfficiency": 0} {
		if got := llm[field].(float64); math.Abs(got-want) > 1e-6*math.Max(1, want) {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	if llm["start"] != "2026-03-02T00:00:00Z" || llm["end"] != "2026-03-03T00:00:00Z" || llm["window"].(map[string]any)["start"] != "2026-03-02T00:00:00Z" {
		t.Errorf("times %v %v %v", llm["start"], llm["end"], llm["window"])
	}
	want := map[string]any{"cluster": "north", "namespace": "chat", "controller": "llm", "controllerKind": "deployment", "labels": map[string]any{"app": "llm", "tier": "hot"}}
	if d := cmp.Diff(want, llm["properties"]); d != "" {
		t.Errorf("properties (-want +got):\n%s", d)
	}
	for name, asset := range a.oc("/assets?window=2026-03-02T00:00:00Z,2026-03-03T00:00:00Z").Data[0] {
		if strings.Contains(name, "/g0/") {
			if name != "AWS/__undefined__/__undefined__/Compute/north/Node/Kubernetes/g0/node-g0" || asset["totalCost"].(float64) != 98.32*24 || asset["gpuCount"].(float64) != 8 || asset["nodeType"] != "p5.48xlarge" ||
				asset["GPUHours"].(float64) != 192 || asset["minutes"].(float64) != 1440 || asset["preemptible"].(float64) != 0 {
				t.Errorf("%s: %v", name, asset)
			}
		}
		if asset["preemptible"].(float64) == 1 && math.Abs(asset["minutes"].(float64)-11) > 0.01 {
			t.Errorf("%s ran %v minutes", name, asset["minutes"])
		}
	}
}
