import { queryOptions } from "@tanstack/react-query";
import { answer, client } from "./client";
import { MODES, type Mode } from "./clusters";
import { readTimeOr, readWord } from "./read";
import type { WireFinding, WirePolicyVersion } from "./wire";

export interface Finding {
  field: string;
  severity: "error" | "warning";
  message: string;
  line: number | null;
}

export interface PolicyVersion {
  version: number;
  document: string;
  mode: Mode;
  createdBy: string;
  createdAt: Date | null;
  findings: Finding[];
}

function readFinding(wire: WireFinding): Finding {
  return {
    field: wire.field,
    severity: readWord(["error", "warning"], wire.severity, "warning"),
    message: wire.message,
    line: wire.line || null,
  };
}

export function readPolicyVersion(wire: WirePolicyVersion): PolicyVersion {
  return {
    version: wire.version,
    document: wire.document,
    mode: readWord(MODES, wire.mode, "observe"),
    createdBy: wire.created_by,
    createdAt: readTimeOr(wire.created_at),
    findings: (wire.findings ?? []).map(readFinding),
  };
}

/** The version in force; null when the workload has no policy. */
export const policyQuery = (workload: string) =>
  queryOptions({
    queryKey: ["policies", "current", workload],
    queryFn: async ({ signal }): Promise<PolicyVersion | null> => {
      const policy = readPolicyVersion(
        await answer(client.GET("/workloads/{id}/policy", { params: { path: { id: workload } }, signal })),
      );
      return policy.version === 0 ? null : policy;
    },
  });

export const policyVersionsQuery = (workload: string) =>
  queryOptions({
    queryKey: ["policies", "versions", workload],
    queryFn: async ({ signal }) =>
      (
        (await answer(client.GET("/workloads/{id}/policy/versions", { params: { path: { id: workload } }, signal })))
          .items ?? []
      ).map(readPolicyVersion),
  });

export const presetsQuery = queryOptions({
  queryKey: ["policies", "presets"],
  queryFn: async ({ signal }) => (await answer(client.GET("/policies/presets", { signal }))).items ?? [],
  staleTime: Number.POSITIVE_INFINITY,
});

export const lintQuery = (document: string) =>
  queryOptions({
    queryKey: ["policies", "lint", document],
    queryFn: async ({ signal }) =>
      ((await answer(client.POST("/policies/lint", { body: { document }, signal }))).findings ?? []).map(readFinding),
    staleTime: Number.POSITIVE_INFINITY,
  });

/** Saves a new version; `override` is why a policy that enforces is saved without a replay. `base` is the version it was written on; another one in between is a conflict (412). */
export async function savePolicy(
  workload: string,
  document: string,
  base: number,
  override?: string,
): Promise<PolicyVersion> {
  return readPolicyVersion(
    await answer(
      client.PUT("/workloads/{id}/policy", {
        params: { path: { id: workload }, header: { "If-Match": `"${base}"` } },
        body: { document, ...(override ? { replay_override: override } : {}) },
      }),
    ),
  );
}
