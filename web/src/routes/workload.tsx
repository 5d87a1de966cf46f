import { Alert, Badge, Group, List, SimpleGrid, Stack, Tabs, Text } from "@mantine/core";
import { IconAlertTriangle, IconArrowsShuffle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { clusterQuery } from "../api/clusters";
import { decisionsQuery } from "../api/decisions";
import { type Workload, workloadQuery } from "../api/workloads";
import { ModeBadge, OutcomeText } from "../components/badge";
import { DecisionTable } from "../components/decision-table";
import { TextLink } from "../components/link";
import { Facts, PageHead, Panel } from "../components/page";
import { CardSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { Pager } from "../components/table";
import { SignalText } from "../components/workload-table";
import { reasonName } from "../lib/explain";
import { useFormat } from "../lib/format";
import { type SignalName, signalName } from "../lib/signal";
import { ReportAge } from "./cluster";
import { WORKLOAD_TABS } from "./search";
import { HintsPanel } from "./workload-hints";
import { PolicyTab } from "./workload-policy";
import { TimelineTab } from "./workload-timeline";
import { TuningPanel } from "./workload-tuning";

const FROM = "/signed-in/workloads/$id";
const FINDINGS = ["no_readiness_probe", "no_requests", "no_pre_stop", "hpa_target_high"] as const;

/** The signals shown at the head, in this order; the charts show the others. */
const HEADLINE: readonly SignalName[] = [
  "request_rate",
  "queue_length",
  "running_requests",
  "latency_p99_seconds",
  "ttft_p99_seconds",
  "gpu_sm_active_ratio",
  "kv_cache_ratio",
  "late_ratio",
  "cpu_ratio",
  "error_ratio",
];

function Notes({ workload: w }: { workload: Workload }) {
  const { t } = useTranslation();
  const f = useFormat();
  const cluster = useQuery(clusterQuery(w.clusterId));
  return (
    <>
      {cluster.data && <ReportAge cluster={cluster.data} />}
      {w.goneAt && <Alert color="gray">{t("workloads.gone")}</Alert>}
      {!w.scalable && <Alert color="gray">{t("workloads.notScalable")}</Alert>}
      {w.writers.length > 0 && (
        <Alert color="orange" icon={<IconArrowsShuffle size={18} />} title={t("workloads.writers")}>
          {w.writers.map((writer) => (
            <Text size="sm" key={`${writer.manager}${writer.object}`}>
              {t("workloads.writersText", {
                manager: writer.manager,
                field: writer.field,
                object: writer.object || "–",
                time: f.dateTime(writer.at),
              })}
            </Text>
          ))}
        </Alert>
      )}
      {w.preflight.length > 0 && (
        <Alert color="yellow" icon={<IconAlertTriangle size={18} />} title={t("workloads.preflight")}>
          <List size="sm">
            {w.preflight.map((code) => {
              const known = FINDINGS.find((x) => x === code);
              return <List.Item key={code}>{known ? t(`workloads.preflightItem.${known}`) : code}</List.Item>;
            })}
          </List>
        </Alert>
      )}
    </>
  );
}

function Facets({ workload: w }: { workload: Workload }) {
  const { t } = useTranslation();
  const f = useFormat();
  const signals = HEADLINE.filter((name) => w.signals[name]).slice(0, 8);
  const half = Math.max(4, Math.ceil(signals.length / 2));
  const requests = [
    t("unit.cores", { value: f.number(w.cpuMilli / 1000) }),
    f.mebibytes(w.memoryMib),
    w.gpuMilli > 0 && `${f.number(w.gpuMilli / 1000)} GPU`,
  ].filter(Boolean);
  return (
    <Panel>
      <SimpleGrid cols={{ base: 1, sm: 2, lg: signals.length > 4 ? 4 : 3 }} spacing="xl">
        <Facts
          items={[
            {
              label: t("workloads.replicas"),
              value: (
                <Group gap={8}>
                  <Text fw={650} fz="lg" lh={1}>
                    {f.integer(w.ready)} / {f.integer(w.replicas)}
                  </Text>
                  {w.starting > 0 && (
                    <Text size="sm" c="dimmed">
                      {t("workloads.starting", { value: f.integer(w.starting) })}
                    </Text>
                  )}
                  {w.draining > 0 && (
                    <Text size="sm" c="dimmed">
                      {t("workloads.draining", { value: f.integer(w.draining) })}
                    </Text>
                  )}
                </Group>
              ),
            },
            {
              label: t("workloads.bounds"),
              value:
                w.min !== null && w.max !== null
                  ? t("workloads.boundsValue", { min: f.integer(w.min), max: f.integer(w.max) })
                  : "–",
            },
            {
              label: t("workloads.mode"),
              value: w.mode ? <ModeBadge mode={w.mode} /> : <Badge variant="default">{t("workloads.noPolicy")}</Badge>,
            },
            {
              label: t("workloads.lastDecision"),
              value: w.lastDecision ? (
                <Group gap={8}>
                  <TextLink to="/decisions/$id" params={{ id: w.lastDecision.id }} c="var(--mantine-color-text)">
                    <OutcomeText outcome={w.lastDecision.outcome} />
                  </TextLink>
                  <Text size="sm" c="dimmed">
                    {reasonName(t, w.lastDecision.binding)}
                  </Text>
                </Group>
              ) : (
                "–"
              ),
            },
          ]}
        />
        <Facts
          items={[
            {
              label: t("workloads.cost"),
              value: w.costHour ? t("common.perHour", { value: f.money(w.costHour) }) : "–",
            },
            {
              label: t("workloads.nextReplica"),
              hint: t("workloads.nextReplicaHint"),
              value: w.replicaHour ? t("common.perHour", { value: f.money(w.replicaHour, { style: "fine" }) }) : "–",
            },
            { label: t("workloads.team"), value: w.team || "–" },
            { label: t("workloads.class"), value: t(`class.${w.class}`) },
            { label: t("workloads.requests"), value: requests.join(" · ") },
          ]}
        />
        {[signals.slice(0, half), signals.slice(half)]
          .filter((column) => column.length > 0)
          .map((column) => (
            <Facts
              key={column[0]}
              items={column.map((name) => ({
                label: signalName(t, name),
                value: <SignalText name={name} signal={w.signals[name]} />,
              }))}
            />
          ))}
      </SimpleGrid>
    </Panel>
  );
}

function DecisionsTab({ workload }: { workload: Workload }) {
  const { t } = useTranslation();
  const { cursor } = useSearch({ from: FROM });
  const navigate = useNavigate();
  const query = useQuery(decisionsQuery({ workload: workload.id, cursor, limit: 50 }));
  return (
    <Panel flush>
      <Gate
        query={query}
        skeleton={<TableSkeleton />}
        isEmpty={(page) => page.items.length === 0}
        empty={<Empty title={t("decisions.empty")} text={t("decisions.emptyText")} />}
      >
        {(page) => (
          <>
            <DecisionTable
              decisions={page.items}
              hideWorkload
              onOpen={(d) => void navigate({ to: "/decisions/$id", params: { id: d.id } })}
            />
            <Pager
              cursor={cursor}
              nextCursor={page.nextCursor}
              onMove={(next) =>
                void navigate({
                  to: "/workloads/$id",
                  params: { id: workload.id },
                  search: { tab: "decisions", cursor: next },
                })
              }
            />
          </>
        )}
      </Gate>
    </Panel>
  );
}

export function WorkloadPage() {
  const { t } = useTranslation();
  const { id } = useParams({ from: FROM });
  const { tab = "timeline" } = useSearch({ from: FROM });
  const navigate = useNavigate();
  const query = useQuery(workloadQuery(id));
  const w = query.data;
  return (
    <>
      <PageHead
        title={w?.name ?? t("workloads.title")}
        crumb={
          <Group gap={6}>
            <TextLink to="/workloads">{t("workloads.title")}</TextLink>
            {w && (
              <>
                <span>/</span>
                <TextLink to="/clusters/$id" params={{ id: w.clusterId }}>
                  {w.clusterName}
                </TextLink>
                <span>/</span>
                <TextLink to="/workloads" search={{ namespace: w.namespace }}>
                  {w.namespace}
                </TextLink>
              </>
            )}
          </Group>
        }
        badges={w && <Badge color="gray">{w.kind}</Badge>}
      />
      <Gate query={query} skeleton={<CardSkeleton height={480} />}>
        {(workload) => (
          <Stack gap="md">
            <Notes workload={workload} />
            <Facets workload={workload} />
            <Tabs
              value={tab}
              onChange={(value) => {
                const next = WORKLOAD_TABS.find((name) => name === value);
                if (next) {
                  void navigate({ to: "/workloads/$id", params: { id }, search: { tab: next }, resetScroll: false });
                }
              }}
            >
              <Tabs.List>
                {WORKLOAD_TABS.map((name) => (
                  <Tabs.Tab key={name} value={name}>
                    {t(`workloads.tabs.${name}`)}
                  </Tabs.Tab>
                ))}
              </Tabs.List>
            </Tabs>
            {tab === "timeline" && <TimelineTab workload={workload} />}
            {tab === "policy" && (
              <>
                <PolicyTab workload={workload} />
                <HintsPanel workload={workload.id} />
                <TuningPanel workload={workload.id} />
              </>
            )}
            {tab === "decisions" && <DecisionsTab workload={workload} />}
          </Stack>
        )}
      </Gate>
    </>
  );
}
