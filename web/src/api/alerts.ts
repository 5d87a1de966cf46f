import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { type Page, readObject, readPage, readTimeOr } from "./read";

export const SEVERITIES = ["info", "warning", "critical"] as const;
export type Severity = (typeof SEVERITIES)[number];

export interface Alert {
  id: string;
  kind: string;
  subject: string;
  severity: Severity;
  openedAt: Date;
  resolvedAt: Date | null;
  detail: Record<string, unknown>;
  /** What became of its newest change: how many channels were told, or why none was. */
  told: { state: "pending" | "silenced" | "told" | "dropped"; channels: number } | null;
}

export const alertsQuery = (query: { open?: boolean; cursor?: string; limit?: number }) =>
  queryOptions({
    queryKey: ["alerts", query],
    queryFn: async ({ signal }): Promise<Page<Alert>> =>
      readPage(await answer(client.GET("/alerts", { params: { query }, signal })), (a) => ({
        id: a.id,
        kind: a.kind,
        subject: a.subject,
        severity: a.severity,
        openedAt: parseTime(a.opened_at),
        resolvedAt: readTimeOr(a.resolved_at),
        detail: readObject(a.detail),
        told: a.told?.at(-1) ?? null,
      })),
    placeholderData: keepPreviousData,
  });
