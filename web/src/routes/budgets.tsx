import { Button, SimpleGrid } from "@mantine/core";
import { IconPlus, IconWallet } from "@tabler/icons-react";
import { useQueries, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  type Budget,
  type BudgetInput,
  budgetsQuery,
  changeBudget,
  createBudget,
  deleteBudget,
  resetBreaker,
} from "../api/budgets";
import { clusterQuery } from "../api/clusters";
import { channelsQuery } from "../api/telling";
import { ask } from "../components/ask";
import { BudgetCard } from "../components/budget-card";
import { BudgetForm } from "../components/budget-form";
import { PageHead, Panel } from "../components/page";
import { CardSkeleton, Empty, Gate } from "../components/state";
import { useAct } from "./act";
import { ClusterSelect } from "./cluster-select";
import { useMay, useMe } from "./me";

const TOUCHES = [["budgets"], ["alerts"]];

export function BudgetsPage() {
  const { t } = useTranslation();
  const me = useMe();
  const may = useMay("finance");
  const mayReset = useMay("operator");
  const { act, busy } = useAct();
  const query = useQuery(budgetsQuery);
  const ids = [...new Set((query.data ?? []).flatMap((b) => b.clusterId ?? []))];
  const clusters = useQueries({ queries: ids.map(clusterQuery) });
  const webhooks = useQuery(channelsQuery);
  const [editing, setEditing] = useState<{ budget: Budget | null } | null>(null);

  const save = async (input: BudgetInput) => {
    const id = editing?.budget?.id;
    const done = await act(() => (id ? changeBudget(id, input) : createBudget(input)), TOUCHES, t("budgets.saved"));
    if (done) setEditing(null);
  };
  const drop = (b: Budget) =>
    ask({
      title: t("budgets.deleteTitle", { name: b.name }),
      text: t("budgets.deleteText"),
      confirm: t("common.delete"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => deleteBudget(b.id), TOUCHES, t("budgets.deleted")),
    });
  const add = may && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setEditing({ budget: null })}>
      {t("budgets.add")}
    </Button>
  );
  return (
    <>
      <PageHead title={t("budgets.title")} actions={add} />
      <Gate
        query={query}
        skeleton={
          <SimpleGrid cols={{ base: 1, md: 2, xl: 3 }}>
            <CardSkeleton height={120} />
            <CardSkeleton height={120} />
            <CardSkeleton height={120} />
          </SimpleGrid>
        }
        isEmpty={(list) => list.length === 0}
        empty={
          <Panel>
            <Empty
              icon={<IconWallet size={34} stroke={1.4} />}
              title={t("budgets.empty")}
              text={t("budgets.emptyText")}
              action={add}
              height={300}
            />
          </Panel>
        }
      >
        {(list) => (
          <SimpleGrid cols={{ base: 1, md: 2, xl: 3 }}>
            {list.map((b) => (
              <BudgetCard
                key={b.id}
                budget={b}
                clusterName={clusters.find((c) => c.data?.id === b.clusterId)?.data?.name ?? null}
                webhookName={webhooks.data?.find((w) => w.id === b.webhookId)?.name ?? null}
                onEdit={may ? () => setEditing({ budget: b }) : undefined}
                onDelete={may ? () => drop(b) : undefined}
                onReset={
                  mayReset ? () => void act(() => resetBreaker(b.id), TOUCHES, t("telling.resetDone")) : undefined
                }
              />
            ))}
          </SimpleGrid>
        )}
      </Gate>
      {editing && (
        <BudgetForm
          budget={editing.budget}
          currency={me.tenant.currency}
          clusterField={(value, onChange) => (
            <ClusterSelect
              label={t("budgets.cluster")}
              placeholder={t("budgets.anyCluster")}
              value={value}
              onChange={onChange}
            />
          )}
          webhooks={webhooks.data ?? []}
          busy={busy}
          onClose={() => setEditing(null)}
          onSave={(input) => void save(input)}
        />
      )}
    </>
  );
}
