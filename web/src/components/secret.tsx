import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Copyable } from "./copy";

/** Shows a secret that the service gives only once. */
export function Secret({
  title,
  text,
  secret,
  onClose,
}: {
  title: string;
  text: string;
  secret: string;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  return (
    <Modal opened onClose={onClose} title={title} closeOnClickOutside={false}>
      <Stack>
        <Text size="sm">{text}</Text>
        <Copyable text={secret} block />
        <Group justify="flex-end">
          <Button onClick={onClose}>{t("common.done")}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
