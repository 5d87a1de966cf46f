package replay

import (
	"time"

	"plimsoll.dev/services/fleet"
)

// DemoCluster is the cluster that `plimsoll dev` plays: three namespaces, six workloads, five teams, four pools in us-east-1.
type DemoCluster struct {
	Config   Config
	Policies map[string]string // policy document (YAML) by workload key
}

// Demo describes the demo cluster. chat drives the chat model instead of its own daily wave when it is given (a trace).
func Demo(seed uint64, start time.Time, chat Source) DemoCluster {
	d := DemoCluster{Config: Config{Seed: seed, Start: start, Pools: demoPools()}, Policies: map[string]string{}}
	for _, w := range demoWorkloads(seed, chat) {
		d.Config.Workloads = append(d.Config.Workloads, w.Workload)
		d.Policies[w.Key] = w.policy
	}
	return d
}

func demoPools() []Pool {
	zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	pool := func(name, machine string, cpu, mem int64, gpu fleet.GPUModel, gpus int, gpuMem int64, buy fleet.Purchase, boot float64, maxNodes int) Pool {
		return Pool{
			Name: name, Cloud: fleet.CloudAWS, Region: "us-east-1", Zones: zones, Purchase: buy, BootSeconds: boot, MaxNodes: maxNodes,
			Type: fleet.InstanceType{Cloud: fleet.CloudAWS, Name: machine, Arch: "amd64", CPUMilli: cpu, MemMiB: mem, GPUModel: gpu, GPUCount: gpus, GPUMemoryMiB: gpuMem},
			Labels: map[string]string{"node.kubernetes.io/instance-type": machine, "karpenter.sh/nodepool": name,
				"karpenter.sh/capacity-type": map[fleet.Purchase]string{fleet.PurchaseSpot: "spot"}[buy] + map[fleet.Purchase]string{fleet.PurchaseOnDemand: "on-demand"}[buy]},
		}
	}
	// Boot: a measured EKS GPU node took 40 s to kubelet ready and 36 s more to offer its GPU; CPU nodes skip the latter.
	chat := pool("gpu-stable", "g5.2xlarge", 8000, 32768, "A10G", 1, 24576, fleet.PurchaseOnDemand, 76, 40)
	chat.MinNodes = 2
	shared := pool("gpu-shared", "g6.12xlarge", 48000, 196608, "L4", 4, 22888, fleet.PurchaseOnDemand, 90, 12)
	shared.MinNodes = 1
	spot := pool("gpu-spot", "g5.xlarge", 4000, 16384, "A10G", 1, 24576, fleet.PurchaseSpot, 76, 24)
	spot.HazardPerHour, spot.StockOutsPerWeek = 0.02, 4
	cpu := pool("cpu", "m6i.2xlarge", 8000, 32768, "", 0, 0, fleet.PurchaseOnDemand, 42, 20)
	cpu.MinNodes = 2
	return []Pool{chat, shared, spot, cpu}
}

type demoWorkload struct {
	Workload
	policy string
}

func demoWorkloads(seed uint64, chat Source) []demoWorkload {
	if chat == nil {
		chat = Cycle{Seed: seed, Stream: 1, Low: 2.6, High: 17, PeakHour: 18.5, Sharpness: 1.15, Weekend: 0.62, Noise: 0.07,
			BurstsPerDay: 1.5, BurstHeight: 0.35, BurstSeconds: 900, TokensIn: 900, TokensOut: 210, TokenDrift: 0.06}
	}
	return []demoWorkload{demoChat(chat), demoImage(seed), demoEmbed(seed), demoTraining(seed), demoAPI(seed), demoEval(seed)}
}

func named(namespace, kind, name, team, class string, cpu, mem, gpu int64) fleet.Workload {
	return fleet.Workload{
		Key: namespace + "/" + kind + "/" + name, Namespace: namespace, Kind: kind, Name: name, Team: team, Class: class,
		Labels: map[string]string{"app.kubernetes.io/name": name, "team": team}, CPUMilli: cpu, MemMiB: mem, GPUMilli: gpu,
	}
}

