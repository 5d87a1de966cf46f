// What every part of the fake service is made of: requests, answers, pages and numbers that look alive.
import type { WireList } from "../api/wire";

export interface FakeRequest {
  method: string;
  path: string;
  query: URLSearchParams;
  body: unknown;
  headers: Record<string, string>;
}

export interface FakeAnswer {
  status: number;
  body?: unknown;
}

/** A body as its content type says: JSON read, all else as it came. */
export function readBody(text: string, contentType: string | undefined): unknown {
  if (text === "") return undefined;
  return /json/.test(contentType ?? "json") ? JSON.parse(text) : text;
}

export type Handler = (request: FakeRequest, params: Record<string, string>) => FakeAnswer;

/** An answer that all went well. */
export const ok = (body?: unknown): FakeAnswer => ({ status: body === undefined ? 204 : 200, body });

/** An answer that says what is wrong. */
export const problem = (
  status: number,
  title: string,
  detail: string,
  errors?: { location: string; message: string }[],
) => ({
  status,
  body: { status, title, detail, errors },
});

export const missing = () => problem(404, "Not Found", "there is no such thing");

export const list = <T>(items: T[]): WireList<T> => ({ items });

/** One page of a list, by cursor. */
export function page<T>(items: T[], query: URLSearchParams): WireList<T> {
  const start = Number(query.get("cursor") ?? 0);
  const limit = Number(query.get("limit") ?? 50);
  const end = start + limit;
  return { items: items.slice(start, end), ...(end < items.length ? { next_cursor: String(end) } : {}) };
}

/** A day's rise and fall, 0 to 1. */
export const wave = (t: number, phase: number) => 0.5 + 0.5 * Math.sin((t / 86_400_000) * 2 * Math.PI + phase);

/** The same number from 0 to 1 for the same n, always. */
export const noise = (n: number) => {
  const x = Math.sin(n * 12.9898) * 43_758.5453;
  return x - Math.floor(x);
};

/** A request's method, its path with {names}, and what answers it. */
export type Route = [string, string, Handler];

export function one<T extends { id: string }>(items: T[], id: string | undefined): FakeAnswer {
  const item = items.find((i) => i.id === id);
  return item ? ok(item) : missing();
}

export function drop<T extends { id: string }>(items: T[], id: string | undefined): FakeAnswer {
  const at = items.findIndex((i) => i.id === id);
  if (at < 0) return missing();
  items.splice(at, 1);
  return ok();
}
