import { ActionIcon, Group, Progress, Text, Tooltip } from "@mantine/core";
import { IconZoomIn } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { PURCHASES } from "../api/clusters";
import type { Aggregate, Allocation, Allocations, CostKind } from "../api/cost";
import { useFormat } from "../lib/format";
import { moneyRatio } from "../lib/money";
import { Hint } from "./page";
import { type Column, DataTable } from "./table";
import { WorkloadName } from "./workload-name";

const RESOURCES = ["cpu", "memory", "gpu"] as const;

/** What a group is called. */
export function useGroupName(aggregate: Aggregate): (group: { key: string; name: string; kind: CostKind }) => string {
  const { t } = useTranslation();
  return ({ key, name, kind }) => {
    if (kind === "idle" || kind === "overhead" || kind === "residual" || kind === "commitment_unused")
      return t(`cost.kind.${kind}`);
    if (key === "other" && name === "other") return t("cost.other");
    const purchase = aggregate === "purchase" ? PURCHASES.find((p) => p === key) : undefined;
    if (purchase) return t(`purchase.${purchase}`);
    const resource = aggregate === "resource" ? RESOURCES.find((r) => r === key) : undefined;
    if (resource) return t(`cost.resource.${resource}`);
    if (key === "") return t(aggregate === "namespace" ? "cost.noneNamespace" : "cost.noneTeam");
    return name || key;
  };
}

/** Where a click on a group leads. */
export const DRILL: Partial<Record<Aggregate, { next: Aggregate; field: "team" | "namespace" | "cluster" }>> = {
  team: { next: "namespace", field: "team" },
  namespace: { next: "workload", field: "namespace" },
  cluster: { next: "team", field: "cluster" },
};

/** Who bears how much, with the way down to the next grouping. */
export function AllocationTable({
  data,
  aggregate,
  onDrill,
}: {
  data: Allocations;
  aggregate: Aggregate;
  onDrill: (row: Allocation) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const name = useGroupName(aggregate);
  const canDrill = (a: Allocation) =>
    DRILL[aggregate] !== undefined && a.key !== "" && a.key !== "other" && (a.kind === "workload" || a.kind === "all");
  const change = (a: Allocation) => {
    const ratio = moneyRatio(a.amount, a.previous);
    if (ratio === null) return a.amount.nano > 0n ? t("cost.change_new") : "–";
    return `${ratio >= 1 ? "+" : "−"}${f.percent(Math.abs(ratio - 1))}`;
  };
  const columns: Column<Allocation>[] = [
    {
      key: "name",
      header: t(`cost.aggregate.${aggregate}`),
      sort: name,
      render: (a) =>
        aggregate === "workload" && a.kind === "workload" && a.key !== "other" ? (
          <WorkloadName id={a.key} workloadKey={a.name} />
        ) : (
          <Group gap={6} wrap="nowrap">
            <Text size="sm" fw={550} c={a.kind === "workload" || a.kind === "all" ? undefined : "dimmed"}>
              {name(a)}
            </Text>
            {canDrill(a) && (
              <Tooltip label={t("cost.drill", { name: name(a) })}>
                <ActionIcon
                  size="sm"
                  variant="subtle"
                  color="gray"
                  aria-label={t("cost.drill", { name: name(a) })}
                  onClick={() => onDrill(a)}
                >
                  <IconZoomIn size={15} />
                </ActionIcon>
              </Tooltip>
            )}
          </Group>
        ),
    },
    {
      key: "amount",
      header: t("common.total"),
      align: "right",
      sort: (a) => a.amount.nano,
      render: (a) => <b style={{ fontWeight: 600 }}>{f.money(a.amount)}</b>,
    },
    {
      key: "share",
      header: t("cost.share"),
      align: "right",
      sort: (a) => a.share,
      width: 150,
      render: (a) => (
        <Group gap={8} wrap="nowrap" justify="flex-end">
          <Progress value={a.share * 100} size={5} w={60} aria-hidden />
          <span style={{ minWidth: 44 }}>{f.percent(a.share)}</span>
        </Group>
      ),
    },
    { key: "change", header: t("cost.change"), align: "right", render: change },
    { key: "gpu", header: t("cost.gpu"), align: "right", sort: (a) => a.gpu.nano, render: (a) => f.money(a.gpu) },
    { key: "cpu", header: t("cost.cpu"), align: "right", sort: (a) => a.cpu.nano, render: (a) => f.money(a.cpu) },
    {
      key: "memory",
      header: t("cost.memory"),
      align: "right",
      sort: (a) => a.memory.nano,
      render: (a) => f.money(a.memory),
    },
    {
      key: "efficiency",
      header: (
        <Group gap={4} wrap="nowrap" display="inline-flex">
          {t("cost.efficiency")} <Hint text={t("cost.efficiencyHint")} />
        </Group>
      ),
      align: "right",
      render: (a) => (a.efficiency === null ? "–" : f.percent(a.efficiency, 0)),
    },
  ];
  return (
    <DataTable
      key={aggregate}
      label={t("cost.table")}
      rows={data.items}
      columns={columns}
      rowKey={(a) => `${a.kind}/${a.key}`}
      onOpen={(a) => canDrill(a) && onDrill(a)}
      initialSort={{ key: "amount", down: true }}
      minWidth={980}
    />
  );
}
