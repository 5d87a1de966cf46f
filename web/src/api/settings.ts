import { queryOptions } from "@tanstack/react-query";
import type { Role } from "../lib/role";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { type Page, readPage, readTimeOr } from "./read";
import type { WireApiKey, WireMember } from "./wire";

export const KEY_ROLES = ["viewer", "finance", "operator", "admin"] as const;
export type KeyRole = (typeof KEY_ROLES)[number];

export const ROLES = ["viewer", "finance", "operator", "admin", "owner"] as const;

export interface Member {
  id: string;
  email: string;
  displayName: string;
  role: Role;
  disabled: boolean;
  joinedAt: Date;
}

export interface ApiKey {
  id: string;
  name: string;
  hint: string;
  role: KeyRole;
  createdAt: Date;
  expiresAt: Date | null;
  lastUsedAt: Date | null;
}

export interface AuditEntry {
  seq: number;
  at: Date;
  actor: string;
  action: string;
  object: string;
  detail: { name: string; value: string }[];
}

function readMember(wire: WireMember): Member {
  return {
    id: wire.id,
    email: wire.email,
    displayName: wire.display_name,
    role: wire.role,
    disabled: wire.disabled,
    joinedAt: parseTime(wire.joined_at),
  };
}

export const membersQuery = queryOptions({
  queryKey: ["settings", "members"],
  queryFn: async ({ signal }) => ((await answer(client.GET("/members", { signal }))).items ?? []).map(readMember),
});

export async function addMember(email: string, displayName: string, role: Role, password: string): Promise<void> {
  const body = {
    email,
    role,
    ...(displayName ? { display_name: displayName } : {}),
    ...(password ? { password } : {}),
  };
  await answer(client.POST("/members", { body }));
}

export async function changeRole(id: string, role: Role): Promise<void> {
  await answer(client.PATCH("/members/{id}", { params: { path: { id } }, body: { role } }));
}

export async function removeMember(id: string): Promise<void> {
  await answer(client.DELETE("/members/{id}", { params: { path: { id } } }));
}

function readKey(wire: WireApiKey): ApiKey {
  return {
    id: wire.id,
    name: wire.name,
    hint: wire.hint,
    role: wire.role,
    createdAt: parseTime(wire.created_at),
    expiresAt: readTimeOr(wire.expires_at),
    lastUsedAt: readTimeOr(wire.last_used_at),
  };
}

export const keysQuery = queryOptions({
  queryKey: ["settings", "keys"],
  queryFn: async ({ signal }) => ((await answer(client.GET("/api-keys", { signal }))).items ?? []).map(readKey),
});

/** Creates a key and gives its secret, which the service never shows again. */
export async function createKey(name: string, role: KeyRole, expiresAt: Date | null): Promise<string> {
  const body = { name, role, ...(expiresAt ? { expires_at: expiresAt.toISOString() } : {}) };
  return (await answer(client.POST("/api-keys", { body }))).secret;
}

export async function revokeKey(id: string): Promise<void> {
  await answer(client.DELETE("/api-keys/{id}", { params: { path: { id } } }));
}

export const auditQuery = (cursor: string | undefined) =>
  queryOptions({
    queryKey: ["settings", "audit", cursor ?? ""],
    queryFn: async ({ signal }): Promise<Page<AuditEntry>> =>
      readPage(await answer(client.GET("/audit", { params: { query: { cursor, limit: 50 } }, signal })), (e) => ({
        seq: e.seq,
        at: parseTime(e.at),
        actor: e.actor,
        action: e.action,
        object: e.object,
        detail: Object.entries(e.detail ?? {})
          .filter(([, value]) => value !== "")
          .map(([name, value]) => ({ name, value }))
          .sort((a, b) => a.name.localeCompare(b.name)),
      })),
  });

/** Walks the whole hash chain. */
export async function verifyAudit(): Promise<{ entries: number; intact: boolean; brokenAt: number | null }> {
  const wire = await answer(client.GET("/audit/verification"));
  return { entries: wire.entries, intact: wire.intact, brokenAt: wire.broken_at ?? null };
}
