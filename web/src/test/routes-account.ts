// What the fake service answers about accounts, keys, the audit log and the demo.
import type { WireApiKey, WireMember } from "../api/wire";
import * as make from "./factories.ts";
import type { FakeApi } from "./fake-api.ts";
import { drop, list, missing, ok, page, problem, type Route } from "./fake-http.ts";

export const accountRoutes = (api: FakeApi): Route[] => [
  ["GET", "/me", () => ok(api.me)],
  [
    "POST",
    "/auth/login",
    (r) => {
      const { password } = r.body as { password: string };
      if (password === "wrong") return problem(401, "Unauthorized", "email or password is wrong");
      api.signedIn = true;
      return ok(api.me);
    },
  ],
  [
    "POST",
    "/auth/logout",
    () => {
      api.signedIn = false;
      return ok();
    },
  ],
  ["GET", "/members", () => ok(list(api.members))],
  [
    "POST",
    "/members",
    (r) => {
      const { email, role } = r.body as { email: string; role: WireMember["role"] };
      const member: WireMember = {
        id: make.uuid(1, api.members.length + 1),
        email,
        display_name: email,
        role,
        disabled: false,
        joined_at: new Date().toISOString(),
      };
      api.members.push(member);
      return ok(member);
    },
  ],
  [
    "PATCH",
    "/members/{id}",
    (r, p) => {
      const member = api.members.find((m) => m.id === p.id);
      if (!member) return missing();
      Object.assign(member, r.body);
      return ok(member);
    },
  ],
  ["DELETE", "/members/{id}", (_, p) => drop(api.members, p.id)],
  ["GET", "/api-keys", () => ok(list(api.keys))],
  [
    "POST",
    "/api-keys",
    (r) => {
      const { name, role, expires_at } = r.body as { name: string; role: WireApiKey["role"]; expires_at?: string };
      const key: WireApiKey = {
        id: make.uuid(12, api.keys.length + 1),
        name,
        role,
        hint: "f4k3",
        created_by: make.uuid(1, 1),
        created_at: new Date().toISOString(),
        expires_at: expires_at ?? null,
        last_used_at: null,
      };
      api.keys.unshift(key);
      return ok({ ...key, secret: "fake-api-key" });
    },
  ],
  ["DELETE", "/api-keys/{id}", (_, p) => drop(api.keys, p.id)],
  ["GET", "/audit", (r) => ok(page(api.audit, r.query))],
  [
    "GET",
    "/audit/verification",
    () => ok({ entries: api.audit.length, intact: true, broken_at: null, head: "00".repeat(32) }),
  ],
  ["GET", "/demo/speed", () => (api.me.demo ? ok({ speed: api.speed }) : missing())],
  [
    "PUT",
    "/demo/speed",
    (r) => {
      api.speed = (r.body as { speed: number }).speed;
      return ok({ speed: api.speed });
    },
  ],
];
