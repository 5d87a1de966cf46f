import { Alert, Button, Grid, Group, Menu, Modal, Stack, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconChevronDown } from "@tabler/icons-react";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  lintQuery,
  type PolicyVersion,
  policyQuery,
  policyVersionsQuery,
  presetsQuery,
  savePolicy,
} from "../api/policies";
import { isProblem, Problem } from "../api/problem";
import type { Workload } from "../api/workloads";
import { ask, tell, tellProblem } from "../components/ask";
import { ModeBadge } from "../components/badge";
import { Panel } from "../components/page";
import { Diff, Editor, Findings } from "../components/policy-editor";
import { ReplayGate } from "../components/replay-gate";
import { BlockSkeleton, Empty, Gate, useProblemText } from "../components/state";
import { useFormat } from "../lib/format";
import { useActorName } from "./actor";
import { useMay } from "./me";
import { RolloutPanel } from "./workload-rollouts";

/** The editor of one workload's policy: text, findings, versions. `base` is the version the text was started from. */
function PolicyEditor({ workload, current }: { workload: Workload; current: PolicyVersion | null }) {
  const { t } = useTranslation();
  const f = useFormat();
  const queries = useQueryClient();
  const problemText = useProblemText();
  const mayEdit = useMay("operator");
  const [base, setBase] = useState(current);
  const [draft, setDraft] = useState(current?.document ?? "");
  const [busy, setBusy] = useState(false);
  const [conflict, setConflict] = useState(false);
  const [gated, setGated] = useState("");
  const [compare, setCompare] = useState<PolicyVersion | null>(null);
  const [settled] = useDebouncedValue(draft, 400);
  const who = useActorName();
  const versions = useQuery(policyVersionsQuery(workload.id));
  const presets = useQuery(presetsQuery);
  const lint = useQuery({ ...lintQuery(settled), enabled: settled.trim() !== "", placeholderData: keepPreviousData });
  const changed = draft !== (base?.document ?? "");
  const findings = draft.trim() === "" ? [] : (lint.data ?? []);
  const checking = draft !== settled || (settled.trim() !== "" && lint.isPending);
  const blocked = draft.trim() === "" || findings.some((x) => x.severity === "error");

  // A version that came from elsewhere is taken over only while nothing was typed.
  const newest = current?.version ?? 0;
  if (!changed && newest > (base?.version ?? 0)) {
    setBase(current);
    setDraft(current?.document ?? "");
  }

  const take = (document: string) => {
    if (!changed || draft.trim() === "") {
      setDraft(document);
      return;
    }
    ask({
      title: t("policy.replaceTitle"),
      text: t("policy.replaceText"),
      confirm: t("policy.replace"),
      cancel: t("common.cancel"),
      onConfirm: () => setDraft(document),
    });
  };

  const save = async (override?: string) => {
    setBusy(true);
    setConflict(false);
    setGated("");
    try {
      const saved = await savePolicy(workload.id, draft, base?.version ?? 0, override);
      setBase(saved);
      setDraft(saved.document);
      tell(t("policy.saved", { version: saved.version }));
      await Promise.all([
        queries.invalidateQueries({ queryKey: ["policies"] }),
        queries.invalidateQueries({ queryKey: ["workloads"] }),
      ]);
    } catch (error) {
      if (error instanceof Problem && error.fields.some((x) => x.field === "replay_override")) {
        setGated(draft);
      } else if (isProblem(error, 409) || isProblem(error, 412)) {
        setConflict(true);
        void queries.invalidateQueries({ queryKey: ["policies"] });
      } else {
        const fields = error instanceof Problem ? error.fields.map((x) => x.message).filter(Boolean) : [];
        tellProblem([problemText(error), ...fields].join(" "));
      }
    } finally {
      setBusy(false);
    }
  };

  const presetMenu = (presets.data?.length ?? 0) > 0 && (
    <Menu shadow="md" width={360} position="bottom-end">
      <Menu.Target>
        <Button size="xs" variant="default" rightSection={<IconChevronDown size={14} />}>
          {t("policy.preset")}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {presets.data?.map((p) => (
          <Menu.Item key={p.name} onClick={() => take(p.document)}>
            <Text size="sm" fw={600} className="mono">
              {p.name}
            </Text>
            {p.about && (
              <Text size="xs" c="dimmed">
                {p.about}
              </Text>
            )}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );

  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, lg: 7 }}>
        <Panel
          title={t("policy.editor")}
          actions={
            <Group gap="sm">
              {changed && (
                <Text size="sm" c="orange">
                  {t("policy.unsaved")}
                </Text>
              )}
              {mayEdit && presetMenu}
            </Group>
          }
        >
          <Stack gap="sm">
            {!current && (
              <Alert color="blue" title={t("policy.none")}>
                {t("policy.noneText")}
              </Alert>
            )}
            {conflict && (
              <Alert color="orange" role="alert">
                <Stack gap="sm" align="flex-start">
                  <Text size="sm">{t("policy.conflict")}</Text>
                  <Group gap="sm">
                    {current && (
                      <Button size="xs" variant="default" onClick={() => setCompare(current)}>
                        {t("policy.compare")}
                      </Button>
                    )}
                    <Button
                      size="xs"
                      variant="default"
                      onClick={() => {
                        setBase(current);
                        setConflict(false);
                      }}
                    >
                      {t("policy.loadNewest")}
                    </Button>
                  </Group>
                </Stack>
              </Alert>
            )}
            {gated !== "" && gated === draft && (
              <ReplayGate workload={workload.id} busy={busy} onSave={(reason) => void save(reason)} />
            )}
            <Editor
              value={draft}
              onChange={setDraft}
              readOnly={!mayEdit}
              findings={findings}
              label={t("policy.editor")}
            />
            {mayEdit ? (
              <Group justify="space-between">
                <Text size="sm" c="dimmed">
                  {blocked && changed && draft.trim() !== "" && !checking ? t("policy.errorsBlock") : ""}
                </Text>
                <Group gap="sm">
                  {changed && (
                    <Button variant="subtle" color="gray" onClick={() => setDraft(base?.document ?? "")}>
                      {t("policy.discard")}
                    </Button>
                  )}
                  <Button loading={busy} disabled={!changed || checking || blocked} onClick={() => void save()}>
                    {t("policy.save")}
                  </Button>
                </Group>
              </Group>
            ) : (
              <Text size="sm" c="dimmed">
                {t("policy.readOnly")}
              </Text>
            )}
          </Stack>
        </Panel>
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 5 }}>
        <Stack gap="md">
          <Panel title={t("policy.findings")}>
            {draft.trim() === "" ? (
              <Text size="sm" c="dimmed">
                –
              </Text>
            ) : (
              <Findings findings={findings} checking={checking} />
            )}
          </Panel>
          <RolloutPanel
            workload={workload.id}
            draft={changed && !checking && !blocked ? draft : null}
            saved={current !== null}
            may={mayEdit}
          />
          <Panel title={t("policy.versions")}>
            <Gate
              query={versions}
              skeleton={<BlockSkeleton height={120} />}
              isEmpty={(list) => list.length === 0}
              empty={<Empty title={t("policy.none")} height={100} />}
            >
              {(list) => (
                <Stack gap={12}>
                  {list.slice(0, 20).map((v) => (
                    <Group key={v.version} justify="space-between" wrap="nowrap" align="flex-start">
                      <div>
                        <Group gap={8}>
                          <Text size="sm" fw={600}>
                            {t("policy.version", { version: v.version })}
                          </Text>
                          <ModeBadge mode={v.mode} />
                          {v.version === current?.version && (
                            <Text size="xs" c="teal" fw={600}>
                              {t("policy.current")}
                            </Text>
                          )}
                        </Group>
                        <Text size="xs" c="dimmed">
                          {v.createdAt
                            ? t("policy.by", { who: who(v.createdBy), time: f.dateTime(v.createdAt) })
                            : who(v.createdBy)}
                        </Text>
                      </div>
                      <Button size="compact-xs" variant="default" onClick={() => setCompare(v)}>
                        {t("policy.compare")}
                      </Button>
                    </Group>
                  ))}
                </Stack>
              )}
            </Gate>
          </Panel>
        </Stack>
      </Grid.Col>
      <Modal
        opened={compare !== null}
        onClose={() => setCompare(null)}
        title={t("policy.compareTitle", { version: compare?.version ?? 0 })}
        size="xl"
      >
        {compare && (
          <Stack>
            <Diff before={compare.document} after={draft} />
            <Group justify="flex-end">
              <Button variant="default" onClick={() => setCompare(null)}>
                {t("common.close")}
              </Button>
              {mayEdit && (
                <Button
                  onClick={() => {
                    setDraft(compare.document);
                    setCompare(null);
                  }}
                >
                  {t("policy.restore")}
                </Button>
              )}
            </Group>
          </Stack>
        )}
      </Modal>
    </Grid>
  );
}

export function PolicyTab({ workload }: { workload: Workload }) {
  const query = useQuery(policyQuery(workload.id));
  return (
    <Gate query={query} skeleton={<BlockSkeleton height={480} />}>
      {(current) => <PolicyEditor key={workload.id} workload={workload} current={current} />}
    </Gate>
  );
}
