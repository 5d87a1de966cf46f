import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, test } from "vitest";
import { uuid } from "../test/factories";
import { FakeApi } from "../test/fake-api";
import { aTuning } from "../test/fake-tunings";
import { renderAt } from "../test/render";

const SLOW = { timeout: 8000 };
const path = `/workloads/${uuid(5, 1)}?tab=policy`;

test("a proposal shows its figures and is rolled out in stages", async () => {
  const { fake } = await renderAt(path);
  await screen.findByText("aim_share 0.6 → 0.75", {}, SLOW);
  screen.getByText("It would be cheaper and on time.");
  fireEvent.click(screen.getByRole("button", { name: "Roll out in stages" }));
  await waitFor(() => expect(fake.rollouts).toHaveLength(1), SLOW);
  expect(fake.rollouts[0]?.document).toContain("aim_share: 0.75");
  fireEvent.click(screen.getByRole("button", { name: "Dismiss" }));
  await screen.findByText("Dismissed", {}, SLOW);
});

test.each([
  ["en", "There are 5 days of history; 9 are needed."],
  ["zh", "只有 5 天历史，需要 9 天。"],
])("a short history says so, in %s", async (language, text) => {
  const fake = new FakeApi();
  fake.tunings.items = [
    aTuning(1, { state: "refused", reason: "too_little_history", days: 5, chosen_on: null, tried: [] }),
  ];
  await renderAt(path, { fake, language });
  await screen.findByText(text, {}, SLOW);
});

test("no tuning yet, and a policy that has nothing to tune", async () => {
  const fake = new FakeApi();
  fake.tunings.items = [];
  fake.tunings.mode = "none";
  await renderAt(path, { fake });
  await screen.findByText("Not tuned yet", {}, SLOW);
  screen.getByText("The policy in force has no slo rule: there is nothing to tune.");
});
