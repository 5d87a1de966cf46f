package replay

import (
	"fmt"
	"math"
	"time"

	"plimsoll.dev/services/fleet"
)

// Bounds of a demo cluster's workloads.
const (
	DemoWorkloads    = 6 // those with a story of their own
	MaxDemoWorkloads = 2_000
)

// DemoOf is Demo with as many workloads as asked for: the six of Demo, then ordinary ones of some forty teams, on four pools of their
// own. Two thirds are CPU services, a fifth serve models on one GPU, the others work off queues on Spot, train on whole machines, or hold
// a GPU and hardly use it. About four in ten have a policy. Fewer than six are six.
func DemoOf(seed uint64, start time.Time, chat Source, workloads int) (DemoCluster, error) {
	if workloads > MaxDemoWorkloads {
		return DemoCluster{}, fleet.Errorf(fleet.CodeInvalid, "a demo cluster has at most %d workloads, not %d", MaxDemoWorkloads, workloads)
	}
	d := Demo(seed, start, chat)
	if workloads <= DemoWorkloads {
		return d, nil
	}
	d.Config.Pools = append(d.Config.Pools, manyPools()...)
	for i := range workloads - DemoWorkloads {
		w := manyWorkload(seed, i)
		d.Config.Workloads = append(d.Config.Workloads, w.Workload)
		if w.policy != "" {
			d.Policies[w.Key] = w.policy
		}
	}
	return d, nil
}

func manyPools() []Pool {
	pool := func(name, machine string, cpu, mem int64, gpu fleet.GPUModel, gpus int, gpuMem int64, buy fleet.Purchase, boot float64, maxNodes int) Pool {
		capacity := "on-demand"
		if buy == fleet.PurchaseSpot {
			capacity = "spot"
		}
		return Pool{
			Name: name, Cloud: fleet.CloudAWS, Region: "us-east-1", Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"}, Purchase: buy,
			BootSeconds: boot, MaxNodes: maxNodes,
			Type: fleet.InstanceType{Cloud: fleet.CloudAWS, Name: machine, Arch: "amd64", CPUMilli: cpu, MemMiB: mem, GPUModel: gpu, GPUCount: gpus,
				GPUMemoryMiB: gpuMem},
			Labels: map[string]string{"node.kubernetes.io/instance-type": machine, "karpenter.sh/nodepool": name, "karpenter.sh/capacity-type": capacity},
		}
	}
	services := pool("services", "m6i.8xlarge", 32_000, 131_072, "", 0, 0, fleet.PurchaseOnDemand, 42, 600)
	services.MinNodes = 2
	queues := pool("queues", "m6i.2xlarge", 8_000, 32_768, "", 0, 0, fleet.PurchaseSpot, 42, 600)
	queues.HazardPerHour, queues.StockOutsPerWeek = 0.004, 1
	inference := pool("inference", "g6.12xlarge", 48_000, 196_608, "L4", 4, 22_888, fleet.PurchaseOnDemand, 90, 600)
	training := pool("training", "p4d.24xlarge", 96_000, 1_179_648, "A100", 8, 40_960, fleet.PurchaseOnDemand, 240, 60)
	return []Pool{services, queues, inference, training}
}

// What teams own, and what they call it. Namespaces are teams and stages.
var (
	manyTeams = []string{"accounts", "ads", "analytics", "billing", "catalogue", "checkout", "content", "crm", "delivery", "devices", "discovery",
		"documents", "fraud", "fulfilment", "gateway", "identity", "imaging", "insights", "inventory", "knowledge", "localisation", "loyalty", "maps",
		"messaging", "moderation", "notifications", "observability", "orders", "partners", "payments", "personalisation", "photos", "pricing",
		"recommendations", "returns", "risk", "sessions", "speech", "translation", "vision"}
	manyServices = []string{"api", "gateway", "worker-api", "profile", "session", "index", "reader", "writer", "cache", "router", "graph", "events",
		"export", "rules", "quota", "audit"}
	manyModels  = []string{"ranker", "embedder", "classifier", "reranker", "summariser", "captioner", "detector", "transcriber"}
	manyQueues  = []string{"importer", "thumbnailer", "mailer", "reindexer", "transcoder", "scorer"}
	manyStages  = []string{"prod", "prod", "prod", "staging"}
	manyClasses = []string{"gold", "standard", "standard", "economy"}
)

