import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import type { Decision } from "../api/decisions";
import { reasonName } from "../lib/explain";
import { useFormat } from "../lib/format";
import { Change, CostDelta, OutcomeText, StateBadge } from "./badge";
import { type Column, DataTable } from "./table";
import { WorkloadName } from "./workload-name";

export function DecisionTable({
  decisions,
  onOpen,
  hideWorkload,
}: {
  decisions: readonly Decision[];
  onOpen: (decision: Decision) => void;
  hideWorkload?: boolean;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<Decision>[] = [
    {
      key: "at",
      header: t("decisions.at"),
      width: 130,
      render: (d) => (
        <Link to="/decisions/$id" params={{ id: d.id }} className="cell-link" style={{ whiteSpace: "nowrap" }}>
          {f.dateTime(d.at)}
        </Link>
      ),
    },
    {
      key: "workload",
      header: t("decisions.workload"),
      render: (d) => <WorkloadName id={d.workloadId} workloadKey={d.key} />,
    },
    { key: "outcome", header: t("decisions.outcome"), render: (d) => <OutcomeText outcome={d.outcome} /> },
    {
      key: "change",
      header: t("decisions.change"),
      align: "right",
      render: (d) => <Change from={d.from} target={d.target} />,
    },
    {
      key: "why",
      header: t("decisions.why"),
      render: (d) => (
        <div>
          <Text size="sm">{reasonName(t, d.binding)}</Text>
          {d.needed !== d.target && (
            <Text size="xs" c="dimmed">
              {t("decisions.needed")}: {f.integer(d.needed)}
            </Text>
          )}
        </div>
      ),
    },
    {
      key: "cost",
      header: t("decisions.costDelta"),
      align: "right",
      render: (d) => (d.outcome === "hold" ? "" : <CostDelta delta={d.costDeltaHour} />),
    },
    { key: "state", header: t("decisions.state"), render: (d) => <StateBadge state={d.state} /> },
  ];
  return (
    <DataTable
      label={t("decisions.title")}
      rows={decisions}
      columns={hideWorkload ? columns.filter((c) => c.key !== "workload") : columns}
      rowKey={(d) => d.id}
      onOpen={onOpen}
      minWidth={880}
    />
  );
}
