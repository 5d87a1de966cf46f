// A cluster's policy of capacity plans: read, previewed, saved, rolled out in steps; and machines that do not obey it.
import { queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import type { Offering } from "./capacity";
import { answer, client } from "./client";
import { PURCHASES } from "./clusters";
import { readMoney, readMoneyOr, readTimeOr, readWord } from "./read";
import type { components } from "./schema.gen";

type Schemas = components["schemas"];
/** As the service writes it; what is left out is the default. */
export type PolicyDoc = Schemas["CapacityPolicyDoc"];

export interface CapacityPolicy {
  doc: PolicyDoc;
  /** Of the cluster's own policy, or of the tenant's default; 0: there was never one. */
  version: number;
  /** The cluster has no policy of its own: doc is the tenant's default. */
  inherited: boolean;
  /** Version of the tenant's default where that holds; 0: there is none. */
  standard: number;
  updatedBy: string;
  updatedAt: Date | null;
}

export interface PlanSum {
  after: Money;
  adds: number;
  drains: number;
  moves: number;
  left: number;
  machines: number;
  spot: number;
  interruptionsPerHour: number;
  stockOut: number;
  unpriced: number;
  held: string[];
  incomplete: boolean;
}

export interface Comparison {
  cost: Money;
  inForce: PlanSum;
  proposed: PlanSum;
  offerings: { offering: Offering; now: number; inForce: number; proposed: number }[];
}

export interface Signs {
  longWaiting: number;
  breached: number;
  cost: Money | null;
  unpriced: number;
  readySeconds: number | null;
  started: number;
  failed: number;
  interruptions: number;
  machineHours: number;
  late: number | null;
  errors: number | null;
}

export const CAPACITY_ROLLOUT_STATES = ["shadow", "canary", "done", "rolled_back", "cancelled", "superseded"] as const;
export type CapacityRolloutState = (typeof CAPACITY_ROLLOUT_STATES)[number];

export interface RolloutPart {
  clusterId: string;
  cluster: string;
  inForce: boolean;
  watchedSeconds: number;
  silentSeconds: number;
  passed: string;
  costLimit: Money | null;
  before: Signs | null;
  after: Signs | null;
  shadow: Comparison | null;
}

export interface CapacityRollout {
  id: string;
  state: CapacityRolloutState;
  /** Neither done nor taken back. */
  open: boolean;
  /** Of the tenant's default. */
  standard: boolean;
  step: number;
  shares: number[];
  shadowSeconds: number;
  stageSeconds: number;
  hourly: number;
  paused: boolean;
  parts: RolloutPart[];
  outcome: string;
  outcomeCluster: string;
  seq: number;
  createdBy: string;
  createdAt: Date;
  stageAt: Date;
  lookedAt: Date | null;
  finishedAt: Date | null;
  steps: { seq: number; at: Date; what: string; step: number; actor: string }[];
}

function readOffering(w: Schemas["PlannedOffering"]): Offering {
  return {
    cloud: w.cloud,
    region: w.region,
    zone: w.zone,
    instanceType: w.instance_type,
    purchase: readWord(PURCHASES, w.purchase, "on_demand"),
  };
}

function readSum(w: Schemas["CapacityPlanSum"]): PlanSum {
  return {
    after: readMoney(w.after),
    adds: w.adds,
    drains: w.drains,
    moves: w.moves,
    left: w.left,
    machines: w.machines,
    spot: w.spot,
    interruptionsPerHour: w.interruptions_per_hour,
    stockOut: w.p_stock_out,
    unpriced: w.unpriced,
    held: w.held ?? [],
    incomplete: w.incomplete,
  };
}

function readComparison(w: Schemas["CapacityComparison"] | null | undefined): Comparison | null {
  if (!w) return null;
  return {
    cost: readMoney(w.cost),
    inForce: readSum(w.in_force),
    proposed: readSum(w.proposed),
    offerings: (w.offerings ?? []).map((d) => ({
      offering: readOffering(d.offering),
      now: d.now,
      inForce: d.in_force,
      proposed: d.proposed,
    })),
  };
}

function readSigns(w: Schemas["CapacitySigns"] | null | undefined): Signs | null {
  if (!w) return null;
  return {
    longWaiting: w.long_waiting,
    breached: w.disruption_breached,
    cost: readMoneyOr(w.cost),
    unpriced: w.unpriced,
    readySeconds: w.ready_seconds,
    started: w.started,
    failed: w.failed,
    interruptions: w.interruptions,
    machineHours: w.machine_hours,
    late: w.late_ratio,
    errors: w.error_ratio,
  };
}

function readRollout(w: Schemas["CapacityRollout"]): CapacityRollout {
  const state = readWord(CAPACITY_ROLLOUT_STATES, w.state, "superseded");
  return {
    id: w.id,
    state,
    open: state === "shadow" || state === "canary",
    standard: w.default,
    step: w.step,
    shares: w.shares ?? [],
    shadowSeconds: w.shadow_seconds,
    stageSeconds: w.stage_seconds,
    hourly: w.hourly,
    paused: w.paused,
    parts: (w.clusters ?? []).map((p) => ({
      clusterId: p.cluster_id,
      cluster: p.cluster,
      inForce: p.in_force,
      watchedSeconds: p.watched_seconds,
      silentSeconds: p.silent_seconds,
      passed: p.passed,
      costLimit: readMoneyOr(p.cost_limit),
      before: readSigns(p.before),
      after: readSigns(p.after),
      shadow: readComparison(p.shadow),
    })),
    outcome: w.outcome,
    outcomeCluster: w.outcome_cluster_id,
    seq: w.seq,
    createdBy: w.created_by,
    createdAt: parseTime(w.created_at),
    stageAt: parseTime(w.stage_at),
    lookedAt: readTimeOr(w.looked_at),
    finishedAt: readTimeOr(w.finished_at),
    steps: (w.steps ?? []).map((s) => ({
      seq: s.seq,
      at: parseTime(s.at),
      what: s.what,
      step: s.step,
      actor: s.actor,
    })),
  };
}

function readPolicy(wire: Schemas["CapacityPolicyOutputBody"]): CapacityPolicy {
  return {
    doc: wire.policy,
    version: wire.version,
    inherited: wire.inherited,
    standard: wire.default_version,
    updatedBy: wire.updated_by,
    updatedAt: readTimeOr(wire.updated_at),
  };
}

export const capacityPolicyQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "capacity-policy", id],
    refetchInterval: 30_000,
    queryFn: async ({ signal }) =>
      readPolicy(await answer(client.GET("/clusters/{id}/capacity-policy", { params: { path: { id } }, signal }))),
  });

