import { Card, Group, Stack, Text } from "@mantine/core";
import { IconChecklist } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { clusterQuery } from "../api/clusters";
import { type Decision, decisionsQuery } from "../api/decisions";
import { ApproveButtons, Countdown } from "../components/approve";
import { Change, CostDelta, OutcomeText } from "../components/badge";
import { LinkButton } from "../components/link";
import { PageHead, Panel } from "../components/page";
import { CardSkeleton, Empty, Gate } from "../components/state";
import { WorkloadName } from "../components/workload-name";
import { reasonName } from "../lib/explain";
import { useFormat } from "../lib/format";
import { useMay } from "./me";
import { useResolve } from "./use-resolve";

function Proposal({ decision: d, may }: { decision: Decision; may: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  const resolve = useResolve();
  const cluster = useQuery(clusterQuery(d.clusterId));
  return (
    <Card className="card" padding="md" data-proposal={d.id}>
      <div className="proposal">
        <WorkloadName id={d.workloadId} workloadKey={d.key} />
        <Stack gap={0}>
          <OutcomeText outcome={d.outcome} />
          <Text size="sm">
            <Change from={d.from} target={d.target} />
          </Text>
        </Stack>
        <Stack gap={0}>
          <Text size="sm">{reasonName(t, d.binding)}</Text>
          <Text size="xs" c="dimmed">
            {f.dateTime(d.at)}
          </Text>
        </Stack>
        <Stack gap={0}>
          <Text size="xs" c="dimmed">
            {t("decisions.costEffect")}
          </Text>
          <Text size="sm">
            <CostDelta delta={d.costDeltaHour} />
          </Text>
        </Stack>
        <Stack gap={0}>
          <Text size="xs" c="dimmed">
            {t("approvals.expires")}
          </Text>
          <Countdown until={d.expiresAt} clock={cluster.data} />
        </Stack>
        <Group gap="xs" wrap="nowrap" justify="flex-end">
          <LinkButton size="xs" variant="subtle" to="/decisions/$id" params={{ id: d.id }}>
            {t("decisions.why")}
          </LinkButton>
          {may && (
            <ApproveButtons
              decision={d}
              busy={resolve.busy}
              onApprove={() => resolve.approve(d)}
              onReject={(reason) => resolve.reject(d, reason)}
            />
          )}
        </Group>
      </div>
    </Card>
  );
}

export function ApprovalsPage() {
  const { t } = useTranslation();
  const may = useMay("operator");
  const query = useQuery({ ...decisionsQuery({ state: ["proposed"], limit: 100 }), refetchInterval: 30_000 });
  return (
    <>
      <PageHead title={t("approvals.title")} text={t("approvals.intro")} />
      <Gate
        query={query}
        skeleton={
          <Stack>
            <CardSkeleton height={50} />
            <CardSkeleton height={50} />
          </Stack>
        }
        isEmpty={(page) => page.items.length === 0}
        empty={
          <Panel>
            <Empty
              icon={<IconChecklist size={34} stroke={1.4} />}
              title={t("approvals.empty")}
              text={t("approvals.emptyText")}
              height={300}
            />
          </Panel>
        }
      >
        {(page) => (
          <Stack gap="sm">
            {page.items.map((d) => (
              <Proposal key={d.id} decision={d} may={may} />
            ))}
          </Stack>
        )}
      </Gate>
    </>
  );
}
