import { Box, Button, Group, Modal, MultiSelect, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { createSilence, endSilence, type Silence, silencesQuery } from "../api/telling";
import { Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { ALERT_KINDS, alertKind } from "../lib/alert";
import { useFormat } from "../lib/format";
import { useAct } from "./act";
import { useMay } from "./me";

const TOUCHES = [["webhooks"], ["alerts"]];
const HOURS = [1, 4, 8, 24, 72, 168];

function AddSilence({
  busy,
  onClose,
  onCreate,
}: {
  busy: boolean;
  onClose: () => void;
  onCreate: (input: Parameters<typeof createSilence>[0]) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const form = useForm({
    initialValues: { kinds: [] as string[], subject: "", team: "", reason: "", hours: "4" },
    validate: { reason: (v) => (v.trim() ? null : t("telling.reasonBad")) },
  });
  return (
    <Modal opened onClose={onClose} title={t("telling.addSilence")}>
      <form
        onSubmit={form.onSubmit((v) =>
          onCreate({
            kinds: v.kinds,
            subject: v.subject.trim(),
            team: v.team.trim(),
            reason: v.reason.trim(),
            hours: Number(v.hours),
          }),
        )}
      >
        <Stack>
          <TextInput data-autofocus label={t("telling.reason")} maxLength={500} {...form.getInputProps("reason")} />
          <MultiSelect
            label={t("telling.alerts")}
            placeholder={t("telling.allAlerts")}
            data={ALERT_KINDS.map((k) => ({ value: k, label: alertKind(t, k) }))}
            {...form.getInputProps("kinds")}
          />
          <TextInput label={t("telling.subjectPrefix")} maxLength={300} {...form.getInputProps("subject")} />
          <TextInput
            label={t("telling.team")}
            placeholder={t("telling.anyTeam")}
            maxLength={253}
            {...form.getInputProps("team")}
          />
          <Select
            label={t("telling.hours")}
            allowDeselect={false}
            data={HOURS.map((h) => ({ value: String(h), label: t("telling.hourCount", { value: f.integer(h) }) }))}
            {...form.getInputProps("hours")}
          />
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

/** What nobody is told of for a while. */
export function SilencesPanel() {
  const { t } = useTranslation();
  const f = useFormat();
  const may = useMay("operator");
  const { act, busy } = useAct();
  const query = useQuery(silencesQuery);
  const [adding, setAdding] = useState(false);
  const columns: Column<Silence>[] = [
    { key: "reason", header: t("telling.reason"), render: (s) => s.reason },
    {
      key: "alerts",
      header: t("telling.alerts"),
      render: (s) =>
        [s.kinds.length ? s.kinds.map((k) => alertKind(t, k)).join(", ") : t("telling.allAlerts"), s.subject, s.team]
          .filter(Boolean)
          .join(" · "),
    },
    { key: "until", header: t("telling.until"), render: (s) => f.dateTime(s.until) },
    { key: "by", header: t("telling.by"), render: (s) => s.by },
    {
      key: "end",
      header: "",
      align: "right",
      render: (s) =>
        may ? (
          <Button
            size="compact-xs"
            variant="default"
            disabled={busy}
            onClick={() => void act(() => endSilence(s.id), TOUCHES, t("telling.ended"))}
          >
            {t("telling.end")}
          </Button>
        ) : null,
    },
  ];
  const create = async (input: Parameters<typeof createSilence>[0]) => {
    if (await act(() => createSilence(input), TOUCHES, t("telling.saved"))) setAdding(false);
  };
  const add = may && (
    <Button size="xs" variant="default" leftSection={<IconPlus size={14} />} onClick={() => setAdding(true)}>
      {t("telling.addSilence")}
    </Button>
  );
  return (
    <Box mt="md">
      <Panel flush title={t("telling.silences")} hint={t("telling.silencesHint")} actions={add}>
        <Gate
          query={query}
          skeleton={<TableSkeleton rows={2} />}
          isEmpty={(list) => list.length === 0}
          empty={<Empty title={t("telling.silencesEmpty")} text={t("telling.silencesEmptyText")} height={120} />}
        >
          {(list) => <DataTable label={t("telling.silences")} rows={list} columns={columns} rowKey={(s) => s.id} />}
        </Gate>
        {adding && <AddSilence busy={busy} onClose={() => setAdding(false)} onCreate={(i) => void create(i)} />}
      </Panel>
    </Box>
  );
}
