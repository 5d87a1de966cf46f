import { Button, Group, Select } from "@mantine/core";
import { IconTargetArrow } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { DECISION_STATES, decisionsQuery, OUTCOMES } from "../api/decisions";
import { DecisionTable } from "../components/decision-table";
import { PageHead, Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { Pager } from "../components/table";
import { ClusterSelect } from "./cluster-select";

export function DecisionsPage() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/signed-in/decisions" });
  const navigate = useNavigate();
  const { cursor, state, outcome, ...rest } = search;
  const query = useQuery(
    decisionsQuery({
      ...rest,
      state: state ? [state] : undefined,
      outcome: outcome ? [outcome] : undefined,
      cursor,
      limit: 50,
    }),
  );
  const filters = { state, outcome, ...rest };
  const filtered = Object.values(filters).some((v) => v !== undefined);
  const change = (part: Partial<typeof filters>) =>
    void navigate({ to: "/decisions", search: { ...filters, ...part } });
  return (
    <>
      <PageHead title={t("decisions.title")} />
      <Panel flush>
        <Group p="md" pb="xs" gap="sm">
          <Select
            aria-label={t("decisions.outcome")}
            placeholder={t("decisions.anyOutcome")}
            clearable
            w={170}
            value={outcome ?? null}
            data={OUTCOMES.map((o) => ({ value: o, label: t(`outcome.${o}`) }))}
            onChange={(value) => change({ outcome: OUTCOMES.find((o) => o === value) })}
          />
          <Select
            aria-label={t("decisions.state")}
            placeholder={t("decisions.anyState")}
            clearable
            w={180}
            value={state ?? null}
            data={DECISION_STATES.map((s) => ({ value: s, label: t(`decisionState.${s}`) }))}
            onChange={(value) => change({ state: DECISION_STATES.find((s) => s === value) })}
          />
          <ClusterSelect
            width={190}
            value={search.cluster ?? null}
            onChange={(cluster) => change({ cluster: cluster ?? undefined })}
          />
          {filtered && (
            <Button variant="subtle" color="gray" onClick={() => void navigate({ to: "/decisions" })}>
              {t("common.clear")}
            </Button>
          )}
        </Group>
        <Gate
          query={query}
          skeleton={<TableSkeleton rows={10} />}
          isEmpty={(page) => page.items.length === 0}
          empty={
            filtered ? (
              <Empty title={t("decisions.noMatch")} text={t("workloads.noMatchText")} height={300} />
            ) : (
              <Empty
                icon={<IconTargetArrow size={34} stroke={1.4} />}
                title={t("decisions.empty")}
                text={t("decisions.emptyText")}
                height={300}
              />
            )
          }
        >
          {(page) => (
            <>
              <DecisionTable
                decisions={page.items}
                onOpen={(d) => void navigate({ to: "/decisions/$id", params: { id: d.id } })}
              />
              <Pager
                cursor={cursor}
                nextCursor={page.nextCursor}
                onMove={(next) => void navigate({ to: "/decisions", search: { ...filters, cursor: next } })}
              />
            </>
          )}
        </Gate>
      </Panel>
    </>
  );
}
