// The capacity tabs of a cluster's page: nodes and pools, pods that wait, the plan, and who else writes.
import { Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  capacityMapQuery,
  capacityPlanQuery,
  capacityPlansQuery,
  conflictsQuery,
  pendingPodsQuery,
} from "../api/capacity";
import { checkpointsQuery } from "../api/checkpoints";
import { CheckpointTable } from "../components/capacity/checkpoint-table";
import { ConflictTable } from "../components/capacity/conflict-table";
import { GroupConflictTable } from "../components/capacity/group-conflict-table";
import { MarketTable } from "../components/capacity/market-view";
import { FleetTable, NodeDetail, NodeMap } from "../components/capacity/node-map";
import { PendingTable } from "../components/capacity/pending-table";
import { OptionTable, PlanCosts, PlanDiff, PlanHistory } from "../components/capacity/plan-view";
import { WarmTable } from "../components/capacity/warm-table";
import { heldText } from "../components/capacity/words";
import { Panel } from "../components/page";
import { BlockSkeleton, Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { useFormat } from "../lib/format";

function NoPlan() {
  const { t } = useTranslation();
  return <Empty title={t("capacity.empty")} text={t("capacity.emptyText")} />;
}

function AsOf({ at }: { at: Date }) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <Text size="sm" c="dimmed">
      {t("capacity.at", { time: f.fullTime(at) })}
    </Text>
  );
}

const SKELETON = (
  <Stack p="md">
    <BlockSkeleton height={420} />
  </Stack>
);

export function CapacityMapTab({ cluster }: { cluster: string }) {
  const { t } = useTranslation();
  const f = useFormat();
  const [chosen, setChosen] = useState<string>();
  const query = useQuery(capacityMapQuery(cluster));
  return (
    <Gate query={query} skeleton={SKELETON} isEmpty={(map) => map.at === null} empty={<NoPlan />}>
      {(map) => {
        const node = map.nodes.find((n) => n.name === chosen);
        return (
          <Stack p="md" gap="lg" data-capacity-map>
            {map.at && <AsOf at={map.at} />}
            <Panel title={t("capacity.fleet")} hint={t("capacity.fleetHint")} flush>
              {map.fleet.length === 0 ? (
                <Empty title={t("capacity.noGpus")} height={90} />
              ) : (
                <>
                  <FleetTable fleet={map.fleet} />
                  <Text size="sm" c="dimmed" px="md" py="sm">
                    {t("capacity.spare", { value: f.integer(map.spareGpus) })}
                    {map.fragmented > 0 && `; ${t("capacity.fragmented", { share: f.percent(map.fragmented, 0) })}`}
                  </Text>
                </>
              )}
            </Panel>
            <Panel title={t("capacity.map")} hint={t("capacity.mapHint")}>
              {map.nodes.length === 0 ? (
                <Empty title={t("nodes.empty")} text={t("nodes.emptyText")} height={120} />
              ) : (
                <NodeMap map={map} chosen={chosen} onChoose={setChosen} />
              )}
            </Panel>
            {node ? (
              <NodeDetail node={node} />
            ) : (
              <Text size="sm" c="dimmed">
                {t("capacity.choose")}
              </Text>
            )}
          </Stack>
        );
      }}
    </Gate>
  );
}

export function PendingTab({ cluster }: { cluster: string }) {
  const { t } = useTranslation();
  const f = useFormat();
  const query = useQuery(pendingPodsQuery(cluster));
  return (
    <Gate
      query={query}
      skeleton={<TableSkeleton />}
      isEmpty={(p) => p.at === null || p.items.length === 0}
      empty={
        query.data?.at ? (
          <Empty title={t("capacity.pending.empty")} text={t("capacity.pending.emptyText")} />
        ) : (
          <NoPlan />
        )
      }
    >
      {(p) => (
        <Stack gap="sm" pt="md">
          <Stack gap="sm" px="md">
            {p.at && <AsOf at={p.at} />}
            {p.held.map((h) => (
              <StaleNote key={h}>{heldText(t, h)}</StaleNote>
            ))}
            {p.longWaiting > 0 && (
              <StaleNote>
                {t("capacity.pending.long", { value: f.integer(p.longWaiting), age: f.duration(p.oldestSeconds) })}
              </StaleNote>
            )}
          </Stack>
          {p.at && <PendingTable pods={p.items} at={p.at} />}
        </Stack>
      )}
    </Gate>
  );
}

