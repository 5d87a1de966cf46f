import { Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { CommitmentSeries } from "../api/commitment-stock";
import { useFormat } from "../lib/format";
import { Chart, Legend } from "./chart/chart";
import { useChartColors } from "./chart/colors";
import type { Line } from "./chart/model";

/** Use in money and in shares, step by step. Used and unused add up to what was bought. */
export function SeriesCharts({ series }: { series: CommitmentSeries }) {
  const { t } = useTranslation();
  const f = useFormat();
  const colors = useChartColors();
  const money = useMemo((): Line[] => {
    const bar = (key: "used" | "unused", name: string, color: string): Line => ({
      key,
      name,
      values: series[key],
      color,
      shape: series.step === "day" ? "bar" : "area",
      stack: "bought",
    });
    return [
      bar("used", t("market.commitments.used"), colors.series[0] ?? colors.up),
      bar("unused", t("market.commitments.unused"), colors.series[1] ?? colors.down),
    ];
  }, [series, colors, t]);
  const shares = useMemo(
    (): Line[] => [
      {
        key: "utilisation",
        name: t("market.commitments.utilisation"),
        values: series.utilisation,
        color: colors.series[0] ?? colors.up,
      },
      {
        key: "coverage",
        name: t("market.commitments.coverage"),
        values: series.coverage,
        color: colors.series[2] ?? colors.muted,
        dashed: true,
      },
    ],
    [series, colors, t],
  );
  const common = { at: series.at, from: series.from, to: series.to, height: 200, group: "commitments" };
  return (
    <Stack gap="sm">
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="lg">
        <Stack gap="xs">
          <Chart
            {...common}
            lines={money}
            format={(v) => f.price(v)}
            axisFormat={(v) => f.moneyAxis(v)}
            sum={t("market.commitments.bought")}
            label={`${t("market.commitments.used")}, ${t("market.commitments.unused")}`}
          />
          <Legend lines={money} />
        </Stack>
        <Stack gap="xs">
          <Chart
            {...common}
            lines={shares}
            most={1}
            format={(v) => f.percent(v)}
            label={`${t("market.commitments.utilisation")}, ${t("market.commitments.coverage")}`}
          />
          <Legend lines={shares} />
        </Stack>
      </SimpleGrid>
      <Group justify="flex-end">
        <Text size="xs" c="dimmed">
          {t(`market.commitments.perStep.${series.step}`)}
        </Text>
      </Group>
    </Stack>
  );
}
