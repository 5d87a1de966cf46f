import { ActionIcon, Badge, Button, Group, Stack, Text } from "@mantine/core";
import { IconPencil, IconTrash } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { type CloudGroup, type GroupAction, type GroupState, mayUndo } from "../../api/cloud-groups";
import { cloudName } from "../../lib/cloud";
import { useFormat } from "../../lib/format";
import { Hint } from "../page";
import { type Column, DataTable } from "../table";

const STATE_COLOR: Record<GroupState, string> = {
  asked: "blue",
  pending: "blue",
  reached: "blue",
  joined: "teal",
  partial: "yellow",
  replaced: "yellow",
  stock_out: "red",
  refused: "red",
  failed: "red",
};

/** From when on an action that has not ended is pointed out: machines that run have a quarter of an hour to become nodes. */
const LONG_SECONDS = 20 * 60;

/** One change: sizes before and after, how it went, and what the cloud said. */
export function GroupChange({ action: a, now }: { action: GroupAction; now: Date }) {
  const { t } = useTranslation();
  const f = useFormat();
  const open = (now.getTime() - a.askedAt.getTime()) / 1000;
  return (
    <Stack gap={2}>
      <Group gap={8}>
        <Text size="sm" fw={550} className="number">
          {t("group.change", { before: f.integer(a.before), desired: f.integer(a.desired) })}
        </Text>
        <Badge color={a.state ? STATE_COLOR[a.state] : "gray"} variant="dot">
          {a.state ? t(`group.state.${a.state}`) : t("group.unknownState")}
        </Badge>
        {a.undoes && (
          <Badge size="xs" color="gray">
            {t("group.undoOf")}
          </Badge>
        )}
        <Text size="xs" c="dimmed" title={f.fullTime(a.askedAt)}>
          {f.relative(a.askedAt, now)}
        </Text>
      </Group>
      {a.nodes.length > 0 && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {t("group.ended", { names: a.nodes.join(", ") })}
        </Text>
      )}
      {a.closedAt === null && open > LONG_SECONDS && (
        <Text size="xs" c="orange">
          {t("group.lasting", { age: f.duration(open) })}
        </Text>
      )}
      {a.problem && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {a.problem}
        </Text>
      )}
      {a.failures.map((x) => (
        <Text key={x.code + x.message + x.where} size="xs" c="dimmed" className="mono" lineClamp={3}>
          {[x.code, x.message, x.where].filter(Boolean).join(" · ")}
        </Text>
      ))}
    </Stack>
  );
}

export function GroupTable({
  groups,
  now,
  busy,
  onUndo,
  onEdit,
  onDelete,
}: {
  groups: readonly CloudGroup[];
  now: Date;
  busy: boolean;
  /** Absent: the reader may not. */
  onUndo?: (group: CloudGroup, action: GroupAction) => void;
  onEdit?: (group: CloudGroup) => void;
  onDelete?: (group: CloudGroup) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<CloudGroup>[] = [
    {
      key: "name",
      header: t("group.name"),
      width: 260,
      sort: (g) => g.ref,
      render: (g) => (
        <div>
          <Text size="sm" fw={550} style={{ overflowWrap: "anywhere" }}>
            {g.ref}
          </Text>
          <Text size="xs" c="dimmed">
            {[cloudName(g.cloud), g.region, g.zones.join(", ") || t("group.anyZone")].join(" · ")}
          </Text>
          <Text size="xs" c="dimmed">
            {[g.instanceTypes.join(", "), t(`purchase.${g.purchase}`)].join(" · ")}
          </Text>
        </div>
      ),
    },
    {
      key: "size",
      header: (
        <>
          {t("group.size")} <Hint text={t("group.sizeHint")} />
        </>
      ),
      align: "right",
      render: (g) => {
        const a = g.actions[0];
        return a ? (
          t("group.ready", { ready: f.integer(a.ready), desired: f.integer(a.desired) })
        ) : (
          <Text size="sm" c="dimmed">
            {t("group.never")}
          </Text>
        );
      },
    },
    {
      key: "bounds",
      header: t("group.bounds"),
      sort: (g) => g.max,
      render: (g) => (
        <div style={{ whiteSpace: "nowrap" }}>
          {t("group.range", { min: f.integer(g.min), max: f.integer(g.max) })}
          <Text size="xs" c="dimmed">
            {t("group.limits", { step: f.integer(g.step), hourly: f.integer(g.hourly) })}
          </Text>
        </div>
      ),
    },
    {
      key: "status",
      header: t("group.status"),
      sort: (g) => (g.enabled ? 1 : 0),
      render: (g) => (
        <Stack gap={4} align="flex-start">
          <Badge color={g.enabled ? "teal" : "gray"}>
            {t(g.enabled ? (g.shrink ? "group.onBoth" : "group.on") : "group.off")}
          </Badge>
          {g.writers.length > 0 && (
            <Text size="xs" c={g.yields ? "orange" : "dimmed"} style={{ overflowWrap: "anywhere" }}>
              {t(g.yields ? (g.own ? "group.fight" : "group.yields") : "group.writers", {
                names: g.writers.map((w) => (w.kind ? `${t(`group.writer.${w.kind}`)} ${w.name}` : w.name)).join(", "),
              })}
            </Text>
          )}
          {g.suspended.length > 0 && (
            <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
              {t("group.suspended", { names: g.suspended.map((w) => w.split("/").at(-1)).join(", ") })}
            </Text>
          )}
          {g.writersProblem && (
            <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
              {t("group.unknownWriters", { why: g.writersProblem })}
            </Text>
          )}
        </Stack>
      ),
    },
    {
      key: "last",
      header: t("group.last"),
      sort: (g) => g.actions[0]?.askedAt.getTime() ?? null,
      render: (g) => {
        const [last, ...older] = g.actions;
        if (!last) return <Text size="sm">{t("group.none")}</Text>;
        return (
          <Stack gap={4}>
            <GroupChange action={last} now={now} />
            {older.length > 0 && (
              <details>
                <Text component="summary" size="xs" c="dimmed">
                  {t("group.older", { value: f.integer(older.length) })}
                </Text>
                <Stack gap={6} mt={6}>
                  {older.slice(0, 20).map((a) => (
                    <GroupChange key={a.id} action={a} now={now} />
                  ))}
                </Stack>
              </details>
            )}
          </Stack>
        );
      },
    },
    {
      key: "do",
      header: "",
      align: "right",
      render: (g) => {
        const last = g.actions[0];
        return (
          <Group gap={6} justify="flex-end" wrap="nowrap">
            {onUndo && last && mayUndo(last) && (
              <Button
                size="compact-xs"
                variant="default"
                disabled={busy}
                aria-label={t("group.undoName", { name: g.ref })}
                onClick={() => onUndo(g, last)}
              >
                {t("group.undo")}
              </Button>
            )}
            {onEdit && (
              <ActionIcon
                variant="subtle"
                disabled={busy}
                aria-label={t("group.editName", { name: g.ref })}
                onClick={() => onEdit(g)}
              >
                <IconPencil size={16} />
              </ActionIcon>
            )}
            {onDelete && (
              <ActionIcon
                variant="subtle"
                color="red"
                disabled={busy}
                aria-label={t("group.deleteName", { name: g.ref })}
                onClick={() => onDelete(g)}
              >
                <IconTrash size={16} />
              </ActionIcon>
            )}
          </Group>
        );
      },
    },
  ];
  return <DataTable label={t("group.title")} rows={groups} columns={columns} rowKey={(g) => g.id} minWidth={940} />;
}
