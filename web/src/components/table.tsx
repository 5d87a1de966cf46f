import { Button, Group, Table, Text, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconChevronRight } from "@tabler/icons-react";
import { type MouseEvent, type ReactNode, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useFormat } from "../lib/format";

export interface Column<T> {
  key: string;
  header: ReactNode;
  align?: "left" | "right";
  width?: number | string;
  render: (row: T) => ReactNode;
  /** Gives the value to sort by; a column without one cannot be sorted. Absent values come last. */
  sort?: (row: T) => number | string | bigint | null;
}

const PAGE = 50;

function compare(a: number | string | bigint, b: number | string | bigint): number {
  if (typeof a === "string" || typeof b === "string") return String(a).localeCompare(String(b));
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A table of rows at hand: sorts by head, shows 50 rows at a time so that a thousand cost no layout. */
export function DataTable<T>({
  rows,
  columns,
  rowKey,
  onOpen,
  minWidth = 720,
  initialSort,
  label,
}: {
  rows: readonly T[];
  columns: readonly Column<T>[];
  rowKey: (row: T) => string;
  /** Opens a row on click; the first column should hold a real link for the keyboard. */
  onOpen?: (row: T) => void;
  minWidth?: number;
  initialSort?: { key: string; down: boolean };
  label: string;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const [sort, setSort] = useState(initialSort);
  const [shown, setShown] = useState(PAGE);
  const sorted = useMemo(() => {
    const by = columns.find((c) => c.key === sort?.key)?.sort;
    if (!sort || !by) return rows;
    return [...rows].sort((a, b) => {
      const [va, vb] = [by(a), by(b)];
      if (va === null || vb === null) return va === vb ? 0 : va === null ? 1 : -1;
      return sort.down ? compare(vb, va) : compare(va, vb);
    });
  }, [rows, columns, sort]);

  const open = (event: MouseEvent, row: T) => {
    const inside = event.target instanceof Element && event.target.closest("a,button,input,label,[role=menuitem]");
    if (!inside && !window.getSelection()?.toString()) onOpen?.(row);
  };

  return (
    <>
      <Table.ScrollContainer minWidth={minWidth}>
        <Table className="data-table" aria-label={label}>
          <Table.Thead>
            <Table.Tr>
              {columns.map((c) => {
                const active = sort?.key === c.key;
                return (
                  <Table.Th
                    key={c.key}
                    ta={c.align ?? "left"}
                    w={c.width}
                    aria-sort={active ? (sort.down ? "descending" : "ascending") : undefined}
                  >
                    {c.sort ? (
                      <UnstyledButton
                        fz="inherit"
                        fw="inherit"
                        c="inherit"
                        onClick={() => setSort({ key: c.key, down: active ? !sort.down : c.align === "right" })}
                      >
                        <Group gap={3} wrap="nowrap" justify={c.align === "right" ? "flex-end" : "flex-start"}>
                          {c.header}
                          {active && (sort.down ? <IconArrowDown size={12} /> : <IconArrowUp size={12} />)}
                        </Group>
                      </UnstyledButton>
                    ) : (
                      c.header
                    )}
                  </Table.Th>
                );
              })}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {sorted.slice(0, shown).map((row) => (
              <Table.Tr
                key={rowKey(row)}
                data-clickable={onOpen ? true : undefined}
                onClick={onOpen ? (event) => open(event, row) : undefined}
              >
                {columns.map((c) => (
                  <Table.Td key={c.key} ta={c.align ?? "left"}>
                    {c.render(row)}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {sorted.length > shown && (
        <Group justify="space-between" px="md" py="sm">
          <Text size="sm" c="dimmed">
            {t("common.of", { part: f.integer(shown), whole: f.integer(sorted.length) })}
          </Text>
          <Button size="xs" variant="default" onClick={() => setShown((n) => n + 4 * PAGE)}>
            {t("common.next")}
          </Button>
        </Group>
      )}
    </>
  );
}

/** Moves through a list by the service's cursor. */
export function Pager({
  cursor,
  nextCursor,
  onMove,
}: {
  cursor: string | undefined;
  nextCursor: string | null;
  onMove: (cursor: string | undefined) => void;
}) {
  const { t } = useTranslation();
  if (!cursor && !nextCursor) return null;
  return (
    <Group justify="flex-end" gap="sm" px="md" py="sm">
      {cursor && (
        <Button size="xs" variant="default" onClick={() => onMove(undefined)}>
          {t("common.first")}
        </Button>
      )}
      <Button
        size="xs"
        variant="default"
        disabled={!nextCursor}
        rightSection={<IconChevronRight size={14} />}
        onClick={() => nextCursor && onMove(nextCursor)}
      >
        {t("common.next")}
      </Button>
    </Group>
  );
}
