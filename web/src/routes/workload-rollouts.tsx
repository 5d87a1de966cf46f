import { Badge, Button, Group, NumberInput, Stack, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Problem } from "../api/problem";
import { type Rollout, type RolloutState, rollBack, rolloutsQuery, startRollout } from "../api/rollouts";
import { ask, tell, tellProblem } from "../components/ask";
import { Panel } from "../components/page";
import { ReplayGate } from "../components/replay-gate";
import { BlockSkeleton, Gate, useProblemText } from "../components/state";
import { useFormat } from "../lib/format";
import { useAct } from "./act";
import { useActorName } from "./actor";

const TOUCHES = [["policies"], ["workloads"]];
const PAST = 5;
const WHY = ["late_ratio", "error_ratio", "nothing_told", "policy_changed"] as const;
const COLOR: Record<RolloutState, string> = {
  shadow: "violet",
  canary: "yellow",
  enforce: "blue",
  done: "teal",
  rolled_back: "red",
  cancelled: "gray",
  superseded: "gray",
};

function Stage({ state }: { state: RolloutState }) {
  const { t } = useTranslation();
  return (
    <Badge color={COLOR[state]} variant="light" tt="none">
      {t(`rollout.state.${state}`)}
    </Badge>
  );
}

function Underway({ rollout: r, may }: { rollout: Rollout; may: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { act, busy } = useAct();
  const share = (v: number | null) => (v === null ? t("rollout.unknown") : f.percent(v));
  const shadow = r.state === "shadow";
  const end = () =>
    ask({
      title: t(shadow ? "rollout.stopTitle" : "rollout.backTitle"),
      text: t(shadow ? "rollout.stopText" : "rollout.backText"),
      confirm: t(shadow ? "rollout.stop" : "rollout.back"),
      cancel: t("common.cancel"),
      danger: !shadow,
      onConfirm: () => void act(() => rollBack(r.id), TOUCHES, t("rollout.ended")),
    });
  return (
    <Stack gap={6} data-rollout={r.state}>
      <Group justify="space-between" wrap="nowrap">
        <Stage state={r.state} />
        {may && (
          <Button size="compact-sm" variant="default" color="red" loading={busy} onClick={end}>
            {t(shadow ? "rollout.stop" : "rollout.back")}
          </Button>
        )}
      </Group>
      <Text size="sm">
        {t("rollout.stageUntil", {
          since: f.dateTime(r.stageAt),
          until: f.dateTime(new Date(r.stageAt.getTime() + r.stageSeconds * 1000)),
        })}
      </Text>
      {r.shadow.decisions > 0 && (
        <Text size="sm" c="dimmed">
          {t("rollout.shadowSaid", {
            decisions: f.integer(r.shadow.decisions),
            same: f.integer(r.shadow.same),
            more: f.integer(r.shadow.more),
            fewer: f.integer(r.shadow.fewer),
          })}
          {r.shadow.ratio !== null && ` · ${t("rollout.shadowRatio", { ratio: f.percent(r.shadow.ratio) })}`}
        </Text>
      )}
      {!shadow && (
        <>
          {r.canaryFloor !== null && r.state === "canary" && (
            <Text size="sm" c="dimmed">
              {t("rollout.floor", { count: r.canaryFloor })}
            </Text>
          )}
          {(["late", "errors"] as const).map((key) => (
            <Text key={key} size="sm" c="dimmed">
              {t(`rollout.${key}`)}:{" "}
              {t("rollout.beforeAfter", { before: share(r[key].before), after: share(r[key].after) })}
            </Text>
          ))}
        </>
      )}
    </Stack>
  );
}

function Past({ rollouts }: { rollouts: Rollout[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const who = useActorName();
  const why = (outcome: string) => {
    const known = WHY.find((w) => w === outcome);
    return known ? t(`rollout.why.${known}`) : "";
  };
  return (
    <Stack gap={8}>
      <Text size="sm" fw={600}>
        {t("rollout.past")}
      </Text>
      {rollouts.slice(0, PAST).map((r) => (
        <Group key={r.id} gap="xs">
          <Stage state={r.state} />
          <Text size="xs" c="dimmed">
            {t("policy.by", { who: who(r.createdBy), time: f.dateTime(r.createdAt) })}
            {why(r.outcome) && ` · ${why(r.outcome)}`}
          </Text>
        </Group>
      ))}
    </Stack>
  );
}

/** Rolls the edited policy out in stages, says how far one is, and takes it back. `draft` is null while it cannot be rolled out. */
export function RolloutPanel({
  workload,
  draft,
  saved,
  may,
}: {
  workload: string;
  draft: string | null;
  saved: boolean;
  may: boolean;
}) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const problemText = useProblemText();
  const query = useQuery(rolloutsQuery(workload));
  const [busy, setBusy] = useState(false);
  const [gated, setGated] = useState<string | null>(null);
  const [minutes, setMinutes] = useState({ shadow: 60, canary: 60 });
  const [percent, setPercent] = useState(25);

  const start = async (document: string, override?: string) => {
    setBusy(true);
    setGated(null);
    try {
      const stages = {
        shadowSeconds: minutes.shadow * 60,
        canarySeconds: minutes.canary * 60,
        canaryShare: percent / 100,
      };
      await startRollout(workload, document, stages, override);
      tell(t("rollout.started"));
    } catch (error) {
      const fields = error instanceof Problem ? error.fields : [];
      if (fields.some((x) => x.field === "replay_override")) setGated(document);
      else tellProblem([problemText(error), ...fields.map((x) => x.message).filter(Boolean)].join(" "));
    } finally {
      setBusy(false);
      for (const queryKey of TOUCHES) void queries.invalidateQueries({ queryKey });
    }
  };

  const number = (value: number, set: (v: number) => void, label: string, min: number, max: number) => (
    <NumberInput
      size="xs"
      label={label}
      min={min}
      max={max}
      allowDecimal={false}
      clampBehavior="blur"
      value={value}
      onChange={(v) => typeof v === "number" && set(Math.min(Math.max(v, min), max))}
    />
  );
  const form = (
    <Stack gap="sm">
      {gated !== null && gated === draft && (
        <ReplayGate
          workload={workload}
          busy={busy}
          label={t("rollout.without")}
          onSave={(reason) => void start(gated, reason)}
        />
      )}
      <Group gap="sm" grow align="flex-end">
        {number(minutes.shadow, (shadow) => setMinutes({ ...minutes, shadow }), t("rollout.shadowFor"), 1, 10_080)}
        {number(minutes.canary, (canary) => setMinutes({ ...minutes, canary }), t("rollout.canaryFor"), 5, 2_880)}
        {number(percent, setPercent, t("rollout.share"), 1, 100)}
      </Group>
      <Group justify="space-between">
        <Text size="sm" c="dimmed">
          {!saved ? t("rollout.needsPolicy") : draft === null ? t("rollout.needsChange") : ""}
        </Text>
        <Button
          size="xs"
          variant="light"
          loading={busy}
          disabled={!saved || draft === null}
          onClick={() => draft !== null && void start(draft)}
        >
          {t("rollout.start")}
        </Button>
      </Group>
    </Stack>
  );
  return (
    <Panel title={t("rollout.title")} hint={t("rollout.hint")}>
      <Gate query={query} skeleton={<BlockSkeleton height={120} />}>
        {(list) => {
          const open = list.filter((r) => r.open);
          const past = list.filter((r) => !r.open);
          return (
            <Stack gap="md">
              {open.map((r) => (
                <Underway key={r.id} rollout={r} may={may} />
              ))}
              {open.length === 0 && may && form}
              {list.length === 0 && (
                <Text size="sm" c="dimmed">
                  {t("rollout.none")}
                </Text>
              )}
              {past.length > 0 && <Past rollouts={past} />}
            </Stack>
          );
        }}
      </Gate>
    </Panel>
  );
}
