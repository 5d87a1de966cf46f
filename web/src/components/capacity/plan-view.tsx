import { Alert, Badge, Collapse, Group, SimpleGrid, Stack, Text, UnstyledButton } from "@mantine/core";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { CapacityPlan, PlannedDrain, PlannedGroup, PlanOutcome, PlanSummary } from "../../api/capacity";
import { useFormat } from "../../lib/format";
import { addMoney, moneyNumber, negateMoney } from "../../lib/money";
import { PurchaseBadge } from "../badge";
import { OfferingName, Price } from "../offering";
import { Hint, Panel, Stat } from "../page";
import { Empty } from "../state";
import { type Column, DataTable } from "../table";
import { heldText, offeringText, optionText, reasonText, stepText, whyNotText } from "./words";

const OUTCOME_COLOR: Record<PlanOutcome, string> = { change: "violet", nothing: "teal", held: "orange" };

export function OutcomeBadge({ outcome }: { outcome: PlanOutcome }) {
  const { t } = useTranslation();
  return <Badge color={OUTCOME_COLOR[outcome]}>{t(`capacity.plan.outcome.${outcome}`)}</Badge>;
}

/** Cost before and after, and what packing everything anew would cost. */
export function PlanCosts({ plan }: { plan: CapacityPlan }) {
  const { t } = useTranslation();
  const f = useFormat();
  const delta = addMoney(plan.after, negateMoney(plan.before));
  const change = moneyNumber(delta);
  const homeless = plan.considered.find((o) => o.name === "anew")?.left ?? 0;
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }}>
      <Stat
        label={t("capacity.plan.before")}
        value={t("common.perHour", { value: f.money(plan.before) })}
        detail={plan.unpriced > 0 ? t("capacity.plan.unpriced", { value: f.integer(plan.unpriced) }) : undefined}
      />
      <Stat
        label={t("capacity.plan.after")}
        value={t("common.perHour", { value: f.money(plan.after) })}
        detail={
          change === 0
            ? t("capacity.plan.equal")
            : t(change < 0 ? "capacity.plan.saves" : "capacity.plan.costs", {
                value: f.money(change < 0 ? negateMoney(delta) : delta),
              })
        }
      />
      <Stat
        label={t("capacity.plan.anew")}
        hint={t("capacity.plan.anewHint")}
        value={plan.anew ? t("common.perHour", { value: f.money(plan.anew) }) : "–"}
        detail={
          plan.anewGap === null
            ? undefined
            : t(`capacity.plan.${plan.anewGap < 0.0005 ? "least" : "gap"}${homeless > 0 ? "Placed" : ""}`, {
                share: f.percent(plan.anewGap, 1),
                left: f.integer(homeless),
              })
        }
      />
    </SimpleGrid>
  );
}

function GroupDetails({ group }: { group: PlannedGroup }) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xl" px="md" pb="md">
      <div>
        <Text size="sm" fw={600} mb={4}>
          {t("capacity.plan.alternatives")}
        </Text>
        {group.alternatives.length === 0 && <Text size="sm">{t("capacity.plan.noAlternatives")}</Text>}
        {group.alternatives.map((a) => (
          <Group key={offeringText(t, a.offering)} justify="space-between" gap="md" wrap="nowrap">
            <Text size="sm">{offeringText(t, a.offering)}</Text>
            <Text size="sm" c="dimmed" className="number" ta="right">
              {[a.price ? f.money(a.price, { style: "fine" }) : "", whyNotText(t, a.whyNot)]
                .filter(Boolean)
                .join(" · ")}
            </Text>
          </Group>
        ))}
      </div>
      <div>
        <Text size="sm" fw={600} mb={4}>
          {t("capacity.plan.ladder")}
        </Text>
        {group.ladder.length === 0 && <Text size="sm">{t("capacity.plan.noLadder")}</Text>}
        <ol className="rungs">
          {group.ladder.map((r) => (
            <li key={r.step + offeringText(t, r.offering)}>
              <Group justify="space-between" gap="md" wrap="nowrap">
                <Text size="sm">
                  {stepText(t, r.step)}: {offeringText(t, r.offering)}
                </Text>
                <Text size="sm" c="dimmed" className="number" ta="right">
                  {f.money(r.price, { style: "fine" })} ·{" "}
                  {t("capacity.plan.stockOut", { share: f.percent(r.stockOut, 0) })}
                </Text>
              </Group>
            </li>
          ))}
        </ol>
      </div>
    </SimpleGrid>
  );
}

