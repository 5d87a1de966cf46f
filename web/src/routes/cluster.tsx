import { Alert, Badge, Button, Group, Menu, Select, SimpleGrid, Stack, Tabs, Text } from "@mantine/core";
import { IconChevronDown, IconPlugConnected, IconSnowflake, IconSun } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import { useTranslation } from "react-i18next";
import {
  type Cluster,
  changeCluster,
  clusterEventsQuery,
  clusterQuery,
  EVENT_KINDS,
  MODES,
  type Mode,
  nodesQuery,
} from "../api/clusters";
import { workloadsQuery } from "../api/workloads";
import { ask } from "../components/ask";
import { FrozenBadge, HealthBadge, ModeBadge } from "../components/badge";
import { PlanText } from "../components/cluster-table";
import { TextLink } from "../components/link";
import { NodeTable } from "../components/node-table";
import { Facts, PageHead, Panel } from "../components/page";
import { CardSkeleton, Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { type Column, DataTable, Pager } from "../components/table";
import { WorkloadTable } from "../components/workload-table";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";
import { useAct } from "./act";
import { CapacityMapTab, ConflictsTab, PendingTab, PlanTab } from "./capacity";
import { CloudGroups } from "./capacity-groups";
import { KarpenterOrders } from "./capacity-karpenter";
import { CapacityPolicyTab } from "./capacity-policy";
import { useMay } from "./me";
import { NodeCompliancePanel } from "./node-compliance";
import { CLUSTER_TABS } from "./search";
import { useEnrolment } from "./use-enrolment";

const FROM = "/signed-in/clusters/$id";

function useMove() {
  const navigate = useNavigate();
  const { id } = useParams({ from: FROM });
  return useCallback(
    (search: { tab?: (typeof CLUSTER_TABS)[number]; kind?: string; cursor?: string }) =>
      void navigate({ to: "/clusters/$id", params: { id }, search, resetScroll: false }),
    [navigate, id],
  );
}

function Nodes({ cluster }: { cluster: Cluster }) {
  const { t } = useTranslation();
  const { cursor } = useSearch({ from: FROM });
  const move = useMove();
  const query = useQuery({ ...nodesQuery(cluster.id, cursor), placeholderData: keepPreviousData });
  return (
    <Gate
      query={query}
      skeleton={<TableSkeleton />}
      isEmpty={(page) => page.items.length === 0}
      empty={<Empty title={t("nodes.empty")} text={t("nodes.emptyText")} />}
    >
      {(page) => (
        <>
          <NodeTable nodes={page.items} />
          <Pager cursor={cursor} nextCursor={page.nextCursor} onMove={(next) => move({ tab: "nodes", cursor: next })} />
        </>
      )}
    </Gate>
  );
}

function Workloads({ cluster }: { cluster: Cluster }) {
  const { t } = useTranslation();
  const { cursor } = useSearch({ from: FROM });
  const navigate = useNavigate();
  const move = useMove();
  const query = useQuery(workloadsQuery({ cluster: cluster.id, cursor, limit: 50 }));
  return (
    <Gate
      query={query}
      skeleton={<TableSkeleton />}
      isEmpty={(page) => page.items.length === 0}
      empty={<Empty title={t("workloads.empty")} text={t("workloads.emptyText")} />}
    >
      {(page) => (
        <>
          <WorkloadTable
            workloads={page.items}
            onOpen={(w) => void navigate({ to: "/workloads/$id", params: { id: w.id } })}
          />
          <Pager
            cursor={cursor}
            nextCursor={page.nextCursor}
            onMove={(next) => move({ tab: "workloads", cursor: next })}
          />
        </>
      )}
    </Gate>
  );
}

function Events({ cluster }: { cluster: Cluster }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { cursor, kind } = useSearch({ from: FROM });
  const move = useMove();
  const query = useQuery({
    ...clusterEventsQuery(cluster.id, { kind, cursor, limit: 50 }),
    placeholderData: keepPreviousData,
  });
  const kindName = (name: string) => {
    const known = EVENT_KINDS.find((k) => k === name);
    return known ? t(`events.kinds.${known}`) : name;
  };
  type Row = NonNullable<typeof query.data>["items"][number] & { index: number };
  const columns: Column<Row>[] = [
    { key: "at", header: t("common.time"), width: 150, render: (e) => f.dateTime(e.at) },
    { key: "kind", header: t("events.kind"), render: (e) => <Badge color="gray">{kindName(e.kind)}</Badge> },
    {
      key: "object",
      header: t("events.object"),
      render: (e) => <span className="mono">{e.object || e.workloadKey}</span>,
    },
    {
      key: "message",
      header: t("events.message"),
      render: (e) => (
        <Text size="sm" lineClamp={2}>
          {[e.reason, e.message].filter(Boolean).join(": ")}
        </Text>
      ),
    },
  ];
  return (
    <>
      <Group p="md" pb="xs">
        <Select
          aria-label={t("events.kind")}
          placeholder={t("events.anyKind")}
          clearable
          w={220}
          value={kind ?? null}
          data={EVENT_KINDS.map((k) => ({ value: k, label: t(`events.kinds.${k}`) }))}
          onChange={(value) => move({ tab: "events", kind: value ?? undefined })}
        />
      </Group>
      <Gate
        query={query}
        skeleton={<TableSkeleton />}
        isEmpty={(page) => page.items.length === 0}
        empty={<Empty title={t("events.empty")} text={t("events.emptyText")} />}
      >
        {(page) => (
          <>
            <DataTable
              label={t("clusters.tabs.events")}
              rows={page.items.map((e, index) => ({ ...e, index }))}
              columns={columns}
              rowKey={(e) => String(e.index)}
            />
            <Pager
              cursor={cursor}
              nextCursor={page.nextCursor}
              onMove={(next) => move({ tab: "events", kind, cursor: next })}
            />
          </>
        )}
      </Gate>
    </>
  );
}

function Agent({ cluster: c }: { cluster: Cluster }) {
  const { t } = useTranslation();
  const f = useFormat();
  const limit = (value: number) => (value > 0 ? f.integer(value) : t("common.none"));
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} p="lg" spacing="xl">
      <Stack gap="md">
        <Facts
          items={[
            { label: t("clusters.agentVersion"), value: c.agentVersion || "–" },
            { label: t("clusters.kubernetes"), value: c.kubernetesVersion || "–" },
            { label: t("clusters.skew"), value: f.duration(Math.abs(c.skewSeconds)) },
            {
              label: t("clusters.capabilities"),
              value: c.capabilities.length ? (
                <Group gap={6}>
                  {c.capabilities.map((name) => (
                    <Badge key={name} variant="default">
                      {name}
                    </Badge>
                  ))}
                </Group>
              ) : (
                "–"
              ),
            },
          ]}
        />
      </Stack>
      <Stack gap="md">
        <Text fw={600}>{t("clusters.limits")}</Text>
        <Text size="sm" c="dimmed">
          {t("clusters.limitsHint")}
        </Text>
        <Facts
          items={[
            { label: t("clusters.limit.replicas"), value: limit(c.limits.maxReplicas) },
            { label: t("clusters.limit.perWorkload"), value: limit(c.limits.maxReplicasPerWorkload) },
            { label: t("clusters.limit.actions"), value: limit(c.limits.maxActionsPerMinute) },
            { label: t("clusters.limit.frozen"), value: c.limits.frozen ? t("common.yes") : t("common.no") },
            ...(c.limits.mode ? [{ label: t("clusters.limit.mode"), value: c.limits.mode }] : []),
          ]}
        />
      </Stack>
    </SimpleGrid>
  );
}

