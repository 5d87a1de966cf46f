import { Anchor, Button, Group, SegmentedControl, SimpleGrid, Stack, Tabs, Text } from "@mantine/core";
import { IconDownload, IconFileInvoice, IconFileUpload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import {
  type Bill,
  type BillMode,
  billsQuery,
  deleteBill,
  importBill,
  type Reconciliation,
  type Restatement,
  reconciliationCsv,
  reconciliationQuery,
  restate,
  restatementsQuery,
  undoRestatement,
} from "../api/bills";
import { ask, tell } from "../components/ask";
import { Hint, PageHead, Panel, Stat } from "../components/page";
import {
  BillImport,
  BillTable,
  CauseTable,
  GapLineTable,
  GapOnlyTable,
  GapPairTable,
  RestatementTable,
} from "../components/reconciliation-tables";
import { CardSkeleton, Empty, Gate, StaleNote, TableSkeleton, useProblemText } from "../components/state";
import { useFormat } from "../lib/format";
import { moneyRatio } from "../lib/money";
import { startOfDay } from "../lib/time";
import { useAct } from "./act";
import { windowOf } from "./cost-window";
import { useMay, useMe } from "./me";
import { RECONCILIATION_TABS, WINDOWS } from "./search";

const TOUCHES = [["bills"], ["reconciliation"], ["restatements"], ["cost"]];

function Totals({ data }: { data: Reconciliation }) {
  const { t } = useTranslation();
  const f = useFormat();
  const ratio = moneyRatio(data.gap, data.estimate);
  const share = (v: number | null) => (v === null ? "–" : f.percent(v));
  return (
    <SimpleGrid cols={{ base: 2, lg: 4 }}>
      <Stat label={t("bills.estimate")} hint={t("bills.estimateHint")} value={f.money(data.estimate)} />
      <Stat label={t("bills.bill")} hint={t("bills.billHint")} value={f.money(data.bill)} />
      <Stat
        label={t("bills.gap")}
        value={f.money(data.gap, { signed: true })}
        detail={ratio === null ? "" : t("bills.gapShare", { share: f.percent(ratio) })}
      />
      <Stat
        label={t("bills.matched")}
        hint={t("bills.matchedHint")}
        value={share(data.billMatched)}
        detail={t("bills.matchedLedger", { share: share(data.estimateMatched) })}
      />
    </SimpleGrid>
  );
}

function Comparison({ data, tab, onTab }: { data: Reconciliation; tab: string; onTab: (tab: string) => void }) {
  const { t } = useTranslation();
  const none = <Empty title={t("bills.nothing")} text={t("bills.nothingText")} height={140} />;
  const more = (shown: number, all: number) =>
    all > shown ? (
      <Text size="sm" c="dimmed" p="sm">
        {t("bills.more", { shown, all })}
      </Text>
    ) : null;
  return (
    <Stack gap="md">
      <Totals data={data} />
      {data.openHours > 0 && <StaleNote>{t("bills.open", { count: data.openHours })}</StaleNote>}
      {data.withoutEffective > 0 && (
        <Text size="sm" c="dimmed">
          {t("bills.withoutEffective", { count: data.withoutEffective })}
        </Text>
      )}
      <Panel flush title={t("bills.why")} hint={t("bills.whyHint")}>
        {data.causes.length ? <CauseTable rows={data.causes} estimate={data.estimate} /> : none}
      </Panel>
      <Panel flush>
        <Tabs value={tab} onChange={(next) => next && onTab(next)} keepMounted={false}>
          <Tabs.List>
            <Tabs.Tab value="days">{t("bills.byDay")}</Tabs.Tab>
            <Tabs.Tab value="pairs">{t("bills.pairsTab", { count: data.pairCount })}</Tabs.Tab>
            <Tabs.Tab value="bill">{t("bills.billOnly", { count: data.billOnlyCount })}</Tabs.Tab>
            <Tabs.Tab value="ledger">{t("bills.ledgerOnly", { count: data.ledgerOnlyCount })}</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="days">{data.lines.length ? <GapLineTable rows={data.lines} /> : none}</Tabs.Panel>
          <Tabs.Panel value="pairs">
            {data.pairs.length ? <GapPairTable rows={data.pairs} /> : none}
            {more(data.pairs.length, data.pairCount)}
          </Tabs.Panel>
          <Tabs.Panel value="bill">
            {data.billOnly.length ? (
              <GapOnlyTable rows={data.billOnly} label={t("bills.billOnly", { count: data.billOnlyCount })} />
            ) : (
              none
            )}
            {more(data.billOnly.length, data.billOnlyCount)}
          </Tabs.Panel>
          <Tabs.Panel value="ledger">
            {data.ledgerOnly.length ? (
              <GapOnlyTable rows={data.ledgerOnly} label={t("bills.ledgerOnly", { count: data.ledgerOnlyCount })} />
            ) : (
              none
            )}
            {more(data.ledgerOnly.length, data.ledgerOnlyCount)}
          </Tabs.Panel>
        </Tabs>
      </Panel>
    </Stack>
  );
}

function Files({
  onImport,
  onDelete,
  onUndo,
}: {
  onImport?: () => void;
  onDelete?: (b: Bill) => void;
  onUndo?: (r: Restatement) => void;
}) {
  const { t } = useTranslation();
  const bills = useQuery(billsQuery);
  const restatements = useQuery(restatementsQuery);
  return (
    <Stack gap="md">
      <Panel flush title={t("bills.files")} hint={t("bills.filesHint")}>
        <Gate
          query={bills}
          skeleton={<TableSkeleton rows={3} />}
          isEmpty={(list) => list.length === 0}
          empty={
            <Empty
              icon={<IconFileInvoice size={34} stroke={1.4} />}
              title={t("bills.empty")}
              text={t("bills.emptyText")}
              action={onImport && <Button onClick={onImport}>{t("bills.import")}</Button>}
              height={220}
            />
          }
        >
          {(list) => <BillTable rows={list} onDelete={onDelete} />}
        </Gate>
      </Panel>
      <Panel flush title={t("bills.restatements")} hint={t("bills.restatementsHint")}>
        <Gate
          query={restatements}
          skeleton={<TableSkeleton rows={2} />}
          isEmpty={(list) => list.length === 0}
          empty={<Empty title={t("bills.noRestatements")} text={t("bills.noRestatementsText")} height={140} />}
        >
          {(list) => <RestatementTable rows={list} onUndo={onUndo} />}
        </Gate>
      </Panel>
    </Stack>
  );
}

export function ReconciliationPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const me = useMe();
  const may = useMay("finance");
  const search = useSearch({ from: "/signed-in/reconciliation" });
  const navigate = useNavigate();
  const { act, busy } = useAct();
  const problemText = useProblemText();
  const [importing, setImporting] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const [sending, setSending] = useState(false);
  const window = search.window ?? "lastMonth";
  const tab = search.tab ?? "days";
  const day = startOfDay(me.dataNow, "UTC").getTime();
  const { from, to } = useMemo(() => windowOf(window, new Date(day)), [window, day]);
  const query = useQuery(reconciliationQuery(from, to));
  const change = (part: Partial<typeof search>) =>
    void navigate({ to: "/reconciliation", search: { ...search, ...part }, resetScroll: false });

  const send = async (file: File, mode: BillMode) => {
    setSending(true);
    setProblem(null);
    try {
      const known = await importBill(file, mode);
      tell(known ? t("bills.known") : t("bills.importDone", { name: file.name }));
      setImporting(false);
    } catch (error) {
      setProblem(problemText(error));
    } finally {
      setSending(false);
    }
    await act(async () => {}, TOUCHES);
  };
  const drop = (b: Bill) =>
    ask({
      title: t("bills.deleteTitle", { name: b.name }),
      text: t("bills.deleteText"),
      confirm: t("common.delete"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => deleteBill(b.id), TOUCHES, t("bills.deleted")),
    });
  const apply = () =>
    ask({
      title: t("bills.restateTitle"),
      text: t("bills.restateText", { from: f.calendarDate(from), to: f.calendarDate(new Date(to.getTime() - 1)) }),
      confirm: t("bills.restate"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(async () => void (await restate(from, to)), TOUCHES, t("bills.restated")),
    });
  const undo = (r: Restatement) =>
    ask({
      title: t("bills.undoTitle"),
      text: t("bills.undoText"),
      confirm: t("bills.undo"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => undoRestatement(r.id), TOUCHES, t("bills.undoDone")),
    });
  const open = () => {
    setProblem(null);
    setImporting(true);
  };
  return (
    <>
      <PageHead
        title={t("bills.title")}
        text={t("bills.text")}
        actions={
          <Group gap="sm">
            {may && (
              <Button leftSection={<IconFileUpload size={16} />} onClick={open}>
                {t("bills.import")}
              </Button>
            )}
            <Anchor href={reconciliationCsv(from, to)} download underline="never">
              <Button component="span" variant="default" leftSection={<IconDownload size={16} />}>
                CSV
              </Button>
            </Anchor>
          </Group>
        }
      />
      <Stack gap="md">
        <Group justify="space-between">
          <SegmentedControl
            size="xs"
            aria-label={t("bills.show")}
            value={tab === "files" ? "files" : "days"}
            onChange={(next) => change({ tab: RECONCILIATION_TABS.find((x) => x === next) })}
            data={[
              { value: "days", label: t("bills.comparison") },
              { value: "files", label: t("bills.files") },
            ]}
          />
          <Group gap="sm">
            <SegmentedControl
              size="xs"
              aria-label={t("range.label")}
              value={window}
              onChange={(next) => change({ window: WINDOWS.find((w) => w === next) })}
              data={WINDOWS.map((w) => ({ value: w, label: t(`range.${w}`) }))}
            />
            {may && (
              <Button
                size="xs"
                variant="light"
                loading={busy}
                disabled={!query.data || query.data.pairCount === 0}
                onClick={apply}
              >
                {t("bills.restate")}
              </Button>
            )}
            <Hint text={t("bills.restateHint")} />
          </Group>
        </Group>
        {tab === "files" ? (
          <Files onImport={may ? open : undefined} onDelete={may ? drop : undefined} onUndo={may ? undo : undefined} />
        ) : (
          <Gate
            query={query}
            skeleton={
              <Stack gap="md">
                <SimpleGrid cols={{ base: 2, lg: 4 }}>
                  <CardSkeleton height={70} />
                  <CardSkeleton height={70} />
                  <CardSkeleton height={70} />
                  <CardSkeleton height={70} />
                </SimpleGrid>
                <Panel flush>
                  <TableSkeleton rows={8} />
                </Panel>
              </Stack>
            }
            isEmpty={(r) => r.bill.nano === 0n && r.billOnlyCount === 0}
            empty={
              <Stack gap="md">
                <Panel>
                  <Empty
                    icon={<IconFileInvoice size={34} stroke={1.4} />}
                    title={t("bills.emptySpan")}
                    text={
                      query.data && query.data.estimate.nano > 0n
                        ? t("bills.emptyLedger", { total: f.money(query.data.estimate) })
                        : t("bills.emptyText")
                    }
                    action={may && <Button onClick={open}>{t("bills.import")}</Button>}
                    height={240}
                  />
                </Panel>
                {query.data && query.data.lines.length > 0 && (
                  <Panel flush title={t("bills.byDay")}>
                    <GapLineTable rows={query.data.lines} billed={false} />
                  </Panel>
                )}
              </Stack>
            }
          >
            {(data) => (
              <Comparison
                data={data}
                tab={tab}
                onTab={(next) => change({ tab: RECONCILIATION_TABS.find((x) => x === next) })}
              />
            )}
          </Gate>
        )}
      </Stack>
      {importing && <BillImport busy={sending} problem={problem} onClose={() => setImporting(false)} onImport={send} />}
    </>
  );
}
