import createClient from "openapi-fetch";
import { Problem, readProblem } from "./problem";
import type { paths } from "./wire";

const DEADLINE_MS = 20_000;

/** fetch with a deadline; a network failure is a Problem with status 0. */
async function boundedFetch(request: Request): Promise<Response> {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  try {
    return await globalThis.fetch(request, { signal: AbortSignal.any([request.signal, deadline]) });
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new Problem(0, "unreachable", deadline.aborted ? "timeout" : "network");
  }
}

export const client = createClient<paths>({
  baseUrl: `${globalThis.location?.origin ?? ""}/api/v1`,
  credentials: "same-origin",
  querySerializer: { array: { style: "form", explode: false } },
  fetch: boundedFetch,
});

/** Gives the answer's body or throws its Problem. */
export async function answer<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  if (!response.ok) throw readProblem(response.status, response.statusText, error);
  return data as T;
}
