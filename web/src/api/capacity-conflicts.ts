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

export interface GroupConflict {
  groupId: string;
  ref: string;
  cloud: string;
  enabled: boolean;
  own: boolean;
  yields: boolean;
  stopped: boolean;
  writers: { kind: string; name: string }[];
  writersProblem: string;
  suspended: string[];
  restarted: number;
  applied: number;
  changes: number;
  undone: number;
  replaced: number;
  fightsPerHour: number;
  lastAt: Date | null;
  newest: { at: Date; field: "desired" | "min" | "max"; before: number; after: number; undid: boolean }[];
}

export const conflictsQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "conflicts", id],
    queryFn: async ({ signal }): Promise<{ at: Date | null; items: Conflict[]; groups: GroupConflict[] }> => {
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
        groups: (wire.groups ?? []).map((g) => ({
          groupId: g.group_id,
          ref: g.ref,
          cloud: g.cloud,
          enabled: g.enabled,
          own: g.own,
          yields: g.yields,
          stopped: g.stopped,
          writers: (g.writers ?? []).map(({ kind, name }) => ({ kind, name })),
          writersProblem: g.writers_problem,
          suspended: g.suspended ?? [],
          restarted: g.restarted,
          applied: g.applied,
          changes: g.changes,
          undone: g.undone,
          replaced: g.replaced,
          fightsPerHour: g.fights_per_hour,
          lastAt: readTimeOr(g.last_at),
          newest: (g.newest ?? []).map((n) => ({ ...n, at: parseTime(n.at) })),
        })),
      };
    },
  });
