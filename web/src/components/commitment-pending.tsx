import { Alert, Badge, Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { CommitmentCost, Pending, ReservedStock } from "../api/commitment-stock";
import { cloudName } from "../lib/cloud";
import { toCsv } from "../lib/csv";
import { useFormat } from "../lib/format";
import { type Column, DataTable } from "./table";

/** Columns of an import, those that a person fills in last. */
const CSV_COLUMNS = [
  "ref",
  "kind",
  "region",
  "zone",
  "instance_type",
  "family",
  "resource",
  "gpu_model",
  "quantity",
  "starts_at",
  "ends_at",
  "upfront",
  "recurring_hour",
  "hourly_commitment",
  "discount_percent",
  "owner",
] as const;

/** What clouds say of pending commitments, as a file to fill the costs in and import. */
export function pendingCsv(rows: readonly Pending[]): string {
  return toCsv(
    CSV_COLUMNS,
    rows.map((p) => CSV_COLUMNS.map((c) => p.record[c] ?? "")),
  );
}

const isSpend = (p: Pending) => p.reason === "no_spend";

/** Commitments that count for nothing until somebody says what they cost. */
export function PendingTable({ rows, onPrice }: { rows: readonly Pending[]; onPrice?: (p: Pending) => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<Pending>[] = [
    {
      key: "ref",
      header: t("market.commitments.one"),
      sort: (p) => p.ref,
      render: (p) => (
        <div>
          <Text size="sm" fw={550} style={{ overflowWrap: "anywhere" }}>
            {p.ref}
          </Text>
          <Text size="xs" c="dimmed">
            {p.kind ? t(`market.kinds.${p.kind}`) : p.kindName}
          </Text>
        </div>
      ),
    },
    {
      key: "scope",
      header: t("market.commitments.for"),
      sort: (p) => p.scope,
      render: (p) => (
        <div>
          <Text size="sm">
            {[p.quantity && `${p.quantity} ×`, p.scope || t("market.commitments.anyMachine")].filter(Boolean).join(" ")}
          </Text>
          <Text size="xs" c="dimmed">
            {p.place || t("market.commitments.everywhere")}
          </Text>
        </div>
      ),
    },
    {
      key: "term",
      header: t("market.commitments.term"),
      sort: (p) => p.endsAt?.getTime() ?? null,
      render: (p) => (
        <Text size="sm" style={{ whiteSpace: "nowrap" }}>
          {f.calendarDate(p.startsAt)} – {p.endsAt ? f.calendarDate(p.endsAt) : t("market.commitments.open")}
        </Text>
      ),
    },
    {
      key: "reason",
      header: t("market.commitments.reasonColumn"),
      sort: (p) => p.reason,
      render: (p) => (
        <div>
          <Text size="sm">{t(`market.commitments.pendingReason.${p.reason}`)}</Text>
          {p.problem && (
            <Text size="xs" c="dimmed">
              {p.problem}
            </Text>
          )}
        </div>
      ),
    },
    {
      key: "account",
      header: t("market.commitments.account"),
      sort: (p) => p.accountName,
      render: (p) => (
        <div>
          <Text size="sm">{p.accountName}</Text>
          <Text size="xs" c="dimmed">
            {f.dateTime(p.seenAt)}
          </Text>
        </div>
      ),
    },
  ];
  if (onPrice) {
    columns.push({
      key: "act",
      header: "",
      align: "right",
      render: (p) => (
        <Button
          size="compact-sm"
          variant="default"
          aria-label={t("market.commitments.enterCostOf", { ref: p.ref })}
          onClick={() => onPrice(p)}
        >
          {t("market.commitments.enterCost")}
        </Button>
      ),
    });
  }
  return (
    <DataTable
      label={t("market.commitments.pending")}
      rows={rows}
      columns={columns}
      rowKey={(p) => p.key}
      minWidth={900}
    />
  );
}

const NOTHING: CommitmentCost = {
  upfront: "",
  recurringHour: "",
  hourlyCommitment: "",
  discountPercent: "",
  owner: "",
};

/** Asks what a commitment costs. */
export function CostForm({
  pending,
  currency,
  busy,
  problem,
  onClose,
  onSave,
}: {
  pending: Pending;
  currency: string;
  busy: boolean;
  /** The service's words on the last attempt. */
  problem: string | null;
  onClose: () => void;
  onSave: (cost: CommitmentCost) => void;
}) {
  const { t } = useTranslation();
  const [cost, setCost] = useState(NOTHING);
  const field = (key: keyof CommitmentCost, label: string, focus = false) => (
    <TextInput
      label={label}
      value={cost[key]}
      inputMode={key === "owner" ? "text" : "decimal"}
      data-autofocus={focus || undefined}
      onChange={(e) => setCost({ ...cost, [key]: e.currentTarget.value })}
    />
  );
  const spend = isSpend(pending);
  const enough = spend ? cost.hourlyCommitment.trim() !== "" : cost.upfront.trim() + cost.recurringHour.trim() !== "";
  return (
    <Modal opened onClose={onClose} title={t("market.commitments.enterCostOf", { ref: pending.ref })}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (enough) onSave(cost);
        }}
      >
        <Stack>
          <Text size="sm" c="dimmed">
            {t("market.commitments.enterText", { currency })}
          </Text>
          {spend ? (
            <>
              {field("hourlyCommitment", t("market.commitments.spendHour"), true)}
              {field("discountPercent", t("market.commitments.spendDiscount"))}
            </>
          ) : (
            <>
              {field("upfront", t("market.commitments.upfront"), true)}
              {field("recurringHour", t("market.commitments.recurring"))}
            </>
          )}
          {field("owner", t("market.commitments.ownerHint"))}
          {problem && (
            <Alert color="red" role="alert">
              {problem}
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {t("common.cancel")}
            </Button>
            <Button type="submit" loading={busy} disabled={!enough}>
              {t("common.save")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

/** Machines that clouds hold for the tenant's accounts. */
export function StockTable({ rows }: { rows: readonly ReservedStock[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<ReservedStock>[] = [
    {
      key: "type",
      header: t("market.supply.offering"),
      sort: (s) => s.instanceType,
      render: (s) => (
        <div>
          <Text size="sm" fw={550}>
            {s.instanceType}
          </Text>
          <Text size="xs" c="dimmed">
            {[cloudName(s.cloud), s.place].join(" · ")}
          </Text>
        </div>
      ),
    },
    {
      key: "ref",
      header: t("market.commitments.one"),
      sort: (s) => s.ref,
      render: (s) => (
        <div>
          <Text size="sm" style={{ overflowWrap: "anywhere" }}>
            {s.ref}
          </Text>
          <Text size="xs" c="dimmed">
            {s.block ? t("market.commitments.stockBlock") : t("market.commitments.stockReservation")}
          </Text>
        </div>
      ),
    },
    {
      key: "machines",
      header: t("market.commitments.size"),
      align: "right",
      sort: (s) => s.machines,
      render: (s) => t("market.commitments.amount.machine", { value: f.integer(s.machines) }),
    },
    {
      key: "use",
      header: t("market.commitments.stockInUse"),
      align: "right",
      sort: (s) => (s.available === null ? null : s.machines - s.available),
      render: (s) => (s.available === null ? t("common.unknown") : f.integer(s.machines - s.available)),
    },
    {
      key: "ends",
      header: t("market.commitments.ends"),
      sort: (s) => s.endsAt?.getTime() ?? null,
      render: (s) => (s.endsAt ? f.calendarDate(s.endsAt) : t("market.commitments.open")),
    },
    {
      key: "state",
      header: t("common.status"),
      sort: (s) => s.state,
      render: (s) => <Badge color={s.state === "active" ? "teal" : "gray"}>{s.state || t("common.unknown")}</Badge>,
    },
    {
      key: "seen",
      header: t("market.commitments.stockSeen"),
      align: "right",
      sort: (s) => s.seenAt.getTime(),
      render: (s) => f.dateTime(s.seenAt),
    },
  ];
  return (
    <DataTable
      label={t("market.commitments.stock")}
      rows={rows}
      columns={columns}
      rowKey={(s) => s.key}
      minWidth={900}
    />
  );
}
