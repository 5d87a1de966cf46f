import { ActionIcon, Alert, Badge, Button, Card, Group, List, Modal, Stack, Text, Title, Tooltip } from "@mantine/core";
import { IconCheck, IconRefresh, IconShieldCheck, IconTrash, IconX } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { CloudAccount, CloudChecks, PriceSource } from "../api/cloud-accounts";
import { cloudName } from "../lib/cloud";
import { useFormat } from "../lib/format";
import { Copyable } from "./copy";
import { Facts } from "./page";
import { type Column, DataTable } from "./table";

const STATE_COLOR = { new: "blue", ok: "teal", failing: "red" } as const;

export function CloudAccountCard({
  account: a,
  now,
  busy,
  onValidate,
  onRefresh,
  onDelete,
}: {
  account: CloudAccount;
  /** The wall clock: accounts are read by it, whatever a cluster's data time is. */
  now: Date;
  busy: boolean;
  /** undefined: not allowed. */
  onValidate?: () => void;
  onRefresh?: () => void;
  onDelete?: () => void;
}) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <Card className="card" padding="md">
      <Group justify="space-between" align="flex-start" gap="sm" mb="sm">
        <div style={{ minWidth: 0 }}>
          <Group gap="sm">
            <Title order={2} fz="md">
              {a.name}
            </Title>
            <Badge color="gray">{cloudName(a.cloud)}</Badge>
            <Badge variant="dot" color={STATE_COLOR[a.state]}>
              {t(`market.accounts.state.${a.state}`)}
            </Badge>
            {a.stale && (
              <Tooltip label={t("market.accounts.staleHint")}>
                <Badge color="yellow">{t("market.accounts.stale")}</Badge>
              </Tooltip>
            )}
          </Group>
          <Text size="xs" c="dimmed" className="mono" mt={2} style={{ overflowWrap: "anywhere" }}>
            {a.subject}
          </Text>
        </div>
        <Group gap={6}>
          {onValidate && (
            <Button
              size="xs"
              variant="default"
              leftSection={<IconShieldCheck size={14} />}
              disabled={busy}
              onClick={onValidate}
            >
              {t("market.accounts.validate")}
            </Button>
          )}
          {onRefresh && (
            <Button
              size="xs"
              variant="default"
              leftSection={<IconRefresh size={14} />}
              disabled={busy}
              onClick={onRefresh}
            >
              {t("market.accounts.refresh")}
            </Button>
          )}
          {onDelete && (
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`${t("common.delete")} ${a.name}`}
              disabled={busy}
              onClick={onDelete}
            >
              <IconTrash size={16} />
            </ActionIcon>
          )}
        </Group>
      </Group>
      <Stack gap="sm">
        {a.problem && (
          <Alert
            color="red"
            variant="light"
            py={8}
            title={t("market.accounts.failures", { value: f.integer(a.failures) })}
          >
            {a.problem}
          </Alert>
        )}
        <Facts
          items={[
            { label: t("market.accounts.regions"), value: a.regions.join(", ") },
            {
              label: t("market.accounts.refreshed"),
              value: a.refreshedAt ? f.relative(a.refreshedAt, now) : t("clusters.never"),
            },
            { label: t("market.accounts.next"), value: f.relative(a.nextAt, now) },
            ...(a.externalId
              ? [{ label: t("market.accounts.externalId"), value: <Copyable text={a.externalId} /> }]
              : []),
            ...(a.counts.length > 0
              ? [
                  {
                    label: t("market.accounts.read"),
                    value: a.counts
                      .map((c) => `${t(`market.accounts.counts.${c.name}`)}: ${f.integer(c.value)}`)
                      .join(" · "),
                  },
                ]
              : []),
          ]}
        />
      </Stack>
    </Card>
  );
}

/** What was tried, and what is missing. */
export function ChecksDialog({ name, checks, onClose }: { name: string; checks: CloudChecks; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal opened onClose={onClose} title={t("market.accounts.validTitle", { name })} size="lg">
      <Stack>
        <Text size="sm">{checks.ok ? t("market.accounts.valid") : t("market.accounts.invalid")}</Text>
        <List listStyleType="none" spacing="xs">
          {checks.checks.map((c) => (
            <List.Item
              key={c.name}
              icon={
                c.ok ? (
                  <IconCheck size={16} color="var(--mantine-color-teal-6)" aria-label={t("common.yes")} />
                ) : (
                  <IconX size={16} color="var(--mantine-color-red-6)" aria-label={t("common.no")} />
                )
              }
            >
              <Text size="sm" className="mono">
                {c.name}
              </Text>
              {c.problem && (
                <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
                  {c.problem}
                </Text>
              )}
            </List.Item>
          ))}
        </List>
        <Group justify="flex-end">
          <Button onClick={onClose}>{t("common.close")}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}

export function PriceSourceTable({ rows, now }: { rows: readonly PriceSource[]; now: Date }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<PriceSource>[] = [
    {
      key: "list",
      header: t("market.source"),
      sort: (s) => s.key,
      render: (s) => (
        <div>
          <Text size="sm" fw={550}>
            {[cloudName(s.cloud), s.region].filter(Boolean).join(" · ")}
          </Text>
          <Text size="xs" c="dimmed">
            {s.source}
          </Text>
        </div>
      ),
    },
    {
      key: "kind",
      header: t("market.sourceKind"),
      sort: (s) => s.kind,
      render: (s) => t(`market.accounts.kind.${s.kind}`),
    },
    {
      key: "refreshed",
      header: t("market.accounts.refreshed"),
      sort: (s) => s.refreshedAt.getTime(),
      render: (s) => (
        <Group gap={8} wrap="nowrap">
          <Text size="sm" style={{ whiteSpace: "nowrap" }}>
            {f.relative(s.refreshedAt, now)}
          </Text>
          {s.stale && <Badge color="yellow">{t("market.stale")}</Badge>}
        </Group>
      ),
    },
    {
      key: "listed",
      header: t("market.accounts.listed"),
      align: "right",
      sort: (s) => s.listed,
      render: (s) => f.integer(s.listed),
    },
    {
      key: "changed",
      header: t("market.accounts.changed"),
      align: "right",
      sort: (s) => s.changed,
      render: (s) => f.integer(s.changed),
    },
    {
      key: "skipped",
      header: t("market.accounts.left"),
      render: (s) => (
        <Text size="xs" c="dimmed">
          {s.skipped.map((k) => `${k.reason}: ${f.integer(k.count)}`).join(" · ") || "–"}
        </Text>
      ),
    },
    {
      key: "doubted",
      header: t("market.accounts.doubted"),
      align: "right",
      sort: (s) => s.doubted.length,
      render: (s) =>
        s.doubted.length === 0 ? (
          "0"
        ) : (
          <Tooltip
            label={
              <div>
                {s.doubted.slice(0, 8).map((d) => (
                  <div key={d.instanceType}>
                    {t("market.accounts.doubtedOne", { type: d.instanceType, hour: d.hour, expected: d.expected })}
                  </div>
                ))}
              </div>
            }
          >
            <Badge color="orange" tabIndex={0}>
              {f.integer(s.doubted.length)}
            </Badge>
          </Tooltip>
        ),
    },
  ];
  return (
    <DataTable
      label={t("market.accounts.sources")}
      rows={rows}
      columns={columns}
      rowKey={(s) => s.key}
      minWidth={900}
    />
  );
}
