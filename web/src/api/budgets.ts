import { queryOptions } from "@tanstack/react-query";
import { type Money, moneyDecimal } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoney, readMoneyOr } from "./read";
import type { WireBudget, WireBudgetInput } from "./wire";

export interface Budget {
  id: string;
  name: string;
  clusterId: string | null;
  namespace: string | null;
  team: string | null;
  workloadId: string | null;
  amount: Money;
  thresholds: number[];
  webhookId: string | null;
  spent: Money;
  spentRatio: number;
  forecast: Money | null;
  crossed: { basis: "actual" | "forecast"; percent: number }[];
  periodStart: Date;
  periodEnd: Date;
  period: Period;
  label: { key: string; value: string } | null;
  enforced: boolean;
  /** Eight of ten ends of the back-test lie within; null: too little history. */
  band: { low: Money; high: Money } | null;
  test: { error: number; origins: number; hours: number } | null;
  allowedHour: Money;
  breaker: { percent: number; minutes: number; tripped: boolean } | null;
}

export const PERIODS = ["day", "week", "month", "quarter", "year"] as const;
export type Period = (typeof PERIODS)[number];

export interface BudgetInput {
  name: string;
  clusterId: string | null;
  namespace: string | null;
  team: string | null;
  workloadId: string | null;
  amount: Money;
  thresholds: number[];
  webhookId: string | null;
  period: Period;
  label: { key: string; value: string } | null;
  enforced: boolean;
  breaker: { percent: number; minutes: number } | null;
}

export function readBudget(wire: WireBudget): Budget {
  return {
    id: wire.id,
    name: wire.name,
    clusterId: wire.cluster_id || null,
    namespace: wire.namespace || null,
    team: wire.team || null,
    workloadId: wire.workload_id || null,
    amount: readMoney(wire.amount),
    thresholds: wire.thresholds ?? [],
    webhookId: wire.webhook_id || null,
    spent: readMoney(wire.spent),
    spentRatio: wire.spent_ratio,
    forecast: readMoneyOr(wire.forecast),
    crossed: wire.crossed ?? [],
    periodStart: parseTime(wire.period_start),
    periodEnd: parseTime(wire.period_end),
    period: wire.period,
    label: wire.label_key ? { key: wire.label_key, value: wire.label_value ?? "" } : null,
    enforced: wire.enforced,
    band:
      wire.forecast_low && wire.forecast_high
        ? { low: readMoney(wire.forecast_low), high: readMoney(wire.forecast_high) }
        : null,
    test:
      typeof wire.forecast_error === "number"
        ? { error: wire.forecast_error, origins: wire.forecast_test_origins, hours: wire.forecast_test_hours }
        : null,
    allowedHour: readMoney(wire.allowed_hour),
    breaker: wire.breaker
      ? { percent: wire.breaker.percent, minutes: wire.breaker.minutes, tripped: wire.breaker.tripped }
      : null,
  };
}

function writeBudget(input: BudgetInput): WireBudgetInput {
  return {
    name: input.name,
    amount: moneyDecimal(input.amount),
    thresholds: input.thresholds,
    ...(input.clusterId ? { cluster_id: input.clusterId } : {}),
    ...(input.namespace ? { namespace: input.namespace } : {}),
    ...(input.team ? { team: input.team } : {}),
    ...(input.workloadId ? { workload_id: input.workloadId } : {}),
    ...(input.webhookId ? { webhook_id: input.webhookId } : {}),
    period: input.period,
    enforced: input.enforced,
    ...(input.label ? { label_key: input.label.key, label_value: input.label.value } : {}),
    ...(input.breaker ? { breaker_percent: input.breaker.percent, breaker_minutes: input.breaker.minutes } : {}),
  };
}

export const budgetsQuery = queryOptions({
  queryKey: ["budgets"],
  queryFn: async ({ signal }) => ((await answer(client.GET("/budgets", { signal }))).items ?? []).map(readBudget),
});

export async function createBudget(input: BudgetInput): Promise<void> {
  await answer(client.POST("/budgets", { body: writeBudget(input) }));
}

export async function changeBudget(id: string, input: BudgetInput): Promise<void> {
  await answer(client.PUT("/budgets/{id}", { params: { path: { id } }, body: writeBudget(input) }));
}

export async function deleteBudget(id: string): Promise<void> {
  await answer(client.DELETE("/budgets/{id}", { params: { path: { id } } }));
}

/** Lets scale-ups go on after a breaker tripped. */
export async function resetBreaker(id: string): Promise<void> {
  await answer(client.POST("/budgets/{id}/reset-breaker", { params: { path: { id } } }));
}
