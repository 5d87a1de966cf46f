// What the fake service answers about cost, bills and budgets.
import type { WireBudgetInput } from "../api/wire";
import * as make from "./factories.ts";
import * as bill from "./factories-bills.ts";
import type { FakeApi } from "./fake-api.ts";
import { costGroups, costSeries } from "./fake-figures.ts";
import { finopsRoutes } from "./fake-finops.ts";
import { drop, list, missing, ok, type Route } from "./fake-http.ts";

function budgetOf(input: WireBudgetInput, n: number) {
  return make.aBudget(n, {
    name: input.name,
    amount: make.money(input.amount),
    thresholds: input.thresholds ?? [50, 80, 100],
    team: input.team,
    namespace: input.namespace,
    cluster_id: input.cluster_id,
    webhook_id: input.webhook_id,
    spent: make.money(0),
    spent_ratio: 0,
    forecast: null,
  });
}

export const spendRoutes = (api: FakeApi): Route[] => [
  [
    "GET",
    "/cost/allocations",
    (r) => {
      const groups = costGroups(api, r.query);
      const total = groups.reduce((sum, g) => sum + g.amount, 0);
      return ok({
        from: r.query.get("from") ?? "",
        to: r.query.get("to") ?? "",
        aggregate: r.query.get("aggregate") ?? "team",
        idle: r.query.get("idle") ?? "separate",
        basis: r.query.get("basis") ?? "effective",
        basis_unknown: make.money(0),
        total: make.money(total),
        previous_total: make.money(total * 1.07),
        unpriced_share: 0.004,
        last_closed: make.before(80),
        open_hours: 1,
        items: groups.map((g) =>
          make.anAllocation(g.key, g.amount, { ...g, amount: make.money(g.amount), share: g.amount / total }),
        ),
      });
    },
  ],
  ["GET", "/cost/timeseries", (r) => ok(costSeries(api, r.query))],
  ...finopsRoutes,
  ["GET", "/bills", () => ok(list(api.bills))],
  [
    "POST",
    "/bills",
    (r) => {
      const known = api.bills.some((b) => b.name === r.query.get("name"));
      if (!known)
        api.bills.push(bill.aBill({ id: make.uuid(71, 900 + api.bills.length), name: r.query.get("name") ?? "bill" }));
      return { status: 201, body: { bill: api.bills.at(-1), known, replaced: [] } };
    },
  ],
  ["DELETE", "/bills/{id}", (_, p) => drop(api.bills, p.id)],
  ["GET", "/reconciliation", (r) => ok(bill.aReconciliation(r.query.get("from"), r.query.get("to")))],
  ["GET", "/restatements", () => ok(list(api.restatements))],
  [
    "POST",
    "/restatements",
    (r) => {
      const { from, to } = r.body as { from: string; to: string };
      api.restatements.push(bill.aRestatement({ id: make.uuid(71, 950 + api.restatements.length), from, to }));
      return { status: 201, body: api.restatements.at(-1) };
    },
  ],
  [
    "POST",
    "/restatements/{id}/undo",
    (_, p) => {
      const found = api.restatements.find((x) => x.id === p.id);
      if (!found) return missing();
      found.undone_at = make.before(0);
      return ok(found);
    },
  ],
  ["GET", "/budgets", () => ok(list(api.budgets))],
  [
    "POST",
    "/budgets",
    (r) => {
      const budget = budgetOf(r.body as WireBudgetInput, api.budgets.length + 1);
      api.budgets.push(budget);
      return ok(budget);
    },
  ],
  [
    "PUT",
    "/budgets/{id}",
    (r, p) => {
      const at = api.budgets.findIndex((b) => b.id === p.id);
      if (at < 0) return missing();
      const budget = { ...budgetOf(r.body as WireBudgetInput, at + 1), id: p.id ?? "" };
      api.budgets[at] = budget;
      return ok(budget);
    },
  ],
  ["DELETE", "/budgets/{id}", (_, p) => drop(api.budgets, p.id)],
  ["POST", "/budgets/{id}/reset-breaker", (_, p) => ok(api.budgets.find((b) => b.id === p.id))],
];
