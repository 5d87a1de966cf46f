import { ActionIcon, Button, Group, Popover, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { IconCalendar, IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useFormat } from "../lib/format";

const DAY = 86_400_000;
const MOST_DAYS = 366;

const dayOf = (d: Date) => d.toISOString().slice(0, 10);

/** The range next to one, as long as it, within the data; null: there is nothing more on that side. */
export function shifted(
  span: { from: Date; to: Date },
  direction: -1 | 1,
  first: Date | null,
  last: Date,
): { from: Date; to: Date } | null {
  const length = span.to.getTime() - span.from.getTime();
  if (direction < 0 && first && span.from <= first) return null;
  if (direction > 0 && span.to >= last) return null;
  const to = Math.min(span.to.getTime() + direction * length, last.getTime());
  return { from: new Date(to - length), to: new Date(to) };
}

/** What two days, both included, mean as a range; null: they make none that can be asked for. */
export function rangeOfDays(from: string, to: string, last: Date): { from: Date; to: Date } | null {
  const a = Date.parse(`${from}T00:00:00Z`);
  const end = Date.parse(`${to}T00:00:00Z`) + DAY;
  if (Number.isNaN(a) || Number.isNaN(end)) return null;
  const b = Math.min(end, last.getTime());
  return a < b && b - a <= MOST_DAYS * DAY ? { from: new Date(a), to: new Date(b) } : null;
}

/** Moves a range back and forth in time, and picks any one by its days (UTC). */
export function PastPicker({
  span,
  first,
  last,
  onPick,
}: {
  span: { from: Date; to: Date };
  /** Where the data begins; null: not known yet. */
  first: Date | null;
  /** Where it ends. */
  last: Date;
  onPick: (from: Date, to: Date) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const [open, setOpen] = useState(false);
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [bad, setBad] = useState(false);
  const before = shifted(span, -1, first, last);
  const after = shifted(span, 1, first, last);
  const toggle = () => {
    setFrom(dayOf(span.from));
    setTo(dayOf(new Date(span.to.getTime() - 1)));
    setBad(false);
    setOpen(!open);
  };
  const show = () => {
    const range = rangeOfDays(from, to, last);
    setBad(!range);
    if (!range) return;
    setOpen(false);
    onPick(range.from, range.to);
  };
  return (
    <Group gap={4} wrap="nowrap" role="group" aria-label={t("market.past.label")}>
      <Tooltip label={t("market.past.earlier")}>
        <ActionIcon
          variant="default"
          aria-label={t("market.past.earlier")}
          disabled={!before}
          onClick={() => before && onPick(before.from, before.to)}
        >
          <IconChevronLeft size={15} />
        </ActionIcon>
      </Tooltip>
      <Popover opened={open} onChange={setOpen} position="bottom-end" withArrow shadow="md">
        <Popover.Target>
          <Button
            size="xs"
            variant="default"
            leftSection={<IconCalendar size={14} />}
            onClick={toggle}
            className="number"
          >
            {f.calendarDate(span.from)} – {f.calendarDate(new Date(span.to.getTime() - 1))}
          </Button>
        </Popover.Target>
        <Popover.Dropdown>
          <Stack gap="sm" w={260}>
            <TextInput
              type="date"
              label={t("market.past.from")}
              value={from}
              min={first ? dayOf(first) : undefined}
              max={dayOf(last)}
              onChange={(e) => setFrom(e.currentTarget.value)}
            />
            <TextInput
              type="date"
              label={t("market.past.to")}
              value={to}
              min={first ? dayOf(first) : undefined}
              max={dayOf(last)}
              onChange={(e) => setTo(e.currentTarget.value)}
            />
            {bad && (
              <Text size="xs" c="red" role="alert">
                {t("market.past.bad")}
              </Text>
            )}
            <Button size="xs" onClick={show}>
              {t("market.past.show")}
            </Button>
          </Stack>
        </Popover.Dropdown>
      </Popover>
      <Tooltip label={t("market.past.later")}>
        <ActionIcon
          variant="default"
          aria-label={t("market.past.later")}
          disabled={!after}
          onClick={() => after && onPick(after.from, after.to)}
        >
          <IconChevronRight size={15} />
        </ActionIcon>
      </Tooltip>
    </Group>
  );
}
