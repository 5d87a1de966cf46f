import { Alert, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Coverage, Instance, PriceDoubt, Traits } from "../api/catalogue";
import { cloudName } from "../lib/cloud";
import { useFormat } from "../lib/format";
import { MachineText } from "./offering";
import { Facts } from "./page";
import { type Column, DataTable } from "./table";

type Link = Exclude<Traits["link"], null | "none">;
type Fabric = Exclude<Traits["fabric"], null | "none">;

/** Names that are the same in every language. */
export const LINK_NAMES: Record<Link, string> = {
  pcie: "PCI Express",
  nvlink: "NVLink",
  nvswitch: "NVSwitch",
  infinity_fabric: "Infinity Fabric",
};
export const FABRIC_NAMES: Record<Fabric, string> = { efa: "EFA", infiniband: "InfiniBand", gpudirect: "GPUDirect" };

/** How machines reach each other without their processors, with the rate where it is known. */
export function FabricText({ traits }: { traits: Traits }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (!traits.fabric) return t("market.catalogue.unknown");
  if (traits.fabric === "none") return t("market.catalogue.networkOnly");
  const name = FABRIC_NAMES[traits.fabric];
  return traits.fabricGbps === null
    ? name
    : t("market.catalogue.rate", { name, value: f.gigabits(traits.fabricGbps * 1000) });
}

function LinkText({ traits }: { traits: Traits }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (!traits.link) return t("market.catalogue.unknown");
  if (traits.link === "none") return t("market.catalogue.oneGpu");
  const link = LINK_NAMES[traits.link];
  return traits.linkGbytes === null
    ? link
    : t("market.catalogue.linkRate", { link, value: f.number(traits.linkGbytes) });
}

function MigText({ traits }: { traits: Traits }) {
  const { t } = useTranslation();
  if (traits.mig === null) return t("market.catalogue.unknown");
  if (!traits.mig) return t("market.catalogue.migNo");
  return traits.migProfiles.map((p) => `${p.most}\u00a0×\u00a0${p.name}`).join(", ");
}

/** A listed price that is not used, in words. */
export function DoubtText({ doubt }: { doubt: PriceDoubt }) {
  const { t } = useTranslation();
  const f = useFormat();
  return t("market.catalogue.doubtOf", {
    purchase: t(`purchase.${doubt.purchase}`),
    hour: f.money(doubt.hour, { style: "fine" }),
    expected: f.money(doubt.expected, { style: "fine" }),
    region: doubt.region,
    reason: t(`market.catalogue.doubt.${doubt.reason}`),
  });
}

/** What a machine is besides its price. */
export function MachineDetails({ machine: i }: { machine: Instance }) {
  const { t } = useTranslation();
  const f = useFormat();
  const unknown = t("market.catalogue.unknown");
  const { allocatable: a, traits } = i;
  const left = t("market.catalogue.allocatableOf", {
    cpu: a.cpuCores === null ? unknown : t("unit.cores", { value: f.number(a.cpuCores) }),
    // Always in GiB: of two TiB, what is reserved is a rounding error.
    memory: a.memoryMib === null ? unknown : f.gibibytes(a.memoryMib),
    pods: a.maxPods === null ? unknown : f.integer(a.maxPods),
  });
  const gpu = i.machine.gpuCount > 0;
  return (
    <Stack gap="sm">
      <Title order={3}>{t("market.catalogue.machine")}</Title>
      <Facts
        items={[
          ...(gpu ? [{ label: t("market.gpus"), value: <MachineText machine={i.machine} /> }] : []),
          { label: t("market.cpus"), value: `${f.number(i.machine.cpuCores)} (${i.arch})` },
          { label: t("cost.memory"), value: f.mebibytes(i.machine.memoryMib) },
          ...(a.rule
            ? [
                {
                  label: t("market.catalogue.allocatable"),
                  hint: t("market.catalogue.allocatableHint", { rule: a.rule.toUpperCase() }),
                  value: left,
                },
              ]
            : []),
          ...(gpu ? [{ label: t("market.catalogue.link"), value: <LinkText traits={traits} /> }] : []),
          ...(gpu
            ? [
                {
                  label: t("market.catalogue.mig"),
                  hint: t("market.catalogue.migHint"),
                  value: <MigText traits={traits} />,
                },
              ]
            : []),
          {
            label: t("market.catalogue.network"),
            hint: t("market.catalogue.networkHint"),
            value: traits.networkMbps === null ? unknown : f.gigabits(traits.networkMbps),
          },
          { label: t("market.catalogue.fabric"), value: <FabricText traits={traits} /> },
          {
            label: t("market.catalogue.disk"),
            value:
              traits.localDiskGib === null
                ? unknown
                : traits.localDiskGib === 0
                  ? t("market.catalogue.no")
                  : f.mebibytes(traits.localDiskGib * 1024),
          },
          {
            label: t("market.catalogue.regions"),
            value: t("market.catalogue.regionsOf", {
              sold: f.integer(i.regionsSold),
              priced: f.integer(i.regionsPriced),
            }),
          },
        ]}
      />
      {i.doubts.length > 0 && (
        <Alert color="orange" title={t("market.catalogue.doubtsTitle")}>
          {i.doubts.map((d) => (
            <Text size="sm" key={`${d.region}/${d.purchase}`}>
              <DoubtText doubt={d} />
            </Text>
          ))}
        </Alert>
      )}
    </Stack>
  );
}

/** In which regions each cloud's machines have a price. */
export function CoverageTable({ rows }: { rows: readonly Coverage[] }) {
  const { t } = useTranslation();
  const list = (regions: string[]) => (
    <Text size="sm" c={regions.length > 0 ? undefined : "dimmed"}>
      {regions.length > 0 ? regions.join(", ") : "–"}
    </Text>
  );
  const columns: Column<Coverage>[] = [
    { key: "cloud", header: t("market.cloud"), render: (c) => cloudName(c.cloud) },
    { key: "priced", header: t("market.catalogue.priced"), render: (c) => list(c.priced) },
    { key: "unpriced", header: t("market.catalogue.notPriced"), render: (c) => list(c.unpriced) },
  ];
  return (
    <DataTable
      label={t("market.catalogue.coverage")}
      rows={rows}
      columns={columns}
      rowKey={(c) => c.cloud}
      minWidth={820}
    />
  );
}
