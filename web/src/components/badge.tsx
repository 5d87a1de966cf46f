import { Badge, Group, Text, Tooltip } from "@mantine/core";
import { IconArrowDownRight, IconArrowUpRight, IconMinus, IconSnowflake } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { Severity } from "../api/alerts";
import type { Health, Mode, NodePhase, Purchase } from "../api/clusters";
import type { DecisionState, Outcome } from "../api/decisions";
import type { Truth } from "../api/truth";
import { useFormat } from "../lib/format";
import { type Money, moneyNumber } from "../lib/money";

const MODE_COLOR: Record<Mode, string> = { observe: "gray", recommend: "blue", approve: "violet", enforce: "sea" };

export function ModeBadge({ mode }: { mode: Mode }) {
  const { t } = useTranslation();
  return (
    <Tooltip label={t(`modeHint.${mode}`)}>
      <Badge color={MODE_COLOR[mode]}>{t(`mode.${mode}`)}</Badge>
    </Tooltip>
  );
}

const HEALTH_COLOR: Record<Health, string> = { online: "teal", lagging: "yellow", offline: "red", never: "gray" };

export function HealthBadge({ health }: { health: Health }) {
  const { t } = useTranslation();
  return (
    <Badge variant="dot" color={HEALTH_COLOR[health]}>
      {t(`health.${health}`)}
    </Badge>
  );
}

export function FrozenBadge() {
  const { t } = useTranslation();
  return (
    <Badge color="cyan" variant="filled" leftSection={<IconSnowflake size={12} />}>
      {t("clusters.frozen")}
    </Badge>
  );
}

const STATE_COLOR: Record<DecisionState, string> = {
  noted: "gray",
  proposed: "violet",
  approved: "blue",
  rejected: "gray",
  expired: "gray",
  dispatched: "blue",
  applied: "teal",
  refused: "orange",
  failed: "red",
  superseded: "gray",
};

export function StateBadge({ state }: { state: DecisionState }) {
  const { t } = useTranslation();
  return <Badge color={STATE_COLOR[state]}>{t(`decisionState.${state}`)}</Badge>;
}

const OUTCOME = {
  scale_up: { icon: IconArrowUpRight, color: "var(--mantine-primary-color-filled)" },
  scale_down: { icon: IconArrowDownRight, color: "light-dark(#b06a12, #e0a458)" },
  hold: { icon: IconMinus, color: "var(--mantine-color-dimmed)" },
} as const;

export function OutcomeText({ outcome }: { outcome: Outcome }) {
  const { t } = useTranslation();
  const { icon: Icon, color } = OUTCOME[outcome];
  return (
    <Group gap={5} wrap="nowrap">
      <Icon size={16} color={color} aria-hidden />
      <Text size="sm" span style={{ whiteSpace: "nowrap" }}>
        {t(`outcome.${outcome}`)}
      </Text>
    </Group>
  );
}

/** "4 → 6" with the change readable at a glance. */
export function Change({ from, target }: { from: number; target: number }) {
  const f = useFormat();
  if (from === target) return <span className="number">{f.integer(from)}</span>;
  return (
    <span className="number" style={{ whiteSpace: "nowrap" }}>
      {f.integer(from)} → <b>{f.integer(target)}</b>
    </span>
  );
}

const TRUTH_COLOR: Record<Truth, string> = { fresh: "teal", stale: "yellow", missing: "red", conflicting: "orange" };

export function TruthBadge({ truth }: { truth: Truth }) {
  const { t } = useTranslation();
  return (
    <Badge variant="dot" color={TRUTH_COLOR[truth]}>
      {t(`truth.${truth}`)}
    </Badge>
  );
}

const SEVERITY_COLOR: Record<Severity, string> = { info: "blue", warning: "yellow", critical: "red" };

export function SeverityBadge({ severity }: { severity: Severity }) {
  const { t } = useTranslation();
  return <Badge color={SEVERITY_COLOR[severity]}>{t(`severity.${severity}`)}</Badge>;
}

export function PurchaseBadge({ purchase }: { purchase: Purchase }) {
  const { t } = useTranslation();
  const color = { on_demand: "gray", spot: "teal", reserved: "blue" }[purchase];
  return <Badge color={color}>{t(`purchase.${purchase}`)}</Badge>;
}

export function PhaseBadge({ phase }: { phase: NodePhase }) {
  const { t } = useTranslation();
  const color = { booting: "blue", ready: "teal", draining: "orange", not_ready: "red", terminated: "gray" }[phase];
  return (
    <Badge variant="dot" color={color}>
      {t(`phase.${phase}`)}
    </Badge>
  );
}

/** A change of cost per hour: dearer and cheaper have a sign and a colour, unknown is said. */
export function CostDelta({ delta }: { delta: Money | null }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (!delta)
    return (
      <Text span size="sm" c="dimmed">
        –
      </Text>
    );
  const value = moneyNumber(delta);
  const color = value > 0 ? "light-dark(#9a3412, #f0a37c)" : value < 0 ? "light-dark(#0f766e, #5fc9b8)" : undefined;
  return (
    <span className="number" style={{ color, whiteSpace: "nowrap" }}>
      {t("common.perHour", { value: f.money(delta, { signed: true }) })}
    </span>
  );
}
