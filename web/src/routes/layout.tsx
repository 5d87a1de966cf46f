import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Outlet, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { setSpeed, speedQuery } from "../api/demo";
import { type LiveState, listen } from "../api/live";
import { signOut } from "../api/me";
import { overviewQuery } from "../api/overview";
import { tellProblem } from "../components/ask";
import { Shell } from "../components/shell";
import { useProblemText } from "../components/state";
import { PlaceProvider } from "../lib/format";
import { allows } from "../lib/role";
import { useMe } from "./me";

const POLL_MS = 15_000;

/** The frame around every page: navigation, live updates, tenant's currency and zone. */
export function Layout() {
  const me = useMe();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const problemText = useProblemText();
  const [live, setLive] = useState<LiveState>("connecting");
  const overview = useQuery(overviewQuery);
  const speed = useQuery({ ...speedQuery, enabled: me.demo });

  useEffect(() => listen(queries, setLive), [queries]);
  useEffect(() => {
    if (live !== "lost") return;
    const timer = setInterval(() => void queries.invalidateQueries(), POLL_MS);
    return () => clearInterval(timer);
  }, [live, queries]);

  const leave = async () => {
    try {
      await signOut();
    } catch (error) {
      tellProblem(problemText(error));
      return;
    }
    queries.clear();
    await navigate({ to: "/sign-in" });
  };

  const changeSpeed = async (value: number) => {
    try {
      queries.setQueryData(speedQuery.queryKey, await setSpeed(value));
    } catch (error) {
      tellProblem(problemText(error));
    }
  };

  return (
    <PlaceProvider currency={me.tenant.currency} zone={me.tenant.zone}>
      <Shell
        me={me}
        live={live}
        dataNow={overview.data?.dataNow ?? me.dataNow}
        waiting={overview.data?.decisions.proposed ?? 0}
        alerts={overview.data?.alertsOpen ?? 0}
        speed={me.demo ? (speed.data ?? null) : null}
        onSpeed={allows(me.role, "operator") ? (value) => void changeSpeed(value) : undefined}
        onSignOut={() => void leave()}
      >
        <Outlet />
      </Shell>
    </PlaceProvider>
  );
}
