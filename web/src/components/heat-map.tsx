import { Badge, Group, Text, Tooltip } from "@mantine/core";
import { IconClockPause } from "@tabler/icons-react";
import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";
import type { Supply } from "../api/availability";
import { cloudName } from "../lib/cloud";
import { type Format, useFormat } from "../lib/format";
import { goodness, heatGrid, type Measure } from "../lib/supply";
import { PurchaseBadge } from "./badge";
import { OfferingName } from "./offering";
import { Hint } from "./page";
import { type Column, DataTable } from "./table";

/** Mostly from the published bands and its neighbours, not from what was seen of it. */
const MOSTLY_PRIOR = 0.75;

/** A chance in words. Near certainty the tenths matter, and what is not certain never reads as 100 %. */
export function chanceText(f: Format, p: number): string {
  if (p > 0.999 && p < 1) return `> ${f.percent(0.999, 1)}`;
  return f.percent(p, p > 0.98 && p < 1 ? 1 : 0);
}

function riskText(f: Format, rate: number): string {
  return rate > 0 && rate < 0.0001 ? `< ${f.percent(0.0001)}` : f.percent(rate);
}

/** A measure's figure in words. */
export function useMeasure(): (s: Supply, measure: Measure) => string {
  const { t } = useTranslation();
  const f = useFormat();
  return (s, measure) => {
    switch (measure) {
      case "hour":
        return chanceText(f, s.availableNextHour);
      case "now":
        return chanceText(f, s.availableNow);
      case "survives":
        return chanceText(f, s.survivesNextHour);
      case "hazard":
        return riskText(f, s.hazard);
      case "wait":
        return s.expectedSeconds === null ? t("market.supply.notToday") : f.duration(s.expectedSeconds);
    }
  };
}

function heat(good: number): CSSProperties {
  // Half of the scale lies between 80 % and 100 %, where the differences are that matter.
  const share = Math.round(Math.min(1, Math.max(0, good)) ** 3 * 100);
  return { backgroundColor: `color-mix(in oklab, var(--heat-good) ${share}%, var(--heat-bad))` };
}

