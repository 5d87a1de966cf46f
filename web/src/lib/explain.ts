// Sentences about decisions, made from reason codes and numbers. The service sends no text, so both languages say the same.
import type { TFunction } from "i18next";
import {
  type Alternative,
  type Decision,
  type DecisionDetail,
  REASON_CODES,
  type Reason,
  type ReasonCode,
} from "../api/decisions";
import type { Format } from "./format";
import { signalName, signalValue } from "./signal";

function known(code: string): ReasonCode | undefined {
  return REASON_CODES.find((c) => c === code);
}

/** A reason's short name; a code that this page does not know is shown as it is. */
export function reasonName(t: TFunction, code: string): string {
  const reason = known(code);
  return reason ? t(`reason.${reason}`) : code;
}

/** A count with its noun: "1 replica", "12 replicas". */
export function replicas(t: TFunction, f: Format, count: number): string {
  return t(count === 1 ? "unit.replica" : "unit.replicas", { value: f.integer(count) });
}

/** What a decision does, in one sentence. */
export function decisionSummary(
  t: TFunction,
  f: Format,
  d: Pick<Decision, "outcome" | "from" | "needed" | "target">,
): string {
  const values = {
    from: f.integer(d.from),
    fromReplicas: replicas(t, f, d.from),
    target: f.integer(d.target),
    targetReplicas: replicas(t, f, d.target),
    needed: f.integer(d.needed),
  };
  if (d.outcome === "hold" && d.needed !== d.from) return t("decisions.summary.holdNeeded", values);
  return t(`decisions.summary.${d.outcome}`, values);
}

/** The reason that settled the count. */
export function bindingReason(d: DecisionDetail): Reason | undefined {
  return d.reasons.find((r) => r.binding) ?? d.reasons.findLast((r) => r.code === d.binding);
}

const NEEDS: readonly string[] = [
  "target_ratio",
  "queue",
  "latency_high",
  "latency_low",
  "forecast",
  "forecast_hold",
  "backlog",
  "no_forecast",
  "collapse",
  "hint",
];

/** The reason that made the need, when something else settled the count: what the signals wanted before it was held back. */
function needReason(d: DecisionDetail): Reason | undefined {
  return d.reasons.find((r) => !r.binding && NEEDS.includes(r.code) && r.to === d.needed);
}

/** Why a decision is what it is: what the signals asked for, then what settled it. */
export function decisionWhy(t: TFunction, f: Format, d: DecisionDetail): string {
  const reasons = [needReason(d), bindingReason(d)].filter((r) => r !== undefined);
  return reasons.map((r) => reasonText(t, f, r)).join(" ");
}

/** The numbers of a reason as words for its sentence. A number that is absent reads as a dash, never as zero. */
function words(t: TFunction, f: Format, r: Reason) {
  const n = r.numbers;
  const dash = "–";
  const have = (name: string, show: (v: number) => string) => {
    const value = n[name];
    return value === undefined ? dash : show(value);
  };
  const count = (v: number) => replicas(t, f, v);
  const measured = (v: number) => (r.signal ? signalValue(t, f, r.signal, v) : f.number(v));
  return {
    signal: r.signal ? signalName(t, r.signal) : dash,
    from: f.integer(r.from),
    to: f.integer(r.to),
    toReplicas: count(r.to),
    recommendationReplicas: have("recommendation", count),
    limitReplicas: have("limit", count),
    minReplicas: have("min", count),
    maxReplicas: have("max", count),
    neededReplicas: have("needed", count),
    startingReplicas: have("starting", count),
    value: have("value", measured),
    target: have("target", measured),
    threshold: have("threshold", measured),
    ratio: have("ratio", f.number),
    tolerance: have("tolerance", f.percent),
    pods: have("pods", f.integer),
    waiting: have("waiting", f.number),
    running: have("running", f.number),
    perReplica: have("target_per_replica", f.number),
    age: have("age_seconds", f.duration),
    maxAge: have("max_age_seconds", f.duration),
    rules: have("rules", f.integer),
    signals: have("signals", f.integer),
    notFresh: have("not_fresh", f.integer),
    since: have("since_seconds", f.duration),
    cooldown: have("cooldown_seconds", f.duration),
    window: have("window_seconds", f.duration),
    base: have("base_seconds", f.duration),
    cycles: have("cycles", f.integer),
    quiet: have("quiet_seconds", f.duration),
    use: have("use", f.percent),
    useRatio: have("use_ratio", f.percent),
    demand: have("demand", f.number),
    upper: have("upper", f.number),
    lead: have("lead_seconds", f.duration),
    quantile: have("quantile", f.percent),
    hold: have("hold_seconds", f.duration),
    expectedLate: have("expected_late", f.percent),
    aim: have("aim", f.percent),
    mean: have("mean", f.number),
    need: have("need", count),
    runnerWant: have("runner_want", count),
    runnerMean: have("runner_mean", f.number),
    runnerLate: have("runner_late", f.percent),
    plainMean: have("plain_mean", f.number),
    plainLate: have("plain_late", f.percent),
    ownMean: have("own_mean", f.number),
    ownLate: have("own_late", f.percent),
    backlog: have("backlog_seconds", f.number),
    lateAfter: have("late_seconds", f.duration),
    median: have("median", f.number),
    before: have("replicas", count),
    hintReplicas: have("replicas", count),
    factor: have("factor", f.number),
    rate: have("rate", f.number),
    usual: have("before", f.number),
    max: have("max", f.integer),
    allowedHour: have("allowed_hour", f.price),
    rateHour: have("rate_hour", f.price),
    usualHour: have("usual_hour", f.price),
    limitHour: have("limit_hour", f.price),
    remaining: have("remaining", f.price),
    wanted: have("wanted", f.integer),
    needed: have("needed", f.integer),
    until: r.until ? f.dateTime(r.until) : dash,
  };
}

