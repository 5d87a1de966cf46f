import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { TFunction } from "i18next";
import { describe, expect, test } from "vitest";
import { REASON_CODES, type Reason, readDecisionDetail } from "../api/decisions";
import { i18n } from "../i18n";
import { aDecisionDetail } from "../test/factories";
import { bindingReason, chosenAlternative, decisionSummary, decisionWhy, reasonName, reasonText } from "./explain";
import { makeFormat } from "./format";
import { moneyDecimal } from "./money";

const languages = [
  ["en", "en-GB"],
  ["zh", "zh-CN"],
] as const;

/** The numbers that services/optimizer gives with each code. */
const NUMBERS: Record<string, Record<string, number>> = {
  target_ratio: { value: 0.82, target: 0.6, ratio: 1.37, tolerance: 0.1, pods: 9, missing: 1, unready: 2 },
  within_tolerance: { value: 0.62, target: 0.6, ratio: 1.03, tolerance: 0.1, pods: 9 },
  unready_pods: { value: 0.82, target: 0.6, ratio: 1.37, tolerance: 0.1, pods: 3, unready: 4 },
  queue: { waiting: 112, target_per_replica: 16 },
  latency_high: { value: 2.91, target: 2, threshold: 2.4, rate_change: 0.22 },
  latency_low: { value: 0.6, target: 2, threshold: 1, rate_change: 0.01 },
  forecast: {
    demand: 6.2,
    level: 6.4,
    middle: 6.5,
    upper: 8.6,
    lead_seconds: 195,
    quantile: 0.94,
    hold_seconds: 600,
    expected_late: 0.004,
    aim: 0.006,
    mean: 8.1,
    runner_want: 10,
    runner_mean: 8.4,
    runner_late: 0.003,
    own_mean: 8.2,
    own_late: 0.004,
    plain_mean: 10.3,
    plain_late: 0.001,
  },
  forecast_hold: { hold_seconds: 600, need: 9 },
  backlog: { backlog_seconds: 240, demand: 6.2, late_seconds: 5 },
  no_forecast: { demand: 6.2, age_seconds: 90 },
  learning: { hours: 0, needed: 4 },
  relearning: { hours: 0, needed: 4 },
  collapse: { demand: 0.4, median: 6, replicas: 10, since_seconds: 300 },
  hint: { factor: 3, before: 4, demand: 12, in_seconds: -60 },
  hint_unused: { rate: 40 },
  largest_need: { rules: 2 },
  steady: { needed: 9 },
  no_signal: { signals: 2, age_seconds: 300 },
  partial_signal: { signals: 2, not_fresh: 1, age_seconds: 96 },
  cooldown_up: { cooldown_seconds: 180, since_seconds: 60 },
  cooldown_down: { cooldown_seconds: 300, since_seconds: 120 },
  stabilisation: { window_seconds: 300, recommendation: 12 },
  flapping: { window_seconds: 1200, recommendation: 12, cycles: 2, base_seconds: 300 },
  step_up: { limit: 12 },
  step_down: { limit: 6 },
  long_tail: { quiet_seconds: 1800, use: 0.05, use_ratio: 0.2 },
  min_replicas: { min: 2 },
  max_replicas: { max: 24 },
  service_min: { min: 6, policy_min: 1 },
  service_max: { max: 4, policy_max: 20 },
  frozen: { needed: 15 },
  conflict: { needed: 15, age_seconds: 40 },
  zero_replicas: { needed: 0, min: 1 },
  budget: { allowed_hour: 42, rate_hour: 40.5, left_hour: 1.5, remaining: 900, wanted: 14 },
  budget_over: { allowed_hour: 0, rate_hour: 40.5, left_hour: -40.5, remaining: -12.25, wanted: 9 },
  budget_grace: { allowed_hour: 30, rate_hour: 40.5, left_hour: -10.5, remaining: 300, wanted: 12 },
  spend_breaker: { rate_hour: 130, limit_hour: 120, usual_hour: 40 },
  budget_unknown: { allowed_hour: 0, rate_hour: 40.5, left_hour: -40.5, remaining: -12.25 },
};

function reason(code: string, numbers = NUMBERS[code] ?? {}, over: Partial<Reason> = {}): Reason {
  const signal = ["target_ratio", "within_tolerance", "unready_pods"].includes(code)
    ? "gpu_sm_active_ratio"
    : code.startsWith("latency")
      ? "ttft_p99_seconds"
      : "queue_length";
  const until = new Date("2026-11-27T14:25:00Z");
  return { code, signal, from: 9, to: 12, numbers, until, binding: true, ...over };
}

