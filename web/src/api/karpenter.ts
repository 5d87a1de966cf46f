// What a cluster's agent is told to make of Karpenter's objects.
import { queryOptions } from "@tanstack/react-query";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readTimeOr } from "./read";
import type { components } from "./schema.gen";

type Schemas = components["schemas"];

export const KARPENTER_STOPS = ["off", "mode", "frozen", "agent", "silent", "groups", "open"] as const;
export const ORDER_STATES = ["open", "applied", "partial", "refused", "expired", "withdrawn"] as const;
export type OrderState = (typeof ORDER_STATES)[number];
export const OUTCOMES = ["applied", "already", "refused", "failed"] as const;

export interface KarpenterOrder {
  id: string;
  generation: number;
  handBack: boolean;
  /** Machines that groups of clouds let go. */
  drain: boolean;
  /** null: a state that this page does not know. */
  state: OrderState | null;
  at: Date;
  closedAt: Date | null;
}

export interface KarpenterAction {
  id: string;
  absent: boolean;
  /** null: no answer yet. */
  outcome: (typeof OUTCOMES)[number] | null;
  code: string;
  detail: string;
  /** JSON; empty: there was nothing. */
  before: string;
  after: string;
  writers: string[];
}

export interface KarpenterSettings {
  enabled: boolean;
  classGroup: string;
  classKind: string;
  className: string;
  reservationKey: string;
  prices: boolean;
  /** NodePools of others that plans write too. */
  own: string[];
}

export interface Karpenter {
  version: number;
  settings: KarpenterSettings;
  /** Why nothing is sent; null: nothing is in the way. */
  stopped: (typeof KARPENTER_STOPS)[number] | null;
  pools: string[];
  overlays: string[];
  orders: KarpenterOrder[];
}

function readOrder(o: Schemas["KarpenterOrderSummary"]): KarpenterOrder {
  return {
    id: o.id,
    generation: o.generation,
    handBack: o.kind === "hand_back",
    drain: o.kind === "drain",
    state: ORDER_STATES.find((s) => s === o.state) ?? null,
    at: parseTime(o.at),
    closedAt: readTimeOr(o.closed_at),
  };
}

export function readKarpenter(wire: Schemas["KarpenterOutputBody"]): Karpenter {
  const s = wire.settings;
  return {
    version: wire.version,
    settings: {
      enabled: s.enabled,
      classGroup: s.class_group || "karpenter.k8s.aws",
      classKind: s.class_kind || "EC2NodeClass",
      className: s.class_name || "default",
      reservationKey: s.reservation_key ?? "",
      prices: s.prices ?? false,
      own: s.own ?? [],
    },
    stopped: KARPENTER_STOPS.find((x) => x === wire.stopped) ?? null,
    pools: wire.pools ?? [],
    overlays: wire.overlays ?? [],
    orders: (wire.orders ?? []).map(readOrder),
  };
}

const REFRESH_MS = 15_000;

export const karpenterQuery = (cluster: string) =>
  queryOptions({
    queryKey: ["clusters", "karpenter", cluster],
    refetchInterval: REFRESH_MS,
    queryFn: async ({ signal }) =>
      readKarpenter(
        await answer(client.GET("/clusters/{id}/karpenter", { params: { path: { id: cluster } }, signal })),
      ),
  });

export const karpenterOrderQuery = (cluster: string, order: string) =>
  queryOptions({
    queryKey: ["clusters", "karpenter", cluster, order],
    refetchInterval: REFRESH_MS,
    queryFn: async ({ signal }) => {
      const wire = await answer(
        client.GET("/clusters/{id}/karpenter/orders/{order}", { params: { path: { id: cluster, order } }, signal }),
      );
      return (wire.actions ?? []).map(
        (a): KarpenterAction => ({
          id: a.action_id,
          absent: a.absent ?? false,
          outcome: OUTCOMES.find((x) => x === a.outcome) ?? null,
          code: a.code ?? "",
          detail: a.detail ?? "",
          before: a.before ?? "",
          after: a.after ?? "",
          writers: a.writers ?? [],
        }),
      );
    },
  });

export async function saveKarpenter(cluster: string, version: number, s: KarpenterSettings): Promise<void> {
  await answer(
    client.PUT("/clusters/{id}/karpenter", {
      params: { path: { id: cluster } },
      body: {
        version,
        settings: {
          enabled: s.enabled,
          class_group: s.classGroup,
          class_kind: s.classKind,
          class_name: s.className,
          reservation_key: s.reservationKey,
          prices: s.prices,
          own: s.own,
        },
      },
    }),
  );
}

export async function handBackKarpenter(cluster: string): Promise<void> {
  await answer(client.POST("/clusters/{id}/karpenter/hand-back", { params: { path: { id: cluster } } }));
}
