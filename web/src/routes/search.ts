// The URL state of every page, parsed in one place.

import { PURCHASES } from "../api/clusters";
import { AGGREGATES, BASES, IDLES } from "../api/cost";
import { DECISION_STATES, OUTCOMES } from "../api/decisions";
import { CALENDAR_WINDOWS } from "../api/finops";
import { CLOUDS } from "../lib/cloud";
import { flag, moment, oneOf, schema, text, whole } from "../lib/search";
import { MEASURES } from "../lib/supply";

export const RANGES = ["h1", "h6", "h24", "d7", "d14"] as const;
export type Range = (typeof RANGES)[number];

export const WINDOWS = ["d7", "d14", "d30", "month", "lastMonth"] as const;
export type Window = (typeof WINDOWS)[number];

export const CLUSTER_TABS = [
  "nodes",
  "map",
  "pending",
  "plan",
  "policy",
  "conflicts",
  "workloads",
  "events",
  "agent",
] as const;
export const WORKLOAD_TABS = ["timeline", "policy", "decisions"] as const;
export const SETTINGS_TABS = ["keys", "members", "audit", "calendar"] as const;

const cursor = text(2000);

export const signIn = schema({ next: text(2000) });
export const clusters = schema({ q: text(), cursor });
export const cluster = schema({ tab: oneOf(CLUSTER_TABS), kind: text(100), cursor });
export const workloads = schema({ q: text(), cluster: text(), namespace: text(), team: text(), cursor });
export const workload = schema({ tab: oneOf(WORKLOAD_TABS), range: oneOf(RANGES), from: moment, to: moment, cursor });
export const decisions = schema({
  cluster: text(),
  workload: text(),
  state: oneOf(DECISION_STATES),
  outcome: oneOf(OUTCOMES),
  cursor,
});
/** Windows of the fiscal calendar that the cost explorer offers beside its own. */
export const FISCAL_WINDOWS = ["quarter", "last_quarter", "year", "last_year"] as const;
/** How the cost explorer shows its window. */
export const COST_VIEWS = ["series", "tree", "compare"] as const;
export const cost = schema({
  by: oneOf(AGGREGATES),
  window: oneOf(WINDOWS),
  fiscal: oneOf(FISCAL_WINDOWS),
  idle: oneOf(IDLES),
  basis: oneOf(BASES),
  view: oneOf(COST_VIEWS),
  find: text(),
  workload: text(36),
  hour: moment,
  cluster: text(),
  namespace: text(),
  team: text(),
});
export const RECONCILIATION_TABS = ["days", "pairs", "bill", "ledger", "files"] as const;
export const reconciliation = schema({ window: oneOf(WINDOWS), tab: oneOf(RECONCILIATION_TABS) });
export const replay = schema({ id: text(64), workload: text(64), cursor });
export const savings = schema({ window: oneOf(CALENDAR_WINDOWS), team: text() });
export const units = schema({
  window: oneOf(CALENDAR_WINDOWS),
  by: oneOf(["workload", "team"]),
  basis: oneOf(["allocation", "usage"]),
  weight: whole(1, 100),
  team: text(),
});
export const statements = schema({ month: text(7) });
export const webhooks = schema({ id: text(), cursor });
export const alerts = schema({ show: oneOf(["open", "all"]), cursor });
export const anomalies = schema({ show: oneOf(["open", "all"]), cursor });
export const settings = schema({ tab: oneOf(SETTINGS_TABS), cursor });

export const SPOT_RANGES = ["d7", "d30", "d90", "y1"] as const;
export type SpotRange = (typeof SPOT_RANGES)[number];
export const SPOT_TABS = ["stats", "cheapest", "quarantine"] as const;
export const SUPPLY_VIEWS = ["map", "table"] as const;
export const COMMITMENT_TABS = ["use", "list", "expiries", "advice"] as const;
export const COMMITMENT_WINDOWS = ["d7", "d30", "d90"] as const;
/** How machines reach each other without their processors; "any" of them. */
export const FABRICS = ["any", "efa", "infiniband", "gpudirect"] as const;
export const SORT_PRICES = ["on_demand", "spot"] as const;

export const spot = schema({
  market: text(300),
  cloud: oneOf(CLOUDS),
  gpu: text(64),
  gpus: whole(0, 64),
  range: oneOf(SPOT_RANGES),
  from: moment,
  to: moment,
  tab: oneOf(SPOT_TABS),
  open: text(300),
});
export const availability = schema({
  cloud: oneOf(CLOUDS),
  purchase: oneOf(PURCHASES),
  show: oneOf(MEASURES),
  view: oneOf(SUPPLY_VIEWS),
  offering: text(400),
});
export const commitments = schema({
  tab: oneOf(COMMITMENT_TABS),
  window: oneOf(COMMITMENT_WINDOWS),
  discount: whole(0, 95),
  spot: whole(0, 100),
});
export const catalogue = schema({
  q: text(100),
  cloud: oneOf(CLOUDS),
  region: text(64),
  gpus: whole(0, 64),
  gpuGb: whole(0, 2000),
  cpus: whole(0, 2000),
  gib: whole(0, 100_000),
  mig: flag,
  gbps: whole(0, 100_000),
  disk: whole(0, 1_000_000),
  fabric: oneOf(FABRICS),
  by: oneOf(SORT_PRICES),
  open: text(300),
});
