import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { CatalogueSource, Instance } from "../api/catalogue";
import { cloudName } from "../lib/cloud";
import { useFormat } from "../lib/format";
import { type Money, moneyNumber } from "../lib/money";
import { MachineText, OfferingName, Price } from "./offering";
import { type Column, DataTable } from "./table";

const byMoney = (m: Money | null) => (m ? moneyNumber(m) : null);

export function InstanceTable({ rows, onOpen }: { rows: readonly Instance[]; onOpen: (row: Instance) => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<Instance>[] = [
    {
      key: "type",
      header: t("nodes.type"),
      sort: (i) => i.name,
      render: (i) => <OfferingName type={i.name} cloud={i.cloud} place={i.region} onClick={() => onOpen(i)} />,
    },
    {
      key: "gpus",
      header: t("market.gpus"),
      sort: (i) => i.machine.gpuCount,
      render: (i) => (i.machine.gpuCount > 0 ? <MachineText machine={i.machine} /> : "–"),
    },
    {
      key: "cpu",
      header: t("market.cpus"),
      align: "right",
      sort: (i) => i.machine.cpuCores,
      render: (i) => f.number(i.machine.cpuCores),
    },
    {
      key: "memory",
      header: t("cost.memory"),
      align: "right",
      sort: (i) => i.machine.memoryMib,
      render: (i) => f.mebibytes(i.machine.memoryMib),
    },
    {
      key: "onDemand",
      header: t("purchase.on_demand"),
      align: "right",
      sort: (i) => byMoney(i.onDemand),
      render: (i) => <Price value={i.onDemand} strong />,
    },
    {
      key: "spot",
      header: t("purchase.spot"),
      align: "right",
      sort: (i) => byMoney(i.spot),
      render: (i) => <Price value={i.spot} />,
    },
    {
      key: "perGpu",
      header: t("market.perGpuShort"),
      align: "right",
      sort: (i) => byMoney(i.perGpu),
      render: (i) => <Price value={i.perGpu} />,
    },
    {
      key: "source",
      header: t("market.source"),
      render: (i) => {
        // "name date", as the service writes it
        const cut = i.source.lastIndexOf(" ");
        return (
          <Text size="xs" c="dimmed" component="div" style={{ whiteSpace: "nowrap" }}>
            {cut < 0 ? i.source || "–" : i.source.slice(0, cut)}
            {cut >= 0 && <div>{i.source.slice(cut + 1)}</div>}
          </Text>
        );
      },
    },
  ];
  return (
    <DataTable
      label={t("market.catalogue.title")}
      rows={rows}
      columns={columns}
      rowKey={(i) => i.key}
      onOpen={onOpen}
      minWidth={1000}
    />
  );
}

export function SourceTable({ rows }: { rows: readonly CatalogueSource[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<CatalogueSource>[] = [
    { key: "cloud", header: t("market.cloud"), sort: (s) => s.cloud, render: (s) => cloudName(s.cloud) },
    { key: "kind", header: t("market.sourceKind"), render: (s) => t(`market.sourceKinds.${s.kind}`) },
    { key: "date", header: t("market.asOf"), sort: (s) => s.date.getTime(), render: (s) => f.calendarDate(s.date) },
    { key: "licence", header: t("market.licence"), render: (s) => s.licence },
    { key: "origin", header: t("market.origin"), render: (s) => <Text size="sm">{s.origin}</Text> },
  ];
  return (
    <DataTable
      label={t("market.sources")}
      rows={rows}
      columns={columns}
      rowKey={(s) => `${s.cloud}/${s.kind}/${s.name}`}
      minWidth={820}
    />
  );
}
