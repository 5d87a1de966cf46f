import { Badge, Group, Text, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { type Pool, poolKey, type Quarantined, type SpotOffer, type SpotStats } from "../api/spot";
import { useFormat } from "../lib/format";
import { type Money, moneyNumber } from "../lib/money";
import { PoolName, Price } from "./offering";
import { Hint } from "./page";
import { type Column, DataTable } from "./table";

const byMoney = (m: Money | null) => (m ? moneyNumber(m) : null);
const rowKey = (pool: Pool) => `${poolKey(pool)}/${pool.zone}/${pool.product}`;

function Headed({ text, hint }: { text: string; hint: string }) {
  return (
    <span style={{ whiteSpace: "nowrap" }}>
      {text} <Hint text={hint} />
    </span>
  );
}

export function StatsTable({ rows, onPick }: { rows: readonly SpotStats[]; onPick: (pool: Pool) => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const ratio = (v: number | null) => (v === null ? "–" : f.percent(v));
  const columns: Column<SpotStats>[] = [
    {
      key: "pool",
      header: t("market.pool"),
      sort: (s) => rowKey(s.pool),
      render: (s) => <PoolName pool={s.pool} machine={s.machine} onClick={() => onPick(s.pool)} />,
    },
    {
      key: "level",
      header: <Headed text={t("market.level")} hint={t("market.levelHint")} />,
      align: "right",
      sort: (s) => byMoney(s.level),
      render: (s) => <Price value={s.level} strong />,
    },
    {
      key: "perGpu",
      header: t("market.perGpuShort"),
      align: "right",
      sort: (s) => byMoney(s.perGpu),
      render: (s) => <Price value={s.perGpu} />,
    },
    {
      key: "onDemand",
      header: t("purchase.on_demand"),
      align: "right",
      sort: (s) => byMoney(s.onDemand),
      render: (s) => <Price value={s.onDemand} />,
    },
    {
      key: "discount",
      header: t("market.discount"),
      align: "right",
      sort: (s) => s.discount,
      render: (s) => ratio(s.discount),
    },
    {
      key: "volatility",
      header: <Headed text={t("market.volatility")} hint={t("market.volatilityHint")} />,
      align: "right",
      sort: (s) => s.volatility,
      render: (s) => ratio(s.volatility),
    },
    {
      key: "changes",
      header: t("market.changesShort"),
      align: "right",
      sort: (s) => s.changesPerDay,
      render: (s) => f.number(s.changesPerDay),
    },
    {
      key: "jump",
      header: <Headed text={t("market.jumpShort")} hint={t("market.jumpHint")} />,
      align: "right",
      sort: (s) => s.jumpProbability,
      render: (s) => ratio(s.jumpProbability),
    },
    {
      key: "listed",
      header: <Headed text={t("market.listed")} hint={t("market.listedHint")} />,
      align: "right",
      sort: (s) => s.listedShare,
      render: (s) => f.percent(s.listedShare),
    },
  ];
  return (
    <DataTable
      label={t("market.tabs.stats")}
      rows={rows}
      columns={columns}
      rowKey={(s) => rowKey(s.pool)}
      onOpen={(s) => onPick(s.pool)}
      minWidth={1040}
    />
  );
}

export function CheapestTable({ rows, onExplain }: { rows: readonly SpotOffer[]; onExplain: (pool: Pool) => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<SpotOffer>[] = [
    {
      key: "pool",
      header: t("market.pool"),
      sort: (o) => rowKey(o.pool),
      render: (o) => <PoolName pool={o.pool} machine={o.machine} onClick={() => onExplain(o.pool)} />,
    },
    {
      key: "price",
      header: t("market.price"),
      align: "right",
      sort: (o) => byMoney(o.price),
      render: (o) => <Price value={o.price} strong />,
    },
    {
      key: "perGpu",
      header: t("market.perGpuShort"),
      align: "right",
      sort: (o) => byMoney(o.perGpu),
      render: (o) => <Price value={o.perGpu} />,
    },
    {
      key: "onDemand",
      header: t("purchase.on_demand"),
      align: "right",
      sort: (o) => byMoney(o.onDemand),
      render: (o) => <Price value={o.onDemand} />,
    },
    {
      key: "discount",
      header: t("market.discount"),
      align: "right",
      sort: (o) => o.discount,
      render: (o) => (o.discount === null ? "–" : f.percent(o.discount)),
    },
    {
      key: "source",
      header: t("market.source"),
      render: (o) => <Source source={o.source} at={o.at} stale={o.stale} />,
    },
  ];
  return (
    <DataTable
      label={t("market.tabs.cheapest")}
      rows={rows}
      columns={columns}
      rowKey={(o) => rowKey(o.pool)}
      onOpen={(o) => onExplain(o.pool)}
      minWidth={1000}
    />
  );
}

/** A source that carries its date already. */
const DATED = / \d{4}-\d\d-\d\d$/;

/** Where a price came from and since when it holds; an old one says so. */
export function Source({ source, at, stale }: { source: string; at: Date | null; stale: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <Group gap={8} wrap="nowrap">
      <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
        {[source, at && !DATED.test(source) ? t("market.since", { time: f.date(at) }) : ""]
          .filter(Boolean)
          .join(" · ") || "–"}
      </Text>
      {stale && (
        <Tooltip label={t("market.staleHint")}>
          <Badge color="yellow">{t("market.stale")}</Badge>
        </Tooltip>
      )}
    </Group>
  );
}

export function QuarantineTable({ rows }: { rows: readonly Quarantined[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<Quarantined>[] = [
    { key: "found", header: t("market.found"), sort: (q) => q.foundAt.getTime(), render: (q) => f.dateTime(q.foundAt) },
    { key: "pool", header: t("market.pool"), sort: (q) => rowKey(q.pool), render: (q) => <PoolName pool={q.pool} /> },
    {
      key: "claimed",
      header: t("market.claimed"),
      render: (q) => (
        <Text size="sm" className="number">
          {[q.spot && `${t("purchase.spot")} ${q.spot}`, q.onDemand && `${t("purchase.on_demand")} ${q.onDemand}`]
            .filter(Boolean)
            .join(" · ") || "–"}
        </Text>
      ),
    },
    {
      key: "expected",
      header: t("market.expected"),
      align: "right",
      sort: (q) => byMoney(q.expected),
      render: (q) => <Price value={q.expected} />,
    },
    {
      key: "reason",
      header: t("market.reason"),
      sort: (q) => q.reason,
      render: (q) => <Text size="sm">{t(`market.suspect.${q.reason}`)}</Text>,
    },
    {
      key: "source",
      header: t("market.source"),
      render: (q) => <Source source={q.source} at={q.at} stale={false} />,
    },
  ];
  return (
    <DataTable
      label={t("market.tabs.quarantine")}
      rows={rows}
      columns={columns}
      rowKey={(q) => String(q.id)}
      minWidth={1000}
    />
  );
}
