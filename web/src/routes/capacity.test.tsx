import { fireEvent, screen } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { uuid } from "../test/factories";
import { FakeApi } from "../test/fake-api";
import { renderAt } from "../test/render";

const SLOW = { timeout: 4000 };
const page = (n: number, tab: string) => `/clusters/${uuid(3, n)}?tab=${tab}`;

describe.each([
  ["map", ["node-drain", "To be drained|将被排空", "A100-40GB"]],
  ["plan", ["g6.2xlarge", "$24.84/h|$24.84/小时", "Pack everything anew|全部重新装箱"]],
  ["pending", ["media/giant-1", "Fits no offering|没有机型可容纳"]],
  [
    "conflicts",
    [
      "horizontal-pod-autoscaler",
      "yields|让步",
      "eu-central-1/gpu-inference",
      "Size 6 → 4|大小 6 → 4",
      "stopped: fought over|已停止：双方争夺",
    ],
  ],
] as const)("%s", (tab, contents) => {
  test.each(["en", "zh"] as const)("in %s", async (language) => {
    await renderAt(page(1, tab), { language });
    for (const content of contents) {
      const words = content.split("|");
      const text = words[language === "zh" ? words.length - 1 : 0] ?? "";
      expect((await screen.findAllByText(text, {}, SLOW)).length).toBeGreaterThan(0);
    }
    expect(screen.queryByText(/\{\{/)).toBeNull();
  });
});

test("a node tells what runs on it, how its GPUs are cut and why it stays", async () => {
  await renderAt(page(1, "map"));
  fireEvent.click(await screen.findByLabelText(/^node-mig/, {}, SLOW));
  expect(await screen.findByText("1g.5gb × 56", {}, SLOW)).toBeTruthy();
  expect(screen.getByText(/changed only by a drain/)).toBeTruthy();
  expect(screen.getByText(/2 × media\/Deployment\/image-gen/)).toBeTruthy();
  expect(screen.getByText("550.54.14, CUDA up to 12.4")).toBeTruthy();
});

test("a group tells what else was considered, and the ladder", async () => {
  await renderAt(page(1, "plan"));
  fireEvent.click(await screen.findByText(/What else was considered/, {}, SLOW));
  expect(await screen.findByText(/was out of stock a moment ago/, {}, SLOW)).toBeTruthy();
  expect(screen.getByText(/Other zone: g6.2xlarge/)).toBeTruthy();
});

test("what is kept ready tells its cost, the delay it saves and what is missing", async () => {
  await renderAt(page(1, "plan"));
  expect(await screen.findByText("l4-spare", {}, SLOW)).toBeTruthy();
  expect(screen.getByText("1 missing: a cap")).toBeTruthy();
  expect(screen.getByText("$1.96/h")).toBeTruthy();
  expect(screen.getByText(/demand rose by 3 GPUs/)).toBeTruthy();
});

test("pods that were told to save their work tell whether they did", async () => {
  await renderAt(page(1, "plan"));
  expect(await screen.findByText("train/llama-2", {}, SLOW)).toBeTruthy();
  expect(screen.getByText("Not in time")).toBeTruthy();
  expect(screen.getByText(/it answered 503/)).toBeTruthy();
});

test("an agent that tells no pods is named", async () => {
  const fake = new FakeApi();
  const path = `GET /clusters/${uuid(3, 1)}/checkpoints`;
  fake.overrides.set(path, { status: 200, body: { told: false, items: [] } });
  await renderAt(page(1, "plan"), { fake });
  expect(await screen.findByText(/switch on drain.enabled/, {}, SLOW)).toBeTruthy();
});

test("a pod that fits nothing tells what keeps it from how many offerings", async () => {
  await renderAt(page(1, "pending"));
  expect(
    await screen.findByText(/number of GPUs: keeps it from 42 offerings, 6 of them for this alone/, {}, SLOW),
  ).toBeTruthy();
});

test.each(["map", "plan", "pending"])("%s of a cluster that was never planned says so", async (tab) => {
  await renderAt(page(4, tab));
  expect((await screen.findAllByText("No plan yet", {}, SLOW)).length).toBeGreaterThan(0);
});

test.each(["map", "plan", "pending", "conflicts"])(
  "%s says that the service does not answer, and asks again",
  async (tab) => {
    const fake = new FakeApi();
    const path = { map: "capacity-map", plan: "capacity-plan", pending: "pending-pods", conflicts: "conflicts" }[tab];
    fake.overrides.set(`GET /clusters/${uuid(3, 1)}/${path}`, {
      status: 503,
      body: { status: 503, title: "Service Unavailable", detail: "the database does not answer" },
    });
    await renderAt(page(1, tab), { fake });
    expect((await screen.findAllByText("the database does not answer", {}, { timeout: 8000 })).length).toBeGreaterThan(
      0,
    );
  },
);
