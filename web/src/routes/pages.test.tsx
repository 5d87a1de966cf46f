import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { afterEach, describe, expect, test, vi } from "vitest";
import { aCluster, aWorkload, uuid } from "../test/factories";
import { FakeApi } from "../test/fake-api";
import { renderAt } from "../test/render";
import { safeNext } from "./sign-in";

const UUIDS = {
  cluster: uuid(3, 1),
  offline: uuid(3, 3),
  workload: uuid(5, 1),
  decision: uuid(6, 10),
  proposal: uuid(6, 3),
};
const SLOW = { timeout: 4000 };
const find = (text: string | RegExp) => screen.findByText(text, {}, SLOW);

afterEach(() => vi.restoreAllMocks());

describe.each([
  ["/", "Overview", "总览", ["$98,237", "image-gen", "inference-us"]],
  ["/clusters", "Clusters", "集群", ["inference-us", "training-eu", "edge-ap"]],
  [`/clusters/${UUIDS.cluster}`, "inference-us", "inference-us", ["gpu-a100-1"]],
  [`/clusters/${UUIDS.cluster}?tab=events`, "inference-us", "inference-us", ["Node/gpu-l4-spot-7"]],
  [`/clusters/${UUIDS.cluster}?tab=agent`, "inference-us", "inference-us", ["pod_metrics"]],
  ["/workloads", "Workloads", "工作负载", ["assistant-70b", "session-cache"]],
  [`/workloads/${UUIDS.workload}`, "assistant-70b", "assistant-70b", ["$49.16/h|$49.16/小时"]],
  [`/workloads/${UUIDS.workload}?tab=policy`, "assistant-70b", "assistant-70b", ["Version 3|版本 3"]],
  [`/workloads/${UUIDS.workload}?tab=decisions`, "assistant-70b", "assistant-70b", ["Waiting work|等待中的工作"]],
  ["/services", "Services", "服务", ["assistant", "Moves|迁移"]],
  ["/decisions", "Decisions", "决策", ["finetune-nightly"]],
  [`/decisions/${UUIDS.decision}`, "assistant-70b", "assistant-70b", ["Step limit up|扩容步长限制"]],
  ["/approvals", "Approval queue", "审批队列", ["finetune-nightly", "evals"]],
  ["/cost", "Cost", "成本", ["assistant", "Idle|闲置"]],
  ["/cost?view=tree", "Cost", "成本", ["Treemap|矩形树图"]],
  ["/cost?view=compare", "Cost", "成本", ["+$20.00"]],
  ["/savings", "Savings", "节省", ["assistant-70b", "$300.00"]],
  ["/units", "Unit economics", "单位成本", ["assistant-70b", "$2.50"]],
  ["/statements", "Statements", "对账单", ["inference", "Ledger $1,200.00|账本 $1,200.00"]],
  ["/settings?tab=calendar", "Settings", "设置", ["Monitoring"]],
  ["/budgets", "Budgets", "预算", ["All clusters", "$98,237"]],
  ["/reconciliation", "Reconciliation", "账单对账", ["AWS · AmazonEC2", "Price|价格"]],
  ["/reconciliation?tab=pairs", "Reconciliation", "账单对账", ["i-0f00d"]],
  [
    "/reconciliation?tab=bill",
    "Reconciliation",
    "账单对账",
    ["data transfer out (row 77 of the file)|data transfer out（文件第 77 行）"],
  ],
  ["/reconciliation?tab=files", "Reconciliation", "账单对账", ["cur-2026-10.csv.gz"]],
  ["/webhooks", "Channels", "通知通道", ["https://hooks.slack.com/…", "connection refused", "Upgrade of the nodes"]],
  ["/anomalies", "Anomalies", "费用异常", ["chat/Deployment/chat-llm"]],
  ["/alerts", "Alerts", "告警", ["edge-ap"]],
  ["/settings", "Settings", "设置", ["ci-exports"]],
  ["/settings?tab=members", "Settings", "设置", ["finance@example.com"]],
  ["/settings?tab=audit", "Settings", "设置", ["policy.save"]],
] as const)("%s", (path, english, chinese, contents) => {
  test.each(["en", "zh"] as const)("in %s", async (language) => {
    await renderAt(path, { language });
    const title = await screen.findByRole("heading", { level: 1, name: language === "en" ? english : chinese }, SLOW);
    expect(title).toBeTruthy();
    for (const content of contents) {
      const words = content.split("|");
      expect(
        (await screen.findAllByText(words[language === "zh" ? words.length - 1 : 0] ?? "", {}, SLOW)).length,
      ).toBeGreaterThan(0);
    }
    expect(screen.queryByText(/\{\{/)).toBeNull();
    expect(document.title).toContain("Plimsoll");
  });
});

describe("signing in", () => {
  test("a stranger is sent to the sign-in page and back to where they wanted to go", async () => {
    const { history } = await renderAt("/budgets", { fake: new FakeApi({ signedIn: false }) });
    await find("Sign in to Plimsoll");
    fireEvent.change(screen.getByLabelText("Email"), { target: { value: "owner@example.com" } });
    fireEvent.change(screen.getByLabelText("Password"), { target: { value: "wrong" } });
    fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
    await find("Email or password is not right.");
    fireEvent.change(screen.getByLabelText("Password"), { target: { value: "right" } });
    fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
    await screen.findByRole("heading", { level: 1, name: "Budgets" }, SLOW);
    expect(history.location.pathname).toBe("/budgets");
  });

  test("a session that ends leads to the sign-in page", async () => {
    const { fake, client } = await renderAt("/alerts");
    await screen.findByRole("heading", { level: 1, name: "Alerts" }, SLOW);
    fake.signedIn = false;
    await client.invalidateQueries();
    await find("Sign in to Plimsoll");
  });

  test.each([
    [undefined, "/"],
    ["/cost?by=team", "/cost?by=team"],
    ["https://elsewhere.example", "/"],
    ["//elsewhere.example", "/"],
    ["/\\elsewhere.example", "/"],
    ["/sign-in?next=/", "/"],
  ])("next=%s leads to %s", (next, want) => expect(safeNext(next)).toBe(want));
});

describe("states", () => {
  test("an address that is nothing says so", async () => {
    await renderAt("/nothing/here");
    await find("There is nothing here");
  });

  test("a failed list shows the service's words and can be tried again", async () => {
    const fake = new FakeApi();
    fake.overrides.set("GET /workloads", {
      status: 503,
      body: { title: "Service Unavailable", detail: "the database does not answer" },
    });
    await renderAt("/workloads", { fake });
    await find("the database does not answer");
    fake.overrides.clear();
    fireEvent.click(screen.getByRole("button", { name: "Try again" }));
    await find("assistant-70b");
  });

  test("a missing workload is a problem, not a crash", async () => {
    await renderAt(`/workloads/${uuid(5, 999)}`);
    await find("there is no such thing");
  });

  test("an empty estate says how to begin", async () => {
    const fake = new FakeApi();
    fake.clusters = [];
    await renderAt("/clusters", { fake });
    await find("No clusters yet");
  });

  test("a filter that matches nothing is told apart from an empty list", async () => {
    await renderAt("/workloads?q=zzz");
    await find("No workload matches");
  });

  test("old data is kept and marked when refreshing fails", async () => {
    const { fake, client } = await renderAt("/budgets");
    await find("Vision namespace");
    fake.overrides.set("GET /budgets", { status: 503, body: { detail: "away" } });
    await client.invalidateQueries({ queryKey: ["budgets"] });
    await find(/refreshing failed/);
    expect(screen.getByText("Vision namespace")).toBeTruthy();
  });

  test("a silent agent is said on its cluster", async () => {
    await renderAt(`/clusters/${UUIDS.offline}`);
    await find(/edge-ap has not reported for/);
  });

  test("a thousand workloads come in pages", async () => {
    const fake = new FakeApi();
    fake.workloads = Array.from({ length: 1000 }, (_, i) =>
      aWorkload(i, { key: `n/Deployment/w-${i}`, name: `w-${i}` }),
    );
    await renderAt("/workloads", { fake });
    await find("w-0");
    expect(screen.queryByText("w-50")).toBeNull();
    fireEvent.click(screen.getByText("Next"));
    await find("w-50");
    expect(screen.queryByText("w-0")).toBeNull();
  });

  test("a viewer sees no buttons that the service would refuse", async () => {
    const fake = new FakeApi();
    fake.me = { ...fake.me, role: "viewer" };
    await renderAt("/approvals", { fake });
    await find("finetune-nightly");
    expect(screen.queryByRole("button", { name: "Approve" })).toBeNull();
  });
});

describe("doing", () => {
  test("a proposal is approved after a question", async () => {
    const { fake } = await renderAt("/approvals");
    await find("finetune-nightly");
    const proposal = document.querySelector<HTMLElement>(`[data-proposal="${UUIDS.proposal}"]`);
    if (!proposal) throw new Error("no such proposal");
    fireEvent.click(within(proposal).getByRole("button", { name: "Approve" }));
    const dialog = await screen.findByRole("dialog", { name: "Approve this change?" }, SLOW);
    expect(fake.decisions.find((d) => d.id === UUIDS.proposal)?.state).toBe("proposed");
    fireEvent.click(within(dialog).getByRole("button", { name: "Approve" }));
    await waitFor(() => expect(fake.decisions.find((d) => d.id === UUIDS.proposal)?.state).toBe("approved"), SLOW);
    await waitFor(() => expect(document.querySelector(`[data-proposal="${UUIDS.proposal}"]`)).toBeNull(), SLOW);
  });

  test("a cluster is frozen after a question", async () => {
    const { fake } = await renderAt(`/clusters/${UUIDS.cluster}`);
    fireEvent.click(await screen.findByRole("button", { name: "Freeze" }, SLOW));
    const dialog = await screen.findByRole("dialog", { name: "Freeze inference-us?" }, SLOW);
    fireEvent.click(within(dialog).getByRole("button", { name: "Freeze" }));
    await find("This cluster is frozen. Decisions are made but nothing is changed.");
    expect(fake.clusters[0]?.frozen).toBe(true);
  });

  test("a cluster is added and its command shown", async () => {
    const fake = new FakeApi();
    await renderAt("/clusters", { fake });
    fireEvent.click(await screen.findByRole("button", { name: "Add cluster" }, SLOW));
    fireEvent.change(await screen.findByLabelText("Name", {}, SLOW), { target: { value: "bad name!" } });
    fireEvent.click(screen.getByRole("button", { name: "Create and get the command" }));
    await find(/Use 1 to 63/);
    fireEvent.change(screen.getByLabelText("Name"), { target: { value: "prod-eu-1" } });
    fireEvent.click(screen.getByRole("button", { name: "Create and get the command" }));
    await find(/clusterName=prod-eu-1/);
    expect(fake.clusters.at(-1)).toMatchObject({ name: "prod-eu-1", mode: "recommend" });
  });

  test("a policy is linted, saved on its version, and a conflict is shown", async () => {
    const { fake } = await renderAt(`/workloads/${UUIDS.workload}?tab=policy`);
    const editor = await screen.findByRole("textbox", { name: "Policy as YAML" }, SLOW);
    fireEvent.change(editor, { target: { value: "mode: enforce\n" } });
    await find("max is required");
    const save = screen.getByRole("button", { name: "Save as new version" });
    expect(save.hasAttribute("disabled")).toBe(true);
    fireEvent.change(editor, { target: { value: "mode: enforce\nmax: 9\n" } });
    await waitFor(() => expect(save.hasAttribute("disabled")).toBe(false), SLOW);
    fireEvent.click(save);
    await waitFor(() => expect(fake.policies.get(UUIDS.workload)?.[0]?.version).toBe(4), SLOW);

    fireEvent.change(editor, { target: { value: "mode: enforce\nmax: 8\n" } });
    const newest = fake.policies.get(UUIDS.workload) ?? [];
    fake.policies.set(UUIDS.workload, [{ ...(newest[0] as (typeof newest)[number]), version: 5 }, ...newest]);
    await waitFor(() => expect(save.hasAttribute("disabled")).toBe(false), SLOW);
    fireEvent.click(save);
    await find(/Somebody saved another version/);
  });

  test("a budget is made with an exact amount", async () => {
    const { fake } = await renderAt("/budgets");
    fireEvent.click(await screen.findByRole("button", { name: "New budget" }, SLOW));
    const dialog = await screen.findByRole("dialog", {}, SLOW);
    fireEvent.change(within(dialog).getByLabelText("Name"), { target: { value: "Research" } });
    fireEvent.change(within(dialog).getByLabelText("Amount per period"), { target: { value: "nothing" } });
    fireEvent.click(within(dialog).getByRole("button", { name: "Save" }));
    await find("Give an amount above zero.");
    fireEvent.change(within(dialog).getByLabelText("Amount per period"), { target: { value: "12,000.10" } });
    fireEvent.click(within(dialog).getByRole("button", { name: "Save" }));
    await waitFor(
      () => expect(fake.budgets.at(-1)).toMatchObject({ name: "Research", amount: { amount: "12000.1" } }),
      SLOW,
    );
  });

  test("a decision mark in the chart opens its explanation", async () => {
    const { history } = await renderAt(`/workloads/${UUIDS.workload}?range=h24`);
    const marks = await screen.findAllByRole("button", { name: /^Scale (up|down): \d+ → \d+$/ }, SLOW);
    fireEvent.click(marks[0] as HTMLElement);
    await waitFor(() => expect(history.location.pathname).toMatch(/^\/decisions\//), SLOW);
  });

  test("a decision is computed again", async () => {
    await renderAt(`/decisions/${UUIDS.decision}`);
    fireEvent.click(await screen.findByRole("button", { name: "Compute again" }, SLOW));
    await find(/Same result/);
  });

  test("cost is drilled into and the scope can be left again", async () => {
    const { history } = await renderAt("/cost");
    fireEvent.click(await screen.findByRole("button", { name: "Show only assistant" }, SLOW));
    await waitFor(
      () => expect(history.location.search.slice(1).split("&").sort()).toEqual(["by=namespace", "team=assistant"]),
      SLOW,
    );
    await screen.findByRole("button", { name: "Show only chat" }, SLOW);
  });

  test("the demo's speed is shown where time is simulated, and nowhere else", async () => {
    const first = await renderAt("/");
    await find(/60×/);
    first.unmount();
    const fake = new FakeApi();
    fake.me = { ...fake.me, demo: false };
    fake.clusters = [aCluster(1)];
    await renderAt("/", { fake });
    await screen.findByRole("heading", { level: 1, name: "Overview" }, SLOW);
    expect(screen.queryByText(/60×/)).toBeNull();
  });
});
