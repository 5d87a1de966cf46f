// The fields of a capacity policy as an editor shows them: texts, with bounds and defaults, and what is wrong with them.
import type { PolicyDoc } from "../api/capacity-policy";
import { capacityPolicy } from "../locales/capacity-policy.en";

export type RolloutWhy = keyof typeof capacityPolicy.rollout.why;

/** A reason that this page has words for; null: it has none. */
export function rolloutWhy(code: string): RolloutWhy | null {
  return Object.hasOwn(capacityPolicy.rollout.why, code) ? (code as RolloutWhy) : null;
}

export type FieldKind =
  | "integer"
  | "seconds"
  | "hours"
  | "permille"
  | "money"
  | "flag"
  | "names"
  | "text"
  | "budget"
  | "rows";

export const SECTIONS = {
  caps: ["max_nodes", "max_gpus", "hourly_max", "daily_max"],
  buying: [
    "no_spot",
    "spot_unlabeled",
    "cpu_on_gpu",
    "instance_types",
    "zones",
    "max_stock_out",
    "insure_milli",
    "equivalent",
  ],
  change: ["max_actions", "horizon_hours", "move_cost", "max_moved_milli", "min_age_sec", "ramp_sec"],
  safety: ["stale_sec", "waiting_sec", "freeze"],
  warm: ["warm"],
  gpu: ["gpu_driver", "gpu_cuda", "gpu_needs"],
  pools: ["pool_labels", "pool_taints", "pool_startup_taints", "pool_expire", "pool_grace", "pool_drift", "pool_empty"],
  rules: ["rule_age", "rule_labels", "rule_taints", "rule_driver", "rule_same_driver"],
} as const;

export type Section = keyof typeof SECTIONS;
export type FieldKey = (typeof SECTIONS)[Section][number];

interface Field {
  kind: FieldKind;
  max?: number;
  /** What holds while the field is empty; absent: no limit, or no. */
  standard?: number;
}

export const FIELDS: Record<FieldKey, Field> = {
  max_nodes: { kind: "integer", max: 10_000 },
  max_gpus: { kind: "integer", max: 1_000_000 },
  hourly_max: { kind: "money" },
  daily_max: { kind: "money" },
  no_spot: { kind: "flag" },
  spot_unlabeled: { kind: "flag" },
  cpu_on_gpu: { kind: "flag" },
  instance_types: { kind: "names", max: 500 },
  zones: { kind: "names", max: 50 },
  max_stock_out: { kind: "permille", max: 1000, standard: 900 },
  insure_milli: { kind: "permille", max: 1000, standard: 0 },
  equivalent: { kind: "rows", max: 100 },
  max_actions: { kind: "integer", max: 1000, standard: 20 },
  horizon_hours: { kind: "hours", max: 720, standard: 6 },
  move_cost: { kind: "money", standard: 0.02 },
  max_moved_milli: { kind: "permille", max: 1000, standard: 250 },
  min_age_sec: { kind: "seconds", max: 86_400, standard: 600 },
  ramp_sec: { kind: "seconds", max: 86_400, standard: 300 },
  stale_sec: { kind: "seconds", max: 86_400, standard: 300 },
  waiting_sec: { kind: "seconds", max: 86_400, standard: 300 },
  freeze: { kind: "rows", max: 50 },
  warm: { kind: "rows", max: 50 },
  gpu_driver: { kind: "text" },
  gpu_cuda: { kind: "text" },
  gpu_needs: { kind: "rows", max: 200 },
  pool_labels: { kind: "names", max: 50 },
  pool_taints: { kind: "names", max: 20 },
  pool_startup_taints: { kind: "names", max: 20 },
  pool_expire: { kind: "hours", max: 87_600 },
  pool_grace: { kind: "seconds", max: 604_800 },
  pool_drift: { kind: "budget" },
  pool_empty: { kind: "budget" },
  rule_age: { kind: "hours", max: 87_600 },
  rule_labels: { kind: "names", max: 50 },
  rule_taints: { kind: "names", max: 50 },
  rule_driver: { kind: "integer", max: 100_000 },
  rule_same_driver: { kind: "flag" },
};

