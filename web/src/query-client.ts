import { QueryClient } from "@tanstack/react-query";
import { Problem } from "./api/problem";

/** Asks again only where that can help: not for what the service refused. */
export function makeQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 10_000,
        gcTime: 5 * 60_000,
        retry: (count, error) => !(error instanceof Problem && error.status >= 400 && error.status < 500) && count < 2,
        refetchOnWindowFocus: true,
      },
    },
  });
}
