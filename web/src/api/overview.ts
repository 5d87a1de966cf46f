import { queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseDay, parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoney, readMoneyOr } from "./read";
import type { WireOverview } from "./wire";

export interface Overview {
  dataNow: Date;
  cost: { today: Money; monthToDate: Money; forecastMonth: Money | null; previousSameSpan: Money };
  idleShare: number;
  unpricedShare: number;
  lateRatio: number | null;
  worst: { workloadId: string; key: string; lateRatio: number }[];
  savingsMonth: Money | null;
  replicas: { ready: number; desired: number };
  gpus: { total: number; allocated: number; smActive: number | null };
  clusters: { online: number; offline: number };
  decisions: { up: number; down: number; hold: number; proposed: number; capped: number };
  alertsOpen: number;
  costByDay: { day: Date; amount: Money }[];
}

export function readOverview(wire: WireOverview): Overview {
  return {
    dataNow: parseTime(wire.data_now),
    cost: {
      today: readMoney(wire.cost.today),
      monthToDate: readMoney(wire.cost.month_to_date),
      forecastMonth: readMoneyOr(wire.cost.forecast_month),
      previousSameSpan: readMoney(wire.cost.previous_same_span),
    },
    idleShare: wire.cost.idle_share,
    unpricedShare: wire.cost.unpriced_share,
    lateRatio: wire.slo.late_ratio_24h ?? null,
    worst: (wire.slo.worst ?? []).map((w) => ({ workloadId: w.workload_id, key: w.key, lateRatio: w.late_ratio })),
    savingsMonth: readMoneyOr(wire.savings.month_to_date),
    replicas: wire.replicas,
    gpus: {
      total: wire.gpus.total,
      allocated: wire.gpus.allocated,
      smActive: wire.gpus.sm_active_ratio ?? null,
    },
    clusters: wire.clusters,
    decisions: {
      up: wire.decisions_24h.scale_up,
      down: wire.decisions_24h.scale_down,
      hold: wire.decisions_24h.hold,
      proposed: wire.decisions_24h.proposed,
      capped: wire.decisions_24h.capped,
    },
    alertsOpen: wire.alerts_open,
    costByDay: (wire.cost_by_day ?? []).map((d) => ({ day: parseDay(d.day), amount: readMoney(d.amount) })),
  };
}

export const overviewQuery = queryOptions({
  queryKey: ["overview"],
  queryFn: async ({ signal }) => readOverview(await answer(client.GET("/overview", { signal }))),
});
