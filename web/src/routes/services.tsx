// Services that run in several clusters: the list, and what a person declares.
import { Alert, Badge, Button, Group, Stack, Text } from "@mantine/core";
import { IconTopologyStar3 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  createService,
  type ServiceMode,
  type ServiceOutcome,
  type ServiceSummary,
  servicesQuery,
} from "../api/services";
import { PageHead, Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import { useAct } from "./act";
import { useMay } from "./me";
import { ServiceForm } from "./service-form";

const MODE_COLOR: Record<ServiceMode, string> = { off: "gray", recommend: "blue", enforce: "teal" };
const OUTCOME_COLOR: Record<ServiceOutcome, string> = { keep: "teal", move: "violet", size: "blue", held: "orange" };

export function ServiceModeBadge({ mode }: { mode: ServiceMode }) {
  const { t } = useTranslation();
  return (
    <Badge variant="light" color={MODE_COLOR[mode]}>
      {t(`service.mode.${mode}`)}
    </Badge>
  );
}

export function SplitBadge({ outcome }: { outcome: ServiceOutcome }) {
  const { t } = useTranslation();
  return <Badge color={OUTCOME_COLOR[outcome]}>{t(`service.outcome.${outcome}`)}</Badge>;
}

export function ServicesPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const navigate = useNavigate();
  const may = useMay("operator");
  const { act, busy } = useAct();
  const query = useQuery(servicesQuery);
  const [made, setMade] = useState<string | null>(null);
  const columns: Column<ServiceSummary>[] = [
    {
      key: "name",
      header: t("service.name"),
      sort: (s) => s.name,
      render: (s) => (
        <Link to="/services/$id" params={{ id: s.id }} className="cell-link">
          {s.name}
        </Link>
      ),
    },
    { key: "mode", header: t("service.modeLabel"), render: (s) => <ServiceModeBadge mode={s.mode} /> },
    {
      key: "clusters",
      header: t("service.clusters"),
      align: "right",
      sort: (s) => s.clusters,
      render: (s) => f.integer(s.clusters),
    },
    {
      key: "outcome",
      header: t("service.split"),
      render: (s) =>
        s.plan ? (
          <SplitBadge outcome={s.plan.outcome} />
        ) : (
          <Text size="sm" c="dimmed">
            {t("service.notYet")}
          </Text>
        ),
    },
    {
      key: "target",
      header: t("service.replicas"),
      align: "right",
      sort: (s) => s.plan?.target ?? null,
      render: (s) => (s.plan ? f.integer(s.plan.target) : "–"),
    },
    {
      key: "before",
      header: t("service.now"),
      align: "right",
      sort: (s) => s.plan?.before.nano ?? null,
      render: (s) => (s.plan ? t("common.perHour", { value: f.money(s.plan.before) }) : "–"),
    },
    {
      key: "after",
      header: t("service.after"),
      align: "right",
      sort: (s) => s.plan?.after.nano ?? null,
      render: (s) => (s.plan ? t("common.perHour", { value: f.money(s.plan.after) }) : "–"),
    },
  ];
  const declare = may && (
    <Button size="sm" onClick={() => setMade("")}>
      {t("service.declare")}
    </Button>
  );
  return (
    <>
      <PageHead title={t("service.title")} text={t("service.text")} actions={declare || undefined} />
      <Stack gap="md">
        {(query.data?.labelled ?? []).map((l) => (
          <Alert key={l.name} variant="light" color="blue" py={8}>
            <Group justify="space-between" gap="md">
              <Text size="sm">{t("service.labelled", { name: l.name, value: f.integer(l.clusters) })}</Text>
              {may && (
                <Button size="compact-sm" variant="default" onClick={() => setMade(l.name)}>
                  {t("service.declare")}
                </Button>
              )}
            </Group>
          </Alert>
        ))}
        <Panel title={t("service.list")} flush>
          <Gate
            query={query}
            skeleton={<TableSkeleton rows={3} />}
            isEmpty={(d) => d.items.length === 0}
            empty={
              <Empty
                icon={<IconTopologyStar3 size={28} />}
                title={t("service.empty")}
                text={t("service.emptyText")}
                action={declare || undefined}
              />
            }
          >
            {(d) => (
              <DataTable
                rows={d.items}
                columns={columns}
                rowKey={(s) => s.id}
                label={t("service.list")}
                onOpen={(s) => void navigate({ to: "/services/$id", params: { id: s.id } })}
              />
            )}
          </Gate>
        </Panel>
      </Stack>
      {made !== null && (
        <ServiceForm
          service={null}
          name={made}
          busy={busy}
          onClose={() => setMade(null)}
          onSave={(input) =>
            void act(() => createService(input), [["services"]], t("service.saved")).then(
              (done) => done && setMade(null),
            )
          }
        />
      )}
    </>
  );
}
