import { Badge, Group, Progress, SimpleGrid, Stack, Text, UnstyledButton } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { CapacityMap, GpuFleet, MapNode, NodeState } from "../../api/capacity";
import { useFormat } from "../../lib/format";
import { moneyNumber } from "../../lib/money";
import { PhaseBadge, PurchaseBadge } from "../badge";
import { Price } from "../offering";
import { Facts, Panel } from "../page";
import { type Column, DataTable } from "../table";
import { modeText, offeringText, reasonText, whyNotText } from "./words";

const STATE_COLOR: Record<NodeState, string> = { keep: "teal", stays: "gray", leaving: "orange", drain: "red" };

/** How much of each GPU of a node is asked for: whole ones first, then the rest. */
function cells(node: MapNode): ("full" | "part" | "free")[] {
  return Array.from({ length: node.gpuCount }, (_, i) => {
    const left = node.gpusUsed - i;
    return left >= 0.999 ? "full" : left > 0.001 ? "part" : "free";
  });
}

function Squares({ node }: { node: MapNode }) {
  return (
    <Group gap={3} wrap="wrap" aria-hidden>
      {cells(node).map((kind, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: GPUs of a node have no name here
        <span key={i} className="gpu-cell" data-kind={kind} data-mig={node.groups.some((g) => g.mode === "mig")} />
      ))}
    </Group>
  );
}