function AddRow({ group }: { group: PlannedGroup }) {
  const { t } = useTranslation();
  const f = useFormat();
  const [open, setOpen] = useState(false);
  const pods = group.machines.reduce((sum, m) => sum + m.podCount, 0);
  const replaced = group.machines.map((m) => m.replaces).filter(Boolean);
  const gpus = group.gpuCount > 0 ? `${f.integer(group.gpuCount)} × ${group.gpuModel}` : "";
  return (
    <div className="plan-row" data-kind="add">
      <Group px="md" py="sm" gap="lg" justify="space-between">
        <Group gap="md" wrap="nowrap">
          <Text fw={700} className="plan-sign">
            + {f.integer(group.count)}
          </Text>
          <OfferingName
            type={group.offering.instanceType}
            cloud={group.offering.cloud}
            place={[group.offering.zone, gpus].filter(Boolean).join(" · ")}
          />
          <PurchaseBadge purchase={group.offering.purchase} />
        </Group>
        <Group gap="xl">
          <div>
            <Text size="sm">{reasonText(t, group.why)}</Text>
            <Text size="xs" c="dimmed">
              {t("capacity.plan.pods")}: {f.integer(pods)}
              {replaced.length > 0 && ` · ${t("capacity.plan.replaces", { name: replaced.join(", ") })}`}
            </Text>
          </div>
          <div>
            <Price value={group.price} strong />
            <Text size="xs" c="dimmed">
              {t("capacity.plan.ready")}{" "}
              {group.expectedSeconds > 0 ? f.duration(group.expectedSeconds) : t("capacity.pending.unknown")}{" "}
              <Hint text={t("capacity.plan.readyHint")} />
            </Text>
          </div>
        </Group>
      </Group>
      <UnstyledButton className="plan-more" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? <IconChevronDown size={14} /> : <IconChevronRight size={14} />} {t("capacity.plan.details")}
      </UnstyledButton>
      <Collapse expanded={open}>
        <GroupDetails group={group} />
      </Collapse>
    </div>
  );
}

function DrainRow({ drain }: { drain: PlannedDrain }) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <div className="plan-row" data-kind="drain">
      <Group px="md" py="sm" gap="lg" justify="space-between">
        <Group gap="md" wrap="nowrap">
          <Text fw={700} className="plan-sign">
            −
          </Text>
          <div>
            <Text size="sm" fw={550}>
              {drain.name}
            </Text>
            <Text size="xs" c="dimmed">
              {reasonText(t, drain.why)}
            </Text>
          </div>
        </Group>
        <Group gap="xl">
          <div>
            <Text size="xs" c="dimmed">
              {t("capacity.plan.moves")}
            </Text>
            <Text size="sm">{f.integer(drain.moveCount)}</Text>
          </div>
          <div>
            <Text size="xs" c="dimmed">
              {t("capacity.plan.saving")}
            </Text>
            <Price value={drain.saving} strong />
          </div>
          <div>
            <Text size="xs" c="dimmed">
              {t("capacity.plan.churn")}
            </Text>
            <Price value={drain.churn} />
          </div>
          <div>
            <Text size="xs" c="dimmed">
              {t("capacity.plan.pays")}
            </Text>
            <Text size="sm">{f.duration(drain.paysSeconds)}</Text>
          </div>
        </Group>
      </Group>
    </div>
  );
}

/** What a plan adds and drains, as a diff. */
export function PlanDiff({ plan }: { plan: CapacityPlan }) {
  const { t } = useTranslation();
  return (
    <Panel title={t("capacity.plan.changes")} actions={<OutcomeBadge outcome={plan.outcome} />} flush>
      {plan.held.map((h) => (
        <Alert key={h} color="yellow" py={8} mx="md" mb="sm">
          {heldText(t, h)}
        </Alert>
      ))}
      {plan.add.length + plan.drain.length === 0 && (
        <Empty
          title={t(`capacity.plan.outcome.${plan.outcome}`)}
          text={plan.outcome === "nothing" ? t("capacity.plan.nothingText") : undefined}
          height={140}
        />
      )}
      {plan.add.map((g) => (
        <AddRow key={offeringText(t, g.offering) + g.why} group={g} />
      ))}
      {plan.drain.map((d) => (
        <DrainRow key={d.name} drain={d} />
      ))}
    </Panel>
  );
}

export function OptionTable({ plan }: { plan: CapacityPlan }) {
  const { t } = useTranslation();
  const f = useFormat();
  type Option = CapacityPlan["considered"][number];
  const columns: Column<Option>[] = [
    { key: "name", header: t("common.name"), render: (o) => optionText(t, o.name) },
    { key: "cost", header: t("capacity.plan.optionCost"), align: "right", render: (o) => <Price value={o.cost} /> },
    { key: "moved", header: t("capacity.plan.optionMoved"), align: "right", render: (o) => f.integer(o.moved) },
    { key: "left", header: t("capacity.plan.optionLeft"), align: "right", render: (o) => f.integer(o.left) },
  ];
  return (
    <DataTable
      label={t("capacity.plan.options")}
      rows={plan.considered}
      columns={columns}
      rowKey={(o) => o.name}
      minWidth={480}
    />
  );
}

export function PlanHistory({ plans }: { plans: readonly PlanSummary[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<PlanSummary>[] = [
    { key: "since", header: t("capacity.plan.since"), width: 160, render: (p) => f.dateTime(p.firstAt) },
    { key: "outcome", header: t("capacity.plan.changes"), render: (p) => <OutcomeBadge outcome={p.outcome} /> },
    {
      key: "change",
      header: t("capacity.plan.change"),
      align: "right",
      render: (p) => `${f.integer(p.adds)} / ${f.integer(p.drains)}`,
    },
    { key: "waiting", header: t("capacity.plan.waiting"), align: "right", render: (p) => f.integer(p.waiting) },
    { key: "before", header: t("capacity.plan.before"), align: "right", render: (p) => <Price value={p.before} /> },
    { key: "after", header: t("capacity.plan.after"), align: "right", render: (p) => <Price value={p.after} /> },
  ];
  return (
    <Stack gap={0}>
      <DataTable
        label={t("capacity.plan.history")}
        rows={plans}
        columns={columns}
        rowKey={(p) => p.id}
        minWidth={680}
      />
    </Stack>
  );
}
