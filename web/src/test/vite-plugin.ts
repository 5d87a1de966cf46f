import type { IncomingMessage } from "node:http";
import type { Plugin } from "vite";
import { FakeApi, readBody } from "./fake-api.ts";

const PREFIX = "/api/v1";
const MOST = 1 << 20;

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MOST) throw new Error("body too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Serves the fake API inside Vite's own server: `npm run dev:fake`. */
export function fakeApi(): Plugin {
  const fake = new FakeApi({ signedIn: false });
  return {
    name: "plimsoll-fake-api",
    configureServer(server) {
      server.middlewares.use(async (request, response, next) => {
        const url = new URL(request.url ?? "/", "http://localhost");
        if (!url.pathname.startsWith(PREFIX)) return next();
        const path = url.pathname.slice(PREFIX.length);
        if (path === "/events") {
          response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
          response.write(": hello\n\n");
          const timer = setInterval(() => response.write("event: cluster\ndata: {}\n\n"), 15_000);
          request.on("close", () => clearInterval(timer));
          return;
        }
        const headers = Object.fromEntries(Object.entries(request.headers).map(([k, v]) => [k, String(v)]));
        const answer = fake.handle({
          method: request.method ?? "GET",
          path,
          query: url.searchParams,
          body: readBody(await read(request), headers["content-type"]),
          headers,
        });
        response.writeHead(answer.status, {
          "content-type": answer.status >= 400 ? "application/problem+json" : "application/json",
        });
        response.end(answer.body === undefined ? undefined : JSON.stringify(answer.body));
      });
    },
  };
}
