import { List, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconPigMoney } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { type Against, type Saving, type Savings, savingsQuery } from "../api/finops";
import { Chart, Legend } from "../components/chart/chart";
import { useChartColors } from "../components/chart/colors";
import { PageHead, Panel, Stat } from "../components/page";
import { CardSkeleton, Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { WorkloadName } from "../components/workload-name";
import { useFormat } from "../lib/format";
import { type Money, moneyNumber } from "../lib/money";
import { useCalendarWindow, WindowSelect } from "./calendar-window";

const NOON = 43_200_000;
const METHODS = ["price", "measured", "static", "shadow", "parts", "unknown"] as const;

function Days({ data, from, to }: { data: Savings; from: Date; to: Date }) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const chart = useMemo(() => {
    const line = (key: "static" | "shadow" | "measured", i: number) => ({
      key,
      name: t(`finops.savings.${key}`),
      color: colors.series[i] ?? colors.muted,
      values: data.days.map((d) => (d[key] ? moneyNumber(d[key]) : null)),
    });
    return {
      at: data.days.map((d) => d.day.getTime() + NOON),
      lines: [line("static", 0), line("shadow", 1), line("measured", 2)],
    };
  }, [data, colors, t]);
  return (
    <Panel title={t("finops.savings.days")} hint={t("cost.utc")}>
      <Stack gap="sm">
        <Chart
          {...chart}
          from={from}
          to={to}
          height={240}
          days
          format={(v) => f.moneyAxis(v)}
          label={t("finops.savings.days")}
        />
        <Legend lines={chart.lines} />
      </Stack>
    </Panel>
  );
}

export function SavingsPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const search = useSearch({ from: "/signed-in/savings" });
  const navigate = useNavigate();
  const span = useCalendarWindow(search.window);
  const query = useQuery({
    ...savingsQuery({ ...(span ?? { from: new Date(0), to: new Date(0) }), team: search.team }),
    enabled: span !== undefined,
  });
  const saved = (a: Against) => (a.saved ? f.money(a.saved) : t("common.unknown"));
  const compared = (a: Against, all: number) =>
    all > 0 ? t("finops.savings.compared", { share: f.percent(a.hours / all) }) : "";
  const cell = (a: Against) => (a.saved ? f.money(a.saved) : "–");
  const by = (m: Money | null) => m?.nano ?? null;
  const columns: Column<Saving>[] = [
    {
      key: "name",
      header: t("cost.aggregate.workload"),
      sort: (s) => s.name,
      render: (s) => <WorkloadName id={s.id} workloadKey={s.name} />,
    },
    {
      key: "paid",
      header: t("finops.savings.paid"),
      align: "right",
      sort: (s) => s.paid.nano,
      render: (s) => f.money(s.paid),
    },
    {
      key: "promised",
      header: t("finops.savings.promised"),
      align: "right",
      sort: (s) => s.promised.nano,
      render: (s) => f.money(s.promised),
    },
    {
      key: "measured",
      header: t("finops.savings.measured"),
      align: "right",
      sort: (s) => by(s.measured.saved),
      render: (s) => cell(s.measured),
    },
    {
      key: "static",
      header: t("finops.savings.static"),
      align: "right",
      sort: (s) => by(s.static.saved),
      render: (s) => cell(s.static),
    },
    {
      key: "shadow",
      header: t("finops.savings.shadow"),
      align: "right",
      sort: (s) => by(s.shadow.saved),
      render: (s) => cell(s.shadow),
    },
    {
      key: "cooldown",
      header: t("finops.savings.cooldown"),
      align: "right",
      sort: (s) => s.cooldown.nano,
      render: (s) => f.money(s.cooldown),
    },
    {
      key: "starting",
      header: t("finops.savings.starting"),
      align: "right",
      sort: (s) => s.starting.nano,
      render: (s) => f.money(s.starting),
    },
    {
      key: "changes",
      header: t("finops.savings.changes"),
      align: "right",
      sort: (s) => s.ups + s.downs,
      render: (s) => `↑ ${f.integer(s.ups)}  ↓ ${f.integer(s.downs)}`,
    },
  ];
  return (
    <>
      <PageHead
        title={t("finops.savings.title")}
        text={t("finops.savings.text")}
        actions={
          <WindowSelect
            value={search.window ?? span?.name ?? "month"}
            onPick={(next) => void navigate({ to: "/savings", search: { ...search, window: next } })}
          />
        }
      />
      <Gate
        query={query}
        skeleton={
          <Stack>
            <CardSkeleton height={70} />
            <CardSkeleton height={240} />
            <TableSkeleton rows={6} />
          </Stack>
        }
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Panel>
            <Empty
              icon={<IconPigMoney size={34} stroke={1.4} />}
              title={t("finops.savings.empty")}
              text={t("finops.savings.emptyText")}
              height={300}
            />
          </Panel>
        }
      >
        {(data) => (
          <Stack gap="md">
            {data.total.static.hours < data.total.hours && (
              <StaleNote>
                {t("finops.savings.gaps", {
                  value: f.integer(data.total.hours - data.total.static.hours),
                  all: f.integer(data.total.hours),
                })}
              </StaleNote>
            )}
            <SimpleGrid cols={{ base: 2, lg: 5 }}>
              <Stat
                label={t("finops.savings.paid")}
                value={f.money(data.total.paid)}
                detail={t("finops.savings.hours", { value: f.integer(data.total.hours) })}
              />
              <Stat label={t("finops.savings.promised")} value={f.money(data.total.promised)} />
              {(["measured", "static", "shadow"] as const).map((key) => (
                <Stat
                  key={key}
                  label={t(`finops.savings.${key}`)}
                  hint={t(`finops.savings.method.${key}`)}
                  value={saved(data.total[key])}
                  detail={compared(data.total[key], data.total.hours)}
                />
              ))}
            </SimpleGrid>
            {span && <Days data={data} from={span.from} to={span.to} />}
            <Panel flush title={t("finops.savings.table")}>
              <DataTable
                label={t("finops.savings.table")}
                rows={data.items}
                columns={columns}
                rowKey={(s) => s.id}
                initialSort={{ key: "paid", down: true }}
                minWidth={1080}
              />
            </Panel>
            <Panel title={t("finops.savings.how")}>
              <List size="sm" spacing={6}>
                {METHODS.map((m) => (
                  <List.Item key={m}>
                    <Text size="sm" c="dimmed">
                      {t(`finops.savings.method.${m}`)}
                    </Text>
                  </List.Item>
                ))}
              </List>
            </Panel>
          </Stack>
        )}
      </Gate>
    </>
  );
}
