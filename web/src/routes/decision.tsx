import { Alert, Button, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconCheck, IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { clusterQuery } from "../api/clusters";
import { type DecisionDetail, decisionQuery, recomputeDecision } from "../api/decisions";
import { ApproveButtons, Countdown } from "../components/approve";
import { Change, CostDelta, ModeBadge, OutcomeText, StateBadge } from "../components/badge";
import { Copyable } from "../components/copy";
import { Alternatives, History, Inputs, Ladder } from "../components/explain";
import { TextLink } from "../components/link";
import { Facts, PageHead, Panel, Stat } from "../components/page";
import { CardSkeleton, Gate } from "../components/state";
import { readKey } from "../components/workload-name";
import { decisionSummary, decisionWhy } from "../lib/explain";
import { useFormat } from "../lib/format";
import { useAct } from "./act";
import { useMay, useMe } from "./me";
import { useResolve } from "./use-resolve";

function Proof({ decision: d }: { decision: DecisionDetail }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { act, busy } = useAct();
  const [equal, setEqual] = useState<boolean | null>(null);
  return (
    <Panel
      title={t("decisions.plan")}
      hint={t("decisions.planHint")}
      actions={
        <Button
          size="xs"
          variant="default"
          leftSection={<IconRefresh size={14} />}
          loading={busy}
          onClick={() => void act(async () => setEqual(await recomputeDecision(d.id)), [])}
        >
          {t("decisions.recompute")}
        </Button>
      }
    >
      <Stack gap="md">
        <Facts
          items={[
            { label: t("decisions.generation"), value: f.integer(d.plan.generation) },
            { label: t("decisions.policyVersion"), value: f.integer(d.policyVersion) },
            { label: t("decisions.planId"), value: <span className="mono">{d.plan.id}</span> },
            { label: t("decisions.parent"), value: <span className="mono">{d.plan.parentId ?? "–"}</span> },
          ]}
        />
        <div>
          <Text size="sm" c="dimmed" mb={4}>
            {t("decisions.inputHash")}
          </Text>
          <Copyable text={d.plan.inputHash} block />
        </div>
        {equal !== null && (
          <Alert color={equal ? "teal" : "red"} icon={equal ? <IconCheck size={18} /> : undefined} role="status">
            {t(equal ? "decisions.recomputeEqual" : "decisions.recomputeDiffers")}
          </Alert>
        )}
      </Stack>
    </Panel>
  );
}

function Body({ decision: d }: { decision: DecisionDetail }) {
  const { t } = useTranslation();
  const f = useFormat();
  const mayResolve = useMay("operator");
  const resolve = useResolve();
  const open = d.state === "proposed";
  const cluster = useQuery({ ...clusterQuery(d.clusterId), enabled: open });
  return (
    <Stack gap="md">
      <Panel>
        <Group justify="space-between" align="flex-start" gap="lg">
          <div style={{ flex: 1, minWidth: 280 }}>
            <Text fz="lg" fw={650}>
              {decisionSummary(t, f, d)}
            </Text>
            <Text mt={4} maw={860}>
              {decisionWhy(t, f, d)}
            </Text>
          </div>
          {open && (
            <Stack gap={6} align="flex-end">
              {d.mode === "approve" && mayResolve && (
                <ApproveButtons
                  size="sm"
                  decision={d}
                  busy={resolve.busy}
                  onApprove={() => resolve.approve(d)}
                  onReject={(reason) => resolve.reject(d, reason)}
                />
              )}
              {d.mode === "approve" && (
                <Text size="sm" c="dimmed">
                  {t("approvals.expires")} <Countdown until={d.expiresAt} clock={cluster.data} />
                </Text>
              )}
              {d.mode === "recommend" && (
                <Text size="sm" c="dimmed">
                  {t("approvals.recommendOnly")}
                </Text>
              )}
            </Stack>
          )}
        </Group>
      </Panel>
      <SimpleGrid cols={{ base: 2, md: 4 }}>
        <Stat
          label={t("decisions.change")}
          value={<Change from={d.from} target={d.target} />}
          detail={`${t("decisions.readyThen")}: ${f.integer(d.ready)}`}
        />
        <Stat label={t("decisions.needed")} value={f.integer(d.needed)} />
        <Stat
          label={t("decisions.bounds")}
          value={t("workloads.boundsValue", { min: f.integer(d.min), max: f.integer(d.max) })}
          detail={<ModeBadge mode={d.mode} />}
        />
        <Stat
          label={t("decisions.costEffect")}
          value={d.outcome === "hold" ? "–" : <CostDelta delta={d.costDeltaHour} />}
          detail={d.outcome !== "hold" && !d.costDeltaHour ? t("decisions.costUnknown") : ""}
        />
      </SimpleGrid>
      <Panel title={t("decisions.steps")} hint={t("decisions.stepsHint")}>
        <Ladder decision={d} />
      </Panel>
      <Panel flush title={t("decisions.inputs")} hint={t("decisions.inputsHint")}>
        <Inputs decision={d} />
      </Panel>
      <Panel flush title={t("decisions.alternatives")}>
        <Alternatives decision={d} />
      </Panel>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Panel title={t("decisions.history")}>
          <History decision={d} />
        </Panel>
        <Proof decision={d} />
      </SimpleGrid>
    </Stack>
  );
}

export function DecisionPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const { id } = useParams({ from: "/signed-in/decisions/$id" });
  const me = useMe();
  const query = useQuery(decisionQuery(id, me.tenant.currency));
  const d = query.data;
  return (
    <>
      <PageHead
        title={d ? readKey(d.key).name : t("decisions.page")}
        crumb={
          <Group gap={6}>
            <TextLink to="/decisions">{t("decisions.title")}</TextLink>
            {d && (
              <>
                <span>/</span>
                <TextLink to="/workloads/$id" params={{ id: d.workloadId }}>
                  {d.key}
                </TextLink>
                <span>· {f.fullTime(d.at)}</span>
              </>
            )}
          </Group>
        }
        badges={
          d && (
            <>
              <OutcomeText outcome={d.outcome} />
              <StateBadge state={d.state} />
            </>
          )
        }
      />
      <Gate query={query} skeleton={<CardSkeleton height={560} />}>
        {(decision) => <Body decision={decision} />}
      </Gate>
    </>
  );
}
