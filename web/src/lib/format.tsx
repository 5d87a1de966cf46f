import { createContext, type ReactNode, use, useMemo } from "react";
import { useTranslation } from "react-i18next";
import * as money from "./money";
import * as number from "./number";
import * as time from "./time";

interface Place {
  currency: string;
  zone: string;
}

const PlaceContext = createContext<Place>({ currency: "USD", zone: "UTC" });

/** Sets the tenant's currency and time zone for everything below. */
export function PlaceProvider({ currency, zone, children }: Place & { children: ReactNode }) {
  const value = useMemo(() => ({ currency, zone }), [currency, zone]);
  return <PlaceContext value={value}>{children}</PlaceContext>;
}

export type Format = ReturnType<typeof makeFormat>;

/** Binds every formatter to a language, a currency and a zone. */
export function makeFormat(locale: string, currency: string, zone: string) {
  return {
    locale,
    currency,
    zone,
    money: (m: money.Money, style?: money.MoneyStyle) => money.formatMoney(m, locale, style),
    moneyAxis: (v: number) => money.formatMoneyAxis(v, currency, locale),
    price: (v: number) => money.formatPrice(v, currency, locale),
    number: (v: number) => number.formatNumber(v, locale),
    integer: (v: number) => number.formatInteger(v, locale),
    signed: (v: number) => number.formatSigned(v, locale),
    compact: (v: number) => number.formatCompact(v, locale),
    percent: (v: number, places?: number) => number.formatPercent(v, locale, places),
    /** Seconds as a latency; from two minutes up as a duration. */
    latency: (v: number) => (v >= 120 ? time.formatDuration(v, locale) : number.formatLatency(v, locale)),
    mebibytes: (v: number) => number.formatMebibytes(v, locale),
    gibibytes: (v: number) => number.formatGibibytes(v, locale),
    gigabits: (v: number) => number.formatGigabits(v, locale),
    dateTime: (d: Date) => time.formatDateTime(d, locale, zone),
    fullTime: (d: Date) => time.formatFullTime(d, locale, zone),
    clock: (d: Date) => time.formatClock(d, locale, zone),
    calendarDate: (d: Date) => time.formatDate(d, locale, "UTC"),
    date: (d: Date) => time.formatDate(d, locale, zone),
    day: (d: Date) => time.formatDay(d, locale, zone),
    calendarDay: (d: Date) => time.formatDay(d, locale, "UTC"),
    calendarMonth: (d: Date) => time.formatMonthShort(d, locale, "UTC"),
    calendarMonthYear: (d: Date) => time.formatMonth(d, locale, "UTC"),
    month: (d: Date) => time.formatMonth(d, locale, zone),
    tick: (d: Date) => time.formatTick(d, locale, zone),
    duration: (s: number) => time.formatDuration(s, locale),
    relative: (d: Date, now: Date) => time.formatRelative(d, now, locale),
  };
}

export function useFormat(): Format {
  const { i18n } = useTranslation();
  const { currency, zone } = use(PlaceContext);
  const locale = i18n.language === "zh" ? "zh-CN" : "en-GB";
  return useMemo(() => makeFormat(locale, currency, zone), [locale, currency, zone]);
}
