import { Select } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { CalendarWindow } from "../api/finops";
import { dayOf, startOfDay, startOfMonth } from "../lib/time";
import { FISCAL_WINDOWS, type Window } from "./search";

const DAYS = { d7: 7, d14: 14, d30: 30 } as const;

/** The window in whole UTC days, as the service counts cost. It ends with the newest data's day. */
export function windowOf(window: Window, now: Date): { from: Date; to: Date } {
  const tomorrow = startOfDay(now, "UTC", 1);
  switch (window) {
    case "month":
      return { from: startOfMonth(now, "UTC"), to: tomorrow };
    case "lastMonth":
      return { from: startOfMonth(now, "UTC", -1), to: startOfMonth(now, "UTC") };
    default:
      return { from: startOfDay(now, "UTC", 1 - DAYS[window]), to: tomorrow };
  }
}

/** A window of the fiscal calendar in whole UTC days, up to the newest data's day. */
export function daysOf(window: { from: Date; to: Date }, zone: string, now: Date): { from: Date; to: Date } {
  const [from, to, tomorrow] = [dayOf(window.from, zone), dayOf(window.to, zone), startOfDay(now, "UTC", 1)];
  return { from, to: new Date(Math.min(to.getTime(), tomorrow.getTime())) };
}

/** Picks a window of the fiscal calendar, or none of them. */
export function FiscalSelect({ value, onPick }: { value: CalendarWindow | null; onPick: (v: string | null) => void }) {
  const { t } = useTranslation();
  return (
    <Select
      aria-label={t("finops.fiscal")}
      placeholder={t("finops.fiscal")}
      size="xs"
      w={170}
      clearable
      value={value}
      onChange={onPick}
      data={FISCAL_WINDOWS.map((w) => ({ value: w, label: t(`finops.window.${w}`) }))}
    />
  );
}
