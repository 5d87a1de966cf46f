// Renders the whole dashboard at a path, against a fake service.
import { QueryClient } from "@tanstack/react-query";
import { createMemoryHistory } from "@tanstack/react-router";
import { render } from "@testing-library/react";
import { vi } from "vitest";
import { App } from "../app";
import { i18n } from "../i18n";
import { makeRouter } from "../router";
import { FakeApi, readBody } from "./fake-api";

const PREFIX = "/api/v1";

/** Lets fetch be answered by a fake service. */
export function serve(fake: FakeApi): void {
  vi.stubGlobal("fetch", async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    const text = await request.text();
    const answer = fake.handle({
      method: request.method,
      path: url.pathname.slice(PREFIX.length),
      query: url.searchParams,
      body: readBody(text, request.headers.get("content-type") ?? undefined),
      headers: Object.fromEntries([...request.headers].map(([name, value]) => [name.toLowerCase(), value])),
    });
    return new Response(answer.body === undefined ? null : JSON.stringify(answer.body), {
      status: answer.status,
      headers: { "content-type": answer.status >= 400 ? "application/problem+json" : "application/json" },
    });
  });
}

export async function renderAt(path: string, { fake = new FakeApi(), language = "en" } = {}) {
  serve(fake);
  await i18n.changeLanguage(language);
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const history = createMemoryHistory({ initialEntries: [path] });
  const router = makeRouter(client, history);
  const view = render(<App client={client} router={router} />);
  return { ...view, fake, client, router, history };
}
