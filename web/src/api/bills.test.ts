import { expect, test } from "vitest";
import { moneyDecimal } from "../lib/money";
import { readBillMoney } from "./bills";

test.each([
  ["0.00", "0"],
  ["12.5", "12.5"],
  ["0.000000000499999999", "0"],
  ["0.0000000005", "0.000000001"],
  ["-0.0000000005", "-0.000000001"],
  ["-1.999999999999999999", "-2"],
  ["101204.551230004712", "101204.551230005"],
])("%s of a bill is shown as %s", (amount, shown) => {
  expect(moneyDecimal(readBillMoney({ amount, currency: "USD" }))).toBe(shown);
});
