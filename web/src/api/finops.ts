// Comparisons, the way from a cost to its decision, unit economics, savings, and how a tenant counts its time.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoney, readMoneyOr, readTimeOr } from "./read";
import type { WireMoney } from "./wire";

export const CALENDAR_WINDOWS = [
  "today",
  "yesterday",
  "week",
  "last_week",
  "month",
  "last_month",
  "quarter",
  "last_quarter",
  "year",
  "last_year",
] as const;
export type CalendarWindow = (typeof CALENDAR_WINDOWS)[number];
export const IDLE_SCOPES = ["separate", "cluster", "node"] as const;
export const IDLE_SPREADS = ["weighted", "even"] as const;
export const RULE_PICKS = ["namespace", "team"] as const;
export const RULE_SPREADS = ["even", "weighted", "fixed"] as const;

export interface CalendarInput {
  timeZone: string;
  fiscalMonth: number;
  weekStart: number;
  idleScope: (typeof IDLE_SCOPES)[number];
  idleSpread: (typeof IDLE_SPREADS)[number];
}

export interface Calendar extends CalendarInput {
  dataNow: Date;
  fiscalYear: number;
  windows: { name: string; from: Date; to: Date }[];
}

export const calendarQuery = queryOptions({
  queryKey: ["calendar"],
  queryFn: async ({ signal }): Promise<Calendar> => {
    const wire = await answer(client.GET("/calendar", { signal }));
    return {
      timeZone: wire.time_zone,
      fiscalMonth: wire.fiscal_month,
      weekStart: wire.week_start,
      idleScope: wire.idle_scope,
      idleSpread: wire.idle_spread,
      dataNow: parseTime(wire.data_now),
      fiscalYear: wire.fiscal_year,
      windows: (wire.windows ?? []).map((w) => ({ name: w.name, from: parseTime(w.from), to: parseTime(w.to) })),
    };
  },
});

export async function saveCalendar(c: CalendarInput): Promise<void> {
  const body = {
    time_zone: c.timeZone,
    fiscal_month: c.fiscalMonth,
    week_start: c.weekStart,
    idle_scope: c.idleScope,
    idle_spread: c.idleSpread,
  };
  await answer(client.PUT("/calendar", { body }));
}

export interface SharedRule {
  id: string;
  name: string;
  pick: (typeof RULE_PICKS)[number];
  value: string;
  spread: (typeof RULE_SPREADS)[number];
  parts: Record<string, number>;
}

export const sharedRulesQuery = queryOptions({
  queryKey: ["calendar", "rules"],
  queryFn: async ({ signal }): Promise<SharedRule[]> =>
    ((await answer(client.GET("/shared-cost-rules", { signal }))).items ?? []).map((r) => ({
      id: r.id,
      name: r.name,
      pick: r.pick,
      value: r.value,
      spread: r.spread,
      parts: r.parts ?? {},
    })),
});

export async function addSharedRule(rule: Omit<SharedRule, "id">): Promise<void> {
  const { parts, ...rest } = rule;
  const body = { ...rest, ...(rule.spread === "fixed" ? { parts } : {}) };
  await answer(client.POST("/shared-cost-rules", { body: body as never }));
}

export async function dropSharedRule(id: string): Promise<void> {
  await answer(client.DELETE("/shared-cost-rules/{id}", { params: { path: { id } } }));
}

export interface Change {
  key: string;
  name: string;
  kind: "workload" | "idle" | "overhead" | "residual" | "commitment_unused";
  before: Money;
  after: Money;
  delta: Money;
  quantity: Money;
  mix: Money;
  price: Money;
}

export interface Comparison {
  beforeFrom: Date;
  beforeTo: Date;
  total: Change;
  items: Change[];
  openHours: number;
  unpriced: boolean;
}

interface Scope {
  from: Date;
  to: Date;
  cluster?: string;
  namespace?: string;
  team?: string;
}

function wireScope({ from, to, cluster, namespace, team }: Scope) {
  return { from: from.toISOString(), to: to.toISOString(), cluster, namespace, team };
}

type WireChange = {
  [K in "before" | "after" | "delta" | "quantity" | "mix" | "price"]: WireMoney;
} & { key: string; name: string; kind: Change["kind"] };

function readChange(w: WireChange): Change {
  return {
    key: w.key,
    name: w.name,
    kind: w.kind,
    before: readMoney(w.before),
    after: readMoney(w.after),
    delta: readMoney(w.delta),
    quantity: readMoney(w.quantity),
    mix: readMoney(w.mix),
    price: readMoney(w.price),
  };
}

export const compareQuery = (scope: Scope, aggregate: "team" | "namespace" | "workload" | "cluster") => {
  const query = { ...wireScope(scope), aggregate };
  return queryOptions({
    queryKey: ["cost", "compare", query],
    queryFn: async ({ signal }): Promise<Comparison> => {
      const w = await answer(client.GET("/cost/compare", { params: { query }, signal }));
      return {
        beforeFrom: parseTime(w.before_from),
        beforeTo: parseTime(w.before_to),
        total: readChange(w.total),
        items: (w.items ?? []).map(readChange),
        openHours: w.open_hours,
        unpriced: w.unpriced,
      };
    },
    placeholderData: keepPreviousData,
  });
};

export interface WorkloadHours {
  total: Money;
  items: { hour: Date; amount: Money; quantity: number; ups: number; downs: number }[];
}

export const costHoursQuery = (workload: string, from: Date, to: Date) =>
  queryOptions({
    queryKey: ["cost", "hours", workload, from.toISOString(), to.toISOString()],
    queryFn: async ({ signal }): Promise<WorkloadHours> => {
      const query = { workload, from: from.toISOString(), to: to.toISOString() };
      const w = await answer(client.GET("/cost/hours", { params: { query }, signal }));
      return {
        total: readMoney(w.total),
        items: (w.items ?? []).map((h) => ({
          hour: parseTime(h.hour),
          amount: readMoney(h.amount),
          quantity: h.quantity,
          ups: h.ups,
          downs: h.downs,
        })),
      };
    },
  });

