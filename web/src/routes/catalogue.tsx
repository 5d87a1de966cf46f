import {
  Button,
  Checkbox,
  Group,
  NumberInput,
  Pill,
  SegmentedControl,
  Select,
  Stack,
  Text,
  Tooltip,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconListSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { type Catalogue, catalogueQuery, machineQuery } from "../api/catalogue";
import { InstanceTable, SourceTable } from "../components/instance-table";
import { CoverageTable, FABRIC_NAMES, MachineDetails } from "../components/machine-details";
import { Hint, PageHead, Panel } from "../components/page";
import { SearchBox } from "../components/search-box";
import { BlockSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { CLOUDS, cloudName } from "../lib/cloud";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";
import { type Offering, PriceDrawer } from "./price-drawer";
import { FABRICS, SORT_PRICES } from "./search";

const DAY = 86_400;

const FROM = "/signed-in/catalogue";
const LIMIT = 100;
const WAIT_MS = 400;

const EXAMPLES = [
  { name: "eight80", search: { gpus: 8, gpuGb: 80 } },
  { name: "oneLarge", search: { gpus: 1, gpuGb: 40 } },
  { name: "spotL4", search: { q: "L4", gpus: 1, by: "spot" } },
  { name: "mig", search: { mig: true, gpus: 1 } },
  { name: "fabric", search: { gpus: 8, fabric: "any" } },
  { name: "cpu", search: { cpus: 32, gib: 128 } },
] as const;

/** A number that is told when typing pauses; empty is none. */
function AtLeast({
  label,
  width,
  value,
  most,
  onChange,
}: {
  label: string;
  width: number;
  value: number | undefined;
  most: number;
  onChange: (value: number | undefined) => void;
}) {
  const [text, setText] = useState<number | string>(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  useEffect(() => {
    const next = typeof text === "number" && text > 0 ? text : undefined;
    if (next === value) return;
    const timer = setTimeout(() => onChange(next), WAIT_MS);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <NumberInput
      aria-label={label}
      w={width}
      leftSection={
        <Text size="sm" c="dimmed" pl={10} style={{ whiteSpace: "nowrap" }}>
          {label}
        </Text>
      }
      leftSectionWidth={width - 54}
      leftSectionProps={{ style: { justifyContent: "flex-start" } }}
      min={0}
      max={most}
      clampBehavior="strict"
      allowDecimal={false}
      allowNegative={false}
      hideControls
      value={text}
      onChange={setText}
    />
  );
}

function Filters() {
  const { t } = useTranslation();
  const search = useSearch({ from: FROM });
  const navigate = useNavigate({ from: "/catalogue" });
  const change = useCallback(
    (part: Partial<typeof search>) =>
      void navigate({ to: "/catalogue", search: (before) => ({ ...before, ...part }), resetScroll: false }),
    [navigate],
  );
  const byText = useCallback((q: string) => change({ q: q || undefined }), [change]);
  const byRegion = useCallback((region: string) => change({ region: region || undefined }), [change]);
  const byGpus = useCallback((gpus: number | undefined) => change({ gpus }), [change]);
  const byGpuGb = useCallback((gpuGb: number | undefined) => change({ gpuGb }), [change]);
  const byCpus = useCallback((cpus: number | undefined) => change({ cpus }), [change]);
  const byGib = useCallback((gib: number | undefined) => change({ gib }), [change]);
  const byGbps = useCallback((gbps: number | undefined) => change({ gbps }), [change]);
  const byDisk = useCallback((disk: number | undefined) => change({ disk }), [change]);
  const { by, open, ...filters } = search;
  return (
    <Stack gap="sm" p="md" pb="xs">
      <Group gap="xs">
        <Text size="sm" c="dimmed">
          {t("market.catalogue.examples")}
        </Text>
        {EXAMPLES.map((e) => (
          <Pill
            key={e.name}
            size="md"
            component="button"
            className="pill-button"
            onClick={() => void navigate({ to: "/catalogue", search: e.search })}
          >
            {t(`market.catalogue.example.${e.name}`)}
          </Pill>
        ))}
        {Object.keys(filters).length > 0 && (
          <Button
            size="compact-sm"
            variant="subtle"
            color="gray"
            onClick={() => void navigate({ to: "/catalogue", search: by ? { by } : {} })}
          >
            {t("common.clear")}
          </Button>
        )}
      </Group>
      <Group gap="sm">
        <SearchBox value={search.q ?? ""} placeholder={t("market.catalogue.search")} onChange={byText} width={200} />
        <Select
          aria-label={t("market.cloud")}
          placeholder={t("market.anyCloud")}
          clearable
          w={140}
          value={search.cloud ?? null}
          data={CLOUDS.map((c) => ({ value: c, label: cloudName(c) }))}
          onChange={(value) => change({ cloud: CLOUDS.find((c) => c === value) })}
        />
        <SearchBox value={search.region ?? ""} placeholder={t("market.region")} onChange={byRegion} width={130} />
        <AtLeast label={t("market.minGpus")} width={124} value={search.gpus} most={64} onChange={byGpus} />
        <AtLeast label={t("market.minGpuGb")} width={142} value={search.gpuGb} most={2000} onChange={byGpuGb} />
        <AtLeast label={t("market.minCpus")} width={130} value={search.cpus} most={2000} onChange={byCpus} />
        <AtLeast label={t("market.minGib")} width={142} value={search.gib} most={100_000} onChange={byGib} />
        <AtLeast
          label={t("market.catalogue.minGbps")}
          width={132}
          value={search.gbps}
          most={100_000}
          onChange={byGbps}
        />
        <AtLeast
          label={t("market.catalogue.minDisk")}
          width={196}
          value={search.disk}
          most={1_000_000}
          onChange={byDisk}
        />
        <Select
          aria-label={t("market.catalogue.fabric")}
          placeholder={t("market.catalogue.fabric")}
          clearable
          w={150}
          value={search.fabric ?? null}
          data={FABRICS.map((name) => ({
            value: name,
            label: name === "any" ? t("market.catalogue.anyFabric") : FABRIC_NAMES[name],
          }))}
          onChange={(value) => change({ fabric: FABRICS.find((name) => name === value) })}
        />
        <Tooltip label={t("market.catalogue.migHint")}>
          <Checkbox
            label={t("market.catalogue.mig")}
            checked={search.mig === true}
            onChange={(e) => change({ mig: e.currentTarget.checked || undefined })}
          />
        </Tooltip>
      </Group>
    </Stack>
  );
}

function Found({ data }: { data: Catalogue }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(3600);
  const navigate = useNavigate({ from: "/catalogue" });
  const [shown, sources] = useDisclosure(false);
  const [open, coverage] = useDisclosure(false);
  const seconds = Math.max(0, (now.getTime() - data.date.getTime()) / 1000);
  const age = f.duration(seconds < DAY ? seconds : seconds - (seconds % DAY));
  return (
    <>
      <InstanceTable
        rows={data.items}
        onOpen={(i) => void navigate({ to: "/catalogue", search: (s) => ({ ...s, open: i.key }), resetScroll: false })}
      />
      <Group justify="space-between" px="md" py="sm" gap="sm">
        <Text size="sm" c="dimmed">
          {t("market.catalogue.snapshot", { date: f.calendarDate(data.date), age })}{" "}
          <Hint text={t("market.catalogue.snapshotHint")} />
        </Text>
        <Group gap="md">
          <Text size="sm" c="dimmed">
            {t("common.of", { part: f.integer(data.items.length), whole: f.integer(data.total) })}
          </Text>
          <Button size="xs" variant="default" aria-expanded={open} onClick={coverage.toggle}>
            {t("market.catalogue.coverage")}
          </Button>
          <Button size="xs" variant="default" aria-expanded={shown} onClick={sources.toggle}>
            {t("market.sources")}
          </Button>
        </Group>
      </Group>
      <Group px="md" pb="sm" gap="lg">
        {data.coverage.map((c) => (
          <Text size="sm" c="dimmed" key={c.cloud}>
            {t("market.catalogue.coverageOf", {
              cloud: cloudName(c.cloud),
              priced: f.integer(c.priced.length),
              all: f.integer(c.priced.length + c.unpriced.length),
            })}
          </Text>
        ))}
        <Hint text={t("market.catalogue.coverageHint")} />
        {data.doubts > 0 && (
          <Text size="sm" c="dimmed">
            {t("market.catalogue.doubts", { value: f.integer(data.doubts) })}
          </Text>
        )}
      </Group>
      {open && <CoverageTable rows={data.coverage} />}
      {shown && <SourceTable rows={data.sources} />}
    </>
  );
}

/** The machine of an offering, whether it is among the rows found or not. */
function About({ offering }: { offering: Offering }) {
  const { t } = useTranslation();
  const query = useQuery(machineQuery(offering.cloud, offering.region, offering.instanceType));
  return (
    <Gate query={query} skeleton={<BlockSkeleton height={240} />}>
      {(machine) =>
        machine ? (
          <MachineDetails machine={machine} />
        ) : (
          <Text size="sm" c="dimmed">
            {t("market.catalogue.noMachine")}
          </Text>
        )
      }
    </Gate>
  );
}

export function CataloguePage() {
  const { t } = useTranslation();
  const search = useSearch({ from: FROM });
  const navigate = useNavigate({ from: "/catalogue" });
  const by = search.by ?? "on_demand";
  const query = useQuery(
    catalogueQuery(
      {
        q: search.q,
        cloud: search.cloud,
        region: search.region,
        minGpus: search.gpus,
        minGpuGb: search.gpuGb,
        minCpus: search.cpus,
        minGib: search.gib,
        mig: search.mig,
        minGbps: search.gbps,
        minDiskGib: search.disk,
        fabric: search.fabric,
        purchase: by,
      },
      LIMIT,
    ),
  );
  return (
    <>
      <PageHead
        title={t("market.catalogue.title")}
        text={t("market.catalogue.text")}
        actions={
          <Group gap={8}>
            <Text size="sm" c="dimmed">
              {t("market.catalogue.cheapestBy")}
            </Text>
            <SegmentedControl
              size="xs"
              aria-label={t("market.catalogue.cheapestBy")}
              value={by}
              onChange={(value) =>
                void navigate({
                  to: "/catalogue",
                  search: { ...search, by: SORT_PRICES.find((p) => p === value) },
                })
              }
              data={SORT_PRICES.map((p) => ({ value: p, label: t(`purchase.${p}`) }))}
            />
          </Group>
        }
      />
      <Panel flush>
        <Filters />
        <Gate
          query={query}
          skeleton={<TableSkeleton />}
          isEmpty={(data) => data.items.length === 0}
          empty={
            <Empty
              icon={<IconListSearch size={34} stroke={1.4} />}
              title={t("market.catalogue.none")}
              text={t("workloads.noMatchText")}
              height={300}
            />
          }
        >
          {(data) => <Found data={data} />}
        </Gate>
      </Panel>
      <PriceDrawer
        open={search.open}
        purchase={by}
        about={(offering) => <About offering={offering} />}
        onClose={() => void navigate({ to: "/catalogue", search: ({ open: _, ...rest }) => rest, resetScroll: false })}
      />
    </>
  );
}
