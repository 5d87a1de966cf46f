import type { TFunction } from "i18next";
import type { Alert } from "../api/alerts";
import { rolloutWhy } from "./capacity-policy";
import type { Format } from "./format";
import { parseMoney } from "./money";

export const ALERT_KINDS = [
  "budget_threshold",
  "agent_offline",
  "unknown_price",
  "conflict",
  "group_conflict",
  "service_short",
  "service_silent",
  "stuck_at_max",
  "spend_breaker",
  "cost_anomaly",
  "stale_prices",
  "delivery_failed",
  "clock_skew",
  "scale_failed",
  "price_quarantined",
  "cloud_account_failing",
  "pods_unschedulable",
  "capacity_rollout",
  "node_compliance",
  "held_by_budget",
  "signals_missing",
  "slo_burn",
  "slo_burn_slow",
  "thrash",
  "commitment_expiring",
  "spot_interruptions",
  "scale_out_failing",
] as const;

/** A kind of alert in words; one that this page does not know keeps its own name. */
export function alertKind(t: TFunction, kind: string): string {
  const known = ALERT_KINDS.find((k) => k === kind);
  return known ? t(`alerts.kinds.${known}`) : kind;
}

/** What one alert says in a few words: a threshold that only the forecast reaches is not called passed. */
export function alertTitle(t: TFunction, { kind, detail }: Pick<Alert, "kind" | "detail">): string {
  if (kind !== "budget_threshold" || detail.basis !== "forecast") return alertKind(t, kind);
  const whole = typeof detail.percent === "number" && detail.percent >= 100;
  return t(whole ? "alerts.kinds.budget_forecast" : "alerts.kinds.budget_foreseen");
}

function amount(f: Format, value: unknown, currency: unknown): string {
  if (typeof value !== "string" || typeof currency !== "string") return "–";
  try {
    return f.money(parseMoney(value, currency));
  } catch {
    return value;
  }
}

/** What an alert is about, from its detail; its subject when the detail is of a shape that this page does not know. */
export function alertText(t: TFunction, f: Format, alert: Alert): string {
  const { name, basis, percent, limit, figure, currency, cluster, unpriced_share: unpriced } = alert.detail;
  if (alert.kind === "budget_threshold" && typeof name === "string" && typeof percent === "number") {
    return t(basis === "forecast" ? "alerts.budgetForecast" : "alerts.budgetActual", {
      name,
      percent: f.integer(percent),
      figure: amount(f, figure, currency),
      limit: amount(f, limit, currency),
    });
  }
  if (alert.kind === "cost_anomaly" && typeof name === "string") {
    return `${name || t("telling.scopes.tenant")}: ${amount(f, alert.detail.actual, currency)} · ${t("telling.expected")} ${amount(f, alert.detail.expected, currency)}`;
  }
  if (alert.kind === "spend_breaker" && typeof name === "string") {
    return `${name}: ${amount(f, alert.detail.rate_hour, currency)} / ${amount(f, alert.detail.limit_hour, currency)}`;
  }
  const figures = alert.detail;
  const count = (key: string) => (typeof figures[key] === "number" ? f.integer(figures[key]) : "–");
  const share = (key: string) => (typeof figures[key] === "number" ? f.percent(figures[key] / 100) : "–");
  if ((alert.kind === "slo_burn" || alert.kind === "slo_burn_slow") && typeof figures.workload === "string") {
    return t("alerts.burn", {
      workload: figures.workload,
      late: share("late_percent"),
      minutes: count("window_minutes"),
      allowed: share("objective_percent"),
    });
  }
  if (alert.kind === "thrash" && typeof figures.workload === "string") {
    return t("alerts.thrash", { workload: figures.workload, cycles: count("cycles") });
  }
  if (alert.kind === "commitment_expiring" && typeof name === "string") {
    const days = figures.days;
    return t("alerts.expiring", { name, time: typeof days === "number" ? f.duration(days * 86_400) : "–" });
  }
  if (alert.kind === "spot_interruptions" && typeof figures.region === "string") {
    return t("alerts.spotLost", { region: figures.region, lost: count("lost"), machines: count("machines") });
  }
  if (alert.kind === "scale_out_failing" && typeof cluster === "string") {
    return t("alerts.scaleOut", { cluster, failed: count("failed"), tried: count("tried") });
  }
  if (alert.kind === "service_short" && typeof figures.service === "string") {
    return t("alerts.serviceShort", {
      service: figures.service,
      lacking: count("lacking"),
      wanted: count("wanted"),
      where: typeof figures.where === "string" && figures.where !== "" ? figures.where : "–",
    });
  }
  if (alert.kind === "service_silent" && typeof figures.service === "string" && typeof cluster === "string") {
    return t("alerts.serviceSilent", { service: figures.service, cluster, replicas: count("replicas") });
  }
  if (alert.kind === "capacity_rollout" && typeof cluster === "string" && typeof figures.why === "string") {
    const why = rolloutWhy(figures.why);
    return `${cluster}: ${why ? t(`capacityPolicy.rollout.why.${why}`) : figures.why}`;
  }
  if (alert.kind === "node_compliance" && typeof cluster === "string") {
    return t("capacityPolicy.compliance.alert", { cluster, nodes: count("nodes") });
  }
  for (const key of ["workload", "region"]) {
    const value = alert.detail[key];
    if (typeof value === "string") return value;
  }
  if (alert.kind === "delivery_failed" && typeof name === "string") return name;
  if (typeof cluster === "string") {
    return typeof unpriced === "number"
      ? `${cluster}: ${t("overview.unpriced", { share: f.percent(unpriced) })}`
      : cluster;
  }
  return alert.subject;
}
