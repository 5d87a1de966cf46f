import { queryOptions } from "@tanstack/react-query";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readWord } from "./read";

export const HINT_KINDS = ["factor", "rate", "replicas"] as const;
export type HintKind = (typeof HINT_KINDS)[number];
export const HINT_STATES = ["ahead", "now", "over"] as const;
export const HINT_READS = ["all", "replicas", "none"] as const;

/** Load that somebody expects of a workload. */
export interface Hint {
  id: string;
  from: Date;
  to: Date;
  kind: HintKind;
  amount: number;
  note: string;
  by: string;
  state: (typeof HINT_STATES)[number];
}

export interface Hints {
  items: Hint[];
  most: number;
  /** What the policy in force can use. */
  reads: (typeof HINT_READS)[number];
}

export const hintsQuery = (workload: string, past: boolean) =>
  queryOptions({
    queryKey: ["workloads", "hints", workload, past],
    queryFn: async ({ signal }): Promise<Hints> => {
      const w = await answer(
        client.GET("/workloads/{id}/hints", { params: { path: { id: workload }, query: { past } }, signal }),
      );
      return {
        items: (w.items ?? []).map((h) => ({
          id: h.id,
          from: parseTime(h.from),
          to: parseTime(h.to),
          kind: readWord(HINT_KINDS, h.kind, "replicas"),
          amount: h.amount,
          note: h.note,
          by: h.created_by,
          state: readWord(HINT_STATES, h.state, "now"),
        })),
        most: w.most,
        reads: readWord(HINT_READS, w.reads, "none"),
      };
    },
  });

export async function createHint(
  workload: string,
  h: { kind: HintKind; amount: number; from: Date; to: Date; note: string },
): Promise<void> {
  await answer(
    client.POST("/workloads/{id}/hints", {
      params: { path: { id: workload } },
      body: { ...h, from: h.from.toISOString(), to: h.to.toISOString() },
    }),
  );
}

export async function deleteHint(workload: string, hint: string): Promise<void> {
  await answer(client.DELETE("/workloads/{id}/hints/{hint}", { params: { path: { id: workload, hint } } }));
}
