// Rollouts of a capacity policy: how far one is, what it is watched by, and a person's word.
import {
  Badge,
  Button,
  Group,
  Modal,
  MultiSelect,
  NumberInput,
  Progress,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  actOnRollout,
  type CapacityRollout,
  type CapacityRolloutState,
  capacityRolloutsQuery,
  type PolicyDoc,
  type RolloutPart,
  startCapacityRollout,
} from "../api/capacity-policy";
import { type Cluster, clustersQuery } from "../api/clusters";
import { ask } from "../components/ask";
import { PartSigns, PolicyComparison } from "../components/capacity/policy-compare";
import { Panel } from "../components/page";
import { Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { rolloutWhy, splitNames } from "../lib/capacity-policy";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";
import { useAct } from "./act";
import { useActorName } from "./actor";
import { useMay } from "./me";

const TOUCHES = [["clusters"]];
const COLOR: Record<CapacityRolloutState, string> = {
  shadow: "violet",
  canary: "yellow",
  done: "teal",
  rolled_back: "red",
  cancelled: "gray",
  superseded: "gray",
};
function useWhy() {
  const { t } = useTranslation();
  return (code: string) => {
    const known = rolloutWhy(code);
    return known ? t(`capacityPolicy.rollout.why.${known}`) : code;
  };
}

function StateBadge({ state, standard }: { state: CapacityRolloutState; standard: boolean }) {
  const { t } = useTranslation();
  return (
    <Badge color={COLOR[state]} variant="light" tt="none">
      {t(`capacityPolicy.rollout.state.${state}`)}
      {standard && ` · ${t("capacityPolicy.standard.title")}`}
    </Badge>
  );
}

function Part({ part: p, rollout: r, alone }: { part: RolloutPart; rollout: CapacityRollout; alone: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  const why = useWhy();
  const all = r.state === "shadow" ? r.shadowSeconds : r.stageSeconds;
  const reached = r.state === "shadow" || p.inForce;
  const patience = Math.max(2 * all, 900);
  return (
    <Stack gap={6} data-rollout-part>
      {!alone && (
        <Text size="sm" fw={600}>
          {p.cluster}
        </Text>
      )}
      {reached ? (
        <>
          <Progress
            value={Math.min((100 * p.watchedSeconds) / all, 100)}
            aria-label={t("capacityPolicy.rollout.watched", {
              watched: f.duration(p.watchedSeconds),
              all: f.duration(all),
            })}
            color={p.passed ? "red" : "blue"}
          />
          <Text size="sm" c="dimmed">
            {t("capacityPolicy.rollout.watched", { watched: f.duration(p.watchedSeconds), all: f.duration(all) })}
            {p.silentSeconds > 0 &&
              ` · ${t("capacityPolicy.rollout.silent", { silent: f.duration(p.silentSeconds), all: f.duration(patience) })}`}
          </Text>
        </>
      ) : (
        <Text size="sm" c="dimmed">
          {t("capacityPolicy.rollout.notReached")}
        </Text>
      )}
      {p.passed && <StaleNote>{t("capacityPolicy.rollout.guardPassed", { why: why(p.passed) })}</StaleNote>}
      <PartSigns part={p} />
      {p.shadow && r.state === "shadow" && <PolicyComparison comparison={p.shadow} />}
    </Stack>
  );
}

function Underway({ rollout: r, may }: { rollout: CapacityRollout; may: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(10);
  const { act, busy } = useAct();
  const word = (what: "promote" | "pause" | "resume" | "rollback", done: string) =>
    void act(() => actOnRollout(r.id, what, r.seq), TOUCHES, done);
  const promote = () =>
    ask({
      title: t("capacityPolicy.rollout.promoteTitle"),
      text: t("capacityPolicy.rollout.promoteText"),
      confirm: t("capacityPolicy.rollout.promote"),
      cancel: t("common.cancel"),
      onConfirm: () => word("promote", t("capacityPolicy.rollout.promoted")),
    });
  const back = () =>
    ask({
      title: t("capacityPolicy.rollout.rollbackTitle"),
      text: t("capacityPolicy.rollout.rollbackText"),
      confirm: t("capacityPolicy.rollout.rollback"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => word("rollback", t("capacityPolicy.rollout.rolledBack")),
    });
  return (
    <Stack gap="sm" data-capacity-rollout={r.state}>
      <Group justify="space-between">
        <Group gap={8}>
          <StateBadge state={r.state} standard={r.standard} />
          {r.paused && <Badge color="gray">{t("capacityPolicy.rollout.paused")}</Badge>}
          {r.state === "canary" && (
            <Text size="sm">
              {t("capacityPolicy.rollout.step", {
                step: f.integer(r.step + 1),
                steps: f.integer(r.shares.length),
                share: f.percent(r.shares[r.step] ?? 1, 0),
              })}
            </Text>
          )}
        </Group>
        {may && (
          <Group gap={8}>
            <Button size="xs" variant="default" disabled={busy || r.paused} onClick={promote}>
              {t("capacityPolicy.rollout.promote")}
            </Button>
            <Button
              size="xs"
              variant="default"
              disabled={busy}
              onClick={() =>
                r.paused
                  ? word("resume", t("capacityPolicy.rollout.resumed"))
                  : word("pause", t("capacityPolicy.rollout.paused_"))
              }
            >
              {t(r.paused ? "capacityPolicy.rollout.resume" : "capacityPolicy.rollout.pause")}
            </Button>
            <Button size="xs" color="red" variant="light" disabled={busy} onClick={back}>
              {t("capacityPolicy.rollout.rollback")}
            </Button>
          </Group>
        )}
      </Group>
      {r.parts.map((p) => (
        <Part key={p.clusterId} part={p} rollout={r} alone={r.parts.length === 1} />
      ))}
      <Text size="xs" c="dimmed">
        {r.lookedAt
          ? t("capacityPolicy.rollout.lookedAt", { time: f.relative(r.lookedAt, now) })
          : t("capacityPolicy.rollout.neverLooked")}
      </Text>
    </Stack>
  );
}

function Past({ rollouts }: { rollouts: CapacityRollout[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const who = useActorName();
  const why = useWhy();
  return (
    <Stack gap={8}>
      <Text size="sm" fw={600}>
        {t("capacityPolicy.rollout.past")}
      </Text>
      {rollouts.map((r) => {
        const where = r.parts.find((p) => p.clusterId === r.outcomeCluster)?.cluster;
        return (
          <Group key={r.id} gap="xs">
            <StateBadge state={r.state} standard={r.standard} />
            <Text size="xs" c="dimmed">
              {t("capacityPolicy.rollout.by", { who: who(r.createdBy), time: f.dateTime(r.createdAt) })}
              {r.outcome && ` · ${why(r.outcome)}`}
              {where && r.parts.length > 1 && ` (${where})`}
            </Text>
          </Group>
        );
      })}
    </Stack>
  );
}

/** Rollouts that reach a cluster. */
export function CapacityRollouts({ cluster }: { cluster: string }) {
  const { t } = useTranslation();
  const may = useMay("operator");
  const query = useQuery(capacityRolloutsQuery(cluster));
  return (
    <Panel title={t("capacityPolicy.rollout.title")} hint={t("capacityPolicy.rollout.hint")}>
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={1} />}
        isEmpty={(list) => list.length === 0}
        empty={
          <Empty title={t("capacityPolicy.rollout.none")} text={t("capacityPolicy.rollout.noneText")} height={90} />
        }
      >
        {(list) => (
          <Stack gap="md">
            {list
              .filter((r) => r.open)
              .map((r) => (
                <Underway key={r.id} rollout={r} may={may} />
              ))}
            {list.some((r) => !r.open) && <Past rollouts={list.filter((r) => !r.open)} />}
          </Stack>
        )}
      </Gate>
    </Panel>
  );
}

/** Reads "10, 50, 100" as shares that rise to 1; null: they do not. */
export function readShares(text: string): number[] | null {
  const list = splitNames(text).map(Number);
  const rises = list.every((v, i) => Number.isFinite(v) && v > (list[i - 1] ?? 0) && v <= 100);
  return list.length > 0 && list.length <= 10 && rises && list.at(-1) === 100 ? list.map((v) => v / 100) : null;
}

/** Asks how a policy shall be rolled out. */
export function StartRollout({
  cluster,
  standard,
  version,
  policy,
  onClose,
}: {
  cluster: Pick<Cluster, "id" | "name">;
  /** Names of the clusters that a rollout of the tenant's default reaches; none: it is of the cluster's own policy. */
  standard?: string[] | undefined;
  version: number;
  policy: PolicyDoc;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const { act, busy } = useAct();
  const clusters = useQuery(clustersQuery({ limit: 100 }));
  const [shares, setShares] = useState("10, 50, 100");
  const [others, setOthers] = useState<string[]>([]);
  const [numbers, setNumbers] = useState({ shadow: 30, stage: 60, hourly: 10, over: 20 });
  const read = readShares(shares);
  const start = () =>
    read &&
    void act(
      () =>
        startCapacityRollout(standard ? "default" : [cluster.id, ...others], version, policy, {
          shadowSeconds: numbers.shadow * 60,
          stageSeconds: numbers.stage * 60,
          hourly: numbers.hourly,
          costOver: numbers.over / 100,
          shares: read,
        }),
      TOUCHES,
      t("capacityPolicy.rollout.started"),
    ).then((done) => done && onClose());
  const number = (key: keyof typeof numbers, label: string, min: number, max: number, hint?: string) => (
    <NumberInput
      label={label}
      description={hint}
      min={min}
      max={max}
      allowDecimal={false}
      clampBehavior="blur"
      value={numbers[key]}
      onChange={(v) => typeof v === "number" && setNumbers({ ...numbers, [key]: Math.min(Math.max(v, min), max) })}
    />
  );
  const enforcing = (clusters.data?.items ?? []).filter((c) => c.mode === "enforce" && c.id !== cluster.id);
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={t("capacityPolicy.rollout.startTitle")}
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <Stack gap="sm">
        <Text size="sm">{t("capacityPolicy.rollout.startText")}</Text>
        {standard && <Text size="sm">{t("capacityPolicy.standard.rollout", { clusters: standard.join(", ") })}</Text>}
        <SimpleGrid cols={{ base: 1, sm: 2 }} style={{ alignItems: "end" }}>
          {number("shadow", t("capacityPolicy.rollout.shadowFor"), 1, 10_080)}
          {number("stage", t("capacityPolicy.rollout.stageFor"), 5, 10_080)}
          <TextInput
            label={t("capacityPolicy.rollout.shares")}
            value={shares}
            error={read ? null : t("capacityPolicy.rollout.sharesBad")}
            onChange={(e) => setShares(e.currentTarget.value)}
          />
          {number("over", t("capacityPolicy.rollout.costOver"), 0, 1000)}
        </SimpleGrid>
        {number("hourly", t("capacityPolicy.rollout.hourly"), 1, 1000, t("capacityPolicy.rollout.hourlyHint"))}
        {!standard && enforcing.length > 0 && (
          <MultiSelect
            label={t("capacityPolicy.rollout.others")}
            data={enforcing.map((c) => ({ value: c.id, label: c.name }))}
            value={others}
            onChange={setOthers}
            searchable
            clearable
          />
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button loading={busy} disabled={!read} onClick={start}>
            {t("capacityPolicy.rollout.start")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
