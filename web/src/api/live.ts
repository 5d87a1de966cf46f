// Live updates: the service says what changed, and the queries that show it are asked again. Bursts are gathered so that a busy
// fleet costs one refetch per interval and query, however many events arrive.
import type { QueryClient, QueryKey } from "@tanstack/react-query";

export type LiveState = "connecting" | "live" | "lost";

const GATHER_MS = 3000;

/** Which queries show what an event says. */
export function queriesOf(type: string, data: Record<string, unknown>): QueryKey[] {
  switch (type) {
    case "cluster":
      return [["overview"], ["me"], ["clusters"], ["workloads"]];
    case "decision":
      return [["overview"], ["decisions"], ["workloads"], ["policies", "current", data.workload_id]];
    case "cost":
      return [["overview"], ["cost"], ["budgets"]];
    case "alert":
      return [["overview"], ["alerts"], ["budgets"], ["webhooks"]];
    default:
      return [];
  }
}

const TYPES = ["cluster", "decision", "cost", "alert"] as const;

/** Listens until stopped. EventSource reconnects by itself; after a gap everything is asked again. */
export function listen(queries: QueryClient, onState: (state: LiveState) => void): () => void {
  const source = new EventSource("/api/v1/events", { withCredentials: true });
  const pending = new Map<string, QueryKey>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let wasLost = false;

  const flush = () => {
    timer = undefined;
    for (const queryKey of pending.values()) void queries.invalidateQueries({ queryKey });
    pending.clear();
  };
  const gather = (keys: QueryKey[]) => {
    for (const key of keys) pending.set(JSON.stringify(key), key);
    if (pending.size > 0) timer ??= setTimeout(flush, GATHER_MS);
  };

  onState("connecting");
  source.onopen = () => {
    onState("live");
    if (wasLost) void queries.invalidateQueries();
    wasLost = false;
  };
  source.onerror = () => {
    wasLost = true;
    onState("lost");
  };
  for (const type of TYPES) {
    source.addEventListener(type, (event: MessageEvent<string>) => gather(queriesOf(type, readData(event.data))));
  }
  // Some events were missed: everything may have changed.
  source.addEventListener("resync", () => void queries.invalidateQueries());
  return () => {
    clearTimeout(timer);
    source.close();
  };
}

function readData(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
