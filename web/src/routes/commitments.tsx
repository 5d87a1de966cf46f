import { Alert, Button, Group, SimpleGrid, Stack, Tabs, Text } from "@mantine/core";
import { IconContract, IconFileImport } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { commitmentSeriesQuery, pendingQuery } from "../api/commitment-stock";
import {
  type Commitment,
  commitmentsQuery,
  coverageQuery,
  deleteCommitment,
  expiriesQuery,
  importCommitments,
  utilisationQuery,
} from "../api/commitments";
import { ask, tell } from "../components/ask";
import { CommitmentImport, type ImportFormat } from "../components/commitment-import";
import { SeriesCharts } from "../components/commitment-series";
import { CommitmentTable, CoverageTable, ExpiryCalendar, ExpiryTable, UseTable } from "../components/commitment-tables";
import { PageHead, Panel, Stat } from "../components/page";
import { RangePicker } from "../components/range-picker";
import { BlockSkeleton, Empty, Gate, TableSkeleton, useProblemText } from "../components/state";
import { useFormat } from "../lib/format";
import { moneyRatio, sumMoney } from "../lib/money";
import { startOfMonth } from "../lib/time";
import { useAct } from "./act";
import { AdviceTab } from "./commitments-advice";
import { PendingPanel, StockPanel } from "./commitments-pending";
import { useMay, useMe } from "./me";
import { COMMITMENT_TABS, COMMITMENT_WINDOWS } from "./search";

const FROM = "/signed-in/commitments";
const TOUCHES = [["commitments"], ["prices"]];
const HOUR = 3_600_000;
const DAYS = { d7: 7, d30: 30, d90: 90 } as const;
const LOOK_AHEAD_DAYS = 1100;
const MONTHS = 12;

type Span = { from: Date; to: Date };

function Figures({ span }: { span: Span }) {
  const { t } = useTranslation();
  const f = useFormat();
  const use = useQuery(utilisationQuery(span.from, span.to));
  const cover = useQuery(coverageQuery(span.from, span.to));
  const list = useQuery(commitmentsQuery);
  const unused = use.data ? moneyRatio(use.data.unused, use.data.bought) : null;
  const active = list.data?.filter((c) => c.state === "active") ?? [];
  const ratio = (value: number | null | undefined) => (value === null || value === undefined ? "–" : f.percent(value));
  return (
    <SimpleGrid cols={{ base: 2, lg: 4 }}>
      <Stat
        label={t("market.commitments.utilisation")}
        hint={t("market.commitments.utilisationHint")}
        value={ratio(use.data?.ratio)}
        detail={
          use.data ? t("market.commitments.boughtIs", { value: f.money(use.data.bought, { style: "whole" }) }) : ""
        }
      />
      <Stat
        label={t("market.commitments.unused")}
        hint={t("market.commitments.unusedHint")}
        value={use.data ? f.money(use.data.unused, { style: "whole" }) : "–"}
        detail={unused === null ? "" : t("market.commitments.unusedIs", { share: f.percent(unused) })}
      />
      <Stat
        label={t("market.commitments.coverage")}
        hint={t("market.commitments.coverageHint")}
        value={ratio(cover.data?.ratio)}
        detail={
          cover.data
            ? t("market.commitments.eligibleIs", {
                value: f.money(
                  sumMoney(
                    cover.data.items.map((c) => c.onDemandCost),
                    f.currency,
                  ),
                  { style: "whole" },
                ),
              })
            : ""
        }
      />
      <Stat
        label={t("market.commitments.activeNow")}
        value={list.data ? f.integer(active.length) : "–"}
        detail={list.data ? t("common.of", { part: f.integer(active.length), whole: f.integer(list.data.length) }) : ""}
      />
    </SimpleGrid>
  );
}

