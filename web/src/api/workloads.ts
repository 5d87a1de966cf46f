import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { MODES, type Mode } from "./clusters";
import { DECISION_STATES, type DecisionState, OUTCOMES, type Outcome } from "./decisions";
import { type Page, readMoneyOr, readPage, readTimeOr, readWord } from "./read";
import type { Truth } from "./truth";
import type { WireTimeline, WireTimelinePoint, WireWorkload } from "./wire";

export interface Signal {
  value: number | null;
  ageSeconds: number | null;
  truth: Truth;
}

export interface Writer {
  manager: string;
  object: string;
  field: string;
  at: Date;
}

export interface Workload {
  id: string;
  clusterId: string;
  clusterName: string;
  key: string;
  namespace: string;
  kind: string;
  name: string;
  team: string;
  class: "gold" | "standard" | "economy";
  cpuMilli: number;
  memoryMib: number;
  gpuMilli: number;
  replicas: number;
  ready: number;
  starting: number;
  draining: number;
  scalable: boolean;
  /** null: no policy yet. */
  mode: Mode | null;
  policyVersion: number | null;
  min: number | null;
  max: number | null;
  signals: Record<string, Signal>;
  lastDecision: {
    id: string;
    at: Date;
    outcome: Outcome;
    binding: string;
    target: number;
    state: DecisionState;
  } | null;
  costHour: Money | null;
  /** What one more replica costs, on one more machine like its host; null: unknown. */
  replicaHour: Money | null;
  preflight: string[];
  writers: Writer[];
  dataAt: Date | null;
  goneAt: Date | null;
}

function readShort(wire: { at: string; outcome: string; state: string }) {
  return {
    at: parseTime(wire.at),
    outcome: readWord(OUTCOMES, wire.outcome, "hold"),
    state: readWord(DECISION_STATES, wire.state, "noted"),
  };
}

export function readWorkload(wire: WireWorkload): Workload {
  const signals: Record<string, Signal> = {};
  for (const [name, s] of Object.entries(wire.signals ?? {})) {
    signals[name] = { value: s.value ?? null, ageSeconds: s.age_seconds ?? null, truth: s.truth };
  }
  return {
    id: wire.id,
    clusterId: wire.cluster_id,
    clusterName: wire.cluster_name,
    key: wire.key,
    namespace: wire.namespace,
    kind: wire.kind,
    name: wire.name,
    team: wire.team,
    class: wire.class,
    cpuMilli: wire.cpu_milli,
    memoryMib: wire.mem_mib,
    gpuMilli: wire.gpu_milli,
    replicas: wire.replicas,
    ready: wire.ready,
    starting: wire.starting,
    draining: wire.draining,
    scalable: wire.scalable,
    mode: wire.mode ? readWord(MODES, wire.mode, "observe") : null,
    policyVersion: wire.policy_version || null,
    min: wire.min ?? null,
    max: wire.max ?? null,
    signals,
    lastDecision: wire.last_decision ? { ...wire.last_decision, ...readShort(wire.last_decision) } : null,
    costHour: readMoneyOr(wire.cost_hour),
    replicaHour: readMoneyOr(wire.replica_hour),
    preflight: wire.preflight ?? [],
    writers: (wire.writers ?? []).map((w) => ({ ...w, at: parseTime(w.at) })),
    dataAt: readTimeOr(wire.data_at),
    goneAt: readTimeOr(wire.gone_at),
  };
}

/** The measures of a timeline; null where nothing was measured, which a chart shows as a gap and never as zero. */
export const MEASURES = [
  "replicas",
  "ready",
  "starting",
  "requestRate",
  "queueLength",
  "runningRequests",
  "latencyP50",
  "latencyP99",
  "ttftP99",
  "gpuSmActive",
  "kvCache",
  "cpuRatio",
  "errorRatio",
  "lateRatio",
] as const;
export type Measure = (typeof MEASURES)[number];

export interface TimelineDecision {
  id: string;
  at: Date;
  outcome: Outcome;
  from: number;
  target: number;
  needed: number;
  binding: string;
  state: DecisionState;
}

export interface Timeline {
  stepSeconds: number;
  /** One column per measure, all as long as `at`. */
  at: number[];
  columns: Record<Measure, (number | null)[]>;
  decisions: TimelineDecision[];
}

const COLUMN: Record<Measure, (p: WireTimelinePoint) => number | null | undefined> = {
  replicas: (p) => p.replicas,
  ready: (p) => p.ready,
  starting: (p) => p.starting,
  requestRate: (p) => p.request_rate,
  queueLength: (p) => p.queue_length,
  runningRequests: (p) => p.running_requests,
  latencyP50: (p) => p.latency_p50_seconds,
  latencyP99: (p) => p.latency_p99_seconds,
  ttftP99: (p) => p.ttft_p99_seconds,
  gpuSmActive: (p) => p.gpu_sm_active_ratio,
  kvCache: (p) => p.kv_cache_ratio,
  cpuRatio: (p) => p.cpu_ratio,
  errorRatio: (p) => p.error_ratio,
  lateRatio: (p) => p.late_ratio,
};

export function readTimeline(wire: WireTimeline): Timeline {
  const points = wire.points ?? [];
  const columns = Object.fromEntries(
    MEASURES.map((m) => [m, points.map((p) => COLUMN[m](p) ?? null)]),
  ) as Timeline["columns"];
  return {
    stepSeconds: wire.step_seconds,
    at: points.map((p) => parseTime(p.at).getTime()),
    columns,
    decisions: (wire.decisions ?? []).map((d) => ({ ...d, ...readShort(d) })),
  };
}

export interface WorkloadFilter {
  cluster?: string;
  namespace?: string;
  team?: string;
  q?: string;
  cursor?: string;
  limit?: number;
}

export const workloadsQuery = (query: WorkloadFilter) =>
  queryOptions({
    queryKey: ["workloads", "list", query],
    queryFn: async ({ signal }): Promise<Page<Workload>> =>
      readPage(await answer(client.GET("/workloads", { params: { query }, signal })), readWorkload),
    placeholderData: keepPreviousData,
  });

export const workloadQuery = (id: string) =>
  queryOptions({
    queryKey: ["workloads", "one", id],
    queryFn: async ({ signal }) =>
      readWorkload(await answer(client.GET("/workloads/{id}", { params: { path: { id } }, signal }))),
  });

export const timelineQuery = (id: string, from: Date, to: Date) =>
  queryOptions({
    queryKey: ["workloads", "timeline", id, from.toISOString(), to.toISOString()],
    queryFn: async ({ signal }) =>
      readTimeline(
        await answer(
          client.GET("/workloads/{id}/timeline", {
            params: { path: { id }, query: { from: from.toISOString(), to: to.toISOString() } },
            signal,
          }),
        ),
      ),
    placeholderData: keepPreviousData,
  });
