import { queryOptions } from "@tanstack/react-query";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { type Page, readPage, readTimeOr } from "./read";

export interface Webhook {
  id: string;
  name: string;
  url: string;
  createdAt: Date;
}

export interface Delivery {
  id: string;
  event: string;
  state: "pending" | "delivered" | "failed";
  attempts: number;
  lastStatus: number | null;
  lastError: string | null;
  createdAt: Date;
  finishedAt: Date | null;
}

export const webhooksQuery = queryOptions({
  queryKey: ["webhooks", "list"],
  queryFn: async ({ signal }): Promise<Webhook[]> =>
    ((await answer(client.GET("/webhooks", { signal }))).items ?? []).map((w) => ({
      id: w.id,
      name: w.name,
      url: w.url,
      createdAt: parseTime(w.created_at),
    })),
});

export const deliveriesQuery = (webhook: string, cursor: string | undefined) =>
  queryOptions({
    queryKey: ["webhooks", "deliveries", webhook, cursor ?? ""],
    queryFn: async ({ signal }): Promise<Page<Delivery>> =>
      readPage(
        await answer(
          client.GET("/webhooks/{id}/deliveries", { params: { path: { id: webhook }, query: { cursor } }, signal }),
        ),
        (d) => ({
          id: d.id,
          event: d.event,
          state: d.state,
          attempts: d.attempts,
          lastStatus: d.last_status || null,
          lastError: d.last_error || null,
          createdAt: parseTime(d.created_at),
          finishedAt: readTimeOr(d.finished_at),
        }),
      ),
  });

/** Creates a webhook and gives the secret that signs its deliveries, which the service never shows again. */
export async function createWebhook(name: string, url: string): Promise<string> {
  return (await answer(client.POST("/webhooks", { body: { name, url } }))).secret;
}

/** Sends a test event; its delivery appears in the log. */
export async function testWebhook(id: string): Promise<void> {
  await answer(client.POST("/webhooks/{id}/test", { params: { path: { id } } }));
}

/** Sends the event of a delivery once more. */
export async function redeliver(id: string, delivery: string): Promise<void> {
  await answer(client.POST("/webhooks/{id}/deliveries/{delivery}/redeliver", { params: { path: { id, delivery } } }));
}

export async function deleteWebhook(id: string): Promise<void> {
  await answer(client.DELETE("/webhooks/{id}", { params: { path: { id } } }));
}
