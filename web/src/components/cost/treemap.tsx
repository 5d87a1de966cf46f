import { Text, UnstyledButton } from "@mantine/core";
import { useTranslation } from "react-i18next";

export interface Tile {
  key: string;
  name: string;
  value: number;
  text: string;
  color: string;
  onOpen?: () => void;
}

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

function worst(row: readonly number[], sum: number, side: number): number {
  const most = Math.max(...row);
  const least = Math.min(...row);
  return Math.max((side * side * most) / (sum * sum), (sum * sum) / (side * side * least));
}

/** Places areas (largest first, above zero) so that they fill the box and stay near to squares (Bruls, Huizing, van Wijk 2000). */
export function squarify(areas: readonly number[], box: Box): Box[] {
  const total = areas.reduce((a, b) => a + b, 0);
  const scale = total > 0 ? (box.w * box.h) / total : 0;
  const placed: Box[] = [];
  let free = box;
  let at = 0;
  while (at < areas.length) {
    const side = Math.min(free.w, free.h);
    let row = [(areas[at] ?? 0) * scale];
    let sum = row[0] ?? 0;
    let end = at + 1;
    for (; end < areas.length; end++) {
      const next = [...row, (areas[end] ?? 0) * scale];
      const nextSum = sum + (areas[end] ?? 0) * scale;
      if (worst(next, nextSum, side) > worst(row, sum, side)) break;
      row = next;
      sum = nextSum;
    }
    const wide = free.w >= free.h;
    const depth = side > 0 ? sum / side : 0;
    let along = 0;
    for (const area of row) {
      const length = depth > 0 ? area / depth : 0;
      placed.push(
        wide
          ? { x: free.x, y: free.y + along, w: depth, h: length }
          : { x: free.x + along, y: free.y, w: length, h: depth },
      );
      along += length;
    }
    free = wide
      ? { x: free.x + depth, y: free.y, w: Math.max(free.w - depth, 0), h: free.h }
      : { x: free.x, y: free.y + depth, w: free.w, h: Math.max(free.h - depth, 0) };
    at = end;
  }
  return placed;
}

const MOST = 120;

/** Areas in proportion to cost; a click leads down. */
export function Treemap({ tiles, label, height = 320 }: { tiles: readonly Tile[]; label: string; height?: number }) {
  const { t } = useTranslation();
  const shown = tiles
    .filter((tile) => tile.value > 0)
    .sort((a, b) => b.value - a.value)
    .slice(0, MOST);
  const boxes = squarify(
    shown.map((tile) => tile.value),
    { x: 0, y: 0, w: 300, h: 100 },
  );
  if (shown.length === 0) return <Text c="dimmed">{t("charts.empty")}</Text>;
  return (
    <div role="img" aria-label={label} data-treemap style={{ position: "relative", height }}>
      {shown.map((tile, i) => {
        const box = boxes[i];
        if (!box) return null;
        const roomy = box.w > 22 && box.h > 9;
        return (
          <UnstyledButton
            key={tile.key}
            title={`${tile.name}: ${tile.text}`}
            aria-label={`${tile.name}: ${tile.text}`}
            disabled={!tile.onOpen}
            onClick={tile.onOpen}
            style={{
              position: "absolute",
              left: `${box.x / 3}%`,
              top: `${box.y}%`,
              width: `${box.w / 3}%`,
              height: `${box.h}%`,
              padding: 6,
              overflow: "hidden",
              background: `color-mix(in srgb, ${tile.color} 78%, var(--mantine-color-body))`,
              border: "1px solid var(--mantine-color-body)",
              cursor: tile.onOpen ? "zoom-in" : "default",
              color: "var(--mantine-color-text)",
              display: "block",
              containerType: "inline-size",
              textAlign: "left",
              textShadow: "0 0 4px var(--mantine-color-body)",
            }}
          >
            {roomy && (
              <div className="tile-text">
                <Text size="xs" fw={600} truncate>
                  {tile.name}
                </Text>
                <Text size="xs" className="number" truncate>
                  {tile.text}
                </Text>
              </div>
            )}
          </UnstyledButton>
        );
      })}
    </div>
  );
}
