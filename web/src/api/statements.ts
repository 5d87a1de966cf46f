// Statements: what each team owes for a month, as a draft and as issued.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { readMoney } from "./read";

export interface TeamCharge {
  team: string;
  direct: Money;
  idle: Money;
  shared: Money;
  total: Money;
}

export interface StatementHead {
  id: string;
  scope: "tenant" | "team";
  team: string;
  version: number;
  kind: "showback" | "chargeback";
  asOf: Date;
  total: Money;
}

export interface StatementMonth {
  month: string;
  from: Date;
  to: Date;
  asOf: Date;
  missingHours: number;
  teams: TeamCharge[];
  rest: { kind: string; name: string; amount: Money }[];
  total: Money;
  issued: StatementHead[];
}

export const statementsQuery = (month?: string) =>
  queryOptions({
    queryKey: ["statements", month ?? ""],
    queryFn: async ({ signal }): Promise<StatementMonth> => {
      const w = await answer(client.GET("/statements", { params: { query: { month } }, signal }));
      return {
        month: w.month,
        from: parseTime(w.from),
        to: parseTime(w.to),
        asOf: parseTime(w.as_of),
        missingHours: w.missing_hours,
        teams: (w.teams ?? []).map((c) => ({
          team: c.team,
          direct: readMoney(c.direct),
          idle: readMoney(c.idle),
          shared: readMoney(c.shared),
          total: readMoney(c.total),
        })),
        rest: (w.rest ?? []).map((l) => ({ kind: l.kind, name: l.name, amount: readMoney(l.amount) })),
        total: readMoney(w.total),
        issued: (w.issued ?? []).map((i) => ({
          id: i.id,
          scope: i.scope,
          team: i.team,
          version: i.version,
          kind: i.kind,
          asOf: parseTime(i.as_of),
          total: readMoney(i.total),
        })),
      };
    },
    placeholderData: keepPreviousData,
  });

export async function issueStatement(
  month: string,
  scope: "tenant" | "team",
  team: string,
  kind: "showback" | "chargeback",
): Promise<void> {
  await answer(client.POST("/statements", { body: { month, scope, team, kind } }));
}

export type StatementFormat = "html" | "pdf" | "csv";

/** Where a statement is downloaded: an issued one by its id, a draft by what it is about. */
export function statementFile(
  of: { id: string } | { month: string; scope: "tenant" | "team"; team: string },
  format: StatementFormat,
  language: string,
): string {
  const query = new URLSearchParams({ format, language: language === "zh" ? "zh" : "en" });
  if ("id" in of) return `/api/v1/statements/${of.id}/file?${query}`;
  for (const [key, value] of Object.entries(of)) query.set(key, value);
  return `/api/v1/statements/draft/file?${query}`;
}
