// Money is exact: a bigint of nano-units (1e-9) with its currency. Floats appear only where a chart draws a pixel.

export interface Money {
  readonly nano: bigint;
  readonly currency: string;
}

const NANO = 1_000_000_000n;
const DECIMAL = /^(-?)(\d+)(?:\.(\d{1,9}))?$/;

/** Reads a plain decimal with at most nine places, exactly. Anything else is an error, never zero. */
export function parseMoney(amount: string, currency: string): Money {
  const match = DECIMAL.exec(amount);
  if (!match) throw new Error(`money ${JSON.stringify(amount)} is not a decimal with at most nine places`);
  const [, sign, whole = "0", fraction = ""] = match;
  const nano = BigInt(whole) * NANO + BigInt(fraction.padEnd(9, "0"));
  return { nano: sign === "-" ? -nano : nano, currency };
}

/** Reads what a person typed into an amount field; null when it is not an amount above zero with at most nine places. */
export function readAmount(text: string, currency: string): Money | null {
  const plain = text.trim().replaceAll(",", "");
  if (!DECIMAL.test(plain)) return null;
  const money = parseMoney(plain, currency);
  return money.nano > 0n ? money : null;
}

/** The decimal string of an amount, without trailing zeros, as the API reads it. */
export function moneyDecimal(money: Money): `${number}` {
  const negative = money.nano < 0n;
  const abs = negative ? -money.nano : money.nano;
  const fraction = (abs % NANO).toString().padStart(9, "0").replace(/0+$/, "");
  const text = `${negative ? "-" : ""}${abs / NANO}${fraction ? `.${fraction}` : ""}`;
  return text as `${number}`;
}

/** A float of the amount, for axes and bar widths only. */
export function moneyNumber(money: Money): number {
  return Number(money.nano / NANO) + Number(money.nano % NANO) / 1e9;
}

export function addMoney(a: Money, b: Money): Money {
  if (a.currency !== b.currency) throw new Error(`cannot add ${a.currency} and ${b.currency}`);
  return { nano: a.nano + b.nano, currency: a.currency };
}

export function sumMoney(items: readonly Money[], currency: string): Money {
  return items.reduce(addMoney, { nano: 0n, currency });
}

export function negateMoney(money: Money): Money {
  return { nano: -money.nano, currency: money.currency };
}

/** part / whole as a ratio with six exact places; null when the whole is zero. */
export function moneyRatio(part: Money, whole: Money): number | null {
  if (whole.nano === 0n) return null;
  return Number((part.nano * 1_000_000n) / whole.nano) / 1_000_000;
}

export function compareMoney(a: Money, b: Money): number {
  return a.nano === b.nano ? 0 : a.nano < b.nano ? -1 : 1;
}

export interface MoneyStyle {
  /** "cents": always two places. "whole": none from 100 up. "fine": up to four places below one unit. */
  style?: "cents" | "whole" | "fine";
  /** Writes + before amounts above zero. */
  signed?: boolean;
}

const formatters = new Map<string, Intl.NumberFormat>();

function formatter(locale: string, currency: string, places: number, signed: boolean): Intl.NumberFormat {
  const key = `${locale}|${currency}|${places}|${signed}`;
  let found = formatters.get(key);
  if (!found) {
    found = new Intl.NumberFormat(locale, {
      style: "currency",
      currency,
      currencyDisplay: "narrowSymbol",
      minimumFractionDigits: places,
      maximumFractionDigits: places,
      signDisplay: signed ? "exceptZero" : "auto",
    });
    formatters.set(key, found);
  }
  return found;
}

/** Formats without passing through a float: Intl gets the decimal string. */
export function formatMoney(
  money: Money,
  locale: string,
  { style = "cents", signed = false }: MoneyStyle = {},
): string {
  const abs = money.nano < 0n ? -money.nano : money.nano;
  let places = 2;
  if (style === "whole" && abs >= 100n * NANO) places = 0;
  if (style === "fine" && abs > 0n && abs < NANO) places = abs < NANO / 100n ? 4 : 3;
  return formatter(locale, money.currency, places, signed).format(moneyDecimal(money));
}

/** The price that a chart's point stands for: to a hundredth of a cent below ten units. */
export function formatPrice(value: number, currency: string, locale: string): string {
  return new Intl.NumberFormat(locale, {
    style: "currency",
    currency,
    currencyDisplay: "narrowSymbol",
    minimumFractionDigits: 2,
    maximumFractionDigits: Math.abs(value) < 10 ? 4 : 2,
  }).format(value);
}

/** Short money for axis labels: $1.2K. */
export function formatMoneyAxis(value: number, currency: string, locale: string): string {
  return new Intl.NumberFormat(locale, {
    style: "currency",
    currency,
    currencyDisplay: "narrowSymbol",
    notation: "compact",
    maximumFractionDigits: Math.abs(value) < 10 ? 2 : 1,
    minimumFractionDigits: 0,
  }).format(value);
}
