import { Group, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import type { Cluster } from "../api/clusters";
import { useFormat } from "../lib/format";
import { moneyNumber } from "../lib/money";
import { useNow } from "../lib/now";
import { FrozenBadge, HealthBadge, ModeBadge } from "./badge";
import { type Column, DataTable } from "./table";

export function PlanText({ cluster }: { cluster: Cluster }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (cluster.generation === 0)
    return (
      <Text size="sm" c="dimmed">
        {t("clusters.planNone")}
      </Text>
    );
  const behind = cluster.appliedGeneration < cluster.generation;
  return (
    <Text size="sm" c={behind ? "orange" : "dimmed"} style={{ whiteSpace: "nowrap" }}>
      {behind
        ? t("clusters.planBehind", {
            applied: f.integer(cluster.appliedGeneration),
            generation: f.integer(cluster.generation),
          })
        : t("clusters.planInSync", { generation: f.integer(cluster.generation) })}
    </Text>
  );
}

export function ClusterTable({
  clusters,
  onOpen,
}: {
  clusters: readonly Cluster[];
  onOpen: (cluster: Cluster) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(5);
  const columns: Column<Cluster>[] = [
    {
      key: "name",
      header: t("common.name"),
      sort: (c) => c.name,
      render: (c) => (
        <div>
          <Group gap={8} wrap="nowrap">
            <Link to="/clusters/$id" params={{ id: c.id }} className="cell-link" style={{ whiteSpace: "nowrap" }}>
              {c.name}
            </Link>
            {c.frozen && <FrozenBadge />}
          </Group>
          <Text size="xs" c="dimmed">
            {[c.kubernetesVersion, c.simulatedClock && t("clusters.simulated", { speed: f.integer(c.clockSpeed) })]
              .filter(Boolean)
              .join(" · ") || "–"}
          </Text>
        </div>
      ),
    },
    {
      key: "health",
      header: t("clusters.agent"),
      sort: (c) => c.health,
      render: (c) => <HealthBadge health={c.health} />,
    },
    {
      key: "seen",
      header: t("clusters.lastSeen"),
      sort: (c) => c.lastSeenAt?.getTime() ?? null,
      render: (c) => (c.lastSeenAt ? f.relative(c.lastSeenAt, now) : t("clusters.never")),
    },
    { key: "mode", header: t("clusters.mode"), sort: (c) => c.mode, render: (c) => <ModeBadge mode={c.mode} /> },
    { key: "plan", header: t("clusters.plan"), render: (c) => <PlanText cluster={c} /> },
    {
      key: "nodes",
      header: t("clusters.nodes"),
      align: "right",
      sort: (c) => c.nodes,
      render: (c) => f.integer(c.nodes),
    },
    { key: "gpus", header: t("clusters.gpus"), align: "right", sort: (c) => c.gpus, render: (c) => f.integer(c.gpus) },
    {
      key: "workloads",
      header: t("clusters.workloads"),
      align: "right",
      sort: (c) => c.workloads,
      render: (c) => f.integer(c.workloads),
    },
    {
      key: "cost",
      header: t("clusters.cost"),
      align: "right",
      sort: (c) => (c.costHour ? moneyNumber(c.costHour) : null),
      render: (c) => (c.costHour ? f.money(c.costHour) : "–"),
    },
  ];
  return (
    <DataTable
      label={t("clusters.title")}
      rows={clusters}
      columns={columns}
      rowKey={(c) => c.id}
      onOpen={onOpen}
      minWidth={980}
    />
  );
}
