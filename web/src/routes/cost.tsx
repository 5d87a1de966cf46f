import { Button, Group, Pill, SegmentedControl, Select, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconChartAreaLine, IconDownload } from "@tabler/icons-react";
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { clusterQuery } from "../api/clusters";
import {
  AGGREGATES,
  type Aggregate,
  type Allocation,
  type Allocations,
  allocationsQuery,
  type CostFilter,
  type CostKind,
  type CostSeries,
  costSeriesQuery,
} from "../api/cost";
import { calendarQuery } from "../api/finops";
import { AllocationTable, DRILL, useGroupName } from "../components/allocation-table";
import { Chart, Legend } from "../components/chart/chart";
import { type ChartColors, useChartColors } from "../components/chart/colors";
import type { Line } from "../components/chart/model";
import { CostTerms } from "../components/cost/terms";
import { Treemap } from "../components/cost/treemap";
import { PageHead, Panel, Stat } from "../components/page";
import { RangePicker } from "../components/range-picker";
import { SearchBox } from "../components/search-box";
import { BlockSkeleton, CardSkeleton, Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { download, toCsv } from "../lib/csv";
import { useFormat } from "../lib/format";
import { moneyDecimal, moneyNumber, moneyRatio, sumMoney } from "../lib/money";
import { startOfDay } from "../lib/time";
import { ComparePanel } from "./cost-compare";
import { HoursPanel, TraceDrawer } from "./cost-trace";
import { daysOf, FiscalSelect, windowOf } from "./cost-window";
import { useMe } from "./me";
import { COST_VIEWS, FISCAL_WINDOWS, WINDOWS } from "./search";

const FROM = "/signed-in/cost";
const NOON = 43_200_000;

function colorOf(kind: CostKind, index: number, colors: ChartColors): string {
  if (kind === "idle") return colors.muted;
  if (kind === "overhead" || kind === "residual") return colors.axis;
  if (kind === "commitment_unused") return colors.danger;
  return colors.series[index % colors.series.length] ?? colors.muted;
}

function linesOf(series: readonly CostSeries[], name: ReturnType<typeof useGroupName>, colors: ChartColors): Line[] {
  let index = 0;
  return series.map((s) => ({
    key: `${s.kind}/${s.key}`,
    name: name(s),
    color: colorOf(s.kind, s.kind === "workload" || s.kind === "all" ? index++ : 0, colors),
    values: s.points.map((p) => moneyNumber(p.amount)),
    shape: "bar" as const,
    stack: "cost",
  }));
}

function SeriesPanel({ filter, query }: { filter: CostFilter; query: UseQueryResult<CostSeries[]> }) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const name = useGroupName(filter.aggregate);
  const series = query.data;
  const chart = useMemo(() => {
    return {
      at: series?.[0]?.points.map((p) => p.at.getTime() + NOON) ?? [],
      lines: linesOf(series ?? [], name, colors),
    };
  }, [series, name, colors]);
  return (
    <Panel
      title={t("cost.series")}
      hint={t("cost.utc")}
      actions={
        <Text size="sm" c="dimmed">
          {t("cost.perDay")}
        </Text>
      }
    >
      <Gate query={query} skeleton={<BlockSkeleton height={320} />}>
        {() => (
          <Stack gap="sm">
            <Chart
              {...chart}
              from={filter.from}
              to={filter.to}
              height={280}
              days
              format={(v) => f.moneyAxis(v)}
              sum={t("common.total")}
              label={t("cost.series")}
            />
            <Legend lines={chart.lines} />
          </Stack>
        )}
      </Gate>
    </Panel>
  );
}

