import { Group, Skeleton, Text } from "@mantine/core";
import { lazy, Suspense } from "react";
import { useTranslation } from "react-i18next";
import type { Line, TimeChartProps } from "./model";

const Engine = lazy(() => import("./time-chart"));

export function Legend({ lines }: { lines: readonly Pick<Line, "key" | "name" | "color" | "dashed" | "ghost">[] }) {
  return (
    <Group gap="md" style={{ rowGap: 4 }}>
      {lines
        .filter((line) => !line.ghost)
        .map((line) => (
          <Group key={line.key} gap={6} wrap="nowrap">
            <span
              aria-hidden
              style={{
                width: 12,
                height: line.dashed ? 0 : 3,
                borderTop: line.dashed ? `2px dashed ${line.color}` : undefined,
                borderRadius: 2,
                background: line.dashed ? undefined : line.color,
              }}
            />
            <Text size="xs" c="dimmed" truncate maw={220}>
              {line.name}
            </Text>
          </Group>
        ))}
    </Group>
  );
}

/** A chart with its loading and empty states; its height never changes. */
export function Chart(props: TimeChartProps) {
  const { t } = useTranslation();
  const height = props.height ?? 180;
  const empty = props.lines.every((line) => line.values.every((v) => v === null));
  if (empty) {
    return (
      <Group h={height} justify="center" role="img" aria-label={props.label}>
        <Text size="sm" c="dimmed">
          {t("charts.empty")}
        </Text>
      </Group>
    );
  }
  return (
    <Suspense fallback={<Skeleton height={height} radius="md" />}>
      <Engine {...props} />
    </Suspense>
  );
}

/** A line without axes, drawn by hand: too small to need an engine. */
export function Spark({ values, label, height = 40 }: { values: readonly number[]; label: string; height?: number }) {
  const most = Math.max(...values, 0);
  if (values.length < 2 || most === 0) return <div style={{ height }} />;
  const points = values.map((v, i) => `${(i / (values.length - 1)) * 100},${(1 - v / most) * 92 + 4}`);
  return (
    <svg width="100%" height={height} viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={label}>
      <polygon points={`0,100 ${points.join(" ")} 100,100`} fill="var(--mantine-primary-color-filled)" opacity="0.1" />
      <polyline
        points={points.join(" ")}
        fill="none"
        stroke="var(--mantine-primary-color-filled)"
        strokeWidth="1.8"
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}
