import { Button, Stack } from "@mantine/core";
import { IconCloud, IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  type CloudAccount,
  type CloudAccountInput,
  type CloudChecks,
  cloudAccountsQuery,
  createCloudAccount,
  deleteCloudAccount,
  priceSourcesQuery,
  refreshCloudAccount,
  validateCloudAccount,
} from "../api/cloud-accounts";
import { ask } from "../components/ask";
import { ChecksDialog, CloudAccountCard, PriceSourceTable } from "../components/cloud-account-card";
import { CloudAccountForm } from "../components/cloud-account-form";
import { PageHead, Panel } from "../components/page";
import { Secret } from "../components/secret";
import { CardSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { useNow } from "../lib/now";
import { useAct } from "./act";
import { useMay } from "./me";

const TOUCHES = [["cloud-accounts"], ["price-sources"]];

function Sources() {
  const { t } = useTranslation();
  const now = useNow(30);
  const query = useQuery(priceSourcesQuery);
  return (
    <Panel flush title={t("market.accounts.sources")} hint={t("market.accounts.sourcesHint")}>
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={4} />}
        isEmpty={(list) => list.length === 0}
        empty={
          <Empty title={t("market.accounts.sourcesEmpty")} text={t("market.accounts.sourcesEmptyText")} height={140} />
        }
      >
        {(list) => <PriceSourceTable rows={list} now={now} />}
      </Gate>
    </Panel>
  );
}

export function CloudAccountsPage() {
  const { t } = useTranslation();
  const now = useNow(30);
  const may = useMay("admin");
  const { act, busy } = useAct();
  const query = useQuery(cloudAccountsQuery);
  const [adding, setAdding] = useState(false);
  const [external, setExternal] = useState<CloudAccount | null>(null);
  const [checked, setChecked] = useState<{ name: string; checks: CloudChecks } | null>(null);

  const create = (input: CloudAccountInput) =>
    act(
      async () => {
        const made = await createCloudAccount(input);
        setAdding(false);
        if (made.externalId) setExternal(made);
      },
      TOUCHES,
      t("market.accounts.added", { name: input.name }),
    );
  const validate = (a: CloudAccount) =>
    act(async () => setChecked({ name: a.name, checks: await validateCloudAccount(a.id) }), TOUCHES);
  const refresh = (a: CloudAccount) => act(() => refreshCloudAccount(a.id), TOUCHES, t("market.accounts.refreshing"));
  const drop = (a: CloudAccount) =>
    ask({
      title: t("market.accounts.deleteTitle", { name: a.name }),
      text: t("market.accounts.deleteText"),
      confirm: t("common.delete"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => deleteCloudAccount(a.id), TOUCHES, t("market.accounts.deleted")),
    });
  const add = may && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setAdding(true)}>
      {t("market.accounts.add")}
    </Button>
  );
  return (
    <>
      <PageHead title={t("market.accounts.title")} text={t("market.accounts.text")} actions={add} />
      <Stack gap="md">
        <Gate
          query={query}
          skeleton={<CardSkeleton height={180} />}
          isEmpty={(list) => list.length === 0}
          empty={
            <Panel>
              <Empty
                icon={<IconCloud size={34} stroke={1.4} />}
                title={t("market.accounts.empty")}
                text={t("market.accounts.emptyText")}
                action={add}
              />
            </Panel>
          }
        >
          {(list) => (
            <Stack gap="md">
              {list.map((a) => (
                <CloudAccountCard
                  key={a.id}
                  account={a}
                  now={now}
                  busy={busy}
                  onValidate={may ? () => void validate(a) : undefined}
                  onRefresh={may ? () => void refresh(a) : undefined}
                  onDelete={may ? () => drop(a) : undefined}
                />
              ))}
            </Stack>
          )}
        </Gate>
        <Sources />
      </Stack>
      {adding && (
        <CloudAccountForm busy={busy} onClose={() => setAdding(false)} onCreate={(input) => void create(input)} />
      )}
      {external && (
        <Secret
          title={t("market.accounts.externalTitle", { name: external.name })}
          text={t("market.accounts.externalText")}
          secret={external.externalId}
          onClose={() => setExternal(null)}
        />
      )}
      {checked && <ChecksDialog {...checked} onClose={() => setChecked(null)} />}
    </>
  );
}
