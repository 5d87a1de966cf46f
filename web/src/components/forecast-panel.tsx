import { Alert, Group, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { IconHourglass } from "@tabler/icons-react";
import type { UseQueryResult } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import type { Account, Choice, Forecast } from "../api/forecast";
import { useFormat } from "../lib/format";
import { Facts, Panel } from "./page";
import { BlockSkeleton, Empty, Gate } from "./state";

/** Kept every five minutes: what is older than three times that is not the present any more. */
const STALE = 900_000;

function useChoiceText() {
  const { t } = useTranslation();
  const f = useFormat();
  return (c: Choice) =>
    t("forecast.choice", {
      method: t(`forecast.method.${c.method}`),
      quantile: f.percent(c.quantile),
      hold: f.duration(c.holdSeconds),
    });
}

function Accounts({ forecast }: { forecast: Forecast }) {
  const { t } = useTranslation();
  const f = useFormat();
  const choice = useChoiceText();
  const rows: { key: string; name: string; account: Account | null; note?: string }[] = [
    { key: "own", name: t("forecast.own"), account: forecast.own },
    {
      key: "runner",
      name: t("forecast.runnerUp"),
      account: forecast.runnerUp,
      note: forecast.runnerUp ? choice(forecast.runnerUp) : t("forecast.noRunnerUp"),
    },
    { key: "hpa", name: t("forecast.hpa"), account: forecast.hpa },
  ];
  return (
    <Table.ScrollContainer minWidth={520}>
      <Table aria-label={t("forecast.compare")}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("forecast.compare")}</Table.Th>
            <Table.Th ta="right">{t("forecast.mean")}</Table.Th>
            <Table.Th ta="right">{t("forecast.costHour")}</Table.Th>
            <Table.Th ta="right">{t("forecast.late")}</Table.Th>
            <Table.Th ta="right">{t("forecast.cycles")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(({ key, name, account, note }) => (
            <Table.Tr key={key}>
              <Table.Td>
                <Text size="sm">{name}</Text>
                {note && (
                  <Text size="xs" c="dimmed">
                    {note}
                  </Text>
                )}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {account ? f.number(account.meanReplicas) : "–"}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {account?.costHour ? f.money(account.costHour) : "–"}
              </Table.Td>
              <Table.Td
                ta="right"
                className="number"
                c={account && account.late > forecast.objective ? "var(--mantine-color-red-text)" : undefined}
              >
                {account ? f.percent(account.late) : "–"}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {account ? f.number(account.cyclesPerHour) : "–"}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Body({ forecast, dataAt }: { forecast: Forecast; dataAt: Date | null }) {
  const { t } = useTranslation();
  const f = useFormat();
  const choice = useChoiceText();
  const { now, inCharge } = forecast;
  if (!now || !inCharge) return <Empty title={t("forecast.waiting")} text={t("forecast.waitingText")} />;
  const stale = dataAt && forecast.at && dataAt.getTime() - forecast.at.getTime() > STALE;
  return (
    <Stack gap="md">
      {stale && forecast.at && <Alert color="gray">{t("forecast.stale", { time: f.dateTime(forecast.at) })}</Alert>}
      {forecast.state === "learning" && (
        <Alert color="blue" icon={<IconHourglass size={18} />}>
          {t(forecast.began === "new" || forecast.began === "" ? "forecast.learning" : "forecast.relearning")}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xl">
        <Facts
          items={[
            { label: t("forecast.demand"), value: f.number(now.demand) },
            {
              label: t("forecast.expected", { lead: f.duration(forecast.leadSeconds) }),
              value: t("forecast.expectedValue", { middle: f.number(now.middle), upper: f.number(now.upper) }),
            },
            {
              label: t("forecast.size"),
              value:
                now.want > now.need
                  ? t("forecast.sizeHeld", { need: f.integer(now.need), want: f.integer(now.want) })
                  : f.integer(now.want),
            },
          ]}
        />
        <Facts
          items={[
            { label: t("forecast.inCharge"), value: choice(inCharge), hint: t("forecast.inChargeHint") },
            {
              label: t("forecast.expectedLate"),
              value: t("forecast.expectedLateValue", {
                late: f.percent(inCharge.expectedLate),
                aim: f.percent(forecast.aim),
                objective: f.percent(forecast.objective),
                wait: f.duration(forecast.lateSeconds),
              }),
            },
            {
              label: t("forecast.hours"),
              value: t("forecast.hoursValue", {
                hours: f.duration(forecast.hours * 3600),
                time: forecast.at ? f.dateTime(forecast.at) : "–",
              }),
            },
          ]}
        />
      </SimpleGrid>
      <Accounts forecast={forecast} />
      <Group>
        <Text size="xs" c="dimmed">
          {t("forecast.compareHint")}
        </Text>
      </Group>
    </Stack>
  );
}

/** Why an SLO rule asks for what it asks for, and what it would have cost otherwise. Nothing where the policy has no such rule. */
export function ForecastPanel({ query, dataAt }: { query: UseQueryResult<Forecast>; dataAt: Date | null }) {
  const { t } = useTranslation();
  if (query.data?.state === "none") return null;
  return (
    <Panel title={t("forecast.title")} hint={t("forecast.hint")}>
      <Gate query={query} skeleton={<BlockSkeleton height={220} />}>
        {(forecast) => <Body forecast={forecast} dataAt={dataAt} />}
      </Gate>
    </Panel>
  );
}
