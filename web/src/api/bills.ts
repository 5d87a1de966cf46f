import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { type Money, parseMoney } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { Problem, readProblem } from "./problem";
import { readMoney, readObject, readTimeOr, readWord } from "./read";
import type { WireBill, WireBillMoney, WireReconciliation, WireRestatement } from "./wire";

export const GAP_CAUSES = [
  "price",
  "hours",
  "time_shift",
  "commitment",
  "unknown_price",
  "unseen_resource",
  "unbilled",
  "not_billed_yet",
  "own_machine",
  "tax",
  "support",
  "network",
  "storage",
  "credit",
  "other_service",
] as const;
export type GapCause = (typeof GAP_CAUSES)[number];

export const BILL_MODES = ["new", "add", "replace"] as const;
export type BillMode = (typeof BILL_MODES)[number];

export interface Bill {
  id: string;
  name: string;
  format: WireBill["format"];
  lines: number;
  from: Date;
  to: Date;
  billed: Money;
  effective: Money;
  unread: string[];
  accounts: string[];
  createdBy: string;
  createdAt: Date;
}

export interface CauseAmount {
  cause: GapCause;
  amount: Money;
}

export interface GapLine {
  day: Date;
  provider: string;
  service: string;
  estimate: Money;
  bill: Money;
  gap: Money;
}

export interface GapPair {
  key: string;
  day: Date;
  level: "resource" | "group" | "commitment";
  /** What it is: the bill's resource, or a type and a place. */
  name: string;
  machines: number;
  estimateHours: number;
  billHours: number | null;
  estimate: Money;
  bill: Money;
  gap: Money;
  causes: CauseAmount[];
}

export interface GapOnly {
  key: string;
  day: Date;
  service: string;
  name: string;
  amount: Money;
  cause: GapCause;
  /** Of the bill's file; null: of the ledger. */
  line: number | null;
}

export interface Reconciliation {
  from: Date;
  to: Date;
  estimate: Money;
  bill: Money;
  gap: Money;
  causes: CauseAmount[];
  estimateMatched: number | null;
  billMatched: number | null;
  openHours: number;
  withoutEffective: number;
  lines: GapLine[];
  pairs: GapPair[];
  pairCount: number;
  billOnly: GapOnly[];
  billOnlyCount: number;
  ledgerOnly: GapOnly[];
  ledgerOnlyCount: number;
}

export interface Restatement {
  id: string;
  from: Date;
  to: Date;
  machines: number;
  before: Money;
  after: Money;
  waiting: number;
  createdBy: string;
  createdAt: Date;
  undoneAt: Date | null;
}

/** Bills have up to eighteen places; the page shows nano-units, rounded half away from zero. */
export function readBillMoney(wire: WireBillMoney): Money {
  const [whole = "0", fraction = ""] = wire.amount.split(".");
  const money = parseMoney(fraction ? `${whole}.${fraction.slice(0, 9)}` : whole, wire.currency);
  if ((fraction[9] ?? "0") < "5") return money;
  return { ...money, nano: money.nano + (wire.amount.startsWith("-") ? -1n : 1n) };
}

const readCause = (text: string) => readWord(GAP_CAUSES, text, "other_service");

export function readBill(wire: WireBill): Bill {
  return {
    id: wire.id,
    name: wire.name,
    format: wire.format,
    lines: wire.lines,
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    billed: readBillMoney(wire.billed),
    effective: readBillMoney(wire.effective),
    unread: wire.unread_columns ?? [],
    accounts: [...new Set((wire.periods ?? []).map((p) => `${p.provider} ${p.account}`.trim()))],
    createdBy: wire.created_by,
    createdAt: parseTime(wire.created_at),
  };
}

