import {
  Button,
  Group,
  Modal,
  NumberInput,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  TextInput,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useTranslation } from "react-i18next";
import { type CloudGroup, type CloudGroupInput, GROUP_PURCHASES } from "../../api/cloud-groups";

const MOST = 40;
const LARGEST = 20_000;

interface Values extends Omit<CloudGroupInput, "zones" | "instanceTypes" | "min" | "max" | "step" | "hourly"> {
  zones: string;
  instanceTypes: string;
  /** Text where the field is empty. */
  min: number | string;
  max: number | string;
  step: number | string;
  hourly: number | string;
}

/** Reads "g5.xlarge, g5.2xlarge": names, each once. */
export function readNames(text: string): string[] {
  return [...new Set(text.split(/[,，\s]+/).filter(Boolean))];
}

function valuesOf(g: CloudGroupInput | null, account: string): Values {
  if (g) return { ...g, zones: g.zones.join(", "), instanceTypes: g.instanceTypes.join(", ") };
  return {
    accountId: account,
    ref: "",
    region: "",
    zones: "",
    instanceTypes: "",
    purchase: "on_demand",
    min: 0,
    max: 0,
    step: 5,
    hourly: 20,
    enabled: false,
    own: false,
    shrink: false,
  };
}

const within = (v: number | string, least: number, most: number) =>
  typeof v === "number" && Number.isInteger(v) && v >= least && v <= most;

/** Adds a group, or changes one; the service checks it again. */
export function GroupForm({
  group,
  accounts,
  busy,
  onClose,
  onSave,
}: {
  /** null: a new one. */
  group: CloudGroup | null;
  accounts: readonly { id: string; name: string }[];
  busy: boolean;
  onClose: () => void;
  onSave: (input: CloudGroupInput) => void;
}) {
  const { t } = useTranslation();
  const form = useForm<Values>({
    initialValues: valuesOf(group, accounts[0]?.id ?? ""),
    validate: {
      accountId: (v) => (v ? null : t("group.noAccounts")),
      ref: (v) => (v.trim() ? null : t("group.needed")),
      region: (v) => (v.trim() ? null : t("group.needed")),
      zones: (v) => (readNames(v).length <= MOST ? null : t("group.zonesBad")),
      instanceTypes: (v) => {
        const n = readNames(v).length;
        return n >= 1 && n <= MOST ? null : t("group.typesBad");
      },
      min: (v, all) => (within(v, 0, Math.min(Number(all.max), LARGEST)) ? null : t("group.minBad")),
      max: (v) => (within(v, 0, LARGEST) ? null : t("group.maxBad")),
      step: (v) => (within(v, 1, 1000) ? null : t("group.stepBad")),
      hourly: (v) => (within(v, 1, LARGEST) ? null : t("group.hourlyBad")),
    },
  });
  const submit = form.onSubmit((v) =>
    onSave({
      ...v,
      ref: v.ref.trim(),
      region: v.region.trim(),
      zones: readNames(v.zones),
      instanceTypes: readNames(v.instanceTypes),
      min: Number(v.min),
      max: Number(v.max),
      step: Number(v.step),
      hourly: Number(v.hourly),
    }),
  );
  const known = accounts.some((a) => a.id === form.values.accountId) || form.values.accountId === "";
  const choices = known ? accounts : [...accounts, { id: form.values.accountId, name: form.values.accountId }];
  const whole = { allowDecimal: false, allowNegative: false, clampBehavior: "none", inputMode: "numeric" } as const;
  return (
    <Modal opened onClose={onClose} size="lg" title={group ? t("group.editName", { name: group.ref }) : t("group.add")}>
      <form onSubmit={submit} autoComplete="off" noValidate>
        <Stack>
          <Select
            label={t("group.account")}
            description={t("group.accountHint")}
            allowDeselect={false}
            data={choices.map((a) => ({ value: a.id, label: a.name }))}
            {...form.getInputProps("accountId")}
          />
          <TextInput
            label={t("group.ref")}
            description={t("group.refHint")}
            maxLength={512}
            {...form.getInputProps("ref")}
          />
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            <TextInput
              label={t("group.region")}
              placeholder="us-east-1"
              maxLength={64}
              {...form.getInputProps("region")}
            />
            <div>
              <Text size="sm" fw={500} mb={2}>
                {t("group.purchase")}
              </Text>
              <SegmentedControl
                fullWidth
                aria-label={t("group.purchase")}
                value={form.values.purchase}
                onChange={(v) => form.setFieldValue("purchase", GROUP_PURCHASES.find((p) => p === v) ?? "on_demand")}
                data={GROUP_PURCHASES.map((p) => ({ value: p, label: t(`purchase.${p}`) }))}
              />
            </div>
          </SimpleGrid>
          <TextInput
            label={t("group.zones")}
            description={t("group.zonesHint")}
            maxLength={4000}
            {...form.getInputProps("zones")}
          />
          <TextInput
            label={t("group.types")}
            description={t("group.typesHint")}
            placeholder="g5.xlarge, g5.2xlarge"
            maxLength={4000}
            {...form.getInputProps("instanceTypes")}
          />
          <SimpleGrid cols={2}>
            <NumberInput label={t("group.min")} {...whole} {...form.getInputProps("min")} />
            <NumberInput label={t("group.max")} {...whole} {...form.getInputProps("max")} />
            <NumberInput
              label={t("group.step")}
              description={t("group.stepHint")}
              {...whole}
              {...form.getInputProps("step")}
            />
            <NumberInput
              label={t("group.hourly")}
              description={t("group.hourlyHint")}
              {...whole}
              {...form.getInputProps("hourly")}
            />
          </SimpleGrid>
          <Switch
            label={t("group.enabled")}
            description={t("group.enabledHint")}
            {...form.getInputProps("enabled", { type: "checkbox" })}
          />
          <Switch
            label={t("group.shrink")}
            description={t("group.shrinkHint")}
            {...form.getInputProps("shrink", { type: "checkbox" })}
          />
          <Switch
            label={t("group.own")}
            description={t("group.ownHint")}
            {...form.getInputProps("own", { type: "checkbox" })}
          />
          <Group gap="sm" justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {t("common.cancel")}
            </Button>
            <Button type="submit" loading={busy}>
              {t("common.save")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
