import { Alert, Badge, Button, Group, Modal, NumberInput, Select, Stack, Switch, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { createHint, deleteHint, HINT_KINDS, type Hint, type HintKind, hintsQuery } from "../api/hints";
import { Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import { useAct } from "./act";
import { useMay } from "./me";

const TOUCHES = [["workloads", "hints"]];
const STATE_COLOR = { ahead: "blue", now: "teal", over: "gray" } as const;

/** A time as a field of this browser shows it, in the local zone. */
function fieldTime(ahead: number): string {
  const at = new Date(Math.ceil((Date.now() + ahead) / 900_000) * 900_000);
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

const HOUR = 3_600_000;

function AddHint({
  busy,
  onClose,
  onCreate,
}: {
  busy: boolean;
  onClose: () => void;
  onCreate: (h: Parameters<typeof createHint>[1]) => void;
}) {
  const { t } = useTranslation();
  const form = useForm({
    initialValues: {
      kind: "factor" as HintKind,
      amount: 2 as number | string,
      from: fieldTime(HOUR),
      to: fieldTime(3 * HOUR),
      note: "",
    },
    validate: {
      amount: (v, all) => {
        if (!(Number(v) > 0)) return t("hint.badAmount");
        return all.kind === "replicas" && !Number.isInteger(Number(v)) ? t("hint.badReplicas") : null;
      },
      from: (v) => (Number.isNaN(Date.parse(v)) ? t("hint.badFrom") : null),
      to: (v, all) => (Date.parse(v) > Math.max(Date.parse(all.from), Date.now()) ? null : t("hint.badTo")),
    },
  });
  return (
    <Modal opened onClose={onClose} title={t("hint.addTitle")}>
      <form
        onSubmit={form.onSubmit((v) =>
          onCreate({
            kind: v.kind,
            amount: Number(v.amount),
            from: new Date(v.from),
            to: new Date(v.to),
            note: v.note.trim(),
          }),
        )}
      >
        <Stack>
          <Group grow align="flex-start">
            <Select
              label={t("hint.kind")}
              allowDeselect={false}
              data={HINT_KINDS.map((k) => ({ value: k, label: t(`hint.kinds.${k}`) }))}
              {...form.getInputProps("kind")}
            />
            <NumberInput label={t("hint.amount")} min={0} {...form.getInputProps("amount")} />
          </Group>
          <Group grow align="flex-start">
            <TextInput
              type="datetime-local"
              label={t("hint.from")}
              description={t("hint.time")}
              {...form.getInputProps("from")}
            />
            <TextInput
              type="datetime-local"
              label={t("hint.to")}
              description={t("hint.time")}
              {...form.getInputProps("to")}
            />
          </Group>
          <TextInput label={t("hint.note")} maxLength={500} {...form.getInputProps("note")} />
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

/** The load that people expect of a workload. */
export function HintsPanel({ workload }: { workload: string }) {
  const { t } = useTranslation();
  const f = useFormat();
  const may = useMay("operator");
  const { act, busy } = useAct();
  const [past, setPast] = useState(false);
  const [adding, setAdding] = useState(false);
  const query = useQuery(hintsQuery(workload, past));
  const columns: Column<Hint>[] = [
    {
      key: "state",
      header: "",
      width: 110,
      render: (h) => <Badge color={STATE_COLOR[h.state]}>{t(`hint.state.${h.state}`)}</Badge>,
    },
    {
      key: "amount",
      header: t("hint.amount"),
      render: (h) => t(`hint.amounts.${h.kind}`, { value: f.number(h.amount) }),
    },
    { key: "from", header: t("hint.from"), render: (h) => f.dateTime(h.from) },
    { key: "to", header: t("hint.to"), render: (h) => f.dateTime(h.to) },
    { key: "note", header: t("hint.note"), render: (h) => h.note || "–" },
    { key: "by", header: t("hint.by"), render: (h) => h.by },
    {
      key: "remove",
      header: "",
      align: "right",
      render: (h) =>
        may && h.state !== "over" ? (
          <Button
            size="compact-xs"
            variant="default"
            disabled={busy}
            onClick={() => void act(() => deleteHint(workload, h.id), TOUCHES, t("hint.removed"))}
          >
            {t("hint.remove")}
          </Button>
        ) : null,
    },
  ];
  const create = async (h: Parameters<typeof createHint>[1]) => {
    if (await act(() => createHint(workload, h), TOUCHES, t("hint.saved"))) setAdding(false);
  };
  const open = query.data?.items.filter((h) => h.state !== "over").length ?? 0;
  const full = query.data !== undefined && open >= query.data.most;
  return (
    <Panel
      flush
      title={t("hint.title")}
      hint={t("hint.titleHint")}
      actions={
        <Group gap="sm">
          <Switch size="xs" label={t("hint.past")} checked={past} onChange={(e) => setPast(e.currentTarget.checked)} />
          {may && (
            <Button
              size="xs"
              variant="default"
              disabled={full}
              leftSection={<IconPlus size={14} />}
              onClick={() => setAdding(true)}
            >
              {t("hint.add")}
            </Button>
          )}
        </Group>
      }
    >
      {query.data?.reads === "none" && (
        <Alert color="yellow" py={8} mx="md" mb="sm">
          {t("hint.readsNone")}
        </Alert>
      )}
      {query.data?.reads === "replicas" && (
        <Alert color="gray" py={8} mx="md" mb="sm">
          {t("hint.readsReplicas")}
        </Alert>
      )}
      {query.data && full && (
        <Alert color="gray" py={8} mx="md" mb="sm">
          {t("hint.full", { value: f.integer(query.data.most) })}
        </Alert>
      )}
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={2} />}
        isEmpty={(list) => list.items.length === 0}
        empty={<Empty title={t("hint.empty")} text={t("hint.emptyText")} height={120} />}
      >
        {(list) => (
          <DataTable label={t("hint.title")} rows={list.items} columns={columns} rowKey={(h) => h.id} minWidth={720} />
        )}
      </Gate>
      {adding && <AddHint busy={busy} onClose={() => setAdding(false)} onCreate={(h) => void create(h)} />}
    </Panel>
  );
}
