import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { CALENDAR_WINDOWS, type CalendarWindow, calendarQuery } from "../../api/finops";

const HOUR = 3_600_000;

/** A window of the tenant's calendar, cut at the end of the hour of its newest data. Undefined while the calendar is not known. */
export function useCalendarWindow(name: CalendarWindow): { from: Date; to: Date } | undefined {
  const { data } = useQuery(calendarQuery);
  const found = data?.windows.find((w) => w.name === name);
  if (!data || !found) return undefined;
  const newest = Math.ceil((data.dataNow.getTime() + 1) / HOUR) * HOUR;
  return {
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
