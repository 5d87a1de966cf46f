import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { aRollout, uuid } from "../test/factories";
import { FakeApi } from "../test/fake-api";
import { renderAt } from "../test/render";

const SLOW = { timeout: 8000 };
const WORKLOAD = uuid(5, 1);
const path = `/workloads/${WORKLOAD}?tab=policy`;

test("an edited policy is rolled out in stages, with a reason where it was not replayed, and stopped", async () => {
  const { fake } = await renderAt(path);
  const start = await screen.findByRole("button", { name: "Roll the edited policy out" }, SLOW);
  expect(start.hasAttribute("disabled")).toBe(true);
  const editor = screen.getByRole("textbox", { name: "Policy as YAML" });
  fireEvent.change(editor, { target: { value: "mode: enforce\nmax: 9\n" } });
  await waitFor(() => expect(start.hasAttribute("disabled")).toBe(false), SLOW);
  fireEvent.change(screen.getByLabelText("Shadow, minutes"), { target: { value: "30" } });
  fireEvent.click(start);
  fireEvent.change(await screen.findByLabelText("Reason", {}, SLOW), { target: { value: "incident" } });
  expect(fake.rollouts).toHaveLength(0);
  fireEvent.click(screen.getByRole("button", { name: "Start without a replay" }));
  await screen.findByText("Shadow", {}, SLOW);
  expect(fake.rollouts[0]).toMatchObject({
    document: "mode: enforce\nmax: 9\n",
    shadow_seconds: 1800,
    canary_share: 0.25,
    reason: "incident",
  });
  fireEvent.click(screen.getByRole("button", { name: "Stop" }));
  fireEvent.click(within(await screen.findByRole("dialog", {}, SLOW)).getByRole("button", { name: "Stop" }));
  await screen.findByText("Earlier rollouts", {}, SLOW);
  expect(fake.rollouts[0]?.state).toBe("cancelled");
});

test.each([
  ["en", "Late requests: 0.4% before, not known now", "The canary keeps at least 4 replicas", "Roll back"],
  ["zh", "迟到的请求: 之前 0.4%，现在 未知", "金丝雀至少保留 4 个副本", "回退"],
])("a canary says how it goes and is rolled back, in %s", async (language, late, floor, back) => {
  const fake = new FakeApi();
  fake.rollouts = [aRollout(WORKLOAD, { state: "canary", version: 4, canary_floor: 4, before_late_ratio: 0.004 })];
  await renderAt(path, { fake, language });
  await screen.findByText(late, {}, SLOW);
  screen.getByText(floor);
  fireEvent.click(screen.getByRole("button", { name: back }));
  fireEvent.click(within(await screen.findByRole("dialog", {}, SLOW)).getByRole("button", { name: back }));
  await waitFor(() => expect(fake.rollouts[0]?.state).toBe("rolled_back"), SLOW);
});

test("why a rollout was taken back is said", async () => {
  const fake = new FakeApi();
  fake.rollouts = [aRollout(WORKLOAD, { state: "rolled_back", outcome: "late_ratio" })];
  await renderAt(path, { fake });
  await screen.findByText(/requests got late/, {}, SLOW);
});