function History({ cluster }: { cluster: string }) {
  const { t } = useTranslation();
  const query = useQuery(capacityPlansQuery(cluster));
  return (
    <Panel title={t("capacity.plan.history")} hint={t("capacity.plan.historyHint")} flush>
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={3} />}
        isEmpty={(list) => list.length === 0}
        empty={<NoPlan />}
      >
        {(list) => <PlanHistory plans={list} />}
      </Gate>
    </Panel>
  );
}

function Checkpoints({ cluster }: { cluster: string }) {
  const { t } = useTranslation();
  const query = useQuery(checkpointsQuery(cluster));
  return (
    <Panel title={t("capacity.checkpoints.title")} hint={t("capacity.checkpoints.hint")} flush>
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={2} />}
        isEmpty={(list) => list.items.length === 0}
        empty={
          <Empty
            title={t("capacity.checkpoints.empty")}
            text={t(query.data?.told ? "capacity.checkpoints.emptyText" : "capacity.checkpoints.off")}
            height={110}
          />
        }
      >
        {(list) => <CheckpointTable calls={list.items} />}
      </Gate>
    </Panel>
  );
}

export function PlanTab({ cluster }: { cluster: string }) {
  const { t } = useTranslation();
  const query = useQuery(capacityPlanQuery(cluster));
  return (
    <Gate query={query} skeleton={SKELETON} isEmpty={(plan) => plan === null} empty={<NoPlan />}>
      {(plan) =>
        plan && (
          <Stack p="md" gap="md" data-capacity-plan>
            {plan.stale && <StaleNote>{t("capacity.stale")}</StaleNote>}
            <AsOf at={plan.at} />
            <PlanCosts plan={plan} />
            <PlanDiff plan={plan} />
            <Panel title={t("capacity.warm.title")} hint={t("capacity.warm.hint")} flush>
              {plan.warm.length === 0 ? (
                <Empty title={t("capacity.warm.empty")} text={t("capacity.warm.emptyText")} height={110} />
              ) : (
                <WarmTable pools={plan.warm} />
              )}
            </Panel>
            <Checkpoints cluster={cluster} />
            <Panel title={t("capacity.market.title")} hint={t("capacity.market.hint")} flush>
              {plan.markets.length === 0 ? (
                <Empty title={t("capacity.market.none")} text={t("capacity.market.noneText")} height={120} />
              ) : (
                plan.markets.map((m) => <MarketTable key={m.pods.join() + m.pools.length} market={m} />)
              )}
            </Panel>
            <Panel title={t("capacity.plan.options")} flush>
              <OptionTable plan={plan} />
            </Panel>
            <History cluster={cluster} />
          </Stack>
        )
      }
    </Gate>
  );
}

export function ConflictsTab({ cluster }: { cluster: string }) {
  const { t } = useTranslation();
  const query = useQuery(conflictsQuery(cluster));
  return (
    <Gate
      query={query}
      skeleton={<TableSkeleton />}
      isEmpty={(list) => list.items.length + list.groups.length === 0}
      empty={<Empty title={t("capacity.conflicts.empty")} text={t("capacity.conflicts.emptyText")} />}
    >
      {(list) => (
        <Stack gap="sm" pt="md">
          {list.at && list.items.length > 0 && (
            <>
              <Text size="sm" c="dimmed" px="md">
                {t("capacity.conflicts.hint")}
              </Text>
              <ConflictTable conflicts={list.items} at={list.at} />
            </>
          )}
          {list.groups.length > 0 && (
            <>
              <Text size="sm" c="dimmed" px="md" data-group-conflicts>
                {t("capacity.conflicts.groups.hint")}
              </Text>
              <GroupConflictTable groups={list.groups} now={new Date(query.dataUpdatedAt)} />
            </>
          )}
        </Stack>
      )}
    </Gate>
  );
}
