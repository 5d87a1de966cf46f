// Small readers from wire to domain, shared by the nouns of this folder.
import { type Money, parseMoney } from "../lib/money";
import { parseTime } from "../lib/time";
import type { WireList, WireMoney } from "./wire";

export interface Page<T> {
  items: T[];
  nextCursor: string | null;
}

export function readMoney(wire: WireMoney): Money {
  return parseMoney(wire.amount, wire.currency);
}

export function readMoneyOr(wire: WireMoney | null | undefined): Money | null {
  return wire ? readMoney(wire) : null;
}

export function readTimeOr(wire: string | null | undefined): Date | null {
  return wire ? parseTime(wire) : null;
}

export function readPage<W, T>(wire: WireList<W>, read: (item: W) => T): Page<T> {
  return { items: (wire.items ?? []).map(read), nextCursor: wire.next_cursor || null };
}

/** An object of unknown shape; anything else reads as empty. */
export function readObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

/** A word of a closed set, or `otherwise` when the service knows one that this page does not. */
export function readWord<const T extends string>(words: readonly T[], value: string, otherwise: NoInfer<T>): T {
  return words.find((w) => w === value) ?? otherwise;
}