function NodeCell({ node, chosen, onChoose }: { node: MapNode; chosen: boolean; onChoose: () => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const gpus = t("common.of", { part: f.number(node.gpusUsed), whole: f.integer(node.gpuCount) });
  return (
    <UnstyledButton
      className="node-cell"
      data-state={node.state}
      data-chosen={chosen}
      aria-pressed={chosen}
      onClick={onChoose}
      aria-label={`${node.name}, ${offeringText(t, node.offering)}, ${t(`capacity.state.${node.state}`)}`}
    >
      <Group justify="space-between" gap={6} wrap="nowrap">
        <Text size="sm" fw={600} truncate>
          {node.offering.instanceType || "–"}
        </Text>
        <PurchaseBadge purchase={node.offering.purchase} />
      </Group>
      <Text size="xs" c="dimmed" truncate>
        {node.name}
      </Text>
      {node.gpuCount > 0 ? (
        <Stack gap={3} mt={6}>
          <Squares node={node} />
          <Text size="xs" c="dimmed">
            {node.gpuModel} · {gpus}
          </Text>
        </Stack>
      ) : (
        <Stack gap={3} mt={6}>
          <Progress value={Math.min(100, (node.cpuRatio ?? 0) * 100)} size={9} aria-hidden />
          <Text size="xs" c="dimmed">
            {node.cpuRatio === null ? "–" : `CPU ${f.percent(node.cpuRatio, 0)}`}
          </Text>
        </Stack>
      )}
      <Group justify="space-between" gap={6} mt={6} wrap="nowrap">
        <Badge size="xs" color={STATE_COLOR[node.state]}>
          {t(`capacity.state.${node.state}`)}
        </Badge>
        <Text size="xs" className="number">
          {node.price ? f.money(node.price, { style: "fine" }) : t("nodes.unpriced")}
        </Text>
      </Group>
    </UnstyledButton>
  );
}

/** What runs on a node, why it stays or goes, and what else was considered. */
export function NodeDetail({ node }: { node: MapNode }) {
  const { t } = useTranslation();
  const f = useFormat();
  const listed = node.pods.reduce((sum, p) => sum + p.count, 0);
  return (
    <Panel
      title={node.name}
      actions={
        <Group gap={6}>
          <PhaseBadge phase={node.phase} />
          <Badge color={STATE_COLOR[node.state]}>{t(`capacity.state.${node.state}`)}</Badge>
        </Group>
      }
    >
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xl">
        <Facts
          items={[
            { label: t("capacity.plan.offering"), value: offeringText(t, node.offering) },
            {
              label: t("capacity.plan.price"),
              value: node.price ? f.money(node.price, { style: "fine" }) : t("nodes.unpriced"),
            },
            { label: t("capacity.cores"), value: node.cpuRatio === null ? "–" : f.percent(node.cpuRatio, 0) },
            { label: t("capacity.memory"), value: node.memoryRatio === null ? "–" : f.percent(node.memoryRatio, 0) },
            ...(node.gpuCount > 0
              ? [
                  {
                    label: t("capacity.gpus"),
                    value: `${t("common.of", { part: f.number(node.gpusUsed), whole: f.integer(node.gpuCount) })} ${node.gpuModel}`,
                  },
                  {
                    label: t("capacity.driver"),
                    value: node.driver
                      ? t("capacity.driverRuns", {
                          driver: node.driver,
                          cuda: node.cuda || t("capacity.pending.unknown"),
                        })
                      : t("capacity.pending.unknown"),
                  },
                  {
                    label: t("capacity.compute"),
                    value: node.computeCapability || t("capacity.pending.unknown"),
                  },
                ]
              : []),
            ...node.groups.map((g, i) => ({
              label: node.groups.length > 1 ? `${modeText(t, g.mode)} ${f.integer(i + 1)}` : modeText(t, g.mode),
              value:
                g.instances
                  .map((m) => t("capacity.instances", { profile: m.profile, value: f.integer(m.count) }))
                  .join(", ") || t("capacity.shares", { value: f.integer(Math.max(g.replicas, 1)) }),
            })),
          ]}
        />
        <Stack gap="sm">
          <div>
            <Text size="sm" fw={600}>
              {t("capacity.why")}
            </Text>
            <Text size="sm">
              {reasonText(t, node.reason || node.state)}
              {node.detail && <span className="mono"> {node.detail}</span>}
            </Text>
          </div>
          <div>
            <Text size="sm" fw={600}>
              {t("capacity.considered")}
            </Text>
            <Text size="sm">
              {node.best
                ? `${offeringText(t, node.best.offering)}${node.best.price ? `, ${f.money(node.best.price, { style: "fine" })}` : ""}: ${whyNotText(t, node.best.whyNot)}`
                : t(node.podCount > 0 && node.state !== "drain" && node.price ? "capacity.none" : "capacity.notLooked")}
            </Text>
          </div>
          <div>
            <Text size="sm" fw={600}>
              {t("capacity.runs")}
            </Text>
            {node.pods.map((p) => (
              <Text size="sm" key={p.workload} className="mono" style={{ overflowWrap: "anywhere" }}>
                {f.integer(p.count)} × {p.workload}
                {p.gpus > 0 && ` (${t("capacity.pending.gpus", { value: f.number(p.gpus) })})`}
              </Text>
            ))}
            {node.podCount > listed && (
              <Text size="sm" c="dimmed">
                {t("capacity.podsMore", { value: f.integer(node.podCount - listed) })}
              </Text>
            )}
            {node.podCount === 0 && (
              <Text size="sm" c="dimmed">
                {t("capacity.nothingRuns")}
              </Text>
            )}
          </div>
        </Stack>
      </SimpleGrid>
    </Panel>
  );
}

/** Nodes as cells, by pool. */
export function NodeMap({
  map,
  chosen,
  onChoose,
}: {
  map: CapacityMap;
  chosen: string | undefined;
  onChoose: (name: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const pools = [...new Set(map.nodes.map((n) => n.pool))];
  return (
    <Stack gap="lg">
      {pools.map((pool) => {
        const nodes = map.nodes.filter((n) => n.pool === pool);
        return (
          <section key={pool} aria-label={pool || t("capacity.noPool")}>
            <Group gap={8} mb={8}>
              <Text fw={600}>{pool || t("capacity.noPool")}</Text>
              <Text size="sm" c="dimmed">
                {f.integer(nodes.length)}
              </Text>
            </Group>
            <div className="node-grid">
              {nodes.map((n) => (
                <NodeCell
                  key={n.name}
                  node={n}
                  chosen={n.name === chosen}
                  onChoose={() => onChoose(n.name === chosen ? undefined : n.name)}
                />
              ))}
            </div>
          </section>
        );
      })}
      {map.total > map.nodes.length && (
        <Text size="sm" c="dimmed">
          {t("capacity.more", { shown: f.integer(map.nodes.length), total: f.integer(map.total) })}
        </Text>
      )}
    </Stack>
  );
}

export function FleetTable({ fleet }: { fleet: readonly GpuFleet[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<GpuFleet>[] = [
    { key: "model", header: t("capacity.model"), sort: (g) => g.model, render: (g) => g.model || t("common.unknown") },
    {
      key: "nodes",
      header: t("capacity.nodes"),
      align: "right",
      sort: (g) => g.nodes,
      render: (g) => f.integer(g.nodes),
    },
    { key: "gpus", header: t("capacity.gpus"), align: "right", sort: (g) => g.gpus, render: (g) => f.integer(g.gpus) },
    {
      key: "requested",
      header: t("capacity.requested"),
      align: "right",
      sort: (g) => g.requested / Math.max(g.gpus, 1),
      render: (g) => `${f.number(g.requested)} (${f.percent(g.requested / Math.max(g.gpus, 1), 0)})`,
    },
    {
      key: "spot",
      header: t("capacity.onSpot"),
      align: "right",
      sort: (g) => g.spot,
      render: (g) => f.integer(g.spot),
    },
    { key: "mig", header: t("capacity.mig"), align: "right", sort: (g) => g.mig, render: (g) => f.integer(g.mig) },
    {
      key: "cost",
      header: t("capacity.fleetCost"),
      align: "right",
      sort: (g) => (g.cost ? moneyNumber(g.cost) : null),
      render: (g) => <Price value={g.cost} />,
    },
  ];
  return (
    <DataTable label={t("capacity.fleet")} rows={fleet} columns={columns} rowKey={(g) => g.model} minWidth={640} />
  );
}
