import { Alert, Badge, Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";
import { startRollout } from "../api/rollouts";
import { dismissTuning, type TunedValue, type Tuning, tuningsQuery } from "../api/tunings";
import { Price } from "../components/offering";
import { Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { type Format, useFormat } from "../lib/format";
import { tuning as words } from "../locales/tuning.en";
import { useAct } from "./act";
import { useMay } from "./me";

const STATE_COLOR = { proposed: "violet", kept: "teal", refused: "gray", dismissed: "gray", failed: "red" } as const;
const TOUCHES = [
  ["workloads", "tunings"],
  ["policies", "rollouts"],
];
const STAGES = { shadowSeconds: 3600, canarySeconds: 3600, canaryShare: 0.25 };
const NIGHTS = 7;

function reasonText(t: TFunction, f: Format, x: Tuning): string {
  if (!Object.hasOwn(words.reason, x.reason)) return x.reason;
  return t(`tuning.reason.${x.reason as keyof typeof words.reason}`, {
    days: f.number(x.days),
    needed: f.number(x.daysNeeded),
    words: x.words,
  });
}

function Values({ label, values, tuning }: { label: string; values: TunedValue[]; tuning: Tuning }) {
  const { t } = useTranslation();
  const f = useFormat();
  const mark = (v: TunedValue) => {
    if (v.aim === tuning.current) return t("tuning.current");
    return v.aim === tuning.proposed ? t("tuning.proposed") : "";
  };
  const columns: Column<TunedValue>[] = [
    {
      key: "aim",
      header: t("tuning.setting"),
      render: (v) => (
        <Group gap={8}>
          <span>{f.number(v.aim)}</span>
          {mark(v) && <Badge color={v.aim === tuning.proposed ? "violet" : "gray"}>{mark(v)}</Badge>}
        </Group>
      ),
    },
    { key: "hours", header: t("tuning.hours"), align: "right", render: (v) => f.number(v.hours) },
    { key: "cost", header: t("tuning.cost"), align: "right", render: (v) => (v.cost ? <Price value={v.cost} /> : "–") },
    { key: "late", header: t("tuning.late"), align: "right", render: (v) => f.percent(v.late, 2) },
    { key: "timeouts", header: t("tuning.timeouts"), align: "right", render: (v) => f.percent(v.timeouts, 2) },
  ];
  return (
    <div>
      <Text size="sm" c="dimmed" px="md" pb={4}>
        {label}
      </Text>
      <DataTable label={label} rows={values} columns={columns} rowKey={(v) => String(v.aim)} minWidth={520} />
    </div>
  );
}

function Newest({ workload, tuning: x }: { workload: string; tuning: Tuning }) {
  const { t } = useTranslation();
  const f = useFormat();
  const may = useMay("operator");
  const { act, busy } = useAct();
  const span = (key: "chosen" | "held", s: { from: Date; to: Date }) =>
    t(`tuning.${key}`, { from: f.dateTime(s.from), to: f.dateTime(s.to) });
  const enforces = /^\s*mode:\s*["']?enforce/m.test(x.document);
  const open = x.state === "proposed" && may;
  return (
    <Stack gap="sm" pb="md">
      <Group px="md" justify="space-between">
        <div>
          <Group gap="sm">
            <Badge color={STATE_COLOR[x.state]}>{t(`tuning.state.${x.state}`)}</Badge>
            {x.proposed !== null && (
              <Text size="sm" fw={600}>
                {t("tuning.change", { from: f.number(x.current), to: f.number(x.proposed) })}
              </Text>
            )}
          </Group>
          <Text size="sm" mt={4}>
            {reasonText(t, f, x)} {x.rolloutId && t("tuning.running")}
          </Text>
          <Text size="xs" c="dimmed">
            {t("tuning.at", { time: f.dateTime(x.at) })}
          </Text>
        </div>
        {open && (
          <Group gap="xs">
            {enforces && !x.rolloutId && (
              <Button
                size="xs"
                disabled={busy}
                onClick={() => void act(() => startRollout(workload, x.document, STAGES), TOUCHES, t("tuning.started"))}
              >
                {t("tuning.rollOut")}
              </Button>
            )}
            <Button
              size="xs"
              variant="default"
              disabled={busy}
              onClick={() => void act(() => dismissTuning(workload, x.id), TOUCHES, t("tuning.dismissed"))}
            >
              {t("tuning.dismiss")}
            </Button>
          </Group>
        )}
      </Group>
      {open && !enforces && (
        <Text size="sm" px="md">
          {t("tuning.save")}
        </Text>
      )}
      {x.chosenOn && x.tried.length > 0 && (
        <Values
          label={`${span("chosen", x.chosenOn)}. ${t("tuning.limit", { value: f.percent(x.limit, 2) })}`}
          values={x.tried}
          tuning={x}
        />
      )}
      {x.heldOut && x.held.length > 0 && <Values label={span("held", x.heldOut)} values={x.held} tuning={x} />}
    </Stack>
  );
}

/** What nightly tuning found on the workload's own history. */
export function TuningPanel({ workload }: { workload: string }) {
  const { t } = useTranslation();
  const f = useFormat();
  const query = useQuery(tuningsQuery(workload));
  const mode = query.data?.mode;
  return (
    <Panel flush title={t("tuning.title")} hint={t("tuning.titleHint")}>
      {mode && mode !== "propose" && (
        <Alert color={mode === "apply" ? "violet" : "gray"} py={8} mx="md" mb="sm">
          {t(`tuning.${mode}`)}
        </Alert>
      )}
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={3} />}
        isEmpty={(list) => list.items.length === 0}
        empty={<Empty title={t("tuning.empty")} text={t("tuning.emptyText")} height={120} />}
      >
        {(list) => (
          <>
            {list.items[0] && <Newest workload={workload} tuning={list.items[0]} />}
            {list.items.length > 1 && (
              <Stack gap={4} px="md" pb="md">
                <Text size="sm" fw={600}>
                  {t("tuning.earlier")}
                </Text>
                {list.items.slice(1, NIGHTS).map((x) => (
                  <Group key={x.id} gap="sm" wrap="nowrap">
                    <Badge color={STATE_COLOR[x.state]}>{t(`tuning.state.${x.state}`)}</Badge>
                    <Text size="sm">
                      {f.dateTime(x.at)} · {reasonText(t, f, x)}
                    </Text>
                  </Group>
                ))}
              </Stack>
            )}
          </>
        )}
      </Gate>
    </Panel>
  );
}
