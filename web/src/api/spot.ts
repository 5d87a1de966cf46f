import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { CLOUDS, type Cloud } from "../lib/cloud";
import { type Money, moneyNumber, parseMoney } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoneyOr, readWord } from "./read";
import type {
  WireMachine,
  WirePool,
  WireQuarantined,
  WireSpotHistory,
  WireSpotMarket,
  WireSpotOffer,
  WireSpotStats,
} from "./wire";

/** Where machines of one type are sold under one Spot price. */
export interface Pool {
  cloud: string;
  region: string;
  /** Empty: the price holds for the region. */
  zone: string;
  instanceType: string;
  product: string;
}

export interface Machine {
  gpuModel: string;
  gpuCount: number;
  /** Of one GPU. */
  gpuMemoryMib: number;
  cpuCores: number;
  memoryMib: number;
}

export interface SpotMarket {
  /** cloud/region/type, for the URL and for pickers. */
  key: string;
  cloud: Cloud;
  region: string;
  instanceType: string;
  product: string;
  zones: string[];
  machine: Machine | null;
  /** When a source was heard last: prices hold until then. */
  seenAt: Date;
  /** Nobody was heard for over 26 hours. */
  stale: boolean;
  /** Some zone has a Spot price now. */
  listed: boolean;
}

/** The price of one pool over time; values are floats for the chart, null where no price was listed. */
export interface SpotLine {
  pool: Pool;
  /** The zone as the tenant's account names it, where the price is kept under the cloud's id; empty: no other name. */
  zoneName: string;
  newest: { price: Money | null; at: Date; source: string; stale: boolean };
  at: number[];
  mean: (number | null)[];
  onDemand: (number | null)[];
}

export interface SpotHistory {
  currency: string;
  from: Date;
  to: Date;
  stepSeconds: number;
  machine: Machine | null;
  catalogueOnDemand: Money | null;
  catalogueSource: string;
  /** What the next machine on demand cost this tenant at each step, after commitments; null: unknown. */
  effective: { at: number[]; price: (number | null)[] };
  /** Why there is no such line; empty: there is one. */
  effectiveProblem: string;
  /** How far the history reaches, whatever the range; null: there is none. */
  data: { firstAt: Date; lastAt: Date; seenAt: Date; stale: boolean; source: string } | null;
  lines: SpotLine[];
}

export interface SpotStats {
  pool: Pool;
  machine: Machine | null;
  listedShare: number;
  level: Money | null;
  perGpu: Money | null;
  min: Money | null;
  max: Money | null;
  last: Money | null;
  onDemand: Money | null;
  discount: number | null;
  changesPerDay: number;
  volatility: number | null;
  jumpProbability: number | null;
  seenAt: Date;
  source: string;
}

export interface SpotOffer {
  pool: Pool;
  machine: Machine | null;
  price: Money | null;
  onDemand: Money | null;
  perGpu: Money | null;
  discount: number | null;
  at: Date;
  source: string;
  stale: boolean;
}

export const SUSPECTS = [
  "not_positive",
  "not_a_number",
  "too_high",
  "currency",
  "off_history",
  "off_on_demand",
  "off_catalogue",
  "conflict",
] as const;
export type Suspect = (typeof SUSPECTS)[number];

export interface Quarantined {
  id: number;
  pool: Pool;
  at: Date;
  /** As the source wrote it; empty: none. */
  spot: string;
  onDemand: string;
  expected: Money | null;
  reason: Suspect;
  source: string;
  foundAt: Date;
}

/** What machines are asked for. */
export interface SpotFilter {
  cloud?: Cloud;
  gpuModel?: string;
  minGpus?: number;
  instanceType?: string;
  region?: string;
}

export const LINUX = "Linux/UNIX";

export function poolKey(pool: Pick<Pool, "cloud" | "region" | "instanceType">): string {
  return `${pool.cloud}/${pool.region}/${pool.instanceType}`;
}

export function readPool(wire: WirePool): Pool {
  const { cloud, region, zone, instance_type: instanceType, product } = wire;
  return { cloud, region, zone, instanceType, product };
}

export function readMachine(wire: WireMachine | null): Machine | null {
  if (!wire) return null;
  return {
    gpuModel: wire.gpu_model ?? "",
    gpuCount: wire.gpu_count,
    gpuMemoryMib: wire.gpu_memory_mib,
    cpuCores: wire.cpu_milli / 1000,
    memoryMib: wire.mem_mib,
  };
}

/** null: of a cloud that this page does not know, and could not ask about. */
export function readMarket(wire: WireSpotMarket): SpotMarket | null {
  const cloud = CLOUDS.find((c) => c === wire.cloud);
  if (!cloud) return null;
  const market = { cloud, region: wire.region, instanceType: wire.instance_type };
  return {
    ...market,
    key: poolKey(market),
    product: wire.product,
    zones: wire.zones ?? [],
    machine: readMachine(wire.machine),
    seenAt: parseTime(wire.seen_at),
    stale: wire.stale,
    listed: wire.spot_listed,
  };
}

