import { describe, expect, test } from "vitest";
import {
  dayOf,
  formatDateTime,
  formatDuration,
  formatRelative,
  formatTick,
  parseDay,
  parseTime,
  startOfDay,
  startOfMonth,
  timeTicks,
  zoneOffset,
} from "./time";

const at = (text: string) => new Date(text);
const HOUR = 3_600_000;

describe("zones", () => {
  test.each([
    ["2026-11-27T12:00:00Z", "UTC", 0],
    ["2026-11-27T12:00:00Z", "Asia/Shanghai", 8],
    ["2026-07-01T12:00:00Z", "Europe/Amsterdam", 2],
    ["2026-12-01T12:00:00Z", "Europe/Amsterdam", 1],
    ["2026-12-01T12:00:00Z", "Asia/Kolkata", 5.5],
  ])("%s in %s is %d h ahead", (text, zone, hours) => {
    expect(zoneOffset(at(text), zone)).toBe(hours * HOUR);
  });

  test("a day of the spring change has 23 hours, of the autumn change 25", () => {
    const zone = "Europe/Amsterdam";
    const length = (text: string) =>
      (startOfDay(at(text), zone, 1).getTime() - startOfDay(at(text), zone).getTime()) / HOUR;
    expect(length("2026-03-29T12:00:00Z")).toBe(23);
    expect(length("2026-10-25T12:00:00Z")).toBe(25);
    expect(length("2026-06-01T12:00:00Z")).toBe(24);
  });

  test("midnight is of the zone", () => {
    expect(startOfDay(at("2026-11-27T23:30:00Z"), "Asia/Shanghai").toISOString()).toBe("2026-11-27T16:00:00.000Z");
    expect(startOfMonth(at("2026-12-01T00:30:00Z"), "America/New_York").toISOString()).toBe("2026-11-01T04:00:00.000Z");
    expect(startOfMonth(at("2026-01-15T00:00:00Z"), "UTC", -1).toISOString()).toBe("2025-12-01T00:00:00.000Z");
  });
});

describe("ticks", () => {
  test("stand on round wall-clock times of the zone", () => {
    const ticks = timeTicks(at("2026-11-27T09:20:00Z"), at("2026-11-27T15:20:00Z"), "Asia/Kolkata", 8);
    expect(ticks.length).toBeGreaterThan(3);
    expect(ticks.length).toBeLessThanOrEqual(8);
    for (const t of ticks) expect(formatTick(t, "en-GB", "Asia/Kolkata")).toMatch(/:00$/);
  });
  test("days stay on midnight across a change of the clock", () => {
    const ticks = timeTicks(at("2026-10-20T00:00:00Z"), at("2026-10-30T00:00:00Z"), "Europe/Amsterdam", 12);
    expect(ticks.length).toBe(10);
    for (const t of ticks) expect(formatTick(t, "en-GB", "Europe/Amsterdam")).toMatch(/Oct$/);
  });
  test("never more than asked for, for any span", () => {
    for (let hours = 1; hours < 24 * 400; hours = Math.ceil(hours * 1.7)) {
      const from = at("2026-02-03T04:05:06Z");
      const ticks = timeTicks(from, new Date(from.getTime() + hours * HOUR), "Europe/Amsterdam", 10);
      expect(ticks.length).toBeLessThanOrEqual(11);
      expect(ticks.length).toBeGreaterThan(0);
    }
  });
  test("an empty span has none", () => {
    expect(timeTicks(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z"), "UTC", 5)).toEqual([]);
  });
});

test.each([
  [0.4, "0.4 secs"],
  [59, "59 secs"],
  [125, "2 mins 5 secs"],
  [3599, "59 mins"],
  [3660, "1 hr 1 min"],
  [90_000, "1 day 1 hr"],
])("%d seconds are %s", (seconds, want) => {
  expect(formatDuration(seconds, "en-GB")).toBe(want);
});

test("relative times", () => {
  const now = at("2026-11-27T12:00:00Z");
  expect(formatRelative(at("2026-11-27T11:57:00Z"), now, "en-GB")).toBe("3 min ago");
  expect(formatRelative(at("2026-11-27T13:00:00Z"), now, "en-GB")).toBe("in 1 hr");
  expect(formatRelative(at("2026-11-27T11:57:00Z"), now, "zh-CN")).toBe("3分钟前");
});

test("times are in the tenant's zone", () => {
  expect(formatDateTime(at("2026-11-27T14:20:00Z"), "en-GB", "Asia/Shanghai")).toBe("27 Nov, 22:20");
});

test("bad times are errors", () => {
  expect(() => parseTime("yesterday")).toThrow();
  expect(() => parseDay("2026-13-40")).toThrow();
});

test("the day of a moment is the one its zone has", () => {
  expect(dayOf(new Date("2026-09-30T22:00:00Z"), "Europe/Berlin")).toEqual(new Date("2026-10-01T00:00:00Z"));
  expect(dayOf(new Date("2026-10-01T04:00:00Z"), "America/New_York")).toEqual(new Date("2026-10-01T00:00:00Z"));
  expect(dayOf(new Date("2026-10-01T03:59:59Z"), "America/New_York")).toEqual(new Date("2026-09-30T00:00:00Z"));
});