// The chat model: an 8B model on one A10G. 5,000 prompt tokens/s, 900 output tokens/s at a full batch of 36, 40 ms per token then.
func demoChat(traffic Source) demoWorkload {
	return demoWorkload{Workload{
		Workload: named("chat", "Deployment", "chat-llm", "assistant", "gold", 6000, 24576, 1000),
		Pools:    []string{"gpu-stable"}, Replicas: 5,
		// An 11.6 GB image from the region's registry took 121 s; container, weights and engine 90 s on a warm node.
		Startup: Startup{PullSeconds: 95, LoadSeconds: 62, WarmSeconds: 60, WarmFrom: 0.5, DrainSeconds: 45},
		Service: Service{Slots: 36, PrefillRate: 5000, TokenSeconds: 0.040, TokenSeconds1: 0.022, Spread: 0.55, LateSeconds: 5, TimeoutSeconds: 60,
			CPUIdle: 0.3, CPUBusy: 2.2, MemoryMiB: 19_200, GPUBaseMiB: 17_200, GPUBusyMiB: 5_400, KVCache: true, SMBase: 0.12, SMFull: 0.93},
		Traffic: traffic,
	}, `mode: enforce
min: 3
max: 20
slo:
  class: gold                  # 1 % of the requests may wait over 5 s
  late_seconds: 5
  start_seconds: 270           # node, image, weights and half of the warm-up
  requests_per_replica: 22     # in service at once while it still answers in time
`}
}

// The image model: one picture at a time, seven seconds each, bursts.
func demoImage(seed uint64) demoWorkload {
	return demoWorkload{Workload{
		Workload: named("media", "Deployment", "image-gen", "media", "standard", 6000, 24576, 1000),
		Pools:    []string{"gpu-shared"}, Replicas: 3,
		Startup: Startup{PullSeconds: 70, LoadSeconds: 40, WarmSeconds: 20, WarmFrom: 0.7, DrainSeconds: 30},
		Service: Service{Slots: 1, Seconds: 7, Spread: 0.25, LateSeconds: 30, TimeoutSeconds: 240,
			CPUIdle: 0.2, CPUBusy: 1.4, MemoryMiB: 14_300, GPUBaseMiB: 11_800, GPUBusyMiB: 7_600, SMBase: 0.1, SMFull: 0.95},
		Traffic: Cycle{Seed: seed, Stream: 2, Low: 0.10, High: 0.62, PeakHour: 20, Weekend: 1.2, Noise: 0.15,
			BurstsPerDay: 4, BurstHeight: 1.6, BurstSeconds: 1200, WorkingDay: true},
	}, `mode: enforce
min: 3
max: 12
slo:
  class: standard              # 3 % of the pictures may wait over 30 s
  late_seconds: 30
  start_seconds: 240
  requests_per_replica: 1      # a replica draws one picture at a time
`}
}

// Embeddings: over-provisioned by hand; Plimsoll only recommends here.
func demoEmbed(seed uint64) demoWorkload {
	return demoWorkload{Workload{
		Workload: named("media", "Deployment", "embedder", "search", "standard", 4000, 16384, 1000),
		Pools:    []string{"gpu-shared"}, Replicas: 5,
		Startup: Startup{PullSeconds: 45, LoadSeconds: 20, WarmSeconds: 15, WarmFrom: 0.7, DrainSeconds: 10},
		Service: Service{Slots: 16, Seconds: 0.08, Spread: 0.45, LateSeconds: 0.5, TimeoutSeconds: 10,
			CPUIdle: 0.15, CPUBusy: 1.1, MemoryMiB: 6_100, GPUBaseMiB: 5_200, GPUBusyMiB: 2_600, SMBase: 0.06, SMFull: 0.9},
		Traffic: Cycle{Seed: seed, Stream: 3, Low: 130, High: 480, PeakHour: 16, Weekend: 0.55, Noise: 0.06},
	}, `mode: recommend
min: 2
max: 8
target_ratio:
  - signal: gpu_sm_active_ratio
    type: utilization
    target: 0.65
    tolerance: 0.2
filter:
  window_seconds: 120
down:
  stabilisation_seconds: 3600
approval_ttl_seconds: 14400
`}
}

