import { SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import type { Aggregate, CostFilter } from "../api/cost";
import { type Change, compareQuery } from "../api/finops";
import { useGroupName } from "../components/allocation-table";
import { Panel, Stat } from "../components/page";
import { Gate, StaleNote, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import type { Money } from "../lib/money";

const EFFECTS = ["quantity", "mix", "price"] as const;

/** What changed against the window of the same length before. */
export function ComparePanel({ filter }: { filter: CostFilter }) {
  const { t } = useTranslation();
  const f = useFormat();
  const wanted: Aggregate = filter.aggregate;
  const aggregate = wanted === "namespace" || wanted === "workload" || wanted === "cluster" ? wanted : "team";
  const name = useGroupName(aggregate);
  const query = useQuery(compareQuery(filter, aggregate));
  const signed = (m: Money) => (m.nano > 0n ? `+${f.money(m)}` : f.money(m));
  const columns: Column<Change>[] = [
    { key: "name", header: t(`cost.aggregate.${aggregate}`), sort: name, render: (c) => name(c) },
    {
      key: "before",
      header: t("finops.compare.before"),
      align: "right",
      sort: (c) => c.before.nano,
      render: (c) => f.money(c.before),
    },
    {
      key: "after",
      header: t("finops.compare.after"),
      align: "right",
      sort: (c) => c.after.nano,
      render: (c) => f.money(c.after),
    },
    ...(["delta", ...EFFECTS] as const).map(
      (key): Column<Change> => ({
        key,
        header: t(`finops.compare.${key}`),
        align: "right",
        sort: (c) => c[key].nano,
        render: (c) => (key === "delta" ? <b style={{ fontWeight: 600 }}>{signed(c[key])}</b> : signed(c[key])),
      }),
    ),
  ];
  return (
    <Gate query={query} skeleton={<TableSkeleton rows={6} />}>
      {(data) => (
        <Stack gap="md">
          {data.total.before.nano === 0n && data.total.after.nano !== 0n && (
            <StaleNote>{t("finops.compare.nothingBefore")}</StaleNote>
          )}
          {data.unpriced && <StaleNote>{t("finops.compare.unpriced")}</StaleNote>}
          <SimpleGrid cols={{ base: 2, lg: 4 }}>
            <Stat
              label={t("finops.compare.delta")}
              value={signed(data.total.delta)}
              detail={t("finops.compare.against", { value: f.money(data.total.before) })}
            />
            {EFFECTS.map((e) => (
              <Stat
                key={e}
                label={t(`finops.compare.${e}`)}
                hint={t(`finops.compare.hint.${e}`)}
                value={signed(data.total[e])}
              />
            ))}
          </SimpleGrid>
          <Panel
            flush
            title={t("finops.compare.title")}
            actions={
              <Text size="sm" c="dimmed" className="number">
                {f.calendarDate(data.beforeFrom)} – {f.calendarDate(new Date(data.beforeTo.getTime() - 1))}
              </Text>
            }
          >
            <DataTable
              key={aggregate}
              label={t("finops.compare.title")}
              rows={data.items}
              columns={columns}
              rowKey={(c) => `${c.kind}/${c.key}`}
              minWidth={980}
            />
          </Panel>
        </Stack>
      )}
    </Gate>
  );
}
