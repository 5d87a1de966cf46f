import { Badge, Button, Group, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type ApiKey, createKey, KEY_ROLES, type KeyRole, keysQuery, revokeKey } from "../api/settings";
import { ask } from "../components/ask";
import { Panel } from "../components/page";
import { Secret } from "../components/secret";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";
import { useAct } from "./act";

const TOUCHES = [["settings"]];
const LIFETIMES = ["30", "90", "365"] as const;
const DAY = 86_400_000;

function AddKey({
  busy,
  onClose,
  onCreate,
}: {
  busy: boolean;
  onClose: () => void;
  onCreate: (name: string, role: KeyRole, days: number | null) => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  const form = useForm<{ name: string; role: KeyRole; days: string }>({
    initialValues: { name: "", role: "viewer", days: "90" },
    validate: { name: (v) => (v.trim() ? null : t("settings.keyNameBad")) },
  });
  return (
    <Modal opened onClose={onClose} title={t("settings.addKey")}>
      <form onSubmit={form.onSubmit(({ name, role, days }) => onCreate(name.trim(), role, days ? Number(days) : null))}>
        <Stack>
          <TextInput data-autofocus label={t("common.name")} maxLength={100} {...form.getInputProps("name")} />
          <Select
            label={t("settings.keyRole")}
            allowDeselect={false}
            data={KEY_ROLES.map((r) => ({ value: r, label: t(`role.${r}`) }))}
            {...form.getInputProps("role")}
          />
          <Select
            label={t("settings.keyExpires")}
            allowDeselect={false}
            data={[
              ...LIFETIMES.map((d) => ({ value: d, label: t("settings.keyDays", { value: f.integer(Number(d)) }) })),
              { value: "", label: t("settings.keyNever") },
            ]}
            {...form.getInputProps("days")}
          />
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

export function KeysTab() {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(60);
  const { act, busy } = useAct();
  const query = useQuery(keysQuery);
  const [adding, setAdding] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);

  const create = (name: string, role: KeyRole, days: number | null) =>
    act(async () => {
      setSecret(await createKey(name, role, days ? new Date(Date.now() + days * DAY) : null));
      setAdding(false);
    }, TOUCHES);
  const revoke = (key: ApiKey) =>
    ask({
      title: t("settings.revokeTitle", { name: key.name }),
      text: t("settings.revokeText"),
      confirm: t("settings.revoke"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => revokeKey(key.id), TOUCHES, t("settings.revoked")),
    });
  const add = (
    <Button size="xs" leftSection={<IconPlus size={14} />} onClick={() => setAdding(true)}>
      {t("settings.addKey")}
    </Button>
  );
  const columns: Column<ApiKey>[] = [
    {
      key: "name",
      header: t("common.name"),
      sort: (k) => k.name,
      render: (k) => (
        <Text size="sm" fw={550}>
          {k.name}
        </Text>
      ),
    },
    {
      key: "role",
      header: t("settings.keyRole"),
      sort: (k) => k.role,
      render: (k) => <Badge>{t(`role.${k.role}`)}</Badge>,
    },
    { key: "hint", header: t("settings.keyHint"), render: (k) => <span className="mono">…{k.hint}</span> },
    {
      key: "created",
      header: t("webhooks.created"),
      sort: (k) => k.createdAt.getTime(),
      render: (k) => f.dateTime(k.createdAt),
    },
    {
      key: "used",
      header: t("settings.keyUsed"),
      sort: (k) => k.lastUsedAt?.getTime() ?? null,
      render: (k) => (k.lastUsedAt ? f.relative(k.lastUsedAt, now) : t("settings.keyUnused")),
    },
    {
      key: "expires",
      header: t("settings.keyExpires"),
      sort: (k) => k.expiresAt?.getTime() ?? null,
      render: (k) => (k.expiresAt ? f.relative(k.expiresAt, now) : t("settings.keyNever")),
    },
    {
      key: "revoke",
      header: "",
      align: "right",
      render: (k) => (
        <Button size="compact-xs" variant="default" disabled={busy} onClick={() => revoke(k)}>
          {t("settings.revoke")}
        </Button>
      ),
    },
  ];
  return (
    <Panel flush title={t("settings.tabs.keys")} actions={add}>
      <Gate
        query={query}
        skeleton={<TableSkeleton rows={4} />}
        isEmpty={(keys) => keys.length === 0}
        empty={
          <Empty
            icon={<IconKey size={34} stroke={1.4} />}
            title={t("settings.keysEmpty")}
            text={t("settings.keysEmptyText")}
          />
        }
      >
        {(keys) => <DataTable label={t("settings.tabs.keys")} rows={keys} columns={columns} rowKey={(k) => k.id} />}
      </Gate>
      {adding && <AddKey busy={busy} onClose={() => setAdding(false)} onCreate={(n, r, d) => void create(n, r, d)} />}
      {secret && (
        <Secret
          title={t("settings.keySecretTitle")}
          text={t("settings.keySecretText")}
          secret={secret}
          onClose={() => setSecret(null)}
        />
      )}
    </Panel>
  );
}
