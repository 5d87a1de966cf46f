import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoney, readMoneyOr, readTimeOr, readWord } from "./read";
import type { WireAdvice, WireAdviceAnswer, WireCommitment, WireCoverage, WireExpiry, WireUtilisation } from "./wire";

export const COMMITMENT_KINDS = [
  "aws_capacity_block",
  "aws_capacity_reservation",
  "aws_zonal_ri",
  "aws_regional_ri",
  "aws_ec2_instance_sp",
  "aws_compute_sp",
  "azure_reservation",
  "azure_savings_plan",
  "gcp_resource_cud",
  "gcp_flexible_cud",
] as const;
export type CommitmentKind = (typeof COMMITMENT_KINDS)[number];

export type CommitmentState = "upcoming" | "active" | "expired";
export type CommitmentResource = "machine" | "vcpu" | "memory" | "gpu";

export interface Commitment {
  id: string;
  ref: string;
  kind: CommitmentKind | null;
  /** The service's word for it, should this page not know the kind. */
  kindName: string;
  cloud: string;
  /** What it is for: a type, a family or a GPU model; empty: whatever runs. */
  scope: string;
  /** Zone or region; empty: everywhere. */
  place: string;
  resource: CommitmentResource;
  quantity: number;
  spend: Money | null;
  hourCost: Money;
  upfront: Money;
  startsAt: Date;
  /** null: until cancelled. */
  endsAt: Date | null;
  state: CommitmentState;
  owner: string;
  source: string;
  createdBy: string;
  createdAt: Date;
}

export interface CommitmentUse {
  id: string;
  ref: string;
  kind: CommitmentKind | null;
  kindName: string;
  owner: string;
  bought: Money;
  used: Money;
  unused: Money;
  ratio: number | null;
  hours: number;
  listed: Money | null;
  savings: Money | null;
}

export interface Utilisation {
  from: Date;
  to: Date;
  bought: Money;
  used: Money;
  unused: Money;
  ratio: number | null;
  items: CommitmentUse[];
}

export interface CoverageRow {
  cloud: string;
  region: string;
  family: string;
  eligibleHours: number;
  coveredHours: number;
  ratio: number | null;
  onDemandCost: Money;
  coveredCost: Money;
  unlisted: boolean;
}

export interface Coverage {
  from: Date;
  to: Date;
  ratio: number | null;
  items: CoverageRow[];
}

export interface Expiry {
  id: string;
  ref: string;
  kind: CommitmentKind | null;
  kindName: string;
  owner: string;
  endsAt: Date;
  daysLeft: number;
  hourCost: Money;
  left: Money;
}

export interface AdviceLevel {
  level: number;
  busy: number;
  spotAvailable: number;
  instead: Money;
  reserved: Money;
  buy: boolean;
}

export interface Advice {
  key: string;
  cloud: string;
  region: string;
  instanceType: string;
  buy: number;
  owned: number;
  onDemand: Money;
  spot: Money | null;
  reserved: Money;
  reservedSource: "own" | "assumed";
  availabilitySource: "own_nodes" | "asked";
  savingMonth: Money;
  levels: AdviceLevel[];
}

export interface AdviceAnswer {
  from: Date;
  to: Date;
  savingMonth: Money;
  items: Advice[];
}

export interface ImportResult {
  added: number;
  changed: number;
  unchanged: number;
}

export function readKind(kind: string): { kind: CommitmentKind | null; kindName: string } {
  return { kind: COMMITMENT_KINDS.find((k) => k === kind) ?? null, kindName: kind };
}

export function readCommitment(wire: WireCommitment): Commitment {
  return {
    id: wire.id,
    ref: wire.ref,
    ...readKind(wire.kind),
    cloud: wire.cloud,
    scope: wire.instance_type || wire.family || wire.gpu_model || "",
    place: wire.zone || wire.region || "",
    resource: readWord(["machine", "vcpu", "memory", "gpu"], wire.resource, "machine"),
    quantity: wire.quantity,
    spend: readMoneyOr(wire.hourly_commitment),
    hourCost: readMoney(wire.hour_cost),
    upfront: readMoney(wire.upfront),
    startsAt: parseTime(wire.starts_at),
    endsAt: readTimeOr(wire.ends_at),
    state: readWord(["upcoming", "active", "expired"], wire.state, "active"),
    owner: wire.owner ?? "",
    source: wire.source,
    createdBy: wire.created_by,
    createdAt: parseTime(wire.created_at),
  };
}

export function readUtilisation(wire: WireUtilisation): Utilisation {
  return {
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    bought: readMoney(wire.bought),
    used: readMoney(wire.used),
    unused: readMoney(wire.unused),
    ratio: wire.utilisation,
    items: (wire.items ?? []).map((u) => ({
      id: u.id,
      ref: u.ref,
      ...readKind(u.kind),
      owner: u.owner ?? "",
      bought: readMoney(u.bought),
      used: readMoney(u.used),
      unused: readMoney(u.unused),
      ratio: u.utilisation,
      hours: u.hours,
      listed: readMoneyOr(u.listed),
      savings: readMoneyOr(u.savings),
    })),
  };
}

