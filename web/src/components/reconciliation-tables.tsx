import { Badge, Button, FileButton, Group, Modal, SegmentedControl, Stack, Text } from "@mantine/core";
import { IconFileUpload } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  BILL_MODES,
  type Bill,
  type BillMode,
  type CauseAmount,
  type GapLine,
  type GapOnly,
  type GapPair,
  MOST_BILL_BYTES,
  type Restatement,
} from "../api/bills";
import { useFormat } from "../lib/format";
import { type Money, moneyRatio } from "../lib/money";
import { type Column, DataTable } from "./table";

const size = (m: Money) => (m.nano < 0n ? -m.nano : m.nano);

/** Why bill and ledger differ, the largest first; each with its share of the estimate. */
export function CauseTable({ rows, estimate }: { rows: readonly CauseAmount[]; estimate: Money }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<CauseAmount>[] = [
    {
      key: "cause",
      header: t("bills.cause"),
      render: (r) => (
        <Stack gap={0}>
          <Text size="sm">{t(`bills.causes.${r.cause}`)}</Text>
          <Text size="xs" c="dimmed">
            {t(`bills.causeTexts.${r.cause}`)}
          </Text>
        </Stack>
      ),
      sort: (r) => t(`bills.causes.${r.cause}`),
    },
    {
      key: "amount",
      header: t("bills.moreOnBill"),
      align: "right",
      render: (r) => f.money(r.amount, { signed: true }),
      sort: (r) => size(r.amount),
    },
    {
      key: "share",
      header: t("bills.ofEstimate"),
      align: "right",
      render: (r) => {
        const ratio = moneyRatio(r.amount, estimate);
        return ratio === null ? "–" : f.percent(ratio);
      },
    },
  ];
  return <DataTable rows={rows} columns={columns} rowKey={(r) => r.cause} minWidth={420} label={t("bills.why")} />;
}

function money<T>(key: string, header: string, of: (row: T) => Money, text: (m: Money) => string): Column<T> {
  return { key, header, align: "right", render: (r) => text(of(r)), sort: (r) => of(r).nano };
}

