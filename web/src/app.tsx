import { MantineProvider } from "@mantine/core";
import { ModalsProvider } from "@mantine/modals";
import { Notifications } from "@mantine/notifications";
import { type QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useState } from "react";
import { makeQueryClient } from "./query-client";
import { makeRouter, type PlimsollRouter } from "./router";
import { theme } from "./theme";

/** Everything around the pages. Tests give a client and a router of their own. */
export function App(props: { client?: QueryClient; router?: PlimsollRouter }) {
  const [{ client, router }] = useState(() => {
    const client = props.client ?? makeQueryClient();
    const router = props.router ?? makeRouter(client);
    client.getQueryCache().subscribe((event) => {
      if (event.type === "updated" && event.action.type === "error") signInAgain(router, event.action.error);
    });
    return { client, router };
  });
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto">
      <QueryClientProvider client={client}>
        <ModalsProvider>
          <Notifications position="bottom-right" />
          <RouterProvider router={router} />
        </ModalsProvider>
      </QueryClientProvider>
    </MantineProvider>
  );
}

/** A session that ended shows the sign-in page, which leads back here. */
function signInAgain(router: PlimsollRouter, error: unknown): void {
  const status = typeof error === "object" && error !== null && "status" in error ? error.status : undefined;
  const { pathname, href } = router.state.location;
  if (status !== 401 || pathname === "/sign-in") return;
  void router.navigate({ to: "/sign-in", search: { next: href } });
}
