import { Button, Group, NumberInput, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  addSharedRule,
  type Calendar,
  type CalendarInput,
  calendarQuery,
  dropSharedRule,
  IDLE_SCOPES,
  IDLE_SPREADS,
  RULE_PICKS,
  RULE_SPREADS,
  type SharedRule,
  saveCalendar,
  sharedRulesQuery,
} from "../api/finops";
import { Panel } from "../components/page";
import { BlockSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import { monthName, timeZones, weekdayName } from "../lib/time";
import { useAct } from "./act";

const TOUCHES = [["calendar"], ["cost"], ["statements"]];
const MONTHS = Array.from({ length: 12 }, (_, i) => i);
const DAYS = Array.from({ length: 7 }, (_, i) => i);

function CalendarForm({ data }: { data: Calendar }) {
  const { t } = useTranslation();
  const { locale } = useFormat();
  const { act, busy } = useAct();
  const form = useForm<CalendarInput>({
    initialValues: {
      timeZone: data.timeZone,
      fiscalMonth: data.fiscalMonth,
      weekStart: data.weekStart,
      idleScope: data.idleScope,
      idleSpread: data.idleSpread,
    },
  });
  const values = form.values;
  return (
    <Stack gap="md" maw={560}>
      <Select
        searchable
        allowDeselect={false}
        label={t("finops.calendar.zone")}
        description={t("finops.calendar.zoneHint")}
        data={timeZones(data.timeZone)}
        value={values.timeZone}
        onChange={(v) => v && form.setFieldValue("timeZone", v)}
      />
      <Group grow>
        <Select
          allowDeselect={false}
          label={t("finops.calendar.fiscalMonth")}
          value={String(values.fiscalMonth)}
          data={MONTHS.map((m) => ({
            value: String(m + 1),
            label: monthName(m, locale),
          }))}
          onChange={(v) => form.setFieldValue("fiscalMonth", Number(v))}
        />
        <Select
          allowDeselect={false}
          label={t("finops.calendar.weekStart")}
          value={String(values.weekStart)}
          data={DAYS.map((d) => ({
            value: String(d),
            label: weekdayName(d, locale),
          }))}
          onChange={(v) => form.setFieldValue("weekStart", Number(v))}
        />
      </Group>
      <Group grow align="flex-start">
        <Select
          allowDeselect={false}
          label={t("finops.calendar.idleScope")}
          description={t("finops.calendar.idleHint")}
          value={values.idleScope}
          data={IDLE_SCOPES.map((s) => ({ value: s, label: t(`finops.calendar.scope.${s}`) }))}
          onChange={(v) => form.setFieldValue("idleScope", IDLE_SCOPES.find((s) => s === v) ?? "separate")}
        />
        <Select
          allowDeselect={false}
          disabled={values.idleScope === "separate"}
          label={t("finops.calendar.idleSpread")}
          description={t("finops.calendar.spreadHint")}
          value={values.idleSpread}
          data={IDLE_SPREADS.map((s) => ({ value: s, label: t(`finops.calendar.spread.${s}`) }))}
          onChange={(v) => form.setFieldValue("idleSpread", IDLE_SPREADS.find((s) => s === v) ?? "weighted")}
        />
      </Group>
      <Group>
        <Button
          disabled={!form.isDirty()}
          loading={busy}
          onClick={() =>
            void act(() => saveCalendar(values), TOUCHES, t("finops.calendar.saved")).then(
              (done) => done && form.resetDirty(),
            )
          }
        >
          {t("common.save")}
        </Button>
      </Group>
    </Stack>
  );
}

const NEW: Omit<SharedRule, "id"> = { name: "", pick: "namespace", value: "", spread: "weighted", parts: {} };

function AddRule() {
  const { t } = useTranslation();
  const { act, busy } = useAct();
  const [rule, setRule] = useState(NEW);
  const [part, setPart] = useState<{ team: string; weight: number }>({ team: "", weight: 1 });
  const set = (change: Partial<typeof NEW>) => setRule({ ...rule, ...change });
  const parts = Object.entries(rule.parts);
  const ready = rule.name.trim() !== "" && rule.value.trim() !== "" && (rule.spread !== "fixed" || parts.length > 0);
  return (
    <Stack gap="sm" p="md">
      <Group align="flex-end" gap="sm">
        <TextInput
          label={t("finops.rules.name")}
          w={200}
          maxLength={100}
          value={rule.name}
          onChange={(e) => set({ name: e.currentTarget.value })}
        />
        <Select
          label={t("finops.rules.pick")}
          w={130}
          allowDeselect={false}
          value={rule.pick}
          data={RULE_PICKS.map((p) => ({ value: p, label: t(`cost.aggregate.${p}`) }))}
          onChange={(v) => set({ pick: RULE_PICKS.find((p) => p === v) ?? "namespace" })}
        />
        <TextInput
          label={t("finops.rules.value")}
          w={180}
          maxLength={253}
          value={rule.value}
          onChange={(e) => set({ value: e.currentTarget.value })}
        />
        <Select
          label={t("finops.rules.spread")}
          w={210}
          allowDeselect={false}
          value={rule.spread}
          data={RULE_SPREADS.map((s) => ({ value: s, label: t(`finops.calendar.spread.${s}`) }))}
          onChange={(v) => set({ spread: RULE_SPREADS.find((s) => s === v) ?? "weighted" })}
        />
        <Button
          disabled={!ready}
          loading={busy}
          onClick={() =>
            void act(() => addSharedRule(rule), TOUCHES, t("finops.rules.added")).then((done) => done && setRule(NEW))
          }
        >
          {t("finops.rules.add")}
        </Button>
      </Group>
      {rule.spread === "fixed" && (
        <Group gap="sm" align="flex-end">
          <TextInput
            label={t("cost.aggregate.team")}
            w={160}
            value={part.team}
            onChange={(e) => setPart({ ...part, team: e.currentTarget.value })}
          />
          <NumberInput
            label={t("finops.rules.parts")}
            w={100}
            min={0}
            max={1_000_000}
            allowDecimal={false}
            value={part.weight}
            onChange={(v) => typeof v === "number" && setPart({ ...part, weight: v })}
          />
          <Button
            variant="default"
            onClick={() => {
              set({ parts: { ...rule.parts, [part.team]: part.weight } });
              setPart({ team: "", weight: 1 });
            }}
          >
            {t("finops.rules.addPart")}
          </Button>
          <Text size="sm" c="dimmed">
            {parts.map(([team, weight]) => `${team || t("cost.noneTeam")}: ${weight}`).join(", ")}
          </Text>
        </Group>
      )}
    </Stack>
  );
}

export function CalendarTab() {
  const { t } = useTranslation();
  const f = useFormat();
  const { act, busy } = useAct();
  const calendar = useQuery(calendarQuery);
  const rules = useQuery(sharedRulesQuery);
  const columns: Column<SharedRule>[] = [
    { key: "name", header: t("finops.rules.name"), render: (r) => r.name },
    {
      key: "pick",
      header: t("finops.rules.value"),
      render: (r) => `${t(`cost.aggregate.${r.pick}`)}: ${r.value}`,
    },
    {
      key: "spread",
      header: t("finops.rules.spread"),
      render: (r) =>
        [
          t(`finops.calendar.spread.${r.spread}`),
          ...Object.entries(r.parts).map(([team, n]) => `${team || t("cost.noneTeam")} ${f.integer(n)}`),
        ].join(" · "),
    },
    {
      key: "drop",
      header: "",
      align: "right",
      render: (r) => (
        <Button
          size="compact-xs"
          variant="default"
          disabled={busy}
          onClick={() => void act(() => dropSharedRule(r.id), TOUCHES, t("finops.rules.dropped"))}
        >
          {t("common.delete")}
        </Button>
      ),
    },
  ];
  return (
    <Stack gap="md">
      <Panel title={t("finops.calendar.title")}>
        <Gate query={calendar} skeleton={<BlockSkeleton height={280} />}>
          {(data) => <CalendarForm key={data.timeZone} data={data} />}
        </Gate>
      </Panel>
      <Panel flush title={t("finops.rules.title")} hint={t("finops.rules.hint")}>
        <AddRule />
        <Gate
          query={rules}
          skeleton={<TableSkeleton rows={3} />}
          isEmpty={(data) => data.length === 0}
          empty={<Empty title={t("finops.rules.empty")} text={t("finops.rules.emptyText")} height={120} />}
        >
          {(data) => <DataTable label={t("finops.rules.title")} rows={data} columns={columns} rowKey={(r) => r.id} />}
        </Gate>
      </Panel>
    </Stack>
  );
}