/** Columns of fields that are lists of rows. */
export const ROWS = {
  equivalent: ["for", "use"],
  freeze: ["days", "from", "to", "time_zone"],
  warm: ["name", "how", "count", "least", "quantile", "gpu_model", "gpus", "instance_types", "hourly_max", "spot"],
  gpu_needs: ["workload", "driver", "cuda", "compute"],
} as const;

export type RowsKey = keyof typeof ROWS;
export type Column = (typeof ROWS)[RowsKey][number];
export type Row = Partial<Record<Column, string>>;

export interface Draft {
  /** Fields but those of rows; names are separated by commas, a flag is "yes" or empty. */
  text: Partial<Record<FieldKey, string>>;
  rows: Record<RowsKey, Row[]>;
}

const names = (list: readonly string[] | null | undefined) => (list ?? []).join(", ");
const flag = (v: boolean | undefined) => (v ? "yes" : "");
const count = (v: number | undefined) => (v ? String(v) : "");
/** Thousandths as a percentage, 250 as "25". */
const share = (v: number | undefined) => (v ? String(v / 10) : "");

export function draftOf(doc: PolicyDoc): Draft {
  const rules = doc.node_rules;
  const pools = doc.node_pools;
  return {
    text: {
      max_nodes: count(doc.max_nodes),
      max_gpus: count(doc.max_gpus),
      hourly_max: doc.hourly_max ?? "",
      daily_max: doc.daily_max ?? "",
      no_spot: flag(doc.no_spot),
      spot_unlabeled: flag(doc.spot_unlabeled),
      cpu_on_gpu: flag(doc.cpu_on_gpu),
      instance_types: names(doc.instance_types),
      zones: names(doc.zones),
      max_stock_out: share(doc.max_stock_out),
      insure_milli: share(doc.insure_milli),
      max_actions: count(doc.max_actions),
      horizon_hours: count(doc.horizon_hours),
      move_cost: doc.move_cost ?? "",
      max_moved_milli: share(doc.max_moved_milli),
      min_age_sec: count(doc.min_age_sec),
      ramp_sec: count(doc.ramp_sec),
      stale_sec: count(doc.stale_sec),
      waiting_sec: count(doc.waiting_sec),
      gpu_driver: doc.gpu_driver ?? "",
      gpu_cuda: doc.gpu_cuda ?? "",
      pool_labels: Object.entries(pools?.labels ?? {})
        .map(([key, value]) => `${key}=${value}`)
        .sort()
        .join(", "),
      pool_taints: names(pools?.taints),
      pool_startup_taints: names(pools?.startup_taints),
      pool_expire: count(pools?.expire_after_hours),
      pool_grace: count(pools?.termination_grace_sec),
      pool_drift: pools?.drift_budget ?? "",
      pool_empty: pools?.empty_budget ?? "",
      rule_age: count(rules?.max_age_hours),
      rule_labels: names(rules?.labels),
      rule_taints: names(rules?.gpu_taints),
      rule_driver: count(rules?.min_driver),
      rule_same_driver: flag(rules?.same_driver),
    },
    rows: {
      equivalent: (doc.equivalent ?? []).map((e) => ({ for: e.for, use: e.use })),
      freeze: (doc.freeze ?? []).map((w) => ({
        days: names(w.days),
        from: w.from,
        to: w.to,
        time_zone: w.time_zone,
      })),
      warm: (doc.warm ?? []).map((w) => ({
        name: w.name,
        how: w.how,
        count: String(w.count),
        least: count(w.least),
        quantile: share(w.quantile),
        gpu_model: w.gpu_model ?? "",
        gpus: count(w.gpus),
        instance_types: names(w.instance_types),
        hourly_max: w.hourly_max ?? "",
        spot: flag(w.spot),
      })),
      gpu_needs: (doc.gpu_needs ?? []).map((n) => ({
        workload: n.workload,
        driver: n.driver ?? "",
        cuda: n.cuda ?? "",
        compute: n.compute ?? "",
      })),
    },
  };
}

/** Names, each once, in their order. */
export function splitNames(text: string | undefined): string[] {
  return [...new Set((text ?? "").split(/[,，\s]+/).filter(Boolean))];
}

const some = <T>(list: T[]) => (list.length > 0 ? list : undefined);
const whole = (text: string | undefined) => (text ? Number(text) : undefined);
const mills = (text: string | undefined) => (text ? Math.round(Number(text) * 10) : undefined);
const said = (text: string | undefined) => text?.trim() || undefined;

