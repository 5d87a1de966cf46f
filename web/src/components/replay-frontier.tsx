import { Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { ReplayRow } from "../api/replays";
import { useFormat } from "../lib/format";
import { roundUp } from "../lib/scale";
import { useChartColors } from "./chart/colors";

const W = 640;
const H = 300;
const LEFT = 52;
const RIGHT = 96;
const TOP = 16;
const BOTTOM = 44;
const TICKS = [0, 0.25, 0.5, 0.75, 1];

/** What each policy costs against how many requests it leaves late: nearer to the lower left corner is better. */
export function Frontier({ rows, bounded }: { rows: readonly ReplayRow[]; bounded: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const played = rows.flatMap((r) => {
    const x = bounded ? r.ratio : r.paid;
    return x !== null && r.late !== null ? [{ row: r, x, y: r.late }] : [];
  });
  if (played.length === 0) {
    return (
      <Group h={H} justify="center">
        <Text size="sm" c="dimmed">
          {t("replay.nothingPlayed")}
        </Text>
      </Group>
    );
  }
  const low = bounded ? 1 : 0;
  const far = Math.max(roundUp(Math.max(...played.map((p) => p.x)) - low), 0.1);
  const high = Math.max(roundUp(Math.max(...played.map((p) => p.y))), 0.005);
  const px = (x: number) => LEFT + ((x - low) / far) * (W - LEFT - RIGHT);
  const py = (y: number) => H - BOTTOM - (y / high) * (H - TOP - BOTTOM);
  const colorOf = (kind: ReplayRow["kind"]) =>
    kind === "proposed" ? colors.series[0] : kind === "current" ? colors.series[1] : colors.axis;
  // Labels of points that lie close together are moved apart from top to bottom.
  const placed: { x: number; y: number }[] = [];
  const labels = [...played]
    .sort((a, b) => py(a.y) - py(b.y))
    .map((p) => {
      const x = px(p.x);
      let y = py(p.y);
      while (placed.some((q) => Math.abs(q.y - y) < 14 && Math.abs(q.x - x) < 110)) y -= 14;
      placed.push({ x, y });
      return { ...p, px: x, py: py(p.y), label: y };
    });
  return (
    <svg viewBox={`0 0 ${W} ${H}`} width="100%" height={300} role="img" aria-label={t("replay.frontier")} data-frontier>
      {TICKS.map((k) => (
        <g key={k}>
          <line x1={LEFT} x2={W - RIGHT} y1={py(k * high)} y2={py(k * high)} stroke={colors.split} />
          <text x={LEFT - 8} y={py(k * high) + 4} fontSize={11} textAnchor="end" fill={colors.axis}>
            {f.percent(k * high, 2)}
          </text>
          <text x={px(low + k * far)} y={H - BOTTOM + 18} fontSize={11} textAnchor="middle" fill={colors.axis}>
            {f.number(low + k * far)}
          </text>
        </g>
      ))}
      <text x={(LEFT + W - RIGHT) / 2} y={H - 6} fontSize={12} textAnchor="middle" fill={colors.axis}>
        {bounded ? t("replay.axisRatio") : t("replay.axisHours")}
      </text>
      {bounded && (
        <line x1={px(1)} x2={px(1)} y1={TOP} y2={H - BOTTOM} stroke={colors.up} strokeDasharray="4 4">
          <title>{t("replay.bound")}</title>
        </line>
      )}
      {labels.map((p) => (
        <g key={`${p.row.kind}-${p.row.policy}`}>
          <circle cx={p.px} cy={p.py} r={p.row.kind === "baseline" ? 5 : 7} fill={colorOf(p.row.kind)}>
            <title>{`${p.row.policy}: ${f.number(p.x)}, ${f.percent(p.y, 2)}`}</title>
          </circle>
          <text x={p.px + 11} y={p.label + 4} fontSize={12} fill={colors.text}>
            {p.row.kind === "proposed" ? t("replay.proposed") : p.row.policy}
          </text>
        </g>
      ))}
    </svg>
  );
}
