import type { Operation } from "./paths";
import type { WireList, WireRole } from "./wire";

export type WireKeyRole = Exclude<WireRole, "owner">;

export interface WireMember {
  id: string;
  email: string;
  display_name: string;
  role: WireRole;
  disabled: boolean;
  joined_at: string;
}

export interface WireApiKey {
  id: string;
  name: string;
  hint: string;
  role: WireKeyRole;
  created_by?: string | null;
  created_at: string;
  expires_at?: string | null;
  last_used_at?: string | null;
}

export interface WireAuditEntry {
  seq: number;
  at: string;
  actor: string;
  action: string;
  object: string;
  detail: Record<string, string> | null;
  hash: string;
}

type Id = { id: string };

export interface settingsPaths {
  "/members": {
    get: Operation<WireList<WireMember>>;
    post: Operation<WireMember, { body: { email: string; display_name?: string; role: WireRole; password?: string } }>;
  };
  "/members/{id}": {
    patch: Operation<WireMember, { path: Id; body: { role: WireRole } }>;
    delete: Operation<undefined, { path: Id }>;
  };
  "/api-keys": {
    get: Operation<WireList<WireApiKey>>;
    post: Operation<
      WireApiKey & { secret: string },
      { body: { name: string; role: WireKeyRole; expires_at?: string } }
    >;
  };
  "/api-keys/{id}": { delete: Operation<undefined, { path: Id }> };
  "/audit": { get: Operation<WireList<WireAuditEntry>, { query: { cursor?: string; limit?: number } }> };
  "/audit/verification": {
    get: Operation<{ entries: number; intact: boolean; broken_at?: number | null; head: string }>;
  };
}
