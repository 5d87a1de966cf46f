import { ActionIcon, Badge, Button, Card, Group, Text } from "@mantine/core";
import { IconPencil, IconTrash } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { Budget } from "../api/budgets";
import { useFormat } from "../lib/format";
import { moneyRatio } from "../lib/money";
import { Hint } from "./page";

const WIDTH_AT_FULL = 80; // percent of the bar that stand for 100 % of the budget; the rest shows what is over

/** How far a month's cost has come, against its thresholds and its forecast. */
function BudgetBar({ budget: b }: { budget: Budget }) {
  const f = useFormat();
  const x = (ratio: number) => Math.min(100, ratio * WIDTH_AT_FULL);
  const forecast = b.forecast ? moneyRatio(b.forecast, b.amount) : null;
  const color =
    b.spentRatio >= 1
      ? "var(--mantine-color-red-6)"
      : forecast !== null && forecast > 1
        ? "var(--mantine-color-orange-5)"
        : "var(--mantine-primary-color-filled)";
  return (
    <div
      role="progressbar"
      aria-valuenow={Math.round(b.spentRatio * 100)}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-label={b.name}
      style={{ position: "relative", height: 30, marginTop: 10 }}
    >
      <div
        style={{ position: "absolute", inset: "0 0 auto 0", height: 10, borderRadius: 5, background: "var(--faint)" }}
      />
      {forecast !== null && (
        <div
          style={{
            position: "absolute",
            left: 0,
            top: 0,
            height: 10,
            borderRadius: 5,
            width: `${x(forecast)}%`,
            background: color,
            opacity: 0.25,
          }}
        />
      )}
      <div
        style={{
          position: "absolute",
          left: 0,
          top: 0,
          height: 10,
          borderRadius: 5,
          width: `${x(b.spentRatio)}%`,
          background: color,
        }}
      />
      {b.thresholds
        .filter((percent) => x(percent / 100) < 100)
        .map((percent) => (
          <div key={percent} style={{ position: "absolute", left: `${x(percent / 100)}%`, top: -2 }}>
            <div style={{ width: 1.5, height: 14, background: "var(--mantine-color-dimmed)" }} />
            <Text
              fz={10.5}
              c="dimmed"
              className="number"
              style={{ transform: "translateX(-50%)", width: "max-content" }}
            >
              {f.percent(percent / 100, 0)}
            </Text>
          </div>
        ))}
    </div>
  );
}

export function BudgetCard({
  budget: b,
  clusterName,
  webhookName,
  onEdit,
  onDelete,
  onReset,
}: {
  budget: Budget;
  clusterName: string | null;
  webhookName: string | null;
  onEdit?: () => void;
  onDelete?: () => void;
  /** Lets scale-ups go on after the breaker tripped. */
  onReset?: () => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const scope = [
    b.team && `${t("budgets.team")}: ${b.team}`,
    b.namespace && `${t("budgets.namespace")}: ${b.namespace}`,
    b.clusterId && `${t("budgets.cluster")}: ${clusterName ?? b.clusterId}`,
    b.label && `${b.label.key}=${b.label.value}`,
  ].filter(Boolean);
  const over =
    b.forecast && b.forecast.nano > b.amount.nano
      ? { nano: b.forecast.nano - b.amount.nano, currency: b.amount.currency }
      : null;
  return (
    <Card className="card" padding="md">
      <Group justify="space-between" wrap="nowrap" align="flex-start">
        <div style={{ minWidth: 0 }}>
          <Text fw={650} truncate>
            {b.name}
          </Text>
          <Text size="sm" c="dimmed" truncate>
            {t(`telling.periods.${b.period}`)} · {scope.length > 0 ? scope.join(" · ") : t("budgets.scopeAll")}
          </Text>
        </div>
        <Group gap={2} wrap="nowrap">
          {onEdit && (
            <ActionIcon variant="subtle" color="gray" aria-label={t("common.edit")} onClick={onEdit}>
              <IconPencil size={16} />
            </ActionIcon>
          )}
          {onDelete && (
            <ActionIcon variant="subtle" color="gray" aria-label={t("common.delete")} onClick={onDelete}>
              <IconTrash size={16} />
            </ActionIcon>
          )}
        </Group>
      </Group>
      <Group justify="space-between" mt="md" align="baseline">
        <Text className="number" fz={22} fw={650} lh={1}>
          {f.money(b.spent, { style: "whole" })}
        </Text>
        <Text size="sm" c="dimmed" className="number">
          {t("common.of", { part: f.percent(b.spentRatio, 0), whole: f.money(b.amount, { style: "whole" }) })}
        </Text>
      </Group>
      <BudgetBar budget={b} />
      <Group justify="space-between" mt={4} gap="xs" mih={24}>
        <Group gap={8}>
          <Text size="sm" c="dimmed" className="number">
            {b.forecast ? t("budgets.forecast", { value: f.money(b.forecast, { style: "whole" }) }) : ""}
          </Text>
          {over && (
            <Badge color="orange">{t("budgets.forecastOver", { value: f.money(over, { style: "whole" }) })}</Badge>
          )}
        </Group>
        {webhookName && (
          <Text size="xs" c="dimmed" truncate>
            {webhookName}
          </Text>
        )}
      </Group>
      <Group gap={8} mt={4}>
        <Text size="xs" c="dimmed" className="number">
          {b.band
            ? t("telling.band", {
                low: f.money(b.band.low, { style: "whole" }),
                high: f.money(b.band.high, { style: "whole" }),
              })
            : t("telling.noBand")}{" "}
          {b.test && (
            <Hint
              text={t("telling.bandHint", {
                error: f.percent(b.test.error, 1),
                hours: f.integer(b.test.hours),
                origins: f.integer(b.test.origins),
              })}
            />
          )}
        </Text>
        {b.enforced && <Badge color="violet">{t("telling.enforced")}</Badge>}
        {b.enforced && (
          <Text size="xs" c="dimmed" className="number">
            {t("telling.allowed", { value: f.money(b.allowedHour) })}
          </Text>
        )}
        {b.breaker?.tripped && <Badge color="red">{t("telling.tripped")}</Badge>}
        {b.breaker?.tripped && onReset && (
          <Button size="compact-xs" variant="default" onClick={onReset}>
            {t("telling.reset")}
          </Button>
        )}
      </Group>
    </Card>
  );
}
