import { Badge, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { CheckpointCall, CheckpointOutcome } from "../../api/checkpoints";
import { useFormat } from "../../lib/format";
import { type Column, DataTable } from "../table";

const COLOR: Record<CheckpointOutcome, string> = { done: "teal", late: "orange", failed: "red", refused: "red" };

/** Pods that were told to save their work, and how that went. */
export function CheckpointTable({ calls }: { calls: readonly CheckpointCall[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<CheckpointCall>[] = [
    {
      key: "pod",
      header: t("capacity.checkpoints.pod"),
      sort: (c) => c.pod,
      render: (c) => (
        <div>
          <Text size="sm">{c.pod}</Text>
          <Text size="xs" c="dimmed">
            {[c.workload, c.node].filter(Boolean).join(" · ")}
          </Text>
        </div>
      ),
    },
    {
      key: "cause",
      header: t("capacity.checkpoints.cause"),
      sort: (c) => c.cause,
      render: (c) => t(`capacity.checkpoints.causes.${c.cause}`),
    },
    {
      key: "outcome",
      header: t("capacity.checkpoints.outcome"),
      sort: (c) => c.outcome,
      render: (c) => (
        <div>
          <Badge color={COLOR[c.outcome]}>{t(`capacity.checkpoints.outcomes.${c.outcome}`)}</Badge>
          <Text size="xs" c="dimmed">
            {[c.detail, c.tries > 1 ? t("capacity.checkpoints.tries", { value: f.integer(c.tries) }) : ""]
              .filter(Boolean)
              .join(" · ")}
          </Text>
        </div>
      ),
    },
    {
      key: "took",
      header: t("capacity.checkpoints.took"),
      align: "right",
      sort: (c) => c.seconds,
      render: (c) => f.latency(c.seconds),
    },
    {
      key: "when",
      header: t("capacity.checkpoints.when"),
      align: "right",
      sort: (c) => c.at.getTime(),
      render: (c) => f.fullTime(c.at),
    },
  ];
  return (
    <DataTable
      label={t("capacity.checkpoints.title")}
      rows={calls}
      columns={columns}
      rowKey={(c) => c.id}
      minWidth={760}
    />
  );
}
