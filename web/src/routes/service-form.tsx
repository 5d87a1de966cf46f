// What a person declares of a service. The service checks it again.
import {
  Button,
  Group,
  Modal,
  MultiSelect,
  NumberInput,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  SERVICE_MODES,
  type Service,
  type ServiceInput,
  type ServiceMode,
  TRAFFIC,
  type Traffic,
} from "../api/services";
import { workloadsQuery } from "../api/workloads";

const NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const MOST = 20_000;

type Rules = NonNullable<ServiceInput["sites"][number]["rules"]>;

interface Values {
  name: string;
  mode: ServiceMode;
  traffic: Traffic;
  /** Text where the field is empty. */
  headroom: number | string;
  clouds: string;
  regions: string;
  sites: string[];
  rules: Record<string, Rules>;
}

const names = (text: string) => [...new Set(text.split(/[,，\s]+/).filter(Boolean))];
const whole = (v: number | string) => (typeof v === "number" ? Math.round(v) : 0);
const share = (v: number | string) => (typeof v === "number" ? v / 100 : 0);
const percent = (v: number | undefined) => (v ? Math.round(v * 1000) / 10 : "");

function valuesOf(s: Service | null, name: string): Values {
  const named = (s?.sites ?? []).filter((x) => !x.labelled);
  return {
    name: s?.name ?? name,
    mode: s?.mode ?? "recommend",
    traffic: TRAFFIC.find((x) => x === s?.rules.traffic) ?? "local",
    headroom: percent(s?.rules.headroom),
    clouds: (s?.rules.clouds ?? []).join(", "),
    regions: (s?.rules.regions ?? []).join(", "),
    sites: named.map((x) => x.workloadId),
    rules: Object.fromEntries(named.map((x) => [x.workloadId, x.rules])),
  };
}

export function ServiceForm({
  service,
  name = "",
  busy,
  onClose,
  onSave,
}: {
  service: Service | null;
  name?: string;
  busy: boolean;
  onClose: () => void;
  onSave: (input: ServiceInput) => void;
}) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [q] = useDebouncedValue(text.trim(), 250);
  const found = useQuery({ ...workloadsQuery({ q: q || undefined, limit: 25 }), placeholderData: keepPreviousData });
  const form = useForm<Values>({
    initialValues: valuesOf(service, name),
    validate: { name: (v) => (NAME.test(v) ? null : t("service.nameBad")) },
  });
  const [labels, setLabels] = useState(
    new Map((service?.sites ?? []).map((x) => [x.workloadId, `${x.cluster}: ${x.workload}`])),
  );
  const options = new Map(labels);
  for (const w of found.data?.items ?? []) options.set(w.id, `${w.clusterName}: ${w.key}`);
  const pick = (ids: string[]) => {
    setLabels(new Map(ids.map((id) => [id, options.get(id) ?? id])));
    form.setFieldValue("sites", ids);
  };
  const rule = (id: string, part: Partial<Rules>) =>
    form.setFieldValue("rules", { ...form.values.rules, [id]: { ...form.values.rules[id], ...part } });
  const save = (v: Values) =>
    onSave({
      name: v.name,
      mode: v.mode,
      rules: {
        ...service?.rules,
        traffic: v.traffic,
        headroom: share(v.headroom),
        clouds: names(v.clouds),
        regions: names(v.regions),
      },
      sites: v.sites.map((id) => ({ workload_id: id, rules: v.rules[id] ?? {} })),
    });
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={t(service ? "service.edit" : "service.declare")}
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <form onSubmit={form.onSubmit(save)}>
        <Stack gap="sm">
          <TextInput
            required
            label={t("service.name")}
            description={t("service.nameHint")}
            {...form.getInputProps("name")}
          />
          <div>
            <Text size="sm" fw={500}>
              {t("service.modeLabel")}
            </Text>
            <SegmentedControl
              aria-label={t("service.modeLabel")}
              data={SERVICE_MODES.map((m) => ({ value: m, label: t(`service.mode.${m}`) }))}
              {...form.getInputProps("mode")}
            />
            <Text size="xs" c="dimmed">
              {t("service.modeHint")}
            </Text>
          </div>
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            <Select
              label={t("service.trafficLabel")}
              allowDeselect={false}
              data={TRAFFIC.map((m) => ({ value: m, label: t(`service.traffic.${m}`) }))}
              {...form.getInputProps("traffic")}
            />
            <NumberInput
              label={t("service.headroom")}
              description={t("service.headroomHint")}
              min={0}
              max={100}
              {...form.getInputProps("headroom")}
            />
            <TextInput
              label={t("service.clouds")}
              description={t("service.cloudsHint")}
              {...form.getInputProps("clouds")}
            />
            <TextInput
              label={t("service.regions")}
              description={t("service.regionsHint")}
              {...form.getInputProps("regions")}
            />
          </SimpleGrid>
          <MultiSelect
            label={t("service.workloads")}
            description={t("service.workloadsHint")}
            searchable
            searchValue={text}
            onSearchChange={setText}
            data={[...options].map(([value, label]) => ({ value, label }))}
            filter={({ options: all }) => all}
            value={form.values.sites}
            onChange={pick}
          />
          {form.values.sites.map((id) => {
            const r = form.values.rules[id] ?? {};
            return (
              <Stack key={id} gap={4}>
                <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
                  {options.get(id) ?? id}
                </Text>
                <SimpleGrid cols={4}>
                  <NumberInput
                    size="xs"
                    label={t("service.min")}
                    min={0}
                    max={MOST}
                    value={r.min || ""}
                    onChange={(v) => rule(id, { min: whole(v) })}
                  />
                  <NumberInput
                    size="xs"
                    label={t("service.max")}
                    min={0}
                    max={MOST}
                    value={r.max || ""}
                    onChange={(v) => rule(id, { max: whole(v) })}
                  />
                  <NumberInput
                    size="xs"
                    label={t("service.maxShare")}
                    min={0}
                    max={100}
                    value={percent(r.max_share)}
                    onChange={(v) => rule(id, { max_share: share(v) })}
                  />
                  <TextInput
                    size="xs"
                    label={t("service.penalty")}
                    inputMode="decimal"
                    value={r.penalty ?? ""}
                    onChange={(e) => rule(id, { penalty: e.currentTarget.value })}
                  />
                </SimpleGrid>
              </Stack>
            );
          })}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {t("common.cancel")}
            </Button>
            <Button type="submit" loading={busy}>
              {t("service.save")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
