// A cluster's capacity as the service would answer: one node that is exchanged, one under MIG, pods that wait for different reasons.
import type { components } from "../api/schema.gen";
import { money, uuid } from "./factories.ts";

type Schemas = components["schemas"];

const before = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

const offering = (instance_type: string, purchase: "on_demand" | "spot", zone = "us-east-1a") => ({
  cloud: "aws",
  region: "us-east-1",
  zone,
  instance_type,
  purchase,
});

function aMapNode(name: string, over: Partial<Schemas["CapacityNode"]> = {}): Schemas["CapacityNode"] {
  return {
    name,
    pool: "gpu-shared",
    offering: offering("g6.12xlarge", "on_demand"),
    phase: "ready",
    notice: false,
    cpu_milli: 47_800,
    memory_mib: 193_000,
    cpu_milli_requested: 6000,
    memory_mib_requested: 24_576,
    gpu_model: "L4",
    gpu_count: 4,
    gpu_driver: "550.54.14",
    gpu_cuda: "12.4",
    gpu_compute_capability: "8.9",
    gpus_requested: 1.5,
    price: money("4.6016"),
    pods: [{ workload: "media/Deployment/image-gen", count: 2, gpus: 1.5, cpu_milli: 6000 }],
    pod_count: 3,
    gpu_groups: [],
    state: "keep",
    reason: "no_gain",
    detail: "",
    best: {
      offering: offering("g6.12xlarge", "spot", "us-east-1b"),
      price: money("1.9"),
      weighed: money("2.3"),
      why_not: "spot",
    },
    ...over,
  };
}

export function aCapacityMap(): Schemas["CapacityMap"] {
  return {
    at: before(12),
    total: 3,
    spare_gpus: 2,
    fragmented: 0.5,
    gpu_fleet: [
      { model: "L4", nodes: 2, gpus: 8, requested: 2.5, spot: 0, mig: 0, cost: money("9.2032") },
      { model: "A100-40GB", nodes: 1, gpus: 8, requested: 0, spot: 8, mig: 8, cost: money("11.2") },
    ],
    nodes: [
      aMapNode("node-mig", {
        pool: "gpu-mig",
        offering: offering("p4d.24xlarge", "spot"),
        gpu_model: "A100-40GB",
        gpu_count: 8,
        gpus_requested: 0,
        state: "stays",
        reason: "mig",
        gpu_groups: [{ mode: "mig", count: 8, replicas: 0, instances: [{ profile: "1g.5gb", count: 56 }] }],
      }),
      aMapNode("node-keep"),
      aMapNode("node-drain", { state: "drain", reason: "replace", gpus_requested: 1 }),
    ],
  };
}

const summary = (n: number): Schemas["CapacityPlanSummary"] => ({
  id: uuid(40, n),
  at: before(12),
  first_at: before(3600 * n),
  checked_at: before(10),
  took_ms: 16,
  outcome: "change",
  adds: 1,
  drains: 1,
  waiting: 2,
  before: money("28.46"),
  after: money("24.84"),
});

/** Pods that were told to save their work: one did, one did not in time. */
export function checkpoints(): Schemas["CheckpointListBody"] {
  const call = (n: number, outcome: "done" | "late", cause: "plan" | "interruption") => ({
    id: `cp-${n}`,
    at: before(600 * n),
    pod: `train/llama-${n}`,
    workload: "train/Job/llama",
    node: `node-${n}`,
    cause,
    outcome,
    took_ms: outcome === "done" ? 4200 : 25_000,
    tries: n,
    detail: outcome === "done" ? "" : "it answered 503",
  });
  return { told: true, items: [call(1, "done", "plan"), call(2, "late", "interruption")] };
}

