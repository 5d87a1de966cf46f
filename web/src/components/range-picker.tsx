import { Button, Group, SegmentedControl, Text } from "@mantine/core";
import { IconZoomOut } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { useFormat } from "../lib/format";

/** Picks one of a few named ranges; while a part of one is zoomed into, says which and leads back. */
export function RangePicker<
  T extends "h1" | "h6" | "h24" | "d7" | "d14" | "d30" | "d90" | "y1" | "month" | "lastMonth",
>({
  options,
  value,
  zoom,
  onPick,
}: {
  options: readonly T[];
  /** Null while something else than a named range is shown. */
  value: T | null;
  zoom?: { from: Date; to: Date };
  onPick: (value: T) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <Group gap="sm">
      {zoom && value && (
        <>
          <Text size="sm" className="number" c="dimmed">
            {t("range.custom", { from: f.dateTime(zoom.from), to: f.dateTime(zoom.to) })}
          </Text>
          <Button size="xs" variant="light" leftSection={<IconZoomOut size={14} />} onClick={() => onPick(value)}>
            {t("range.reset", { range: t(`range.${value}`) })}
          </Button>
        </>
      )}
      <SegmentedControl
        aria-label={t("range.label")}
        size="xs"
        value={value ?? ""}
        onChange={(next) => {
          const found = options.find((o) => o === next);
          if (found) onPick(found);
        }}
        data={options.map((o) => ({ value: o, label: t(`range.${o}`) }))}
      />
    </Group>
  );
}
