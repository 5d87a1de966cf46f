import { Badge, Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Conflict } from "../../api/capacity";
import { MODES } from "../../api/clusters";
import { useFormat } from "../../lib/format";
import { TextLink } from "../link";
import { type Column, DataTable } from "../table";

export function ConflictTable({ conflicts, at }: { conflicts: readonly Conflict[]; at: Date }) {
  const { t } = useTranslation();
  const f = useFormat();
  const mode = (name: string) => {
    const known = MODES.find((m) => m === name);
    return known ? t(`mode.${known}`) : t("capacity.conflicts.noPolicy");
  };
  const columns: Column<Conflict>[] = [
    {
      key: "workload",
      header: t("capacity.conflicts.workload"),
      sort: (c) => c.workload,
      render: (c) => (
        <TextLink to="/workloads/$id" params={{ id: c.workloadId }} size="sm">
          {c.workload}
        </TextLink>
      ),
    },
    {
      key: "writers",
      header: t("capacity.conflicts.writers"),
      render: (c) =>
        c.writers.map((w) => (
          <Text size="sm" key={w.manager + w.object + w.field}>
            {w.manager}{" "}
            <Text span size="xs" c="dimmed">
              {[w.object, w.field, f.relative(w.at, at)].filter(Boolean).join(" · ")}
            </Text>
          </Text>
        )),
    },
    {
      key: "ours",
      header: t("capacity.conflicts.ours"),
      render: (c) => (
        <div>
          <Group gap={6}>
            <Text size="sm">{mode(c.mode)}</Text>
            {c.yields && <Badge size="xs">{t("capacity.conflicts.yields")}</Badge>}
          </Group>
          <Text size="xs" c="dimmed">
            {t("capacity.conflicts.applied", { value: f.integer(c.applied) })}
          </Text>
        </div>
      ),
    },
    {
      key: "fights",
      header: t("capacity.conflicts.fights"),
      align: "right",
      sort: (c) => c.overwritten + c.refused,
      render: (c) => (
        <div>
          <Text size="sm">{t("capacity.conflicts.rate", { rate: f.number(c.fightsPerHour) })}</Text>
          <Text size="xs" c="dimmed">
            {t("capacity.conflicts.fightsText", {
              overwritten: f.integer(c.overwritten),
              refused: f.integer(c.refused),
            })}
          </Text>
        </div>
      ),
    },
    {
      key: "last",
      header: t("capacity.conflicts.last"),
      align: "right",
      sort: (c) => c.lastAt?.getTime() ?? null,
      render: (c) => (c.lastAt ? f.relative(c.lastAt, at) : "–"),
    },
  ];
  return (
    <DataTable
      label={t("clusters.tabs.conflicts")}
      rows={conflicts}
      columns={columns}
      rowKey={(c) => c.workloadId}
      minWidth={860}
    />
  );
}