/** Machine types by zones. Each cell says its figure, so that the colour is never the only carrier. */
export function HeatMap({
  items,
  measure,
  onOpen,
}: {
  items: readonly Supply[];
  measure: Measure;
  onOpen: (s: Supply) => void;
}) {
  const { t } = useTranslation();
  const words = useMeasure();
  const grid = heatGrid(items);
  return (
    <div className="heat-scroll">
      <table className="heat" aria-label={t("market.supply.map")}>
        <thead>
          <tr>
            <th rowSpan={2} scope="col">
              {t("nodes.type")}
            </th>
            {grid.regions.map((r) => (
              <th key={r.key} colSpan={r.zones} scope="colgroup" className="heat-region">
                {cloudName(r.cloud)} · {r.region}
              </th>
            ))}
          </tr>
          <tr>
            {grid.zones.map((z) => (
              <th key={z.key} scope="col">
                {z.zone || t("market.wholeRegion")}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {grid.rows.map((row) => (
            <tr key={row.key}>
              <th scope="row">
                <Group gap={8} wrap="nowrap" justify="space-between">
                  <span>{row.instanceType}</span>
                  <PurchaseBadge purchase={row.purchase} />
                </Group>
              </th>
              {row.cells.map((s, i) => (
                <td key={grid.zones[i]?.key}>
                  {s ? (
                    <Tooltip label={<CellHint supply={s} />}>
                      <button
                        type="button"
                        className="heat-cell"
                        data-prior={s.priorShare > MOSTLY_PRIOR || undefined}
                        style={heat(goodness(s, measure))}
                        aria-label={t("market.supply.cell", {
                          type: s.instanceType,
                          zone: s.zone || s.region,
                          value: words(s, measure),
                        })}
                        onClick={() => onOpen(s)}
                      >
                        {words(s, measure)}
                        {s.backoffUntil && <IconClockPause size={13} aria-label={t("market.supply.backoff")} />}
                      </button>
                    </Tooltip>
                  ) : (
                    <span className="heat-none" aria-hidden>
                      ·
                    </span>
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function CellHint({ supply: s }: { supply: Supply }) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <div>
      <div>
        {t("market.supply.seen", {
          attempts: f.number(s.evidence.attempts),
          hours: f.number(s.evidence.observedHours),
        })}
      </div>
      <div>
        {t("market.supply.bad", {
          stockOuts: f.number(s.evidence.stockOuts),
          interruptions: f.number(s.evidence.interruptions),
        })}
      </div>
      <div>{t("market.supply.priorIs", { share: f.percent(s.priorShare) })}</div>
    </div>
  );
}

/** What the colours mean. */
export function HeatLegend({ measure }: { measure: Measure }) {
  const { t } = useTranslation();
  return (
    <Group gap="lg" style={{ rowGap: 6 }}>
      <Group gap={8} wrap="nowrap">
        <Text size="xs" c="dimmed">
          {t(`market.supply.worst.${measure}`)}
        </Text>
        <span className="heat-scale" aria-hidden />
        <Text size="xs" c="dimmed">
          {t(`market.supply.best.${measure}`)}
        </Text>
      </Group>
      <Group gap={8} wrap="nowrap">
        <span className="heat-swatch" data-prior aria-hidden />
        <Text size="xs" c="dimmed">
          {t("market.supply.mostlyPrior")}
        </Text>
      </Group>
      <Group gap={4} wrap="nowrap">
        <IconClockPause size={13} aria-hidden />
        <Text size="xs" c="dimmed">
          {t("market.supply.backoff")}
        </Text>
      </Group>
    </Group>
  );
}

/** The same offerings as rows with every figure. */
export function SupplyTable({
  items,
  waitLeft,
  onOpen,
}: {
  items: readonly Supply[];
  /** Seconds until an attempt is worth its trouble again; null: now. */
  waitLeft: (s: Supply) => number | null;
  onOpen: (s: Supply) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const words = useMeasure();
  const columns: Column<Supply>[] = [
    {
      key: "offering",
      header: t("market.supply.offering"),
      sort: (s) => s.key,
      render: (s) => (
        <OfferingName
          type={s.instanceType}
          cloud={s.cloud}
          place={`${s.zone || s.region} · ${t(`purchase.${s.purchase}`)}`}
          onClick={() => onOpen(s)}
        />
      ),
    },
    {
      key: "hour",
      header: t("market.supply.measure.hour"),
      align: "right",
      sort: (s) => s.availableNextHour,
      render: (s) => words(s, "hour"),
    },
    {
      key: "survives",
      header: t("market.supply.measure.survives"),
      align: "right",
      sort: (s) => s.survivesNextHour,
      render: (s) => words(s, "survives"),
    },
    {
      key: "hazard",
      header: t("market.supply.measure.hazard"),
      align: "right",
      sort: (s) => s.hazard,
      render: (s) => words(s, "hazard"),
    },
    {
      key: "wait",
      header: t("market.supply.measure.wait"),
      align: "right",
      sort: (s) => s.expectedSeconds ?? Number.MAX_VALUE,
      render: (s) => words(s, "wait"),
    },
    ...(items.some((s) => s.placement)
      ? [
          {
            key: "placement",
            header: (
              <span>
                {t("market.supply.placement")} <Hint text={t("market.supply.placementHint")} />
              </span>
            ),
            align: "right" as const,
            sort: (s: Supply) => s.placement?.score ?? null,
            render: (s: Supply) =>
              s.placement ? t("market.supply.placementIs", { score: f.integer(s.placement.score) }) : "–",
          },
        ]
      : []),
    {
      key: "backoff",
      header: t("market.supply.backoff"),
      align: "right",
      sort: (s) => waitLeft(s),
      render: (s) => <Countdown seconds={waitLeft(s)} />,
    },
    {
      key: "evidence",
      header: (
        <span>
          {t("market.supply.evidence")} <Hint text={t("market.supply.evidenceHint")} />
        </span>
      ),
      align: "right",
      sort: (s) => s.evidence.attempts,
      render: (s) => (
        <div>
          <Text size="sm">{t("market.supply.tried", { value: f.number(s.evidence.attempts) })}</Text>
          <Text size="xs" c="dimmed">
            {t("market.supply.counts", {
              stockOuts: f.number(s.evidence.stockOuts),
              interruptions: f.number(s.evidence.interruptions),
            })}
          </Text>
        </div>
      ),
    },
    {
      key: "prior",
      header: (
        <span>
          {t("market.supply.prior")} <Hint text={t("market.supply.priorHint")} />
        </span>
      ),
      align: "right",
      sort: (s) => s.priorShare,
      render: (s) => f.percent(s.priorShare),
    },
  ];
  return (
    <DataTable
      label={t("market.supply.table")}
      rows={items}
      columns={columns}
      rowKey={(s) => s.key}
      onOpen={onOpen}
      minWidth={1080}
    />
  );
}

/** How long an offering is left alone. */
export function Countdown({ seconds }: { seconds: number | null }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (seconds === null || seconds <= 0)
    return (
      <Text size="sm" c="dimmed" span>
        –
      </Text>
    );
  return (
    <Badge color="orange" leftSection={<IconClockPause size={12} />}>
      {t("approvals.expiresIn", { time: f.duration(seconds) })}
    </Badge>
  );
}
