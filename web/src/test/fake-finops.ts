// What the stand-in answers about comparisons, savings, unit economics, statements and the calendar.
import { money, NOW, uuid } from "./factories.ts";
import type { Handler } from "./fake-api.ts";

const ok = (body: unknown) => ({ status: 200, body });
const HOUR = 3_600_000;
const at = (hours: number) => new Date(Math.floor(NOW.getTime() / HOUR) * HOUR - hours * HOUR).toISOString();

const change = (key: string, before: number, quantity: number, mix: number, price: number) => ({
  key,
  name: key,
  kind: "workload",
  before: money(before),
  after: money(before + quantity + mix + price),
  delta: money(quantity + mix + price),
  quantity: money(quantity),
  mix: money(mix),
  price: money(price),
});

const against = (cost: number, paid: number) => ({
  cost: money(cost),
  paid: money(paid),
  saved: money(cost - paid),
  hours: 24,
});

const saving = {
  workload_id: uuid(5, 1),
  name: "assistant/Deployment/assistant-70b",
  team: "assistant",
  paid: money(700),
  hours: 24,
  promised: money(120),
  measured: against(810, 700),
  static: against(1000, 700),
  shadow: { cost: null, paid: null, saved: null, hours: 0 },
  cooldown: money(12),
  starting: money(4),
  ups: 3,
  downs: 2,
};

const prices = (scale: number) => ({
  cost: money(700 * scale),
  per_million_tokens_in: money(2.5 * scale),
  per_million_tokens_out: money(10 * scale),
  per_million_tokens: money(4 * scale),
  per_thousand_requests: money(3 * scale),
  per_training_hour: null,
  per_slo_minute: money(0.5 * scale),
});

const unit = {
  key: uuid(5, 1),
  name: "assistant/Deployment/assistant-70b",
  team: "assistant",
  namespace: "assistant",
  tokens_in: 1e8,
  tokens_out: 2e7,
  requests: 2e5,
  training_hours: null,
  slo_minutes: 1400,
  allocation: prices(1),
  usage: prices(0.25),
  utilisation: 0.25,
  measured_share: 0.97,
  reported_share: 1,
  unpriced: false,
};

const windows = [
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
];

export const finopsRoutes: [string, string, Handler][] = [
  [
    "GET",
    "/calendar",
    () =>
      ok({
        time_zone: "Europe/Berlin",
        fiscal_month: 4,
        week_start: 1,
        idle_scope: "cluster",
        idle_spread: "weighted",
        data_now: NOW.toISOString(),
        fiscal_year: 2027,
        windows: windows.map((name) => ({ name, from: at(24 * 20), to: at(-24 * 3) })),
      }),
  ],
  ["PUT", "/calendar", () => ok({})],
  [
    "GET",
    "/shared-cost-rules",
    () =>
      ok({
        items: [
          { id: uuid(8, 1), name: "Monitoring", pick: "namespace", value: "monitoring", spread: "even", parts: {} },
        ],
      }),
  ],
  ["POST", "/shared-cost-rules", () => ok({})],
  [
    "GET",
    "/cost/compare",
    () =>
      ok({
        from: at(48),
        to: at(24),
        before_from: at(72),
        before_to: at(48),
        aggregate: "team",
        total: change("", 100, 20, 5, -10),
        items: [change("assistant", 60, 20, 0, -10), change("vision", 40, 0, 5, 0)],
        open_hours: 0,
        unpriced: false,
      }),
  ],
  [
    "GET",
    "/cost/hours",
    () =>
      ok({
        from: at(24),
        to: at(0),
        total: money(9),
        items: [{ hour: at(3), amount: money(9), quantity: 2, ups: 1, downs: 0 }],
      }),
  ],
  [
    "GET",
    "/cost/trace",
    (r) =>
      ok({
        workload_id: r.query.get("workload"),
        cluster_id: uuid(3, 1),
        key: "assistant/Deployment/assistant-70b",
        hour: r.query.get("hour"),
        state: "closed",
        version: 2,
        as_of: at(1),
        total: money(9),
        lines: [
          { node_uid: "n1", node: "gpu-a100-1", resource: "gpu", purchase: "spot", amount: money(9), quantity: 2 },
        ],
        pods: [
          { uid: "p1", name: "assistant-70b-x1", node: "gpu-a100-1", from: at(5), to: null, ready_at: at(5), hours: 1 },
        ],
        decisions: [
          {
            id: uuid(6, 10),
            at: at(3),
            outcome: "scale_up",
            from_replicas: 1,
            target: 2,
            state: "applied",
            binding: "queue",
          },
        ],
      }),
  ],
  [
    "GET",
    "/savings",
    () =>
      ok({
        from: at(48),
        to: at(0),
        total: { ...saving, workload_id: "", name: "" },
        items: [saving],
        days: [
          { day: at(48), paid: money(350), promised: money(60), measured: money(50), static: money(140), shadow: null },
          { day: at(24), paid: money(350), promised: money(60), measured: money(60), static: money(160), shadow: null },
        ],
        churn_unknown: ["image_pulls", "egress", "lost_work"],
      }),
  ],
  [
    "GET",
    "/cost/unit-economics",
    () => ok({ from: at(48), to: at(0), aggregate: "workload", output_weight: 4, total: money(700), items: [unit] }),
  ],
  [
    "GET",
    "/statements",
    (r) =>
      ok({
        month: r.query.get("month") ?? "2026-10",
        from: at(24 * 57),
        to: at(24 * 27),
        as_of: at(0),
        missing_hours: 0,
        teams: [
          { team: "inference", direct: money(900), idle: money(80), shared: money(20), total: money(1000) },
          { team: "", direct: money(100), idle: money(0), shared: money(0), total: money(100) },
        ],
        rest: [{ kind: "overhead", name: "", amount: money(100) }],
        total: money(1200),
        issued: [
          {
            id: uuid(8, 2),
            month: "2026-10",
            scope: "team",
            team: "inference",
            version: 1,
            kind: "chargeback",
            as_of: at(2),
            total: money(990),
            issued_by: "user:1",
          },
        ],
      }),
  ],
  ["POST", "/statements", () => ok({})],
];
