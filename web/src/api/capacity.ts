import { queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { type PlannedMarket, readMarkets } from "./capacity-market";
import { answer, client } from "./client";
import { NODE_PHASES, type NodePhase, PURCHASES, type Purchase } from "./clusters";
import { readMoney, readMoneyOr, readTimeOr, readWord } from "./read";
import type { components } from "./schema.gen";

export { type Conflict, conflictsQuery, type GroupConflict } from "./capacity-conflicts";

type Schemas = components["schemas"];

/** What the service leaves null although the document says it is there. */
type Nullable<T, K extends keyof T> = Omit<T, K> & { [P in K]: T[P] | null };

export interface Offering {
  cloud: string;
  region: string;
  zone: string;
  instanceType: string;
  purchase: Purchase;
}

export interface Alternative {
  offering: Offering;
  price: Money | null;
  weighed: Money | null;
  whyNot: string;
}

export interface PodsOnNode {
  workload: string;
  count: number;
  gpus: number;
}

export interface GpuGroup {
  mode: string;
  count: number;
  replicas: number;
  instances: { profile: string; count: number }[];
}

export const NODE_STATES = ["keep", "stays", "leaving", "drain"] as const;
export type NodeState = (typeof NODE_STATES)[number];

export interface MapNode {
  name: string;
  pool: string;
  offering: Offering;
  phase: NodePhase;
  notice: boolean;
  cpuRatio: number | null;
  memoryRatio: number | null;
  gpuModel: string;
  gpuCount: number;
  /** Empty: not known. */
  driver: string;
  cuda: string;
  computeCapability: string;
  gpusUsed: number;
  price: Money | null;
  pods: PodsOnNode[];
  podCount: number;
  groups: GpuGroup[];
  state: NodeState;
  reason: string;
  detail: string;
  best: Alternative | null;
}

export interface GpuFleet {
  model: string;
  nodes: number;
  gpus: number;
  requested: number;
  spot: number;
  mig: number;
  cost: Money | null;
}

export interface CapacityMap {
  at: Date | null;
  nodes: MapNode[];
  total: number;
  fleet: GpuFleet[];
  spareGpus: number;
  fragmented: number;
}

export const CAUSES = [
  "room",
  "node_starting",
  "new_node",
  "deferred",
  "fits_nothing",
  "image",
  "crash",
  "config",
  "loading",
] as const;
export type Cause = (typeof CAUSES)[number];

export interface PendingReason {
  constraint: string;
  offerings: number;
  alone: number;
  detail: string;
}

export interface PendingPod {
  pod: string;
  workload: string;
  planned: boolean;
  since: Date;
  cause: Cause;
  words: string;
  node: string;
  offering: Offering | null;
  expectedSeconds: number;
  reasons: PendingReason[];
  blocked: string[];
  cpuMilli: number;
  memoryMib: number;
  gpus: number;
  long: boolean;
}

export interface PendingPods {
  at: Date | null;
  held: string[];
  longWaiting: number;
  oldestSeconds: number;
  items: PendingPod[];
}

export const OUTCOMES = ["change", "nothing", "held"] as const;
export type PlanOutcome = (typeof OUTCOMES)[number];

export interface PlanSummary {
  id: string;
  at: Date;
  firstAt: Date;
  checkedAt: Date;
  outcome: PlanOutcome;
  adds: number;
  drains: number;
  waiting: number;
  before: Money;
  after: Money;
}

export interface Rung {
  step: string;
  offering: Offering;
  price: Money;
  stockOut: number;
}

export interface PlannedGroup {
  offering: Offering;
  count: number;
  price: Money;
  gpuModel: string;
  gpuCount: number;
  why: string;
  machines: { pods: string[]; podCount: number; replaces: string }[];
  alternatives: Alternative[];
  ladder: Rung[];
  expectedSeconds: number;
  first: number;
  withLadder: number;
}

export interface PlannedDrain {
  name: string;
  why: string;
  moves: { pod: string; to: string }[];
  moveCount: number;
  saving: Money;
  churn: Money;
  paysSeconds: number;
}

export const WARM_WAYS = ["fixed", "growth"] as const;
export type WarmWay = (typeof WARM_WAYS)[number];

/** Machines of one shape that are kept ready. */
export interface WarmPool {
  rule: string;
  how: WarmWay;
  want: number;
  ready: number;
  starting: number;
  add: number;
  short: number;
  why: string;
  hour: Money;
  unpriced: number;
  /** Seconds that a pod on one of them waits less; null: unknown. */
  saves: number | null;
  growth: { gpus: number; samples: number; seconds: number } | null;
  types: string[];
  placeholders: boolean;
}

export interface CapacityPlan extends PlanSummary {
  stale: boolean;
  held: string[];
  add: PlannedGroup[];
  drain: PlannedDrain[];
  anew: Money | null;
  anewGap: number | null;
  unpriced: number;
  warm: WarmPool[];
  considered: { name: string; cost: Money | null; moved: number; left: number }[];
  markets: PlannedMarket[];
}

const ratio = (part: number, whole: number) => (whole > 0 ? part / whole : null);

function readOffering(wire: Schemas["PlannedOffering"]): Offering {
  return {
    cloud: wire.cloud,
    region: wire.region,
    zone: wire.zone,
    instanceType: wire.instance_type,
    purchase: readWord(PURCHASES, wire.purchase, "on_demand"),
  };
}

function readAlternative(wire: Nullable<Schemas["PlannedAlternative"], "price" | "weighed">): Alternative {
  return {
    offering: readOffering(wire.offering),
    price: readMoneyOr(wire.price),
    weighed: readMoneyOr(wire.weighed),
    whyNot: wire.why_not,
  };
}

function readNode(wire: Nullable<Schemas["CapacityNode"], "price" | "best">): MapNode {
  return {
    name: wire.name,
    pool: wire.pool,
    offering: readOffering(wire.offering),
    phase: readWord(NODE_PHASES, wire.phase, "not_ready"),
    notice: wire.notice,
    cpuRatio: ratio(wire.cpu_milli_requested, wire.cpu_milli),
    memoryRatio: ratio(wire.memory_mib_requested, wire.memory_mib),
    gpuModel: wire.gpu_model,
    gpuCount: wire.gpu_count,
    driver: wire.gpu_driver,
    cuda: wire.gpu_cuda,
    computeCapability: wire.gpu_compute_capability,
    gpusUsed: wire.gpus_requested,
    price: readMoneyOr(wire.price),
    pods: (wire.pods ?? []).map((p) => ({ workload: p.workload, count: p.count, gpus: p.gpus })),
    podCount: wire.pod_count,
    groups: (wire.gpu_groups ?? []).map((g) => ({
      mode: g.mode,
      count: g.count,
      replicas: g.replicas,
      instances: g.instances ?? [],
    })),
    state: readWord(NODE_STATES, wire.state, "stays"),
    reason: wire.reason,
    detail: wire.detail,
    best: wire.best ? readAlternative(wire.best) : null,
  };
}

function readPending(wire: Nullable<Schemas["PendingPod"], "offering">): PendingPod {
  return {
    pod: wire.pod,
    workload: wire.workload,
    planned: wire.planned,
    since: parseTime(wire.since),
    cause: readWord(CAUSES, wire.cause, "loading"),
    words: wire.words,
    node: wire.node,
    offering: wire.offering ? readOffering(wire.offering) : null,
    expectedSeconds: wire.expected_seconds,
    reasons: wire.reasons ?? [],
    blocked: wire.blocked_by ?? [],
    cpuMilli: wire.cpu_milli,
    memoryMib: wire.memory_mib,
    gpus: wire.gpus,
    long: wire.long,
  };
}

function readSummary(wire: Schemas["CapacityPlanSummary"]): PlanSummary {
  return {
    id: wire.id,
    at: parseTime(wire.at),
    firstAt: parseTime(wire.first_at),
    checkedAt: parseTime(wire.checked_at),
    outcome: readWord(OUTCOMES, wire.outcome, "held"),
    adds: wire.adds,
    drains: wire.drains,
    waiting: wire.waiting,
    before: readMoney(wire.before),
    after: readMoney(wire.after),
  };
}

function readGroup(wire: Schemas["PlannedGroup"]): PlannedGroup {
  return {
    offering: readOffering(wire.offering),
    count: wire.count,
    price: readMoney(wire.price),
    gpuModel: wire.gpu_model,
    gpuCount: wire.gpu_count,
    why: wire.why,
    machines: (wire.machines ?? []).map((m) => ({ pods: m.pods ?? [], podCount: m.pod_count, replaces: m.replaces })),
    alternatives: (wire.alternatives ?? []).map(readAlternative),
    ladder: (wire.ladder ?? []).map((r) => ({
      step: r.step,
      offering: readOffering(r.offering),
      price: readMoney(r.price),
      stockOut: r.p_stock_out,
    })),
    expectedSeconds: wire.expected_seconds,
    first: wire.p_first,
    withLadder: wire.p_ladder,
  };
}

function readWarm(wire: Nullable<Schemas["PlannedWarm"], "growth">): WarmPool {
  return {
    rule: wire.rule,
    how: readWord(WARM_WAYS, wire.how, "fixed"),
    want: wire.want,
    ready: wire.ready,
    starting: wire.starting,
    add: wire.add,
    short: wire.short,
    why: wire.why,
    hour: readMoney(wire.hour),
    unpriced: wire.unpriced,
    saves: wire.saves_seconds > 0 ? wire.saves_seconds : null,
    growth: wire.growth ? { gpus: wire.growth.gpus, samples: wire.growth.samples, seconds: wire.growth.seconds } : null,
    types: wire.types ?? [],
    placeholders: wire.placeholders,
  };
}

function readPlan(wire: Nullable<Schemas["CapacityPlan"], "bound" | "anew">): CapacityPlan {
  return {
    ...readSummary(wire),
    stale: wire.stale,
    held: wire.held ?? [],
    add: (wire.add ?? []).map(readGroup),
    drain: (wire.drain ?? []).map((d) => ({
      name: d.name,
      why: d.why,
      moves: d.moves ?? [],
      moveCount: d.move_count,
      saving: readMoney(d.saving),
      churn: readMoney(d.churn),
      paysSeconds: d.pays_seconds,
    })),
    anew: readMoneyOr(wire.anew),
    anewGap: wire.bound ? wire.anew_gap : null,
    unpriced: wire.unpriced,
    warm: (wire.warm ?? []).map(readWarm),
    considered: (wire.considered ?? []).map((o) => ({
      name: o.name,
      cost: readMoneyOr(o.cost),
      moved: o.moved,
      left: o.left,
    })),
    markets: readMarkets(wire.markets, readOffering),
  };
}

/** Plans are made every twenty seconds at most. */
const REFRESH_MS = 20_000;

export const capacityMapQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "capacity-map", id],
    refetchInterval: REFRESH_MS,
    queryFn: async ({ signal }): Promise<CapacityMap> => {
      const wire = await answer(client.GET("/clusters/{id}/capacity-map", { params: { path: { id } }, signal }));
      return {
        at: readTimeOr(wire.at),
        nodes: (wire.nodes ?? []).map(readNode),
        total: wire.total,
        fleet: (wire.gpu_fleet ?? []).map((g) => ({ ...g, cost: readMoneyOr(g.cost) })),
        spareGpus: wire.spare_gpus,
        fragmented: wire.fragmented,
      };
    },
  });

