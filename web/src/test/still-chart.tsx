import type { TimeChartProps } from "../components/chart/model";

/** Stands in for the chart engine in tests. */
export function StillChart({ label, lines, marks, onMark }: TimeChartProps) {
  return (
    <div role="img" aria-label={label} data-lines={lines.map((l) => l.name).join("|")}>
      {marks?.map((m) => (
        <button key={`${m.id}${m.at}`} type="button" onClick={() => onMark?.(m.id)}>
          {m.label}
        </button>
      ))}
    </div>
  );
}
