import { Group, Progress, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconServer2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { clustersQuery } from "../api/clusters";
import { type Overview, overviewQuery } from "../api/overview";
import { HealthBadge } from "../components/badge";
import { Chart } from "../components/chart/chart";
import { useChartColors } from "../components/chart/colors";
import { LinkButton, TextLink } from "../components/link";
import { Hint, PageHead, Panel, Stat } from "../components/page";
import { CardSkeleton, Empty, Gate } from "../components/state";
import { WorkloadName } from "../components/workload-name";
import { useFormat } from "../lib/format";
import { moneyNumber, moneyRatio } from "../lib/money";
import { useNow } from "../lib/now";

const DAY = 86_400_000;

function Skeletons() {
  return (
    <Stack gap="md">
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
        {["a", "b", "c", "d"].map((k) => (
          <CardSkeleton key={k} height={82} />
        ))}
      </SimpleGrid>
      <CardSkeleton height={270} />
      <CardSkeleton height={150} />
    </Stack>
  );
}

function SpendChart({ overview }: { overview: Overview }) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const chart = useMemo(() => {
    // A day's bar stands on its noon UTC; the axis is labelled by the same days.
    const at = overview.costByDay.map((d) => d.day.getTime());
    const first = at[0] ?? overview.dataNow.getTime();
    const last = at.at(-1) ?? first;
    return {
      at,
      from: new Date(first - DAY / 2),
      to: new Date(last + DAY / 2),
      lines: [
        {
          key: "spend",
          name: t("overview.spendTitle"),
          shape: "bar" as const,
          color: colors.series[0] ?? "",
          values: overview.costByDay.map((d) => moneyNumber(d.amount)),
        },
      ],
    };
  }, [overview, colors, t]);
  return (
    <Chart
      {...chart}
      height={236}
      days
      format={(v) => f.moneyAxis(v)}
      label={t("charts.summary", { title: t("overview.spendTitle"), value: f.money(overview.cost.today) })}
    />
  );
}

function Money({ overview: o }: { overview: Overview }) {
  const { t } = useTranslation();
  const f = useFormat();
  const change = moneyRatio(o.cost.monthToDate, o.cost.previousSameSpan);
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
      <Stat
        label={t("overview.today")}
        value={
          <TextLink to="/cost" search={{ window: "d7" }} inherit c="inherit" underline="hover">
            {f.money(o.cost.today, { style: "whole" })}
          </TextLink>
        }
        detail={
          <TextLink to="/cost" search={{ window: "d7" }} size="sm" c="dimmed">
            {o.idleShare > 0 ? t("overview.idle", { share: f.percent(o.idleShare) }) : t("overview.allPriced")}
          </TextLink>
        }
      />
      <Stat
        label={t("overview.monthToDate")}
        value={
          <TextLink to="/cost" search={{ window: "month" }} inherit c="inherit" underline="hover">
            {f.money(o.cost.monthToDate, { style: "whole" })}
          </TextLink>
        }
        detail={
          change === null || o.cost.monthToDate.nano === 0n
            ? ""
            : t("overview.previous", { change: `${change >= 1 ? "+" : "−"}${f.percent(Math.abs(change - 1))}` })
        }
      />
      <Stat
        label={t("overview.forecast")}
        hint={t("overview.forecastHint")}
        value={
          <TextLink to="/budgets" inherit c="inherit" underline="hover">
            {o.cost.forecastMonth ? f.money(o.cost.forecastMonth, { style: "whole" }) : "–"}
          </TextLink>
        }
        detail={
          o.cost.forecastMonth
            ? o.unpricedShare > 0
              ? t("overview.unpriced", { share: f.percent(o.unpricedShare) })
              : t("overview.allPriced")
            : t("overview.noForecast")
        }
      />
      <Stat
        label={t("overview.savings")}
        hint={t("overview.savingsHint")}
        value={
          <TextLink to="/savings" inherit c="inherit" underline="hover">
            {o.savingsMonth ? f.money(o.savingsMonth, { style: "whole" }) : "–"}
          </TextLink>
        }
        detail={o.savingsMonth ? "" : t("overview.savingsNone")}
      />
    </SimpleGrid>
  );
}

function Service({ overview: o }: { overview: Overview }) {
  const { t } = useTranslation();
  const f = useFormat();
  const gpuShare = o.gpus.total > 0 ? o.gpus.allocated / o.gpus.total : 0;
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
      <Stat
        label={t("overview.late")}
        hint={t("overview.lateHint")}
        value={o.lateRatio === null ? "–" : f.percent(o.lateRatio)}
        detail={o.lateRatio === null ? t("overview.lateNone") : ""}
      />
      <Stat
        label={t(o.gpus.smActive === null ? "overview.gpus" : "overview.smActive")}
        hint={o.gpus.smActive === null ? undefined : t("overview.smActiveHint")}
        value={f.percent(o.gpus.smActive ?? gpuShare, 0)}
        detail={t("overview.gpusDetail", { allocated: f.number(o.gpus.allocated), total: f.integer(o.gpus.total) })}
      >
        <Progress
          value={(o.gpus.smActive ?? gpuShare) * 100}
          size={5}
          mt="xs"
          aria-label={t(o.gpus.smActive === null ? "overview.gpus" : "overview.smActive")}
        />
      </Stat>
      <Stat
        label={t("overview.replicas")}
        value={t("overview.replicasDetail", {
          ready: f.integer(o.replicas.ready),
          desired: f.integer(o.replicas.desired),
        })}
      >
        <Progress
          value={o.replicas.desired > 0 ? (o.replicas.ready / o.replicas.desired) * 100 : 0}
          size={5}
          mt="xs"
          aria-label={t("overview.replicas")}
        />
      </Stat>
      <Stat
        label={t("overview.alerts")}
        value={
          <TextLink to="/alerts" inherit c={o.alertsOpen > 0 ? "red" : undefined} underline="never">
            {f.integer(o.alertsOpen)}
          </TextLink>
        }
        detail={o.alertsOpen > 0 ? "" : t("overview.alertsNone")}
      />
    </SimpleGrid>
  );
}

