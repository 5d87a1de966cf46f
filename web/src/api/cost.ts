import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoney } from "./read";
import type { WireAllocations, WireTimeseries } from "./wire";

export const AGGREGATES = ["team", "namespace", "workload", "cluster", "purchase", "resource"] as const;
export type Aggregate = (typeof AGGREGATES)[number];

export const IDLES = ["separate", "shared", "even", "machine"] as const;
export type Idle = (typeof IDLES)[number];
export const BASES = ["effective", "contracted", "list"] as const;
export type Basis = (typeof BASES)[number];

export type CostKind = "workload" | "idle" | "overhead" | "residual" | "commitment_unused" | "all";

export interface Allocation {
  key: string;
  name: string;
  kind: CostKind;
  amount: Money;
  previous: Money;
  gpuHours: number;
  /** Cost of what was used over cost of what was held; null when no use is known. */
  efficiency: number | null;
  unpriced: boolean;
  cpu: Money;
  memory: Money;
  gpu: Money;
  share: number;
}

export interface Allocations {
  from: Date;
  to: Date;
  total: Money;
  previousTotal: Money;
  openHours: number;
  unpricedShare: number | null;
  /** Part of the total that was costed before other bases than effective were kept, and stands as that. */
  basisUnknown: Money;
  items: Allocation[];
}

export interface CostSeries {
  key: string;
  name: string;
  kind: CostKind;
  points: { at: Date; amount: Money }[];
}

export interface CostFilter {
  from: Date;
  to: Date;
  aggregate: Aggregate;
  idle: Idle;
  basis?: Basis;
  cluster?: string;
  namespace?: string;
  team?: string;
  workload?: string;
}

export function readAllocations(wire: WireAllocations): Allocations {
  return {
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    total: readMoney(wire.total),
    previousTotal: readMoney(wire.previous_total),
    openHours: wire.open_hours,
    unpricedShare: wire.unpriced_share ?? null,
    basisUnknown: readMoney(wire.basis_unknown),
    items: (wire.items ?? []).map((a) => ({
      key: a.key,
      name: a.name,
      kind: a.kind,
      amount: readMoney(a.amount),
      previous: readMoney(a.previous),
      gpuHours: a.gpu_hours,
      efficiency: a.efficiency ?? null,
      unpriced: a.unpriced,
      cpu: readMoney(a.cpu),
      memory: readMoney(a.memory),
      gpu: readMoney(a.gpu),
      share: a.share,
    })),
  };
}

export function readSeries(wire: WireTimeseries): CostSeries[] {
  return (wire.series ?? []).map((s) => ({
    key: s.key,
    name: s.name,
    kind: s.kind,
    points: (s.points ?? []).map((p) => ({ at: parseTime(p.at), amount: readMoney(p.amount) })),
  }));
}

/** As many groups as the service lists one by one: what is beyond is a row of its own. */
const MAX_GROUPS = 5000;

function wireFilter({ from, to, ...rest }: CostFilter) {
  return { ...rest, from: from.toISOString(), to: to.toISOString() };
}

export const allocationsQuery = (filter: CostFilter) =>
  queryOptions({
    queryKey: ["cost", "allocations", wireFilter(filter)],
    queryFn: async ({ signal }) =>
      readAllocations(
        await answer(
          client.GET("/cost/allocations", { params: { query: { ...wireFilter(filter), limit: MAX_GROUPS } }, signal }),
        ),
      ),
    placeholderData: keepPreviousData,
  });

export const costSeriesQuery = (filter: CostFilter, step: "hour" | "day") =>
  queryOptions({
    queryKey: ["cost", "series", wireFilter(filter), step],
    queryFn: async ({ signal }) =>
      readSeries(
        await answer(client.GET("/cost/timeseries", { params: { query: { ...wireFilter(filter), step } }, signal })),
      ),
    placeholderData: keepPreviousData,
  });
