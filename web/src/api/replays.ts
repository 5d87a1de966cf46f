import { queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { type Page, readMoneyOr, readPage, readTimeOr, readWord } from "./read";
import type { WireReplay, WireReplayResult, WireReplayRow } from "./wire";

export const REPLAY_STATES = ["queued", "running", "done", "failed", "cancelled"] as const;
export type ReplayState = (typeof REPLAY_STATES)[number];

export interface ReplayRow {
  policy: string;
  kind: "current" | "proposed" | "baseline";
  /** Why it could not be played; empty when it was. Its numbers are null then. */
  problem: string;
  paid: number | null;
  ratio: number | null;
  cost: Money | null;
  late: number | null;
  timeouts: number | null;
  thrash: number | null;
  over: number | null;
  utilisation: number | null;
  most: number | null;
  assumed: string[];
}

export interface ReplayPoint {
  at: Date;
  demand: number;
  peak: number;
  known: number;
  current: number | null;
  proposed: number | null;
}

export interface ReplayResult {
  bucketSeconds: number;
  covered: number;
  longestGapSeconds: number;
  judgedFrom: Date;
  judgedTo: Date;
  startSeconds: number;
  batch: number;
  mean: number;
  peak: number;
  bound: number | null;
  boundCost: Money | null;
  noBound: string;
  rows: ReplayRow[];
  points: ReplayPoint[];
}

export interface Replay {
  id: string;
  workloadId: string;
  workloadKey: string;
  document: string;
  currentVersion: number;
  from: Date;
  to: Date;
  state: ReplayState;
  progress: number;
  problem: string;
  usable: boolean;
  createdBy: string;
  createdAt: Date;
  finishedAt: Date | null;
  result: ReplayResult | null;
}

function readRow(wire: WireReplayRow): ReplayRow {
  return {
    policy: wire.policy,
    kind: readWord(["current", "proposed", "baseline"], wire.kind, "baseline"),
    problem: wire.problem ?? "",
    paid: wire.paid_replica_hours ?? null,
    ratio: wire.cost_ratio ?? null,
    cost: readMoneyOr(wire.cost),
    late: wire.late_ratio ?? null,
    timeouts: wire.timeout_ratio ?? null,
    thrash: wire.thrash_cycles_per_hour ?? null,
    over: wire.over_provision_ratio ?? null,
    utilisation: wire.utilisation ?? null,
    most: wire.most_replicas ?? null,
    assumed: wire.assumed_signals ?? [],
  };
}

function readResult(wire: WireReplayResult): ReplayResult {
  return {
    bucketSeconds: wire.bucket_seconds,
    covered: wire.covered_ratio,
    longestGapSeconds: wire.longest_gap_seconds,
    judgedFrom: parseTime(wire.judged_from),
    judgedTo: parseTime(wire.judged_to),
    startSeconds: wire.start_seconds,
    batch: wire.requests_per_replica,
    mean: wire.mean_replicas,
    peak: wire.peak_replicas,
    bound: wire.bound_replica_hours ?? null,
    boundCost: readMoneyOr(wire.bound_cost),
    noBound: wire.no_bound ?? "",
    rows: (wire.rows ?? []).map(readRow),
    points: (wire.points ?? []).map((p) => ({
      at: parseTime(p.at),
      demand: p.demand,
      peak: p.demand_peak,
      known: p.known_ratio,
      current: p.current ?? null,
      proposed: p.proposed ?? null,
    })),
  };
}

export function readReplay(wire: WireReplay): Replay {
  return {
    id: wire.id,
    workloadId: wire.workload_id,
    workloadKey: wire.workload_key,
    document: wire.document,
    currentVersion: wire.current_version,
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    state: readWord(REPLAY_STATES, wire.state, "queued"),
    progress: wire.progress,
    problem: wire.problem,
    usable: wire.usable,
    createdBy: wire.created_by,
    createdAt: parseTime(wire.created_at),
    finishedAt: readTimeOr(wire.finished_at),
    result: wire.result ? readResult(wire.result) : null,
  };
}

export const isOpen = (r: Replay) => r.state === "queued" || r.state === "running";

const OPEN_MS = 2000;

/** The list asks again by itself while anything runs. */
export const replaysQuery = (workload?: string, cursor?: string) =>
  queryOptions({
    queryKey: ["replays", "list", workload ?? "", cursor ?? ""],
    queryFn: async ({ signal }): Promise<Page<Replay>> =>
      readPage(
        await answer(
          client.GET("/replays", {
            params: { query: { limit: 20, ...(workload ? { workload } : {}), ...(cursor ? { cursor } : {}) } },
            signal,
          }),
        ),
        readReplay,
      ),
    refetchInterval: (q) => (q.state.data?.items.some(isOpen) ? OPEN_MS : false),
  });

export const replayQuery = (id: string) =>
  queryOptions({
    queryKey: ["replays", "one", id],
    queryFn: async ({ signal }) =>
      readReplay(await answer(client.GET("/replays/{id}", { params: { path: { id } }, signal }))),
    refetchInterval: (q) => (q.state.data && isOpen(q.state.data) ? OPEN_MS : false),
  });

export interface ReplayInput {
  workload: string;
  document: string;
  days: number;
  until: Date;
  batch: number | null;
}

export async function createReplay(input: ReplayInput): Promise<Replay> {
  const from = new Date(input.until.getTime() - input.days * 86_400_000);
  return readReplay(
    await answer(
      client.POST("/replays", {
        body: {
          workload_id: input.workload,
          document: input.document,
          from: from.toISOString(),
          to: input.until.toISOString(),
          ...(input.batch ? { requests_per_replica: input.batch } : {}),
        },
      }),
    ),
  );
}

export async function cancelReplay(id: string): Promise<void> {
  await answer(client.POST("/replays/{id}/cancel", { params: { path: { id } } }));
}
