import { Badge, Button, Card, Group, SegmentedControl, Stack, Table, Text } from "@mantine/core";
import { IconTrendingUp } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { type Anomaly, acknowledgeAnomaly, anomaliesQuery } from "../api/telling";
import { TextLink } from "../components/link";
import { PageHead, Panel } from "../components/page";
import { CardSkeleton, Empty, Gate } from "../components/state";
import { Pager } from "../components/table";
import { useFormat } from "../lib/format";
import { addMoney, type Money, negateMoney } from "../lib/money";
import { parseTime } from "../lib/time";
import { useAct } from "./act";
import { useMay } from "./me";

const TOUCHES = [["anomalies"], ["alerts"]];

/** An amount that says its sign. */
function Signed({ value }: { value: Money }) {
  const f = useFormat();
  return (
    <span className="number">
      {value.nano > 0n ? "+" : ""}
      {f.money(value)}
    </span>
  );
}

function AnomalyCard({ anomaly: a, may }: { anomaly: Anomaly; may: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { act, busy } = useAct();
  return (
    <Card className="card" padding="md">
      <Group justify="space-between" align="flex-start" wrap="nowrap">
        <div>
          <Text fw={650}>
            {t(`telling.scopes.${a.scope}`)}
            {a.name && ` · ${a.name}`}
          </Text>
          <Text size="sm" c="dimmed">
            {t("telling.day")} {f.calendarDate(parseTime(a.day))} ·{" "}
            {t("telling.usual", { low: f.money(a.low), high: f.money(a.high) })}
          </Text>
        </div>
        <Badge color={a.direction === "up" ? "orange" : "blue"}>
          <Signed value={addMoney(a.actual, negateMoney(a.expected))} />
        </Badge>
      </Group>
      <Group gap="xl" mt="sm">
        <Text size="sm">
          {t("telling.actual")}: <b className="number">{f.money(a.actual)}</b>
        </Text>
        <Text size="sm">
          {t("telling.expected")}: <b className="number">{f.money(a.expected)}</b>
        </Text>
      </Group>
      <Text size="sm" fw={600} mt="md">
        {t("telling.contributors")}
      </Text>
      {a.contributors.length === 0 ? (
        <Text size="sm" c="dimmed">
          {t("telling.noContributors")}
        </Text>
      ) : (
        <Table aria-label={t("telling.contributors")}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th />
              {(["difference", "quantity", "mix", "price"] as const).map((k) => (
                <Table.Th key={k} ta="right">
                  {t(`telling.${k}`)}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {a.contributors.map((c) => (
              <Table.Tr key={c.name}>
                <Table.Td>
                  {c.id ? (
                    <TextLink to="/workloads/$id" params={{ id: c.id }} size="sm">
                      {c.name}
                    </TextLink>
                  ) : (
                    c.name
                  )}
                </Table.Td>
                {[c.delta, c.quantity, c.mix, c.price].map((value, i) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: four columns in a fixed order
                  <Table.Td key={i} ta="right">
                    <Signed value={value} />
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
      <Text size="sm" fw={600} mt="md">
        {t("telling.decisions")}
      </Text>
      {a.decisions.length === 0 && (
        <Text size="sm" c="dimmed">
          {t("telling.noDecisions")}
        </Text>
      )}
      {a.decisions.map((d) => (
        <Group key={d.id} gap="xs">
          <TextLink to="/decisions/$id" params={{ id: d.id }} size="sm">
            {d.key}
          </TextLink>
          <Text size="sm">{t("telling.change", { from: f.integer(d.from), to: f.integer(d.to) })}</Text>
        </Group>
      ))}
      <Group justify="flex-end" mt="sm">
        {a.seenBy ? (
          <Text size="sm" c="dimmed">
            {t("telling.acknowledged", { name: a.seenBy })}
          </Text>
        ) : (
          may && (
            <Button
              size="xs"
              variant="default"
              disabled={busy}
              onClick={() => void act(() => acknowledgeAnomaly(a.id), TOUCHES, t("telling.saved"))}
            >
              {t("telling.acknowledge")}
            </Button>
          )
        )}
      </Group>
    </Card>
  );
}

export function AnomaliesPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const search = useSearch({ from: "/signed-in/anomalies" });
  const navigate = useNavigate();
  const may = useMay("operator");
  const show = search.show ?? "open";
  const query = useQuery(anomaliesQuery({ open: show === "open" || undefined, cursor: search.cursor }));
  const looked = query.data?.lookedTo;
  return (
    <>
      <PageHead
        title={t("telling.anomalies")}
        text={
          looked
            ? `${t("telling.anomaliesText")} ${t("telling.lookedTo", { day: f.calendarDate(parseTime(looked)) })}`
            : t("telling.anomaliesText")
        }
        actions={
          <SegmentedControl
            size="xs"
            aria-label={t("common.status")}
            value={show}
            onChange={(value) => void navigate({ to: "/anomalies", search: value === "all" ? { show: "all" } : {} })}
            data={[
              { value: "open", label: t("telling.showOpen") },
              { value: "all", label: t("telling.showAll") },
            ]}
          />
        }
      />
      <Gate
        query={query}
        skeleton={<CardSkeleton height={220} />}
        isEmpty={(page) => page.items.length === 0}
        empty={
          <Panel>
            <Empty
              icon={<IconTrendingUp size={34} stroke={1.4} />}
              title={t(looked ? "telling.anomaliesEmpty" : "telling.notLooked")}
              text={t(looked ? "telling.anomaliesEmptyText" : "telling.notLookedText")}
              height={280}
            />
          </Panel>
        }
      >
        {(page) => (
          <Stack gap="md">
            {page.items.map((a) => (
              <AnomalyCard key={a.id} anomaly={a} may={may} />
            ))}
            <Pager
              cursor={search.cursor}
              nextCursor={page.nextCursor}
              onMove={(cursor) => void navigate({ to: "/anomalies", search: { ...search, cursor } })}
            />
          </Stack>
        )}
      </Gate>
    </>
  );
}
