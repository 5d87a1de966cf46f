import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { CALENDAR_WINDOWS, type CalendarWindow, calendarQuery } from "../api/finops";

const HOUR = 3_600_000;
const YOUNG = 3 * 24 * HOUR;

/**
 * A window of the tenant's calendar, cut at the end of the hour of its newest data. Undefined while the calendar is not known.
 * Without a name it is this month, and last month while this one has few closed hours to show.
 */
export function useCalendarWindow(
  picked: CalendarWindow | undefined,
): { name: CalendarWindow; from: Date; to: Date } | undefined {
  const { data } = useQuery(calendarQuery);
  if (!data) return undefined;
  const month = data.windows.find((w) => w.name === "month");
  const young = month !== undefined && data.dataNow.getTime() - month.from.getTime() < YOUNG;
  const name = picked ?? (young ? "last_month" : "month");
  const found = data.windows.find((w) => w.name === name);
  if (!found) return undefined;
  const newest = Math.ceil((data.dataNow.getTime() + 1) / HOUR) * HOUR;
  return {
    name,
    from: found.from,
    to: new Date(Math.max(Math.min(found.to.getTime(), newest), found.from.getTime() + HOUR)),
  };
}

export function WindowSelect({ value, onPick }: { value: CalendarWindow; onPick: (value: CalendarWindow) => void }) {
  const { t } = useTranslation();
  return (
    <Select
      aria-label={t("range.label")}
      w={190}
      allowDeselect={false}
      value={value}
      data={CALENDAR_WINDOWS.map((w) => ({ value: w, label: t(`finops.window.${w}`) }))}
      onChange={(next) => {
        const found = CALENDAR_WINDOWS.find((w) => w === next);
        if (found) onPick(found);
      }}
    />
  );
}