export function readReconciliation(wire: WireReconciliation): Reconciliation {
  const causes = (list: WireReconciliation["causes"]) =>
    (list ?? []).map((c) => ({ cause: readCause(c.cause), amount: readBillMoney(c.amount) }));
  return {
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    estimate: readBillMoney(wire.estimate),
    bill: readBillMoney(wire.bill),
    gap: readBillMoney(wire.gap),
    causes: causes(wire.causes),
    estimateMatched: wire.estimate_matched ?? null,
    billMatched: wire.bill_matched ?? null,
    openHours: wire.open_hours,
    withoutEffective: wire.lines_without_effective,
    lines: (wire.lines ?? []).map((l) => ({
      day: parseTime(l.day),
      provider: l.provider,
      service: l.service,
      estimate: readBillMoney(l.estimate),
      bill: readBillMoney(l.bill),
      gap: readBillMoney(l.gap),
    })),
    pairs: (wire.pairs ?? []).map((p, i) => ({
      key: `${p.day} ${p.level} ${i}`,
      day: parseTime(p.day),
      level: p.level,
      name: p.resource || [p.instance_type, p.region].filter(Boolean).join(" · ") || p.service,
      machines: p.machine_count,
      estimateHours: p.estimate_hours,
      billHours: p.bill_hours ?? null,
      estimate: readBillMoney(p.estimate),
      bill: readBillMoney(p.bill),
      gap: readBillMoney(p.gap),
      causes: causes(p.causes),
    })),
    pairCount: wire.pair_count,
    billOnly: (wire.bill_only ?? []).map((b, i) => ({
      key: `${b.from} ${i}`,
      day: parseTime(b.from),
      service: b.service,
      name: b.resource || b.description || b.category,
      amount: readBillMoney(b.amount),
      cause: readCause(b.cause),
      line: b.first_line,
    })),
    billOnlyCount: wire.bill_only_count,
    ledgerOnly: (wire.ledger_only ?? []).map((l, i) => ({
      key: `${l.day} ${l.machine} ${i}`,
      day: parseTime(l.day),
      service: [l.cloud, l.instance_type].filter(Boolean).join(" · "),
      name: l.machine,
      amount: readBillMoney(l.amount),
      cause: readCause(l.cause),
      line: null,
    })),
    ledgerOnlyCount: wire.ledger_only_count,
  };
}

export function readRestatement(wire: WireRestatement): Restatement {
  return {
    id: wire.id,
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    machines: wire.machines,
    before: readMoney(wire.before),
    after: readMoney(wire.after),
    waiting: wire.waiting_hours,
    createdBy: wire.created_by,
    createdAt: parseTime(wire.created_at),
    undoneAt: readTimeOr(wire.undone_at),
  };
}

export const billsQuery = queryOptions({
  queryKey: ["bills"],
  queryFn: async ({ signal }) => ((await answer(client.GET("/bills", { signal }))).items ?? []).map(readBill),
});

export const restatementsQuery = queryOptions({
  queryKey: ["restatements"],
  queryFn: async ({ signal }) =>
    ((await answer(client.GET("/restatements", { signal }))).items ?? []).map(readRestatement),
});

const span = (from: Date, to: Date) => ({ from: from.toISOString(), to: to.toISOString() });

export const reconciliationQuery = (from: Date, to: Date) =>
  queryOptions({
    queryKey: ["reconciliation", span(from, to)],
    queryFn: async ({ signal }) =>
      readReconciliation(await answer(client.GET("/reconciliation", { params: { query: span(from, to) }, signal }))),
    placeholderData: keepPreviousData,
  });

/** Where the whole comparison is as CSV: the page holds the largest gaps only. */
export function reconciliationCsv(from: Date, to: Date): string {
  return `/api/v1/exports/reconciliation?${new URLSearchParams(span(from, to))}`;
}

/** What the service takes at most. */
export const MOST_BILL_BYTES = 64 << 20;
const UPLOAD_MS = 600_000;

/** Sends a file as it is; true: it was there already. A bill takes longer than the client's deadline for questions. */
export async function importBill(file: File, mode: BillMode): Promise<boolean> {
  const query = new URLSearchParams({ name: file.name.slice(0, 200), mode });
  let response: Response;
  try {
    response = await globalThis.fetch(`/api/v1/bills?${query}`, {
      method: "POST",
      body: file,
      credentials: "same-origin",
      headers: { "Content-Type": "application/octet-stream" },
      signal: AbortSignal.timeout(UPLOAD_MS),
    });
  } catch (error) {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    throw new Problem(0, "unreachable", late ? "timeout" : "network");
  }
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) throw readProblem(response.status, response.statusText, body);
  return readObject(body).known === true;
}

export async function deleteBill(id: string): Promise<void> {
  await answer(client.DELETE("/bills/{id}", { params: { path: { id } } }));
}

export async function restate(from: Date, to: Date): Promise<Restatement> {
  return readRestatement(await answer(client.POST("/restatements", { body: span(from, to) })));
}

export async function undoRestatement(id: string): Promise<void> {
  await answer(client.POST("/restatements/{id}/undo", { params: { path: { id } } }));
}
