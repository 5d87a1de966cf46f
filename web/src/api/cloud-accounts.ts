import { queryOptions } from "@tanstack/react-query";
import type { Cloud } from "../lib/cloud";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readObject, readTimeOr } from "./read";
import type { WireCloudAccount, WireCloudAccountInput, WirePriceSource } from "./wire";

export const OUTCOME_COUNTS = [
  "on_demand_prices",
  "on_demand_changed",
  "doubted",
  "spot_prices",
  "spot_changed",
  "machines",
  "commitments",
  "commitments_skipped",
  "commitments_ended",
  "capacity_reservations",
] as const;
export type OutcomeCount = (typeof OUTCOME_COUNTS)[number];

/** An account at a cloud that is read. */
export interface CloudAccount {
  id: string;
  cloud: Cloud;
  name: string;
  /** The role, application or service account that is used. */
  subject: string;
  /** Of AWS: what the role's trust policy must ask for; else empty. */
  externalId: string;
  regions: string[];
  state: "new" | "ok" | "failing";
  failures: number;
  problem: string;
  refreshedAt: Date | null;
  stale: boolean;
  nextAt: Date;
  /** Counts of the newest complete reading. */
  counts: { name: OutcomeCount; value: number }[];
  createdAt: Date;
}

export interface CloudChecks {
  ok: boolean;
  checks: { name: string; ok: boolean; problem: string }[];
}

/** How fresh a list of prices is. */
export interface PriceSource {
  key: string;
  cloud: string;
  region: string;
  kind: "on_demand" | "spot";
  source: string;
  refreshedAt: Date;
  stale: boolean;
  listed: number;
  changed: number;
  skipped: { reason: string; count: number }[];
  doubted: { instanceType: string; hour: string; expected: string }[];
}

export type Access =
  | { cloud: "aws"; roleArn: string }
  | { cloud: "azure"; directoryId: string; clientId: string; clientSecret: string; subscriptionId: string }
  | { cloud: "gcp"; projectId: string; key: string; serviceAccount: string };

export interface CloudAccountInput {
  name: string;
  regions: string[];
  access: Access;
}

export function readCloudAccount(wire: WireCloudAccount): CloudAccount {
  const outcome = readObject(wire.outcome);
  return {
    id: wire.id,
    cloud: wire.cloud,
    name: wire.name,
    subject: wire.subject,
    externalId: wire.external_id ?? "",
    regions: wire.regions ?? [],
    state: wire.state,
    failures: wire.failures,
    problem: wire.problem ?? "",
    refreshedAt: readTimeOr(wire.refreshed_at),
    stale: wire.stale,
    nextAt: parseTime(wire.next_at),
    counts: OUTCOME_COUNTS.flatMap((name) => {
      const value = outcome[name];
      return typeof value === "number" ? [{ name, value }] : [];
    }),
    createdAt: parseTime(wire.created_at),
  };
}

export function readPriceSource(wire: WirePriceSource): PriceSource {
  return {
    key: `${wire.cloud}/${wire.region}/${wire.kind}`,
    cloud: wire.cloud,
    region: wire.region,
    kind: wire.kind,
    source: wire.source,
    refreshedAt: parseTime(wire.refreshed_at),
    stale: wire.stale,
    listed: wire.listed,
    changed: wire.changed,
    skipped: Object.entries(wire.skipped ?? {})
      .map(([reason, count]) => ({ reason, count }))
      .sort((a, b) => b.count - a.count),
    doubted: (wire.doubted ?? []).map((d) => ({ instanceType: d.instance_type, hour: d.hour, expected: d.expected })),
  };
}

function writeAccess(access: Access): Pick<WireCloudAccountInput, "cloud" | "aws" | "azure" | "gcp"> {
  switch (access.cloud) {
    case "aws":
      return { cloud: "aws", aws: { role_arn: access.roleArn } };
    case "azure":
      return {
        cloud: "azure",
        azure: {
          directory_id: access.directoryId,
          client_id: access.clientId,
          subscription_id: access.subscriptionId,
          ...(access.clientSecret ? { client_secret: access.clientSecret } : {}),
        },
      };
    case "gcp":
      return {
        cloud: "gcp",
        gcp: {
          project_id: access.projectId,
          ...(access.key ? { key: access.key } : {}),
          ...(access.serviceAccount ? { service_account: access.serviceAccount } : {}),
        },
      };
  }
}

export const cloudAccountsQuery = queryOptions({
  queryKey: ["cloud-accounts"],
  queryFn: async ({ signal }) =>
    ((await answer(client.GET("/cloud-accounts", { signal }))).items ?? []).map(readCloudAccount),
});

export const priceSourcesQuery = queryOptions({
  queryKey: ["price-sources"],
  queryFn: async ({ signal }) =>
    ((await answer(client.GET("/price-sources", { signal }))).items ?? []).map(readPriceSource),
});

export async function createCloudAccount(input: CloudAccountInput): Promise<CloudAccount> {
  const body = { name: input.name, regions: input.regions, ...writeAccess(input.access) };
  return readCloudAccount(await answer(client.POST("/cloud-accounts", { body })));
}

export async function deleteCloudAccount(id: string): Promise<void> {
  await answer(client.DELETE("/cloud-accounts/{id}", { params: { path: { id } } }));
}

export async function refreshCloudAccount(id: string): Promise<void> {
  await answer(client.POST("/cloud-accounts/{id}/refresh", { params: { path: { id } } }));
}

/** Tries each thing that the account must allow. */
export async function validateCloudAccount(id: string): Promise<CloudChecks> {
  const { ok, checks } = await answer(client.POST("/cloud-accounts/{id}/validate", { params: { path: { id } } }));
  return { ok, checks: (checks ?? []).map((c) => ({ name: c.name, ok: c.ok, problem: c.problem ?? "" })) };
}
