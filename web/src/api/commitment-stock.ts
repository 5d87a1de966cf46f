// Commitments over time, those that wait for their cost, and the machines that clouds hold.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { moneyNumber } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { type CommitmentKind, readKind } from "./commitments";
import { readMoney, readTimeOr, readWord } from "./read";
import type { WireCommitmentRecord, WireCommitmentSeries, WirePending, WireReservedStock } from "./wire";

/** Use and coverage over time; a step's point stands at its middle. Amounts are floats for the chart. */
export interface CommitmentSeries {
  from: Date;
  to: Date;
  step: "hour" | "day";
  at: number[];
  used: number[];
  unused: number[];
  utilisation: (number | null)[];
  coverage: (number | null)[];
}

export const PENDING_REASONS = ["no_cost", "no_spend", "not_valid"] as const;
export type PendingReason = (typeof PENDING_REASONS)[number];

/** A commitment that a cloud lists and that counts for nothing until a person adds what is missing. */
export interface Pending {
  key: string;
  ref: string;
  kind: CommitmentKind | null;
  kindName: string;
  reason: PendingReason;
  problem: string;
  accountName: string;
  scope: string;
  place: string;
  quantity: string;
  startsAt: Date;
  endsAt: Date | null;
  seenAt: Date;
  /** What the cloud says, as the service takes it back with the cost. */
  record: WireCommitmentRecord;
}

/** What a person adds; amounts as decimals, empty: not told. */
export interface CommitmentCost {
  upfront: string;
  recurringHour: string;
  hourlyCommitment: string;
  discountPercent: string;
  owner: string;
}

/** Machines that a cloud holds for an account. */
export interface ReservedStock {
  key: string;
  ref: string;
  cloud: string;
  place: string;
  instanceType: string;
  machines: number;
  available: number | null;
  block: boolean;
  endsAt: Date | null;
  state: string;
  seenAt: Date;
}

export function readCommitmentSeries(wire: WireCommitmentSeries): CommitmentSeries {
  const items = wire.items ?? [];
  return {
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    step: wire.step,
    at: items.map((i) => (parseTime(i.from).getTime() + parseTime(i.to).getTime()) / 2),
    used: items.map((i) => moneyNumber(readMoney(i.used))),
    unused: items.map((i) => moneyNumber(readMoney(i.unused))),
    utilisation: items.map((i) => i.utilisation),
    coverage: items.map((i) => i.coverage),
  };
}

export function readPending(wire: WirePending): Pending {
  const r = wire.record;
  return {
    key: `${wire.account_id}/${r.ref}`,
    ref: r.ref,
    ...readKind(r.kind),
    reason: readWord(PENDING_REASONS, wire.reason, "not_valid"),
    problem: wire.problem ?? "",
    accountName: wire.account_name,
    scope: r.instance_type || r.family || r.gpu_model || "",
    place: r.zone || r.region || "",
    quantity: r.quantity ?? "",
    startsAt: parseTime(r.starts_at),
    endsAt: readTimeOr(r.ends_at),
    seenAt: parseTime(wire.seen_at),
    record: r,
  };
}

export function readStock(wire: WireReservedStock): ReservedStock {
  return {
    key: `${wire.account_id}/${wire.ref}`,
    ref: wire.ref,
    cloud: wire.cloud,
    place: wire.zone || wire.region,
    instanceType: wire.instance_type,
    machines: wire.machines,
    available: wire.available,
    block: wire.block,
    endsAt: readTimeOr(wire.ends_at),
    state: wire.state,
    seenAt: parseTime(wire.seen_at),
  };
}

/** By the hour over a week, by the day beyond. */
export const commitmentSeriesQuery = (from: Date, to: Date) => {
  const step = to.getTime() - from.getTime() > 8 * 86_400_000 ? ("day" as const) : ("hour" as const);
  return queryOptions({
    queryKey: ["commitments", "series", from.getTime(), to.getTime(), step],
    queryFn: async ({ signal }) =>
      readCommitmentSeries(
        await answer(
          client.GET("/commitments/series", {
            params: { query: { from: from.toISOString(), to: to.toISOString(), step } },
            signal,
          }),
        ),
      ),
    placeholderData: keepPreviousData,
  });
};

export const pendingQuery = queryOptions({
  queryKey: ["commitments", "pending"],
  queryFn: async ({ signal }) =>
    ((await answer(client.GET("/commitments/pending", { signal }))).items ?? []).map(readPending),
});

export const stockQuery = queryOptions({
  queryKey: ["commitments", "stock"],
  queryFn: async ({ signal }) =>
    ((await answer(client.GET("/capacity-reservations", { signal }))).items ?? []).map(readStock),
});

/** A pending commitment with its cost, as the service takes it. */
export function pricedRecord(pending: Pending, cost: CommitmentCost): WireCommitmentRecord {
  const told = (value: string) => value.trim() || undefined;
  return {
    ...pending.record,
    upfront: told(cost.upfront),
    recurring_hour: told(cost.recurringHour),
    hourly_commitment: told(cost.hourlyCommitment),
    discount_percent: told(cost.discountPercent),
    owner: told(cost.owner),
  };
}

export async function createCommitment(record: WireCommitmentRecord): Promise<void> {
  await answer(client.POST("/commitments", { body: record }));
}
