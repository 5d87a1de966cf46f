import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test, vi } from "vitest";
import { mayUndo, readGroups } from "../api/cloud-groups";
import { readNames } from "../components/capacity/group-form";
import { constraintText, reasonText, whyNotText } from "../components/capacity/words";
import { i18n } from "../i18n";
import { uuid } from "../test/factories";
import { FakeApi } from "../test/fake-api";
import { aGroup, anAction } from "../test/fake-groups";
import { renderAt } from "../test/render";

const SLOW = { timeout: 4000 };
const page = (n: number) => `/clusters/${uuid(3, n)}?tab=plan`;
const GET = `GET /clusters/${uuid(3, 1)}/cloud-groups`;
const find = (text: string | RegExp) => screen.findByText(text, {}, SLOW);
const row = async (name: string) => {
  const found = (await find(name)).closest("tr");
  if (!found) throw new Error(`${name} is in no row`);
  return within(found);
};

describe.each(["en", "zh"] as const)("groups in %s", (language) => {
  const say = (english: string, chinese: string) => (language === "zh" ? chinese : english);

  test("size, bounds, state and the last change of each", async () => {
    await renderAt(page(1), { language });
    const grown = await row("us-east-1/gpu-l4");
    expect(grown.getByText(say("9 of 9", "9 / 9"))).toBeTruthy();
    expect(grown.getByText(say("1 to 24", "1 至 24"))).toBeTruthy();
    expect(grown.getByText(say("4 at once, 12 an hour", "每次 4 台，每小时 12 台"))).toBeTruthy();
    expect(grown.getByText("6 → 9")).toBeTruthy();
    expect(grown.getByText("4 → 6")).toBeTruthy(); // an earlier one
    expect(grown.getAllByText(say("All are nodes", "全部成为节点")).length).toBe(3);
    expect(grown.getByText(say("May grow and shrink it", "可以扩大和缩小"))).toBeTruthy();
    expect(
      grown.getByText(say("Ended by name: ip-10-0-1-7, ip-10-0-1-9", "按名称终止：ip-10-0-1-7, ip-10-0-1-9")),
    ).toBeTruthy();
    expect(
      grown.getByText(
        say("Stopped of the cloud: AZRebalance, AlarmNotification", "已停止的云端伸缩：AZRebalance, AlarmNotification"),
      ),
    ).toBeTruthy();
    const short = await row("us-east-1/gpu-spot");
    expect(short.getByText("2 → 5")).toBeTruthy();
    expect(
      short.getByText(say("Left to the cloud: scaling policy target-cpu", "让给云：伸缩策略 target-cpu")),
    ).toBeTruthy();
    expect(short.getByText(say("Out of stock", "缺货"))).toBeTruthy();
    expect(short.getByText(/still asked for: the cloud refuses/)).toBeTruthy();
    expect(
      short.getByText("InsufficientInstanceCapacity · no g5.12xlarge capacity in the zone · g5.12xlarge · us-east-1b"),
    ).toBeTruthy();
    expect(short.getByText(new RegExp(say("any zone", "任意可用区")))).toBeTruthy();
    const off = await row("us-east-1/cpu");
    expect(off.getByText(say("Leave it alone", "不改动"))).toBeTruthy();
    expect(off.getByText(say("not read yet", "尚未读取"))).toBeTruthy();
    expect(off.getByText(say("Never changed", "从未变更"))).toBeTruthy();
    expect(screen.queryByText(/\{\{|NaN|undefined/)).toBeNull();
  });

  test("a cluster without groups says what they are for, also before its first plan", async () => {
    await renderAt(page(4), { language });
    await find(say("No groups", "没有伸缩组"));
    expect((await screen.findAllByText(say("No plan yet", "尚无规划"), {}, SLOW)).length).toBeGreaterThan(0);
  });

  test("codes of what keeps pods and nodes where they are have words", async () => {
    await i18n.changeLanguage(language);
    for (const code of ["pdb", "rules", "taint", "where"]) {
      expect(i18n.exists(`capacity.pending.constraints.${code}`), code).toBe(true);
      expect(constraintText(i18n.t, code)).toMatch(/./);
      for (const text of [reasonText, whyNotText]) expect(text(i18n.t, code)).not.toBe(code);
    }
    for (const code of ["untold", "size"]) expect(whyNotText(i18n.t, code)).not.toBe(code);
  });
});

test("the last change is undone after a question, and the list shows the undo", async () => {
  const { fake } = await renderAt(page(1));
  fireEvent.click(await screen.findByRole("button", { name: "Undo the last change of us-east-1/gpu-l4" }, SLOW));
  const dialog = await screen.findByRole("dialog", { name: "Set us-east-1/gpu-l4 to 6 again?" }, SLOW);
  expect(within(dialog).getByText(/drain them first/)).toBeTruthy();
  expect(fake.calls.some((c) => c.method === "POST")).toBe(false);
  fireEvent.click(within(dialog).getByRole("button", { name: "Undo" }));
  await find("9 → 6");
  expect(fake.calls.find((c) => c.method === "POST")?.path).toBe(
    `/clusters/${uuid(3, 1)}/cloud-group-actions/${uuid(61, 3)}/undo`,
  );
  expect((await row("us-east-1/gpu-l4")).getByText("undo")).toBeTruthy();
  expect(screen.queryByRole("button", { name: /^Undo the last change/ })).toBeNull();
});

test("only a change that ended and made the group larger can be undone", () => {
  const of = (over: Parameters<typeof anAction>[1]) =>
    readGroups({ items: [aGroup(1)], actions: [anAction(1, over)] })[0]?.actions.map(mayUndo);
  expect(of({})).toEqual([true]);
  expect(of({ state: "partial" })).toEqual([true]);
  expect(of({ closed_at: undefined })).toEqual([false]);
  expect(of({ state: "refused" })).toEqual([false]);
  expect(of({ state: "stock_out" })).toEqual([false]);
  expect(of({ state: "replaced" })).toEqual([false]);
  expect(of({ undoes: uuid(61, 9), before: 9, desired: 6 })).toEqual([false]);
});

test("a refused undo says why", async () => {
  const fake = new FakeApi();
  await renderAt(page(1), { fake });
  fireEvent.click(await screen.findByRole("button", { name: "Undo the last change of us-east-1/gpu-l4" }, SLOW));
  fake.cloudGroups.actions.push(anAction(9, { state: "asked", closed_at: undefined }));
  const dialog = await screen.findByRole("dialog", { name: "Set us-east-1/gpu-l4 to 6 again?" }, SLOW);
  fireEvent.click(within(dialog).getByRole("button", { name: "Undo" }));
  await find("another action of this group has not ended");
});

describe("the form", () => {
  const open = async (fake = new FakeApi(), name = "us-east-1/cpu") => {
    await renderAt(page(1), { fake });
    fireEvent.click(await screen.findByRole("button", { name: `Edit ${name}` }, SLOW));
    return within(await screen.findByRole("dialog", { name: `Edit ${name}` }, SLOW));
  };
  const type = (form: Awaited<ReturnType<typeof open>>, label: string, value: string) =>
    fireEvent.change(form.getByRole("textbox", { name: label }), { target: { value } });

  test("switches a group on, with other bounds", async () => {
    const fake = new FakeApi();
    const form = await open(fake);
    type(form, "At most", "12");
    type(form, "At once", "2");
    fireEvent.click(form.getByRole("switch", { name: /^Plans may make this group larger/ }));
    fireEvent.click(form.getByRole("switch", { name: /^Plans may make it smaller/ }));
    fireEvent.click(form.getByRole("switch", { name: /^Stop the cloud's own scaling/ }));
    fireEvent.click(form.getByRole("button", { name: "Save" }));
    await find("0 to 12");
    const sent = fake.calls.find((c) => c.method === "PUT");
    expect(sent?.path).toBe(`/clusters/${uuid(3, 1)}/cloud-groups/${uuid(60, 3)}`);
    expect(sent?.body).toEqual({
      account_id: fake.market.accounts[0]?.id,
      ref: "us-east-1/cpu",
      region: "us-east-1",
      zones: ["us-east-1a", "us-east-1b"],
      instance_types: ["m7i.4xlarge"],
      purchase: "on_demand",
      min: 0,
      max: 12,
      step: 2,
      hourly: 12,
      enabled: true,
      own: true,
      shrink: true,
    });
    expect((await row("us-east-1/cpu")).getByText("May grow and shrink it")).toBeTruthy();
  });

  test("bounds without meaning are not sent", async () => {
    const fake = new FakeApi();
    const form = await open(fake);
    type(form, "At least", "11");
    type(form, "An hour", "");
    fireEvent.click(form.getByRole("button", { name: "Save" }));
    expect(await form.findByText("Whole number from 0 to the upper bound.", {}, SLOW)).toBeTruthy();
    expect(form.getByText("Whole number from 1 to 20,000.")).toBeTruthy();
    expect(fake.calls.some((c) => c.method === "PUT")).toBe(false);
  });

  test("what the service refuses is said, and the form stays", async () => {
    const fake = new FakeApi();
    const form = await open(fake);
    type(form, "Name at the cloud", "us-east-1/gpu-l4");
    fireEvent.click(form.getByRole("button", { name: "Save" }));
    await find("this group is there already");
    expect(form.getByRole("button", { name: "Save" })).toBeTruthy();
  });

  test("a new group is off, and needs its types", async () => {
    const fake = new FakeApi();
    await renderAt(page(1), { fake });
    fireEvent.click(await screen.findByRole("button", { name: "Add group" }, SLOW));
    const form = within(await screen.findByRole("dialog", { name: "Add group" }, SLOW));
    type(form, "Name at the cloud", "eu-west-1/inference");
    type(form, "Region", "eu-west-1");
    type(form, "At most", "3");
    fireEvent.click(form.getByRole("button", { name: "Save" }));
    expect(await form.findByText("Give 1 to 40 instance types.", {}, SLOW)).toBeTruthy();
    type(form, "Instance types", "g6.xlarge, g6.2xlarge g6.xlarge");
    fireEvent.click(form.getByRole("button", { name: "Save" }));
    expect((await row("eu-west-1/inference")).getByText("Leave it alone")).toBeTruthy();
    const sent = fake.calls.find((c) => c.method === "PUT");
    expect(sent?.body).toMatchObject({
      account_id: fake.market.accounts[0]?.id,
      instance_types: ["g6.xlarge", "g6.2xlarge"],
      zones: [],
      enabled: false,
    });
  });

  test("names are read once each, whatever separates them", () => {
    expect(readNames(" a, b，c\nb ")).toEqual(["a", "b", "c"]);
    expect(readNames("  ")).toEqual([]);
  });
});

test("a group is left alone after a question", async () => {
  const { fake } = await renderAt(page(1));
  fireEvent.click(await screen.findByRole("button", { name: "Delete us-east-1/cpu" }, SLOW));
  const dialog = await screen.findByRole("dialog", { name: "Leave us-east-1/cpu alone?" }, SLOW);
  fireEvent.click(within(dialog).getByRole("button", { name: "Delete" }));
  await waitFor(() => expect(fake.cloudGroups.items.map((g) => g.ref)).not.toContain("us-east-1/cpu"), SLOW);
  await waitFor(() => expect(screen.queryByText("us-east-1/cpu")).toBeNull(), SLOW);
});

test.each(["viewer", "operator", "finance"] as const)("%s may look, not change", async (role) => {
  const fake = new FakeApi();
  fake.me = { ...fake.me, role };
  await renderAt(page(1), { fake });
  await find("us-east-1/gpu-l4");
  expect(screen.queryByRole("button", { name: /us-east-1|Add group/ })).toBeNull();
});

test("a cluster that may not act says so; one in enforce and not frozen does not", async () => {
  const fake = new FakeApi();
  const cluster = fake.clusters[0];
  if (!cluster) throw new Error("no cluster");
  Object.assign(cluster, { mode: "approve" });
  const first = await renderAt(page(1), { fake });
  await find(/the cluster is in mode Approve/);
  expect(screen.queryByRole("button", { name: /^Undo the last change/ })).toBeNull();
  first.unmount();
  Object.assign(cluster, { mode: "enforce", frozen: true });
  const second = await renderAt(page(1), { fake });
  await find(/^Nothing new is asked of the clouds/);
  second.unmount();
  Object.assign(cluster, { frozen: false });
  await renderAt(page(1), { fake });
  await find("us-east-1/gpu-l4");
  expect(screen.queryByText(/is asked of the clouds/)).toBeNull();
  expect(screen.getByRole("button", { name: "Undo the last change of us-east-1/gpu-l4" })).toBeTruthy();
});

test("a change that does not end is pointed out, and its state need not be known", async () => {
  const fake = new FakeApi();
  const hour = new Date(Date.now() - 3_600_000).toISOString();
  fake.cloudGroups.actions = [
    anAction(1, { state: "pending", ready: 6, asked_at: hour, closed_at: undefined }),
    anAction(2, { group_id: uuid(60, 2), state: "dreamt" as "asked", failures: null }),
  ];
  await renderAt(page(1), { fake });
  await find(/^Has not ended for 1 h/);
  expect((await row("us-east-1/gpu-l4")).getByText("6 of 9")).toBeTruthy();
  expect((await row("us-east-1/gpu-spot")).getByText("unknown state")).toBeTruthy();
});

test("while the groups are asked for, their place is kept", async () => {
  await renderAt(page(1));
  const inner = globalThis.fetch;
  let go = () => {};
  const held = new Promise<void>((resolve) => {
    go = resolve;
  });
  vi.stubGlobal("fetch", async (request: Request) => {
    if (request.url.endsWith("/cloud-groups")) await held;
    return inner(request);
  });
  await find("Groups of clouds");
  await find("Ways to go"); // the plan is there
  expect(document.querySelector("[data-cloud-groups] [aria-busy=true]")).not.toBeNull();
  go();
  await find("us-east-1/gpu-l4");
  expect(document.querySelector("[data-cloud-groups] [aria-busy=true]")).toBeNull();
});

test("it says that the service does not answer, and asks again", async () => {
  const fake = new FakeApi();
  fake.overrides.set(GET, {
    status: 503,
    body: { status: 503, title: "Service Unavailable", detail: "the groups cannot be read" },
  });
  await renderAt(page(1), { fake });
  await screen.findByText("the groups cannot be read", {}, { timeout: 8000 });
  fake.overrides.delete(GET);
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await find("us-east-1/gpu-l4");
});

test("what was read stays in sight when it cannot be read again, and says how old it is", async () => {
  const { fake, client } = await renderAt(page(1));
  await find("us-east-1/gpu-l4");
  fake.overrides.set(GET, { status: 503, body: { status: 503, title: "Service Unavailable", detail: "no" } });
  await client.refetchQueries({ queryKey: ["clusters", "cloud-groups", uuid(3, 1)] });
  await find(/refreshing failed/);
  expect(screen.getByText("us-east-1/gpu-l4")).toBeTruthy();
});