export function readCoverage(wire: WireCoverage): Coverage {
  return {
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    ratio: wire.coverage,
    items: (wire.items ?? []).map((c) => ({
      cloud: c.cloud,
      region: c.region,
      family: c.family,
      eligibleHours: c.eligible_hours,
      coveredHours: c.covered_hours,
      ratio: c.coverage,
      onDemandCost: readMoney(c.on_demand_cost),
      coveredCost: readMoney(c.covered_cost),
      unlisted: c.unlisted,
    })),
  };
}

export function readExpiry(wire: WireExpiry): Expiry {
  return {
    id: wire.id,
    ref: wire.ref,
    ...readKind(wire.kind),
    owner: wire.owner ?? "",
    endsAt: parseTime(wire.ends_at),
    daysLeft: wire.days_left,
    hourCost: readMoney(wire.hour_cost),
    left: readMoney(wire.left),
  };
}

function readAdviceItem(wire: WireAdvice): Advice {
  return {
    key: `${wire.cloud}/${wire.region}/${wire.instance_type}`,
    cloud: wire.cloud,
    region: wire.region,
    instanceType: wire.instance_type,
    buy: wire.buy,
    owned: wire.owned,
    onDemand: readMoney(wire.on_demand_hour),
    spot: readMoneyOr(wire.spot_hour),
    reserved: readMoney(wire.reserved_hour),
    reservedSource: wire.reserved_source,
    availabilitySource: wire.availability_source,
    savingMonth: readMoney(wire.saving_month),
    levels: (wire.levels ?? []).map((l) => ({
      level: l.level,
      busy: l.busy,
      spotAvailable: l.spot_available,
      instead: readMoney(l.instead_hour),
      reserved: readMoney(l.reserved_hour),
      buy: l.buy,
    })),
  };
}

export function readAdvice(wire: WireAdviceAnswer): AdviceAnswer {
  return {
    from: parseTime(wire.from),
    to: parseTime(wire.to),
    savingMonth: readMoney(wire.saving_month),
    items: (wire.items ?? []).map(readAdviceItem),
  };
}

export const commitmentsQuery = queryOptions({
  queryKey: ["commitments", "list"],
  queryFn: async ({ signal }) =>
    ((await answer(client.GET("/commitments", { signal }))).items ?? []).map(readCommitment),
});

const span = (from: Date, to: Date) => ({ from: from.toISOString(), to: to.toISOString() });

export const utilisationQuery = (from: Date, to: Date) =>
  queryOptions({
    queryKey: ["commitments", "utilisation", from.getTime(), to.getTime()],
    queryFn: async ({ signal }) =>
      readUtilisation(
        await answer(client.GET("/commitments/utilisation", { params: { query: span(from, to) }, signal })),
      ),
    placeholderData: keepPreviousData,
  });

export const coverageQuery = (from: Date, to: Date) =>
  queryOptions({
    queryKey: ["commitments", "coverage", from.getTime(), to.getTime()],
    queryFn: async ({ signal }) =>
      readCoverage(await answer(client.GET("/commitments/coverage", { params: { query: span(from, to) }, signal }))),
    placeholderData: keepPreviousData,
  });

export const expiriesQuery = (days: number) =>
  queryOptions({
    queryKey: ["commitments", "expiries", days],
    queryFn: async ({ signal }) => {
      const found = await answer(client.GET("/commitments/expiries", { params: { query: { days } }, signal }));
      return { dataNow: parseTime(found.data_now), items: (found.items ?? []).map(readExpiry) };
    },
  });

/** `spotShare` null: as the tenant's own machines showed. */
export const adviceQuery = (from: Date, to: Date, discountPercent: number, spotShare: number | null) =>
  queryOptions({
    queryKey: ["commitments", "advice", from.getTime(), to.getTime(), discountPercent, spotShare],
    queryFn: async ({ signal }) => {
      const query = {
        ...span(from, to),
        reserved_discount_percent: discountPercent,
        spot_availability: spotShare ?? undefined,
      };
      return readAdvice(await answer(client.GET("/commitments/recommendations", { params: { query }, signal })));
    },
    placeholderData: keepPreviousData,
  });

/** The file goes as it is: the service reads it, all or nothing, and names the row it cannot read. */
export async function importCommitments(text: string, format: "csv" | "json"): Promise<ImportResult> {
  return answer(
    client.POST("/commitments/import", {
      body: text,
      bodySerializer: (body) => body as string,
      headers: { "content-type": format === "csv" ? "text/csv" : "application/json" },
    }),
  );
}

export async function deleteCommitment(id: string): Promise<void> {
  await answer(client.DELETE("/commitments/{id}", { params: { path: { id } } }));
}
