import { Badge, Button, Group, SimpleGrid, Stack, Text, Tooltip } from "@mantine/core";
import { IconReceipt2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { LINUX, type SpotHistory, type SpotLine, type SpotMarket, spotHistoryQuery, spotStatsQuery } from "../api/spot";
import { Chart, Legend } from "../components/chart/chart";
import { type ChartColors, useChartColors } from "../components/chart/colors";
import type { Line } from "../components/chart/model";
import { Panel, Stat } from "../components/page";
import { PastPicker } from "../components/past-picker";
import { BlockSkeleton, Gate, StaleNote } from "../components/state";
import { useFormat } from "../lib/format";
import { compareMoney, moneyNumber } from "../lib/money";

/** The zone that is cheapest at the newest moment. */
export function cheapestLine(lines: readonly SpotLine[]): SpotLine | undefined {
  return lines.reduce<SpotLine | undefined>((best, line) => {
    if (!line.newest.price) return best;
    return !best?.newest.price || compareMoney(line.newest.price, best.newest.price) < 0 ? line : best;
  }, undefined);
}

/** The on-demand line, one for all zones, as the first that knows says it at each step. */
export function onDemandOf(history: SpotHistory): (number | null)[] {
  const at = history.lines[0]?.at ?? history.effective.at;
  const list = history.catalogueOnDemand ? moneyNumber(history.catalogueOnDemand) : null;
  return at.map((_, i) => {
    for (const line of history.lines) {
      const value = line.onDemand[i];
      if (value !== null && value !== undefined) return value;
    }
    return list;
  });
}

/** What the next machine on demand cost this tenant at each step; null where it is the list price throughout, or not known at all. */
export function effectiveOf(history: SpotHistory, list: readonly (number | null)[]): (number | null)[] | null {
  const price = history.effective.price;
  const differs = price.some((v, i) => v !== null && Math.abs(v - (list[i] ?? -1)) > 1e-9);
  return differs ? [...price] : null;
}

/** The steps of a history: those of its lines, or of the effective price without a zone. */
function stepsOf(history: SpotHistory): number[] {
  return history.lines[0]?.at ?? history.effective.at;
}

function usePriceLines(history: SpotHistory | undefined): { at: number[]; lines: Line[]; own: boolean } {
  const { t } = useTranslation();
  const colors = useChartColors();
  return useMemo(() => {
    if (!history) return { at: [], lines: [], own: false };
    const at = stepsOf(history);
    const lines: Line[] = history.lines.map((line, i) => ({
      key: `${line.pool.region}/${line.pool.zone}`,
      name: zoneWords(line),
      values: line.mean,
      color: colorOf(i, colors),
    }));
    const list = onDemandOf(history);
    if (list.some((v) => v !== null)) {
      lines.push({ key: "on_demand", name: t("market.onDemandLine"), values: list, color: colors.axis, dashed: true });
    }
    const values = effectiveOf(history, list);
    if (values) {
      lines.push({ key: "effective", name: t("market.effectiveLine"), values, color: colors.danger, shape: "step" });
    }
    return { at, lines, own: values !== null };
  }, [history, colors, t]);
}

/** A zone by the name that prices are kept under, with the account's own name where that is another. */
function zoneWords(line: SpotLine): string {
  const zone = line.pool.zone || line.pool.region;
  return line.zoneName && line.zoneName !== zone ? `${zone} (${line.zoneName})` : zone;
}

function colorOf(index: number, colors: ChartColors): string {
  return colors.series[index % colors.series.length] ?? colors.muted;
}

function Figures({ market, history, span }: { market: SpotMarket; history: SpotHistory; span: Span }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { cloud, region, instanceType } = market;
  const filter = { cloud, region, instanceType };
  const stats = useQuery({ ...spotStatsQuery(filter, span.from, span.to), enabled: market.product === LINUX });
  const best = cheapestLine(history.lines);
  const pool = stats.data?.items.find((s) => s.pool.zone === best?.pool.zone);
  const gpus = market.machine?.gpuCount ?? 0;
  const price = best?.newest.price;
  return (
    <SimpleGrid cols={{ base: 2, lg: 4 }}>
      <Stat
        label={market.stale ? t("market.newest") : t("market.cheapestZone")}
        value={price ? t("common.perHour", { value: f.money(price, { style: "fine" }) }) : "–"}
        detail={
          best
            ? t("market.zoneSince", {
                zone: zoneWords(best),
                time: market.stale ? f.calendarDate(best.newest.at) : f.dateTime(best.newest.at),
              })
            : ""
        }
      />
      <Stat
        label={t("market.perGpu")}
        value={price && gpus > 0 ? f.money({ ...price, nano: price.nano / BigInt(gpus) }, { style: "fine" }) : "–"}
        detail={gpus > 0 ? `${f.integer(gpus)} × ${market.machine?.gpuModel}` : t("market.noGpus")}
      />
      <Stat
        label={t("market.discount")}
        hint={t("market.discountHint")}
        value={pool?.discount === null || !pool ? "–" : f.percent(pool.discount)}
        detail={pool?.level ? t("market.levelIs", { value: f.money(pool.level, { style: "fine" }) }) : ""}
      />
      <Stat
        label={t("market.jump")}
        hint={t("market.jumpHint")}
        value={pool?.jumpProbability === null || !pool ? "–" : f.percent(pool.jumpProbability)}
        detail={
          pool?.volatility === null || !pool ? "" : t("market.volatilityIs", { value: f.percent(pool.volatility) })
        }
      />
    </SimpleGrid>
  );
}

type Span = { from: Date; to: Date };

/** The price of one machine type in one region: a line per zone, and what to hold it against. */
export function SpotPrices({
  market,
  span,
  end,
  name,
  onExplain,
  onSelect,
}: {
  market: SpotMarket;
  span: Span;
  /** Where ranges end. */
  end: Date;
  name: string;
  onExplain: () => void;
  onSelect: (from: Date, to: Date) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const query = useQuery(spotHistoryQuery(market, span.from, span.to));
  const { own, ...chart } = usePriceLines(query.data);
  return (
    <Gate query={query} skeleton={<BlockSkeleton height={460} />}>
      {(history) => (
        <Stack gap="md">
          {market.stale && <StaleNote>{t("market.untilNote", { time: f.calendarDate(market.seenAt) })}</StaleNote>}
          <Figures market={market} history={history} span={span} />
          <Panel
            title={t("market.history")}
            hint={t("market.historyHint")}
            actions={
              <Group gap="md">
                {history.data && (
                  <Tooltip
                    label={t("market.untilSource", {
                      source: history.data.source || t("common.unknown"),
                      from: f.calendarDate(history.data.firstAt),
                      to: f.calendarDate(history.data.seenAt),
                    })}
                  >
                    <Badge color={market.stale ? "yellow" : "gray"} tabIndex={0}>
                      {market.stale
                        ? t("market.until", { time: f.calendarDate(history.data.seenAt) })
                        : history.data.source}
                    </Badge>
                  </Tooltip>
                )}
                <PastPicker span={span} first={history.data?.firstAt ?? null} last={end} onPick={onSelect} />
                <Button size="xs" variant="default" leftSection={<IconReceipt2 size={14} />} onClick={onExplain}>
                  {t("market.explain")}
                </Button>
              </Group>
            }
          >
            <Stack gap="sm">
              <Text size="sm" c="dimmed">
                {name} · {t("charts.step", { step: f.duration(history.stepSeconds) })}
              </Text>
              {history.lines.length === 0 && history.data && (
                <Text size="sm" c="orange" role="status">
                  {t("market.beyond", {
                    from: f.calendarDate(history.data.firstAt),
                    to: f.calendarDate(history.data.seenAt),
                  })}
                </Text>
              )}
              <Chart
                {...chart}
                from={history.from}
                to={history.to}
                height={300}
                format={(v) => f.price(v)}
                axisFormat={(v) => f.moneyAxis(v)}
                onSelect={onSelect}
                label={t("market.historyOf", { name })}
              />
              <Group justify="space-between" gap="sm">
                <Legend lines={chart.lines} />
                <Text size="xs" c="dimmed">
                  {t("range.hint")}
                </Text>
              </Group>
              {!own && chart.lines.length > 0 && (
                <Text size="xs" c="dimmed">
                  {history.effectiveProblem
                    ? t("market.effectiveNone", { problem: history.effectiveProblem })
                    : t("market.effectiveSame")}
                </Text>
              )}
            </Stack>
          </Panel>
        </Stack>
      )}
    </Gate>
  );
}
