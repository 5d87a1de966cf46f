import { Anchor, Drawer, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { costHoursQuery, type Trace, traceQuery, type WorkloadHours } from "../api/finops";
import { Facts, Panel } from "../components/page";
import { BlockSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";

type Hour = WorkloadHours["items"][number];

/** A workload's hours; one of them opens what it was made of. */
export function HoursPanel({
  workload,
  from,
  to,
  onOpen,
}: {
  workload: string;
  from: Date;
  to: Date;
  onOpen: (hour: string) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const query = useQuery(costHoursQuery(workload, from, to));
  const columns: Column<Hour>[] = [
    {
      key: "hour",
      header: t("finops.trace.hour"),
      sort: (h) => h.hour.getTime(),
      render: (h) => (
        <Anchor component="button" type="button" size="sm" onClick={() => onOpen(h.hour.toISOString())}>
          {f.dateTime(h.hour)}
        </Anchor>
      ),
    },
    {
      key: "amount",
      header: t("common.total"),
      align: "right",
      sort: (h) => h.amount.nano,
      render: (h) => f.money(h.amount),
    },
    {
      key: "quantity",
      header: t("finops.trace.quantity"),
      align: "right",
      sort: (h) => h.quantity,
      render: (h) => f.number(h.quantity),
    },
    {
      key: "changes",
      header: t("finops.savings.changes"),
      align: "right",
      sort: (h) => h.ups + h.downs,
      render: (h) => (h.ups + h.downs === 0 ? "–" : `↑ ${f.integer(h.ups)}  ↓ ${f.integer(h.downs)}`),
    },
  ];
  return (
    <Panel flush title={t("finops.trace.hours")} hint={t("finops.trace.hoursHint")}>
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={8} />}
        isEmpty={(data) => data.items.length === 0}
        empty={<Empty title={t("cost.empty")} height={140} />}
      >
        {(data) => (
          <DataTable
            label={t("finops.trace.hours")}
            rows={data.items}
            columns={columns}
            rowKey={(h) => h.hour.toISOString()}
            onOpen={(h) => onOpen(h.hour.toISOString())}
            initialSort={{ key: "hour", down: true }}
          />
        )}
      </Gate>
    </Panel>
  );
}

function Contents({ trace }: { trace: Trace }) {
  const { t } = useTranslation();
  const f = useFormat();
  const lines: Column<Trace["lines"][number]>[] = [
    { key: "node", header: t("finops.trace.node"), render: (l) => l.node || "–" },
    { key: "resource", header: t("cost.aggregate.resource"), render: (l) => t(`cost.resource.${l.resource as "cpu"}`) },
    { key: "quantity", header: t("finops.trace.held"), align: "right", render: (l) => f.number(l.quantity) },
    { key: "amount", header: t("common.total"), align: "right", render: (l) => f.money(l.amount) },
  ];
  const pods: Column<Trace["pods"][number]>[] = [
    { key: "name", header: t("finops.trace.pod"), render: (p) => p.name },
    { key: "node", header: t("finops.trace.node"), render: (p) => p.node },
    { key: "hours", header: t("finops.trace.podHours"), align: "right", render: (p) => f.number(p.hours) },
  ];
  return (
    <Stack gap="lg">
      <Facts
        items={[
          { label: t("cost.aggregate.workload"), value: trace.key },
          { label: t("common.total"), value: f.money(trace.total) },
          {
            label: t("finops.trace.version"),
            value:
              trace.state === "closed"
                ? t("finops.trace.closed", {
                    version: f.integer(trace.version),
                    time: trace.asOf ? f.dateTime(trace.asOf) : "–",
                  })
                : t("finops.trace.open"),
          },
        ]}
      />
      <Stack gap={6}>
        <Text fw={600}>{t("finops.trace.decisions")}</Text>
        {trace.decisions.length === 0 && (
          <Text size="sm" c="dimmed">
            {t("finops.trace.noDecisions")}
          </Text>
        )}
        {trace.decisions.map((d) => (
          <Group key={d.id} gap="sm">
            <Anchor size="sm" renderRoot={(props) => <Link {...props} to="/decisions/$id" params={{ id: d.id }} />}>
              {f.dateTime(d.at)}
            </Anchor>
            <Text size="sm" className="number">
              {f.integer(d.from)} → {f.integer(d.target)}
            </Text>
            <Text size="sm" c="dimmed">
              {d.binding}
            </Text>
          </Group>
        ))}
      </Stack>
      <Panel flush title={t("finops.trace.lines")}>
        <DataTable
          label={t("finops.trace.lines")}
          rows={trace.lines}
          columns={lines}
          rowKey={(l) => `${l.node}/${l.resource}/${l.purchase}`}
          minWidth={420}
        />
      </Panel>
      <Panel flush title={t("finops.trace.pods")}>
        {trace.pods.length === 0 ? (
          <Empty title={t("finops.trace.noPods")} height={90} />
        ) : (
          <DataTable
            label={t("finops.trace.pods")}
            rows={trace.pods}
            columns={pods}
            rowKey={(p) => p.uid}
            minWidth={420}
          />
        )}
      </Panel>
    </Stack>
  );
}

/** What one hour of a workload was made of: machines, pods, and the decision behind them. */
export function TraceDrawer({ workload, hour, onClose }: { workload: string; hour: string; onClose: () => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const query = useQuery(traceQuery(workload, hour));
  return (
    <Drawer
      opened
      onClose={onClose}
      position="right"
      size="xl"
      title={t("finops.trace.title", { time: f.dateTime(new Date(hour)) })}
    >
      <Gate query={query} skeleton={<BlockSkeleton height={420} />}>
        {(trace) => <Contents trace={trace} />}
      </Gate>
    </Drawer>
  );
}
