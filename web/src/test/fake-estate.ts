// The estate of the fake service: clusters, nodes, workloads and what was decided about them.
import type { WireCluster, WireDecision, WireWorkload } from "../api/wire";
import * as make from "./factories.ts";

/** One that is fine, one that lags, one that is gone and one that never came. */
export const someClusters = (): WireCluster[] => [
  make.aCluster(1, { name: "inference-us", simulated_clock: true, clock_speed: 60 }),
  make.aCluster(2, {
    name: "training-eu",
    mode: "approve",
    health: "lagging",
    nodes: 9,
    gpus: 40,
    workloads: 2,
    applied_generation: 1841,
    cost_hour: make.money(241.9),
    last_seen_at: new Date(Date.now() - 95_000).toISOString(),
  }),
  make.aCluster(3, {
    name: "edge-ap",
    mode: "observe",
    health: "offline",
    frozen: true,
    nodes: 4,
    gpus: 0,
    workloads: 3,
    generation: 0,
    applied_generation: 0,
    cost_hour: make.money("3.0608"),
    unpriced_nodes: 1,
    last_seen_at: new Date(Date.now() - 5_400_000).toISOString(),
  }),
  make.aCluster(4, {
    name: "new-cluster",
    mode: "recommend",
    health: "never",
    nodes: 0,
    gpus: 0,
    workloads: 0,
    generation: 0,
    applied_generation: 0,
    agent_version: "",
    kubernetes_version: "",
    capabilities: [],
    cost_hour: null,
    last_seen_at: null,
    data_at: null,
  }),
];

/** The nodes of the first cluster. */
export const someNodes = () =>
  Array.from({ length: 14 }, (_, i) =>
    i < 6
      ? make.aNode(i + 1, { gpu_allocated: 8 - (i % 3), phase: i === 5 ? "booting" : "ready" })
      : make.aNode(i + 1, {
          name: i < 11 ? `gpu-l4-spot-${i}` : `cpu-${i}`,
          pool: i < 11 ? "gpu-elastic" : "cpu",
          instance_type: i < 11 ? "g6.12xlarge" : "m7i.4xlarge",
          purchase: i < 11 ? "spot" : "on_demand",
          zone: i % 2 ? "us-east-1b" : "us-east-1c",
          gpu_model: i < 11 ? "L4" : "",
          gpu_count: i < 11 ? 4 : 0,
          gpu_allocated: i < 11 ? 3 : 0,
          cpu_milli: 48_000,
          cpu_milli_allocated: 20_000 + i * 1500,
          phase: i === 9 ? "draining" : "ready",
          cost_hour: i === 13 ? null : make.money(i < 11 ? 1.8342 : 0.8064),
        }),
  );

