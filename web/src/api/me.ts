import { queryOptions } from "@tanstack/react-query";
import type { Role } from "../lib/role";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import type { WireMe } from "./wire";

export interface Me {
  user: { id: string; email: string; displayName: string };
  tenant: { id: string; name: string; currency: string; zone: string };
  role: Role;
  /** The newest data of any cluster; the service's clock before the first report. */
  dataNow: Date;
  demo: boolean;
}

export function readMe(wire: WireMe): Me {
  return {
    user: {
      id: wire.user?.id ?? "",
      email: wire.user?.email ?? "",
      displayName: wire.user?.display_name ?? "",
    },
    tenant: {
      id: wire.tenant.id,
      name: wire.tenant.name,
      currency: wire.tenant.currency,
      zone: wire.tenant.time_zone,
    },
    role: wire.role,
    dataNow: parseTime(wire.data_now),
    demo: wire.demo,
  };
}

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ signal }) => readMe(await answer(client.GET("/me", { signal }))),
  staleTime: 30_000,
});

export async function signIn(email: string, password: string): Promise<Me> {
  return readMe(await answer(client.POST("/auth/login", { body: { email, password } })));
}

export async function signOut(): Promise<void> {
  await answer(client.POST("/auth/logout"));
}
