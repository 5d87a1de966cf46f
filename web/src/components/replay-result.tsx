import { Alert, Badge, Grid, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { ReplayResult, ReplayRow } from "../api/replays";
import { useFormat } from "../lib/format";
import { Chart, Legend } from "./chart/chart";
import { useChartColors } from "./chart/colors";
import type { Line } from "./chart/model";
import { Panel, Stat } from "./page";
import { Frontier } from "./replay-frontier";
import { type Column, DataTable } from "./table";

const KIND_COLOR = { proposed: "cyan", current: "orange", baseline: "gray" } as const;

/** Everything that a replay found: figures, frontier, scorecard, timeline. */
export function ReplayFound({ result }: { result: ReplayResult }) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const dash = (v: number | null, words: (v: number) => string) => (v === null ? "–" : words(v));
  const columns: Column<ReplayRow>[] = [
    {
      key: "policy",
      header: t("replay.policy"),
      render: (r) => (
        <Stack gap={2}>
          <Group gap={8} wrap="nowrap">
            <Text size="sm" fw={r.kind === "baseline" ? 400 : 600}>
              {r.kind === "proposed" ? t("replay.proposed") : r.policy}
            </Text>
            <Badge size="xs" variant="light" color={KIND_COLOR[r.kind]}>
              {t(`replay.kinds.${r.kind}`)}
            </Badge>
          </Group>
          {r.problem && (
            <Text size="xs" c="red">
              {r.problem}
            </Text>
          )}
          {r.assumed.length > 0 && (
            <Text size="xs" c="dimmed">
              {t("replay.assumed", { signals: r.assumed.join(", ") })}
            </Text>
          )}
        </Stack>
      ),
    },
    {
      key: "ratio",
      header: t("replay.ratio"),
      align: "right",
      sort: (r) => r.ratio,
      render: (r) => dash(r.ratio, f.number),
    },
    {
      key: "cost",
      header: t("replay.cost"),
      align: "right",
      sort: (r) => r.paid,
      render: (r) => (r.cost ? f.money(r.cost) : dash(r.paid, (v) => t("replay.hours", { hours: f.number(v) }))),
    },
    {
      key: "late",
      header: t("replay.late"),
      align: "right",
      sort: (r) => r.late,
      render: (r) => dash(r.late, (v) => f.percent(v, 2)),
    },
    {
      key: "timeouts",
      header: t("replay.timeouts"),
      align: "right",
      sort: (r) => r.timeouts,
      render: (r) => dash(r.timeouts, (v) => f.percent(v, 3)),
    },
    {
      key: "thrash",
      header: t("replay.thrash"),
      align: "right",
      sort: (r) => r.thrash,
      render: (r) => dash(r.thrash, f.number),
    },
    {
      key: "use",
      header: t("replay.use"),
      align: "right",
      sort: (r) => r.utilisation,
      render: (r) => dash(r.utilisation, (v) => f.percent(v, 0)),
    },
    {
      key: "most",
      header: t("replay.most"),
      align: "right",
      sort: (r) => r.most,
      render: (r) => dash(r.most, f.integer),
    },
  ];
  const lines: Line[] = [
    {
      key: "demand",
      name: t("replay.demand"),
      values: result.points.map((p) => (p.known > 0 ? p.demand : null)),
      color: colors.axis,
      shape: "area",
    },
    {
      key: "current",
      name: t("replay.currentReady"),
      values: result.points.map((p) => p.current),
      color: colors.series[1] ?? colors.axis,
      dashed: true,
    },
    {
      key: "proposed",
      name: t("replay.proposedReady"),
      values: result.points.map((p) => p.proposed),
      color: colors.series[0] ?? colors.axis,
    },
  ].filter((line) => line.key !== "current" || result.points.some((p) => p.current !== null)) as Line[];
  const proposed = result.rows.find((r) => r.kind === "proposed");
  const current = result.rows.find((r) => r.kind === "current");
  const saving = proposed?.paid && current?.paid ? proposed.paid / current.paid - 1 : null;
  return (
    <Stack gap="md">
      {result.covered < 0.999 && (
        <Alert color="yellow" variant="light" role="note">
          {t("replay.gaps", { share: f.percent(result.covered, 1), gap: f.duration(result.longestGapSeconds) })}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 2, md: 4 }}>
        <Stat
          label={t("replay.proposedCost")}
          value={proposed?.ratio ? f.number(proposed.ratio) : dash(proposed?.paid ?? null, f.number)}
          detail={
            saving === null
              ? t("replay.noCurrent")
              : t("replay.against", { change: `${saving > 0 ? "+" : ""}${f.percent(saving, 1)}` })
          }
        />
        <Stat
          label={t("replay.late")}
          value={dash(proposed?.late ?? null, (v) => f.percent(v, 2))}
          detail={t("replay.lateText")}
        />
        <Stat
          label={t("replay.bound")}
          hint={t("replay.boundHint")}
          value={result.boundCost ? f.money(result.boundCost) : dash(result.bound, f.number)}
          detail={
            result.bound === null
              ? t("replay.noBound", { reason: result.noBound })
              : t("replay.hours", { hours: f.number(result.bound) })
          }
        />
        <Stat
          label={t("replay.covered")}
          value={f.percent(result.covered, 1)}
          detail={t("replay.grain", {
            bucket: f.duration(result.bucketSeconds),
            start: f.duration(result.startSeconds),
            batch: f.number(result.batch),
          })}
        />
      </SimpleGrid>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <Panel title={t("replay.frontier")} hint={t("replay.frontierHint")}>
            <Frontier rows={result.rows} bounded={result.bound !== null} />
          </Panel>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <Panel title={t("replay.timeline")} hint={t("replay.timelineHint")} actions={<Legend lines={lines} />}>
            <Chart
              at={result.points.map((p) => p.at.getTime())}
              lines={lines}
              from={result.judgedFrom}
              to={result.judgedTo}
              height={300}
              format={f.number}
              label={t("replay.timeline")}
            />
          </Panel>
        </Grid.Col>
      </Grid>
      <Panel title={t("replay.scorecard")} flush>
        <DataTable
          rows={result.rows}
          columns={columns}
          rowKey={(r) => `${r.kind} ${r.policy}`}
          label={t("replay.scorecard")}
        />
      </Panel>
    </Stack>
  );
}