function UseTab({ span, add, onPending }: { span: Span; add: React.ReactNode; onPending: () => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const series = useQuery(commitmentSeriesQuery(span.from, span.to));
  const pending = useQuery(pendingQuery);
  const waiting = pending.data?.length ?? 0;
  const use = useQuery(utilisationQuery(span.from, span.to));
  const cover = useQuery(coverageQuery(span.from, span.to));
  return (
    <Stack gap="md">
      {waiting > 0 && (
        <Alert color="yellow" variant="light" py={8} role="status">
          <Group justify="space-between" gap="md">
            <Text size="sm">{t("market.commitments.pendingNote", { value: f.integer(waiting) })}</Text>
            <Button size="compact-xs" variant="default" onClick={onPending}>
              {t("market.commitments.pendingShow")}
            </Button>
          </Group>
        </Alert>
      )}
      <Figures span={span} />
      <Panel title={t("market.commitments.overTime")} hint={t("market.commitments.overTimeHint")}>
        <Gate
          query={series}
          skeleton={<BlockSkeleton height={260} />}
          isEmpty={(data) => data.at.length === 0}
          empty={<Empty title={t("market.commitments.useEmpty")} text={t("market.commitments.emptyText")} />}
        >
          {(data) => <SeriesCharts series={data} />}
        </Gate>
      </Panel>
      <Panel flush title={t("market.commitments.utilisation")} hint={t("market.commitments.utilisationHint")}>
        <Gate
          query={use}
          skeleton={<TableSkeleton rows={4} />}
          isEmpty={(data) => data.items.length === 0}
          empty={
            <Empty
              icon={<IconContract size={34} stroke={1.4} />}
              title={t("market.commitments.useEmpty")}
              text={t("market.commitments.emptyText")}
              action={add}
            />
          }
        >
          {(data) => <UseTable rows={data.items} />}
        </Gate>
      </Panel>
      <Panel flush title={t("market.commitments.coverage")} hint={t("market.commitments.coverageHint")}>
        <Gate
          query={cover}
          skeleton={<TableSkeleton rows={4} />}
          isEmpty={(data) => data.items.length === 0}
          empty={
            <Empty title={t("market.commitments.coverageEmpty")} text={t("market.commitments.coverageEmptyText")} />
          }
        >
          {(data) => <CoverageTable rows={data.items} />}
        </Gate>
      </Panel>
    </Stack>
  );
}

function ListTab({ add }: { add: React.ReactNode }) {
  const { t } = useTranslation();
  const may = useMay("finance");
  const { act } = useAct();
  const query = useQuery(commitmentsQuery);
  const drop = (c: Commitment) =>
    ask({
      title: t("market.commitments.deleteTitle", { ref: c.ref }),
      text: t("market.commitments.deleteText"),
      confirm: t("common.delete"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => deleteCommitment(c.id), TOUCHES, t("market.commitments.deleted")),
    });
  return (
    <Stack gap="md">
      <PendingPanel />
      <Panel flush>
        <Gate
          query={query}
          skeleton={<TableSkeleton />}
          isEmpty={(list) => list.length === 0}
          empty={
            <Empty
              icon={<IconContract size={34} stroke={1.4} />}
              title={t("market.commitments.empty")}
              text={t("market.commitments.emptyText")}
              action={add}
              height={300}
            />
          }
        >
          {(list) => <CommitmentTable rows={list} onDelete={may ? drop : undefined} />}
        </Gate>
      </Panel>
      <StockPanel />
    </Stack>
  );
}

function ExpiriesTab() {
  const { t } = useTranslation();
  const query = useQuery(expiriesQuery(LOOK_AHEAD_DAYS));
  const now = query.data?.dataNow.getTime();
  const months = useMemo(() => {
    if (now === undefined) return [];
    const at = new Date(now);
    return Array.from({ length: MONTHS }, (_, i) => ({
      from: startOfMonth(at, "UTC", i),
      to: startOfMonth(at, "UTC", i + 1),
    }));
  }, [now]);
  return (
    <Gate
      query={query}
      skeleton={<BlockSkeleton height={360} />}
      isEmpty={(data) => data.items.length === 0}
      empty={
        <Panel>
          <Empty title={t("market.commitments.expiriesEmpty")} text={t("market.commitments.expiriesEmptyText")} />
        </Panel>
      }
    >
      {(data) => (
        <Stack gap="md">
          <Panel title={t("market.commitments.calendar")}>
            <ExpiryCalendar rows={data.items} months={months} />
          </Panel>
          <Panel flush title={t("market.commitments.expiriesList")}>
            <ExpiryTable rows={data.items} />
          </Panel>
        </Stack>
      )}
    </Gate>
  );
}

function useImport(onDone: () => void) {
  const { t } = useTranslation();
  const f = useFormat();
  const queries = useQueryClient();
  const problemText = useProblemText();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const run = async (text: string, format: ImportFormat) => {
    setBusy(true);
    setProblem(null);
    try {
      const { added, changed, unchanged } = await importCommitments(text, format);
      tell(
        t("market.commitments.imported", {
          added: f.integer(added),
          changed: f.integer(changed),
          unchanged: f.integer(unchanged),
        }),
      );
      for (const queryKey of TOUCHES) void queries.invalidateQueries({ queryKey });
      onDone();
    } catch (error) {
      setProblem(problemText(error));
    } finally {
      setBusy(false);
    }
  };
  return { busy, problem, run, forget: () => setProblem(null) };
}

export function CommitmentsPage() {
  const { t } = useTranslation();
  const me = useMe();
  const may = useMay("finance");
  const search = useSearch({ from: FROM });
  const navigate = useNavigate();
  const tab = search.tab ?? "use";
  const window = search.window ?? "d30";
  const end = Math.floor(me.dataNow.getTime() / HOUR) * HOUR;
  const span = useMemo(() => ({ from: new Date(end - DAYS[window] * 24 * HOUR), to: new Date(end) }), [end, window]);
  const [importing, setImporting] = useState(false);
  const close = () => setImporting(false);
  const imported = useImport(close);
  const add = may && (
    <Button
      leftSection={<IconFileImport size={16} />}
      onClick={() => {
        imported.forget();
        setImporting(true);
      }}
    >
      {t("market.commitments.import")}
    </Button>
  );
  const change = (part: Partial<typeof search>) =>
    void navigate({ to: "/commitments", search: { ...search, ...part }, resetScroll: false });
  return (
    <>
      <PageHead
        title={t("market.commitments.title")}
        text={t("market.commitments.text")}
        actions={
          <Group gap="sm">
            {(tab === "use" || tab === "advice") && (
              <RangePicker options={COMMITMENT_WINDOWS} value={window} onPick={(next) => change({ window: next })} />
            )}
            {add}
          </Group>
        }
      />
      <Stack gap="md">
        <Tabs
          value={tab}
          onChange={(value) => {
            const next = COMMITMENT_TABS.find((name) => name === value);
            if (next) change({ tab: next });
          }}
        >
          <Tabs.List>
            {COMMITMENT_TABS.map((name) => (
              <Tabs.Tab key={name} value={name}>
                {t(`market.commitments.tabs.${name}`)}
              </Tabs.Tab>
            ))}
          </Tabs.List>
        </Tabs>
        {tab === "use" && <UseTab span={span} add={add} onPending={() => change({ tab: "list" })} />}
        {tab === "list" && <ListTab add={add} />}
        {tab === "expiries" && <ExpiriesTab />}
        {tab === "advice" && <AdviceTab span={span} />}
      </Stack>
      {importing && (
        <CommitmentImport
          busy={imported.busy}
          problem={imported.problem}
          onClose={close}
          onImport={(text, format) => void imported.run(text, format)}
        />
      )}
    </>
  );
}
