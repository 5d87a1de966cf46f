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
}

export interface BudgetInput {
  name: string;
  clusterId: string | null;
  namespace: string | null;
  team: string | null;
  workloadId: string | null;
  amount: Money;
  thresholds: number[];
  webhookId: string | null;
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
