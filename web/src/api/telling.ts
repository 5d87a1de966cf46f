import { queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseMoney } from "../lib/money";
import { parseTime } from "../lib/time";
import type { Severity } from "./alerts";
import { answer, client } from "./client";
import { type Page, readMoney, readPage, readTimeOr } from "./read";

export const CHANNEL_KINDS = ["webhook", "slack", "teams", "email", "pagerduty", "opsgenie"] as const;
export type ChannelKind = (typeof CHANNEL_KINDS)[number];
/** Whether a channel keeps an incident per alert: it has a key of the service, and no summaries. */
export const isPager = (kind: ChannelKind) => kind === "pagerduty" || kind === "opsgenie";
export const CHANNEL_LANGUAGES = ["en", "zh"] as const;

export interface Channel {
  id: string;
  kind: ChannelKind;
  name: string;
  address: string;
  language: (typeof CHANNEL_LANGUAGES)[number];
  oldSecretUntil: Date | null;
}

export const channelsQuery = queryOptions({
  queryKey: ["webhooks", "channels"],
  queryFn: async ({ signal }): Promise<Channel[]> =>
    ((await answer(client.GET("/channels", { signal }))).items ?? []).map((c) => ({
      id: c.id,
      kind: c.kind,
      name: c.name,
      address: c.address,
      language: c.language,
      oldSecretUntil: readTimeOr(c.old_secret_until),
    })),
});

/** Creates a channel; of a webhook it gives the secret that is never shown again, else an empty text. */
export async function createChannel(input: {
  kind: ChannelKind;
  name: string;
  address: string;
  key: string;
  language: "en" | "zh";
}): Promise<string> {
  return (
    (
      await answer(
        client.POST("/channels", {
          body: { ...input, address: input.address || undefined, key: input.key || undefined },
        }),
      )
    ).secret ?? ""
  );
}

export async function rotateChannel(id: string): Promise<string> {
  return (await answer(client.POST("/channels/{id}/rotate", { params: { path: { id } }, body: {} }))).secret ?? "";
}

export async function testChannel(id: string): Promise<void> {
  await answer(client.POST("/channels/{id}/test", { params: { path: { id } } }));
}

export async function deleteChannel(id: string): Promise<void> {
  await answer(client.DELETE("/channels/{id}", { params: { path: { id } } }));
}

export interface Attempt {
  n: number;
  at: Date;
  status: number | null;
  problem: string | null;
  tookSeconds: number;
}

export const attemptsQuery = (channel: string, delivery: string) =>
  queryOptions({
    queryKey: ["webhooks", "attempts", channel, delivery],
    queryFn: async ({ signal }): Promise<Attempt[]> =>
      (
        (
          await answer(
            client.GET("/channels/{id}/deliveries/{delivery}/attempts", {
              params: { path: { id: channel, delivery } },
              signal,
            }),
          )
        ).items ?? []
      ).map((a) => ({
        n: a.n,
        at: parseTime(a.at),
        status: a.status || null,
        problem: a.problem || null,
        tookSeconds: a.took_ms / 1000,
      })),
  });

export interface Route {
  id: string;
  name: string;
  channelId: string;
  kinds: string[];
  minSeverity: Severity;
  team: string | null;
  resolved: boolean;
}

export const routesQuery = queryOptions({
  queryKey: ["webhooks", "routes"],
  queryFn: async ({ signal }): Promise<Route[]> =>
    ((await answer(client.GET("/notify-routes", { signal }))).items ?? []).map((r) => ({
      id: r.id,
      name: r.name,
      channelId: r.channel_id,
      kinds: r.kinds ?? [],
      minSeverity: r.min_severity,
      team: r.team || null,
      resolved: r.resolved,
    })),
});

export async function createRoute(input: Omit<Route, "id">): Promise<void> {
  const { name, kinds, resolved } = input;
  await answer(
    client.POST("/notify-routes", {
      body: {
        name,
        kinds,
        resolved,
        channel_id: input.channelId,
        min_severity: input.minSeverity,
        ...(input.team ? { team: input.team } : {}),
      },
    }),
  );
}

