import { Alert, Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";

/** Says that a policy must be replayed before it enforces, and takes the reason of who will not wait. */
export function ReplayGate({
  workload,
  busy,
  label,
  onSave,
}: {
  workload: string;
  busy: boolean;
  /** What the button says; saving by itself. */
  label?: string;
  onSave: (reason: string) => void;
}) {
  const { t } = useTranslation();
  const [reason, setReason] = useState("");
  return (
    <Alert color="orange" role="alert" title={t("replay.gateTitle")}>
      <Stack gap="sm">
        <Text size="sm">{t("replay.gateText")}</Text>
        <Group align="flex-end" gap="sm">
          <Button size="xs" component="a" href={`/replay?workload=${encodeURIComponent(workload)}`}>
            {t("replay.gateReplay")}
          </Button>
          <TextInput
            size="xs"
            label={t("replay.gateReason")}
            maxLength={500}
            value={reason}
            onChange={(e) => setReason(e.currentTarget.value)}
            style={{ flexGrow: 1 }}
          />
          <Button
            size="xs"
            variant="default"
            loading={busy}
            disabled={reason.trim() === ""}
            onClick={() => onSave(reason.trim())}
          >
            {label ?? t("replay.gateSave")}
          </Button>
        </Group>
      </Stack>
    </Alert>
  );
}
