// The URL state of every page, parsed in one place.

import { AGGREGATES, IDLES } from "../api/cost";
import { DECISION_STATES, OUTCOMES } from "../api/decisions";
import { moment, oneOf, schema, text } from "../lib/search";

export const RANGES = ["h1", "h6", "h24", "d7", "d14"] as const;
export type Range = (typeof RANGES)[number];

export const WINDOWS = ["d7", "d14", "d30", "month", "lastMonth"] as const;
export type Window = (typeof WINDOWS)[number];

export const CLUSTER_TABS = ["nodes", "workloads", "events", "agent"] as const;
export const WORKLOAD_TABS = ["timeline", "policy", "decisions"] as const;
export const SETTINGS_TABS = ["keys", "members", "audit"] as const;

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
export const cost = schema({
  by: oneOf(AGGREGATES),
  window: oneOf(WINDOWS),
  idle: oneOf(IDLES),
  cluster: text(),
  namespace: text(),
  team: text(),
});
export const webhooks = schema({ id: text(), cursor });
export const alerts = schema({ show: oneOf(["open", "all"]), cursor });
export const settings = schema({ tab: oneOf(SETTINGS_TABS), cursor });
