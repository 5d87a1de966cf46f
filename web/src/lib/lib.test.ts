import { describe, expect, test } from "vitest";
import { toCsv } from "./csv";
import { secondsUntil } from "./data-clock";
import { formatLatency, formatMebibytes, formatNumber, formatPercent } from "./number";
import { latencyTarget } from "./policy";
import { allows, type Role } from "./role";
import { roundUp } from "./scale";
import { moment, oneOf, schema, text, whole } from "./search";

describe("URL state", () => {
  const parse = schema({ q: text(5), tab: oneOf(["a", "b"]), page: whole(1, 10), from: moment });
  test.each([
    ["nothing", {}, {}],
    ["what fits is kept", { q: "x", tab: "b", page: "3" }, { q: "x", tab: "b", page: 3 }],
    ["numbers read as text", { q: 12 }, { q: "12" }],
    ["what does not fit becomes the default", { q: {}, tab: "c", page: "3.5", from: "now" }, {}],
    ["long text is cut", { q: "abcdefgh" }, { q: "abcde" }],
    ["blank text is none", { q: "  " }, {}],
    ["out of bounds", { page: 11 }, {}],
    ["what nobody asked for is dropped", { evil: "1" }, {}],
    ["a moment", { from: "2026-11-27T14:20:00.000Z" }, { from: "2026-11-27T14:20:00.000Z" }],
  ])("%s", (_, raw, want) => {
    expect(parse(raw)).toEqual(want);
  });
});

describe("CSV", () => {
  test("quotes, commas and lines", () => {
    expect(
      toCsv(
        ["a", "b"],
        [
          ['say "x"', "1,2"],
          ["two\nlines", 3],
        ],
      ),
    ).toBe('a,b\r\n"say ""x""","1,2"\r\n"two\nlines",3\r\n');
  });
  test("a name cannot become a formula, an amount stays a number", () => {
    expect(
      toCsv(
        ["n", "v"],
        [
          ["=1+1", "-12.5"],
          ["@x", -3],
          ["-cmd", "+1"],
        ],
      ),
    ).toBe("n,v\r\n'=1+1,-12.5\r\n'@x,-3\r\n'-cmd,'+1\r\n");
  });
});

describe("numbers", () => {
  test.each([
    [1234.5, "1,235"],
    [84.24, "84.2"],
    [1.004, "1"],
    [0.25, "0.25"],
    [3, "3"],
  ])("%d", (value, want) => expect(formatNumber(value, "en-GB")).toBe(want));
  test.each([
    [0.0042, "0.42%"],
    [0.0183, "1.8%"],
    [0.5, "50%"],
    [0, "0%"],
  ])("ratio %d", (value, want) => expect(formatPercent(value, "en-GB")).toBe(want));
  test("latency and memory", () => {
    expect(formatLatency(0.084, "en-GB")).toBe("84 ms");
    expect(formatLatency(2.5, "en-GB")).toBe("2.5s");
    expect(formatMebibytes(65_536, "en-GB")).toBe("64 GiB");
  });
});

describe("what expires, expires by the cluster's clock", () => {
  const now = new Date("2026-11-30T10:00:10Z");
  const clock = {
    dataAt: new Date("2026-06-01T00:00:00Z"),
    lastSeenAt: new Date("2026-11-30T10:00:00Z"),
    simulatedClock: true,
    clockSpeed: 60,
  };
  const until = new Date("2026-06-01T00:20:00Z");
  test("a simulated clock runs at its speed", () => {
    expect(secondsUntil(until, clock, now)).toBe(10);
  });
  test("a real clock runs at ours", () => {
    expect(secondsUntil(until, { ...clock, simulatedClock: false }, now)).toBe(1190);
  });
  test("a clock that is not heard of stands still after a minute", () => {
    expect(secondsUntil(until, { ...clock, simulatedClock: false }, new Date("2026-11-30T12:00:00Z"))).toBe(1140);
  });
  test("before the first report nothing is known", () => {
    expect(secondsUntil(until, { ...clock, dataAt: null }, now)).toBeNull();
  });
});

describe("latency target of a policy", () => {
  test.each([
    [
      "with a signal",
      "latency:\n  signal: ttft_p99_seconds\n  target_seconds: 2 # s\n",
      { signal: "ttft_p99_seconds", seconds: 2 },
    ],
    ["default signal", "max: 3\nlatency:\n  target_seconds: 0.5\n", { signal: "latency_p99_seconds", seconds: 0.5 }],
    ["of another block", "queue:\n  target_seconds: 2\n", null],
    ["none", "mode: enforce\n", null],
    ["not a number", "latency:\n  target_seconds: soon\n", null],
  ])("%s", (_, document, want) => expect(latencyTarget(document)).toEqual(want));
});

test.each([
  [0, 1],
  [0.0123, 0.015],
  [8.81, 10],
  [105, 120],
  [100, 100],
])("an axis to %d ends at %d", (value, want) => expect(roundUp(value)).toBe(want));

test("roles are as the service has them", () => {
  const roles: Role[] = ["owner", "admin", "operator", "finance", "viewer"];
  const may = (role: Role) => roles.filter((need) => allows(role, need));
  expect(may("owner")).toEqual(roles);
  expect(may("admin")).toEqual(["admin", "operator", "finance", "viewer"]);
  expect(may("operator")).toEqual(["operator", "viewer"]);
  expect(may("finance")).toEqual(["finance", "viewer"]);
  expect(may("viewer")).toEqual(["viewer"]);
});
