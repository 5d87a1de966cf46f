import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { MODES, type Mode } from "./clusters";
import { type Page, readMoneyOr, readPage, readTimeOr, readWord } from "./read";
import { TRUTHS, type Truth } from "./truth";
import type { WireDecision, WireDecisionDetail } from "./wire";

export const OUTCOMES = ["scale_up", "scale_down", "hold"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export const DECISION_STATES = [
  "noted",
  "proposed",
  "approved",
  "rejected",
  "expired",
  "dispatched",
  "applied",
  "refused",
  "failed",
  "superseded",
] as const;
export type DecisionState = (typeof DECISION_STATES)[number];

/** The closed set of services/optimizer. A test holds that every code has words in both languages. */
export const REASON_CODES = [
  "target_ratio",
  "within_tolerance",
  "queue",
  "latency_high",
  "latency_low",
  "forecast",
  "forecast_hold",
  "backlog",
  "no_forecast",
  "learning",
  "relearning",
  "collapse",
  "hint",
  "hint_unused",
  "largest_need",
  "steady",
  "no_signal",
  "partial_signal",
  "unready_pods",
  "cooldown_up",
  "cooldown_down",
  "stabilisation",
  "step_up",
  "step_down",
  "flapping",
  "long_tail",
  "min_replicas",
  "max_replicas",
  "service_min",
  "service_max",
  "budget",
  "budget_over",
  "budget_grace",
  "spend_breaker",
  "budget_unknown",
  "frozen",
  "conflict",
  "not_scalable",
  "zero_replicas",
  "invalid_policy",
  "smaller_is_late",
  "larger_is_dearer",
] as const;
export type ReasonCode = (typeof REASON_CODES)[number];

export interface Decision {
  id: string;
  at: Date;
  clusterId: string;
  workloadId: string;
  key: string;
  outcome: Outcome;
  from: number;
  needed: number;
  target: number;
  binding: string;
  state: DecisionState;
  costDeltaHour: Money | null;
  /** In the cluster's own time. */
  expiresAt: Date;
  decidedBy: string | null;
  decidedAt: Date | null;
  before: number | null;
  after: number | null;
  finishedAt: Date | null;
  resultDetail: string | null;
  resultCode: string | null;
}

export interface Reason {
  code: string;
  signal: string | null;
  from: number;
  to: number;
  numbers: Record<string, number>;
  until: Date | null;
  binding: boolean;
}

export interface SignalInput {
  name: string;
  raw: number | null;
  filtered: number | null;
  ageSeconds: number;
  truth: Truth;
  samples: number;
  outlier: boolean;
  target: number;
  needed: number | null;
}

export interface Alternative {
  replicas: number;
  costHour: Money | null;
  load: number | null;
  rejected: string;
}

export interface DecisionDetail extends Decision {
  ready: number;
  min: number;
  max: number;
  mode: Mode;
  policyVersion: number;
  reasons: Reason[];
  inputs: SignalInput[];
  alternatives: Alternative[];
  plan: { id: string; generation: number; parentId: string | null; mode: Mode; inputHash: string };
}

export function readDecision(wire: WireDecision): Decision {
  return {
    id: wire.id,
    at: parseTime(wire.at),
    clusterId: wire.cluster_id,
    workloadId: wire.workload_id,
    key: wire.key,
    outcome: wire.outcome,
    from: wire.from_replicas,
    needed: wire.needed,
    target: wire.target,
    binding: wire.binding,
    state: wire.state,
    costDeltaHour: readMoneyOr(wire.cost_delta_hour),
    expiresAt: parseTime(wire.expires_at),
    decidedBy: wire.decided_by || null,
    decidedAt: readTimeOr(wire.decided_at),
    before: wire.before_replicas ?? null,
    after: wire.after_replicas ?? null,
    finishedAt: readTimeOr(wire.finished_at),
    resultDetail: wire.result_detail || null,
    resultCode: wire.result_code || null,
  };
}

/** `currency` is the tenant's: alternatives carry bare nano-units, whole numbers that JSON keeps exactly up to 9 million units. */
export function readDecisionDetail(wire: WireDecisionDetail, currency: string): DecisionDetail {
  const d = wire.detail;
  return {
    ...readDecision(wire),
    ready: d.ready,
    min: d.min,
    max: d.max,
    mode: readWord(MODES, d.mode, "observe"),
    policyVersion: d.policy_version,
    reasons: (d.reasons ?? []).map((r) => ({
      code: r.code,
      signal: r.signal || null,
      from: r.from,
      to: r.to,
      numbers: r.numbers ?? {},
      until: readTimeOr(r.until),
      binding: r.binding ?? false,
    })),
    inputs: (d.inputs ?? []).map((i) => ({
      name: i.name,
      raw: i.raw ?? null,
      filtered: i.filtered ?? null,
      ageSeconds: i.age_seconds,
      truth: readWord(TRUTHS, i.truth, "missing"),
      samples: i.samples,
      outlier: i.outlier ?? false,
      target: i.target,
      needed: i.needed ?? null,
    })),
    alternatives: (d.alternatives ?? []).map((a) => ({
      replicas: a.replicas,
      costHour: typeof a.cost_hour_nano === "number" ? { nano: BigInt(a.cost_hour_nano), currency } : null,
      load: a.load_ratio ?? null,
      rejected: a.rejected,
    })),
    plan: {
      id: wire.plan.id,
      generation: wire.plan.generation,
      parentId: wire.plan.parent_id || null,
      mode: readWord(MODES, wire.plan.mode, "observe"),
      inputHash: wire.plan.input_hash,
    },
  };
}

export interface DecisionFilter {
  cluster?: string;
  workload?: string;
  state?: DecisionState[];
  outcome?: Outcome[];
  from?: string;
  to?: string;
  cursor?: string;
  limit?: number;
}

export const decisionsQuery = (query: DecisionFilter) =>
  queryOptions({
    queryKey: ["decisions", "list", query],
    queryFn: async ({ signal }): Promise<Page<Decision>> =>
      readPage(await answer(client.GET("/decisions", { params: { query }, signal })), readDecision),
    placeholderData: keepPreviousData,
  });

export const decisionQuery = (id: string, currency: string) =>
  queryOptions({
    queryKey: ["decisions", "one", id, currency],
    queryFn: async ({ signal }) =>
      readDecisionDetail(await answer(client.GET("/decisions/{id}", { params: { path: { id } }, signal })), currency),
  });

export async function approveDecision(id: string): Promise<void> {
  await answer(client.POST("/decisions/{id}/approve", { params: { path: { id } } }));
}

export async function rejectDecision(id: string, reason: string): Promise<void> {
  await answer(client.POST("/decisions/{id}/reject", { params: { path: { id } }, body: { reason } }));
}

/** Decides again from the stored input; true when the result is the same byte for byte. */
export async function recomputeDecision(id: string): Promise<boolean> {
  return (await answer(client.POST("/decisions/{id}/recompute", { params: { path: { id } } }))).equal;
}
