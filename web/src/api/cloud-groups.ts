// Groups of machines at clouds that a cluster's plans may make larger, and smaller by machines that were drained.
import { queryOptions } from "@tanstack/react-query";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readObject, readTimeOr, readWord } from "./read";
import type { components } from "./schema.gen";

type Schemas = components["schemas"];

export const GROUP_PURCHASES = ["on_demand", "spot"] as const;

export const GROUP_STATES = [
  "asked",
  "pending",
  "partial",
  "reached",
  "joined",
  "stock_out",
  "refused",
  "replaced",
  "failed",
] as const;
export type GroupState = (typeof GROUP_STATES)[number];

/** What a cloud could not give, in its words. */
export interface GroupFailure {
  code: string;
  message: string;
  /** Zone and type; empty: not told. */
  where: string;
}

export const WRITER_KINDS = ["scaling_policy", "schedule", "autoscaler", "rebalance"] as const;

/** Something of the cloud itself that changes a group. */
export interface GroupWriter {
  /** null: a kind that this page does not know. */
  kind: (typeof WRITER_KINDS)[number] | null;
  name: string;
}

/** A size that was asked of a group, or machines that were ended by name. */
export interface GroupAction {
  id: string;
  /** Machines that are ended by name; empty: the action sets a size. */
  nodes: string[];
  undoes: string | null;
  before: number;
  desired: number;
  ready: number;
  /** null: a state that this page does not know. */
  state: GroupState | null;
  problem: string;
  failures: GroupFailure[];
  askedAt: Date;
  /** null: it has not ended. */
  closedAt: Date | null;
}

export interface CloudGroupInput {
  accountId: string;
  ref: string;
  region: string;
  /** Empty means any of the region. */
  zones: string[];
  instanceTypes: string[];
  purchase: (typeof GROUP_PURCHASES)[number];
  min: number;
  max: number;
  step: number;
  hourly: number;
  enabled: boolean;
  /** Stop what of the cloud itself changes the group. */
  own: boolean;
  /** End machines by name that the plan drains. */
  shrink: boolean;
}

export interface CloudGroup extends CloudGroupInput {
  id: string;
  cloud: string;
  writers: GroupWriter[];
  /** Why it is not known what changes the group; empty: it is. */
  writersProblem: string;
  /** It is left to one of its writers. */
  yields: boolean;
  /** What of the cloud's own scaling is stopped, in its words. */
  suspended: string[];
  /** Newest first. */
  actions: GroupAction[];
}

function readFailure(wire: unknown): GroupFailure {
  const of = readObject(wire);
  const text = (key: string) => {
    const value = of[key];
    return typeof value === "string" ? value : "";
  };
  return {
    code: text("code"),
    message: text("message"),
    where: [text("instance_type"), text("zone")].filter(Boolean).join(" · "),
  };
}

function readAction(wire: Schemas["CloudGroupAction"]): GroupAction {
  return {
    id: wire.id,
    nodes: wire.nodes ?? [],
    undoes: wire.undoes ?? null,
    before: wire.before,
    desired: wire.desired,
    ready: wire.ready,
    state: GROUP_STATES.find((s) => s === wire.state) ?? null,
    problem: wire.problem ?? "",
    failures: Array.isArray(wire.failures) ? wire.failures.map(readFailure) : [],
    askedAt: parseTime(wire.asked_at),
    closedAt: readTimeOr(wire.closed_at),
  };
}

export function readGroups(wire: Schemas["CloudGroupsOutputBody"]): CloudGroup[] {
  const actions = wire.actions ?? [];
  return (wire.items ?? []).map((g) => ({
    id: g.id,
    cloud: g.cloud,
    accountId: g.account_id,
    ref: g.ref,
    region: g.region,
    zones: g.zones ?? [],
    instanceTypes: g.instance_types ?? [],
    purchase: readWord(GROUP_PURCHASES, g.purchase, "on_demand"),
    min: g.min,
    max: g.max,
    step: g.step,
    hourly: g.hourly,
    enabled: g.enabled,
    own: g.own,
    shrink: g.shrink,
    writers: (g.writers ?? []).map((w) => ({ kind: WRITER_KINDS.find((k) => k === w.kind) ?? null, name: w.name })),
    writersProblem: g.writers_problem ?? "",
    yields: g.yields,
    suspended: g.suspended ?? [],
    actions: actions.filter((a) => a.group_id === g.id).map(readAction),
  }));
}

/** Whether giving back the size from before an action means anything: it has ended, and made the group larger or ended machines by name. */
export function mayUndo(a: GroupAction): boolean {
  return (
    a.closedAt !== null &&
    a.undoes === null &&
    (a.desired > a.before || a.nodes.length > 0) &&
    (a.state === "joined" || a.state === "partial" || a.state === "failed" || a.state === "pending")
  );
}

/** Groups are looked after every half minute. */
const REFRESH_MS = 30_000;

export const cloudGroupsQuery = (cluster: string) =>
  queryOptions({
    queryKey: ["clusters", "cloud-groups", cluster],
    refetchInterval: REFRESH_MS,
    queryFn: async ({ signal }) =>
      readGroups(
        await answer(client.GET("/clusters/{id}/cloud-groups", { params: { path: { id: cluster } }, signal })),
      ),
  });

/** Adds or changes a group; the id of a new one is made by the caller. */
export async function saveCloudGroup(cluster: string, group: string, g: CloudGroupInput): Promise<void> {
  await answer(
    client.PUT("/clusters/{id}/cloud-groups/{group}", {
      params: { path: { id: cluster, group } },
      body: {
        account_id: g.accountId,
        ref: g.ref,
        region: g.region,
        zones: g.zones,
        instance_types: g.instanceTypes,
        purchase: g.purchase,
        min: g.min,
        max: g.max,
        step: g.step,
        hourly: g.hourly,
        enabled: g.enabled,
        own: g.own,
        shrink: g.shrink,
      },
    }),
  );
}

export async function deleteCloudGroup(cluster: string, group: string): Promise<void> {
  await answer(client.DELETE("/clusters/{id}/cloud-groups/{group}", { params: { path: { id: cluster, group } } }));
}

/** Asks for the size from before an action; the answer comes with the next look at the group. */
export async function undoGroupAction(cluster: string, action: string): Promise<void> {
  await answer(
    client.POST("/clusters/{id}/cloud-group-actions/{action}/undo", { params: { path: { id: cluster, action } } }),
  );
}
