import { Text } from "@mantine/core";
import { modals } from "@mantine/modals";
import { notifications } from "@mantine/notifications";

/** Asks before something is done. */
export function ask(options: {
  title: string;
  text: string;
  confirm: string;
  cancel: string;
  danger?: boolean;
  onConfirm: () => void;
}): void {
  modals.openConfirmModal({
    title: options.title,
    children: <Text size="sm">{options.text}</Text>,
    labels: { confirm: options.confirm, cancel: options.cancel },
    confirmProps: options.danger ? { color: "red" } : {},
    onConfirm: options.onConfirm,
  });
}

export function tell(message: string): void {
  notifications.show({ message, color: "teal", autoClose: 4000 });
}

export function tellProblem(message: string): void {
  notifications.show({ message, color: "red", autoClose: 8000 });
}
