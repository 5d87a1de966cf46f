import { Badge, Card, Group, Stack, Table, Text, Title } from "@mantine/core";
import { IconCheck, IconX } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { Advice } from "../api/commitments";
import { cloudName } from "../lib/cloud";
import { useFormat } from "../lib/format";
import { Facts, Hint } from "./page";

const SHOWN = 8;

function Levels({ advice }: { advice: Advice }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { levels } = advice;
  return (
    <Table.ScrollContainer minWidth={560}>
      <Table className="data-table" verticalSpacing={6} aria-label={t("market.commitments.levels")}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("market.commitments.level")}</Table.Th>
            <Table.Th ta="right">{t("market.commitments.busy")}</Table.Th>
            <Table.Th ta="right">{t("market.commitments.spotServes")}</Table.Th>
            <Table.Th ta="right">
              {t("market.commitments.instead")} <Hint text={t("market.commitments.insteadHint")} />
            </Table.Th>
            <Table.Th ta="right">{t("market.commitments.reserved")}</Table.Th>
            <Table.Th>{t("market.commitments.worth")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {levels.slice(0, SHOWN).map((l) => (
            <Table.Tr key={l.level}>
              <Table.Td>{t("market.commitments.machine", { value: f.integer(l.level) })}</Table.Td>
              <Table.Td ta="right">{f.percent(l.busy)}</Table.Td>
              <Table.Td ta="right">{f.percent(l.spotAvailable)}</Table.Td>
              <Table.Td ta="right">{f.money(l.instead, { style: "fine" })}</Table.Td>
              <Table.Td ta="right">{f.money(l.reserved, { style: "fine" })}</Table.Td>
              <Table.Td>
                <Group gap={5} wrap="nowrap" c={l.buy ? "teal" : "dimmed"}>
                  {l.buy ? <IconCheck size={15} aria-hidden /> : <IconX size={15} aria-hidden />}
                  <Text size="sm">{l.buy ? t("market.commitments.buy") : t("market.commitments.leave")}</Text>
                </Group>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {levels.length > SHOWN && (
        <Text size="xs" c="dimmed" mt={4}>
          {t("common.of", { part: f.integer(SHOWN), whole: f.integer(levels.length) })}
        </Text>
      )}
    </Table.ScrollContainer>
  );
}

function AdviceCard({ advice: a }: { advice: Advice }) {
  const { t } = useTranslation();
  const f = useFormat();
  const buy = a.buy > 0;
  return (
    <Card className="card" padding="md" data-advice={a.key}>
      <Group justify="space-between" align="flex-start" gap="md" mb="sm">
        <div>
          <Title order={3} fz="md">
            {a.instanceType}
          </Title>
          <Text size="sm" c="dimmed">
            {cloudName(a.cloud)} · {a.region}
          </Text>
        </div>
        <Group gap="sm">
          {buy && (
            <Text size="sm" fw={600} className="number">
              {t("market.commitments.saves", { value: f.money(a.savingMonth, { style: "whole" }) })}
            </Text>
          )}
          <Badge color={buy ? "teal" : "gray"} size="lg">
            {buy
              ? t("market.commitments.reserveMore", { value: f.integer(a.buy) })
              : t("market.commitments.reserveNone")}
          </Badge>
        </Group>
      </Group>
      <Stack gap="sm">
        <Facts
          columns={2}
          items={[
            { label: t("purchase.on_demand"), value: f.money(a.onDemand, { style: "fine" }) },
            { label: t("purchase.spot"), value: a.spot ? f.money(a.spot, { style: "fine" }) : t("common.unknown") },
            {
              label: t("purchase.reserved"),
              value: `${f.money(a.reserved, { style: "fine" })} · ${t(`market.commitments.reservedSource.${a.reservedSource}`)}`,
            },
            { label: t("market.commitments.owned"), value: f.integer(a.owned) },
          ]}
        />
        <Levels advice={a} />
      </Stack>
    </Card>
  );
}

/** What to reserve, with the numbers that each machine was weighed by. */
export function AdviceList({ items }: { items: readonly Advice[] }) {
  return (
    <Stack gap="md">
      {items.map((a) => (
        <AdviceCard key={a.key} advice={a} />
      ))}
    </Stack>
  );
}
