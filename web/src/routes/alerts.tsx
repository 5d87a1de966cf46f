import { SegmentedControl, Text } from "@mantine/core";
import { IconBell } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { type Alert, alertsQuery } from "../api/alerts";
import { SeverityBadge } from "../components/badge";
import { TextLink } from "../components/link";
import { PageHead, Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable, Pager } from "../components/table";
import { alertText, alertTitle } from "../lib/alert";
import { useFormat } from "../lib/format";
import { useMe } from "./me";

/** Where to look further: "cluster/<id>", "budget/<id>/actual/80", "workload/<id>", "service/<id>". */
function Subject({ alert }: { alert: Alert }) {
  const { t } = useTranslation();
  const f = useFormat();
  const text = alertText(t, f, alert);
  const [kind, id] = alert.subject.split("/");
  if (kind === "cluster" && id) {
    return (
      <TextLink to="/clusters/$id" params={{ id }} size="sm">
        {text}
      </TextLink>
    );
  }
  if (kind === "workload" && id) {
    return (
      <TextLink to="/workloads/$id" params={{ id }} size="sm">
        {text}
      </TextLink>
    );
  }
  if (kind === "service" && id) {
    return (
      <TextLink to="/services/$id" params={{ id }} size="sm">
        {text}
      </TextLink>
    );
  }
  if (kind === "budget") {
    return (
      <TextLink to="/budgets" size="sm">
        {text}
      </TextLink>
    );
  }
  if (alert.kind === "commitment_expiring") {
    return (
      <TextLink to="/commitments" search={{ tab: "expiries" }} size="sm">
        {text}
      </TextLink>
    );
  }
  return <Text size="sm">{text}</Text>;
}

/** Who heard of it; nobody hears of anything while no channel or route is there. */
function Told({ told }: { told: Alert["told"] }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (!told) return "–";
  if (told.state !== "told") return t(`telling.untold.${told.state}`);
  return told.channels > 0 ? (
    t("telling.told", { value: f.integer(told.channels) })
  ) : (
    <TextLink to="/webhooks" size="sm">
      {t("telling.toldNobody")}
    </TextLink>
  );
}

export function AlertsPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const me = useMe();
  const search = useSearch({ from: "/signed-in/alerts" });
  const navigate = useNavigate();
  const show = search.show ?? "open";
  const query = useQuery(alertsQuery({ open: show === "open" || undefined, cursor: search.cursor, limit: 50 }));
  const columns: Column<Alert>[] = [
    {
      key: "severity",
      header: t("alerts.severity"),
      width: 110,
      render: (a) => <SeverityBadge severity={a.severity} />,
    },
    {
      key: "kind",
      header: t("alerts.kind"),
      render: (a) => (
        <Text size="sm" fw={550}>
          {alertTitle(t, a)}
        </Text>
      ),
    },
    { key: "subject", header: t("alerts.subject"), render: (a) => <Subject alert={a} /> },
    { key: "opened", header: t("alerts.opened"), render: (a) => f.dateTime(a.openedAt) },
    {
      key: "told",
      header: t("telling.channel"),
      render: (a) => <Told told={a.told} />,
    },
    {
      key: "resolved",
      header: t("alerts.resolved"),
      render: (a) =>
        a.resolvedAt ? (
          f.dateTime(a.resolvedAt)
        ) : (
          <Text size="sm" c="orange">
            {t("alerts.stillOpen", {
              age: f.duration(Math.max(0, (me.dataNow.getTime() - a.openedAt.getTime()) / 1000)),
            })}
          </Text>
        ),
    },
  ];
  return (
    <>
      <PageHead
        title={t("alerts.title")}
        actions={
          <SegmentedControl
            size="xs"
            aria-label={t("common.status")}
            value={show}
            onChange={(value) => void navigate({ to: "/alerts", search: value === "all" ? { show: "all" } : {} })}
            data={[
              { value: "open", label: t("alerts.open") },
              { value: "all", label: t("alerts.all") },
            ]}
          />
        }
      />
      <Panel flush>
        <Gate
          query={query}
          skeleton={<TableSkeleton rows={5} />}
          isEmpty={(page) => page.items.length === 0}
          empty={
            <Empty
              icon={<IconBell size={34} stroke={1.4} />}
              title={t(show === "open" ? "alerts.empty" : "alerts.emptyAll")}
              text={t("alerts.emptyText")}
              height={280}
            />
          }
        >
          {(page) => (
            <>
              <DataTable label={t("alerts.title")} rows={page.items} columns={columns} rowKey={(a) => a.id} />
              <Pager
                cursor={search.cursor}
                nextCursor={page.nextCursor}
                onMove={(cursor) => void navigate({ to: "/alerts", search: { ...search, cursor } })}
              />
            </>
          )}
        </Gate>
      </Panel>
    </>
  );
}