function Actions({ cluster }: { cluster: Cluster }) {
  const { t } = useTranslation();
  const { act, busy } = useAct();
  const enrolment = useEnrolment();
  const mayChange = useMay("operator");
  const mayEnrol = useMay("admin");
  const touches = [["clusters"], ["workloads"], ["overview"]];
  const name = cluster.name;

  const setMode = (mode: Mode) =>
    ask({
      title: t("clusters.modeTitle", { name, mode: t(`mode.${mode}`) }),
      text: t("clusters.modeText", { hint: t(`modeHint.${mode}`) }),
      confirm: t("common.change"),
      cancel: t("common.cancel"),
      danger: mode === "enforce",
      onConfirm: () =>
        void act(
          async () => {
            await changeCluster(cluster.id, { mode });
          },
          touches,
          t("clusters.modeChanged", { mode: t(`mode.${mode}`) }),
        ),
    });
  const setFrozen = (frozen: boolean) =>
    ask({
      title: t(frozen ? "clusters.freezeTitle" : "clusters.unfreezeTitle", { name }),
      text: t(frozen ? "clusters.freezeText" : "clusters.unfreezeText"),
      confirm: t(frozen ? "clusters.freeze" : "clusters.unfreeze"),
      cancel: t("common.cancel"),
      danger: frozen,
      onConfirm: () =>
        void act(
          async () => {
            await changeCluster(cluster.id, { frozen });
          },
          touches,
          t(frozen ? "clusters.frozenNow" : "clusters.unfrozenNow", { name }),
        ),
    });

  return (
    <>
      {mayEnrol && (
        <Button
          variant="default"
          leftSection={<IconPlugConnected size={16} />}
          onClick={() => enrolment.start(cluster)}
        >
          {t("clusters.enrol")}
        </Button>
      )}
      {mayChange && (
        <>
          <Menu shadow="md" width={300} position="bottom-end">
            <Menu.Target>
              <Button variant="default" rightSection={<IconChevronDown size={14} />} disabled={busy}>
                {t("clusters.mode")}: {t(`mode.${cluster.mode}`)}
              </Button>
            </Menu.Target>
            <Menu.Dropdown>
              {MODES.map((mode) => (
                <Menu.Item key={mode} disabled={mode === cluster.mode} onClick={() => setMode(mode)}>
                  <Text size="sm" fw={600}>
                    {t(`mode.${mode}`)}
                  </Text>
                  <Text size="xs" c="dimmed">
                    {t(`modeHint.${mode}`)}
                  </Text>
                </Menu.Item>
              ))}
            </Menu.Dropdown>
          </Menu>
          {cluster.frozen ? (
            <Button leftSection={<IconSun size={16} />} loading={busy} onClick={() => setFrozen(false)}>
              {t("clusters.unfreeze")}
            </Button>
          ) : (
            <Button
              color="red"
              variant="light"
              leftSection={<IconSnowflake size={16} />}
              loading={busy}
              onClick={() => setFrozen(true)}
            >
              {t("clusters.freeze")}
            </Button>
          )}
        </>
      )}
      {enrolment.element}
    </>
  );
}

