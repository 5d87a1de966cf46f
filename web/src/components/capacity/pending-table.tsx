import { Badge, Group, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Cause, PendingPod } from "../../api/capacity";
import { useFormat } from "../../lib/format";
import { type Column, DataTable } from "../table";
import { constraintText } from "./words";

const CAUSE_COLOR: Record<Cause, string> = {
  room: "teal",
  node_starting: "blue",
  new_node: "blue",
  deferred: "yellow",
  fits_nothing: "red",
  image: "red",
  crash: "red",
  config: "red",
  loading: "gray",
};

/** The cause, where it will run, and what keeps it from all offerings. */
function Why({ pod }: { pod: PendingPod }) {
  const { t } = useTranslation();
  const f = useFormat();
  const where = pod.offering
    ? t("capacity.pending.onOffering", {
        type: pod.offering.instanceType,
        purchase: t(`purchase.${pod.offering.purchase}`),
      })
    : pod.node && t("capacity.pending.onNode", { node: pod.node });
  return (
    <Stack gap={2}>
      <Group gap={8}>
        <Badge color={CAUSE_COLOR[pod.cause]} variant="dot">
          {t(`capacity.pending.causes.${pod.cause}`)}
        </Badge>
        {where && (
          <Text size="xs" c="dimmed">
            {where}
          </Text>
        )}
      </Group>
      {pod.words && (
        <Text size="xs" c="dimmed" className="mono">
          {pod.words}
        </Text>
      )}
      {pod.blocked.length > 0 && (
        <Text size="xs">
          {t("capacity.pending.blocked", { list: pod.blocked.map((b) => constraintText(t, b)).join(" + ") })}
        </Text>
      )}
      {pod.reasons.map((r) => (
        <Text size="xs" c="dimmed" key={r.constraint + r.detail}>
          {t("capacity.pending.reason", {
            name: [constraintText(t, r.constraint), r.detail].filter(Boolean).join(" "),
            value: f.integer(r.offerings),
          })}
          {r.alone > 0 && `, ${t("capacity.pending.alone", { value: f.integer(r.alone) })}`}
        </Text>
      ))}
    </Stack>
  );
}

export function PendingTable({ pods, at }: { pods: readonly PendingPod[]; at: Date }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<PendingPod>[] = [
    {
      key: "pod",
      header: t("capacity.pending.pod"),
      sort: (p) => p.pod,
      render: (p) => (
        <div>
          <Group gap={6}>
            <Text size="sm" fw={550} style={{ overflowWrap: "anywhere" }}>
              {p.pod}
            </Text>
            {p.planned && <Badge size="xs">{t("capacity.pending.planned")}</Badge>}
          </Group>
          <Text size="xs" c="dimmed">
            {p.workload}
          </Text>
        </div>
      ),
    },
    {
      key: "asks",
      header: t("capacity.pending.asks"),
      render: (p) => (
        <Text size="sm" style={{ whiteSpace: "nowrap" }}>
          {[
            p.gpus > 0 ? t("capacity.pending.gpus", { value: f.integer(p.gpus) }) : "",
            t("unit.cores", { value: f.number(p.cpuMilli / 1000) }),
            f.mebibytes(p.memoryMib),
          ]
            .filter(Boolean)
            .join(", ")}
        </Text>
      ),
    },
    {
      key: "since",
      header: t("capacity.pending.since"),
      sort: (p) => p.since.getTime(),
      render: (p) => (
        <Text size="sm" c={p.long ? "red" : undefined} style={{ whiteSpace: "nowrap" }}>
          {f.duration(Math.max(0, (at.getTime() - p.since.getTime()) / 1000))}
        </Text>
      ),
    },
    { key: "cause", header: t("capacity.pending.cause"), sort: (p) => p.cause, render: (p) => <Why pod={p} /> },
    {
      key: "expected",
      header: t("capacity.pending.expected"),
      align: "right",
      sort: (p) => p.expectedSeconds || null,
      render: (p) => (p.expectedSeconds > 0 ? f.duration(p.expectedSeconds) : t("capacity.pending.unknown")),
    },
  ];
  return (
    <DataTable label={t("clusters.tabs.pending")} rows={pods} columns={columns} rowKey={(p) => p.pod} minWidth={920} />
  );
}
