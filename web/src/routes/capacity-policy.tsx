// The policy of a cluster's capacity plans: every field, what changes, what a plan would be, and how it comes into force.
import { Badge, Button, Group, Modal, SegmentedControl, Stack, Table, Text, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  type CapacityDefault,
  type CapacityPolicy,
  type Comparison,
  capacityDefaultQuery,
  capacityPolicyQuery,
  capacityRolloutsQuery,
  inheritPolicy,
  type PolicyDoc,
  previewPolicy,
  saveDefault,
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
function AtOnce({
  text,
  busy,
  onClose,
  onSave,
}: {
  text: string;
  busy: boolean;
  onClose: () => void;
  onSave: (why: string) => void;
}) {
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
        <Text size="sm">{text}</Text>
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

function Editor<P extends CapacityPolicy>({
  cluster,
  policy,
  stale,
  enforces,
  standard,
  save,
  onSaved,
}: {
  cluster: Host;
  policy: P;
  /** Somebody has saved another one since. */
  stale: boolean;
  /** The next plan acts on it. */
  enforces: boolean;
  /** Names of the clusters that a rollout of the tenant's default reaches; none: it is the cluster's own policy. */
  standard?: string[];
  save: (doc: PolicyDoc, why?: string) => Promise<P>;
  onSaved: (policy: P) => void;
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

  const look = () =>
    act(async () => {
      setPreview({ of: current, comparison: await previewPolicy(cluster.id, doc) });
    }, []);
  const put = (why?: string) => act(async () => onSaved(await save(doc, why)), touches, t("capacityPolicy.saved"));
  const ready = changed && sound && !busy && !stale;

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
      {asks === "once" && (
        <AtOnce
          text={t("capacityPolicy.atOnceText")}
          busy={busy}
          onClose={() => setAsks(undefined)}
          onSave={(why) => void put(why)}
        />
      )}
      {asks === "rollout" && (
        <StartRollout
          cluster={cluster}
          standard={standard}
          version={policy.version}
          policy={doc}
          onClose={() => setAsks(undefined)}
        />
      )}
    </Stack>
  );
}

function Version({ policy, never }: { policy: CapacityPolicy; never: string }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(30);
  const who = useActorName();
  const version = policy.inherited ? policy.standard : policy.version;
  return (
    <Badge variant="light" color={version > 0 ? "blue" : "gray"} tt="none">
      {version > 0 && policy.updatedAt
        ? t(policy.inherited ? "capacityPolicy.standard.inherited" : "capacityPolicy.version", {
            value: f.integer(version),
            who: who(policy.updatedBy),
            time: f.relative(policy.updatedAt, now),
          })
        : never}
    </Badge>
  );
}

/** Takes the cluster's own policy away. Where the cluster enforces it asks why, unless the service finds that nothing changes by it. */
function GoBack({
  cluster,
  policy,
  onBack,
}: {
  cluster: Host;
  policy: CapacityPolicy;
  onBack: (p: CapacityPolicy) => void;
}) {
  const { t } = useTranslation();
  const { act, busy } = useAct();
  const [asks, setAsks] = useState(false);
  const back = (why?: string) =>
    act(
      async () => onBack(await inheritPolicy(cluster.id, policy.version, why)),
      [["clusters"]],
      t("capacityPolicy.standard.backDone"),
    );
  return (
    <>
      <Button
        size="xs"
        variant="default"
        loading={busy}
        onClick={() => (cluster.mode === "enforce" ? setAsks(true) : void back())}
      >
        {t("capacityPolicy.standard.back")}
      </Button>
      {asks && (
        <AtOnce
          text={t("capacityPolicy.standard.backText")}
          busy={busy}
          onClose={() => setAsks(false)}
          onSave={(why) => void back(why)}
        />
      )}
    </>
  );
}

/** What is edited stays while somebody else saves: the newer one is loaded when it is asked for. */
function Loaded({ cluster, newest }: { cluster: Host; newest: CapacityPolicy }) {
  const { t } = useTranslation();
  const f = useFormat();
  const may = useMay("operator");
  const [shown, setShown] = useState(newest);
  const stale = newest.version !== shown.version || newest.standard !== shown.standard;
  return (
    <>
      <Stack gap="md" px="md">
        <Group gap={8}>
          <Version policy={shown} never={t("capacityPolicy.never")} />
          <Text size="sm" c="dimmed">
            {t(shown.inherited ? "capacityPolicy.standard.hintInherited" : "capacityPolicy.hint")}
          </Text>
          {may && !shown.inherited && <GoBack cluster={cluster} policy={shown} onBack={setShown} />}
        </Group>
        {stale && (
          <StaleNote onRetry={() => setShown(newest)}>
            {newest.version === shown.version
              ? t("capacityPolicy.standard.changed")
              : t("capacityPolicy.old", { value: f.integer(newest.version) })}
          </StaleNote>
        )}
        <CapacityRollouts cluster={cluster.id} />
      </Stack>
      <Editor
        key={`${shown.version} ${shown.standard}`}
        cluster={cluster}
        policy={shown}
        stale={stale}
        enforces={cluster.mode === "enforce"}
        save={(doc, why) => savePolicy(cluster.id, shown.version, doc, why)}
        onSaved={setShown}
      />
    </>
  );
}

function LoadedDefault({ cluster, newest }: { cluster: Host; newest: CapacityDefault }) {
  const { t } = useTranslation();
  const f = useFormat();
  const [shown, setShown] = useState(newest);
  const enforcing = newest.clusters.filter((c) => c.enforces).map((c) => c.name);
  const stale = newest.version !== shown.version;
  return (
    <>
      <Stack gap="md" px="md" data-capacity-default>
        <Group gap={8}>
          <Version policy={shown} never={t("capacityPolicy.standard.never")} />
          <Text size="sm" c="dimmed">
            {t("capacityPolicy.standard.hint")}
          </Text>
        </Group>
        <Text size="sm">
          {newest.clusters.length > 0
            ? t("capacityPolicy.standard.takers", {
                value: f.integer(newest.clusters.length),
                clusters: newest.clusters
                  .slice(0, 20)
                  .map((c) => c.name)
                  .join(", "),
                enforcing: f.integer(enforcing.length),
              })
            : t("capacityPolicy.standard.noTakers")}
        </Text>
        {stale && (
          <StaleNote onRetry={() => setShown(newest)}>
            {t("capacityPolicy.old", { value: f.integer(newest.version) })}
          </StaleNote>
        )}
      </Stack>
      <Editor
        key={shown.version}
        cluster={cluster}
        policy={shown}
        stale={stale}
        enforces={enforcing.length > 0}
        standard={enforcing}
        save={(doc, why) => saveDefault(shown.version, doc, why)}
        onSaved={setShown}
      />
    </>
  );
}

const SKELETON = (
  <Stack p="md">
    <BlockSkeleton height={520} />
  </Stack>
);

export function CapacityPolicyTab({ cluster }: { cluster: Host }) {
  const { t } = useTranslation();
  const [of, setOf] = useState<"cluster" | "default">("cluster");
  const own = useQuery(capacityPolicyQuery(cluster.id));
  const standard = useQuery({ ...capacityDefaultQuery, enabled: of === "default" });
  return (
    <Stack gap="md" pt="md">
      <Group px="md">
        <SegmentedControl
          size="xs"
          aria-label={t("capacityPolicy.standard.of")}
          value={of}
          onChange={(v) => setOf(v === "default" ? "default" : "cluster")}
          data={[
            { value: "cluster", label: t("capacityPolicy.standard.thisCluster") },
            { value: "default", label: t("capacityPolicy.standard.title") },
          ]}
        />
      </Group>
      {of === "cluster" ? (
        <Gate query={own} skeleton={SKELETON}>
          {(newest) => <Loaded key={cluster.id} cluster={cluster} newest={newest} />}
        </Gate>
      ) : (
        <Gate query={standard} skeleton={SKELETON}>
          {(newest) => <LoadedDefault cluster={cluster} newest={newest} />}
        </Gate>
      )}
    </Stack>
  );
}
