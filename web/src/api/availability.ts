import { queryOptions } from "@tanstack/react-query";
import type { Cloud } from "../lib/cloud";
import { parseDay, parseTime } from "../lib/time";
import { answer, client } from "./client";
import type { Purchase } from "./clusters";
import { readTimeOr } from "./read";
import type { WireSupply, WireSupplyHistory, WireSupplyList } from "./wire";

/** How likely one offering is to be had and to be kept. */
export interface Supply {
  key: string;
  cloud: string;
  region: string;
  zone: string;
  instanceType: string;
  purchase: Purchase;
  /** Chances from 0 to 1. */
  availableNow: number;
  availableNextHour: number;
  survivesNextHour: number;
  /** Interruptions per machine-hour. */
  hazard: number;
  /** null: not within a day. */
  expectedSeconds: number | null;
  backoffUntil: Date | null;
  /** How much of the estimate is not from the offering's own evidence, 0 to 1. */
  priorShare: number;
  priceRatio: number | null;
  /** The cloud's own score for Spot machines there, 1 to 10; null: nobody asked lately. */
  placement: { score: number; machines: number; seenAt: Date } | null;
  /** What is left of its own counts; they halve every three days. */
  evidence: {
    attempts: number;
    stockOuts: number;
    interruptions: number;
    observedHours: number;
    failures: number;
    lastSeen: Date | null;
  };
}

export interface SupplyList {
  dataNow: Date;
  /** Of the published interruption bands behind the prior. */
  bandsDate: Date;
  total: number;
  items: Supply[];
}

export interface SupplyHistory {
  from: Date;
  to: Date;
  at: number[];
  had: number[];
  stockOuts: number[];
  /** Under notice, or taken without one. */
  lost: number[];
}

const DAY_SECONDS = 86_400;

export function readSupply(wire: WireSupply): Supply {
  const { cloud, region, zone, purchase, instance_type: instanceType } = wire;
  const expected = wire.expected_seconds_to_capacity;
  return {
    key: [cloud, region, zone, instanceType, purchase].join("/"),
    cloud,
    region,
    zone,
    instanceType,
    purchase,
    availableNow: wire.p_available_now,
    availableNextHour: wire.p_available_next_hour,
    survivesNextHour: wire.p_survives_next_hour,
    hazard: wire.hazard,
    expectedSeconds: expected >= DAY_SECONDS ? null : expected,
    backoffUntil: readTimeOr(wire.backoff_until),
    priorShare: wire.prior_share,
    priceRatio: wire.price_ratio,
    placement: wire.placement && {
      score: wire.placement.score,
      machines: wire.placement.machines,
      seenAt: parseTime(wire.placement.seen_at),
    },
    evidence: {
      attempts: wire.evidence.attempts,
      stockOuts: wire.evidence.stock_outs,
      interruptions: wire.evidence.interruptions,
      observedHours: wire.evidence.observed_hours,
      failures: wire.evidence.failures_in_a_row,
      lastSeen: readTimeOr(wire.evidence.last_seen),
    },
  };
}

export function readSupplyList(wire: WireSupplyList): SupplyList {
  return {
    dataNow: parseTime(wire.data_now),
    bandsDate: parseDay(wire.bands_date),
    total: wire.total,
    items: (wire.items ?? []).map(readSupply),
  };
}

/** Steps without any event are left out on the wire; here every step has its counts. */
export function readSupplyHistory(wire: WireSupplyHistory): SupplyHistory {
  const step = wire.step_seconds * 1000;
  const from = parseTime(wire.from);
  const to = parseTime(wire.to);
  const steps = new Map((wire.items ?? []).map((s) => [Math.floor(parseTime(s.at).getTime() / step), s]));
  const out: SupplyHistory = { from, to, at: [], had: [], stockOuts: [], lost: [] };
  for (let n = Math.floor(from.getTime() / step); n * step < to.getTime(); n++) {
    const s = steps.get(n);
    out.at.push(n * step + step / 2);
    out.had.push(s?.had ?? 0);
    out.stockOuts.push(s?.stock_outs ?? 0);
    out.lost.push((s?.notices ?? 0) + (s?.lost ?? 0));
  }
  return out;
}

export const availabilityQuery = queryOptions({
  queryKey: ["availability", "list"],
  queryFn: async ({ signal }) => readSupplyList(await answer(client.GET("/availability", { signal }))),
});

type Offering = Pick<Supply, "region" | "zone" | "instanceType" | "purchase"> & { cloud: Cloud };

const HISTORY_STEP = 21_600;

export const supplyHistoryQuery = (o: Offering) =>
  queryOptions({
    queryKey: ["availability", "history", o.cloud, o.region, o.zone, o.instanceType, o.purchase],
    queryFn: async ({ signal }) => {
      const query = {
        cloud: o.cloud,
        region: o.region,
        zone: o.zone,
        instance_type: o.instanceType,
        purchase: o.purchase,
        step_seconds: HISTORY_STEP,
      };
      return readSupplyHistory(await answer(client.GET("/availability/history", { params: { query }, signal })));
    },
  });
