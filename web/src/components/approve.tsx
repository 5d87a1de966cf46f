import { Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { IconCheck, IconX } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Decision } from "../api/decisions";
import { type DataClock, secondsUntil } from "../lib/data-clock";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";
import { ask } from "./ask";
import { readKey } from "./workload-name";

/** How long a proposal still stands, by the clock of its cluster. */
export function Countdown({ until, clock }: { until: Date; clock: DataClock | undefined }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(1);
  const seconds = clock ? secondsUntil(until, clock, now) : null;
  if (seconds === null) return <span>–</span>;
  if (seconds <= 0)
    return (
      <Text span size="sm" c="dimmed">
        {t("approvals.expired")}
      </Text>
    );
  return (
    <Text
      span
      size="sm"
      className="number"
      style={{ whiteSpace: "nowrap" }}
      c={seconds < 120 ? "red" : undefined}
      fw={seconds < 120 ? 600 : 400}
    >
      {t("approvals.expiresIn", { time: f.duration(Math.floor(seconds)) })}
    </Text>
  );
}

/** Approve and reject, each with a question first. */
export function ApproveButtons({
  decision: d,
  busy,
  onApprove,
  onReject,
  size = "xs",
}: {
  decision: Decision;
  busy: boolean;
  onApprove: () => void;
  onReject: (reason: string) => void;
  size?: "xs" | "sm";
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const [rejecting, setRejecting] = useState(false);
  const [reason, setReason] = useState("");
  const workload = readKey(d.key).name;
  return (
    <>
      <Group gap="xs" wrap="nowrap" justify="flex-end">
        <Button
          size={size}
          variant="default"
          leftSection={<IconX size={14} />}
          disabled={busy}
          onClick={() => setRejecting(true)}
        >
          {t("approvals.reject")}
        </Button>
        <Button
          size={size}
          leftSection={<IconCheck size={14} />}
          loading={busy}
          onClick={() =>
            ask({
              title: t("approvals.approveTitle"),
              text: t("approvals.approveText", { workload, from: f.integer(d.from), target: f.integer(d.target) }),
              confirm: t("approvals.approve"),
              cancel: t("common.cancel"),
              onConfirm: onApprove,
            })
          }
        >
          {t("approvals.approve")}
        </Button>
      </Group>
      <Modal opened={rejecting} onClose={() => setRejecting(false)} title={t("approvals.rejectTitle")}>
        <Stack>
          <Textarea
            data-autofocus
            label={t("approvals.rejectReason")}
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            maxLength={1000}
            autosize
            minRows={2}
          />
          <Group justify="flex-end">
            <Button variant="default" onClick={() => setRejecting(false)}>
              {t("common.cancel")}
            </Button>
            <Button
              color="red"
              onClick={() => {
                setRejecting(false);
                onReject(reason.trim());
              }}
            >
              {t("approvals.reject")}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}