/** The policy of a draft without faults. What this page does not know of the old one stays. */
export function docOf(old: PolicyDoc, d: Draft): PolicyDoc {
  const x = d.text;
  const rules = {
    max_age_hours: whole(x.rule_age),
    labels: some(splitNames(x.rule_labels)),
    gpu_taints: some(splitNames(x.rule_taints)),
    min_driver: whole(x.rule_driver),
    same_driver: x.rule_same_driver ? true : undefined,
  };
  const labels = splitNames(x.pool_labels).map((l): [string, string] => {
    const at = l.indexOf("=");
    return at < 0 ? [l, ""] : [l.slice(0, at), l.slice(at + 1)];
  });
  const pools = {
    labels: labels.length > 0 ? Object.fromEntries(labels) : undefined,
    taints: some(splitNames(x.pool_taints)),
    startup_taints: some(splitNames(x.pool_startup_taints)),
    expire_after_hours: whole(x.pool_expire),
    termination_grace_sec: whole(x.pool_grace),
    drift_budget: said(x.pool_drift),
    empty_budget: said(x.pool_empty),
  };
  return {
    ...old,
    max_nodes: whole(x.max_nodes),
    max_gpus: whole(x.max_gpus),
    hourly_max: said(x.hourly_max),
    daily_max: said(x.daily_max),
    no_spot: x.no_spot ? true : undefined,
    spot_unlabeled: x.spot_unlabeled ? true : undefined,
    cpu_on_gpu: x.cpu_on_gpu ? true : undefined,
    instance_types: some(splitNames(x.instance_types)),
    zones: some(splitNames(x.zones)),
    max_stock_out: mills(x.max_stock_out),
    insure_milli: mills(x.insure_milli),
    max_actions: whole(x.max_actions),
    horizon_hours: whole(x.horizon_hours),
    move_cost: said(x.move_cost),
    max_moved_milli: mills(x.max_moved_milli),
    min_age_sec: whole(x.min_age_sec),
    ramp_sec: whole(x.ramp_sec),
    stale_sec: whole(x.stale_sec),
    waiting_sec: whole(x.waiting_sec),
    gpu_driver: said(x.gpu_driver),
    gpu_cuda: said(x.gpu_cuda),
    equivalent: some(d.rows.equivalent.map((r) => ({ for: r.for ?? "", use: r.use ?? "" }))),
    freeze: some(
      d.rows.freeze.map((r) => ({
        ...(splitNames(r.days).length > 0 ? { days: splitNames(r.days) } : {}),
        from: r.from ?? "",
        to: r.to ?? "",
        time_zone: r.time_zone ?? "",
      })),
    ),
    warm: some(
      d.rows.warm.map((r) => ({
        name: r.name ?? "",
        how: r.how === "growth" ? ("growth" as const) : ("fixed" as const),
        count: whole(r.count) ?? 0,
        least: whole(r.least),
        quantile: mills(r.quantile),
        gpu_model: said(r.gpu_model),
        gpus: whole(r.gpus),
        instance_types: some(splitNames(r.instance_types)),
        hourly_max: said(r.hourly_max),
        spot: r.spot ? true : undefined,
      })),
    ),
    gpu_needs: some(
      d.rows.gpu_needs.map((r) => ({
        workload: r.workload ?? "",
        driver: said(r.driver),
        cuda: said(r.cuda),
        compute: said(r.compute),
      })),
    ),
    node_pools: Object.values(pools).some((v) => v !== undefined) ? pools : undefined,
    node_rules: Object.values(rules).some((v) => v !== undefined) ? rules : undefined,
  };
}

export type Fault =
  | "budget"
  | "label"
  | "taint"
  | "integer"
  | "percent"
  | "money"
  | "free"
  | "tooMany"
  | "time"
  | "zone"
  | "day"
  | "name"
  | "needed";

