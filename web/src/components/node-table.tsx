import { Progress, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Node } from "../api/clusters";
import { useFormat } from "../lib/format";
import { moneyNumber } from "../lib/money";
import { PhaseBadge, PurchaseBadge } from "./badge";
import { type Column, DataTable } from "./table";

function Share({ ratio, text }: { ratio: number | null; text: string }) {
  if (ratio === null)
    return (
      <Text size="sm" c="dimmed">
        –
      </Text>
    );
  return (
    <Stack gap={3} w={72} ml="auto">
      <Text size="sm" ta="right">
        {text}
      </Text>
      <Progress value={Math.min(100, ratio * 100)} size={4} aria-label={text} />
    </Stack>
  );
}

export function NodeTable({ nodes }: { nodes: readonly Node[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<Node>[] = [
    {
      key: "name",
      header: t("common.name"),
      sort: (n) => n.name,
      render: (n) => (
        <div>
          <Text size="sm" fw={550} style={{ whiteSpace: "nowrap" }}>
            {n.name}
          </Text>
          <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
            {[n.pool, n.zone].filter(Boolean).join(" · ") || "–"}
          </Text>
        </div>
      ),
    },
    {
      key: "type",
      header: t("nodes.type"),
      sort: (n) => n.instanceType,
      render: (n) => (
        <div>
          <Text size="sm">{n.instanceType || "–"}</Text>
          {n.gpuCount > 0 && (
            <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
              {f.integer(n.gpuCount)} × {n.gpuModel || t("common.unknown")}
            </Text>
          )}
        </div>
      ),
    },
    {
      key: "purchase",
      header: t("nodes.purchase"),
      sort: (n) => n.purchase,
      render: (n) => <PurchaseBadge purchase={n.purchase} />,
    },
    { key: "phase", header: t("nodes.phase"), sort: (n) => n.phase, render: (n) => <PhaseBadge phase={n.phase} /> },
    {
      key: "gpu",
      header: t("nodes.gpu"),
      align: "right",
      sort: (n) => (n.gpuCount > 0 ? n.gpuAllocated / n.gpuCount : null),
      render: (n) => (
        <Share
          ratio={n.gpuCount > 0 ? n.gpuAllocated / n.gpuCount : null}
          text={t("common.of", { part: f.number(n.gpuAllocated), whole: f.integer(n.gpuCount) })}
        />
      ),
    },
    {
      key: "cpu",
      header: t("nodes.cpu"),
      align: "right",
      sort: (n) => n.cpuRatio,
      render: (n) => <Share ratio={n.cpuRatio} text={f.percent(n.cpuRatio ?? 0, 0)} />,
    },
    {
      key: "memory",
      header: t("nodes.memory"),
      align: "right",
      sort: (n) => n.memoryRatio,
      render: (n) => <Share ratio={n.memoryRatio} text={f.percent(n.memoryRatio ?? 0, 0)} />,
    },
    { key: "pods", header: t("nodes.pods"), align: "right", sort: (n) => n.pods, render: (n) => f.integer(n.pods) },
    {
      key: "cost",
      header: t("nodes.cost"),
      align: "right",
      sort: (n) => (n.costHour ? moneyNumber(n.costHour) : null),
      render: (n) =>
        n.costHour ? (
          f.money(n.costHour, { style: "fine" })
        ) : (
          <Text size="sm" c="orange">
            {t("nodes.unpriced")}
          </Text>
        ),
    },
  ];
  return (
    <DataTable label={t("clusters.tabs.nodes")} rows={nodes} columns={columns} rowKey={(n) => n.id} minWidth={960} />
  );
}