// manyWorkload is the i-th ordinary workload; what it is follows from i, how large and how busy from the seed.
func manyWorkload(seed uint64, i int) demoWorkload {
	team, stage, class := manyTeams[i%len(manyTeams)], manyStages[i/len(manyTeams)%len(manyStages)], manyClasses[i*7%len(manyClasses)]
	r := func(k uint64) float64 { return uniform(draw(seed, forMany, uint64(i), k)) }
	pick := func(list []string) string { return list[i/3%len(list)] }
	var w demoWorkload
	switch kind := i % 100; {
	case kind < 66:
		w = manyService(seed, i, team, stage, class, pick(manyServices), r)
	case kind < 86:
		w = manyModel(seed, i, team, stage, class, pick(manyModels), r)
	case kind < 96:
		w = manyQueue(seed, i, team, stage, pick(manyQueues), r)
	case kind < 99:
		w = manyNotebook(seed, i, team, r)
	default:
		w = manyTraining(seed, i, team, r)
	}
	w.Labels["stage"] = stage
	w.Labels["cost-centre"] = fmt.Sprintf("cc-%d", 100+i%len(manyTeams)/4)
	return w
}

func manyService(seed uint64, i int, team, stage, class, noun string, r func(uint64) float64) demoWorkload {
	cpu := []int64{250, 500, 1000, 2000}[int(4*r(1))]
	replicas := 2 + int(4*r(2))
	busy := 0.12 + 0.5*r(3) // of the request, at the busiest hour
	const perRequest = 0.004
	high := busy * float64(cpu) / 1000 / perRequest * float64(replicas)
	w := demoWorkload{Workload: Workload{
		Workload: named(team+"-"+stage, "Deployment", fmt.Sprintf("%s-%s-%d", team, noun, i), team, class, cpu, 1024+cpu/2, 0),
		Pools:    []string{"services"}, Replicas: replicas,
		Startup: Startup{PullSeconds: 8, LoadSeconds: 6 + 10*r(4), WarmSeconds: 20, WarmFrom: 0.6, DrainSeconds: 10},
		Service: Service{Slots: 64, Seconds: 0.04, Spread: 0.6, LateSeconds: 0.5, TimeoutSeconds: 10, CPUIdle: 0.01, CPUSeconds: perRequest,
			MemoryMiB: 0.3*float64(1024+cpu/2) + 0.4*r(5)*float64(cpu)},
		Traffic: Cycle{Seed: seed, Stream: manyStream(i), Low: high * (0.1 + 0.2*r(6)), High: high, PeakHour: 24 * r(7), Weekend: 0.6, Noise: 0.08},
	}}
	switch i % 10 {
	case 0, 1:
		w.policy = fmt.Sprintf("mode: enforce\nmin: 2\nmax: %d\ntarget_ratio:\n  - signal: cpu_ratio\n    type: utilization\n    target: 0.55\n"+
			"down:\n  cooldown_seconds: 600\n  stabilisation_seconds: 1800\n", 4*replicas)
	case 2, 3:
		w.policy = fmt.Sprintf("mode: recommend\nmin: 1\nmax: %d\ntarget_ratio:\n  - signal: cpu_ratio\n    type: utilization\n    target: 0.6\n"+
			"down:\n  stabilisation_seconds: 3600\n", 3*replicas)
	}
	return w
}

func manyModel(seed uint64, i int, team, stage, class, noun string, r func(uint64) float64) demoWorkload {
	replicas := 1 + int(3*r(1))
	high := (0.15 + 0.6*r(2)) * float64(replicas) * 16 / 0.25 // of what the slots serve
	w := demoWorkload{Workload: Workload{
		Workload: named(team+"-"+stage, "Deployment", fmt.Sprintf("%s-%s-%d", team, noun, i), team, class, 4000, 16_384, 1000),
		Pools:    []string{"inference"}, Replicas: replicas,
		Startup: Startup{PullSeconds: 60, LoadSeconds: 30 + 30*r(3), WarmSeconds: 15, WarmFrom: 0.7, DrainSeconds: 15},
		Service: Service{Slots: 16, Seconds: 0.25, Spread: 0.45, LateSeconds: 1, TimeoutSeconds: 15, CPUIdle: 0.2, CPUBusy: 1.4, MemoryMiB: 7_200,
			GPUBaseMiB: 6_000 + 6_000*r(4), GPUBusyMiB: 4_000, SMBase: 0.08, SMFull: 0.92},
		Traffic: Cycle{Seed: seed, Stream: manyStream(i), Low: high * 0.2, High: high, PeakHour: 24 * r(5), Weekend: 0.7, Noise: 0.08},
	}}
	if i%3 != 0 {
		mode := []string{"enforce", "recommend", "approve"}[i/3%3]
		w.policy = fmt.Sprintf("mode: %s\nmin: 1\nmax: %d\ntarget_ratio:\n  - signal: gpu_sm_active_ratio\n    type: utilization\n    target: 0.65\n"+
			"    tolerance: 0.2\nfilter:\n  window_seconds: 120\ndown:\n  cooldown_seconds: 900\n  stabilisation_seconds: 1800\n", mode, 3*replicas+2)
	}
	return w
}

