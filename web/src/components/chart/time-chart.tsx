import type { EChartsCoreOption } from "echarts/core";
import { useEffect, useMemo, useRef } from "react";
import { useFormat } from "../../lib/format";
import { roundUp } from "../../lib/scale";
import { timeTicks } from "../../lib/time";
import { type ChartColors, useChartColors } from "./colors";
import { connect, escapeHtml, getInstanceByDom, init } from "./engine";
import type { Line, Mark, TimeChartProps } from "./model";

const LEFT = 58;
const RIGHT = 14;
const NOON = 43_200_000;

/** A canvas cannot inherit its font, so it is told the page's. */
const FONT = getComputedStyle(document.body).fontFamily || "sans-serif";

/** The highest value of each line, or of each stack of lines. */
function stackTops(lines: readonly Line[]): number[] {
  const sums = new Map<string, number[]>();
  for (const line of lines) {
    const key = line.stack ?? line.key;
    const sum = sums.get(key) ?? [];
    line.values.forEach((v, i) => {
      sum[i] = (sum[i] ?? 0) + (v ?? 0);
    });
    sums.set(key, sum);
  }
  return [...sums.values()].map((sum) => sum.reduce((a, b) => Math.max(a, b), 0));
}

function seriesOf(line: Line, at: readonly number[], few: boolean): Record<string, unknown> {
  const data = at.map((t, i) => [t, line.values[i] ?? null]);
  // A value between two gaps has no line to lie on: it is shown as a point.
  const known = (i: number) => line.values[i] !== null && line.values[i] !== undefined;
  const alone = (i: number) => known(i) && !known(i - 1) && !known(i + 1);
  const dotted = few ? data : data.map((value, i) => ({ value, symbol: alone(i) ? "circle" : "none" }));
  if (line.ghost) {
    return {
      id: line.key,
      type: "line",
      stack: line.stack,
      stackStrategy: "all",
      data,
      symbol: "none",
      connectNulls: false,
      silent: true,
      lineStyle: { width: 0, color: line.color },
      areaStyle: line.ghost === "fill" ? { color: line.color, opacity: 0.18 } : undefined,
      emphasis: { disabled: true },
    };
  }
  if (line.shape === "bar") {
    return {
      id: line.key,
      name: line.name,
      type: "bar",
      stack: line.stack,
      data,
      itemStyle: { color: line.color },
      barMaxWidth: 36,
      barCategoryGap: "22%",
      emphasis: { disabled: true },
    };
  }
  return {
    id: line.key,
    name: line.name,
    type: "line",
    stack: line.stack,
    data: dotted,
    step: line.shape === "step" ? "end" : false,
    showSymbol: true,
    showAllSymbol: true,
    symbol: "circle",
    symbolSize: 5,
    connectNulls: false,
    itemStyle: { color: line.color },
    lineStyle: { width: line.shape === "area" ? 1.2 : 1.8, color: line.color, type: line.dashed ? [5, 4] : "solid" },
    areaStyle: line.shape === "area" ? { color: line.color, opacity: line.stack ? 0.75 : 0.14 } : undefined,
    emphasis: { disabled: true },
  };
}

function marksOf(marks: readonly Mark[], colors: ChartColors): Record<string, unknown> {
  return {
    id: "marks",
    type: "scatter",
    z: 5,
    cursor: "pointer",
    data: marks.map((m) => ({
      value: [m.at, m.value],
      id: m.id,
      name: m.label,
      symbol: "triangle",
      symbolRotate: m.up ? 0 : 180,
      symbolSize: 11,
      itemStyle: {
        color: m.hollow ? colors.panel : m.up ? colors.up : colors.down,
        borderColor: m.hollow ? (m.up ? colors.up : colors.down) : colors.panel,
        borderWidth: m.hollow ? 1.6 : 1,
      },
    })),
    tooltip: { show: false },
  };
}

