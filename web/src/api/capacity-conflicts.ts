import { queryOptions } from "@tanstack/react-query";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readTimeOr } from "./read";

export interface Conflict {
  workloadId: string;
  workload: string;
  writers: { manager: string; object: string; field: string; at: Date }[];
  mode: string;
  yields: boolean;
  applied: number;
  overwritten: number;
  refused: number;
  fightsPerHour: number;
  lastAt: Date | null;
}

export const conflictsQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "conflicts", id],
    queryFn: async ({ signal }): Promise<{ at: Date | null; items: Conflict[] }> => {
      const wire = await answer(client.GET("/clusters/{id}/conflicts", { params: { path: { id } }, signal }));
      return {
        at: readTimeOr(wire.at),
        items: (wire.items ?? []).map((c) => ({
          workloadId: c.workload_id,
          workload: c.workload,
          writers: (c.writers ?? []).map((w) => ({ ...w, at: parseTime(w.at) })),
          mode: c.mode,
          yields: c.yields,
          applied: c.applied,
          overwritten: c.overwritten,
          refused: c.refused,
          fightsPerHour: c.fights_per_hour,
          lastAt: readTimeOr(c.last_at),
        })),
      };
    },
  });
