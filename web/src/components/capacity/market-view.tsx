import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { MarketPool, PlannedMarket } from "../../api/capacity-market";
import { useFormat } from "../../lib/format";
import { PurchaseBadge } from "../badge";
import { OfferingName, Price } from "../offering";
import { type Column, DataTable } from "../table";
import { offeringText } from "./words";

/** Where Spot was considered for pods without a machine: what each pool holds, may be asked for, and why. */
export function MarketTable({ market }: { market: PlannedMarket }) {
  const { t } = useTranslation();
  const f = useFormat();
  const state = (p: MarketPool) => {
    if (p.backoffUntil) return t("capacity.market.wait", { time: f.dateTime(p.backoffUntil) });
    if (p.most === null) return t("capacity.market.open");
    return p.most > p.held ? t("capacity.market.ask", { value: f.integer(p.most) }) : t("capacity.market.full");
  };
  const columns: Column<MarketPool>[] = [
    {
      key: "pool",
      header: t("capacity.market.pool"),
      render: (p) => (
        <OfferingName
          type={p.offering.instanceType}
          cloud={p.offering.cloud}
          place={p.offering.zone || p.offering.region}
        />
      ),
    },
    { key: "purchase", header: "", render: (p) => <PurchaseBadge purchase={p.offering.purchase} /> },
    { key: "price", header: t("capacity.market.price"), align: "right", render: (p) => <Price value={p.price} /> },
    {
      key: "score",
      header: t("capacity.market.score"),
      align: "right",
      render: (p) => (p.score === null ? "–" : f.number(p.score)),
    },
    {
      key: "hazard",
      header: t("capacity.market.hazard"),
      align: "right",
      render: (p) => (p.hazard === null ? "–" : f.number(p.hazard)),
    },
    { key: "held", header: t("capacity.market.held"), align: "right", render: (p) => f.integer(p.held) },
    { key: "target", header: t("capacity.market.target"), align: "right", render: (p) => f.integer(p.target) },
    { key: "state", header: t("capacity.market.state"), render: (p) => (p.score === null ? "–" : state(p)) },
  ];
  return (
    <div>
      <Text size="sm" px="md" pb="xs" c="dimmed">
        {t("capacity.market.for", { pods: market.pods.slice(0, 3).join(", ") || "–", want: f.integer(market.want) })}
      </Text>
      <DataTable
        label={t("capacity.market.title")}
        rows={market.pools}
        columns={columns}
        rowKey={(p) => offeringText(t, p.offering)}
        minWidth={760}
      />
    </div>
  );
}
