import { queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoneyOr, readWord } from "./read";
import type { components } from "./schema.gen";

export const TUNING_STATES = ["proposed", "kept", "refused", "dismissed", "failed"] as const;
export const TUNING_MODES = ["none", "off", "propose", "apply"] as const;

export interface TuneSpan {
  from: Date;
  to: Date;
}

/** How a setting of aim_share fared. */
export interface TunedValue {
  aim: number;
  hours: number;
  cost: Money | null;
  late: number;
  timeouts: number;
}

export interface Tuning {
  id: string;
  at: Date;
  state: (typeof TUNING_STATES)[number];
  reason: string;
  words: string;
  days: number;
  daysNeeded: number;
  limit: number;
  current: number;
  proposed: number | null;
  chosenOn: TuneSpan | null;
  heldOut: TuneSpan | null;
  tried: TunedValue[];
  held: TunedValue[];
  document: string;
  rolloutId: string | null;
}

export interface Tunings {
  items: Tuning[];
  mode: (typeof TUNING_MODES)[number];
}

type Schemas = components["schemas"];

const readSpan = (w: { from: string; to: string } | null | undefined): TuneSpan | null =>
  w ? { from: parseTime(w.from), to: parseTime(w.to) } : null;

const readValue = (w: Schemas["TunedValue"]): TunedValue => ({
  aim: w.aim_share,
  hours: w.replica_hours,
  cost: readMoneyOr(w.cost),
  late: w.late_ratio,
  timeouts: w.timeout_ratio,
});

export const tuningsQuery = (workload: string) =>
  queryOptions({
    queryKey: ["workloads", "tunings", workload],
    queryFn: async ({ signal }): Promise<Tunings> => {
      const w = await answer(client.GET("/workloads/{id}/tunings", { params: { path: { id: workload } }, signal }));
      return {
        mode: readWord(TUNING_MODES, w.tuning, "none"),
        items: (w.items ?? []).map((x) => ({
          id: x.id,
          at: parseTime(x.at),
          state: readWord(TUNING_STATES, x.state, "refused"),
          reason: x.reason,
          words: x.words,
          days: x.days,
          daysNeeded: x.days_needed,
          limit: x.limit,
          current: x.current,
          proposed: x.proposed ?? null,
          chosenOn: readSpan(x.chosen_on),
          heldOut: readSpan(x.held_out),
          tried: (x.tried ?? []).map(readValue),
          held: (x.held ?? []).map(readValue),
          document: x.document,
          rolloutId: x.rollout_id ?? null,
        })),
      };
    },
  });

export async function dismissTuning(workload: string, tuning: string): Promise<void> {
  await answer(client.POST("/workloads/{id}/tunings/{tuning}/dismiss", { params: { path: { id: workload, tuning } } }));
}