type Variant = keyof typeof import("../locales/en").en.reasonText;

/** Some reasons are said in more than one way, depending on the numbers that came with them. */
function variant(r: Reason, code: ReasonCode): Variant {
  const has = (name: string) => r.numbers[name] !== undefined;
  switch (code) {
    case "queue":
      if (has("age_seconds")) return "queue_age";
      return has("running") ? "queue_running" : "queue";
    case "steady":
      if (has("starting")) return "steady_starting";
      return has("value") ? "steady_latency" : "steady";
    case "stabilisation":
      return r.to < r.from ? "stabilisation_up" : "stabilisation";
    case "hint":
      if (has("factor")) return "hint_factor";
      return has("rate") ? "hint_rate" : "hint";
    case "max_replicas":
      return has("not_fresh") ? "max_blind" : "max_replicas";
    case "conflict":
      return has("age_seconds") ? "conflict" : "conflict_plain";
    default:
      return code;
  }
}

/** One step of the way, in one sentence with its numbers. */
export function reasonText(t: TFunction, f: Format, r: Reason): string {
  const code = known(r.code);
  if (!code) {
    const numbers = Object.entries(r.numbers)
      .map(([name, value]) => `${name} ${f.number(value)}`)
      .sort()
      .join(", ");
    return t("reasonText.unknown", { code: r.code, numbers });
  }
  const sentences = [t(`reasonText.${variant(r, code)}`, words(t, f, r))];
  if (code === "target_ratio" || code === "within_tolerance" || code === "unready_pods" || code === "queue") {
    const { missing, unready } = r.numbers;
    if (missing) sentences.push(t("reasonNote.missing", { value: f.integer(missing) }));
    if (unready) sentences.push(t("reasonNote.unready", { value: f.integer(unready) }));
  }
  if (code === "forecast") {
    if (r.numbers.runner_want !== undefined) sentences.push(t("reasonNote.runnerUp", words(t, f, r)));
    if (r.numbers.plain_mean) sentences.push(t("reasonNote.counterfactual", words(t, f, r)));
  }
  return sentences.join(" ");
}

/**
 * The chosen count as a row beside its alternatives. Cost is so many replicas at one price and load so much work over so many, so
 * both follow from any alternative that has them; without one they stay unknown.
 */
export function chosenAlternative(d: Pick<DecisionDetail, "target" | "alternatives">): Alternative {
  const priced = d.alternatives.find((a) => a.costHour !== null && a.replicas > 0);
  const loaded = d.alternatives.find((a) => a.load !== null && a.replicas > 0);
  return {
    replicas: d.target,
    costHour: priced?.costHour
      ? {
          nano: (priced.costHour.nano * BigInt(d.target)) / BigInt(priced.replicas),
          currency: priced.costHour.currency,
        }
      : null,
    load: loaded?.load && d.target > 0 ? (loaded.load * loaded.replicas) / d.target : null,
    rejected: "",
  };
}
