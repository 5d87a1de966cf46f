import { QueryClient } from "@tanstack/react-query";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { parseMoney } from "../lib/money";
import { aCluster, aDecisionDetail, anOverview, aWorkload, money } from "../test/factories";
import { FakeApi } from "../test/fake-api";
import { serve } from "../test/render";
import { StillEvents } from "../test/setup";
import { createBudget } from "./budgets";
import { readCluster } from "./clusters";
import { decisionsQuery, readDecisionDetail } from "./decisions";
import { listen, queriesOf } from "./live";
import { meQuery, signIn } from "./me";
import { readOverview } from "./overview";
import { savePolicy } from "./policies";
import { Problem, readProblem } from "./problem";
import { readWorkload } from "./workloads";

describe("wire to domain", () => {
  test("an unknown price stays unknown", () => {
    expect(readCluster(aCluster(1, { cost_hour: null })).costHour).toBeNull();
    expect(readWorkload(aWorkload(1, { cost_hour: null })).costHour).toBeNull();
  });
  test("lists that the service sends as null are empty", () => {
    const w = readWorkload(aWorkload(1, { preflight: null, writers: null, last_decision: null }));
    expect(w).toMatchObject({ preflight: [], writers: [], lastDecision: null });
    expect(readOverview(anOverview({ cost_by_day: null })).costByDay).toEqual([]);
  });
  test("a workload without a policy has no mode", () => {
    expect(readWorkload(aWorkload(1, { mode: null, policy_version: 0 }))).toMatchObject({
      mode: null,
      policyVersion: null,
    });
  });
  test("a word of a newer service becomes the careful one", () => {
    const wire = aDecisionDetail(1);
    const d = readDecisionDetail({ ...wire, detail: { ...wire.detail, mode: "autopilot" } }, "USD");
    expect(d.mode).toBe("observe");
  });
  test("amounts beyond what a float holds are exact", () => {
    const o = readOverview(
      anOverview({ cost: { ...anOverview().cost, month_to_date: money("9007199254.740993001") } }),
    );
    expect(o.cost.monthToDate.nano).toBe(9_007_199_254_740_993_001n);
  });
  test("nano-units of alternatives are exact", () => {
    const d = readDecisionDetail(aDecisionDetail(1), "EUR");
    expect(d.alternatives[0]?.costHour).toEqual({ nano: 36_869_175_000n, currency: "EUR" });
  });
});

describe("problems", () => {
  test("fields lose their prefix", () => {
    const p = readProblem(422, "Unprocessable Entity", {
      title: "Unprocessable Entity",
      detail: "the policy cannot be used as it is",
      errors: [{ location: "body.document.max", message: "max is required" }, "noise"],
    });
    expect(p.fields).toEqual([{ field: "document.max", message: "max is required" }]);
    expect(p.message).toBe("the policy cannot be used as it is");
  });
  test.each([null, "text", 7, { errors: "x" }])("a body of %j still gives the status", (body) => {
    expect(readProblem(502, "Bad Gateway", body)).toMatchObject({ status: 502, title: "Bad Gateway" });
  });
});

describe("asking the service", () => {
  let fake: FakeApi;
  let client: QueryClient;
  beforeEach(() => {
    fake = new FakeApi();
    client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
    serve(fake);
  });

  test("several states go as one parameter, as the service reads them", async () => {
    await client.fetchQuery(decisionsQuery({ state: ["proposed", "approved"], limit: 5 }));
    expect(fake.calls[0]?.query.toString()).toBe("state=proposed%2Capproved&limit=5");
  });
  test("a refusal is a Problem with the service's words", async () => {
    await expect(signIn("a@example.com", "wrong")).rejects.toMatchObject({
      status: 401,
      message: "email or password is wrong",
    });
  });
  test("a network failure is a Problem without a status", async () => {
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("failed")));
    await expect(client.fetchQuery(meQuery)).rejects.toEqual(new Problem(0, "unreachable", "network"));
  });
  test("a policy is saved on the version it was written on", async () => {
    const id = aWorkload(1).id;
    await savePolicy(id, "max: 5\n", 3);
    expect(fake.calls[0]?.headers["if-match"]).toBe('"3"');
    await expect(savePolicy(id, "max: 6\n", 3)).rejects.toMatchObject({ status: 409 });
  });
  test("a budget's amount is sent exactly, and empty scopes not at all", async () => {
    await createBudget({
      name: "b",
      amount: parseMoney("5000.000000001", "USD"),
      thresholds: [80],
      clusterId: null,
      namespace: null,
      team: "research",
      workloadId: null,
      webhookId: null,
      period: "month",
      label: null,
      enforced: false,
      breaker: null,
    });
    expect(fake.calls[0]?.body).toEqual({
      name: "b",
      amount: "5000.000000001",
      thresholds: [80],
      team: "research",
      period: "month",
      enforced: false,
    });
  });
});

describe("live updates", () => {
  test("a burst of events asks each query once", () => {
    vi.useFakeTimers();
    const client = new QueryClient();
    const asked = vi.spyOn(client, "invalidateQueries").mockResolvedValue();
    const states: string[] = [];
    const stop = listen(client, (s) => states.push(s));
    const source = StillEvents.open.at(-1);
    source?.onopen?.();
    for (let i = 0; i < 50; i++) source?.emit("cluster", { cluster_id: String(i) });
    source?.emit("cost", {});
    expect(asked).not.toHaveBeenCalled();
    vi.advanceTimersByTime(3000);
    const keys = asked.mock.calls.map(([filter]) => JSON.stringify(filter?.queryKey)).sort();
    expect(keys).toEqual(['["budgets"]', '["clusters"]', '["cost"]', '["me"]', '["overview"]', '["workloads"]']);
    expect(states).toEqual(["connecting", "live"]);
    stop();
    vi.useRealTimers();
  });
  test("after a gap, and when some were missed, everything is asked again", () => {
    const client = new QueryClient();
    const asked = vi.spyOn(client, "invalidateQueries").mockResolvedValue();
    const states: string[] = [];
    const stop = listen(client, (s) => states.push(s));
    const source = StillEvents.open.at(-1);
    source?.onerror?.();
    source?.onopen?.();
    source?.emit("resync", {});
    expect(asked.mock.calls).toEqual([[], []]);
    expect(states).toEqual(["connecting", "lost", "live"]);
    stop();
  });
  test("an event that this page does not know asks nothing", () => {
    expect(queriesOf("weather", {})).toEqual([]);
  });
});
