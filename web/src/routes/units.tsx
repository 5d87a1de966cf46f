import { Group, NumberInput, SegmentedControl, Stack, Text } from "@mantine/core";
import { IconCoins } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { type Unit, type UnitPrices, unitsQuery } from "../api/finops";
import { Hint, PageHead, Panel } from "../components/page";
import { Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { WorkloadName } from "../components/workload-name";
import { useFormat } from "../lib/format";
import { moneyNumber } from "../lib/money";
import { useCalendarWindow, WindowSelect } from "./calendar-window";

export const UNIT_BASES = ["allocation", "usage"] as const;
export const UNIT_GROUPS = ["workload", "team"] as const;
const PRICES = ["tokensIn", "tokensOut", "requests", "trainHour", "keptMinute"] as const satisfies (keyof UnitPrices)[];
const WEIGHT = 4;

export function UnitsPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const search = useSearch({ from: "/signed-in/units" });
  const navigate = useNavigate();
  const basis = search.basis ?? "allocation";
  const by = search.by ?? "workload";
  const weight = search.weight ?? WEIGHT;
  const span = useCalendarWindow(search.window);
  const query = useQuery({
    ...unitsQuery({ ...(span ?? { from: new Date(0), to: new Date(0) }), team: search.team }, by, weight),
    enabled: span !== undefined,
  });
  const change = (part: Partial<typeof search>) =>
    void navigate({ to: "/units", search: { ...search, ...part }, resetScroll: false });
  const columns: Column<Unit>[] = [
    {
      key: "name",
      header: t(`cost.aggregate.${by}`),
      sort: (u) => u.name,
      render: (u) =>
        by === "workload" ? <WorkloadName id={u.key} workloadKey={u.name} /> : u.name || t("cost.noneTeam"),
    },
    {
      key: "cost",
      header: t("common.total"),
      align: "right",
      sort: (u) => u[basis].cost?.nano ?? null,
      render: (u) => (u[basis].cost ? f.money(u[basis].cost) : "–"),
    },
    ...PRICES.map(
      (p): Column<Unit> => ({
        key: p,
        header: t(`finops.units.${p}`),
        align: "right",
        sort: (u) => u[basis][p]?.nano ?? null,
        render: (u) => {
          const price = u[basis][p];
          return price ? f.price(moneyNumber(price)) : <Text c="dimmed">–</Text>;
        },
      }),
    ),
    {
      key: "utilisation",
      header: (
        <Group gap={4} wrap="nowrap" display="inline-flex">
          {t("finops.units.utilisation")} <Hint text={t("finops.units.utilisationHint")} />
        </Group>
      ),
      align: "right",
      sort: (u) => u.utilisation,
      render: (u) => (u.utilisation === null ? "–" : f.percent(u.utilisation, 0)),
    },
    {
      key: "measured",
      header: t("finops.units.measured"),
      align: "right",
      sort: (u) => u.measured,
      render: (u) => (u.measured === null ? "–" : f.percent(u.measured, 0)),
    },
  ];
  return (
    <>
      <PageHead
        title={t("finops.units.title")}
        text={t("finops.units.text")}
        actions={
          <WindowSelect value={search.window ?? span?.name ?? "month"} onPick={(next) => change({ window: next })} />
        }
      />
      <Stack gap="md">
        <Group gap="md">
          <SegmentedControl
            size="xs"
            aria-label={t("cost.by")}
            value={by}
            onChange={(v) => change({ by: UNIT_GROUPS.find((g) => g === v) })}
            data={UNIT_GROUPS.map((g) => ({ value: g, label: t(`cost.aggregate.${g}`) }))}
          />
          <SegmentedControl
            size="xs"
            aria-label={t("finops.units.basis")}
            value={basis}
            onChange={(v) => change({ basis: UNIT_BASES.find((b) => b === v) })}
            data={UNIT_BASES.map((b) => ({ value: b, label: t(`finops.units.${b}`) }))}
          />
          <Group gap={6}>
            <Text size="sm" c="dimmed">
              {t("finops.units.weight")} <Hint text={t("finops.units.weightHint")} />
            </Text>
            <NumberInput
              size="xs"
              w={76}
              min={1}
              max={100}
              allowDecimal={false}
              aria-label={t("finops.units.weight")}
              value={weight}
              onChange={(v) => typeof v === "number" && v >= 1 && v <= 100 && change({ weight: v })}
            />
          </Group>
        </Group>
        <Gate
          query={query}
          skeleton={<TableSkeleton rows={10} />}
          isEmpty={(data) => data.items.length === 0}
          empty={
            <Panel>
              <Empty
                icon={<IconCoins size={34} stroke={1.4} />}
                title={t("finops.units.empty")}
                text={t("finops.units.emptyText")}
                height={300}
              />
            </Panel>
          }
        >
          {(data) => (
            <Stack gap="md">
              {data.items.some((u) => u.unpriced) && <StaleNote>{t("finops.units.unpriced")}</StaleNote>}
              <Panel
                flush
                title={t("finops.units.table")}
                actions={
                  <Text size="sm" c="dimmed" className="number">
                    {f.money(data.total)}
                  </Text>
                }
              >
                <DataTable
                  key={`${by}/${basis}`}
                  label={t("finops.units.table")}
                  rows={data.items}
                  columns={columns}
                  rowKey={(u) => u.key}
                  initialSort={{ key: "cost", down: true }}
                  minWidth={1080}
                />
              </Panel>
              <Text size="sm" c="dimmed">
                {t("finops.units.note")}
              </Text>
            </Stack>
          )}
        </Gate>
      </Stack>
    </>
  );
}
