import {
  ActionIcon,
  Badge,
  Button,
  Checkbox,
  Group,
  Modal,
  Select,
  Stack,
  Table,
  Text,
  TextInput,
  Tooltip,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconKey, IconPlus, IconRefresh, IconSend, IconTrash, IconWebhook } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  attemptsQuery,
  CHANNEL_KINDS,
  CHANNEL_LANGUAGES,
  type Channel,
  type ChannelKind,
  channelsQuery,
  createChannel,
  DIGEST_HOUR,
  deleteChannel,
  digestsQuery,
  type Every,
  isPager,
  rotateChannel,
  setDigest,
  testChannel,
} from "../api/telling";
import { type Delivery, deliveriesQuery, redeliver } from "../api/webhooks";
import { ask } from "../components/ask";
import { PageHead, Panel } from "../components/page";
import { RowButton } from "../components/policy-editor";
import { Secret } from "../components/secret";
import { CardSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable, Pager } from "../components/table";
import { useFormat } from "../lib/format";
import { useAct } from "./act";
import { RoutesPanel } from "./channel-routes";
import { SilencesPanel } from "./channel-silences";
import { useMay } from "./me";

const FROM = "/signed-in/webhooks";
const TOUCHES = [["webhooks"]];
const STATE_COLOR = { pending: "blue", delivered: "teal", failed: "red" } as const;

