import { ActionIcon, Badge, Button, Group, Modal, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconPlus, IconRefresh, IconSend, IconTrash, IconWebhook } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  createWebhook,
  type Delivery,
  deleteWebhook,
  deliveriesQuery,
  redeliver,
  testWebhook,
  type Webhook,
  webhooksQuery,
} from "../api/webhooks";
import { ask } from "../components/ask";
import { PageHead, Panel } from "../components/page";
import { RowButton } from "../components/policy-editor";
import { Secret } from "../components/secret";
import { CardSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable, Pager } from "../components/table";
import { useFormat } from "../lib/format";
import { useAct } from "./act";
import { useMay } from "./me";

const FROM = "/signed-in/webhooks";
const TOUCHES = [["webhooks"]];
const STATE_COLOR = { pending: "blue", delivered: "teal", failed: "red" } as const;

function Deliveries({ webhook, may }: { webhook: Webhook; may: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { cursor } = useSearch({ from: FROM });
  const navigate = useNavigate();
  const { act, busy } = useAct();
  const query = useQuery({ ...deliveriesQuery(webhook.id, cursor), placeholderData: keepPreviousData });
  const columns: Column<Delivery>[] = [
    { key: "at", header: t("common.time"), render: (d) => f.dateTime(d.createdAt) },
    { key: "event", header: t("webhooks.event"), render: (d) => <span className="mono">{d.event}</span> },
    {
      key: "state",
      header: t("common.status"),
      render: (d) => <Badge color={STATE_COLOR[d.state]}>{t(`webhooks.state.${d.state}`)}</Badge>,
    },
    { key: "attempts", header: t("webhooks.attempts"), align: "right", render: (d) => f.integer(d.attempts) },
    {
      key: "answer",
      header: t("webhooks.answer"),
      render: (d) => (
        <Text size="sm" lineClamp={2}>
          {[d.lastStatus && `HTTP ${d.lastStatus}`, d.lastError].filter(Boolean).join(" · ") || "–"}
        </Text>
      ),
    },
    {
      key: "again",
      header: "",
      align: "right",
      render: (d) =>
        may && d.state !== "pending" ? (
          <Tooltip label={t("webhooks.redeliver")}>
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={t("webhooks.redeliver")}
              disabled={busy}
              onClick={() => void act(() => redeliver(webhook.id, d.id), TOUCHES, t("webhooks.redelivered"))}
            >
              <IconRefresh size={16} />
            </ActionIcon>
          </Tooltip>
        ) : null,
    },
  ];
  return (
    <Gate
      query={query}
      skeleton={<TableSkeleton rows={6} />}
      isEmpty={(page) => page.items.length === 0}
      empty={<Empty title={t("webhooks.deliveriesEmpty")} text={t("webhooks.deliveriesEmptyText")} />}
    >
      {(page) => (
        <>
          <DataTable label={t("webhooks.deliveries")} rows={page.items} columns={columns} rowKey={(d) => d.id} />
          <Pager
            cursor={cursor}
            nextCursor={page.nextCursor}
            onMove={(next) => void navigate({ to: "/webhooks", search: { id: webhook.id, cursor: next } })}
          />
        </>
      )}
    </Gate>
  );
}

function AddWebhook({
  busy,
  onClose,
  onCreate,
}: {
  busy: boolean;
  onClose: () => void;
  onCreate: (name: string, url: string) => void;
}) {
  const { t } = useTranslation();
  const form = useForm({
    initialValues: { name: "", url: "" },
    validate: {
      name: (v) => (v.trim() ? null : t("webhooks.nameBad")),
      url: (v) => (URL.canParse(v.trim()) && /^https?:/.test(v.trim()) ? null : t("webhooks.urlBad")),
    },
  });
  return (
    <Modal opened onClose={onClose} title={t("webhooks.add")}>
      <form onSubmit={form.onSubmit(({ name, url }) => onCreate(name.trim(), url.trim()))}>
        <Stack>
          <TextInput data-autofocus label={t("common.name")} maxLength={100} {...form.getInputProps("name")} />
          <TextInput
            label={t("webhooks.url")}
            placeholder="https://"
            maxLength={2000}
            inputMode="url"
            {...form.getInputProps("url")}
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

export function WebhooksPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const search = useSearch({ from: FROM });
  const navigate = useNavigate();
  const may = useMay("finance");
  const { act, busy } = useAct();
  const query = useQuery(webhooksQuery);
  const [adding, setAdding] = useState(false);
  const [secret, setSecret] = useState<{ name: string; secret: string } | null>(null);

  const create = (name: string, url: string) =>
    act(async () => {
      setSecret({ name, secret: await createWebhook(name, url) });
      setAdding(false);
    }, TOUCHES);
  const drop = (w: Webhook) =>
    ask({
      title: t("webhooks.deleteTitle", { name: w.name }),
      text: t("webhooks.deleteText"),
      confirm: t("common.delete"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => {
        void act(() => deleteWebhook(w.id), TOUCHES, t("webhooks.deleted"));
        void navigate({ to: "/webhooks" });
      },
    });
  const add = may && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setAdding(true)}>
      {t("webhooks.add")}
    </Button>
  );
  return (
    <>
      <PageHead title={t("webhooks.title")} actions={add} />
      <Gate
        query={query}
        skeleton={<CardSkeleton height={260} />}
        isEmpty={(list) => list.length === 0}
        empty={
          <Panel>
            <Empty
              icon={<IconWebhook size={34} stroke={1.4} />}
              title={t("webhooks.empty")}
              text={t("webhooks.emptyText")}
              action={add}
              height={300}
            />
          </Panel>
        }
      >
        {(list) => {
          const chosen = list.find((w) => w.id === search.id) ?? list[0];
          return (
            <Stack gap="md">
              <Panel>
                <Stack gap={4}>
                  {list.map((w) => (
                    <Group key={w.id} justify="space-between" wrap="nowrap" gap="md">
                      <RowButton
                        active={w.id === chosen?.id}
                        onClick={() => void navigate({ to: "/webhooks", search: { id: w.id } })}
                      >
                        <Text size="sm" fw={600}>
                          {w.name}
                        </Text>
                        <Text size="xs" c="dimmed" className="mono" truncate>
                          {w.url}
                        </Text>
                      </RowButton>
                      <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }} visibleFrom="sm">
                        {t("webhooks.created")} {f.dateTime(w.createdAt)}
                      </Text>
                      {may && (
                        <Group gap={4} wrap="nowrap">
                          <Button
                            size="xs"
                            variant="default"
                            leftSection={<IconSend size={14} />}
                            disabled={busy}
                            onClick={() => void act(() => testWebhook(w.id), TOUCHES, t("webhooks.tested"))}
                          >
                            {t("webhooks.test")}
                          </Button>
                          <ActionIcon
                            variant="subtle"
                            color="gray"
                            aria-label={t("common.delete")}
                            onClick={() => drop(w)}
                          >
                            <IconTrash size={16} />
                          </ActionIcon>
                        </Group>
                      )}
                    </Group>
                  ))}
                </Stack>
              </Panel>
              {chosen && (
                <Panel flush title={`${t("webhooks.deliveries")} · ${chosen.name}`}>
                  <Deliveries webhook={chosen} may={may} />
                </Panel>
              )}
            </Stack>
          );
        }}
      </Gate>
      {adding && <AddWebhook busy={busy} onClose={() => setAdding(false)} onCreate={(n, u) => void create(n, u)} />}
      {secret && (
        <Secret
          title={t("webhooks.secretTitle", { name: secret.name })}
          text={t("webhooks.secretText")}
          secret={secret.secret}
          onClose={() => setSecret(null)}
        />
      )}
    </>
  );
}