/** A row per day and service. Where no bill is there, what it says and the gap are unknown, and are not shown as nothing. */
export function GapLineTable({ rows, billed = true }: { rows: readonly GapLine[]; billed?: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<GapLine>[] = [
    { key: "day", header: t("bills.day"), render: (r) => f.calendarDate(r.day), sort: (r) => r.day.getTime() },
    {
      key: "service",
      header: t("bills.service"),
      render: (r) => `${r.provider} · ${r.service}`,
      sort: (r) => `${r.provider} ${r.service}`,
    },
    money("estimate", t("bills.estimate"), (r: GapLine) => r.estimate, f.money),
  ];
  if (billed)
    columns.push(
      money("bill", t("bills.bill"), (r: GapLine) => r.bill, f.money),
      money(
        "gap",
        t("bills.gap"),
        (r: GapLine) => r.gap,
        (m) => f.money(m, { signed: true }),
      ),
    );
  return (
    <DataTable
      rows={rows}
      columns={columns}
      rowKey={(r) => `${r.day.getTime()} ${r.provider} ${r.service}`}
      initialSort={{ key: "day", down: true }}
      label={t("bills.byDay")}
    />
  );
}

/** What bill and ledger both have. */
export function GapPairTable({ rows }: { rows: readonly GapPair[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<GapPair>[] = [
    { key: "day", header: t("bills.day"), render: (r) => f.calendarDate(r.day), sort: (r) => r.day.getTime() },
    {
      key: "name",
      header: t("bills.what"),
      render: (r) => (
        <Stack gap={0}>
          <Text size="sm" style={{ overflowWrap: "anywhere" }}>
            {r.name}
          </Text>
          <Text size="xs" c="dimmed">
            {t(`bills.levels.${r.level}`, { count: r.machines })}
          </Text>
        </Stack>
      ),
      sort: (r) => r.name,
    },
    {
      key: "hours",
      header: t("bills.hours"),
      align: "right",
      render: (r) => `${f.number(r.estimateHours)} / ${r.billHours === null ? "–" : f.number(r.billHours)}`,
    },
    money("estimate", t("bills.estimate"), (r: GapPair) => r.estimate, f.money),
    money("bill", t("bills.bill"), (r: GapPair) => r.bill, f.money),
    {
      key: "gap",
      header: t("bills.gap"),
      align: "right",
      render: (r) => f.money(r.gap, { signed: true }),
      sort: (r) => size(r.gap),
    },
    {
      key: "causes",
      header: t("bills.cause"),
      render: (r) => r.causes.map((c) => t(`bills.causes.${c.cause}`)).join(", ") || "–",
    },
  ];
  return <DataTable rows={rows} columns={columns} rowKey={(r) => r.key} minWidth={860} label={t("bills.pairs")} />;
}

/** What only one of the two has. */
export function GapOnlyTable({ rows, label }: { rows: readonly GapOnly[]; label: string }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<GapOnly>[] = [
    { key: "day", header: t("bills.day"), render: (r) => f.calendarDate(r.day), sort: (r) => r.day.getTime() },
    { key: "service", header: t("bills.service"), render: (r) => r.service, sort: (r) => r.service },
    {
      key: "name",
      header: t("bills.what"),
      render: (r) => (
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>
          {r.line === null ? r.name : t("bills.atLine", { name: r.name, line: r.line })}
        </Text>
      ),
      sort: (r) => r.name,
    },
    { key: "cause", header: t("bills.cause"), render: (r) => t(`bills.causes.${r.cause}`), sort: (r) => r.cause },
    money("amount", t("bills.amount"), (r: GapOnly) => r.amount, f.money),
  ];
  return <DataTable rows={rows} columns={columns} rowKey={(r) => r.key} label={label} />;
}

export function BillTable({ rows, onDelete }: { rows: readonly Bill[]; onDelete?: (b: Bill) => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<Bill>[] = [
    {
      key: "name",
      header: t("bills.file"),
      render: (r) => (
        <Stack gap={0}>
          <Text size="sm">{r.name}</Text>
          <Text size="xs" c="dimmed">
            {t(`bills.formats.${r.format}`)} · {r.accounts.join(", ")}
          </Text>
        </Stack>
      ),
      sort: (r) => r.name,
    },
    {
      key: "span",
      header: t("bills.days"),
      render: (r) =>
        t("bills.span", { from: f.calendarDate(r.from), to: f.calendarDate(new Date(r.to.getTime() - 1)) }),
      sort: (r) => r.from.getTime(),
    },
    { key: "lines", header: t("bills.rows"), align: "right", render: (r) => f.integer(r.lines), sort: (r) => r.lines },
    money("billed", t("bills.billed"), (r: Bill) => r.billed, f.money),
    money("effective", t("bills.effective"), (r: Bill) => r.effective, f.money),
    {
      key: "imported",
      header: t("bills.imported"),
      render: (r) => `${f.dateTime(r.createdAt)}, ${r.createdBy}`,
      sort: (r) => r.createdAt.getTime(),
    },
  ];
  if (onDelete)
    columns.push({
      key: "delete",
      header: "",
      align: "right",
      render: (r) => (
        <Button size="compact-xs" variant="subtle" color="red" onClick={() => onDelete(r)}>
          {t("common.delete")}
        </Button>
      ),
    });
  return <DataTable rows={rows} columns={columns} rowKey={(r) => r.id} minWidth={820} label={t("bills.files")} />;
}

export function RestatementTable({
  rows,
  onUndo,
}: {
  rows: readonly Restatement[];
  onUndo?: (r: Restatement) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<Restatement>[] = [
    {
      key: "span",
      header: t("bills.days"),
      render: (r) =>
        t("bills.span", { from: f.calendarDate(r.from), to: f.calendarDate(new Date(r.to.getTime() - 1)) }),
      sort: (r) => r.from.getTime(),
    },
    { key: "machines", header: t("bills.machines"), align: "right", render: (r) => f.integer(r.machines) },
    money("before", t("bills.before"), (r: Restatement) => r.before, f.money),
    money("after", t("bills.after"), (r: Restatement) => r.after, f.money),
    {
      key: "state",
      header: t("bills.state"),
      render: (r) => (
        <Badge variant="light" color={r.undoneAt ? "gray" : r.waiting > 0 ? "yellow" : "teal"}>
          {r.undoneAt
            ? t("bills.undone")
            : r.waiting > 0
              ? t("bills.waiting", { count: r.waiting })
              : t("bills.inLedger")}
        </Badge>
      ),
    },
    { key: "by", header: t("bills.by"), render: (r) => `${f.dateTime(r.createdAt)}, ${r.createdBy}` },
  ];
  if (onUndo)
    columns.push({
      key: "undo",
      header: "",
      align: "right",
      render: (r) =>
        r.undoneAt ? null : (
          <Button size="compact-xs" variant="subtle" onClick={() => onUndo(r)}>
            {t("bills.undo")}
          </Button>
        ),
    });
  return (
    <DataTable rows={rows} columns={columns} rowKey={(r) => r.id} minWidth={760} label={t("bills.restatements")} />
  );
}

/** Takes a file; what the service cannot read is said with row and column. */
export function BillImport({
  busy,
  problem,
  onClose,
  onImport,
}: {
  busy: boolean;
  problem: string | null;
  onClose: () => void;
  onImport: (file: File, mode: BillMode) => void;
}) {
  const { t } = useTranslation();
  const [file, setFile] = useState<File | null>(null);
  const [mode, setMode] = useState<BillMode>("new");
  const large = file !== null && file.size > MOST_BILL_BYTES;
  return (
    <Modal opened onClose={onClose} title={t("bills.importTitle")} size="lg">
      <Stack>
        <Text size="sm" c="dimmed">
          {t("bills.importText")}
        </Text>
        <Group>
          <FileButton onChange={setFile} accept=".csv,.gz,.json,.jsonl,.ndjson">
            {(props) => (
              <Button {...props} variant="default" leftSection={<IconFileUpload size={16} />}>
                {t("bills.choose")}
              </Button>
            )}
          </FileButton>
          <Text size="sm">{file?.name ?? t("bills.noFile")}</Text>
        </Group>
        <SegmentedControl
          aria-label={t("bills.mode")}
          value={mode}
          onChange={(next) => setMode(BILL_MODES.find((m) => m === next) ?? "new")}
          data={BILL_MODES.map((m) => ({ value: m, label: t(`bills.modes.${m}`) }))}
        />
        {(large || problem) && (
          <Text size="sm" c="red" role="alert">
            {large ? t("bills.tooLarge") : problem}
          </Text>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button loading={busy} disabled={!file || large} onClick={() => file && onImport(file, mode)}>
            {t("bills.import")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
