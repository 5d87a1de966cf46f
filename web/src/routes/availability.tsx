import { Drawer, Group, SegmentedControl, Select, Stack, Title } from "@mantine/core";
import { IconGridDots } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { availabilityQuery, type Supply, type SupplyList, supplyHistoryQuery } from "../api/availability";
import { PURCHASES } from "../api/clusters";
import { speedQuery } from "../api/demo";
import { HeatLegend, HeatMap, SupplyTable } from "../components/heat-map";
import { PageHead, Panel } from "../components/page";
import { BlockSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { SupplyChart, SupplyFacts } from "../components/supply-detail";
import { CLOUDS, type Cloud, cloudName } from "../lib/cloud";
import { secondsUntil } from "../lib/data-clock";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";
import { MEASURES } from "../lib/supply";
import { useMe } from "./me";
import { SUPPLY_VIEWS } from "./search";

const FROM = "/signed-in/availability";

function useChange() {
  const navigate = useNavigate();
  const search = useSearch({ from: FROM });
  return (part: Partial<typeof search>) =>
    void navigate({ to: "/availability", search: { ...search, ...part }, resetScroll: false });
}

/** Seconds until the data's clock shows that an attempt is worth its trouble again. */
function useWaitLeft(data: SupplyList | undefined, readAt: number): (s: Supply) => number | null {
  const me = useMe();
  const speed = useQuery({ ...speedQuery, enabled: me.demo });
  const now = useNow(1);
  return (s) => {
    if (!s.backoffUntil || !data) return null;
    const clock = {
      dataAt: data.dataNow,
      lastSeenAt: new Date(readAt),
      simulatedClock: speed.data !== undefined,
      clockSpeed: speed.data ?? 1,
    };
    return secondsUntil(s.backoffUntil, clock, now);
  };
}

function Filters() {
  const { t } = useTranslation();
  const search = useSearch({ from: FROM });
  const change = useChange();
  return (
    <Group p="md" pb="sm" gap="sm" justify="space-between">
      <Group gap="sm">
        <Select
          aria-label={t("market.supply.shown")}
          allowDeselect={false}
          w={260}
          value={search.show ?? "hour"}
          data={MEASURES.map((m) => ({ value: m, label: t(`market.supply.measure.${m}`) }))}
          onChange={(value) => change({ show: MEASURES.find((m) => m === value) })}
        />
        <Select
          aria-label={t("market.cloud")}
          placeholder={t("market.anyCloud")}
          clearable
          w={150}
          value={search.cloud ?? null}
          data={CLOUDS.map((c) => ({ value: c, label: cloudName(c) }))}
          onChange={(value) => change({ cloud: CLOUDS.find((c) => c === value) })}
        />
        <Select
          aria-label={t("nodes.purchase")}
          placeholder={t("market.anyPurchase")}
          clearable
          w={190}
          value={search.purchase ?? null}
          data={PURCHASES.map((p) => ({ value: p, label: t(`purchase.${p}`) }))}
          onChange={(value) => change({ purchase: PURCHASES.find((p) => p === value) })}
        />
      </Group>
      <SegmentedControl
        size="xs"
        aria-label={t("market.supply.view")}
        value={search.view ?? "map"}
        onChange={(value) => change({ view: SUPPLY_VIEWS.find((v) => v === value) })}
        data={SUPPLY_VIEWS.map((v) => ({ value: v, label: t(`market.supply.views.${v}`) }))}
      />
    </Group>
  );
}

function Week({ supply, cloud }: { supply: Supply; cloud: Cloud }) {
  const { t } = useTranslation();
  const query = useQuery(supplyHistoryQuery({ ...supply, cloud }));
  return (
    <div>
      <Title order={3} fz="md" mb="xs">
        {t("market.supply.week")}
      </Title>
      <Gate query={query} skeleton={<BlockSkeleton height={210} />}>
        {(history) => <SupplyChart history={history} />}
      </Gate>
    </div>
  );
}

export function AvailabilityPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const search = useSearch({ from: FROM });
  const change = useChange();
  const query = useQuery(availabilityQuery);
  const waitLeft = useWaitLeft(query.data, query.dataUpdatedAt);
  const measure = search.show ?? "hour";
  const opened = query.data?.items.find((s) => s.key === search.offering);
  const cloud = CLOUDS.find((c) => c === opened?.cloud);
  const open = (s: Supply) => change({ offering: s.key });
  const fits = (s: Supply) =>
    (!search.cloud || s.cloud === search.cloud) && (!search.purchase || s.purchase === search.purchase);
  return (
    <>
      <PageHead title={t("market.supply.title")} text={t("market.supply.text")} />
      <Panel flush>
        <Filters />
        <Gate
          query={query}
          skeleton={<TableSkeleton />}
          isEmpty={(data) => !data.items.some(fits)}
          empty={
            query.data && query.data.items.length > 0 ? (
              <Empty title={t("market.supply.noMatch")} text={t("workloads.noMatchText")} height={300} />
            ) : (
              <Empty
                icon={<IconGridDots size={34} stroke={1.4} />}
                title={t("market.supply.empty")}
                text={t("market.supply.emptyText")}
                height={300}
              />
            )
          }
        >
          {(data) => {
            const items = data.items.filter(fits);
            return search.view === "table" ? (
              <SupplyTable items={items} waitLeft={waitLeft} onOpen={open} />
            ) : (
              <Stack gap="md" px="md" pb="md">
                <HeatMap items={items} measure={measure} onOpen={open} />
                <HeatLegend measure={measure} />
              </Stack>
            );
          }}
        </Gate>
        {query.data && (
          <Group px="md" py="sm" justify="flex-end" c="dimmed" fz="sm">
            {t("market.supply.asOf", {
              time: f.dateTime(query.data.dataNow),
              date: f.calendarDate(query.data.bandsDate),
              value: f.integer(query.data.total),
            })}
          </Group>
        )}
      </Panel>
      <Drawer
        opened={opened !== undefined}
        onClose={() => change({ offering: undefined })}
        position="right"
        size={560}
        title={opened?.instanceType ?? ""}
        styles={{ title: { fontWeight: 650, fontSize: "1.05rem" } }}
        closeButtonProps={{ "aria-label": t("common.close") }}
      >
        {opened && query.data && (
          <Stack gap="xl">
            <SupplyFacts supply={opened} waitLeft={waitLeft(opened)} bandsDate={query.data.bandsDate} />
            {cloud && <Week supply={opened} cloud={cloud} />}
          </Stack>
        )}
      </Drawer>
    </>
  );
}