// Fine-tuning on Spot: half an hour per job; more workers cost money, so a person approves them.
func demoTraining(seed uint64) demoWorkload {
	return demoWorkload{Workload{
		Workload: named("platform", "StatefulSet", "finetune", "research", "economy", 3200, 12288, 1000),
		Pools:    []string{"gpu-spot"}, Replicas: 4,
		Startup: Startup{PullSeconds: 80, LoadSeconds: 45, DrainSeconds: 100},
		Service: Service{Slots: 1, Seconds: 1700, Spread: 0.35, LateSeconds: 4 * 3600,
			CPUIdle: 0.2, CPUBusy: 2.6, MemoryMiB: 10_400, GPUBaseMiB: 1_900, GPUBusyMiB: 19_500, SMBase: 0.3, SMFull: 0.97},
		Traffic: Cycle{Seed: seed, Stream: 4, Low: 3.2 / 3600, High: 11.5 / 3600, PeakHour: 19, Weekend: 0.5, Noise: 0.2},
	}, `mode: approve
min: 2
max: 8
queue:
  target_per_replica: 1.2
  include_running: true
up:
  cooldown_seconds: 600
down:
  cooldown_seconds: 1800
  stabilisation_seconds: 3600
approval_ttl_seconds: 7200
`}
}

// The public API: CPU only, scaled by CPU like any web service, with its p99 as a second opinion.
func demoAPI(seed uint64) demoWorkload {
	return demoWorkload{Workload{
		Workload: named("platform", "Deployment", "public-api", "platform", "gold", 1500, 2048, 0),
		Pools:    []string{"cpu"}, Replicas: 4,
		Startup: Startup{PullSeconds: 8, LoadSeconds: 9, WarmSeconds: 30, WarmFrom: 0.6, DrainSeconds: 15},
		Service: Service{Slots: 20, Seconds: 0.045, Spread: 0.6, LateSeconds: 0.5, TimeoutSeconds: 10,
			CPUIdle: 0.08, CPUSeconds: 0.0042, MemoryMiB: 1_150},
		Traffic: Cycle{Seed: seed, Stream: 5, Low: 260, High: 2100, PeakHour: 17.5, Weekend: 0.6, Noise: 0.05,
			BurstsPerDay: 1, BurstHeight: 0.3, BurstSeconds: 600},
	}, `mode: enforce
min: 3
max: 24
target_ratio:
  - signal: cpu_ratio
    type: utilization
    target: 0.6
latency:
  target_seconds: 0.4
up:
  cooldown_seconds: 60
down:
  cooldown_seconds: 300
  stabilisation_seconds: 600
`}
}

// Evaluation runs: a schedule drops thousands of prompts into a queue; workers on Spot, on demand when there is none.
func demoEval(seed uint64) demoWorkload {
	return demoWorkload{Workload{
		Workload: named("platform", "Deployment", "eval-worker", "research", "economy", 3200, 12288, 1000),
		Pools:    []string{"gpu-spot", "gpu-stable"}, Replicas: 1,
		Startup: Startup{PullSeconds: 80, LoadSeconds: 50, WarmSeconds: 20, DrainSeconds: 60},
		Service: Service{Slots: 8, Seconds: 16, Spread: 0.5, LateSeconds: 3600,
			CPUIdle: 0.2, CPUBusy: 1.8, MemoryMiB: 9_800, GPUBaseMiB: 15_400, GPUBusyMiB: 6_200, SMBase: 0.15, SMFull: 0.9},
		Traffic: Sum{
			Cron{Seed: seed, Stream: 6, EverySeconds: 4 * 3600, OffsetSeconds: 600, Count: 2600, OverSeconds: 120},
			Cron{Seed: seed, Stream: 7, EverySeconds: 24 * 3600, OffsetSeconds: 2 * 3600, Count: 9000, OverSeconds: 900},
		},
	}, `mode: enforce
min: 1
max: 8
queue:
  target_per_replica: 250      # prompts; a replica answers one in two seconds
  include_running: true
up:
  cooldown_seconds: 180
down:
  cooldown_seconds: 300
  stabilisation_seconds: 300
long_tail: {quiet_seconds: 1800}
`}
}
