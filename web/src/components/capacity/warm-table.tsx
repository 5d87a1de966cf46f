import { Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { WarmPool } from "../../api/capacity";
import { useFormat } from "../../lib/format";
import { type Column, DataTable } from "../table";
import { warmWhyText } from "./words";

/** Machines that are kept ready: how many there are, what they cost and what delay they save. */
export function WarmTable({ pools }: { pools: readonly WarmPool[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const growth = (w: WarmPool) =>
    w.growth && w.growth.samples > 0
      ? t("capacity.warm.grows", { gpus: f.integer(w.growth.gpus), time: f.duration(w.growth.seconds) })
      : t("capacity.warm.growsUnknown");
  const columns: Column<WarmPool>[] = [
    {
      key: "rule",
      header: t("capacity.warm.rule"),
      sort: (w) => w.rule,
      render: (w) => (
        <div>
          <Text size="sm">{w.rule}</Text>
          <Text size="xs" c="dimmed">
            {[t(`capacity.warm.how.${w.how}`), w.how === "growth" ? growth(w) : ""].filter(Boolean).join(" · ")}
          </Text>
        </div>
      ),
    },
    {
      key: "types",
      header: t("capacity.warm.types"),
      render: (w) => (
        <div>
          <Text size="sm">{w.types.join(", ") || "–"}</Text>
          <Text size="xs" c="dimmed">
            {t(w.placeholders ? "capacity.warm.placeholders" : "capacity.warm.running")}
          </Text>
        </div>
      ),
    },
    {
      key: "want",
      header: t("capacity.warm.want"),
      align: "right",
      sort: (w) => w.want,
      render: (w) => f.integer(w.want),
    },
    {
      key: "there",
      header: t("capacity.warm.there"),
      render: (w) => (
        <div>
          <Group gap={8}>
            <Text size="sm">{t("capacity.warm.ready", { value: f.integer(w.ready) })}</Text>
            {w.starting > 0 && <Text size="sm">{t("capacity.warm.starting", { value: f.integer(w.starting) })}</Text>}
            {w.add > 0 && <Text size="sm">{t("capacity.warm.add", { value: f.integer(w.add) })}</Text>}
          </Group>
          {w.short > 0 && (
            <Text size="xs" c="orange">
              {t("capacity.warm.short", { value: f.integer(w.short), why: warmWhyText(t, w.why) })}
            </Text>
          )}
        </div>
      ),
    },
    {
      key: "hour",
      header: t("capacity.warm.hour"),
      align: "right",
      render: (w) => (
        <div>
          <Text size="sm">{t("common.perHour", { value: f.money(w.hour) })}</Text>
          {w.unpriced > 0 && (
            <Text size="xs" c="dimmed">
              {t("capacity.warm.unpriced", { value: f.integer(w.unpriced) })}
            </Text>
          )}
        </div>
      ),
    },
    {
      key: "saves",
      header: t("capacity.warm.saves"),
      align: "right",
      sort: (w) => w.saves,
      render: (w) => (w.saves === null ? t("capacity.pending.unknown") : f.duration(w.saves)),
    },
  ];
  return (
    <DataTable label={t("capacity.warm.title")} rows={pools} columns={columns} rowKey={(w) => w.rule} minWidth={860} />
  );
}
