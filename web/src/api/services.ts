// Services that run in several clusters, and how their replicas are split.
import { queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoney, readMoneyOr, readWord } from "./read";
import type { components } from "./schema.gen";
import type { WireMoney } from "./wire";

type Schemas = components["schemas"];

export const SERVICE_MODES = ["off", "recommend", "enforce"] as const;
export type ServiceMode = (typeof SERVICE_MODES)[number];
export const TRAFFIC = ["local", "balanced", "shared"] as const;
export type Traffic = (typeof TRAFFIC)[number];
export const SERVICE_OUTCOMES = ["keep", "move", "size", "held"] as const;
export type ServiceOutcome = (typeof SERVICE_OUTCOMES)[number];

export interface ServicePlanSummary {
  id: string;
  at: Date;
  firstAt: Date;
  outcome: ServiceOutcome;
  target: number;
  before: Money;
  after: Money;
}

export interface ServiceSummary {
  id: string;
  name: string;
  mode: ServiceMode;
  clusters: number;
  plan: ServicePlanSummary | null;
}

export interface ServiceSite {
  workloadId: string;
  workload: string;
  cluster: string;
  labelled: boolean;
  twice: boolean;
  gone: boolean;
  rules: Schemas["ServiceSiteRules"];
}

export interface Service {
  id: string;
  name: string;
  mode: ServiceMode;
  version: number;
  rules: Schemas["ServiceRules"];
  sites: ServiceSite[];
}

export interface Marginal {
  price: Money;
  extra: Money;
  kind: string;
  instanceType: string;
  purchase: string;
  place: string;
}

export interface ServicePart {
  workloadId: string;
  workload: string;
  clusterId: string;
  cluster: string;
  place: string;
  /** Why it keeps what it has; empty: it may be changed. */
  held: string;
  from: number;
  ready: number;
  need: number | null;
  target: number;
  floor: number | null;
  cap: number | null;
  bound: string;
  wait: string;
  last: Marginal | null;
  next: Marginal | null;
  weight: number;
}

export interface ServiceOption {
  name: string;
  cluster: string;
  counts: number[];
  cost: Money | null;
  delta: Money | null;
  whyNot: string;
}

export interface ServicePlan extends ServicePlanSummary {
  stale: boolean;
  demand: number;
  missing: number;
  survives: number;
  relaxed: string[];
  stays: string;
  moves: number;
  saving: Money | null;
  parts: ServicePart[];
  options: ServiceOption[];
}

export interface ServiceInput {
  name: string;
  mode: ServiceMode;
  rules: Schemas["ServiceRules"];
  sites: { workload_id: string; rules?: Schemas["ServiceSiteRules"] }[];
}

function readSummary(w: Schemas["ServicePlanSummary"]): ServicePlanSummary {
  return {
    id: w.id,
    at: parseTime(w.at),
    firstAt: parseTime(w.first_at),
    outcome: readWord(SERVICE_OUTCOMES, w.outcome, "keep"),
    target: w.target,
    before: readMoney(w.before),
    after: readMoney(w.after),
  };
}

/** The document cannot say that a reference may be null. */
function readMarginal(m: Schemas["ServiceMarginal"] | null | undefined): Marginal | null {
  if (!m) return null;
  return {
    price: readMoney(m.price),
    extra: readMoney(m.extra),
    kind: m.kind,
    instanceType: m.offering.instance_type,
    purchase: m.offering.purchase,
    place: m.offering.zone || m.offering.region,
  };
}

function readPlan(w: Schemas["ServicePlanView"]): ServicePlan {
  return {
    ...readSummary(w),
    stale: w.stale,
    demand: w.demand,
    missing: w.missing,
    survives: w.survives,
    relaxed: w.relaxed ?? [],
    stays: w.stays ?? "",
    moves: w.moves,
    saving: readMoneyOr(w.saving as WireMoney | null),
    parts: (w.parts ?? []).map((p) => ({
      workloadId: p.workload_id,
      workload: p.workload,
      clusterId: p.cluster_id,
      cluster: p.cluster,
      place: [p.cloud, p.region].filter(Boolean).join(" · "),
      held: p.held ?? "",
      from: p.from,
      ready: p.ready,
      need: p.need ?? null,
      target: p.target,
      floor: p.floor ?? null,
      cap: p.cap ?? null,
      bound: p.bound ?? "",
      wait: p.wait ?? "",
      last: readMarginal(p.last),
      next: readMarginal(p.next),
      weight: p.weight,
    })),
    options: (w.options ?? []).map((o) => ({
      name: o.name,
      cluster: o.cluster ?? "",
      counts: o.counts ?? [],
      cost: readMoneyOr(o.cost as WireMoney | null),
      delta: readMoneyOr(o.delta as WireMoney | null),
      whyNot: o.why_not ?? "",
    })),
  };
}

function readService(w: Schemas["ServiceView"]): Service {
  return {
    id: w.id,
    name: w.name,
    mode: readWord(SERVICE_MODES, w.mode, "off"),
    version: w.version,
    rules: w.rules,
    sites: (w.sites ?? []).map((s) => ({
      workloadId: s.workload_id,
      workload: s.workload,
      cluster: s.cluster,
      labelled: s.labelled,
      twice: s.twice,
      gone: s.gone,
      rules: s.rules,
    })),
  };
}

const REFRESH_MS = 15_000;

export const servicesQuery = queryOptions({
  queryKey: ["services"],
  refetchInterval: REFRESH_MS,
  queryFn: async ({ signal }) => {
    const wire = await answer(client.GET("/services", { signal }));
    return {
      labelled: wire.labelled ?? [],
      items: (wire.items ?? []).map(
        (s): ServiceSummary => ({
          id: s.id,
          name: s.name,
          mode: readWord(SERVICE_MODES, s.mode, "off"),
          clusters: s.clusters,
          plan: s.plan ? readSummary(s.plan) : null,
        }),
      ),
    };
  },
});

export const serviceQuery = (id: string) =>
  queryOptions({
    queryKey: ["services", id],
    queryFn: async ({ signal }) =>
      readService(await answer(client.GET("/services/{id}", { params: { path: { id } }, signal }))),
  });

export const servicePlanQuery = (id: string) =>
  queryOptions({
    queryKey: ["services", id, "plan"],
    refetchInterval: REFRESH_MS,
    queryFn: async ({ signal }) => {
      const wire = await answer(client.GET("/services/{id}/plan", { params: { path: { id } }, signal }));
      return { plan: wire.plan ? readPlan(wire.plan) : null, history: (wire.history ?? []).map(readSummary) };
    },
  });

export async function createService(input: ServiceInput): Promise<void> {
  await answer(client.POST("/services", { body: input }));
}

export async function saveService(id: string, version: number, service: ServiceInput): Promise<void> {
  await answer(client.PUT("/services/{id}", { params: { path: { id } }, body: { version, service } }));
}

export async function deleteService(id: string): Promise<void> {
  await answer(client.DELETE("/services/{id}", { params: { path: { id } } }));
}
