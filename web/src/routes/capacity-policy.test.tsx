import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { changesOf, docOf, draftOf, faultOf, isSound, rowFault } from "../lib/capacity-policy";
import { uuid } from "../test/factories";
import { FakeApi } from "../test/fake-api";
import { renderAt } from "../test/render";
import { readShares } from "./capacity-rollouts";

const SLOW = { timeout: 4000 };
const page = (n: number, tab = "policy") => `/clusters/${uuid(3, n)}?tab=${tab}`;
const find = (text: string | RegExp) => screen.findByText(text, {}, SLOW);

describe.each(["en", "zh"] as const)("the capacity policy in %s", (language) => {
  const say = (english: string, chinese: string) => (language === "zh" ? chinese : english);

  test("every field with its unit, the past rollout with its reason", async () => {
    await renderAt(page(1), { language });
    const nodes = (await screen.findByLabelText(say("Machines", "机器数"), {}, SLOW)) as HTMLInputElement;
    expect(nodes.value).toBe("40");
    expect(
      (screen.getByLabelText(say("Replicas moved at once (%)", "一次移动的副本（%）")) as HTMLInputElement).value,
    ).toBe("25");
    expect((screen.getByLabelText(say("Time zone 1", "时区 1")) as HTMLInputElement).value).toBe("Europe/Berlin");
    await find(new RegExp(say("more pods wait for a machine", "更多 Pod 在等待机器")));
    expect(screen.queryByText(/\{\{|NaN|undefined/)).toBeNull();
  });

  test("machines that do not obey it, with what was wanted", async () => {
    await renderAt(page(1, "nodes"), { language });
    await find(say("Spot is not allowed", "不允许竞价"));
    await find(say("team=ml wanted", "要求 team=ml"));
    await find(say("Not known: driver", "未知：驱动"));
    await find(say("kubelet is too old for the API server", "kubelet 相对 API server 过旧"));
  });
});

test("a change is shown, previewed and rolled out in steps; the rollout is paused and taken back", async () => {
  const { fake } = await renderAt(page(1));
  fireEvent.change(await screen.findByLabelText("Machines", {}, SLOW), { target: { value: "60" } });
  fireEvent.click(screen.getByRole("switch", { name: /^No Spot/ }));
  const changes = within(screen.getByRole("table", { name: "Changes" }));
  expect(changes.getByText("40")).toBeTruthy();
  expect(changes.getByText("60")).toBeTruthy();
  expect(changes.getByText("yes")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Preview the plan" }));
  await find(/31\.05/);
  fireEvent.change(screen.getByLabelText("Machines"), { target: { value: "61" } });
  await find("The draft has changed since: preview it again.");
  fireEvent.click(screen.getByRole("button", { name: "Roll out in steps" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Roll out in steps" }, SLOW));
  fireEvent.change(dialog.getByLabelText(/^Shares/), { target: { value: "50, 20" } });
  await dialog.findByText("Numbers that rise to 100, such as 10, 50, 100.");
  expect((dialog.getByRole("button", { name: "Begin" }) as HTMLButtonElement).disabled).toBe(true);
  fireEvent.change(dialog.getByLabelText(/^Shares/), { target: { value: "20, 100" } });
  fireEvent.click(dialog.getByRole("button", { name: "Begin" }));
  await find("Step 1 of 3: 10% of clusters and machines");
  const sent = fake.calls.find((c) => c.method === "POST" && c.path === "/capacity-rollouts");
  expect(sent?.body).toMatchObject({
    clusters: [uuid(3, 1)],
    version: 3,
    policy: { max_nodes: 61, hourly_max: "60.00" },
    shares: [0.2, 1],
    shadow_seconds: 1800,
    cost_over: 0.2,
  });
  expect(JSON.stringify(sent?.body)).not.toContain("no_spot");
  fireEvent.click(screen.getByRole("button", { name: "Pause" }));
  await find("Paused");
  fireEvent.click(screen.getByRole("button", { name: "Take back" }));
  const back = within(await screen.findByRole("dialog", { name: "Take the rollout back?" }, SLOW));
  fireEvent.click(back.getByRole("button", { name: "Take back" }));
  await waitFor(() => expect(screen.getAllByText("Taken back").length).toBe(2), SLOW);
});

test("a policy comes into force at once only with a reason", async () => {
  const { fake } = await renderAt(page(1));
  fireEvent.change(await screen.findByLabelText("Machines", {}, SLOW), { target: { value: "50" } });
  fireEvent.click(screen.getByRole("button", { name: "Put into force at once" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Put it into force without a rollout?" }, SLOW));
  const go = dialog.getByRole("button", { name: "Put into force at once" }) as HTMLButtonElement;
  expect(go.disabled).toBe(true);
  fireEvent.change(dialog.getByLabelText(/^Why/), { target: { value: "the cap is too low for tonight" } });
  fireEvent.click(go);
  await find(/^Version 4/);
  expect(fake.calls.find((c) => c.method === "PUT")?.body).toMatchObject({
    version: 3,
    rollout_override: "the cap is too low for tonight",
  });
});

test("a fault is said beside its field, and nothing can be saved or previewed", async () => {
  await renderAt(page(1));
  fireEvent.change(await screen.findByLabelText("Spend per hour", {}, SLOW), { target: { value: "cheap" } });
  await find("An amount such as 12.50, at most 1,000,000.");
  for (const name of ["Preview the plan", "Roll out in steps", "Put into force at once"])
    expect((screen.getByRole("button", { name }) as HTMLButtonElement).disabled).toBe(true);
});

test("somebody else's newer version is said, and loaded when asked for", async () => {
  const { fake, client } = await renderAt(page(1));
  fireEvent.change(await screen.findByLabelText("Machines", {}, SLOW), { target: { value: "50" } });
  fake.capacityPolicy.body = { ...fake.capacityPolicy.body, version: 4, policy: { max_nodes: 12 } };
  await client.invalidateQueries({ queryKey: ["clusters", "capacity-policy"] });
  await find(/^Somebody saved version 4 meanwhile/);
  expect((screen.getByRole("button", { name: "Roll out in steps" }) as HTMLButtonElement).disabled).toBe(true);
  expect((screen.getByLabelText("Machines") as HTMLInputElement).value).toBe("50");
});

test("a viewer reads it and changes nothing", async () => {
  const fake = new FakeApi();
  fake.me = { ...fake.me, role: "viewer" };
  await renderAt(page(1), { fake });
  expect(((await screen.findByLabelText("Machines", {}, SLOW)) as HTMLInputElement).disabled).toBe(true);
  await find("Only operators and admins change it.");
  expect(screen.queryByRole("button", { name: "Roll out in steps" })).toBeNull();
  expect(screen.getByRole("button", { name: "Preview the plan" })).toBeTruthy();
});

test("a service that does not answer is a problem with a way to try again", async () => {
  const fake = new FakeApi();
  fake.overrides.set(`GET /clusters/${uuid(3, 1)}/capacity-policy`, {
    status: 503,
    body: { status: 503, title: "Unavailable", detail: "the database is away" },
  });
  await renderAt(page(1), { fake });
  await find("the database is away");
  expect(screen.getByRole("button", { name: "Try again" })).toBeTruthy();
});

describe("a draft", () => {
  const doc = {
    max_nodes: 5,
    hourly_max: "12.50",
    max_moved_milli: 125,
    zones: ["a", "b"],
    freeze: [{ from: "22:00", to: "06:00", time_zone: "UTC" }],
    node_rules: { labels: ["team"], same_driver: true },
    warm: [{ name: "l4", how: "growth" as const, count: 3, quantile: 950 }],
  };
  test("becomes the policy that it was made of", () => {
    expect(JSON.parse(JSON.stringify(docOf({}, draftOf(doc))))).toEqual(doc);
    expect(changesOf(draftOf(doc), draftOf(doc))).toEqual([]);
    expect(isSound(draftOf(doc))).toBe(true);
  });
  test("keeps what this page does not know", () => {
    expect(docOf({ ...doc, tomorrow: 1 } as typeof doc, draftOf(doc))).toMatchObject({ tomorrow: 1 });
  });
  test.each([
    ["max_nodes", "-1", "integer"],
    ["max_nodes", "10001", "integer"],
    ["max_nodes", "", null],
    ["hourly_max", "1e9", "money"],
    ["hourly_max", "0.25", null],
    ["move_cost", "0", "free"],
    ["max_stock_out", "100.5", "percent"],
    ["max_stock_out", "99.5", null],
  ] as const)("%s %s: %s", (key, text, fault) => {
    expect(faultOf(key, text)).toBe(fault);
  });
  test("names faults of rows", () => {
    expect(rowFault("freeze", { from: "22", to: "06:00", time_zone: "UTC" })).toBe("time");
    expect(rowFault("freeze", { from: "22:00", to: "06:00", time_zone: "Mars/Base" })).toBe("zone");
    expect(rowFault("freeze", { days: "moonday", from: "22:00", to: "06:00", time_zone: "UTC" })).toBe("day");
    expect(rowFault("equivalent", { for: "L4" })).toBe("needed");
    expect(rowFault("warm", { name: "L4!", count: "1" })).toBe("name");
  });
});

test("shares rise to a hundred", () => {
  expect(readShares("10, 50,100")).toEqual([0.1, 0.5, 1]);
  for (const bad of ["", "50", "100, 50", "0, 100", "ten, 100", "20 10 100"]) expect(readShares(bad)).toBeNull();
});

describe.each(["en", "zh"] as const)("the tenant's default in %s", (language) => {
  const say = (english: string, chinese: string) => (language === "zh" ? chinese : english);

  test("a cluster without a policy of its own says that it inherits", async () => {
    await renderAt(page(2), { language });
    await find(new RegExp(say("Inherited: the tenant's default, version 2", "继承：租户默认第 2 版")));
    expect(((await screen.findByLabelText(say("Machines", "机器数"), {}, SLOW)) as HTMLInputElement).value).toBe("25");
    expect(screen.queryByRole("button", { name: say("Go back to the default", "恢复为租户默认") })).toBeNull();
    expect(screen.queryByText(/\{\{|NaN|undefined/)).toBeNull();
  });

  test("the default is shown with the clusters that take it", async () => {
    await renderAt(page(1), { language });
    fireEvent.click(await screen.findByText(say("Tenant's default", "租户默认"), {}, SLOW));
    await find(/staging, edge/);
    expect(screen.queryByText(/\{\{|NaN|undefined/)).toBeNull();
  });
});

test("a cluster that enforces goes back to the default with a reason", async () => {
  const { fake } = await renderAt(page(1));
  fireEvent.click(await screen.findByRole("button", { name: "Go back to the default" }, SLOW));
  const dialog = within(await screen.findByRole("dialog", {}, SLOW));
  fireEvent.change(dialog.getByLabelText(/^Why/), { target: { value: "the default is tried" } });
  fireEvent.click(dialog.getByRole("button", { name: "Put into force at once" }));
  await find(/Inherited: the tenant's default, version 2/);
  const sent = fake.calls.find((c) => c.method === "DELETE");
  expect(sent?.path).toBe(`/clusters/${uuid(3, 1)}/capacity-policy`);
});

test("the default is rolled out over the clusters that take it", async () => {
  const { fake } = await renderAt(page(1));
  fireEvent.click(await screen.findByText("Tenant's default", {}, SLOW));
  await find(/staging, edge/);
  fireEvent.change(await screen.findByLabelText("Machines", {}, SLOW), { target: { value: "26" } });
  fireEvent.click(screen.getByRole("button", { name: "Roll out in steps" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Roll out in steps" }, SLOW));
  await dialog.findByText(/Over the clusters that take the default and enforce: staging\./);
  fireEvent.click(dialog.getByRole("button", { name: "Begin" }));
  await waitFor(() =>
    expect(fake.calls.some((c) => c.path === "/capacity-rollouts" && c.method === "POST")).toBe(true),
  );
  const sent = fake.calls.find((c) => c.method === "POST" && c.path === "/capacity-rollouts");
  expect(sent?.body).toMatchObject({ default: true, version: 2, policy: { max_nodes: 26 } });
  expect(JSON.stringify(sent?.body)).not.toContain("clusters");
});

test("what pools put on their machines is written and read", () => {
  const doc = {
    node_pools: {
      labels: { team: "ml", "example.com/tier": "" },
      taints: ["team=ml:NoSchedule"],
      startup_taints: ["agent-not-ready:NoExecute"],
      expire_after_hours: 720,
      termination_grace_sec: 3600,
      drift_budget: "10%",
      empty_budget: "3",
    },
  };
  const draft = draftOf(doc);
  expect(draft.text.pool_labels).toBe("example.com/tier=, team=ml");
  expect(JSON.parse(JSON.stringify(docOf({}, draft)))).toEqual(doc);
  expect(isSound(draft)).toBe(true);
  expect(faultOf("pool_taints", "team=ml")).toBe("taint");
  expect(faultOf("pool_taints", "team=ml:PreferNoSchedule")).toBe("taint");
  expect(faultOf("pool_startup_taints", "team=ml:PreferNoSchedule")).toBeNull();
  expect(faultOf("pool_labels", "a:b")).toBe("label");
  expect(faultOf("pool_drift", "101%")).toBe("budget");
  expect(faultOf("pool_drift", "100%")).toBeNull();
  expect(docOf(doc, draftOf({})).node_pools).toBeUndefined();
});

test("a rollout of the tenant's default says so", async () => {
  const fake = new FakeApi();
  const [old] = fake.capacityPolicy.rollouts;
  if (old) old.default = true;
  await renderAt(page(1), { fake });
  await find("Taken back · Tenant's default");
});
