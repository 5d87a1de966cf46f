// The policy of a cluster's capacity plans: every field, what changes, what a plan would be, and how it comes into force.
import { Badge, Button, Group, Modal, Stack, Table, Text, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  type CapacityPolicy,
  type Comparison,
  capacityPolicyQuery,
  capacityRolloutsQuery,
  previewPolicy,
  savePolicy,
} from "../api/capacity-policy";
import type { Cluster } from "../api/clusters";
import { PolicyComparison } from "../components/capacity/policy-compare";
import { PolicyForm } from "../components/capacity/policy-form";
import { Panel } from "../components/page";
import { BlockSkeleton, Gate, StaleNote } from "../components/state";
import { changesOf, type Draft, docOf, draftOf, isSound } from "../lib/capacity-policy";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";
import { useAct } from "./act";
import { useActorName } from "./actor";
import { CapacityRollouts, StartRollout } from "./capacity-rollouts";
import { useMay } from "./me";

type Host = Pick<Cluster, "id" | "name" | "mode">;

function Changes({ before, after }: { before: Draft; after: Draft }) {
  const { t } = useTranslation();
  const changes = changesOf(before, after);
  if (changes.length === 0)
    return (
      <Text size="sm" c="dimmed">
        {t("capacityPolicy.noChanges")}
      </Text>
    );
  const show = (text: string) => (text === "yes" ? t("capacityPolicy.yes") : text || "–");
  return (
    <Table.ScrollContainer minWidth={360}>
      <Table verticalSpacing={4} aria-label={t("capacityPolicy.changes")} data-policy-changes>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("capacityPolicy.field")}</Table.Th>
            <Table.Th>{t("capacityPolicy.before")}</Table.Th>
            <Table.Th>{t("capacityPolicy.after")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {changes.map((c) => (
            <Table.Tr key={c.key}>
              <Table.Td>{t(`capacityPolicy.fields.${c.key}.label`)}</Table.Td>
              <Table.Td c="dimmed">{show(c.before)}</Table.Td>
              <Table.Td fw={550}>{show(c.after)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** Asks why a policy comes into force without a rollout. */
function AtOnce({ busy, onClose, onSave }: { busy: boolean; onClose: () => void; onSave: (why: string) => void }) {
  const { t } = useTranslation();
  const [why, setWhy] = useState("");
  return (
    <Modal
      opened
      onClose={onClose}
      title={t("capacityPolicy.atOnceTitle")}
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <Stack gap="sm">
        <Text size="sm">{t("capacityPolicy.atOnceText")}</Text>
        <Textarea
          label={t("capacityPolicy.atOnceReason")}
          required
          maxLength={500}
          rows={3}
          value={why}
          onChange={(e) => setWhy(e.currentTarget.value)}
        />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button color="red" loading={busy} disabled={why.trim() === ""} onClick={() => onSave(why.trim())}>
            {t("capacityPolicy.atOnce")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}

function Editor({
  cluster,
  policy,
  newest,
  onSaved,
}: {
  cluster: Host;
  policy: CapacityPolicy;
  newest: number;
  onSaved: (policy: CapacityPolicy) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const may = useMay("operator");
  const { act, busy } = useAct();
  const rollouts = useQuery(capacityRolloutsQuery(cluster.id));
  const saved = draftOf(policy.doc);
  const [draft, setDraft] = useState(saved);
  const [preview, setPreview] = useState<{ of: string; comparison: Comparison | null }>();
  const [asks, setAsks] = useState<"rollout" | "once">();
  const doc = docOf(policy.doc, draft);
  const sound = isSound(draft);
  const changed = changesOf(saved, draft).length > 0;
  const current = JSON.stringify(doc);
  const touches = [["clusters"]];
  const underway = rollouts.data?.some((r) => r.open) ?? false;
  const enforces = cluster.mode === "enforce";

  const look = () =>
    act(async () => {
      setPreview({ of: current, comparison: await previewPolicy(cluster.id, doc) });
    }, []);
  const put = (why?: string) =>
    act(
      async () => onSaved(await savePolicy(cluster.id, policy.version, doc, why)),
      touches,
      t("capacityPolicy.saved"),
    );
  const ready = changed && sound && !busy && newest === policy.version;

  return (
    <Stack gap="lg" p="md" data-capacity-policy>
      <PolicyForm draft={draft} currency={f.currency} may={may} onChange={setDraft} />
      <Panel
        title={t("capacityPolicy.changes")}
        actions={
          may && (
            <Group gap={8}>
              <Button size="xs" variant="subtle" disabled={!changed || busy} onClick={() => setDraft(saved)}>
                {t("capacityPolicy.discard")}
              </Button>
              {enforces ? (
                <>
                  <Button size="xs" variant="default" disabled={!ready} onClick={() => setAsks("once")}>
                    {t("capacityPolicy.atOnce")}
                  </Button>
                  <Button size="xs" disabled={!ready || underway} onClick={() => setAsks("rollout")}>
                    {t("capacityPolicy.rollOut")}
                  </Button>
                </>
              ) : (
                <Button size="xs" disabled={!ready} loading={busy} onClick={() => void put()}>
                  {t("capacityPolicy.save")}
                </Button>
              )}
            </Group>
          )
        }
      >
        <Changes before={saved} after={draft} />
        {may && enforces && underway && changed && (
          <Text size="sm" c="dimmed" mt="xs">
            {t("capacityPolicy.underway")}
          </Text>
        )}
        {!may && (
          <Text size="sm" c="dimmed" mt="xs">
            {t("capacityPolicy.readOnly")}
          </Text>
        )}
      </Panel>
      <Panel
        title={t("capacityPolicy.preview")}
        hint={t("capacityPolicy.previewHint")}
        actions={
          <Button size="xs" variant="default" disabled={!sound} loading={busy} onClick={() => void look()}>
            {t("capacityPolicy.preview")}
          </Button>
        }
      >
        <Stack gap="sm">
          {preview && preview.of !== current && <StaleNote>{t("capacityPolicy.previewOld")}</StaleNote>}
          {!preview && (
            <Text size="sm" c="dimmed">
              {t("capacityPolicy.previewHint")}
            </Text>
          )}
          {preview && !preview.comparison && (
            <Text size="sm" c="dimmed">
              {t("capacityPolicy.previewNone")}
            </Text>
          )}
          {preview?.comparison && <PolicyComparison comparison={preview.comparison} />}
        </Stack>
      </Panel>
      {asks === "once" && <AtOnce busy={busy} onClose={() => setAsks(undefined)} onSave={(why) => void put(why)} />}
      {asks === "rollout" && (
        <StartRollout cluster={cluster} version={policy.version} policy={doc} onClose={() => setAsks(undefined)} />
      )}
    </Stack>
  );
}

/** What is edited stays while somebody else saves: the newer one is loaded when it is asked for. */
function Loaded({ cluster, newest }: { cluster: Host; newest: CapacityPolicy }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(30);
  const who = useActorName();
  const [shown, setShown] = useState(newest);
  return (
    <>
      <Stack gap="md" px="md" pt="md">
        <Group gap={8}>
          <Badge variant="light" color={shown.version > 0 ? "blue" : "gray"} tt="none">
            {shown.version > 0 && shown.updatedAt
              ? t("capacityPolicy.version", {
                  value: f.integer(shown.version),
                  who: who(shown.updatedBy),
                  time: f.relative(shown.updatedAt, now),
                })
              : t("capacityPolicy.never")}
          </Badge>
          <Text size="sm" c="dimmed">
            {t("capacityPolicy.hint")}
          </Text>
        </Group>
        {newest.version !== shown.version && (
          <StaleNote onRetry={() => setShown(newest)}>
            {t("capacityPolicy.old", { value: f.integer(newest.version) })}
          </StaleNote>
        )}
        <CapacityRollouts cluster={cluster.id} />
      </Stack>
      <Editor key={shown.version} cluster={cluster} policy={shown} newest={newest.version} onSaved={setShown} />
    </>
  );
}

export function CapacityPolicyTab({ cluster }: { cluster: Host }) {
  const query = useQuery(capacityPolicyQuery(cluster.id));
  return (
    <Gate
      query={query}
      skeleton={
        <Stack p="md">
          <BlockSkeleton height={520} />
        </Stack>
      }
    >
      {(newest) => <Loaded key={cluster.id} cluster={cluster} newest={newest} />}
    </Gate>
  );
}
