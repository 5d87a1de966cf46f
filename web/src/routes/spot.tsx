import { Button, Group, Select, Stack, Tabs, Text } from "@mantine/core";
import { IconChartLine } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import {
  cheapestSpotQuery,
  type Pool,
  poolKey,
  quarantineQuery,
  type SpotFilter,
  type SpotMarket,
  spotMarketsQuery,
  spotStatsQuery,
} from "../api/spot";
import { machineText } from "../components/offering";
import { PageHead, Panel } from "../components/page";
import { RangePicker } from "../components/range-picker";
import { CheapestTable, QuarantineTable, StatsTable } from "../components/spot-tables";
import { CardSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { CLOUDS, cloudName } from "../lib/cloud";
import { useFormat } from "../lib/format";
import { useMe } from "./me";
import { PriceDrawer } from "./price-drawer";
import { SPOT_RANGES, SPOT_TABS, type SpotRange } from "./search";
import { SpotPrices } from "./spot-prices";

const FROM = "/signed-in/spot";
const HOUR = 3_600_000;
const DAYS: Record<SpotRange, number> = { d7: 7, d30: 30, d90: 90, y1: 365 };
const GPU_COUNTS = [1, 2, 4, 8, 16];

/** The market that is shown when none is asked for: the largest GPU machine on Spot of those that fit. */
export function firstMarket(markets: readonly SpotMarket[]): SpotMarket | undefined {
  const size = (m: SpotMarket) => (m.machine && m.listed ? m.machine.gpuCount * m.machine.gpuMemoryMib : 0);
  return markets.reduce<SpotMarket | undefined>((best, m) => (!best || size(m) > size(best) ? m : best), undefined);
}

/** Where ranges of a market end: the tenant's now, or the hour of the last report where that is long past. */
export function endOfData(market: SpotMarket | undefined, now: Date): Date {
  if (market?.stale && market.seenAt < now) return new Date(Math.ceil(market.seenAt.getTime() / HOUR) * HOUR);
  return new Date(Math.floor(now.getTime() / HOUR) * HOUR);
}

function Filters({ markets }: { markets: readonly SpotMarket[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const search = useSearch({ from: FROM });
  const change = useChange();
  const models = [...new Set(markets.flatMap((m) => m.machine?.gpuModel || []))].sort();
  const filtered = search.cloud || search.gpu || search.gpus !== undefined;
  return (
    <Group gap="sm">
      <Select
        aria-label={t("market.cloud")}
        placeholder={t("market.anyCloud")}
        clearable
        w={160}
        value={search.cloud ?? null}
        data={CLOUDS.map((c) => ({ value: c, label: cloudName(c) }))}
        onChange={(value) => change({ cloud: CLOUDS.find((c) => c === value), market: undefined })}
      />
      <Select
        aria-label={t("market.gpuModel")}
        placeholder={t("market.anyGpu")}
        clearable
        searchable
        w={170}
        value={search.gpu ?? null}
        data={models}
        onChange={(value) => change({ gpu: value ?? undefined, market: undefined })}
      />
      <Select
        aria-label={t("market.minGpus")}
        placeholder={t("market.anyCount")}
        clearable
        w={180}
        value={search.gpus === undefined ? null : String(search.gpus)}
        data={GPU_COUNTS.map((n) => ({ value: String(n), label: t("market.atLeastGpus", { value: f.integer(n) }) }))}
        onChange={(value) => change({ gpus: value ? Number(value) : undefined, market: undefined })}
      />
      {filtered && (
        <Button
          variant="subtle"
          color="gray"
          onClick={() => change({ cloud: undefined, gpu: undefined, gpus: undefined, market: undefined })}
        >
          {t("common.clear")}
        </Button>
      )}
    </Group>
  );
}

function useChange() {
  const navigate = useNavigate();
  const search = useSearch({ from: FROM });
  return (part: Partial<typeof search>) =>
    void navigate({ to: "/spot", search: { ...search, ...part }, resetScroll: false });
}

function Stats({ filter, from, to, onPick }: { filter: SpotFilter; from: Date; to: Date; onPick: (p: Pool) => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const query = useQuery(spotStatsQuery(filter, from, to));
  return (
    <Gate
      query={query}
      skeleton={<TableSkeleton />}
      isEmpty={(found) => found.items.length === 0}
      empty={<Empty title={t("market.noPool")} text={t("workloads.noMatchText")} />}
    >
      {(found) => (
        <>
          <StatsTable rows={found.items} onPick={onPick} />
          {found.total > found.items.length && (
            <Text size="sm" c="dimmed" px="md" py="sm">
              {t("common.of", { part: f.integer(found.items.length), whole: f.integer(found.total) })}
            </Text>
          )}
        </>
      )}
    </Gate>
  );
}

function Cheapest({ filter, onExplain }: { filter: SpotFilter; onExplain: (p: Pool) => void }) {
  const { t } = useTranslation();
  const query = useQuery(cheapestSpotQuery(filter));
  return (
    <Gate
      query={query}
      skeleton={<TableSkeleton />}
      isEmpty={(found) => found.items.length === 0}
      empty={<Empty title={t("market.noPool")} text={t("workloads.noMatchText")} />}
    >
      {(found) => <CheapestTable rows={found.items} onExplain={onExplain} />}
    </Gate>
  );
}

function NotBelieved() {
  const { t } = useTranslation();
  const query = useQuery(quarantineQuery);
  return (
    <Gate
      query={query}
      skeleton={<TableSkeleton rows={4} />}
      isEmpty={(rows) => rows.length === 0}
      empty={<Empty title={t("market.quarantineEmpty")} text={t("market.quarantineText")} />}
    >
      {(rows) => <QuarantineTable rows={rows} />}
    </Gate>
  );
}

export function SpotPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const me = useMe();
  const search = useSearch({ from: FROM });
  const change = useChange();
  const range = search.range ?? "d30";
  const tab = search.tab ?? "stats";
  const markets = useQuery(spotMarketsQuery);
  const fitting = useMemo(
    () =>
      (markets.data ?? []).filter(
        (m) =>
          (!search.cloud || m.cloud === search.cloud) &&
          (!search.gpu || m.machine?.gpuModel === search.gpu) &&
          (!search.gpus || (m.machine?.gpuCount ?? 0) >= search.gpus),
      ),
    [markets.data, search.cloud, search.gpu, search.gpus],
  );
  const chosen = fitting.find((m) => m.key === search.market) ?? firstMarket(fitting);
  // Where nobody reports prices any more, "the last 30 days" are those before the last report.
  const end = endOfData(chosen, me.dataNow).getTime();
  const zoomed = search.from !== undefined && search.to !== undefined;
  const span = useMemo(
    () =>
      search.from && search.to
        ? { from: new Date(search.from), to: new Date(search.to) }
        : { from: new Date(end - DAYS[range] * 24 * HOUR), to: new Date(end) },
    [search.from, search.to, end, range],
  );
  const filter: SpotFilter = {
    cloud: search.cloud,
    gpuModel: search.gpu,
    // Without any wish it is about GPUs: a thousand small machines would come before them.
    minGpus: search.gpus ?? 1,
  };
  const explain = (p: Pool) => change({ open: [poolKey(p), p.zone].filter(Boolean).join("/") });
  const words = (m: SpotMarket) => `${m.instanceType} · ${m.region}`;
  return (
    <>
      <PageHead
        title={t("market.spotTitle")}
        text={t("market.spotText")}
        actions={
          <RangePicker
            options={SPOT_RANGES}
            value={range}
            zoom={zoomed ? span : undefined}
            onPick={(next) => change({ range: next, from: undefined, to: undefined })}
          />
        }
      />
      <Gate
        query={markets}
        skeleton={
          <Stack>
            <CardSkeleton height={80} />
            <CardSkeleton height={320} />
            <TableSkeleton rows={6} />
          </Stack>
        }
        isEmpty={(list) => list.length === 0}
        empty={
          <Panel>
            <Empty
              icon={<IconChartLine size={34} stroke={1.4} />}
              title={t("market.spotEmpty")}
              text={t("market.spotEmptyText")}
              height={300}
            />
          </Panel>
        }
      >
        {(list) => (
          <Stack gap="md">
            <Group justify="space-between" gap="sm">
              <Filters markets={list} />
              <Select
                aria-label={t("market.market")}
                placeholder={t("market.market")}
                searchable
                allowDeselect={false}
                w={{ base: "100%", sm: 360 }}
                value={chosen?.key ?? null}
                data={fitting.map((m) => ({ value: m.key, label: words(m) }))}
                limit={200}
                nothingFoundMessage={t("market.noPool")}
                onChange={(value) => change({ market: value ?? undefined })}
              />
            </Group>
            {chosen ? (
              <SpotPrices
                market={chosen}
                span={span}
                end={new Date(end)}
                name={`${words(chosen)} · ${machineText(f, chosen.machine, (value) => t("unit.cores", { value }))}`}
                onExplain={() => change({ open: chosen.key })}
                onSelect={(from, to) => change({ from: from.toISOString(), to: to.toISOString() })}
              />
            ) : (
              <Panel>
                <Empty title={t("market.noPool")} text={t("workloads.noMatchText")} />
              </Panel>
            )}
            <Panel flush>
              <Tabs
                value={tab}
                onChange={(value) => {
                  const next = SPOT_TABS.find((name) => name === value);
                  if (next) change({ tab: next });
                }}
              >
                <Tabs.List px="md" pt={6}>
                  {SPOT_TABS.map((name) => (
                    <Tabs.Tab key={name} value={name}>
                      {t(`market.tabs.${name}`)}
                    </Tabs.Tab>
                  ))}
                </Tabs.List>
              </Tabs>
              {tab === "stats" && <Stats filter={filter} {...span} onPick={(p) => change({ market: poolKey(p) })} />}
              {tab === "cheapest" && <Cheapest filter={filter} onExplain={explain} />}
              {tab === "quarantine" && <NotBelieved />}
            </Panel>
          </Stack>
        )}
      </Gate>
      <PriceDrawer open={search.open} purchase="spot" onClose={() => change({ open: undefined })} />
    </>
  );
}
