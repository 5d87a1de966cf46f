// Time is shown in the tenant's IANA zone, never in the browser's.

const cache = new Map<string, Intl.DateTimeFormat>();

function dateFormat(locale: string, zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${locale}|${zone}|${JSON.stringify(options)}`;
  let found = cache.get(key);
  if (!found) {
    found = new Intl.DateTimeFormat(locale, { timeZone: zone, ...options });
    cache.set(key, found);
  }
  return found;
}

/** "30 Nov, 14:05" with the year when it is not the year of `now`. */
export function formatDateTime(at: Date, locale: string, zone: string): string {
  return dateFormat(locale, zone, {
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  }).format(at);
}

export function formatFullTime(at: Date, locale: string, zone: string): string {
  return dateFormat(locale, zone, {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    timeZoneName: "short",
  }).format(at);
}

export function formatClock(at: Date, locale: string, zone: string): string {
  return dateFormat(locale, zone, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(at);
}

export function formatDay(at: Date, locale: string, zone: string): string {
  return dateFormat(locale, zone, { month: "short", day: "numeric" }).format(at);
}

/** "30 Nov 2026": for dates that may lie years away. */
export function formatDate(at: Date, locale: string, zone: string): string {
  return dateFormat(locale, zone, { year: "numeric", month: "short", day: "numeric" }).format(at);
}

export function formatWeekday(at: Date, locale: string, zone: string): string {
  return dateFormat(locale, zone, { weekday: "short", month: "short", day: "numeric" }).format(at);
}

export function formatMonth(at: Date, locale: string, zone: string): string {
  return dateFormat(locale, zone, { month: "long", year: "numeric" }).format(at);
}

/** A month's name alone; `month` counts from 0. */
export function monthName(month: number, locale: string): string {
  return dateFormat(locale, "UTC", { month: "long" }).format(new Date(Date.UTC(2026, month, 1)));
}

/** A day of the week's name alone; `day` counts from Sunday, which is 0. */
export function weekdayName(day: number, locale: string): string {
  return dateFormat(locale, "UTC", { weekday: "long" }).format(new Date(Date.UTC(2026, 1, 1 + day)));
}

/** The zones that can be picked, with UTC and the one that is kept already. */
export function timeZones(kept: string): string[] {
  return [...new Set([...Intl.supportedValuesOf("timeZone"), "UTC", kept])].sort();
}

export function formatMonthShort(at: Date, locale: string, zone: string): string {
  return dateFormat(locale, zone, { month: "short", year: "numeric" }).format(at);
}

/** A calendar day "2026-11-30" as a date at noon UTC, so that formatting it in UTC gives that day back. */
export function parseDay(day: string): Date {
  const at = new Date(`${day.slice(0, 10)}T12:00:00Z`);
  if (Number.isNaN(at.getTime())) throw new Error(`not a day: ${day}`);
  return at;
}

/** RFC 3339 to Date; what cannot be read is an error, never "now". */
export function parseTime(text: string): Date {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) throw new Error(`not a time: ${text}`);
  return at;
}

type DurationUnit = "second" | "minute" | "hour" | "day";

function unit(value: number, name: DurationUnit, locale: string): string {
  return new Intl.NumberFormat(locale, {
    style: "unit",
    unit: name,
    unitDisplay: "short",
    maximumFractionDigits: name === "second" && value < 10 && !Number.isInteger(value) ? 1 : 0,
  }).format(value);
}

/** A length of time in at most two units: "2 min 5 sec", "3 days 4 hr". */
export function formatDuration(seconds: number, locale: string): string {
  const abs = Math.max(0, seconds);
  const pair = (big: number, bigUnit: DurationUnit, small: number, smallUnit: DurationUnit) =>
    small > 0 ? `${unit(big, bigUnit, locale)} ${unit(small, smallUnit, locale)}` : unit(big, bigUnit, locale);
  if (abs < 60) return unit(abs < 10 ? Math.round(abs * 10) / 10 : Math.floor(abs), "second", locale);
  if (abs < 600) return pair(Math.floor(abs / 60), "minute", Math.floor(abs % 60), "second");
  if (abs < 3600) return unit(Math.floor(abs / 60), "minute", locale);
  if (abs < 86_400) return pair(Math.floor(abs / 3600), "hour", Math.floor((abs % 3600) / 60), "minute");
  return pair(Math.floor(abs / 86_400), "day", Math.floor((abs % 86_400) / 3600), "hour");
}

/** "5 minutes ago", or "in 5 minutes" for what is to come. */
export function formatRelative(at: Date, now: Date, locale: string): string {
  const seconds = Math.round((at.getTime() - now.getTime()) / 1000);
  const format = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" });
  const abs = Math.abs(seconds);
  if (abs < 60) return format.format(seconds, "second");
  if (abs < 3600) return format.format(Math.trunc(seconds / 60), "minute");
  if (abs < 86_400) return format.format(Math.trunc(seconds / 3600), "hour");
  return format.format(Math.trunc(seconds / 86_400), "day");
}

/** How far the zone is ahead of UTC at a moment, in milliseconds. */
export function zoneOffset(at: Date, zone: string): number {
  const parts = dateFormat("en-US", zone, {
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
    hourCycle: "h23",
  }).formatToParts(at);
  const get = (type: Intl.DateTimeFormatPartTypes) => Number(parts.find((p) => p.type === type)?.value ?? 0);
  const local = Date.UTC(get("year"), get("month") - 1, get("day"), get("hour"), get("minute"), get("second"));
  return local - Math.floor(at.getTime() / 1000) * 1000;
}

/** The moment at which the wall clock of the zone shows the given local time; in a gap the moment after it. */
function fromLocal(local: number, zone: string): Date {
  const guess = local - zoneOffset(new Date(local), zone);
  return new Date(local - zoneOffset(new Date(guess), zone));
}

/** The UTC midnight of the day that a moment has in a zone. */
export function dayOf(at: Date, zone: string): Date {
  return new Date(Math.floor((at.getTime() + zoneOffset(at, zone)) / 86_400_000) * 86_400_000);
}

/** Midnight of the day that `at` falls on in the zone. `days` moves by calendar days, so DST days keep their length. */
export function startOfDay(at: Date, zone: string, days = 0): Date {
  const local = at.getTime() + zoneOffset(at, zone);
  const midnight = Math.floor(local / 86_400_000) * 86_400_000;
  return fromLocal(midnight + days * 86_400_000, zone);
}

/** The first moment of the month in the zone, moved by whole months. */
export function startOfMonth(at: Date, zone: string, months = 0): Date {
  const local = new Date(at.getTime() + zoneOffset(at, zone));
  return fromLocal(Date.UTC(local.getUTCFullYear(), local.getUTCMonth() + months, 1), zone);
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
];
const DAY_STEPS = [1, 2, 3, 7, 14, 30, 60, 90];

/** Axis ticks on round wall-clock times of the zone: at most `most` of them. */
export function timeTicks(from: Date, to: Date, zone: string, most: number): Date[] {
  const span = to.getTime() - from.getTime();
  if (span <= 0 || most < 1) return [];
  const step = STEPS.find((s) => span / s <= most);
  const ticks: Date[] = [];
  if (step) {
    const anchor = startOfDay(from, zone).getTime();
    let t = anchor + Math.ceil((from.getTime() - anchor) / step) * step;
    for (; t <= to.getTime(); t += step) ticks.push(new Date(t));
    return ticks;
  }
  const days = DAY_STEPS.find((d) => span / (d * DAY) <= most) ?? Math.ceil(span / DAY / most);
  for (let at = startOfDay(from, zone); at <= to; at = startOfDay(at, zone, days)) {
    if (at >= from) ticks.push(at);
  }
  return ticks;
}

/** A tick's words: the day at midnight, else the time. */
export function formatTick(at: Date, locale: string, zone: string): string {
  const local = at.getTime() + zoneOffset(at, zone);
  return local % DAY === 0 ? formatDay(at, locale, zone) : formatClock(at, locale, zone);
}
