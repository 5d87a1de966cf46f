// What the fake service answers about alerts and who is told.
import * as make from "./factories.ts";
import type { FakeApi } from "./fake-api.ts";
import { drop, list, ok, page, type Route } from "./fake-http.ts";
import * as telling from "./fake-telling.ts";

export const tellingRoutes = (api: FakeApi): Route[] => [
  ["GET", "/channels", () => ok(list(telling.channels))],
  ["POST", "/channels", (r) => ok({ ...telling.channels[0], ...(r.body as object), secret: "fake-signing-secret" })],
  ["POST", "/channels/{id}/test", () => ok(make.aDelivery(90, { state: "pending", event: "test" }))],
  ["POST", "/channels/{id}/rotate", () => ok({ ...telling.channels[0], secret: "fake-signing-secret" })],
  ["DELETE", "/channels/{id}", () => ok(undefined)],
  ["GET", "/channels/{id}/deliveries/{delivery}/attempts", () => ok(list(telling.attempts))],
  ["GET", "/notify-routes", () => ok(list(telling.routes))],
  ["POST", "/notify-routes", () => ok(telling.routes[0])],
  ["DELETE", "/notify-routes/{id}", () => ok(undefined)],
  ["GET", "/silences", () => ok(list(telling.silences))],
  ["POST", "/silences", () => ok(telling.silences[0])],
  ["POST", "/silences/{id}/end", () => ok(undefined)],
  ["GET", "/digests", () => ok(list(telling.digests))],
  ["PUT", "/digests/{id}/{every}", () => ok(undefined)],
  ["DELETE", "/digests/{id}/{every}", () => ok(undefined)],
  ["GET", "/anomalies", (r) => ok({ ...page(telling.anomalies, r.query), looked_over_to: "2026-11-14" })],
  ["POST", "/anomalies/{id}/acknowledge", () => ok({ ...telling.anomalies[0], acknowledged_by: "Mei Tanaka" })],
  ["GET", "/webhooks", () => ok(list(api.webhooks))],
  [
    "POST",
    "/webhooks",
    (r) => {
      const webhook = make.aWebhook(api.webhooks.length + 1, r.body as { name: string; url: string });
      api.webhooks.push(webhook);
      return ok({ ...webhook, secret: "fake-signing-secret" });
    },
  ],
  ["POST", "/webhooks/{id}/test", () => ok(make.aDelivery(90, { state: "pending", event: "test" }))],
  ["POST", "/webhooks/{id}/deliveries/{delivery}/redeliver", () => ok(make.aDelivery(91, { state: "pending" }))],
  ["DELETE", "/webhooks/{id}", (_, p) => drop(api.webhooks, p.id)],
  [
    "GET",
    "/webhooks/{id}/deliveries",
    (r) =>
      ok(
        page(
          Array.from({ length: 12 }, (_, i) =>
            make.aDelivery(
              i + 1,
              i % 5 === 2
                ? { state: "failed", attempts: 8, last_status: null, last_error: "connection refused" }
                : i === 0
                  ? { state: "pending", attempts: 2, last_status: 503, finished_at: null }
                  : {},
            ),
          ),
          r.query,
        ),
      ),
  ],
  [
    "GET",
    "/alerts",
    (r) =>
      ok(
        page(
          api.alerts.filter((a) => r.query.get("open") !== "true" || !a.resolved_at),
          r.query,
        ),
      ),
  ],
];