const MONEY = /^\d{1,7}(\.\d{1,9})?$/;
const BUDGET = /^(0|[1-9]\d{0,3}|10000|(0|[1-9]\d?|100)%)$/;
const LABEL = /^[^\s=:]+(=[^\s=:]*)?$/;
const TAINT = /^[^\s=:]+(=[^\s=:]*)?:(NoSchedule|NoExecute)$/;
const STARTUP = /^[^\s=:]+(=[^\s=:]*)?:(NoSchedule|NoExecute|PreferNoSchedule)$/;
/** What each name of a field must be; the service says more of it. */
const NAMES: Partial<Record<FieldKey, { like: RegExp; fault: Fault }>> = {
  pool_labels: { like: LABEL, fault: "label" },
  pool_taints: { like: TAINT, fault: "taint" },
  pool_startup_taints: { like: STARTUP, fault: "taint" },
};
const TIME = /^([01]\d|2[0-3]):[0-5]\d$/;
const NAME = /^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/;
export const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;

export function knownZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone !== "";
  } catch {
    return false;
  }
}

const within = (text: string, max: number) => /^\d+$/.test(text) && Number(text) <= max;

/** What is wrong with a field; null: nothing. */
export function faultOf(key: FieldKey, text: string): Fault | null {
  const f = FIELDS[key];
  if (text === "") return null;
  switch (f.kind) {
    case "integer":
    case "seconds":
    case "hours":
      return within(text, f.max ?? Number.MAX_SAFE_INTEGER) ? null : "integer";
    case "permille":
      return /^\d{1,3}(\.\d)?$/.test(text) && Number(text) * 10 <= (f.max ?? 1000) ? null : "percent";
    case "money":
      if (!MONEY.test(text) || Number(text) > 1_000_000) return "money";
      return key === "move_cost" && Number(text) === 0 ? "free" : null;
    case "budget":
      return BUDGET.test(text) ? null : "budget";
    case "names":
      if (!splitNames(text).every((n) => NAMES[key]?.like.test(n) ?? true)) return NAMES[key]?.fault ?? null;
      return splitNames(text).length <= (f.max ?? 50) ? null : "tooMany";
    default:
      return null;
  }
}

/** What is wrong with a row; null: nothing. */
export function rowFault(key: RowsKey, row: Row): Fault | null {
  switch (key) {
    case "equivalent":
      return row.for && row.use ? null : "needed";
    case "freeze":
      if (!TIME.test(row.from ?? "") || !TIME.test(row.to ?? "")) return "time";
      if (!splitNames(row.days).every((d) => DAYS.some((x) => x === d))) return "day";
      return knownZone(row.time_zone ?? "") ? null : "zone";
    case "warm":
      if (!NAME.test(row.name ?? "")) return "name";
      if (![row.count ?? "", row.least || "0", row.gpus || "0"].every((v) => within(v, 1024))) return "integer";
      if (row.quantile && !(Number(row.quantile) >= 0 && Number(row.quantile) < 100)) return "percent";
      return row.hourly_max && !MONEY.test(row.hourly_max) ? "money" : null;
    case "gpu_needs":
      return row.driver || row.cuda || row.compute ? null : "needed";
  }
}

export const ROW_KEYS = Object.keys(ROWS).filter((k): k is RowsKey => Object.hasOwn(ROWS, k));

export function isRows(key: FieldKey): key is Extract<FieldKey, RowsKey> {
  return Object.hasOwn(ROWS, key);
}

/** Says whether a draft can be sent. */
export function isSound(d: Draft): boolean {
  const keys = Object.values(SECTIONS).flat();
  return (
    keys.every((k) => isRows(k) || faultOf(k, d.text[k] ?? "") === null) &&
    ROW_KEYS.every(
      (k) => d.rows[k].length <= (FIELDS[k].max ?? 0) && d.rows[k].every((row) => rowFault(k, row) === null),
    )
  );
}

const rowText = (key: RowsKey, rows: Row[]) =>
  rows
    .map((r) =>
      ROWS[key]
        .map((c) => r[c] ?? "")
        .filter(Boolean)
        .join(" "),
    )
    .join("; ");

export interface Change {
  key: FieldKey;
  before: string;
  after: string;
}

/** What a draft changes, in the order of the fields. */
export function changesOf(old: Draft, now: Draft): Change[] {
  const text = (d: Draft, key: FieldKey): string => {
    if (isRows(key)) return rowText(key, d.rows[key]);
    const value = d.text[key] ?? "";
    return FIELDS[key].kind === "names" ? splitNames(value).join(", ") : value.trim();
  };
  return Object.values(SECTIONS)
    .flat()
    .map((key) => ({ key, before: text(old, key), after: text(now, key) }))
    .filter((c) => c.before !== c.after);
}
