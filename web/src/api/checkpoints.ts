import { queryOptions } from "@tanstack/react-query";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readWord } from "./read";

export const CHECKPOINT_CAUSES = ["interruption", "rebalance", "consolidation", "plan"] as const;
export type CheckpointCause = (typeof CHECKPOINT_CAUSES)[number];

export const CHECKPOINT_OUTCOMES = ["done", "late", "failed", "refused"] as const;
export type CheckpointOutcome = (typeof CHECKPOINT_OUTCOMES)[number];

/** A pod that was told to save its work before it was evicted. */
export interface CheckpointCall {
  id: string;
  at: Date;
  pod: string;
  workload: string;
  node: string;
  cause: CheckpointCause;
  outcome: CheckpointOutcome;
  seconds: number;
  tries: number;
  detail: string;
}

export const checkpointsQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "checkpoints", id],
    refetchInterval: 20_000,
    queryFn: async ({ signal }): Promise<{ told: boolean; items: CheckpointCall[] }> => {
      const wire = await answer(client.GET("/clusters/{id}/checkpoints", { params: { path: { id } }, signal }));
      return {
        told: wire.told,
        items: (wire.items ?? []).map((c) => ({
          id: c.id,
          at: parseTime(c.at),
          pod: c.pod,
          workload: c.workload,
          node: c.node,
          cause: readWord(CHECKPOINT_CAUSES, c.cause, "plan"),
          outcome: readWord(CHECKPOINT_OUTCOMES, c.outcome, "failed"),
          seconds: c.took_ms / 1000,
          tries: c.tries,
          detail: c.detail,
        })),
      };
    },
  });