/** Says when what is shown is only the last that was heard. */
export function ReportAge({ cluster }: { cluster: Cluster }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(10);
  if (cluster.health === "never") return <StaleNote>{t("state.offlineNever", { cluster: cluster.name })}</StaleNote>;
  if (cluster.health === "online" || !cluster.lastSeenAt) return null;
  const age = f.duration((now.getTime() - cluster.lastSeenAt.getTime()) / 1000);
  return <StaleNote>{t("state.offline", { cluster: cluster.name, age })}</StaleNote>;
}

function Body({ cluster: c }: { cluster: Cluster }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(5);
  const { tab = "nodes" } = useSearch({ from: FROM });
  const move = useMove();
  return (
    <Stack gap="md">
      <ReportAge cluster={c} />
      {c.frozen && (
        <Alert color="cyan" icon={<IconSnowflake size={18} />} py="xs">
          {t("clusters.frozenNote")}
        </Alert>
      )}
      <Panel>
        <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="xl">
          <Facts
            items={[
              { label: t("clusters.agent"), value: <HealthBadge health={c.health} /> },
              {
                label: t("clusters.lastSeen"),
                value: c.lastSeenAt ? f.relative(c.lastSeenAt, now) : t("clusters.never"),
              },
              { label: t("clusters.dataAt"), value: c.dataAt ? f.fullTime(c.dataAt) : "–" },
            ]}
          />
          <Facts
            items={[
              { label: t("clusters.mode"), value: <ModeBadge mode={c.mode} /> },
              { label: t("clusters.plan"), value: <PlanText cluster={c} /> },
              {
                label: t("clusters.cost"),
                value: c.costHour ? t("common.perHour", { value: f.money(c.costHour) }) : "–",
              },
            ]}
          />
          <Facts
            items={[
              { label: t("clusters.nodes"), value: f.integer(c.nodes) },
              { label: t("clusters.gpus"), value: f.integer(c.gpus) },
              { label: t("clusters.workloads"), value: f.integer(c.workloads) },
            ]}
          />
        </SimpleGrid>
      </Panel>
      <Panel flush>
        <Tabs
          value={tab}
          onChange={(value) => {
            const next = CLUSTER_TABS.find((name) => name === value);
            if (next) move({ tab: next });
          }}
        >
          <Tabs.List px="md" pt={6}>
            {CLUSTER_TABS.map((name) => (
              <Tabs.Tab key={name} value={name}>
                {t(`clusters.tabs.${name}`)}
              </Tabs.Tab>
            ))}
          </Tabs.List>
        </Tabs>
        {tab === "nodes" && <Nodes cluster={c} />}
        {tab === "nodes" && <NodeCompliancePanel cluster={c.id} />}
        {tab === "map" && <CapacityMapTab cluster={c.id} />}
        {tab === "pending" && <PendingTab cluster={c.id} />}
        {tab === "plan" && <PlanTab cluster={c.id} />}
        {tab === "plan" && <KarpenterOrders cluster={c} />}
        {tab === "plan" && <CloudGroups cluster={c} />}
        {tab === "policy" && <CapacityPolicyTab cluster={c} />}
        {tab === "conflicts" && <ConflictsTab cluster={c.id} />}
        {tab === "workloads" && <Workloads cluster={c} />}
        {tab === "events" && <Events cluster={c} />}
        {tab === "agent" && <Agent cluster={c} />}
      </Panel>
    </Stack>
  );
}

export function ClusterPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const { id } = useParams({ from: FROM });
  const query = useQuery(clusterQuery(id));
  const c = query.data;
  return (
    <>
      <PageHead
        title={c?.name ?? t("clusters.title")}
        crumb={<TextLink to="/clusters">{t("clusters.title")}</TextLink>}
        badges={
          c && (
            <>
              {c.frozen && <FrozenBadge />}
              {c.simulatedClock && (
                <Badge color="grape">{t("clusters.simulated", { speed: f.integer(c.clockSpeed) })}</Badge>
              )}
            </>
          )
        }
        actions={c && <Actions cluster={c} />}
      />
      <Gate query={query} skeleton={<CardSkeleton height={420} />}>
        {(cluster) => <Body cluster={cluster} />}
      </Gate>
    </>
  );
}