export async function deleteRoute(id: string): Promise<void> {
  await answer(client.DELETE("/notify-routes/{id}", { params: { path: { id } } }));
}

export interface Silence {
  id: string;
  kinds: string[];
  subject: string | null;
  team: string | null;
  reason: string;
  until: Date;
  by: string;
}

export const silencesQuery = queryOptions({
  queryKey: ["webhooks", "silences"],
  queryFn: async ({ signal }): Promise<Silence[]> =>
    ((await answer(client.GET("/silences", { signal }))).items ?? []).map((s) => ({
      id: s.id,
      kinds: s.kinds ?? [],
      subject: s.subject_prefix || null,
      team: s.team || null,
      reason: s.reason,
      until: parseTime(s.until),
      by: s.created_by,
    })),
});

export async function createSilence(input: {
  kinds: string[];
  subject: string;
  team: string;
  reason: string;
  hours: number;
}): Promise<void> {
  const until = new Date(Date.now() + input.hours * 3_600_000).toISOString();
  await answer(
    client.POST("/silences", {
      body: {
        kinds: input.kinds,
        reason: input.reason,
        until,
        ...(input.subject ? { subject_prefix: input.subject } : {}),
        ...(input.team ? { team: input.team } : {}),
      },
    }),
  );
}

export async function endSilence(id: string): Promise<void> {
  await answer(client.POST("/silences/{id}/end", { params: { path: { id } } }));
}

export const DIGEST_HOUR = 9;
export type Every = "day" | "week";

export const digestsQuery = queryOptions({
  queryKey: ["webhooks", "digests"],
  queryFn: async ({ signal }): Promise<{ channelId: string; every: Every }[]> =>
    ((await answer(client.GET("/digests", { signal }))).items ?? []).map((d) => ({
      channelId: d.channel_id,
      every: d.every,
    })),
});

export async function setDigest(id: string, every: Every, on: boolean): Promise<void> {
  const params = { path: { id, every } };
  if (on) await answer(client.PUT("/digests/{id}/{every}", { params, body: { hour: DIGEST_HOUR } }));
  else await answer(client.DELETE("/digests/{id}/{every}", { params }));
}

export const ANOMALY_SCOPES = ["tenant", "cluster", "team", "namespace", "workload"] as const;

export interface Anomaly {
  id: string;
  scope: (typeof ANOMALY_SCOPES)[number];
  key: string;
  name: string;
  day: string;
  direction: "up" | "down";
  actual: Money;
  expected: Money;
  low: Money;
  high: Money;
  contributors: { id: string | null; name: string; delta: Money; price: Money; quantity: Money; mix: Money }[];
  decisions: { id: string; key: string; from: number; to: number }[];
  seenBy: string | null;
}

export interface AnomalyPage extends Page<Anomaly> {
  lookedTo: string | null;
}

export const anomaliesQuery = (query: { open?: boolean; cursor?: string }) =>
  queryOptions({
    queryKey: ["anomalies", query],
    queryFn: async ({ signal }): Promise<AnomalyPage> => {
      const wire = await answer(client.GET("/anomalies", { params: { query }, signal }));
      const page = readPage(wire, (a): Anomaly => {
        const actual = readMoney(a.actual);
        const money = (text: string) => parseMoney(text, actual.currency);
        return {
          id: a.id,
          scope: a.scope,
          key: a.key,
          name: a.name,
          day: a.day,
          direction: a.direction,
          actual,
          expected: readMoney(a.expected),
          low: readMoney(a.low),
          high: readMoney(a.high),
          contributors: (a.contributors ?? []).map((c) => ({
            id: c.workload_id || null,
            name: c.name,
            delta: money(c.delta),
            price: money(c.price),
            quantity: money(c.quantity),
            mix: money(c.mix),
          })),
          decisions: (a.decisions ?? []).map((d) => ({ id: d.id, key: d.workload, from: d.from, to: d.target })),
          seenBy: a.acknowledged_by || null,
        };
      });
      return { ...page, lookedTo: wire.looked_over_to || null };
    },
  });

export async function acknowledgeAnomaly(id: string): Promise<void> {
  await answer(client.POST("/anomalies/{id}/acknowledge", { params: { path: { id } }, body: {} }));
}
