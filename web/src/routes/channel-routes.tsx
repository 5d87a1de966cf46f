import { ActionIcon, Button, Checkbox, Group, Modal, MultiSelect, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { SEVERITIES, type Severity } from "../api/alerts";
import { type Channel, createRoute, deleteRoute, type Route, routesQuery } from "../api/telling";
import { SeverityBadge } from "../components/badge";
import { Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { ALERT_KINDS, alertKind } from "../lib/alert";
import { useAct } from "./act";

const TOUCHES = [["webhooks"]];

function AddRoute({
  channels,
  busy,
  onClose,
  onCreate,
}: {
  channels: readonly Channel[];
  busy: boolean;
  onClose: () => void;
  onCreate: (route: Omit<Route, "id">) => void;
}) {
  const { t } = useTranslation();
  const form = useForm({
    initialValues: {
      name: "",
      channel: channels[0]?.id ?? "",
      kinds: [] as string[],
      severity: "warning" as Severity,
      team: "",
      resolved: true,
    },
    validate: { name: (v) => (v.trim() ? null : t("webhooks.nameBad")) },
  });
  return (
    <Modal opened onClose={onClose} title={t("telling.addRoute")}>
      <form
        onSubmit={form.onSubmit((v) =>
          onCreate({
            name: v.name.trim(),
            channelId: v.channel,
            kinds: v.kinds,
            minSeverity: v.severity,
            team: v.team.trim() || null,
            resolved: v.resolved,
          }),
        )}
      >
        <Stack>
          <TextInput data-autofocus label={t("common.name")} maxLength={100} {...form.getInputProps("name")} />
          <Select
            label={t("telling.channel")}
            allowDeselect={false}
            data={channels.map((c) => ({ value: c.id, label: c.name }))}
            {...form.getInputProps("channel")}
          />
          <MultiSelect
            label={t("telling.alerts")}
            placeholder={t("telling.allAlerts")}
            data={ALERT_KINDS.map((k) => ({ value: k, label: alertKind(t, k) }))}
            {...form.getInputProps("kinds")}
          />
          <Select
            label={t("telling.from")}
            allowDeselect={false}
            data={SEVERITIES.map((s) => ({ value: s, label: t(`severity.${s}`) }))}
            {...form.getInputProps("severity")}
          />
          <TextInput
            label={t("telling.team")}
            placeholder={t("telling.anyTeam")}
            maxLength={253}
            {...form.getInputProps("team")}
          />
          <Checkbox label={t("telling.resolved")} {...form.getInputProps("resolved", { type: "checkbox" })} />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {t("common.cancel")}
            </Button>
            <Button type="submit" loading={busy}>
              {t("common.create")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

/** Which alerts go to which channel. */
export function RoutesPanel({ channels, may }: { channels: readonly Channel[]; may: boolean }) {
  const { t } = useTranslation();
  const { act, busy } = useAct();
  const query = useQuery(routesQuery);
  const [adding, setAdding] = useState(false);
  const columns: Column<Route>[] = [
    { key: "name", header: t("common.name"), render: (r) => r.name },
    {
      key: "kinds",
      header: t("telling.alerts"),
      render: (r) => (r.kinds.length ? r.kinds.map((k) => alertKind(t, k)).join(", ") : t("telling.allAlerts")),
    },
    { key: "from", header: t("telling.from"), render: (r) => <SeverityBadge severity={r.minSeverity} /> },
    { key: "team", header: t("telling.team"), render: (r) => r.team ?? t("telling.anyTeam") },
    {
      key: "channel",
      header: t("telling.channel"),
      render: (r) => channels.find((c) => c.id === r.channelId)?.name ?? "–",
    },
    {
      key: "drop",
      header: "",
      align: "right",
      render: (r) =>
        may ? (
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={t("common.delete")}
            disabled={busy}
            onClick={() => void act(() => deleteRoute(r.id), TOUCHES, t("telling.gone"))}
          >
            <IconTrash size={16} />
          </ActionIcon>
        ) : null,
    },
  ];
  const create = async (route: Omit<Route, "id">) => {
    if (await act(() => createRoute(route), TOUCHES, t("telling.saved"))) setAdding(false);
  };
  const add = may && (
    <Button size="xs" variant="default" leftSection={<IconPlus size={14} />} onClick={() => setAdding(true)}>
      {t("telling.addRoute")}
    </Button>
  );
  return (
    <Panel flush title={t("telling.routes")} hint={t("telling.routesHint")} actions={add}>
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={2} />}
        isEmpty={(list) => list.length === 0}
        empty={<Empty title={t("telling.routesEmpty")} text={t("telling.routesEmptyText")} height={120} />}
      >
        {(list) => <DataTable label={t("telling.routes")} rows={list} columns={columns} rowKey={(r) => r.id} />}
      </Gate>
      {adding && (
        <AddRoute channels={channels} busy={busy} onClose={() => setAdding(false)} onCreate={(r) => void create(r)} />
      )}
    </Panel>
  );
}
