import type { TFunction } from "i18next";
import type { Format } from "./format";

export const SIGNALS = [
  "request_rate",
  "queue_length",
  "queue_age_seconds",
  "running_requests",
  "latency_p50_seconds",
  "latency_p99_seconds",
  "ttft_p99_seconds",
  "kv_cache_ratio",
  "gpu_sm_active_ratio",
  "gpu_util_ratio",
  "gpu_memory_used_mib",
  "cpu_cores",
  "cpu_ratio",
  "memory_mib",
  "error_ratio",
  "late_ratio",
  "tokens_in_per_second",
  "tokens_out_per_second",
] as const;
export type SignalName = (typeof SIGNALS)[number];

function known(name: string): SignalName | undefined {
  return SIGNALS.find((s) => s === name);
}

/** A signal's words; one that this page does not know keeps its own name. */
export function signalName(t: TFunction, name: string): string {
  const signal = known(name);
  return signal ? t(`signal.${signal}`) : name;
}

/** A signal's value in its own unit. */
export function signalValue(t: TFunction, f: Format, name: string, value: number): string {
  if (name.endsWith("_ratio")) return f.percent(value);
  if (name === "queue_age_seconds") return f.duration(value);
  if (name.endsWith("_per_second") || name === "request_rate") return t("unit.perSecond", { value: f.number(value) });
  if (name.endsWith("_seconds")) return f.latency(value);
  if (name.endsWith("_mib")) return f.mebibytes(value);
  if (name === "cpu_cores") return t("unit.cores", { value: f.number(value) });
  return f.number(value);
}
