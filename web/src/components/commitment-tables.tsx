import { ActionIcon, Badge, Group, Stack, Text, Tooltip } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type {
  Commitment,
  CommitmentKind,
  CommitmentState,
  CommitmentUse,
  CoverageRow,
  Expiry,
} from "../api/commitments";
import { cloudName } from "../lib/cloud";
import { useFormat } from "../lib/format";
import { moneyNumber } from "../lib/money";
import { Price } from "./offering";
import { type Column, DataTable } from "./table";

const STATE_COLOR: Record<CommitmentState, string> = { upcoming: "blue", active: "teal", expired: "gray" };

/** From here on an end is near enough to act on. */
const SOON_DAYS = 30;

interface Named {
  ref: string;
  kind: CommitmentKind | null;
  kindName: string;
}

function useKindName(): (c: Named) => string {
  const { t } = useTranslation();
  return (c) => (c.kind ? t(`market.kinds.${c.kind}`) : c.kindName);
}

function RefName({ of, detail }: { of: Named; detail?: string }) {
  const kind = useKindName();
  return (
    <div>
      <Text size="sm" fw={550} style={{ overflowWrap: "anywhere" }}>
        {of.ref}
      </Text>
      <Text size="xs" c="dimmed">
        {[kind(of), detail].filter(Boolean).join(" · ")}
      </Text>
    </div>
  );
}

/** Two parts of a whole as one bar. */
export function Split({
  ratio,
  label,
  color = "var(--mantine-primary-color-filled)",
  rest = "var(--faint)",
}: {
  ratio: number | null;
  label: string;
  color?: string;
  rest?: string;
}) {
  const f = useFormat();
  if (ratio === null)
    return (
      <Text size="sm" c="dimmed">
        –
      </Text>
    );
  return (
    <Group gap="sm" wrap="nowrap">
      <div
        role="img"
        aria-label={`${label}: ${f.percent(ratio)}`}
        className="stacked-bar"
        style={{ flex: 1, minWidth: 90, background: rest }}
      >
        <div style={{ width: `${Math.min(1, Math.max(0, ratio)) * 100}%`, background: color }} />
      </div>
      <Text size="sm" w={46} ta="right" className="number">
        {f.percent(ratio)}
      </Text>
    </Group>
  );
}