function Worst({ overview: o }: { overview: Overview }) {
  const { t } = useTranslation();
  const f = useFormat();
  const late = o.worst.filter((w) => w.lateRatio > 0);
  const most = Math.max(...late.map((w) => w.lateRatio), 0.0001);
  return (
    <Panel title={t("overview.worst")}>
      {late.length === 0 ? (
        <Empty title={t("overview.worstEmpty")} height={120} />
      ) : (
        <Stack gap="sm">
          {late.map((w) => (
            <div key={w.workloadId}>
              <Group justify="space-between" wrap="nowrap" mb={4}>
                <WorkloadName id={w.workloadId} workloadKey={w.key} />
                <Text size="sm" className="number">
                  {f.percent(w.lateRatio)}
                </Text>
              </Group>
              <Progress value={(w.lateRatio / most) * 100} size={4} color="orange" aria-label={w.key} />
            </div>
          ))}
        </Stack>
      )}
    </Panel>
  );
}

function Decisions({ overview: o }: { overview: Overview }) {
  const { t } = useTranslation();
  const f = useFormat();
  const rows = [
    { key: "up", label: t("outcome.scale_up"), value: o.decisions.up, search: { outcome: "scale_up" as const } },
    {
      key: "down",
      label: t("outcome.scale_down"),
      value: o.decisions.down,
      search: { outcome: "scale_down" as const },
    },
    { key: "hold", label: t("outcome.hold"), value: o.decisions.hold, search: { outcome: "hold" as const } },
    {
      key: "capped",
      label: t("overview.capped"),
      hint: t("overview.cappedHint"),
      value: o.decisions.capped,
      search: { outcome: "hold" as const },
    },
  ];
  return (
    <Panel title={t("overview.decisions")}>
      <Stack gap={10}>
        <Group justify="space-between">
          <TextLink to="/approvals" size="sm" c={o.decisions.proposed > 0 ? undefined : "var(--mantine-color-text)"}>
            {t("overview.waiting")}
          </TextLink>
          <Text fw={600} className="number">
            {f.integer(o.decisions.proposed)}
          </Text>
        </Group>
        {rows.map((row) => (
          <Group key={row.key} justify="space-between">
            <Group gap={6}>
              <TextLink to="/decisions" search={row.search} size="sm" c="var(--mantine-color-text)">
                {row.label}
              </TextLink>
              {row.hint && <Hint text={row.hint} />}
            </Group>
            <Text fw={600} className="number">
              {f.integer(row.value)}
            </Text>
          </Group>
        ))}
      </Stack>
    </Panel>
  );
}

function Freshness({ overview: o }: { overview: Overview }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(10);
  const query = useQuery(clustersQuery({ limit: 6 }));
  return (
    <Panel
      title={t("overview.freshness")}
      actions={
        <Group gap="sm">
          <Text size="sm" c="dimmed">
            {[
              t("overview.clustersOnline", { online: f.integer(o.clusters.online) }),
              o.clusters.offline > 0 && t("overview.clustersOffline", { offline: f.integer(o.clusters.offline) }),
            ]
              .filter(Boolean)
              .join(" · ")}
          </Text>
          <TextLink to="/clusters" size="sm">
            {t("nav.clusters")}
          </TextLink>
        </Group>
      }
    >
      <Gate query={query} skeleton={<CardSkeleton height={100} />}>
        {(page) => (
          <Stack gap={10}>
            {page.items.map((c) => (
              <Group key={c.id} justify="space-between" wrap="nowrap">
                <Group gap="sm" wrap="nowrap" style={{ minWidth: 0 }}>
                  <HealthBadge health={c.health} />
                  <Link to="/clusters/$id" params={{ id: c.id }} className="cell-link truncate">
                    {c.name}
                  </Link>
                </Group>
                <Text size="sm" c="dimmed" className="number" style={{ whiteSpace: "nowrap" }}>
                  {c.lastSeenAt ? f.relative(c.lastSeenAt, now) : t("clusters.never")}
                </Text>
              </Group>
            ))}
          </Stack>
        )}
      </Gate>
    </Panel>
  );
}

export function OverviewPage() {
  const { t } = useTranslation();
  const query = useQuery(overviewQuery);
  return (
    <>
      <PageHead title={t("overview.title")} />
      <Gate
        query={query}
        skeleton={<Skeletons />}
        isEmpty={(o) => o.clusters.online + o.clusters.offline === 0 && o.costByDay.length === 0}
        empty={
          <Panel>
            <Empty
              icon={<IconServer2 size={36} stroke={1.4} />}
              title={t("overview.emptyTitle")}
              text={t("overview.emptyText")}
              action={<LinkButton to="/clusters">{t("clusters.add")}</LinkButton>}
              height={340}
            />
          </Panel>
        }
      >
        {(overview) => (
          <Stack gap="md">
            <Money overview={overview} />
            <Panel title={t("overview.spendTitle")} hint={t("overview.spendHint")}>
              <SpendChart overview={overview} />
            </Panel>
            <Service overview={overview} />
            <SimpleGrid cols={{ base: 1, md: 3 }}>
              <Worst overview={overview} />
              <Decisions overview={overview} />
              <Freshness overview={overview} />
            </SimpleGrid>
          </Stack>
        )}
      </Gate>
    </>
  );
}
