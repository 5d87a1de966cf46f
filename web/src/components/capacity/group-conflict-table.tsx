import { Badge, Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { GroupConflict } from "../../api/capacity";
import { WRITER_KINDS } from "../../api/cloud-groups";
import { useFormat } from "../../lib/format";
import { type Column, DataTable } from "../table";

const MAX_SHOWN = 3;

/** Groups of machines at clouds that others write as well. Times are by Plimsoll's clock, so ages are told against now. */
export function GroupConflictTable({ groups, now }: { groups: readonly GroupConflict[]; now: Date }) {
  const { t } = useTranslation();
  const f = useFormat();
  const size = (n: number) => (n < 0 ? t("capacity.conflicts.groups.unlimited") : f.integer(n));
  const writer = (w: { kind: string; name: string }) => {
    const kind = WRITER_KINDS.find((k) => k === w.kind);
    return [kind && t(`group.writer.${kind}`), w.name].filter(Boolean).join(" ");
  };
  const columns: Column<GroupConflict>[] = [
    { key: "ref", header: t("capacity.conflicts.groups.ref"), sort: (g) => g.ref, render: (g) => g.ref },
    {
      key: "writers",
      header: t("capacity.conflicts.writers"),
      render: (g) => (
        <div>
          {g.writers.map((w) => (
            <Text size="sm" key={w.kind + w.name}>
              {writer(w)}
            </Text>
          ))}
          {g.writers.length === 0 && <Text size="sm">{t("capacity.conflicts.groups.outside")}</Text>}
          {g.writersProblem !== "" && (
            <Text size="xs" c="dimmed">
              {t("capacity.conflicts.groups.unknown", { why: g.writersProblem })}
            </Text>
          )}
        </div>
      ),
    },
    {
      key: "ours",
      header: t("capacity.conflicts.ours"),
      render: (g) => (
        <div>
          <Group gap={6}>
            <Text size="sm">{t(g.own ? "capacity.conflicts.groups.owns" : "capacity.conflicts.groups.shares")}</Text>
            {g.stopped && (
              <Badge size="xs" color="orange">
                {t("capacity.conflicts.groups.stopped")}
              </Badge>
            )}
            {g.yields && <Badge size="xs">{t("capacity.conflicts.yields")}</Badge>}
          </Group>
          <Text size="xs" c="dimmed">
            {t("capacity.conflicts.applied", { value: f.integer(g.applied) })}
          </Text>
          {g.suspended.length > 0 && (
            <Text size="xs" c="dimmed">
              {t("capacity.conflicts.groups.suspended", {
                what: g.suspended.join(", "),
                value: f.integer(g.restarted),
              })}
            </Text>
          )}
        </div>
      ),
    },
    {
      key: "changes",
      header: t("capacity.conflicts.groups.changes"),
      render: (g) =>
        g.newest.slice(0, MAX_SHOWN).map((n) => (
          <Text size="sm" key={`${n.at.getTime()} ${n.field}`}>
            {t(`capacity.conflicts.groups.fields.${n.field}`, { before: size(n.before), after: size(n.after) })}{" "}
            <Text span size="xs" c="dimmed">
              {[f.relative(n.at, now), n.undid && t("capacity.conflicts.groups.undid")].filter(Boolean).join(" · ")}
            </Text>
          </Text>
        )),
    },
    {
      key: "fights",
      header: t("capacity.conflicts.fights"),
      align: "right",
      sort: (g) => g.fightsPerHour * 1000 + g.undone + g.replaced,
      render: (g) => (
        <div>
          <Text size="sm">{t("capacity.conflicts.rate", { rate: f.number(g.fightsPerHour) })}</Text>
          <Text size="xs" c="dimmed">
            {t("capacity.conflicts.groups.fightsText", {
              changes: f.integer(g.changes),
              undone: f.integer(g.undone),
              replaced: f.integer(g.replaced),
            })}
          </Text>
        </div>
      ),
    },
    {
      key: "last",
      header: t("capacity.conflicts.last"),
      align: "right",
      sort: (g) => g.lastAt?.getTime() ?? null,
      render: (g) => (g.lastAt ? f.relative(g.lastAt, now) : "–"),
    },
  ];
  return (
    <DataTable
      label={t("capacity.conflicts.groups.title")}
      rows={groups}
      columns={columns}
      rowKey={(g) => g.groupId}
      minWidth={980}
    />
  );
}