export interface Trace {
  key: string;
  state: "open" | "closed" | "";
  version: number;
  asOf: Date | null;
  total: Money;
  lines: { node: string; resource: string; purchase: string; amount: Money; quantity: number }[];
  pods: { uid: string; name: string; node: string; hours: number }[];
  decisions: { id: string; at: Date; outcome: string; from: number; target: number; state: string; binding: string }[];
}

export const traceQuery = (workload: string, hour: string) =>
  queryOptions({
    queryKey: ["cost", "trace", workload, hour],
    queryFn: async ({ signal }): Promise<Trace> => {
      const w = await answer(client.GET("/cost/trace", { params: { query: { workload, hour } }, signal }));
      return {
        key: w.key,
        state: w.state,
        version: w.version,
        asOf: readTimeOr(w.as_of),
        total: readMoney(w.total),
        lines: (w.lines ?? []).map((l) => ({
          node: l.node || l.node_uid,
          resource: l.resource,
          purchase: l.purchase,
          amount: readMoney(l.amount),
          quantity: l.quantity,
        })),
        pods: (w.pods ?? []).map((p) => ({ uid: p.uid, name: p.name, node: p.node, hours: p.hours })),
        decisions: (w.decisions ?? []).map((d) => ({
          id: d.id,
          at: parseTime(d.at),
          outcome: d.outcome,
          from: d.from_replicas,
          target: d.target,
          state: d.state,
          binding: d.binding,
        })),
      };
    },
  });

export interface UnitPrices {
  cost: Money | null;
  tokensIn: Money | null;
  tokensOut: Money | null;
  requests: Money | null;
  trainHour: Money | null;
  keptMinute: Money | null;
}

export interface Unit {
  key: string;
  name: string;
  team: string;
  allocation: UnitPrices;
  usage: UnitPrices;
  utilisation: number | null;
  measured: number | null;
  reported: number;
  unpriced: boolean;
}

interface WirePrices {
  cost: WireMoney | null;
  per_million_tokens_in: WireMoney | null;
  per_million_tokens_out: WireMoney | null;
  per_thousand_requests: WireMoney | null;
  per_training_hour: WireMoney | null;
  per_slo_minute: WireMoney | null;
}

function readPrices(w: WirePrices): UnitPrices {
  return {
    cost: readMoneyOr(w.cost),
    tokensIn: readMoneyOr(w.per_million_tokens_in),
    tokensOut: readMoneyOr(w.per_million_tokens_out),
    requests: readMoneyOr(w.per_thousand_requests),
    trainHour: readMoneyOr(w.per_training_hour),
    keptMinute: readMoneyOr(w.per_slo_minute),
  };
}

export const unitsQuery = (scope: Scope, aggregate: "workload" | "team", weight: number) => {
  const query = { ...wireScope(scope), aggregate, output_weight: weight };
  return queryOptions({
    queryKey: ["cost", "units", query],
    queryFn: async ({ signal }): Promise<{ total: Money; items: Unit[] }> => {
      const w = await answer(client.GET("/cost/unit-economics", { params: { query }, signal }));
      return {
        total: readMoney(w.total),
        items: (w.items ?? []).map((u) => ({
          key: u.key,
          name: u.name,
          team: u.team,
          allocation: readPrices(u.allocation),
          usage: readPrices(u.usage),
          utilisation: u.utilisation ?? null,
          measured: u.measured_share ?? null,
          reported: u.reported_share,
          unpriced: u.unpriced,
        })),
      };
    },
    placeholderData: keepPreviousData,
  });
};

export interface Against {
  cost: Money | null;
  saved: Money | null;
  hours: number;
}

export interface Saving {
  id: string;
  name: string;
  team: string;
  paid: Money;
  hours: number;
  promised: Money;
  measured: Against;
  static: Against;
  shadow: Against;
  cooldown: Money;
  starting: Money;
  ups: number;
  downs: number;
}

export interface Savings {
  total: Saving;
  items: Saving[];
  days: { day: Date; static: Money | null; shadow: Money | null; measured: Money | null }[];
}

interface WireAgainst {
  cost: WireMoney | null;
  saved: WireMoney | null;
  hours: number;
}

const readAgainst = (w: WireAgainst): Against => ({
  cost: readMoneyOr(w.cost),
  saved: readMoneyOr(w.saved),
  hours: w.hours,
});

export const savingsQuery = (scope: Scope) => {
  const query = wireScope(scope);
  return queryOptions({
    queryKey: ["cost", "savings", query],
    queryFn: async ({ signal }): Promise<Savings> => {
      const w = await answer(client.GET("/savings", { params: { query }, signal }));
      const read = (l: typeof w.total): Saving => ({
        id: l.workload_id,
        name: l.name,
        team: l.team,
        paid: readMoney(l.paid),
        hours: l.hours,
        promised: readMoney(l.promised),
        measured: readAgainst(l.measured),
        static: readAgainst(l.static),
        shadow: readAgainst(l.shadow),
        cooldown: readMoney(l.cooldown),
        starting: readMoney(l.starting),
        ups: l.ups,
        downs: l.downs,
      });
      return {
        total: read(w.total),
        items: (w.items ?? []).map(read),
        days: (w.days ?? []).map((d) => ({
          day: parseTime(d.day),
          static: readMoneyOr(d.static),
          shadow: readMoneyOr(d.shadow),
          measured: readMoneyOr(d.measured),
        })),
      };
    },
    placeholderData: keepPreviousData,
  });
};
