import { Group, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Comparison, RolloutPart } from "../../api/capacity-policy";
import { useFormat } from "../../lib/format";
import { Stat } from "../page";
import { StaleNote } from "../state";
import { heldText, offeringText } from "./words";

/** What two policies lead to, from the same inventory. */
export function PolicyComparison({ comparison: c }: { comparison: Comparison }) {
  const { t } = useTranslation();
  const f = useFormat();
  const rows = [
    { name: t("capacityPolicy.plan.machines"), a: f.integer(c.inForce.machines), b: f.integer(c.proposed.machines) },
    { name: t("capacityPolicy.plan.spot"), a: f.integer(c.inForce.spot), b: f.integer(c.proposed.spot) },
    { name: t("capacityPolicy.plan.adds"), a: f.integer(c.inForce.adds), b: f.integer(c.proposed.adds) },
    { name: t("capacityPolicy.plan.drains"), a: f.integer(c.inForce.drains), b: f.integer(c.proposed.drains) },
    { name: t("capacityPolicy.plan.moves"), a: f.integer(c.inForce.moves), b: f.integer(c.proposed.moves) },
    { name: t("capacityPolicy.plan.left"), a: f.integer(c.inForce.left), b: f.integer(c.proposed.left) },
    {
      name: t("capacityPolicy.plan.interruptions"),
      a: f.number(c.inForce.interruptionsPerHour),
      b: f.number(c.proposed.interruptionsPerHour),
    },
    {
      name: t("capacityPolicy.plan.stockOut"),
      a: f.percent(c.inForce.stockOut),
      b: f.percent(c.proposed.stockOut),
    },
  ];
  const unpriced = Math.max(c.inForce.unpriced, c.proposed.unpriced);
  return (
    <Stack gap="md" data-policy-comparison>
      {c.proposed.left > c.inForce.left && <StaleNote>{t("capacityPolicy.plan.leaves")}</StaleNote>}
      {[...new Set([...c.inForce.held, ...c.proposed.held])].map((h) => (
        <StaleNote key={h}>{heldText(t, h)}</StaleNote>
      ))}
      <SimpleGrid cols={{ base: 1, sm: 3 }}>
        <Stat label={t("capacityPolicy.plan.costNow")} value={f.money(c.cost)} />
        <Stat
          label={`${t("capacityPolicy.plan.cost")} · ${t("capacityPolicy.plan.inForce")}`}
          value={f.money(c.inForce.after)}
        />
        <Stat
          label={`${t("capacityPolicy.plan.cost")} · ${t("capacityPolicy.plan.proposed")}`}
          value={f.money(c.proposed.after)}
        />
      </SimpleGrid>
      <Group align="flex-start" gap="xl">
        <Table w="auto" verticalSpacing={4} aria-label={t("capacityPolicy.preview")}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th />
              <Table.Th ta="right">{t("capacityPolicy.plan.inForce")}</Table.Th>
              <Table.Th ta="right">{t("capacityPolicy.plan.proposed")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((r) => (
              <Table.Tr key={r.name}>
                <Table.Td>{r.name}</Table.Td>
                <Table.Td ta="right" className="number">
                  {r.a}
                </Table.Td>
                <Table.Td ta="right" className="number" fw={r.a === r.b ? undefined : 650}>
                  {r.b}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
        {c.offerings.length === 0 ? (
          <Text size="sm" c="dimmed">
            {t("capacityPolicy.previewSame")}
          </Text>
        ) : (
          <Table w="auto" verticalSpacing={4} aria-label={t("capacityPolicy.plan.offering")}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("capacityPolicy.plan.offering")}</Table.Th>
                <Table.Th ta="right">{t("capacityPolicy.plan.now")}</Table.Th>
                <Table.Th ta="right">{t("capacityPolicy.plan.inForce")}</Table.Th>
                <Table.Th ta="right">{t("capacityPolicy.plan.proposed")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {c.offerings.map((d) => (
                <Table.Tr key={offeringText(t, d.offering)}>
                  <Table.Td>{offeringText(t, d.offering)}</Table.Td>
                  <Table.Td ta="right" className="number">
                    {f.integer(d.now)}
                  </Table.Td>
                  <Table.Td ta="right" className="number">
                    {f.integer(d.inForce)}
                  </Table.Td>
                  <Table.Td ta="right" className="number" fw={d.inForce === d.proposed ? undefined : 650}>
                    {f.integer(d.proposed)}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        )}
      </Group>
      {unpriced > 0 && (
        <Text size="xs" c="dimmed">
          {t("capacityPolicy.plan.unpriced", { value: f.integer(unpriced) })}
        </Text>
      )}
      {(c.inForce.incomplete || c.proposed.incomplete) && (
        <Text size="xs" c="dimmed">
          {t("capacityPolicy.plan.incomplete")}
        </Text>
      )}
    </Stack>
  );
}

/** What a part of a rollout is watched by: before, and at the newest look. */
export function PartSigns({ part: p }: { part: RolloutPart }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { before: b, after: a } = p;
  if (!b) return null;
  const unknown = t("capacityPolicy.rollout.unknown");
  const or = <T,>(v: T | null | undefined, show: (v: T) => string) =>
    v === null || v === undefined ? unknown : show(v);
  const rows = [
    {
      key: "long_waiting",
      before: f.integer(b.longWaiting),
      after: or(a?.longWaiting, f.integer),
    },
    { key: "breached", before: f.integer(b.breached), after: or(a?.breached, f.integer) },
    { key: "failed", before: f.integer(b.failed), after: or(a?.failed, f.integer) },
    { key: "interruptions", before: f.integer(b.interruptions), after: or(a?.interruptions, f.integer) },
    { key: "ready", before: or(b.readySeconds, f.duration), after: or(a?.readySeconds, f.duration) },
    {
      key: "cost",
      before: or(b.cost, (m) => f.money(m)),
      after: or(a?.cost, (m) => f.money(m)),
      limit: p.costLimit && f.money(p.costLimit),
    },
    { key: "late", before: or(b.late, (v) => f.percent(v)), after: or(a?.late, (v) => f.percent(v)) },
    { key: "errors", before: or(b.errors, (v) => f.percent(v)), after: or(a?.errors, (v) => f.percent(v)) },
  ] as const;
  return (
    <Table.ScrollContainer minWidth={420}>
      <Table verticalSpacing={3} w="auto" aria-label={t("capacityPolicy.rollout.guard")}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("capacityPolicy.rollout.guard")}</Table.Th>
            <Table.Th ta="right">{t("capacityPolicy.before")}</Table.Th>
            <Table.Th ta="right">{t("capacityPolicy.after")}</Table.Th>
            <Table.Th ta="right">{t("capacityPolicy.rollout.limit")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((r) => (
            <Table.Tr key={r.key}>
              <Table.Td>{t(`capacityPolicy.rollout.signs.${r.key}`)}</Table.Td>
              <Table.Td ta="right" className="number">
                {r.before}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {r.after}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {"limit" in r && r.limit ? r.limit : ""}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