describe.each(languages)("in %s", (language, locale) => {
  const t: TFunction = i18n.getFixedT(language);
  const f = makeFormat(locale, "USD", "UTC");

  test.each(REASON_CODES)("%s has a name and a whole sentence", (code) => {
    expect(reasonName(t, code)).not.toBe(code);
    const text = reasonText(t, f, reason(code));
    expect(text.length).toBeGreaterThan(8);
    expect(text).not.toMatch(/\{\{|undefined|NaN|–|reasonText/);
  });

  test.each([
    ["queue with running work", reason("queue", { waiting: 4, running: 118, target_per_replica: 16 })],
    ["queue by age", reason("queue", { waiting: 4, target_per_replica: 16, age_seconds: 30, max_age_seconds: 10 })],
    ["steady latency", reason("steady", { value: 1, target: 2 })],
    ["steady while starting", reason("steady", { value: 3, target: 2, threshold: 2.4, starting: 2 })],
    [
      "stabilisation on the way up",
      reason("stabilisation", { window_seconds: 60, recommendation: 9 }, { from: 12, to: 9 }),
    ],
    ["above max in the dark", reason("max_replicas", { max: 24, not_fresh: 1 })],
    ["a conflict without a time", reason("conflict", { needed: 3 })],
  ])("%s is said in its own way", (_, r) => {
    const text = reasonText(t, f, r);
    expect(text).not.toMatch(/\{\{|undefined|NaN|–/);
    expect(text).not.toBe(reasonText(t, f, reason(r.code)));
  });

  test("a code of a newer service is shown with its numbers", () => {
    expect(reasonText(t, f, reason("new_rule", { b: 2, a: 1.5 }))).toMatch(/new_rule.*a 1\.5, b 2/);
  });

  test("a number that is absent reads as a dash, never as zero", () => {
    expect(reasonText(t, f, reason("step_up", {}))).toContain("–");
  });
});

test("the sentence says the numbers", () => {
  const t: TFunction = i18n.getFixedT("en");
  const f = makeFormat("en-GB", "USD", "UTC");
  expect(reasonText(t, f, reason("target_ratio"))).toBe(
    "GPU SM active is 82% against a target of 60%, a ratio of 1.37. That asks for 12 replicas. " +
      "Ready pods that gave no value: 1; they are counted with caution. Pods not ready: 2.",
  );
  expect(reasonText(t, f, reason("spend_breaker"))).toContain("The plan would cost $130.00 an hour");
  expect(decisionSummary(t, f, { outcome: "scale_up", from: 9, needed: 15, target: 12 })).toBe(
    "Scale up from 9 to 12 replicas.",
  );
  expect(decisionSummary(t, f, { outcome: "scale_down", from: 2, needed: 1, target: 1 })).toBe(
    "Scale down from 2 to 1 replica.",
  );
  expect(decisionSummary(t, f, { outcome: "hold", from: 9, needed: 15, target: 9 })).toBe(
    "Keep 9 replicas, although the signals ask for 15.",
  );
});

test("a decision that was held back says first what the signals wanted", () => {
  const t: TFunction = i18n.getFixedT("en");
  const f = makeFormat("en-GB", "USD", "UTC");
  expect(decisionWhy(t, f, readDecisionDetail(aDecisionDetail(1), "USD"))).toBe(
    "Requests waiting: 112; running: 118. One replica shall hold 16. That asks for 15 replicas. " +
      "One step may not go above 12 replicas.",
  );
});

test("the codes are those of the optimizer", () => {
  const room = join(import.meta.dirname, "../../../services/optimizer");
  const source = readdirSync(room)
    .filter((name) => name.endsWith(".go") && !name.endsWith("_test.go"))
    .map((name) => readFileSync(join(room, name), "utf8"))
    .join("\n");
  const codes = [...source.matchAll(/ReasonCode = "(\w+)"/g)].map((m) => m[1] ?? "");
  expect(codes.length).toBeGreaterThan(20);
  expect([...REASON_CODES].sort()).toEqual(codes.sort());
});

test("the chosen count is priced like its alternatives", () => {
  const d = readDecisionDetail(aDecisionDetail(1), "USD");
  const chosen = chosenAlternative(d);
  expect(bindingReason(d)?.code).toBe("step_up");
  expect(chosen.costHour && moneyDecimal(chosen.costHour)).toBe("49.1589");
  expect(chosen.load).toBeCloseTo(1.198, 2);
  expect(chosenAlternative({ ...d, alternatives: [] })).toMatchObject({ costHour: null, load: null });
});
