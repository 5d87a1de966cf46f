import { describe, expect, test } from "vitest";
import {
  addMoney,
  compareMoney,
  formatMoney,
  formatMoneyAxis,
  moneyDecimal,
  moneyNumber,
  moneyRatio,
  parseMoney,
  readAmount,
  sumMoney,
} from "./money";

const usd = (amount: string) => parseMoney(amount, "USD");

describe("parse and write", () => {
  test.each([
    ["12.340000000", 12_340_000_000n, "12.34"],
    ["0.000000001", 1n, "0.000000001"],
    ["-0.5", -500_000_000n, "-0.5"],
    ["9007199254740993.000000001", 9_007_199_254_740_993_000_000_001n, "9007199254740993.000000001"],
    ["7", 7_000_000_000n, "7"],
  ])("%s is exact", (text, nano, decimal) => {
    expect(usd(text).nano).toBe(nano);
    expect(moneyDecimal(usd(text))).toBe(decimal);
  });

  test.each(["", "1e3", "+1", ".5", "1.0000000001", "NaN", "1,000", " 1", "--1"])("%j is refused", (text) => {
    expect(() => usd(text)).toThrow();
  });

  test("what is written reads back to the same amount", () => {
    for (let i = 0; i < 500; i++) {
      const nano = (BigInt(i) * 7_919_000_000_007n) % 10_000_000_000_000_000n;
      expect(usd(moneyDecimal({ nano, currency: "USD" })).nano).toBe(nano);
      expect(usd(moneyDecimal({ nano: -nano, currency: "USD" })).nano).toBe(-nano);
    }
  });
});

describe("arithmetic", () => {
  test("a sum of many small amounts loses nothing", () => {
    const cents = Array.from({ length: 1000 }, () => usd("0.1"));
    expect(moneyDecimal(sumMoney(cents, "USD"))).toBe("100");
  });
  test("currencies never mix", () => {
    expect(() => addMoney(usd("1"), parseMoney("1", "EUR"))).toThrow();
  });
  test("a ratio to nothing is unknown, not infinite", () => {
    expect(moneyRatio(usd("1"), usd("0"))).toBeNull();
    expect(moneyRatio(usd("1"), usd("3"))).toBeCloseTo(0.333333, 6);
  });
  test("order", () => {
    expect([usd("2"), usd("-1"), usd("0.5")].sort(compareMoney).map(moneyDecimal)).toEqual(["-1", "0.5", "2"]);
  });
  test("the float of an amount is near it", () => {
    expect(moneyNumber(usd("-12.34"))).toBeCloseTo(-12.34, 9);
  });
});

describe("words", () => {
  test.each([
    ["1234.5", {}, "$1,234.50"],
    ["1234.5", { style: "whole" }, "$1,235"],
    ["99.5", { style: "whole" }, "$99.50"],
    ["0.8064", { style: "fine" }, "$0.806"],
    ["0.0042", { style: "fine" }, "$0.0042"],
    ["3", { signed: true }, "+$3.00"],
    ["-3", { signed: true }, "-$3.00"],
    ["0", { signed: true }, "$0.00"],
    ["9007199254740993", {}, "$9,007,199,254,740,993.00"],
  ] as const)("%s %j", (amount, style, want) => {
    expect(formatMoney(usd(amount), "en-GB", style)).toBe(want);
  });
  test("currencies keep their sign in Chinese", () => {
    expect(formatMoney(parseMoney("12.3", "CNY"), "zh-CN")).toBe("¥12.30");
  });
  test("axis labels are short", () => {
    expect(formatMoneyAxis(12_345, "USD", "en-GB")).toMatch(/^\$12\.3k$/i);
  });
});

test.each([
  ["5000", 5_000_000_000_000n],
  ["5,000.50", 5_000_500_000_000n],
  ["0", null],
  ["-5", null],
  ["five", null],
  ["", null],
])("an amount field reads %j", (text, nano) => {
  expect(readAmount(text, "USD")?.nano ?? null).toBe(nano);
});
