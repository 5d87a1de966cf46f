/** One line, area or bar of a chart over time. `values` is as long as the chart's `at`; null is a gap. */
export interface Line {
  key: string;
  name: string;
  values: readonly (number | null)[];
  color: string;
  shape?: "line" | "step" | "area" | "bar";
  dashed?: boolean;
  stack?: string;
  /** Part of a band: not in the legend and the tooltip. The base carries the band and is not drawn, the fill is the band. */
  ghost?: "base" | "fill";
}

/** A decision shown in a chart. */
export interface Mark {
  id: string;
  at: number;
  value: number;
  up: boolean;
  label: string;
  /** Hollow: it was not carried out. */
  hollow: boolean;
}

export interface TimeChartProps {
  at: readonly number[];
  lines: readonly Line[];
  from: Date;
  to: Date;
  height?: number;
  /** Words of a value, for the axis and the tooltip. */
  format: (value: number) => string;
  axisFormat?: (value: number) => string;
  /** Charts of a group share the pointer. */
  group?: string;
  marks?: readonly Mark[];
  onMark?: (id: string) => void;
  /** Called with the range that was dragged over. */
  onSelect?: (from: Date, to: Date) => void;
  threshold?: { value: number; label: string };
  /** The axis goes at least this far up. */
  least?: number;
  most?: number;
  /** Values are counts: no ticks between whole numbers. */
  whole?: boolean;
  /** Adds the sum of all lines to the tooltip. */
  sum?: string;
  /** Points are UTC days: the axis and the tooltip name days, not times. */
  days?: boolean;
  label: string;
}
