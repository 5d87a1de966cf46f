// What the first users stumbled over: ways from one page to the next, and what is not known shown as such.
import { screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { anAlert, money, uuid } from "../test/factories";
import { aReconciliation } from "../test/factories-bills";
import { FakeApi } from "../test/fake-api";
import { renderAt } from "../test/render";

const SLOW = { timeout: 4000 };
const entry = (seq: number, object: string) => ({
  seq,
  at: "2026-11-20T10:00:00Z",
  actor: "system",
  action: "some.change",
  object,
  detail: {},
  hash: "00".repeat(32),
});

test.each([
  ["a cluster by its name", `cluster:${uuid(3, 1)}`, "cluster inference-us", `/clusters/${uuid(3, 1)}`],
  ["a workload by the head of its id", `workload:${uuid(5, 1)}`, "workload 00000005", `/workloads/${uuid(5, 1)}`],
  ["a decision", `decision:${uuid(6, 1)}`, "decision 00000006", `/decisions/${uuid(6, 1)}`],
  ["an account, written with a slash", `cloud_account/${uuid(21, 1)}`, "cloud_account 00000015", "/cloud-accounts"],
])("the audit log leads to %s", async (_, object, name, href) => {
  const fake = new FakeApi();
  fake.audit = [entry(1, object)];
  await renderAt("/settings?tab=audit", { fake });
  expect((await screen.findByRole("link", { name }, SLOW)).getAttribute("href")).toBe(href);
  expect(screen.queryByText(object)).toBeNull();
});

test("the audit log names people and leaves alone what it cannot read", async () => {
  const fake = new FakeApi();
  fake.audit = [entry(2, `user:${uuid(1, 2)}`), entry(1, "a/b/c")];
  await renderAt("/settings?tab=audit", { fake });
  expect(await screen.findByText("Sample Finance", {}, SLOW)).toBeTruthy();
  expect(screen.getByText("a/b/c")).toBeTruthy();
});

test.each([
  ["Spend today", /^\/cost\?.*window=d7/],
  ["Month to date", /^\/cost\?.*window=month/],
  ["Forecast for the month", /^\/budgets$/],
  ["Saved this month", /^\/savings$/],
])("the figure of %s leads to where it comes from", async (label, href) => {
  await renderAt("/");
  const card = (await screen.findByText(label, {}, SLOW)).closest(".card");
  if (!(card instanceof HTMLElement)) throw new Error("no card");
  expect(within(card).getAllByRole("link")[0]?.getAttribute("href")).toMatch(href);
});

const foreseen = (percent: number) => ({
  name: "Chat",
  basis: "forecast",
  percent,
  limit: "1500.00",
  figure: "2978.66",
  currency: "USD",
});

test.each([
  ["a threshold that the forecast reaches is foreseen", foreseen(80), "Budget threshold foreseen"],
  ["an amount that the forecast passes will be exceeded", foreseen(100), "Budget will be exceeded"],
  ["a threshold that was spent is passed", { ...foreseen(80), basis: "actual" }, "Budget threshold passed"],
])("%s", async (_, detail, words) => {
  const fake = new FakeApi();
  fake.alerts = [anAlert(1, { detail })];
  await renderAt("/alerts", { fake });
  expect(await screen.findByText(words, {}, SLOW)).toBeTruthy();
});

test("an alert that reached nobody leads to the channels, one about a commitment to its end", async () => {
  const fake = new FakeApi();
  fake.alerts = [
    anAlert(1, {
      kind: "commitment_expiring",
      subject: "commitment/x",
      detail: { name: "sp-1", days: 1 },
      told: [{ event: "alert.opened", state: "told", channels: 0, at: "2026-11-20T10:00:00Z" }],
    }),
  ];
  await renderAt("/alerts", { fake });
  const nobody = await screen.findByRole("link", { name: "Nobody: no channel" }, SLOW);
  expect(nobody.getAttribute("href")).toBe("/webhooks");
  expect(screen.getByRole("link", { name: "sp-1: ends in 1 day" }).getAttribute("href")).toBe(
    "/commitments?tab=expiries",
  );
});

test("days that no bill covers show the ledger, and neither a bill of nothing nor a gap", async () => {
  const fake = new FakeApi();
  const none = aReconciliation(null, null);
  const zero = money("0");
  fake.overrides.set("GET /reconciliation", {
    status: 200,
    body: {
      ...none,
      bill: zero,
      causes: [],
      pairs: [],
      bill_only: [],
      bill_only_count: 0,
      ledger_only: [],
      ledger_only_count: 0,
    },
  });
  await renderAt("/reconciliation", { fake });
  expect(await screen.findByText("No bill covers these days", {}, SLOW)).toBeTruthy();
  const table = screen.getByRole("table", { name: "By day and service" });
  expect(
    within(table)
      .getAllByRole("columnheader")
      .map((h) => h.textContent),
  ).toEqual(["Day (UTC)", "Service", "Ledger"]);
});