export function aCapacityPlan(): Schemas["CapacityPlan"] {
  return {
    ...summary(1),
    data_at: before(15),
    stale: false,
    mode: "recommend",
    held: ["action_rate"],
    unpriced: 1,
    warm: [
      {
        rule: "l4-spare",
        how: "growth",
        want: 3,
        ready: 1,
        starting: 0,
        add: 1,
        short: 1,
        why: "cap",
        hour: money("1.96"),
        unpriced: 0,
        saves_seconds: 190,
        growth: { gpus: 3, samples: 5000, seconds: 190 },
        types: ["g6.2xlarge"],
        gpus: 1,
        placeholders: true,
      },
    ],
    policy_version: 0,
    bound: money("24.1"),
    anew: money("24.18"),
    anew_gap: 0.004,
    considered: [
      { name: "as_is", cost: money("28.46"), moved: 0, left: 1 },
      { name: "plan", cost: money("24.84"), moved: 1, left: 1 },
      { name: "anew", cost: money("24.18"), moved: 33, left: 1 },
    ],
    markets: [
      {
        pods: ["chat/vision-7d9f-x2x8p"],
        want: 4,
        stand_in: 1,
        pools: [
          {
            offering: {
              cloud: "aws",
              region: "us-east-1",
              zone: "us-east-1b",
              instance_type: "g6.12xlarge",
              purchase: "spot",
            },
            price: money("1.8342"),
            score: 0.43,
            hazard: 0.02,
            held: 2,
            target: 3,
            most: null,
            backoff_until: null,
          },
          {
            offering: {
              cloud: "aws",
              region: "us-east-1",
              zone: "us-east-1c",
              instance_type: "g6.12xlarge",
              purchase: "spot",
            },
            price: money("1.7911"),
            score: 0.49,
            hazard: 0.06,
            held: 0,
            target: 0,
            most: 1,
            backoff_until: before(-1500),
          },
          {
            offering: {
              cloud: "aws",
              region: "us-east-1",
              zone: "us-east-1b",
              instance_type: "g6.12xlarge",
              purchase: "on_demand",
            },
            price: money("4.6016"),
            score: null,
            hazard: null,
            held: 1,
            target: 1,
            most: null,
            backoff_until: null,
          },
        ],
      },
    ],
    add: [
      {
        offering: offering("g6.2xlarge", "on_demand"),
        count: 1,
        price: money("0.9776"),
        gpu_model: "L4",
        gpu_count: 1,
        why: "replace",
        machines: [{ pods: ["media/image-gen-1"], pod_count: 1, replaces: "node-drain" }],
        alternatives: [
          {
            offering: offering("g6.4xlarge", "on_demand"),
            price: money("1.3232"),
            weighed: money("1.3232"),
            why_not: "dearer",
          },
          {
            offering: offering("g6.2xlarge", "spot"),
            price: money("0.39"),
            weighed: money("0.41"),
            why_not: "back_off",
          },
        ],
        ladder: [
          {
            step: "other_zone",
            offering: offering("g6.2xlarge", "on_demand", "us-east-1b"),
            price: money("0.9776"),
            p_stock_out: 0.03,
            backoff_until: null,
          },
        ],
        expected_seconds: 270,
        p_first: 0.97,
        p_ladder: 0.999,
      },
    ],
    drain: [
      {
        name: "node-drain",
        why: "replace",
        moves: [{ pod: "media/image-gen-1", to: "" }],
        move_count: 1,
        saving: money("3.624"),
        churn: money("0.7358"),
        pays_seconds: 731,
      },
    ],
  };
}

function aPendingPod(over: Partial<Schemas["PendingPod"]>): Omit<Schemas["PendingPod"], "offering"> & {
  offering: Schemas["PlannedOffering"] | null;
} {
  return {
    pod: "media/waits-1",
    workload: "media/Deployment/waits",
    planned: false,
    since: before(900),
    cause: "new_node",
    words: "Unschedulable",
    node: "",
    offering: null,
    expected_seconds: 270,
    reasons: [],
    blocked_by: [],
    cpu_milli: 4000,
    memory_mib: 16_384,
    gpus: 1,
    long: true,
    ...over,
  };
}

export function pendingPods() {
  return {
    at: before(12),
    held: [],
    long_waiting: 2,
    oldest_seconds: 900,
    items: [
      aPendingPod({ offering: offering("g6.2xlarge", "on_demand") }),
      aPendingPod({
        pod: "media/giant-1",
        cause: "fits_nothing",
        expected_seconds: 0,
        gpus: 16,
        blocked_by: ["gpu_count"],
        reasons: [{ constraint: "gpu_count", offerings: 42, alone: 6, detail: "" }],
      }),
    ],
  };
}

export const capacityPlans = () => ({ items: [summary(1), summary(5)] });

export function conflicts(workload: string) {
  return {
    at: before(12),
    items: [
      {
        workload_id: workload,
        workload: "media/Deployment/image-gen",
        field: "spec.replicas",
        mode: "enforce",
        yields: true,
        applied: 12,
        overwritten: 5,
        refused: 1,
        fights_per_hour: 0.25,
        last_at: before(600),
        writers: [
          {
            manager: "horizontal-pod-autoscaler",
            object: "HorizontalPodAutoscaler/image-gen",
            field: "spec.replicas",
            at: before(600),
          },
        ],
      },
    ],
    groups: [
      {
        group_id: uuid(95, 1),
        ref: "eu-central-1/gpu-inference",
        cloud: "aws",
        enabled: true,
        own: false,
        yields: true,
        stopped: true,
        writers: [{ kind: "scaling_policy", name: "cpu-target", sizes: true, stop: "AlarmNotification" }],
        writers_at: before(60),
        writers_problem: "",
        suspended: [],
        restarted: 0,
        applied: 4,
        changes: 3,
        undone: 3,
        replaced: 1,
        fights_per_hour: 3,
        last_at: before(300),
        newest: [
          { at: before(300), field: "desired", before: 6, after: 4, undid: true },
          { at: before(900), field: "max", before: 10, after: 8, undid: false },
        ],
      },
    ],
  };
}