export const pendingPodsQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "pending-pods", id],
    refetchInterval: REFRESH_MS,
    queryFn: async ({ signal }): Promise<PendingPods> => {
      const wire = await answer(client.GET("/clusters/{id}/pending-pods", { params: { path: { id } }, signal }));
      return {
        at: readTimeOr(wire.at),
        held: wire.held ?? [],
        longWaiting: wire.long_waiting,
        oldestSeconds: wire.oldest_seconds,
        items: (wire.items ?? []).map(readPending),
      };
    },
  });

export const capacityPlanQuery = (id: string, plan?: string) =>
  queryOptions({
    queryKey: ["clusters", "capacity-plan", id, plan ?? ""],
    refetchInterval: plan ? false : REFRESH_MS,
    queryFn: async ({ signal }): Promise<CapacityPlan | null> => {
      const wire = await answer(
        client.GET("/clusters/{id}/capacity-plan", { params: { path: { id }, query: { plan } }, signal }),
      );
      return wire.plan ? readPlan(wire.plan) : null;
    },
  });

export const capacityPlansQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "capacity-plans", id],
    refetchInterval: REFRESH_MS,
    queryFn: async ({ signal }): Promise<PlanSummary[]> => {
      const wire = await answer(
        client.GET("/clusters/{id}/capacity-plans", { params: { path: { id }, query: { limit: 20 } }, signal }),
      );
      return (wire.items ?? []).map(readSummary);
    },
  });