/** Areas in proportion to cost. */
function TreePanel({
  data,
  aggregate,
  drill,
}: {
  data: Allocations;
  aggregate: Aggregate;
  drill: (row: Allocation) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const name = useGroupName(aggregate);
  let index = 0;
  const tiles = data.items.map((a) => ({
    key: `${a.kind}/${a.key}`,
    name: name(a),
    value: moneyNumber(a.amount),
    text: f.money(a.amount),
    color: colorOf(a.kind, a.kind === "workload" || a.kind === "all" ? index++ : 0, colors),
    onOpen: canOpen(aggregate, a) ? () => drill(a) : undefined,
  }));
  return (
    <Panel title={t("finops.view.tree")}>
      <Treemap tiles={tiles} label={t("finops.view.tree")} />
    </Panel>
  );
}

/** From this many groups on a table has a search of its own. */
const MANY_GROUPS = 20;

const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

function canOpen(aggregate: Aggregate, a: Allocation): boolean {
  if (a.key === "" || a.key === "other" || (a.kind !== "workload" && a.kind !== "all")) return false;
  return DRILL[aggregate] !== undefined || (aggregate === "workload" && UUID.test(a.key));
}

/** How many days of the window cost anything: before the first report there is nothing to take a mean of. */
export function daysWithCost(series: readonly CostSeries[]): number {
  const days = new Set<number>();
  for (const s of series) for (const p of s.points) if (p.amount.nano > 0n) days.add(p.at.getTime());
  return days.size;
}

/** The groups whose name holds the words; the total stays that of all. */
function found(data: Allocations, words: string | undefined, name: ReturnType<typeof useGroupName>): Allocations {
  const wanted = words?.trim().toLowerCase();
  return wanted ? { ...data, items: data.items.filter((a) => name(a).toLowerCase().includes(wanted)) } : data;
}

function Totals({ data, days }: { data: Allocations; days: number }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { currency } = data.total;
  const gpu = moneyRatio(
    sumMoney(
      data.items.map((a) => a.gpu),
      currency,
    ),
    data.total,
  );
  const idle = moneyRatio(
    sumMoney(
      data.items.filter((a) => a.kind === "idle" || a.kind === "overhead").map((a) => a.amount),
      currency,
    ),
    data.total,
  );
  const change = moneyRatio(data.total, data.previousTotal);
  return (
    <SimpleGrid cols={{ base: 2, lg: 4 }}>
      <Stat
        label={t("cost.trendTotal")}
        value={f.money(data.total, { style: "whole" })}
        detail={
          change === null
            ? ""
            : t("overview.previous", { change: `${change >= 1 ? "+" : "−"}${f.percent(Math.abs(change - 1))}` })
        }
      />
      <Stat
        label={t("cost.perDayMean")}
        value={days > 0 ? f.money({ nano: data.total.nano / BigInt(days), currency }, { style: "whole" }) : "–"}
      />
      <Stat label={t("cost.gpuShare")} value={gpu === null ? "–" : f.percent(gpu)} />
      <Stat label={t("cost.idleShare")} value={idle === null ? "–" : f.percent(idle)} />
    </SimpleGrid>
  );
}

export function CostPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const me = useMe();
  const search = useSearch({ from: FROM });
  const navigate = useNavigate();
  const aggregate = search.by ?? "team";
  const window = search.window ?? "d30";
  const idle = search.idle ?? "separate";
  const basis = search.basis ?? "effective";
  const view = search.view ?? "series";
  const { cluster, namespace, team, workload, hour } = search;
  const name = useGroupName(aggregate);
  const day = startOfDay(me.dataNow, "UTC").getTime();
  const calendar = useQuery(calendarQuery);
  const fiscal = calendar.data?.windows.find((w) => w.name === search.fiscal);
  const zone = calendar.data?.timeZone ?? "UTC";
  const span = fiscal ? daysOf(fiscal, zone, new Date(day)) : windowOf(window, new Date(day));
  const [from, to] = [span.from.getTime(), span.to.getTime()];
  const filter = useMemo<CostFilter>(
    () => ({ from: new Date(from), to: new Date(to), aggregate, idle, basis, cluster, namespace, team, workload }),
    [from, to, aggregate, idle, basis, cluster, namespace, team, workload],
  );
  const scoped = useQuery({ ...clusterQuery(cluster ?? ""), enabled: cluster !== undefined });
  const ready = search.fiscal === undefined || calendar.data !== undefined;
  const query = useQuery({ ...allocationsQuery(filter), enabled: ready });
  const series = useQuery({ ...costSeriesQuery(filter, "day"), enabled: ready });
  const change = (part: Partial<typeof search>) =>
    void navigate({ to: "/cost", search: { ...search, ...part }, resetScroll: false });
  const byName = useCallback(
    (find: string) =>
      void navigate({ to: "/cost", search: { ...search, find: find || undefined }, resetScroll: false }),
    [navigate, search],
  );
  const scopes = [
    {
      field: "cluster" as const,
      value: cluster,
      label: scoped.data?.name ?? cluster,
    },
    { field: "namespace" as const, value: namespace, label: namespace },
    { field: "team" as const, value: team, label: team },
    {
      field: "workload" as const,
      value: workload,
      label: query.data?.items.find((a) => a.key === workload)?.name ?? workload,
    },
  ].filter((s) => s.value);

  const drill = (row: Allocation) => {
    const step = DRILL[aggregate];
    if (step) change({ [step.field]: row.key, by: step.next, find: undefined });
    else if (aggregate === "workload" && UUID.test(row.key)) change({ workload: row.key });
  };
  const csv = (data: Allocations) =>
    download(
      `plimsoll-cost-${aggregate}-${data.from.toISOString().slice(0, 10)}-${data.to.toISOString().slice(0, 10)}.csv`,
      toCsv(
        [
          t(`cost.aggregate.${aggregate}`),
          "kind",
          "from",
          "to",
          "currency",
          "total",
          "share",
          "gpu",
          "cpu",
          "memory",
          "previous",
        ],
        data.items.map((a) => [
          name(a),
          a.kind,
          data.from.toISOString(),
          data.to.toISOString(),
          a.amount.currency,
          moneyDecimal(a.amount),
          a.share,
          moneyDecimal(a.gpu),
          moneyDecimal(a.cpu),
          moneyDecimal(a.memory),
          moneyDecimal(a.previous),
        ]),
      ),
    );

  return (
    <>
      <PageHead
        title={t("cost.title")}
        actions={
          <Group gap="sm">
            <RangePicker
              options={WINDOWS}
              value={search.fiscal ? null : window}
              onPick={(next) => change({ window: next, fiscal: undefined })}
            />
            <FiscalSelect
              value={search.fiscal ?? null}
              onPick={(next) => change({ fiscal: FISCAL_WINDOWS.find((w) => w === next) })}
            />
          </Group>
        }
      />
      <Stack gap="md">
        <Group justify="space-between" gap="sm">
          <Group gap="sm">
            <Text size="sm" c="dimmed">
              {t("cost.by")}
            </Text>
            <Select
              aria-label={t("cost.by")}
              w={170}
              allowDeselect={false}
              value={aggregate}
              data={AGGREGATES.map((a) => ({ value: a, label: t(`cost.aggregate.${a}`) }))}
              onChange={(value) => change({ by: AGGREGATES.find((a) => a === value) })}
            />
            {scopes.map((s) => (
              <Pill
                key={s.field}
                size="md"
                withRemoveButton
                onRemove={() =>
                  change({ [s.field]: undefined, ...(s.field === "workload" ? { hour: undefined } : {}) })
                }
              >
                {t(`cost.aggregate.${s.field}`)}: {s.label}
              </Pill>
            ))}
          </Group>
          <SegmentedControl
            size="xs"
            aria-label={t("finops.view.label")}
            value={view}
            onChange={(value) => change({ view: COST_VIEWS.find((v) => v === value) })}
            data={COST_VIEWS.map((v) => ({ value: v, label: t(`finops.view.${v}`) }))}
          />
          <CostTerms idle={idle} basis={basis} onChange={change} />
        </Group>
        <Gate
          query={query}
          skeleton={
            <Stack>
              <CardSkeleton height={70} />
              <CardSkeleton height={320} />
              <TableSkeleton rows={6} />
            </Stack>
          }
          isEmpty={(data) => data.items.length === 0}
          empty={
            <Panel>
              <Empty
                icon={<IconChartAreaLine size={34} stroke={1.4} />}
                title={t("cost.empty")}
                text={t("cost.emptyText")}
                height={300}
              />
            </Panel>
          }
        >
          {(data) => (
            <Stack gap="md">
              {data.unpricedShare !== null && data.unpricedShare > 0 && (
                <StaleNote>{t("cost.unpriced", { share: f.percent(data.unpricedShare) })}</StaleNote>
              )}
              {data.basisUnknown.nano !== 0n && (
                <StaleNote>{t("cost.basisUnknown", { amount: f.money(data.basisUnknown) })}</StaleNote>
              )}
              <Totals data={data} days={daysWithCost(series.data ?? [])} />
              {view === "series" && <SeriesPanel filter={filter} query={series} />}
              {view === "tree" && <TreePanel data={data} aggregate={aggregate} drill={drill} />}
              {view === "compare" && <ComparePanel filter={filter} />}
              {workload && (
                <HoursPanel
                  workload={workload}
                  from={filter.from}
                  to={filter.to}
                  onOpen={(next) => change({ hour: next })}
                />
              )}
              {workload && hour && (
                <TraceDrawer workload={workload} hour={hour} onClose={() => change({ hour: undefined })} />
              )}
              <Panel
                flush
                title={t("cost.table")}
                actions={
                  <Group gap="md">
                    {(data.items.length > MANY_GROUPS || search.find) && (
                      <SearchBox
                        value={search.find ?? ""}
                        placeholder={t("common.search")}
                        onChange={byName}
                        width={200}
                      />
                    )}
                    {data.openHours > 0 && (
                      <Text size="sm" c="dimmed">
                        {t("cost.provisional", { value: f.integer(data.openHours) })}
                      </Text>
                    )}
                    <Button
                      size="xs"
                      variant="default"
                      leftSection={<IconDownload size={14} />}
                      onClick={() => csv(data)}
                    >
                      {t("cost.csv")}
                    </Button>
                  </Group>
                }
              >
                <AllocationTable data={found(data, search.find, name)} aggregate={aggregate} onDrill={drill} />
              </Panel>
            </Stack>
          )}
        </Gate>
      </Stack>
    </>
  );
}