/** Lines, areas or bars over time, in the tenant's zone. Dragging selects a range; marks can be clicked. */
export default function TimeChart(props: TimeChartProps) {
  const {
    at,
    lines,
    from,
    to,
    height = 180,
    format,
    axisFormat,
    group,
    marks,
    threshold,
    least,
    most,
    whole,
    sum,
    days,
    label,
  } = props;
  const f = useFormat();
  const colors = useChartColors();
  const box = useRef<HTMLDivElement>(null);
  const selection = useRef<HTMLDivElement>(null);
  const handlers = useRef(props);
  handlers.current = props;
  const range = useRef({ from: 0, to: 0 });
  range.current = { from: from.getTime(), to: to.getTime() };
  const ticksFor = useRef<(width: number) => number[]>(() => []);
  ticksFor.current = (width) =>
    timeTicks(from, to, days ? "UTC" : f.zone, Math.max(2, Math.floor((width - LEFT - RIGHT) / 84))).map(
      (d) => d.getTime() + (days ? NOON : 0),
    );

  const option = useMemo((): EChartsCoreOption => {
    const named = new Map(lines.map((l) => [l.key, l]));
    const tooltip = (params: unknown): string => {
      const items = (Array.isArray(params) ? params : [params]) as {
        seriesId: string;
        axisValue: number;
        value: [number, number | null];
      }[];
      const first = items[0];
      if (!first) return "";
      let total = 0;
      const rows = items.flatMap((item) => {
        const line = named.get(item.seriesId);
        const value = item.value[1];
        if (!line || line.ghost || value === null || value === undefined) return [];
        total += value;
        const swatch = `<span style="display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:7px;background:${line.color}"></span>`;
        return [
          `<div style="display:flex;justify-content:space-between;gap:22px"><span>${swatch}${escapeHtml(line.name)}</span><b style="font-weight:600;font-variant-numeric:tabular-nums">${escapeHtml(format(value))}</b></div>`,
        ];
      });
      if (sum && rows.length > 1) {
        rows.push(
          `<div style="display:flex;justify-content:space-between;gap:22px;border-top:1px solid ${colors.border};margin-top:4px;padding-top:4px"><span>${escapeHtml(sum)}</span><b style="font-weight:600">${escapeHtml(format(total))}</b></div>`,
        );
      }
      const head = `<div style="color:${colors.axis};margin-bottom:4px">${escapeHtml(days ? f.calendarDay(new Date(first.axisValue)) : f.dateTime(new Date(first.axisValue)))}</div>`;
      return head + rows.join("");
    };
    const highest = Math.max(0, ...stackTops(lines));
    const wanted = Math.max(least ?? 0, threshold ? threshold.value * 1.15 : 0);
    // Where something must be seen that lies above the data, the axis is told its end; else it finds a round one by itself.
    const top = most !== undefined && highest <= most ? most : wanted > highest ? roundUp(wanted) : undefined;
    const font = { color: colors.axis, fontSize: 11.5, fontFamily: FONT };
    const series: Record<string, unknown>[] = lines.map((l) => seriesOf(l, at, at.length < 3));
    if (threshold && series[0]) {
      series[0].markLine = {
        silent: true,
        symbol: "none",
        lineStyle: { color: colors.danger, type: [4, 4], width: 1.2 },
        label: {
          formatter: threshold.label,
          position: "insideEndTop",
          color: colors.danger,
          fontSize: 11,
          fontFamily: FONT,
        },
        data: [{ yAxis: threshold.value }],
      };
    }
    if (marks?.length) series.push(marksOf(marks, colors));
    return {
      animation: false,
      backgroundColor: "transparent",
      textStyle: { fontFamily: FONT },
      grid: { left: LEFT, right: RIGHT, top: 12, bottom: 26 },
      tooltip: {
        trigger: "axis",
        confine: true,
        backgroundColor: colors.panel,
        borderColor: colors.border,
        padding: [8, 11],
        textStyle: { color: colors.text, fontSize: 12.5 },
        extraCssText: "box-shadow:0 4px 14px rgba(0,0,0,.12);border-radius:8px",
        formatter: tooltip,
        axisPointer: { type: "line", lineStyle: { color: colors.axis, width: 1, type: "solid", opacity: 0.5 } },
      },
      xAxis: {
        type: "time",
        min: from.getTime(),
        max: to.getTime(),
        axisLine: { lineStyle: { color: colors.border } },
        axisTick: { show: true, lineStyle: { color: colors.border } },
        axisLabel: {
          ...font,
          formatter: (v: number) => (days ? f.calendarDay(new Date(v)) : f.tick(new Date(v))),
          hideOverlap: true,
        },
        splitLine: { show: false },
      },
      yAxis: {
        type: "value",
        min: 0,
        max: top,
        interval: top !== undefined && top === most ? top / (height < 140 ? 2 : 4) : undefined,
        minInterval: whole ? 1 : undefined,
        splitNumber: height < 140 ? 2 : 4,
        axisLabel: { ...font, formatter: axisFormat ?? format },
        splitLine: { lineStyle: { color: colors.split } },
      },
      series,
    };
  }, [at, lines, from, to, format, axisFormat, marks, threshold, least, most, whole, sum, days, colors, f, height]);

  // The chart is made once and lives until the element goes.
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const chart = init(element);
    if (group) {
      chart.group = group;
      connect(group);
    }
    const place = () => {
      const values = ticksFor.current(element.clientWidth);
      chart.setOption({ xAxis: { axisLabel: { customValues: values }, axisTick: { customValues: values } } });
    };
    const observer = new ResizeObserver(() => {
      chart.resize();
      place();
    });
    observer.observe(element);
    chart.on("click", (event) => {
      const data = event.data as { id?: string } | undefined;
      if (event.seriesId === "marks" && data?.id) handlers.current.onMark?.(data.id);
    });

    const moment = (x: number) => {
      const width = element.clientWidth - LEFT - RIGHT;
      const share = Math.min(1, Math.max(0, (x - LEFT) / width));
      return range.current.from + share * (range.current.to - range.current.from);
    };
    let start: number | null = null;
    const at = (event: PointerEvent) => event.clientX - element.getBoundingClientRect().left;
    const clamp = (x: number) => Math.min(element.clientWidth - RIGHT, Math.max(LEFT, x));
    const down = (event: PointerEvent) => {
      if (event.button === 0 && handlers.current.onSelect && at(event) >= LEFT) start = at(event);
    };
    const move = (event: PointerEvent) => {
      const overlay = selection.current;
      if (start === null || !overlay) return;
      const [a, b] = [clamp(start), clamp(at(event))];
      const wide = Math.abs(b - a) > 6;
      overlay.style.display = wide ? "block" : "none";
      overlay.style.left = `${Math.min(a, b)}px`;
      overlay.style.width = `${Math.abs(b - a)}px`;
    };
    const up = (event: PointerEvent) => {
      const from = start;
      start = null;
      if (selection.current) selection.current.style.display = "none";
      if (from === null || Math.abs(at(event) - from) <= 6) return;
      const [a, b] = [moment(from), moment(at(event))].sort((x, y) => x - y);
      if (a !== undefined && b !== undefined && b - a > 60_000) handlers.current.onSelect?.(new Date(a), new Date(b));
    };
    element.addEventListener("pointerdown", down);
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
    return () => {
      observer.disconnect();
      element.removeEventListener("pointerdown", down);
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", up);
      chart.dispose();
    };
  }, [group]);

  useEffect(() => {
    const element = box.current;
    const chart = element && getInstanceByDom(element);
    if (!chart) return;
    chart.setOption(option, { notMerge: true });
    const values = ticksFor.current(element.clientWidth);
    chart.setOption({ xAxis: { axisLabel: { customValues: values }, axisTick: { customValues: values } } });
  }, [option]);

  return (
    <div className="chart-frame" style={{ height }}>
      <div ref={box} role="img" aria-label={label} data-chart style={{ height, width: "100%" }} />
      <div ref={selection} className="chart-selection" style={{ top: 12, bottom: 26 }} />
    </div>
  );
}
