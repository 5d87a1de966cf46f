import type { Operation } from "./paths";
import type { WireList, WireMoney } from "./wire";

export type WireAggregate = "team" | "namespace" | "workload" | "cluster" | "purchase" | "resource";
export type WireIdle = "separate" | "shared";
export type WireCostKind = "workload" | "idle" | "overhead" | "residual" | "all";

export interface WireAllocation {
  key: string;
  name: string;
  kind: WireCostKind;
  amount: WireMoney;
  cpu: WireMoney;
  memory: WireMoney;
  gpu: WireMoney;
  share: number;
  previous: WireMoney;
  core_hours: number;
  gib_hours: number;
  gpu_hours: number;
  efficiency?: number | null;
  unpriced: boolean;
}

export interface WireAllocations {
  from: string;
  to: string;
  aggregate: string;
  idle: string;
  total: WireMoney;
  previous_total: WireMoney;
  unpriced_share?: number | null;
  last_closed?: string | null;
  open_hours: number;
  items: WireAllocation[] | null;
}

export interface WireTimeseries {
  from: string;
  to: string;
  step: string;
  series:
    | { key: string; name: string; kind: WireCostKind; points: { at: string; amount: WireMoney }[] | null }[]
    | null;
}

export interface WireBudget {
  id: string;
  name: string;
  cluster_id?: string | null;
  namespace?: string | null;
  team?: string | null;
  workload_id?: string | null;
  amount: WireMoney;
  thresholds: number[] | null;
  webhook_id?: string | null;
  created_at: string;
  spent: WireMoney;
  spent_ratio: number;
  forecast?: WireMoney | null;
  period_start: string;
  period_end: string;
}

export interface WireBudgetInput {
  name: string;
  cluster_id?: string;
  namespace?: string;
  team?: string;
  workload_id?: string;
  amount: string;
  thresholds: number[];
  webhook_id?: string;
}

export interface WireWebhook {
  id: string;
  name: string;
  url: string;
  created_at: string;
  disabled_at?: string | null;
}

export interface WireDelivery {
  id: string;
  webhook_id: string;
  alert_id?: string | null;
  state: "pending" | "delivered" | "failed";
  attempts: number;
  last_status?: number | null;
  last_error?: string | null;
  created_at: string;
  finished_at?: string | null;
}

export interface WireAlert {
  id: string;
  kind: string;
  subject: string;
  severity: "info" | "warning" | "critical";
  opened_at: string;
  resolved_at?: string | null;
  detail: Record<string, unknown> | null;
}

type Id = { id: string };
type CostQuery = {
  from: string;
  to: string;
  cluster?: string;
  namespace?: string;
  team?: string;
  workload?: string;
};

export interface moneyPaths {
  "/cost/allocations": {
    get: Operation<
      WireAllocations,
      { query: CostQuery & { aggregate: WireAggregate; idle?: WireIdle; limit?: number } }
    >;
  };
  "/cost/timeseries": {
    get: Operation<
      WireTimeseries,
      { query: CostQuery & { aggregate: WireAggregate; idle?: WireIdle; step?: "hour" | "day"; limit?: number } }
    >;
  };
  "/budgets": { get: Operation<WireList<WireBudget>>; post: Operation<WireBudget, { body: WireBudgetInput }> };
  "/budgets/{id}": {
    put: Operation<WireBudget, { path: Id; body: WireBudgetInput }>;
    delete: Operation<undefined, { path: Id }>;
  };
  "/webhooks": {
    get: Operation<WireList<WireWebhook>>;
    post: Operation<WireWebhook & { secret: string }, { body: { name: string; url: string } }>;
  };
  "/webhooks/{id}": { delete: Operation<undefined, { path: Id }> };
  "/webhooks/{id}/deliveries": { get: Operation<WireList<WireDelivery>, { path: Id; query: { cursor?: string } }> };
  "/alerts": {
    get: Operation<WireList<WireAlert>, { query: { open?: boolean; cursor?: string; limit?: number } }>;
  };
}