export function readHistory(wire: WireSpotHistory): SpotHistory {
  const number = (amount: string | null) =>
    amount === null ? null : moneyNumber(parseMoney(amount, wire.currency || "USD"));
  return {
    currency: wire.currency,
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    stepSeconds: wire.step_seconds,
    machine: readMachine(wire.machine),
    catalogueOnDemand: readMoneyOr(wire.catalogue_on_demand),
    catalogueSource: wire.catalogue_source ?? "",
    effective: {
      at: (wire.effective ?? []).map((p) => parseTime(p.at).getTime()),
      price: (wire.effective ?? []).map((p) => number(p.price)),
    },
    effectiveProblem: wire.effective_problem ?? "",
    data: wire.data && {
      firstAt: parseTime(wire.data.first_at),
      lastAt: parseTime(wire.data.last_at),
      seenAt: parseTime(wire.data.seen_at),
      stale: wire.data.stale,
      source: wire.data.source,
    },
    lines: (wire.series ?? []).map((s) => {
      const points = s.points ?? [];
      return {
        pool: readPool(s.pool),
        zoneName: s.zone_name ?? "",
        newest: {
          price: readMoneyOr(s.newest.price),
          at: parseTime(s.newest.at),
          source: s.newest.source,
          stale: s.newest.stale,
        },
        at: points.map((p) => parseTime(p.at).getTime()),
        mean: points.map((p) => number(p.avg)),
        onDemand: points.map((p) => number(p.on_demand)),
      };
    }),
  };
}

export function readStats(wire: WireSpotStats): SpotStats {
  return {
    pool: readPool(wire.pool),
    machine: readMachine(wire.machine),
    listedShare: wire.listed_share,
    level: readMoneyOr(wire.level),
    perGpu: readMoneyOr(wire.per_gpu),
    min: readMoneyOr(wire.min),
    max: readMoneyOr(wire.max),
    last: readMoneyOr(wire.last),
    onDemand: readMoneyOr(wire.on_demand),
    discount: wire.discount,
    changesPerDay: wire.changes_per_day,
    volatility: wire.volatility,
    jumpProbability: wire.jump_probability,
    seenAt: parseTime(wire.seen_at),
    source: wire.source,
  };
}

export function readOffer(wire: WireSpotOffer): SpotOffer {
  return {
    pool: readPool(wire.pool),
    machine: readMachine(wire.machine),
    price: readMoneyOr(wire.quote.price),
    onDemand: readMoneyOr(wire.on_demand),
    perGpu: readMoneyOr(wire.per_gpu),
    discount: wire.discount,
    at: parseTime(wire.quote.at),
    source: wire.quote.source,
    stale: wire.quote.stale,
  };
}

export function readQuarantined(wire: WireQuarantined): Quarantined {
  return {
    id: wire.id,
    pool: readPool(wire.pool),
    at: parseTime(wire.at),
    spot: wire.spot,
    onDemand: wire.on_demand,
    expected: readMoneyOr(wire.expected),
    reason: readWord(SUSPECTS, wire.reason, "conflict"),
    source: wire.source,
    foundAt: parseTime(wire.found_at),
  };
}

function wireFilter(filter: SpotFilter) {
  return {
    cloud: filter.cloud,
    gpu_model: filter.gpuModel,
    min_gpus: filter.minGpus,
    instance_type: filter.instanceType,
    region: filter.region,
  };
}

export const spotMarketsQuery = queryOptions({
  queryKey: ["spot", "markets"],
  queryFn: async ({ signal }) =>
    ((await answer(client.GET("/prices/spot/markets", { signal }))).items ?? []).flatMap((m) => readMarket(m) ?? []),
});

export const spotHistoryQuery = (market: SpotMarket, from: Date, to: Date) =>
  queryOptions({
    queryKey: ["spot", "history", market.key, market.product, from.getTime(), to.getTime()],
    queryFn: async ({ signal }) => {
      const { cloud, region, product } = market;
      const query = {
        cloud,
        region,
        product,
        instance_type: market.instanceType,
        from: from.toISOString(),
        to: to.toISOString(),
      };
      return readHistory(await answer(client.GET("/prices/spot", { params: { query }, signal })));
    },
    placeholderData: keepPreviousData,
  });

const STATS_LIMIT = 200;

export const spotStatsQuery = (filter: SpotFilter, from: Date, to: Date) =>
  queryOptions({
    queryKey: ["spot", "stats", filter, from.getTime(), to.getTime()],
    queryFn: async ({ signal }) => {
      const query = { ...wireFilter(filter), from: from.toISOString(), to: to.toISOString(), limit: STATS_LIMIT };
      const found = await answer(client.GET("/prices/spot/stats", { params: { query }, signal }));
      return { total: found.total, items: (found.items ?? []).map(readStats) };
    },
    placeholderData: keepPreviousData,
  });

export const cheapestSpotQuery = (filter: SpotFilter) =>
  queryOptions({
    queryKey: ["spot", "cheapest", filter],
    queryFn: async ({ signal }) => {
      const query = { ...wireFilter(filter), limit: 100 };
      const found = await answer(client.GET("/prices/spot/cheapest", { params: { query }, signal }));
      return { at: parseTime(found.at), items: (found.items ?? []).map(readOffer) };
    },
    placeholderData: keepPreviousData,
  });

export const quarantineQuery = queryOptions({
  queryKey: ["spot", "quarantine"],
  queryFn: async ({ signal }) => {
    const query = { limit: 200 };
    return ((await answer(client.GET("/prices/spot/quarantine", { params: { query }, signal }))).items ?? []).map(
      readQuarantined,
    );
  },
});
