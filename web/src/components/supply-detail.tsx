import { Group, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Supply, SupplyHistory } from "../api/availability";
import { cloudName } from "../lib/cloud";
import { useFormat } from "../lib/format";
import { PurchaseBadge } from "./badge";
import { Chart, Legend } from "./chart/chart";
import { useChartColors } from "./chart/colors";
import type { Line } from "./chart/model";
import { Countdown, useMeasure } from "./heat-map";
import { Facts } from "./page";

/** All that is known of one offering. */
export function SupplyFacts({
  supply: s,
  waitLeft,
  bandsDate,
}: {
  supply: Supply;
  waitLeft: number | null;
  bandsDate: Date;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const words = useMeasure();
  const { evidence: e } = s;
  return (
    <Stack gap="lg">
      <Group gap="sm">
        <PurchaseBadge purchase={s.purchase} />
        <Text size="sm" c="dimmed">
          {[cloudName(s.cloud), s.zone || s.region].join(" · ")}
        </Text>
      </Group>
      <Facts
        items={[
          { label: t("market.supply.measure.now"), value: words(s, "now") },
          { label: t("market.supply.measure.hour"), value: words(s, "hour") },
          { label: t("market.supply.measure.survives"), value: words(s, "survives") },
          {
            label: t("market.supply.measure.hazard"),
            hint: t("market.supply.hazardHint"),
            value: words(s, "hazard"),
          },
          { label: t("market.supply.measure.wait"), hint: t("market.supply.waitHint"), value: words(s, "wait") },
          {
            label: t("market.supply.backoff"),
            hint: t("market.supply.backoffHint"),
            value: <Countdown seconds={waitLeft} />,
          },
          {
            label: t("market.supply.priceRatio"),
            value: s.priceRatio === null ? t("common.unknown") : f.percent(s.priceRatio),
          },
          ...(s.purchase === "spot"
            ? [
                {
                  label: t("market.supply.placement"),
                  hint: t("market.supply.placementHint"),
                  value: s.placement
                    ? `${t("market.supply.placementIs", { score: f.integer(s.placement.score) })}, ${t("market.supply.placementFor", { value: f.integer(s.placement.machines), time: f.dateTime(s.placement.seenAt) })}`
                    : t("market.supply.placementNone"),
                },
              ]
            : []),
        ]}
      />
      <div>
        <Title order={3} fz="md" mb="xs">
          {t("market.supply.evidence")}
        </Title>
        <Facts
          items={[
            { label: t("market.supply.attempts"), value: f.number(e.attempts) },
            { label: t("market.supply.stockOuts"), value: f.number(e.stockOuts) },
            { label: t("market.supply.interruptions"), value: f.number(e.interruptions) },
            { label: t("market.supply.observedHours"), value: f.number(e.observedHours) },
            { label: t("market.supply.failures"), value: f.integer(e.failures) },
            { label: t("market.supply.lastSeen"), value: e.lastSeen ? f.dateTime(e.lastSeen) : t("clusters.never") },
            { label: t("market.supply.prior"), hint: t("market.supply.priorHint"), value: f.percent(s.priorShare) },
          ]}
        />
        <Text size="xs" c="dimmed" mt="xs">
          {t("market.supply.evidenceHint")} {t("market.supply.bands", { date: f.calendarDate(bandsDate) })}
        </Text>
      </div>
    </Stack>
  );
}

/** What was seen of it in the last week. */
export function SupplyChart({ history }: { history: SupplyHistory }) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const bar = (key: string, name: string, values: number[], color: string): Line => ({
    key,
    name,
    values,
    color,
    shape: "bar",
    stack: "events",
  });
  const lines = [
    bar("had", t("market.supply.had"), history.had, colors.series[0] ?? colors.up),
    bar("stockOuts", t("market.supply.stockOuts"), history.stockOuts, colors.series[1] ?? colors.down),
    bar("lost", t("market.supply.lost"), history.lost, colors.danger),
  ];
  return (
    <Stack gap="sm">
      <Chart
        at={history.at}
        lines={lines}
        from={history.from}
        to={history.to}
        height={180}
        whole
        format={(v) => f.integer(v)}
        label={t("market.supply.week")}
      />
      <Legend lines={lines} />
    </Stack>
  );
}
