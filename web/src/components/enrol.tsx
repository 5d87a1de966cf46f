import { Alert, Button, Group, Loader, Modal, Stack, Text } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { Enrolment } from "../api/clusters";
import { useFormat } from "../lib/format";
import { Copyable } from "./copy";
import { BlockSkeleton } from "./state";

/** The command that connects an agent, and whether it has reported since. */
export function Enrol({
  name,
  enrolment,
  connected,
  onClose,
}: {
  name: string;
  /** null while the token is being made. */
  enrolment: Enrolment | null;
  connected: boolean;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <Modal opened onClose={onClose} title={t("clusters.enrolTitle", { name })} size="lg">
      <Stack>
        {enrolment ? (
          <>
            <Text size="sm">{t("clusters.enrolText", { time: f.dateTime(enrolment.expiresAt) })}</Text>
            <div>
              <Text size="sm" fw={600} mb={4}>
                {t("clusters.enrolCommand")}
              </Text>
              <Copyable block text={enrolment.helmCommand} />
            </div>
            <div>
              <Text size="sm" fw={600} mb={4}>
                {t("clusters.enrolToken")}
              </Text>
              <Copyable block text={enrolment.token} />
            </div>
            {connected ? (
              <Alert color="teal" icon={<IconCheck size={18} />}>
                {t("clusters.enrolDone")}
              </Alert>
            ) : (
              <Group gap="sm" role="status">
                <Loader size="xs" />
                <Text size="sm" c="dimmed">
                  {t("clusters.enrolWaiting")}
                </Text>
              </Group>
            )}
          </>
        ) : (
          <BlockSkeleton height={180} />
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t("common.close")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
