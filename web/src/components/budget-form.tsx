import { Button, Group, Modal, Select, SimpleGrid, Stack, Switch, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { type Budget, type BudgetInput, PERIODS } from "../api/budgets";
import { moneyDecimal, readAmount } from "../lib/money";

/** Reads "50, 80, 100"; null when it is not 1 to 10 whole percentages from 1 to 1000. */
export function readThresholds(text: string): number[] | null {
  const parts = text.split(/[,，\s]+/).filter(Boolean);
  const values = [...new Set(parts.map(Number))].sort((a, b) => a - b);
  const good =
    values.length >= 1 && values.length <= 10 && values.every((v) => Number.isInteger(v) && v >= 1 && v <= 1000);
  return good ? values : null;
}

/** Reads "key=value"; null when it is not one. */
export function readLabel(text: string): { key: string; value: string } | null {
  const at = text.indexOf("=");
  const [key, value] = [text.slice(0, at).trim(), text.slice(at + 1).trim()];
  return at > 0 && key && value ? { key, value } : null;
}

/** Reads a whole number within bounds; null when it is not one. */
function readWhole(text: string, least: number, most: number): number | null {
  const value = Number(text);
  return text.trim() !== "" && Number.isInteger(value) && value >= least && value <= most ? value : null;
}

export function BudgetForm({
  budget,
  currency,
  clusterField,
  webhooks,
  busy,
  onClose,
  onSave,
}: {
  /** null: a new one. */
  budget: Budget | null;
  currency: string;
  /** The field that picks a cluster; it asks the service, so the page gives it. */
  clusterField: (value: string | null, onChange: (id: string | null) => void) => ReactNode;
  webhooks: readonly { id: string; name: string }[];
  busy: boolean;
  onClose: () => void;
  onSave: (input: BudgetInput) => void;
}) {
  const { t } = useTranslation();
  const form = useForm({
    initialValues: {
      name: budget?.name ?? "",
      amount: budget ? moneyDecimal(budget.amount) : "",
      cluster: budget?.clusterId ?? null,
      namespace: budget?.namespace ?? "",
      team: budget?.team ?? "",
      thresholds: (budget?.thresholds ?? [50, 80, 100]).join(", "),
      webhook: budget?.webhookId ?? null,
      period: budget?.period ?? "month",
      label: budget?.label ? `${budget.label.key}=${budget.label.value}` : "",
      enforced: budget?.enforced ?? false,
      breaker: budget?.breaker ? String(budget.breaker.percent) : "",
      minutes: String(budget?.breaker?.minutes ?? 60),
    },
    validate: {
      name: (v) => (v.trim() ? null : t("budgets.nameBad")),
      amount: (v) => (readAmount(v, currency) ? null : t("budgets.amountBad")),
      thresholds: (v) => (readThresholds(v) ? null : t("budgets.thresholdsBad")),
      label: (v) => (!v.trim() || readLabel(v) ? null : t("telling.labelBad")),
      breaker: (v) => (!v.trim() || readWhole(v, 110, 10_000) !== null ? null : t("telling.breakerBad")),
      minutes: (v) => (readWhole(v, 0, 10_080) !== null ? null : t("telling.minutesHint")),
    },
  });
  const submit = form.onSubmit((v) => {
    const amount = readAmount(v.amount, currency);
    const thresholds = readThresholds(v.thresholds);
    if (!amount || !thresholds) return;
    onSave({
      name: v.name.trim(),
      amount,
      thresholds,
      clusterId: v.cluster,
      namespace: v.namespace.trim() || null,
      team: v.team.trim() || null,
      workloadId: budget?.workloadId ?? null,
      webhookId: v.webhook,
      period: v.period,
      label: readLabel(v.label),
      enforced: v.enforced,
      breaker: v.breaker.trim()
        ? { percent: readWhole(v.breaker, 110, 10_000) ?? 300, minutes: readWhole(v.minutes, 0, 10_080) ?? 60 }
        : null,
    });
  });
  const title = budget ? t("budgets.editTitle", { name: budget.name }) : t("budgets.createTitle");
  return (
    <Modal opened onClose={onClose} title={title} size="lg">
      <form onSubmit={submit}>
        <Stack>
          <SimpleGrid cols={{ base: 1, xs: 3 }}>
            <TextInput data-autofocus label={t("common.name")} maxLength={100} {...form.getInputProps("name")} />
            <TextInput
              label={t("budgets.amount")}
              inputMode="decimal"
              rightSection={currency}
              rightSectionWidth={52}
              {...form.getInputProps("amount")}
            />
            <Select
              label={t("telling.period")}
              allowDeselect={false}
              data={PERIODS.map((p) => ({ value: p, label: t(`telling.periods.${p}`) }))}
              {...form.getInputProps("period")}
            />
          </SimpleGrid>
          <SimpleGrid cols={{ base: 1, xs: 3 }}>
            <TextInput
              label={t("budgets.team")}
              placeholder={t("budgets.optional")}
              maxLength={253}
              {...form.getInputProps("team")}
            />
            <TextInput
              label={t("budgets.namespace")}
              placeholder={t("budgets.optional")}
              maxLength={253}
              {...form.getInputProps("namespace")}
            />
            {clusterField(form.values.cluster, (id) => form.setFieldValue("cluster", id))}
          </SimpleGrid>
          <TextInput
            label={t("telling.label")}
            placeholder={t("budgets.optional")}
            maxLength={400}
            {...form.getInputProps("label")}
          />
          <TextInput
            label={t("budgets.thresholds")}
            description={t("budgets.thresholdsHint")}
            {...form.getInputProps("thresholds")}
          />
          <Select
            label={t("budgets.webhook")}
            placeholder={t("common.none")}
            clearable
            data={webhooks.map((w) => ({ value: w.id, label: w.name }))}
            {...form.getInputProps("webhook")}
          />
          <Switch
            label={t("telling.enforced")}
            description={t("telling.enforcedHint")}
            {...form.getInputProps("enforced", { type: "checkbox" })}
          />
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput
              label={t("telling.breaker")}
              description={t("telling.breakerHint")}
              inputMode="numeric"
              {...form.getInputProps("breaker")}
            />
            <TextInput
              label={t("telling.minutes")}
              description={t("telling.minutesHint")}
              inputMode="numeric"
              {...form.getInputProps("minutes")}
            />
          </SimpleGrid>
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {t("common.cancel")}
            </Button>
            <Button type="submit" loading={busy}>
              {t("common.save")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