export function UseTable({ rows }: { rows: readonly CommitmentUse[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<CommitmentUse>[] = [
    {
      key: "ref",
      header: t("market.commitments.one"),
      sort: (u) => u.ref,
      render: (u) => <RefName of={u} detail={u.owner} />,
    },
    {
      key: "ratio",
      header: t("market.commitments.utilisation"),
      width: 240,
      sort: (u) => u.ratio,
      render: (u) => (
        <Split ratio={u.ratio} label={t("market.commitments.utilisation")} rest="var(--mantine-color-orange-3)" />
      ),
    },
    {
      key: "bought",
      header: t("market.commitments.bought"),
      align: "right",
      sort: (u) => moneyNumber(u.bought),
      render: (u) => f.money(u.bought),
    },
    {
      key: "unused",
      header: t("market.commitments.unused"),
      align: "right",
      sort: (u) => moneyNumber(u.unused),
      render: (u) => (
        <Text size="sm" fw={600} c={u.unused.nano > 0n ? "orange" : undefined}>
          {f.money(u.unused)}
        </Text>
      ),
    },
    {
      key: "listed",
      header: t("market.commitments.listed"),
      align: "right",
      sort: (u) => (u.listed ? moneyNumber(u.listed) : null),
      render: (u) => <Price value={u.listed} />,
    },
    {
      key: "savings",
      header: t("market.commitments.savings"),
      align: "right",
      sort: (u) => (u.savings ? moneyNumber(u.savings) : null),
      render: (u) => (u.savings ? f.money(u.savings, { signed: true }) : "–"),
    },
    {
      key: "hours",
      header: t("market.commitments.hours"),
      align: "right",
      sort: (u) => u.hours,
      render: (u) => f.number(u.hours),
    },
  ];
  return (
    <DataTable
      label={t("market.commitments.utilisation")}
      rows={rows}
      columns={columns}
      rowKey={(u) => u.id}
      minWidth={1000}
    />
  );
}

export function CoverageTable({ rows }: { rows: readonly CoverageRow[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<CoverageRow>[] = [
    {
      key: "family",
      header: t("market.commitments.family"),
      sort: (c) => c.family,
      render: (c) => (
        <div>
          <Text size="sm" fw={550}>
            {c.family || "–"}
          </Text>
          <Text size="xs" c="dimmed">
            {[cloudName(c.cloud), c.region].join(" · ")}
          </Text>
        </div>
      ),
    },
    {
      key: "ratio",
      header: t("market.commitments.coverage"),
      width: 240,
      sort: (c) => c.ratio,
      render: (c) => <Split ratio={c.ratio} label={t("market.commitments.coverage")} />,
    },
    {
      key: "eligible",
      header: t("market.commitments.eligibleHours"),
      align: "right",
      sort: (c) => c.eligibleHours,
      render: (c) => f.number(c.eligibleHours),
    },
    {
      key: "covered",
      header: t("market.commitments.coveredHours"),
      align: "right",
      sort: (c) => c.coveredHours,
      render: (c) => f.number(c.coveredHours),
    },
    {
      key: "cost",
      header: t("market.commitments.onDemandCost"),
      align: "right",
      sort: (c) => moneyNumber(c.onDemandCost),
      render: (c) => (
        <Group gap={6} justify="flex-end" wrap="nowrap">
          {c.unlisted && (
            <Tooltip label={t("market.commitments.unlistedHint")}>
              <Badge color="yellow">{t("market.commitments.unlisted")}</Badge>
            </Tooltip>
          )}
          {f.money(c.onDemandCost)}
        </Group>
      ),
    },
    {
      key: "coveredCost",
      header: t("market.commitments.coveredCost"),
      align: "right",
      sort: (c) => moneyNumber(c.coveredCost),
      render: (c) => f.money(c.coveredCost),
    },
  ];
  return (
    <DataTable
      label={t("market.commitments.coverage")}
      rows={rows}
      columns={columns}
      rowKey={(c) => `${c.cloud}/${c.region}/${c.family}`}
      minWidth={900}
    />
  );
}

export function CommitmentTable({
  rows,
  onDelete,
}: {
  rows: readonly Commitment[];
  onDelete?: (c: Commitment) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const amount = (c: Commitment) =>
    c.spend
      ? t("common.perHour", { value: f.money(c.spend, { style: "fine" }) })
      : t(`market.commitments.amount.${c.resource}`, { value: f.number(c.quantity) });
  const columns: Column<Commitment>[] = [
    { key: "ref", header: t("market.commitments.one"), sort: (c) => c.ref, render: (c) => <RefName of={c} /> },
    {
      key: "scope",
      header: t("market.commitments.for"),
      sort: (c) => c.scope,
      render: (c) => (
        <div>
          <Text size="sm">{c.scope || t("market.commitments.anyMachine")}</Text>
          <Text size="xs" c="dimmed">
            {[cloudName(c.cloud), c.place || t("market.commitments.everywhere")].join(" · ")}
          </Text>
        </div>
      ),
    },
    {
      key: "amount",
      header: t("market.commitments.size"),
      align: "right",
      sort: (c) => (c.spend ? moneyNumber(c.spend) : c.quantity),
      render: amount,
    },
    {
      key: "hour",
      header: t("market.commitments.hourCost"),
      align: "right",
      sort: (c) => moneyNumber(c.hourCost),
      render: (c) => <Price value={c.hourCost} strong />,
    },
    {
      key: "term",
      header: t("market.commitments.term"),
      sort: (c) => c.endsAt?.getTime() ?? null,
      render: (c) => (
        <Text size="sm" style={{ whiteSpace: "nowrap" }}>
          {f.calendarDate(c.startsAt)} – {c.endsAt ? f.calendarDate(c.endsAt) : t("market.commitments.open")}
        </Text>
      ),
    },
    {
      key: "state",
      header: t("common.status"),
      sort: (c) => c.state,
      render: (c) => <Badge color={STATE_COLOR[c.state]}>{t(`market.commitments.state.${c.state}`)}</Badge>,
    },
    { key: "owner", header: t("market.commitments.owner"), sort: (c) => c.owner, render: (c) => c.owner || "–" },
  ];
  if (onDelete) {
    columns.push({
      key: "delete",
      header: "",
      align: "right",
      render: (c) => (
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={t("market.commitments.deleteOne", { ref: c.ref })}
          onClick={() => onDelete(c)}
        >
          <IconTrash size={16} />
        </ActionIcon>
      ),
    });
  }
  return (
    <DataTable
      label={t("market.commitments.tabs.list")}
      rows={rows}
      columns={columns}
      rowKey={(c) => c.id}
      minWidth={1040}
    />
  );
}

export function ExpiryTable({ rows }: { rows: readonly Expiry[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<Expiry>[] = [
    {
      key: "ref",
      header: t("market.commitments.one"),
      sort: (e) => e.ref,
      render: (e) => <RefName of={e} detail={e.owner} />,
    },
    {
      key: "ends",
      header: t("market.commitments.ends"),
      sort: (e) => e.endsAt.getTime(),
      render: (e) => f.calendarDate(e.endsAt),
    },
    {
      key: "days",
      header: t("market.commitments.daysLeft"),
      align: "right",
      sort: (e) => e.daysLeft,
      render: (e) => (
        <Text
          size="sm"
          fw={e.daysLeft <= SOON_DAYS ? 650 : undefined}
          c={e.daysLeft <= SOON_DAYS ? "orange" : undefined}
        >
          {f.integer(e.daysLeft)}
        </Text>
      ),
    },
    {
      key: "hour",
      header: t("market.commitments.hourCost"),
      align: "right",
      sort: (e) => moneyNumber(e.hourCost),
      render: (e) => <Price value={e.hourCost} />,
    },
    {
      key: "left",
      header: t("market.commitments.left"),
      align: "right",
      sort: (e) => moneyNumber(e.left),
      render: (e) => f.money(e.left, { style: "whole" }),
    },
  ];
  return (
    <DataTable
      label={t("market.commitments.tabs.expiries")}
      rows={rows}
      columns={columns}
      rowKey={(e) => e.id}
      minWidth={820}
    />
  );
}

/** The months ahead, with what ends in each. Terms are dates in UTC, as they are bought and costed. */
export function ExpiryCalendar({
  rows,
  months,
}: {
  rows: readonly Expiry[];
  months: readonly { from: Date; to: Date }[];
}) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <ol className="months" aria-label={t("market.commitments.calendar")}>
      {months.map(({ from, to }) => {
        const ends = rows.filter((e) => e.endsAt >= from && e.endsAt < to);
        return (
          <li key={from.getTime()} className="month" data-ends={ends.length > 0 || undefined}>
            <Text size="xs" c="dimmed" fw={600}>
              {f.calendarMonth(from)}
            </Text>
            <Stack gap={0} mt={2}>
              {ends.slice(0, 3).map((e) => (
                <Text key={e.id} size="xs" truncate title={e.ref}>
                  {e.ref}
                </Text>
              ))}
              {ends.length > 3 && (
                <Text size="xs" c="dimmed">
                  {t("market.commitments.more", { value: f.integer(ends.length - 3) })}
                </Text>
              )}
            </Stack>
          </li>
        );
      })}
    </ol>
  );
}
