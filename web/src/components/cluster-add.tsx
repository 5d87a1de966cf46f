import { Button, Group, Modal, Radio, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useTranslation } from "react-i18next";
import { MODES, type Mode } from "../api/clusters";

const NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** Asks for a name and a mode to start in. */
export function AddCluster({
  opened,
  busy,
  onClose,
  onCreate,
}: {
  opened: boolean;
  busy: boolean;
  onClose: () => void;
  onCreate: (name: string, mode: Mode) => void;
}) {
  const { t } = useTranslation();
  const form = useForm<{ name: string; mode: Mode }>({
    initialValues: { name: "", mode: "recommend" },
    validate: { name: (v) => (NAME.test(v.trim()) && v.trim().length <= 63 ? null : t("clusters.addNameBad")) },
  });
  return (
    <Modal opened={opened} onClose={onClose} title={t("clusters.addTitle")}>
      <form onSubmit={form.onSubmit(({ name, mode }) => onCreate(name.trim(), mode))}>
        <Stack>
          <TextInput
            data-autofocus
            label={t("clusters.addName")}
            description={t("clusters.addNameHint")}
            {...form.getInputProps("name")}
          />
          <Radio.Group label={t("clusters.addMode")} {...form.getInputProps("mode")}>
            <Stack gap="xs" mt="xs">
              {MODES.map((mode) => (
                <Radio key={mode} value={mode} label={t(`mode.${mode}`)} description={t(`modeHint.${mode}`)} />
              ))}
            </Stack>
          </Radio.Group>
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {t("common.cancel")}
            </Button>
            <Button type="submit" loading={busy}>
              {t("clusters.addCreate")}
            </Button>
          </Group>
          <Text size="xs" c="dimmed">
            {t("clusters.emptyText")}
          </Text>
        </Stack>
      </form>
    </Modal>
  );
}
