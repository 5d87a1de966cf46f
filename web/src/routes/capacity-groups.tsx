// The groups of clouds that a cluster's plans make larger: below the plan on the cluster's page.
import { Button, Stack } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { cloudAccountsQuery } from "../api/cloud-accounts";
import {
  type CloudGroup,
  type CloudGroupInput,
  cloudGroupsQuery,
  deleteCloudGroup,
  type GroupAction,
  saveCloudGroup,
  undoGroupAction,
} from "../api/cloud-groups";
import type { Cluster } from "../api/clusters";
import { ask } from "../components/ask";
import { GroupForm } from "../components/capacity/group-form";
import { GroupTable } from "../components/capacity/group-table";
import { Panel } from "../components/page";
import { Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";
import { useAct } from "./act";
import { useMay } from "./me";

/** The form, once the accounts to choose from are there. */
function Edit({ cluster, group, onClose }: { cluster: string; group: CloudGroup | null; onClose: () => void }) {
  const { t } = useTranslation();
  const { act, busy } = useAct();
  const accounts = useQuery(cloudAccountsQuery);
  const save = (input: CloudGroupInput) =>
    void act(
      () => saveCloudGroup(cluster, group?.id ?? crypto.randomUUID(), input),
      [["clusters", "cloud-groups", cluster]],
      t("group.saved"),
    ).then((done) => done && onClose());
  if (accounts.isPending) return null;
  return <GroupForm group={group} accounts={accounts.data ?? []} busy={busy} onClose={onClose} onSave={save} />;
}

export function CloudGroups({ cluster: c }: { cluster: Pick<Cluster, "id" | "mode" | "frozen"> }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(10);
  const may = useMay("admin");
  const { act, busy } = useAct();
  const query = useQuery(cloudGroupsQuery(c.id));
  const [edited, setEdited] = useState<CloudGroup | "new" | null>(null);
  const touches = [["clusters", "cloud-groups", c.id]];
  /** Whether the clouds are asked for anything, an undo included. */
  const acts = c.mode === "enforce" && !c.frozen;

  const undo = (g: CloudGroup, a: GroupAction) =>
    ask({
      title: t("group.undoTitle", { name: g.ref, value: f.integer(a.before) }),
      text: t("group.undoText"),
      confirm: t("group.undo"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => undoGroupAction(c.id, a.id), touches, t("group.undone")),
    });
  const drop = (g: CloudGroup) =>
    ask({
      title: t("group.deleteTitle", { name: g.ref }),
      text: t("group.deleteText"),
      confirm: t("common.delete"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => deleteCloudGroup(c.id, g.id), touches, t("group.deleted")),
    });
  const add = may && (
    <Button size="xs" variant="default" leftSection={<IconPlus size={14} />} onClick={() => setEdited("new")}>
      {t("group.add")}
    </Button>
  );
  return (
    <Stack px="md" pb="md" data-cloud-groups>
      <Panel title={t("group.title")} hint={t("group.hint")} flush actions={query.data?.length ? add : undefined}>
        <Gate
          query={query}
          skeleton={<TableSkeleton rows={2} />}
          isEmpty={(list) => list.length === 0}
          empty={<Empty title={t("group.empty")} text={t("group.emptyText")} action={add} height={140} />}
        >
          {(list) => (
            <Stack gap="sm">
              {c.mode !== "enforce" ? (
                <StaleNote>{t("group.notEnforced", { mode: t(`mode.${c.mode}`) })}</StaleNote>
              ) : (
                c.frozen && <StaleNote>{t("group.frozen")}</StaleNote>
              )}
              <GroupTable
                groups={list}
                now={now}
                busy={busy}
                onUndo={may && acts ? undo : undefined}
                onEdit={may ? setEdited : undefined}
                onDelete={may ? drop : undefined}
              />
            </Stack>
          )}
        </Gate>
      </Panel>
      {edited && <Edit cluster={c.id} group={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </Stack>
  );
}
