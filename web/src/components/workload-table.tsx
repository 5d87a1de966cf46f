import { Badge, Group, Stack, Text, Tooltip } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import type { Signal, Workload } from "../api/workloads";
import { reasonName } from "../lib/explain";
import { useFormat } from "../lib/format";
import { moneyNumber } from "../lib/money";
import { signalName, signalValue } from "../lib/signal";
import { ModeBadge, OutcomeText } from "./badge";
import { Hint } from "./page";
import { type Column, DataTable } from "./table";
import { WorkloadName } from "./workload-name";

/** A signal's newest value, dimmed and explained when it cannot be fully believed. */
export function SignalText({ name, signal }: { name: string; signal: Signal | undefined }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (!signal || signal.value === null)
    return (
      <Text span size="sm" c="dimmed">
        –
      </Text>
    );
  const text = signalValue(t, f, name, signal.value);
  if (signal.truth === "fresh") return <span>{text}</span>;
  const age = signal.ageSeconds === null ? "" : ` · ${t("common.ago", { age: f.duration(signal.ageSeconds) })}`;
  return (
    <Tooltip label={`${signalName(t, name)}: ${t(`truth.${signal.truth}`)}${age}`}>
      <Text span size="sm" c="orange" td="underline dotted">
        {text}
      </Text>
    </Tooltip>
  );
}

function Demand({ workload: w }: { workload: Workload }) {
  const { t } = useTranslation();
  const name = w.signals.request_rate ? "request_rate" : "queue_length";
  return (
    <Stack gap={0} align="flex-end">
      <SignalText name={name} signal={w.signals[name]} />
      {w.signals.queue_length && (
        <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
          {t("charts.queue")} <SignalText name="queue_length" signal={w.signals.queue_length} />
        </Text>
      )}
    </Stack>
  );
}

function Use({ workload: w }: { workload: Workload }) {
  const gpu = w.signals.gpu_sm_active_ratio;
  return gpu ? (
    <SignalText name="gpu_sm_active_ratio" signal={gpu} />
  ) : (
    <SignalText name="cpu_ratio" signal={w.signals.cpu_ratio} />
  );
}

export function WorkloadTable({
  workloads,
  onOpen,
  showCluster,
}: {
  workloads: readonly Workload[];
  onOpen: (workload: Workload) => void;
  showCluster?: boolean;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<Workload>[] = [
    {
      key: "name",
      header: t("workloads.workload"),
      render: (w) => (
        <Group gap={8} wrap="nowrap">
          <WorkloadName id={w.id} workloadKey={w.key} detail={showCluster ? w.clusterName : undefined} />
          {(w.preflight.length > 0 || w.writers.length > 0) && (
            <Tooltip label={w.writers.length > 0 ? t("workloads.writers") : t("workloads.preflight")}>
              <IconAlertTriangle size={16} color="var(--mantine-color-orange-6)" />
            </Tooltip>
          )}
        </Group>
      ),
    },
    {
      key: "team",
      header: t("workloads.team"),
      render: (w) =>
        w.team || (
          <Text size="sm" c="dimmed">
            –
          </Text>
        ),
    },
    {
      key: "replicas",
      header: (
        <Group gap={4} wrap="nowrap" display="inline-flex">
          {t("workloads.replicas")} <Hint text={t("workloads.replicasHint")} />
        </Group>
      ),
      align: "right",
      render: (w) => (
        <Stack gap={0} align="flex-end">
          <span>
            {f.integer(w.ready)} / {f.integer(w.replicas)}
          </span>
          {w.min !== null && w.max !== null && (
            <Text size="xs" c="dimmed">
              {t("workloads.boundsValue", { min: f.integer(w.min), max: f.integer(w.max) })}
            </Text>
          )}
        </Stack>
      ),
    },
    { key: "demand", header: t("workloads.demand"), align: "right", render: (w) => <Demand workload={w} /> },
    {
      key: "latency",
      header: t("workloads.latency"),
      align: "right",
      render: (w) => <SignalText name="latency_p99_seconds" signal={w.signals.latency_p99_seconds} />,
    },
    { key: "use", header: t("workloads.use"), align: "right", render: (w) => <Use workload={w} /> },
    {
      key: "mode",
      header: t("workloads.mode"),
      render: (w) =>
        w.mode ? <ModeBadge mode={w.mode} /> : <Badge variant="default">{t("workloads.noPolicy")}</Badge>,
    },
    {
      key: "last",
      header: t("workloads.lastDecision"),
      render: (w) =>
        w.lastDecision ? (
          <Link to="/decisions/$id" params={{ id: w.lastDecision.id }} className="quiet-link">
            <OutcomeText outcome={w.lastDecision.outcome} />
            <Text size="xs" c="dimmed">
              {reasonName(t, w.lastDecision.binding)}
            </Text>
          </Link>
        ) : (
          <Text size="sm" c="dimmed">
            –
          </Text>
        ),
    },
    {
      key: "cost",
      header: t("workloads.cost"),
      align: "right",
      sort: (w) => (w.costHour ? moneyNumber(w.costHour) : null),
      render: (w) =>
        w.costHour ? (
          f.money(w.costHour)
        ) : (
          <Text size="sm" c="dimmed">
            –
          </Text>
        ),
    },
  ];
  return (
    <DataTable
      label={t("workloads.title")}
      rows={workloads}
      columns={columns}
      rowKey={(w) => w.id}
      onOpen={onOpen}
      minWidth={1040}
    />
  );
}
