// What Karpenter was told of a cluster's plans: below the plan on the cluster's page.
import { Badge, Button, Code, Group, Modal, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Cluster } from "../api/clusters";
import {
  handBackKarpenter,
  type Karpenter,
  type KarpenterAction,
  type KarpenterOrder,
  type KarpenterSettings,
  karpenterOrderQuery,
  karpenterQuery,
  type OrderState,
  saveKarpenter,
} from "../api/karpenter";
import { ask } from "../components/ask";
import { Panel } from "../components/page";
import { Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import { useNow } from "../lib/now";
import { useAct } from "./act";
import { useMay } from "./me";

const STATE_COLOR: Record<OrderState, string> = {
  open: "blue",
  applied: "teal",
  partial: "yellow",
  refused: "red",
  expired: "gray",
  withdrawn: "gray",
};

/** JSON with a line for each field; anything else as it is. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function Change({ action: a }: { action: KarpenterAction }) {
  const { t } = useTranslation();
  const bad = a.outcome === "failed" || a.outcome === "refused";
  return (
    <Stack gap={2}>
      <Group gap={8}>
        <Text size="sm" fw={550} className="mono">
          {a.id}
        </Text>
        {a.absent && (
          <Badge size="xs" color="gray">
            {t("karpenter.goes")}
          </Badge>
        )}
        <Badge size="sm" variant="dot" color={a.outcome === null ? "blue" : bad ? "red" : "teal"}>
          {a.outcome === null ? t("karpenter.noAnswer") : t(`karpenter.outcome.${a.outcome}`)}
        </Badge>
        {a.code && (
          <Text size="xs" c="dimmed" className="mono">
            {a.code}
          </Text>
        )}
      </Group>
      {a.writers.length > 0 && (
        <Text size="xs" c="orange">
          {t("karpenter.writers", { names: a.writers.join(", ") })}
        </Text>
      )}
      {a.detail && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {a.detail}
        </Text>
      )}
      {a.outcome !== null && a.outcome !== "already" && (
        <details>
          <Text component="summary" size="xs" c="dimmed">
            {t("karpenter.before")} / {t("karpenter.after")}
          </Text>
          <Text size="xs">{t("karpenter.before")}</Text>
          <Code block>{a.before ? pretty(a.before) : t("karpenter.nothing")}</Code>
          <Text size="xs">{t("karpenter.after")}</Text>
          <Code block>{a.after ? pretty(a.after) : t("karpenter.nothing")}</Code>
        </details>
      )}
    </Stack>
  );
}

function Order({ cluster, order, onClose }: { cluster: string; order: KarpenterOrder; onClose: () => void }) {
  const { t } = useTranslation();
  const f = useFormat();
  const query = useQuery(karpenterOrderQuery(cluster, order.id));
  return (
    <Modal
      opened
      onClose={onClose}
      size="xl"
      title={t("karpenter.orderTitle", { value: f.integer(order.generation) })}
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <Gate query={query} skeleton={<TableSkeleton rows={4} />}>
        {(list) => (
          <Stack gap="sm">
            {list.map((a) => (
              <Change key={a.id} action={a} />
            ))}
          </Stack>
        )}
      </Gate>
    </Modal>
  );
}

function SwitchOn({
  settings,
  busy,
  onClose,
  onSave,
}: {
  settings: KarpenterSettings;
  busy: boolean;
  onClose: () => void;
  onSave: (s: KarpenterSettings) => void;
}) {
  const { t } = useTranslation();
  const form = useForm({ initialValues: { ...settings, own: settings.own.join(", ") } });
  const names = (text: string) => [...new Set(text.split(/[,，\s]+/).filter(Boolean))];
  return (
    <Modal
      opened
      onClose={onClose}
      title={t(settings.enabled ? "karpenter.editTitle" : "karpenter.onTitle")}
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <form onSubmit={form.onSubmit((values) => onSave({ ...values, own: names(values.own), enabled: true }))}>
        <Stack gap="sm">
          {!settings.enabled && <Text size="sm">{t("karpenter.onText")}</Text>}
          <TextInput required label={t("karpenter.classGroup")} {...form.getInputProps("classGroup")} />
          <TextInput required label={t("karpenter.classKind")} {...form.getInputProps("classKind")} />
          <TextInput required label={t("karpenter.className")} {...form.getInputProps("className")} />
          <TextInput
            label={t("karpenter.own")}
            description={t("karpenter.ownHint")}
            maxLength={4000}
            {...form.getInputProps("own")}
          />
          <TextInput
            label={t("karpenter.reservationKey")}
            description={t("karpenter.reservationHint")}
            placeholder="karpenter.k8s.aws/capacity-reservation-id"
            maxLength={317}
            {...form.getInputProps("reservationKey")}
          />
          <Switch
            label={t("karpenter.prices")}
            description={t("karpenter.pricesHint")}
            {...form.getInputProps("prices", { type: "checkbox" })}
          />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {t("common.cancel")}
            </Button>
            <Button type="submit" loading={busy}>
              {t(settings.enabled ? "common.save" : "karpenter.switchOn")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

export function KarpenterOrders({ cluster: c }: { cluster: Pick<Cluster, "id"> }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(10);
  const may = useMay("admin");
  const { act, busy } = useAct();
  const query = useQuery(karpenterQuery(c.id));
  const [shown, setShown] = useState<KarpenterOrder | null>(null);
  const [edits, setEdits] = useState(false);
  const touches = [["clusters", "karpenter", c.id]];
  const save = (k: Karpenter, s: KarpenterSettings) =>
    act(() => saveKarpenter(c.id, k.version, s), touches, t("karpenter.saved"));
  const k = query.data;

  const stop = (of: Karpenter) =>
    ask({
      title: t("karpenter.offTitle"),
      text: t("karpenter.offText"),
      confirm: t("karpenter.switchOff"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void save(of, { ...of.settings, enabled: false }),
    });
  const giveBack = () =>
    ask({
      title: t("karpenter.handBackTitle"),
      text: t("karpenter.handBackText"),
      confirm: t("karpenter.handBack"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () => void act(() => handBackKarpenter(c.id), touches, t("karpenter.handedBack")),
    });
  const actions = may && k && (
    <Group gap={8}>
      {!k.settings.enabled && k.pools.length + k.overlays.length > 0 && (
        <Button size="xs" variant="default" disabled={busy} onClick={giveBack}>
          {t("karpenter.handBack")}
        </Button>
      )}
      {k.settings.enabled && (
        <Button size="xs" variant="default" disabled={busy} onClick={() => setEdits(true)}>
          {t("karpenter.edit")}
        </Button>
      )}
      <Button
        size="xs"
        variant="default"
        disabled={busy}
        onClick={() => (k.settings.enabled ? stop(k) : setEdits(true))}
      >
        {t(k.settings.enabled ? "karpenter.switchOff" : "karpenter.switchOn")}
      </Button>
    </Group>
  );
  const columns: Column<KarpenterOrder>[] = [
    {
      key: "generation",
      header: t("karpenter.order"),
      render: (o) => (
        <Group gap={8}>
          <span className="number">{f.integer(o.generation)}</span>
          {o.drain && (
            <Badge size="xs" color="gray">
              {t("karpenter.drainOrder")}
            </Badge>
          )}
          {o.handBack && (
            <Badge size="xs" color="gray">
              {t("karpenter.handBackOrder")}
            </Badge>
          )}
        </Group>
      ),
    },
    {
      key: "state",
      header: "",
      render: (o) => (
        <Badge variant="dot" color={o.state ? STATE_COLOR[o.state] : "gray"}>
          {o.state ? t(`karpenter.state.${o.state}`) : t("karpenter.unknownState")}
        </Badge>
      ),
    },
    {
      key: "sent",
      header: t("karpenter.sent"),
      render: (o) => <span title={f.fullTime(o.at)}>{f.relative(o.at, now)}</span>,
    },
    {
      key: "closed",
      header: t("karpenter.answered"),
      render: (o) => o.closedAt && <span title={f.fullTime(o.closedAt)}>{f.relative(o.closedAt, now)}</span>,
    },
    {
      key: "show",
      header: "",
      align: "right",
      render: (o) => (
        <Button
          size="compact-xs"
          variant="default"
          aria-label={t("karpenter.showName", { value: f.integer(o.generation) })}
          onClick={() => setShown(o)}
        >
          {t("karpenter.show")}
        </Button>
      ),
    },
  ];
  return (
    <Stack px="md" pb="md" data-karpenter>
      <Panel title={t("karpenter.title")} hint={t("karpenter.hint")} flush actions={actions || undefined}>
        <Gate
          query={query}
          skeleton={<TableSkeleton rows={2} />}
          isEmpty={(of) => of.orders.length === 0 && !of.settings.enabled}
          empty={<Empty title={t("karpenter.empty")} text={t("karpenter.emptyText")} height={140} />}
        >
          {(of) => (
            <Stack gap="sm">
              {of.stopped && <StaleNote>{t(`karpenter.stop.${of.stopped}`)}</StaleNote>}
              <Group gap={8} px="md">
                <Badge color={of.settings.enabled ? "teal" : "gray"}>
                  {t(of.settings.enabled ? "karpenter.on" : "karpenter.off")}
                </Badge>
                <Text size="xs" c="dimmed">
                  {t("karpenter.objects", {
                    pools: f.integer(of.pools.length),
                    overlays: f.integer(of.overlays.length),
                  })}
                </Text>
                {of.settings.own.length > 0 && (
                  <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
                    {t("karpenter.owned", { names: of.settings.own.join(", ") })}
                  </Text>
                )}
              </Group>
              <DataTable rows={of.orders} columns={columns} rowKey={(o) => o.id} label={t("karpenter.title")} />
            </Stack>
          )}
        </Gate>
      </Panel>
      {shown && <Order cluster={c.id} order={shown} onClose={() => setShown(null)} />}
      {edits && k && (
        <SwitchOn
          settings={k.settings}
          busy={busy}
          onClose={() => setEdits(false)}
          onSave={(s) => void save(k, s).then((done) => done && setEdits(false))}
        />
      )}
    </Stack>
  );
}
