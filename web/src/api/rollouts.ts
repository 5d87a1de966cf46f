// Staged rollouts of a workload's policy: shadow, canary, enforce.
import { queryOptions } from "@tanstack/react-query";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readTimeOr, readWord } from "./read";
import type { WireRollout } from "./wire";

export const ROLLOUT_STATES = [
  "shadow",
  "canary",
  "enforce",
  "done",
  "rolled_back",
  "cancelled",
  "superseded",
] as const;
export type RolloutState = (typeof ROLLOUT_STATES)[number];
export const ROLLOUT_STAGES = ["shadow", "canary", "enforce"] as const;

export interface Rollout {
  id: string;
  baseVersion: number;
  version: number | null;
  state: RolloutState;
  /** Neither done nor taken back. */
  open: boolean;
  stageAt: Date;
  stageSeconds: number;
  canaryFloor: number | null;
  /** Shares before and of the stage so far; null: nobody said. */
  late: { before: number | null; after: number | null };
  errors: { before: number | null; after: number | null };
  shadow: { decisions: number; same: number; more: number; fewer: number; ratio: number | null };
  outcome: string;
  createdBy: string;
  createdAt: Date;
  finishedAt: Date | null;
}

function readRollout(w: WireRollout): Rollout {
  const state = readWord(ROLLOUT_STATES, w.state, "superseded");
  return {
    id: w.id,
    baseVersion: w.base_version,
    version: w.version,
    state,
    open: ROLLOUT_STAGES.some((s) => s === state),
    stageAt: parseTime(w.stage_at),
    stageSeconds: state === "shadow" ? w.shadow_seconds : w.canary_seconds,
    canaryFloor: w.canary_floor,
    late: { before: w.before_late_ratio, after: w.after_late_ratio },
    errors: { before: w.before_error_ratio, after: w.after_error_ratio },
    shadow: {
      decisions: w.shadow.decisions,
      same: w.shadow.same,
      more: w.shadow.more,
      fewer: w.shadow.fewer,
      ratio: w.shadow.decisions > 0 ? w.shadow.ratio : null,
    },
    outcome: w.outcome,
    createdBy: w.created_by,
    createdAt: parseTime(w.created_at),
    finishedAt: readTimeOr(w.finished_at),
  };
}

/** Newest first. */
export const rolloutsQuery = (workload: string) =>
  queryOptions({
    queryKey: ["policies", "rollouts", workload],
    queryFn: async ({ signal }) =>
      (
        (await answer(client.GET("/workloads/{id}/rollouts", { params: { path: { id: workload } }, signal }))).items ??
        []
      ).map(readRollout),
    refetchInterval: 15_000,
  });

export interface RolloutStages {
  shadowSeconds: number;
  canarySeconds: number;
  canaryShare: number;
}

/** Begins with the shadow; `override` is why the policy was not replayed. */
export async function startRollout(
  workload: string,
  document: string,
  stages: RolloutStages,
  override?: string,
): Promise<void> {
  const body = {
    document,
    shadow_seconds: stages.shadowSeconds,
    canary_seconds: stages.canarySeconds,
    canary_share: stages.canaryShare,
    ...(override ? { replay_override: override } : {}),
  };
  await answer(client.POST("/workloads/{id}/rollouts", { params: { path: { id: workload } }, body }));
}

export async function rollBack(id: string): Promise<void> {
  await answer(client.POST("/rollouts/{id}/rollback", { params: { path: { id } } }));
}
