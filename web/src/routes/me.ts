import { useSuspenseQuery } from "@tanstack/react-query";
import { type Me, meQuery } from "../api/me";
import { allows, type Role } from "../lib/role";

/** Who is signed in. The layout route has loaded it before any page is shown. */
export function useMe(): Me {
  return useSuspenseQuery(meQuery).data;
}

/** Whether the signed-in person may do what needs a role. */
export function useMay(need: Role): boolean {
  return allows(useMe().role, need);
}
