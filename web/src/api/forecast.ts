import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoneyOr, readTimeOr, readWord } from "./read";
import type { WireForecast, WireForecastAccount, WireForecastChoice } from "./wire";

export const FORECAST_STATES = ["none", "waiting", "learning", "ready"] as const;
export const FORECAST_METHODS = ["mean_30s", "mean_2m", "mean_5m", "trend", "linear", "upper"] as const;
export type ForecastMethod = (typeof FORECAST_METHODS)[number];

/** What something would have paid for and left late, over the experience. */
export interface Account {
  want: number;
  meanReplicas: number;
  late: number;
  cyclesPerHour: number;
  costHour: Money | null;
}

export interface Choice extends Account {
  method: ForecastMethod;
  quantile: number;
  holdSeconds: number;
  expectedLate: number;
}

/** What was expected of a time, and what came; null where nothing is known. */
export interface BandPoint {
  at: number;
  middle: number | null;
  upper: number | null;
  demand: number | null;
  hpa: number | null;
}

export interface Forecast {
  /** none: the policy has no slo rule. */
  state: (typeof FORECAST_STATES)[number];
  at: Date | null;
  /** Why learning began when it did; anything but "new" threw away what was known. */
  began: string;
  objective: number;
  aim: number;
  lateSeconds: number;
  leadSeconds: number;
  hours: number;
  now: { demand: number; middle: number; upper: number; need: number; want: number } | null;
  inCharge: Choice | null;
  runnerUp: Choice | null;
  own: Account | null;
  hpa: Account | null;
  band: BandPoint[];
}

function readAccount(w: WireForecastAccount): Account {
  return {
    want: w.want,
    meanReplicas: w.mean_replicas,
    late: w.late,
    cyclesPerHour: w.cycles_per_hour,
    costHour: readMoneyOr(w.cost_hour),
  };
}

function readChoice(w: WireForecastChoice): Choice {
  return {
    ...readAccount(w),
    method: readWord(FORECAST_METHODS, w.method, "mean_2m"),
    quantile: w.quantile,
    holdSeconds: w.hold_seconds,
    expectedLate: w.expected_late,
  };
}

export function readForecast(w: WireForecast): Forecast {
  return {
    state: readWord(FORECAST_STATES, w.status, "waiting"),
    at: readTimeOr(w.at),
    began: w.began,
    objective: w.objective,
    aim: w.aim,
    lateSeconds: w.late_seconds,
    leadSeconds: w.lead_seconds,
    hours: w.hours,
    now: w.now ?? null,
    inCharge: w.in_charge ? readChoice(w.in_charge) : null,
    runnerUp: w.runner_up ? readChoice(w.runner_up) : null,
    own: w.own ? readAccount(w.own) : null,
    hpa: w.hpa_70 ? readAccount(w.hpa_70) : null,
    band: (w.band ?? []).map((p) => ({
      at: parseTime(p.at).getTime(),
      middle: p.middle ?? null,
      upper: p.upper ?? null,
      demand: p.demand ?? null,
      hpa: p.hpa_70 ?? null,
    })),
  };
}

/** The forecast of a workload with the band of a range; what lies ahead of the range's end by less than ahead is included. */
export const forecastQuery = (id: string, from: Date, to: Date, ahead = 1_800_000) =>
  queryOptions({
    queryKey: ["workloads", "forecast", id, from.toISOString(), to.toISOString()],
    queryFn: async ({ signal }) =>
      readForecast(
        await answer(
          client.GET("/workloads/{id}/forecast", {
            params: {
              path: { id },
              query: { from: from.toISOString(), to: new Date(to.getTime() + ahead).toISOString() },
            },
            signal,
          }),
        ),
      ),
    placeholderData: keepPreviousData,
  });
