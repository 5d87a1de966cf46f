import { Alert, Button, Text } from "@mantine/core";
import { IconShieldCheck } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type AuditEntry, auditQuery, verifyAudit } from "../api/settings";
import { Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable, Pager } from "../components/table";
import { useFormat } from "../lib/format";
import { useAct } from "./act";
import { useActorName } from "./actor";
import { AuditObject } from "./settings-audit-object";

export function AuditTab() {
  const { t } = useTranslation();
  const f = useFormat();
  const { cursor } = useSearch({ from: "/signed-in/settings" });
  const navigate = useNavigate();
  const { act, busy } = useAct();
  const query = useQuery({ ...auditQuery(cursor), placeholderData: keepPreviousData });
  const who = useActorName();
  const [check, setCheck] = useState<Awaited<ReturnType<typeof verifyAudit>> | null>(null);
  const columns: Column<AuditEntry>[] = [
    { key: "seq", header: "#", align: "right", width: 70, render: (e) => f.integer(e.seq) },
    { key: "at", header: t("common.time"), width: 140, render: (e) => f.dateTime(e.at) },
    { key: "actor", header: t("settings.auditActor"), render: (e) => <Text size="sm">{who(e.actor)}</Text> },
    { key: "action", header: t("settings.auditAction"), render: (e) => <span className="mono">{e.action}</span> },
    { key: "object", header: t("settings.auditObject"), render: (e) => <AuditObject object={e.object} /> },
    {
      key: "detail",
      header: t("settings.auditDetail"),
      render: (e) => (
        <Text size="xs" c="dimmed" lineClamp={2}>
          {e.detail.map((d) => `${d.name}: ${d.value}`).join(" · ")}
        </Text>
      ),
    },
  ];
  return (
    <Panel
      flush
      title={t("settings.tabs.audit")}
      hint={t("settings.auditHint")}
      actions={
        <Button
          size="xs"
          variant="default"
          leftSection={<IconShieldCheck size={14} />}
          loading={busy}
          onClick={() => void act(async () => setCheck(await verifyAudit()), [])}
        >
          {t("settings.verify")}
        </Button>
      }
    >
      {check && (
        <Alert mx="md" mb="sm" color={check.intact ? "teal" : "red"} role="status">
          {check.intact
            ? t("settings.verified", { value: f.integer(check.entries) })
            : t("settings.broken", { seq: f.integer(check.brokenAt ?? 0) })}
        </Alert>
      )}
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={8} />}
        isEmpty={(page) => page.items.length === 0}
        empty={<Empty title={t("settings.auditEmpty")} text={t("settings.auditEmptyText")} />}
      >
        {(page) => (
          <>
            <DataTable
              label={t("settings.tabs.audit")}
              rows={page.items}
              columns={columns}
              rowKey={(e) => String(e.seq)}
              minWidth={900}
            />
            <Pager
              cursor={cursor}
              nextCursor={page.nextCursor}
              onMove={(next) => void navigate({ to: "/settings", search: { tab: "audit", cursor: next } })}
            />
          </>
        )}
      </Gate>
    </Panel>
  );
}
