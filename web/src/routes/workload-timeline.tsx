import { Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useCallback, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { costSeriesQuery } from "../api/cost";
import { type Forecast, forecastQuery } from "../api/forecast";
import { policyQuery } from "../api/policies";
import { type Timeline, timelineQuery, type Workload } from "../api/workloads";
import { Chart, Legend } from "../components/chart/chart";
import { useChartColors } from "../components/chart/colors";
import type { Line, Mark } from "../components/chart/model";
import { ForecastPanel } from "../components/forecast-panel";
import { Panel } from "../components/page";
import { RangePicker } from "../components/range-picker";
import { BlockSkeleton, Gate } from "../components/state";
import { bandColumn, timesAhead } from "../lib/band";
import { useFormat } from "../lib/format";
import { moneyNumber } from "../lib/money";
import { latencyTarget } from "../lib/policy";
import { useMe } from "./me";
import { RANGES, type Range } from "./search";

const FROM = "/signed-in/workloads/$id";
const HOUR = 3_600_000;
const SPAN: Record<Range, number> = { h1: HOUR, h6: 6 * HOUR, h24: 24 * HOUR, d7: 168 * HOUR, d14: 336 * HOUR };
const GROUP = "workload";

/** The range in the URL: a zoom, else a span that ends at the newest data, in whole steps so that it does not move with every event. */
function useRange(end: Date): { range: Range; from: Date; to: Date; zoomed: boolean } {
  const search = useSearch({ from: FROM });
  const range = search.range ?? "h6";
  const step = range === "h1" ? 60_000 : 5 * 60_000;
  const last = Math.ceil(end.getTime() / step) * step;
  return useMemo(() => {
    if (search.from && search.to && search.from < search.to) {
      return { range, from: new Date(search.from), to: new Date(search.to), zoomed: true };
    }
    return { range, from: new Date(last - SPAN[range]), to: new Date(last), zoomed: false };
  }, [search.from, search.to, range, last]);
}

interface ChartSpec {
  key: string;
  title: string;
  lines: Line[];
  format: (value: number) => string;
  axisFormat?: (value: number) => string;
  whole?: boolean;
  most?: number;
  threshold?: { value: number; label: string };
}

function Charts({
  workload,
  timeline,
  forecast,
  from,
  to,
  onSelect,
  children,
}: {
  workload: Workload;
  timeline: Timeline;
  forecast: Forecast | undefined;
  /** Stands below the replicas. */
  children?: ReactNode;
  from: Date;
  to: Date;
  onSelect: (from: Date, to: Date) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const navigate = useNavigate();
  const policy = useQuery(policyQuery(workload.id));
  const slo = policy.data ? latencyTarget(policy.data.document) : null;
  const { columns } = timeline;
  const has = useCallback((name: keyof Timeline["columns"]) => columns[name].some((v) => v !== null), [columns]);
  const c = useCallback((i: number) => colors.series[i] ?? "", [colors]);

  const marks = useMemo<Mark[]>(
    () =>
      timeline.decisions.map((d) => ({
        id: d.id,
        at: d.at.getTime(),
        value: d.target,
        up: d.outcome === "scale_up",
        label: t("charts.mark", { outcome: t(`outcome.${d.outcome}`), from: d.from, to: d.target }),
        hollow: d.state !== "applied" && d.state !== "dispatched",
      })),
    [timeline.decisions, t],
  );

  const specs = useMemo<ChartSpec[]>(() => {
    const line = (key: keyof Timeline["columns"], name: string, color: string, extra: Partial<Line> = {}): Line => ({
      key,
      name,
      color,
      values: columns[key],
      ...extra,
    });
    const only = (...lines: Line[]) => lines.filter((l) => l.values.some((v) => v !== null));
    const threshold = (signal: string) =>
      slo?.signal === signal
        ? { value: slo.seconds, label: t("charts.slo", { value: f.latency(slo.seconds) }) }
        : undefined;
    const out: ChartSpec[] = [];
    if (has("requestRate")) {
      out.push({
        key: "rate",
        title: t("charts.requestRate"),
        lines: only(line("requestRate", t("charts.requestRate"), c(0), { shape: "area" })),
        format: f.number,
      });
    }
    if (has("queueLength") || has("runningRequests")) {
      out.push({
        key: "queue",
        title: t("charts.demand"),
        lines: only(line("queueLength", t("charts.queue"), c(1)), line("runningRequests", t("charts.running"), c(0))),
        format: f.number,
      });
    }
    if (has("latencyP99") || has("ttftP99")) {
      out.push({
        key: "latency",
        title: t("charts.latency"),
        lines: only(
          line("latencyP99", t("charts.p99"), c(2)),
          line("latencyP50", t("charts.p50"), c(5)),
          line("ttftP99", t("charts.ttft"), c(4)),
        ),
        format: f.latency,
        axisFormat: (v) => (v === 0 ? "0" : f.latency(v)),
        threshold: threshold("ttft_p99_seconds") ?? threshold("latency_p99_seconds"),
      });
    }
    if (has("gpuSmActive") || has("cpuRatio")) {
      out.push({
        key: "use",
        title: t("charts.use"),
        lines: only(
          line("gpuSmActive", t("charts.gpu"), c(3)),
          line("kvCache", t("charts.kvCache"), c(6)),
          line("cpuRatio", t("charts.cpu"), c(7)),
        ),
        format: (v) => f.percent(v),
        most: 1,
      });
    }
    if (has("lateRatio") || has("errorRatio")) {
      out.push({
        key: "quality",
        title: t("charts.quality"),
        lines: only(
          line("lateRatio", t("charts.late"), c(1), { shape: "area" }),
          line("errorRatio", t("charts.errors"), colors.danger),
        ),
        format: (v) => f.percent(v),
        most: 0.01,
      });
    }
    return out;
  }, [columns, has, c, colors, f, t, slo]);

  const band = forecast?.band;
  const sizes = useMemo<{ at: number[]; lines: Line[] }>(() => {
    const ahead = band ? timesAhead(band, timeline.at).filter((time) => time <= to.getTime()) : [];
    const at = [...timeline.at, ...ahead];
    const none = ahead.map(() => null);
    const lines: Line[] = [
      { key: "ready", name: t("charts.ready"), color: c(0), values: [...columns.ready, ...none], shape: "area" },
      {
        key: "replicas",
        name: t("charts.desired"),
        color: c(1),
        values: [...columns.replicas, ...none],
        shape: "step",
      },
    ];
    if (band?.length) {
      const column = (key: "middle" | "upper" | "demand" | "hpa") => bandColumn(band, at, key);
      const [middle, upper] = [column("middle"), column("upper")];
      const between = upper.map((u, i) => (u === null ? null : u - (middle[i] ?? u)));
      lines.push(
        { key: "bandBase", name: "", color: c(4), values: middle, stack: "band", ghost: "base" },
        { key: "bandFill", name: "", color: c(4), values: between, stack: "band", ghost: "fill" },
        { key: "upper", name: t("charts.planned"), color: c(4), values: upper },
        { key: "middle", name: t("charts.expected"), color: c(4), values: middle, dashed: true },
        { key: "demand", name: t("charts.inUse"), color: c(3), values: column("demand") },
        { key: "hpa", name: t("charts.hpa"), color: c(7), values: column("hpa"), dashed: true, shape: "step" },
      );
    }
    return { at, lines };
  }, [timeline.at, columns, band, to, c, t]);
  const open = useCallback((id: string) => void navigate({ to: "/decisions/$id", params: { id } }), [navigate]);

  return (
    <Stack gap="md">
      <Panel title={t("charts.replicas")} actions={<Legend lines={sizes.lines} />}>
        <Chart
          at={sizes.at}
          lines={sizes.lines}
          from={from}
          to={to}
          height={band?.length ? 280 : 220}
          format={f.number}
          whole
          group={GROUP}
          marks={marks}
          onMark={open}
          onSelect={onSelect}
          label={t("charts.summary", { title: t("charts.replicas"), value: f.integer(workload.replicas) })}
        />
        <Text size="xs" c="dimmed" mt={4}>
          {t("charts.marks")} {t("range.hint")} {t("charts.step", { step: f.duration(timeline.stepSeconds) })}
        </Text>
      </Panel>
      {children}
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        {specs.map(({ key, title, lines, ...rest }) => (
          <Panel key={key} title={title} actions={lines.length > 1 && <Legend lines={lines} />}>
            <Chart
              {...rest}
              at={timeline.at}
              lines={lines}
              from={from}
              to={to}
              height={170}
              group={GROUP}
              onSelect={onSelect}
              label={title}
            />
          </Panel>
        ))}
        <CostChart workload={workload} from={from} to={to} onSelect={onSelect} />
      </SimpleGrid>
    </Stack>
  );
}

function CostChart({
  workload,
  from,
  to,
  onSelect,
}: {
  workload: Workload;
  from: Date;
  to: Date;
  onSelect: (from: Date, to: Date) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const query = useQuery(
    costSeriesQuery({ from, to, aggregate: "workload", idle: "separate", workload: workload.id }, "hour"),
  );
  const chart = useMemo(() => {
    const points = query.data?.find((s) => s.key === workload.id)?.points ?? [];
    return {
      at: points.map((p) => p.at.getTime() + HOUR / 2),
      lines: [
        {
          key: "cost",
          name: t("charts.cost"),
          color: colors.series[3] ?? "",
          shape: "bar" as const,
          values: points.map((p) => moneyNumber(p.amount)),
        },
      ],
    };
  }, [query.data, workload.id, colors, t]);
  return (
    <Panel title={t("charts.cost")}>
      <Gate query={query} skeleton={<BlockSkeleton height={170} />}>
        {() => (
          <Chart
            {...chart}
            from={from}
            to={to}
            height={170}
            format={f.moneyAxis}
            group={GROUP}
            onSelect={onSelect}
            label={t("charts.cost")}
          />
        )}
      </Gate>
    </Panel>
  );
}

export function TimelineTab({ workload }: { workload: Workload }) {
  const me = useMe();
  const navigate = useNavigate();
  const end = workload.dataAt ?? me.dataNow;
  const { range, from, to, zoomed } = useRange(end);
  const query = useQuery(timelineQuery(workload.id, from, to));
  const { id } = workload;
  const forecast = useQuery(forecastQuery(id, from, to));
  // What is expected lies ahead of the newest data: the charts reach as far, unless a range was chosen.
  const last = forecast.data?.band.at(-1)?.at ?? 0;
  const reach = useMemo(() => (zoomed || last <= to.getTime() ? to : new Date(last)), [zoomed, last, to]);
  const zoom = useCallback(
    (a: Date, b: Date) =>
      void navigate({
        to: "/workloads/$id",
        params: { id },
        search: { range, from: a.toISOString(), to: b.toISOString() },
        resetScroll: false,
      }),
    [navigate, id, range],
  );
  return (
    <Stack gap="md">
      <Group justify="flex-end">
        <RangePicker
          options={RANGES}
          value={range}
          zoom={zoomed ? { from, to } : undefined}
          onPick={(next) =>
            void navigate({ to: "/workloads/$id", params: { id }, search: { range: next }, resetScroll: false })
          }
        />
      </Group>
      <Gate
        query={query}
        skeleton={
          <Stack>
            <BlockSkeleton height={300} />
            <SimpleGrid cols={{ base: 1, lg: 2 }}>
              <BlockSkeleton height={240} />
              <BlockSkeleton height={240} />
            </SimpleGrid>
          </Stack>
        }
      >
        {(timeline) => (
          <Charts
            workload={workload}
            timeline={timeline}
            forecast={forecast.data}
            from={from}
            to={reach}
            onSelect={zoom}
          >
            <ForecastPanel query={forecast} dataAt={workload.dataAt} />
          </Charts>
        )}
      </Gate>
    </Stack>
  );
}