/** The capacity policy of clusters that have none of their own, and which take it. */
export interface CapacityDefault extends CapacityPolicy {
  clusters: { id: string; name: string; enforces: boolean }[];
}

function readDefault(wire: Schemas["CapacityDefaultOutputBody"]): CapacityDefault {
  return {
    doc: wire.policy,
    version: wire.version,
    inherited: false,
    standard: wire.version,
    updatedBy: wire.updated_by,
    updatedAt: readTimeOr(wire.updated_at),
    clusters: (wire.clusters ?? []).map((c) => ({ id: c.id, name: c.name, enforces: c.mode === "enforce" })),
  };
}

export const capacityDefaultQuery = queryOptions({
  queryKey: ["clusters", "capacity-default"],
  refetchInterval: 30_000,
  queryFn: async ({ signal }) => readDefault(await answer(client.GET("/capacity-default", { signal }))),
});

/** Puts the default into force at once; while a cluster that takes it enforces only with a reason. */
export async function saveDefault(version: number, policy: PolicyDoc, override?: string): Promise<CapacityDefault> {
  const body = { version, policy, ...(override ? { rollout_override: override } : {}) };
  return readDefault(await answer(client.PUT("/capacity-default", { body })));
}

/** Takes a cluster's own policy away: the tenant's default holds. */
export async function inheritPolicy(id: string, version: number, override?: string): Promise<CapacityPolicy> {
  const query = { version, ...(override ? { rollout_override: override } : {}) };
  return readPolicy(await answer(client.DELETE("/clusters/{id}/capacity-policy", { params: { path: { id }, query } })));
}

