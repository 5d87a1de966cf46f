import { Badge, Group, NumberInput, Progress, SegmentedControl, Stack, Table, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { Basis, PriceExplained, PricePart } from "../api/catalogue";
import { PURCHASES, type Purchase } from "../api/clusters";
import { useFormat } from "../lib/format";
import { Price } from "./offering";
import { Facts } from "./page";
import { Source } from "./spot-tables";

const BASIS_COLOR: Record<Basis, string> = {
  commitment: "blue",
  contracted: "violet",
  list: "gray",
  spot: "teal",
  unknown: "orange",
};

/** How the machine is bought, and how many of them. */
export function AskedPicker({
  purchase,
  quantity,
  onChange,
}: {
  purchase: Purchase;
  quantity: number;
  onChange: (part: { purchase?: Purchase; quantity?: number }) => void;
}) {
  const { t } = useTranslation();
  return (
    <Group gap="md" align="flex-end">
      <SegmentedControl
        size="xs"
        aria-label={t("nodes.purchase")}
        value={purchase}
        onChange={(value) => onChange({ purchase: PURCHASES.find((p) => p === value) })}
        data={PURCHASES.map((p) => ({ value: p, label: t(`purchase.${p}`) }))}
      />
      <NumberInput
        size="xs"
        w={110}
        label={t("market.quantity")}
        min={1}
        max={1000}
        clampBehavior="strict"
        allowDecimal={false}
        value={quantity}
        onChange={(value) => typeof value === "number" && value >= 1 && onChange({ quantity: value })}
      />
    </Group>
  );
}

function PartRow({ part }: { part: PricePart }) {
  const { t } = useTranslation();
  const f = useFormat();
  const left = [
    part.leftMachines !== null && t("market.leftMachines", { value: f.number(part.leftMachines) }),
    part.leftSpend && t("market.leftSpend", { value: f.money(part.leftSpend, { style: "fine" }) }),
  ].filter(Boolean);
  return (
    <Table.Tr>
      <Table.Td>
        <Stack gap={2}>
          <Group gap={6}>
            <Badge color={BASIS_COLOR[part.basis]}>{t(`market.basis.${part.basis}`)}</Badge>
            {part.resource !== "machine" && (
              <Text size="xs" c="dimmed">
                {t(`market.resource.${part.resource}`)}
              </Text>
            )}
          </Group>
          {part.commitment && (
            <Text size="xs" className="mono">
              {part.commitment}
            </Text>
          )}
          {left.length > 0 && (
            <Text size="xs" c="dimmed">
              {left.join(" · ")}
            </Text>
          )}
          {(part.source || part.asOf) && <Source source={part.source} at={part.asOf} stale={part.stale} />}
        </Stack>
      </Table.Td>
      <Table.Td w={110}>
        <Text size="sm" ta="right">
          {f.percent(part.share)}
        </Text>
        <Progress value={part.share * 100} size={4} color={BASIS_COLOR[part.basis]} aria-hidden />
      </Table.Td>
      <Table.Td ta="right">
        <Price value={part.perHour} strong />
      </Table.Td>
    </Table.Tr>
  );
}

/** What the next machine costs, part by part, with the prices it was weighed from. */
export function PriceExplanation({ price }: { price: PriceExplained }) {
  const { t } = useTranslation();
  const f = useFormat();
  const known = (p: PriceExplained["list"]): ReactNode => (
    <Group gap="sm" wrap="nowrap">
      <Price value={p.hour} />
      {p.hour && <Source source={p.source} at={p.asOf} stale={p.stale} />}
    </Group>
  );
  return (
    <Stack gap="lg">
      <Group gap="xl" align="flex-end">
        <div>
          <Text size="sm" c="dimmed">
            {price.quantity === 1 ? t("market.nextMachine") : t("market.lastOf", { value: f.integer(price.quantity) })}
          </Text>
          <Text className="number" fz={28} fw={650} lh={1.2}>
            {price.perHour
              ? t("common.perHour", { value: f.money(price.perHour, { style: "fine" }) })
              : t("common.unknown")}
          </Text>
        </div>
        {price.quantity > 1 && (
          <div>
            <Text size="sm" c="dimmed">
              {t("market.allOf", { value: f.integer(price.quantity) })}
            </Text>
            <Text className="number" fz={20} fw={600} lh={1.3}>
              {price.total ? t("common.perHour", { value: f.money(price.total) }) : t("common.unknown")}
            </Text>
          </div>
        )}
      </Group>
      <Text size="sm" c="dimmed">
        {t("market.explainText", { time: f.dateTime(price.at), running: f.integer(price.running) })}
      </Text>
      <Table className="data-table" aria-label={t("market.parts")} verticalSpacing="sm" horizontalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("market.parts")}</Table.Th>
            <Table.Th ta="right">{t("market.shareOf")}</Table.Th>
            <Table.Th ta="right">{t("market.hour")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {price.parts.map((part, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: parts have no identity but their order
            <PartRow key={i} part={part} />
          ))}
        </Table.Tbody>
      </Table>
      <Facts
        items={[
          { label: t("market.basis.list"), value: known(price.list) },
          { label: t("market.basis.contracted"), hint: t("market.contractedHint"), value: known(price.contracted) },
          { label: t("market.basis.spot"), value: known(price.spot) },
        ]}
      />
    </Stack>
  );
}