/** Workloads in every state that a page can show. */
export const someWorkloads = (): WireWorkload[] => [
  make.aWorkload(1, { key: "chat/Deployment/assistant-70b", name: "assistant-70b", cluster_name: "inference-us" }),
  make.aWorkload(2, {
    key: "vision/Deployment/image-gen",
    namespace: "vision",
    name: "image-gen",
    team: "creative",
    class: "standard",
    cluster_name: "inference-us",
    replicas: 8,
    ready: 5,
    starting: 3,
    cost_hour: make.money(21.04),
    signals: {
      request_rate: make.aSignal(12.6),
      queue_length: make.aSignal(41),
      latency_p99_seconds: make.aSignal(9.7),
      gpu_sm_active_ratio: make.aSignal(0.93),
    },
    writers: [
      {
        manager: "horizontal-pod-autoscaler",
        object: "HorizontalPodAutoscaler/image-gen",
        field: "spec.replicas",
        at: make.before(4),
      },
    ],
    last_decision: {
      id: make.uuid(6, 2),
      at: make.before(2),
      outcome: "hold",
      binding: "conflict",
      target: 8,
      state: "noted",
    },
  }),
  make.aWorkload(3, {
    key: "train/Job/finetune-nightly",
    namespace: "train",
    kind: "LeaderWorkerSet",
    name: "finetune-nightly",
    team: "research",
    class: "economy",
    cluster_id: make.uuid(3, 2),
    cluster_name: "training-eu",
    mode: "approve",
    replicas: 4,
    ready: 4,
    starting: 0,
    cost_hour: make.money(131.09),
    signals: { queue_length: make.aSignal(18), gpu_sm_active_ratio: make.aSignal(0.88) },
    last_decision: {
      id: make.uuid(6, 3),
      at: make.before(3),
      outcome: "scale_up",
      binding: "queue",
      target: 6,
      state: "proposed",
    },
  }),
  make.aWorkload(4, {
    key: "chat/Deployment/embed",
    name: "embed",
    class: "standard",
    cluster_name: "inference-us",
    replicas: 6,
    ready: 6,
    starting: 0,
    mode: "recommend",
    cost_hour: make.money(4.21),
    signals: {
      request_rate: make.aSignal(412),
      latency_p99_seconds: make.aSignal(0.084),
      gpu_sm_active_ratio: make.aSignal(0.34, { truth: "stale", age_seconds: 96 }),
    },
    last_decision: {
      id: make.uuid(6, 4),
      at: make.before(41),
      outcome: "hold",
      binding: "partial_signal",
      target: 6,
      state: "noted",
    },
  }),
  make.aWorkload(5, {
    key: "web/Deployment/gateway",
    namespace: "web",
    name: "gateway",
    team: "platform",
    class: "gold",
    cluster_name: "inference-us",
    gpu_milli: 0,
    cpu_milli: 2000,
    mem_mib: 4096,
    replicas: 9,
    ready: 9,
    starting: 0,
    cost_hour: make.money("0.9071"),
    signals: {
      request_rate: make.aSignal(1811),
      latency_p99_seconds: make.aSignal(0.041),
      cpu_ratio: make.aSignal(0.57),
    },
    last_decision: {
      id: make.uuid(6, 5),
      at: make.before(73),
      outcome: "scale_down",
      binding: "target_ratio",
      target: 9,
      state: "applied",
    },
  }),
  make.aWorkload(6, {
    key: "web/StatefulSet/session-cache",
    namespace: "web",
    kind: "StatefulSet",
    name: "session-cache",
    team: "platform",
    class: "standard",
    cluster_name: "inference-us",
    gpu_milli: 0,
    replicas: 3,
    ready: 3,
    starting: 0,
    mode: null,
    policy_version: 0,
    min: null,
    max: null,
    last_decision: null,
    cost_hour: null,
    preflight: ["no_readiness_probe", "no_requests"],
    signals: { cpu_ratio: make.aSignal(0.21) },
  }),
];

/** Two proposals, then what was decided before. */
export function someDecisions(): WireDecision[] {
  const open = make.before(-11);
  const proposed: WireDecision[] = [
    make.aDecision(3, {
      at: make.before(3),
      key: "train/Job/finetune-nightly",
      workload_id: make.uuid(5, 3),
      cluster_id: make.uuid(3, 2),
      from_replicas: 4,
      needed: 6,
      target: 6,
      state: "proposed",
      cost_delta_hour: make.money("65.5452"),
      expires_at: open,
      before_replicas: null,
      after_replicas: null,
      finished_at: null,
      result_code: null,
    }),
    make.aDecision(7, {
      at: make.before(9),
      key: "train/Job/evals",
      workload_id: make.uuid(5, 3),
      cluster_id: make.uuid(3, 2),
      outcome: "scale_down",
      binding: "long_tail",
      from_replicas: 3,
      needed: 1,
      target: 1,
      state: "proposed",
      cost_delta_hour: make.money("-21.4"),
      expires_at: make.before(-1.6),
      before_replicas: null,
      after_replicas: null,
      finished_at: null,
      result_code: null,
    }),
  ];
  const shapes: Partial<WireDecision>[] = [
    {},
    { outcome: "hold", needed: 9, target: 9, binding: "cooldown_down", state: "noted", cost_delta_hour: null },
    { outcome: "scale_down", needed: 7, target: 7, binding: "target_ratio", cost_delta_hour: make.money("-8.1931") },
    { outcome: "hold", needed: 30, target: 9, binding: "max_replicas", state: "noted", cost_delta_hour: null },
    { state: "failed", result_code: "forbidden", binding: "latency_high" },
    { outcome: "scale_down", needed: 6, target: 8, binding: "step_down", cost_delta_hour: make.money("-4.09655") },
    { state: "expired", binding: "queue", decided_by: null },
  ];
  const workloads = [
    ["chat/Deployment/assistant-70b", 1],
    ["vision/Deployment/image-gen", 2],
    ["chat/Deployment/embed", 4],
    ["web/Deployment/gateway", 5],
  ] as const;
  const past = Array.from({ length: 120 }, (_, i) => {
    const [key, n] = workloads[i % 4] ?? workloads[0];
    return make.aDecision(i + 10, { key, workload_id: make.uuid(5, n), ...shapes[i % shapes.length] });
  });
  return [...proposed, ...past];
}
