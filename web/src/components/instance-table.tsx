import { Badge, Group, Text, Tooltip } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { CatalogueSource, Instance } from "../api/catalogue";
import { cloudName } from "../lib/cloud";
import { useFormat } from "../lib/format";
import { type Money, moneyNumber } from "../lib/money";
import { DoubtText, FabricText, LINK_NAMES } from "./machine-details";
import { MachineText, OfferingName, Price } from "./offering";
import { type Column, DataTable } from "./table";

/** A price that is not known where the type is sold. */
function Unpriced() {
  const { t } = useTranslation();
  return (
    <Tooltip label={t("market.catalogue.unpricedHint")}>
      <Badge color="orange" tabIndex={0}>
        {t("market.catalogue.unpriced")}
      </Badge>
    </Tooltip>
  );
}

/** Marks a type whose price here was not believed. */
function Doubted({ row }: { row: Instance }) {
  const { t } = useTranslation();
  const f = useFormat();
  const doubt = row.doubts.find((d) => d.region === row.region && d.purchase === "spot");
  if (!doubt) return null;
  return (
    <Tooltip label={<DoubtText doubt={doubt} />} multiline maw={360}>
      <IconAlertTriangle
        size={15}
        role="img"
        tabIndex={0}
        color="var(--mantine-color-orange-7)"
        aria-label={t("market.catalogue.doubted", {
          hour: f.money(doubt.hour, { style: "fine" }),
          region: doubt.region,
        })}
      />
    </Tooltip>
  );
}

/** A figure with a line under it. */
function TwoLines({ top, under }: { top: ReactNode; under?: ReactNode }) {
  return (
    <div style={{ whiteSpace: "nowrap" }}>
      <Text size="sm" component="div" className="number">
        {top}
      </Text>
      {under && (
        <Text size="xs" c="dimmed" component="div">
          {under}
        </Text>
      )}
    </div>
  );
}

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
      render: (i) =>
        i.machine.gpuCount > 0 ? (
          <TwoLines
            top={<MachineText machine={i.machine} />}
            under={[
              i.traits.link && i.traits.link !== "none" && LINK_NAMES[i.traits.link],
              i.traits.mig && t("market.catalogue.mig"),
            ]
              .filter(Boolean)
              .join(" · ")}
          />
        ) : (
          "–"
        ),
    },
    {
      key: "cpu",
      header: t("market.cpus"),
      align: "right",
      sort: (i) => i.machine.cpuCores,
      render: (i) => <TwoLines top={f.number(i.machine.cpuCores)} under={f.mebibytes(i.machine.memoryMib)} />,
    },
    {
      key: "network",
      header: t("market.catalogue.network"),
      align: "right",
      sort: (i) => i.traits.networkMbps,
      render: (i) => (
        <TwoLines
          top={i.traits.networkMbps === null ? "–" : f.gigabits(i.traits.networkMbps)}
          under={i.traits.fabric && i.traits.fabric !== "none" && <FabricText traits={i.traits} />}
        />
      ),
    },
    {
      key: "disk",
      header: t("market.catalogue.disk"),
      align: "right",
      sort: (i) => i.traits.localDiskGib,
      render: (i) =>
        i.traits.localDiskGib === null
          ? "–"
          : i.traits.localDiskGib === 0
            ? t("market.catalogue.no")
            : f.mebibytes(i.traits.localDiskGib * 1024),
    },
    {
      key: "onDemand",
      header: t("purchase.on_demand"),
      align: "right",
      sort: (i) => byMoney(i.onDemand),
      render: (i) => (i.onDemand ? <Price value={i.onDemand} strong /> : <Unpriced />),
    },
    {
      key: "spot",
      header: t("purchase.spot"),
      align: "right",
      sort: (i) => byMoney(i.spot),
      render: (i) => (
        <Group gap={6} justify="flex-end" wrap="nowrap">
          <Doubted row={i} />
          <Price value={i.spot} />
        </Group>
      ),
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
      minWidth={1080}
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