func manyQueue(seed uint64, i int, team, stage, noun string, r func(uint64) float64) demoWorkload {
	replicas := 1 + int(3*r(1))
	w := demoWorkload{Workload: Workload{
		Workload: named(team+"-"+stage, "Deployment", fmt.Sprintf("%s-%s-%d", team, noun, i), team, "economy", 1500, 4096, 0),
		Pools:    []string{"queues", "services"}, Replicas: replicas,
		Startup: Startup{PullSeconds: 15, LoadSeconds: 8, DrainSeconds: 60},
		Service: Service{Slots: 4, Seconds: 12, Spread: 0.6, LateSeconds: 1800, CPUIdle: 0.05, CPUBusy: 1.2, MemoryMiB: 2_200},
		Traffic: Cron{Seed: seed, Stream: manyStream(i), EverySeconds: 3600 * int64(1+3*r(2)), OffsetSeconds: int64(3000 * r(3)),
			Count: 300 + 500*r(4), OverSeconds: 300},
	}}
	if i%2 == 0 {
		w.policy = "mode: enforce\nmin: 1\nmax: 12\nqueue:\n  target_per_replica: 60\n  include_running: true\nup:\n  cooldown_seconds: 180\n" +
			"down:\n  cooldown_seconds: 300\n  stabilisation_seconds: 600\n"
	}
	return w
}

// manyNotebook holds a GPU all day and uses it for minutes.
func manyNotebook(seed uint64, i int, team string, r func(uint64) float64) demoWorkload {
	return demoWorkload{Workload: Workload{
		Workload: named(team+"-lab", "StatefulSet", fmt.Sprintf("%s-notebook-%d", team, i), team, "economy", 4000, 24_576, 1000),
		Pools:    []string{"inference"}, Replicas: 1,
		Startup: Startup{PullSeconds: 90, LoadSeconds: 20, DrainSeconds: 5},
		Service: Service{Slots: 1, Seconds: 60, Spread: 0.8, LateSeconds: 3600, CPUIdle: 0.1, CPUBusy: 2, MemoryMiB: 9_000, GPUBaseMiB: 14_000,
			GPUBusyMiB: 6_000, SMBase: 0.2, SMFull: 0.85},
		Traffic: Cycle{Seed: seed, Stream: manyStream(i), High: (1 + 3*r(1)) / 3600, PeakHour: 14, Weekend: 0.1},
	}}
}

// manyTraining holds a machine of eight GPUs.
func manyTraining(seed uint64, i int, team string, r func(uint64) float64) demoWorkload {
	return demoWorkload{Workload: Workload{
		Workload: named(team+"-lab", "StatefulSet", fmt.Sprintf("%s-trainer-%d", team, i), team, "standard", 80_000, 1_000_000, 8000),
		Pools:    []string{"training"}, Replicas: 1,
		Startup: Startup{PullSeconds: 120, LoadSeconds: 90, DrainSeconds: 120},
		Service: Service{Slots: 1, Seconds: 2400, Spread: 0.3, LateSeconds: 4 * 3600, CPUIdle: 1, CPUBusy: 30, MemoryMiB: 500_000, GPUBaseMiB: 6_000,
			GPUBusyMiB: 30_000, SMBase: 0.3, SMFull: 0.95},
		Traffic: Cycle{Seed: seed, Stream: manyStream(i), Low: 0.6 / 2400, High: math.Min(1, 0.7+0.4*r(1)) / 2400, PeakHour: 3, Noise: 0.1},
	}}
}

// manyStream tells the traffic of ordinary workloads from that of the six.
func manyStream(i int) uint64 { return 1000 + uint64(i) }