/** Every attempt of one delivery. */
function Attempts({ channel, delivery }: { channel: string; delivery: string }) {
  const { t } = useTranslation();
  const f = useFormat();
  const query = useQuery(attemptsQuery(channel, delivery));
  return (
    <Gate
      query={query}
      skeleton={<TableSkeleton rows={2} />}
      isEmpty={(list) => list.length === 0}
      empty={<Empty title={t("webhooks.deliveriesEmpty")} height={80} />}
    >
      {(list) => (
        <Table aria-label={t("telling.attempts")}>
          <Table.Tbody>
            {list.map((a) => (
              <Table.Tr key={a.n}>
                <Table.Td>{f.integer(a.n)}</Table.Td>
                <Table.Td>{f.dateTime(a.at)}</Table.Td>
                <Table.Td>{[a.status && f.integer(a.status), a.problem].filter(Boolean).join(" · ") || "–"}</Table.Td>
                <Table.Td>{f.duration(a.tookSeconds)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Gate>
  );
}

function Deliveries({ webhook, may }: { webhook: Channel; may: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  const { cursor } = useSearch({ from: FROM });
  const navigate = useNavigate();
  const { act, busy } = useAct();
  const [looking, setLooking] = useState<string | null>(null);
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
      key: "log",
      header: t("telling.attempts"),
      render: (d) => (
        <Button size="compact-xs" variant="subtle" onClick={() => setLooking(looking === d.id ? null : d.id)}>
          {t("telling.attempts")}
        </Button>
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
          {looking && <Attempts channel={webhook.id} delivery={looking} />}
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

function AddChannel({
  busy,
  onClose,
  onCreate,
}: {
  busy: boolean;
  onClose: () => void;
  onCreate: (input: { kind: ChannelKind; name: string; address: string; key: string; language: "en" | "zh" }) => void;
}) {
  const { t, i18n } = useTranslation();
  const form = useForm({
    initialValues: {
      kind: "webhook" as ChannelKind,
      name: "",
      address: "",
      key: "",
      language: i18n.language === "zh" ? ("zh" as const) : ("en" as const),
    },
    validate: {
      name: (v) => (v.trim() ? null : t("webhooks.nameBad")),
      key: (v, all) => (!isPager(all.kind) || v.trim() ? null : t("telling.keyBad")),
      address: (v, all) =>
        all.kind === "email" ||
        (isPager(all.kind) && !v.trim()) ||
        (URL.canParse(v.trim()) && /^https?:/.test(v.trim()))
          ? null
          : t("webhooks.urlBad"),
    },
  });
  return (
    <Modal opened onClose={onClose} title={t("telling.add")}>
      <form
        onSubmit={form.onSubmit((v) =>
          onCreate({
            ...v,
            name: v.name.trim(),
            address: v.address.trim(),
            key: isPager(v.kind) ? v.key.trim() : "",
          }),
        )}
      >
        <Stack>
          <Select
            label={t("telling.kind")}
            allowDeselect={false}
            data={CHANNEL_KINDS.map((k) => ({ value: k, label: t(`telling.kinds.${k}`) }))}
            {...form.getInputProps("kind")}
          />
          <TextInput data-autofocus label={t("common.name")} maxLength={100} {...form.getInputProps("name")} />
          {isPager(form.values.kind) && (
            <TextInput
              label={t("telling.key")}
              description={t("telling.keyHint")}
              type="password"
              autoComplete="off"
              maxLength={200}
              {...form.getInputProps("key")}
            />
          )}
          <TextInput
            label={t("telling.address")}
            description={t(isPager(form.values.kind) ? "telling.pagerHint" : "telling.addressHint")}
            placeholder="https://"
            maxLength={2000}
            {...form.getInputProps("address")}
          />
          <Select
            label={t("telling.language")}
            allowDeselect={false}
            data={CHANNEL_LANGUAGES.map((l) => ({ value: l, label: t(`telling.languages.${l}`) }))}
            {...form.getInputProps("language")}
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

function Digests({ channel, may }: { channel: Channel; may: boolean }) {
  const { t } = useTranslation();
  const { act, busy } = useAct();
  const query = useQuery(digestsQuery);
  const words = { day: t("telling.daily"), week: t("telling.weekly") };
  return (
    <Gate query={query} skeleton={<CardSkeleton height={40} />}>
      {(list) => (
        <Group gap="lg">
          {(["day", "week"] as const satisfies readonly Every[]).map((every) => (
            <Checkbox
              key={every}
              label={words[every]}
              disabled={!may || busy}
              checked={list.some((d) => d.channelId === channel.id && d.every === every)}
              onChange={(e) => {
                const on = e.currentTarget.checked;
                void act(() => setDigest(channel.id, every, on), TOUCHES, t("telling.saved"));
              }}
            />
          ))}
        </Group>
      )}
    </Gate>
  );
}

export function WebhooksPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const search = useSearch({ from: FROM });
  const navigate = useNavigate();
  const may = useMay("finance");
  const { act, busy } = useAct();
  const query = useQuery(channelsQuery);
  const [adding, setAdding] = useState(false);
  const [secret, setSecret] = useState<{ name: string; secret: string } | null>(null);

  const create = (input: Parameters<typeof createChannel>[0]) =>
    act(
      async () => {
        const made = await createChannel(input);
        if (made) setSecret({ name: input.name, secret: made });
        setAdding(false);
      },
      TOUCHES,
      t("telling.created"),
    );
  const drop = (c: Channel) =>
    ask({
      title: t("webhooks.deleteTitle", { name: c.name }),
      text: t("webhooks.deleteText"),
      confirm: t("common.delete"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => {
        void act(() => deleteChannel(c.id), TOUCHES, t("webhooks.deleted"));
        void navigate({ to: "/webhooks" });
      },
    });
  const rotate = (c: Channel) =>
    ask({
      title: t("telling.rotateTitle", { name: c.name }),
      text: t("telling.rotateText"),
      confirm: t("telling.rotate"),
      cancel: t("common.cancel"),
      onConfirm: () => void act(async () => setSecret({ name: c.name, secret: await rotateChannel(c.id) }), TOUCHES),
    });
  const add = may && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setAdding(true)}>
      {t("telling.add")}
    </Button>
  );
  return (
    <>
      <PageHead title={t("telling.channels")} text={t("telling.channelsText")} actions={add} />
      <Gate
        query={query}
        skeleton={<CardSkeleton height={260} />}
        isEmpty={(list) => list.length === 0}
        empty={
          <Panel>
            <Empty
              icon={<IconWebhook size={34} stroke={1.4} />}
              title={t("telling.empty")}
              text={t("telling.emptyText")}
              action={add}
              height={300}
            />
          </Panel>
        }
      >
        {(list) => {
          const chosen = list.find((c) => c.id === search.id) ?? list[0];
          return (
            <Stack gap="md">
              <Panel>
                <Stack gap={4}>
                  {list.map((c) => (
                    <Group key={c.id} justify="space-between" wrap="nowrap" gap="md">
                      <RowButton
                        active={c.id === chosen?.id}
                        onClick={() => void navigate({ to: "/webhooks", search: { id: c.id } })}
                      >
                        <Text size="sm" fw={600}>
                          {c.name} · {t(`telling.kinds.${c.kind}`)}
                        </Text>
                        <Text size="xs" c="dimmed" className="mono" truncate>
                          {c.address}
                        </Text>
                        {c.oldSecretUntil && (
                          <Text size="xs" c="dimmed">
                            {t("telling.rotating", { time: f.dateTime(c.oldSecretUntil) })}
                          </Text>
                        )}
                      </RowButton>
                      {may && (
                        <Group gap={4} wrap="nowrap">
                          <Button
                            size="xs"
                            variant="default"
                            leftSection={<IconSend size={14} />}
                            disabled={busy}
                            onClick={() => void act(() => testChannel(c.id), TOUCHES, t("webhooks.tested"))}
                          >
                            {t("webhooks.test")}
                          </Button>
                          {c.kind === "webhook" && (
                            <Tooltip label={t("telling.rotate")}>
                              <ActionIcon
                                variant="subtle"
                                color="gray"
                                aria-label={t("telling.rotate")}
                                onClick={() => rotate(c)}
                              >
                                <IconKey size={16} />
                              </ActionIcon>
                            </Tooltip>
                          )}
                          <ActionIcon
                            variant="subtle"
                            color="gray"
                            aria-label={t("common.delete")}
                            onClick={() => drop(c)}
                          >
                            <IconTrash size={16} />
                          </ActionIcon>
                        </Group>
                      )}
                    </Group>
                  ))}
                </Stack>
              </Panel>
              <RoutesPanel channels={list} may={may} />
              {chosen && (
                <Panel
                  title={`${t("telling.digests")} · ${chosen.name}`}
                  hint={t("telling.digestsHint", { hour: DIGEST_HOUR })}
                >
                  {!isPager(chosen.kind) && <Digests channel={chosen} may={may} />}
                </Panel>
              )}
              {chosen && (
                <Panel flush title={`${t("webhooks.deliveries")} · ${chosen.name}`}>
                  <Deliveries key={chosen.id} webhook={chosen} may={may} />
                </Panel>
              )}
            </Stack>
          );
        }}
      </Gate>
      <SilencesPanel />
      {adding && <AddChannel busy={busy} onClose={() => setAdding(false)} onCreate={(input) => void create(input)} />}
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