/** What a plan would be under a policy; null: the cluster never reported. Nothing is saved. */
export async function previewPolicy(id: string, policy: PolicyDoc): Promise<Comparison | null> {
  const wire = await answer(
    client.POST("/clusters/{id}/capacity-policy/preview", { params: { path: { id } }, body: { policy } }),
  );
  return readComparison(wire.comparison);
}

/** Puts a policy into force at once; on a cluster that enforces only with a reason. */
export async function savePolicy(
  id: string,
  version: number,
  policy: PolicyDoc,
  override?: string,
): Promise<CapacityPolicy> {
  const body = { version, policy, ...(override ? { rollout_override: override } : {}) };
  return readPolicy(await answer(client.PUT("/clusters/{id}/capacity-policy", { params: { path: { id } }, body })));
}

/** Rollouts that reach a cluster, newest first. */
export const capacityRolloutsQuery = (cluster: string) =>
  queryOptions({
    queryKey: ["clusters", "capacity-rollouts", cluster],
    refetchInterval: 15_000,
    queryFn: async ({ signal }): Promise<CapacityRollout[]> => {
      const wire = await answer(
        client.GET("/capacity-rollouts", { params: { query: { cluster, limit: 10 } }, signal }),
      );
      return (wire.items ?? []).map(readRollout);
    },
  });

export const capacityRolloutQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "capacity-rollout", id],
    refetchInterval: 15_000,
    queryFn: async ({ signal }) =>
      readRollout(await answer(client.GET("/capacity-rollouts/{id}", { params: { path: { id } }, signal }))),
  });

export interface RolloutPlan {
  shadowSeconds: number;
  stageSeconds: number;
  hourly: number;
  costOver: number;
  shares: number[];
}

/** To clusters in their order, or over those that take the tenant's default. */
export async function startCapacityRollout(
  clusters: readonly string[] | "default",
  version: number,
  policy: PolicyDoc,
  plan: RolloutPlan,
): Promise<void> {
  const body = {
    ...(clusters === "default" ? { default: true } : { clusters: [...clusters] }),
    policy,
    version,
    shares: plan.shares,
    shadow_seconds: plan.shadowSeconds,
    stage_seconds: plan.stageSeconds,
    hourly: plan.hourly,
    cost_over: plan.costOver,
  };
  await answer(client.POST("/capacity-rollouts", { body }));
}

/** Does nothing when another step was taken since `seq` was read. */
export async function actOnRollout(
  id: string,
  what: "promote" | "pause" | "resume" | "rollback",
  seq: number,
): Promise<void> {
  const request = { params: { path: { id } }, body: what === "rollback" ? {} : { seq } };
  switch (what) {
    case "promote":
      await answer(client.POST("/capacity-rollouts/{id}/promote", request));
      return;
    case "pause":
      await answer(client.POST("/capacity-rollouts/{id}/pause", request));
      return;
    case "resume":
      await answer(client.POST("/capacity-rollouts/{id}/resume", request));
      return;
    case "rollback":
      await answer(client.POST("/capacity-rollouts/{id}/rollback", request));
  }
}

export interface NodeCompliance {
  at: Date | null;
  /** A policy holds, of the cluster or of the tenant. */
  asks: boolean;
  checked: number;
  breaking: number;
  unknown: number;
  truncated: boolean;
  items: {
    node: string;
    pool: string;
    offering: Offering;
    findings: { code: string; want: string; got: string }[];
    unchecked: string[];
  }[];
}

export const nodeComplianceQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "node-compliance", id],
    refetchInterval: 60_000,
    queryFn: async ({ signal }): Promise<NodeCompliance> => {
      const wire = await answer(client.GET("/clusters/{id}/node-compliance", { params: { path: { id } }, signal }));
      return {
        at: readTimeOr(wire.at),
        asks: wire.policy_version > 0 || wire.default_version > 0,
        checked: wire.checked,
        breaking: wire.breaking,
        unknown: wire.unknown,
        truncated: wire.truncated,
        items: (wire.items ?? []).map((n) => ({
          node: n.node,
          pool: n.pool,
          offering: readOffering(n.offering),
          findings: n.findings ?? [],
          unchecked: n.unchecked ?? [],
        })),
      };
    },
  });
