// One service: how its replicas are split over clusters, why, and what else was considered.
import { Badge, Button, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import type { TFunction } from "i18next";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  deleteService,
  type Marginal,
  type Service,
  type ServiceOption,
  type ServicePart,
  type ServicePlan,
  type ServicePlanSummary,
  saveService,
  servicePlanQuery,
  serviceQuery,
} from "../api/services";
import { ask } from "../components/ask";
import { PageHead, Panel, Stat } from "../components/page";
import { BlockSkeleton, Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import { moneyNumber, negateMoney } from "../lib/money";
import { useNow } from "../lib/now";
import { service as words } from "../locales/service.en";
import { useAct } from "./act";
import { useMay } from "./me";
import { ServiceForm } from "./service-form";
import { ServiceModeBadge, SplitBadge } from "./services";

/** A code in words; one that this page does not know keeps its own name. */
function word(t: TFunction, group: "bound" | "wait" | "held" | "whyNot" | "kind" | "relaxed", code: string): string {
  if (code === "") return "";
  return Object.hasOwn(words[group], code) ? t(`service.${group}.${code}` as "service.bound.price") : code;
}

function Price({ of }: { of: Marginal | null }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (!of)
    return (
      <Text size="sm" c="dimmed">
        {t("service.none")}
      </Text>
    );
  return (
    <div>
      <Text size="sm" className="number">
        {f.money(of.price, { style: "fine" })}
      </Text>
      <Text size="xs" c="dimmed">
        {[word(t, "kind", of.kind), of.instanceType, of.purchase && t(`purchase.${of.purchase}` as "purchase.spot")]
          .filter(Boolean)
          .join(" · ")}
      </Text>
      {moneyNumber(of.extra) > 0 && (
        <Text size="xs" c="dimmed">
          {t("service.extra", { value: f.money(of.extra, { style: "fine" }) })}
        </Text>
      )}
    </div>
  );
}

function Why({ part: p }: { part: ServicePart }) {
  const { t } = useTranslation();
  const f = useFormat();
  const bounded = p.floor !== null || p.cap !== null;
  const limit = (n: number | null) => (n === null ? "–" : f.integer(n));
  return (
    <div style={{ minWidth: 200 }}>
      <Text size="sm" c={p.held ? "orange" : undefined}>
        {p.held ? word(t, "held", p.held) : word(t, "bound", p.bound)}
      </Text>
      {(p.wait || bounded) && (
        <Text size="xs" c="dimmed">
          {[word(t, "wait", p.wait), bounded && t("service.bounds", { floor: limit(p.floor), cap: limit(p.cap) })]
            .filter(Boolean)
            .join(" · ")}
        </Text>
      )}
    </div>
  );
}

function Parts({ plan }: { plan: ServicePlan }) {
  const { t } = useTranslation();
  const f = useFormat();
  const columns: Column<ServicePart>[] = [
    {
      key: "cluster",
      header: t("service.cluster"),
      sort: (p) => p.cluster,
      render: (p) => (
        <div style={{ minWidth: 150 }}>
          <Link to="/clusters/$id" params={{ id: p.clusterId }} className="cell-link">
            {p.cluster}
          </Link>
          <Text size="xs" c="dimmed">
            {p.place}
          </Text>
          <Link to="/workloads/$id" params={{ id: p.workloadId }} className="quiet-link">
            <Text size="xs" c="dimmed" component="span">
              {p.workload}
            </Text>
          </Link>
        </div>
      ),
    },
    {
      key: "from",
      header: t("service.from"),
      align: "right",
      render: (p) => (
        <div>
          <Text size="sm" className="number">
            {f.integer(p.from)}
          </Text>
          <Text size="xs" c="dimmed">
            {t("service.ready", { value: f.integer(p.ready) })}
          </Text>
        </div>
      ),
    },
    {
      key: "need",
      header: t("service.need"),
      align: "right",
      render: (p) => (p.need === null ? "–" : f.integer(p.need)),
    },
    {
      key: "target",
      header: t("service.target"),
      align: "right",
      render: (p) => (
        <Text size="sm" fw={650} className="number" data-part={p.cluster}>
          {f.integer(p.target)}
        </Text>
      ),
    },
    { key: "last", header: t("service.lastPrice"), render: (p) => (p.held ? "–" : <Price of={p.last} />) },
    { key: "next", header: t("service.nextPrice"), render: (p) => (p.held ? "–" : <Price of={p.next} />) },
    { key: "weight", header: t("service.weight"), align: "right", render: (p) => f.percent(p.weight, 0) },
    { key: "why", header: t("service.why"), render: (p) => <Why part={p} /> },
  ];
  return (
    <DataTable
      rows={plan.parts}
      columns={columns}
      rowKey={(p) => p.workloadId}
      label={t("service.split")}
      minWidth={1080}
    />
  );
}

function Options({ plan }: { plan: ServicePlan }) {
  const { t } = useTranslation();
  const f = useFormat();
  const name = (o: ServiceOption) =>
    Object.hasOwn(words.option, o.name)
      ? t(`service.option.${o.name}` as "service.option.single", { name: o.cluster })
      : o.name;
  const columns: Column<ServiceOption>[] = [
    { key: "name", header: t("service.considered"), render: (o) => name(o) },
    {
      key: "counts",
      header: t("service.split"),
      render: (o) => (
        <span className="number">
          {o.counts.length === 0 ? t("service.impossible") : o.counts.map((n) => f.integer(n)).join(" + ")}
        </span>
      ),
    },
    {
      key: "cost",
      header: t("service.perHour"),
      align: "right",
      render: (o) => (o.cost ? f.money(o.cost) : "–"),
    },
    {
      key: "delta",
      header: t("service.delta"),
      align: "right",
      render: (o) =>
        o.delta && o.delta.nano !== 0n
          ? `${o.delta.nano > 0n ? "+" : "−"}${f.money(o.delta.nano > 0n ? o.delta : negateMoney(o.delta))}`
          : "",
    },
    { key: "why", header: t("service.why"), render: (o) => word(t, "whyNot", o.whyNot) },
  ];
  return (
    <DataTable
      rows={plan.options}
      columns={columns}
      rowKey={(o) => o.name + o.cluster}
      label={t("service.considered")}
      minWidth={600}
    />
  );
}

function History({ rows }: { rows: ServicePlanSummary[] }) {
  const { t } = useTranslation();
  const f = useFormat();
  const now = useNow(10);
  const columns: Column<ServicePlanSummary>[] = [
    {
      key: "since",
      header: t("service.since"),
      render: (h) => <span title={f.fullTime(h.firstAt)}>{f.relative(h.firstAt, now)}</span>,
    },
    { key: "outcome", header: t("service.split"), render: (h) => <SplitBadge outcome={h.outcome} /> },
    { key: "target", header: t("service.replicas"), align: "right", render: (h) => f.integer(h.target) },
    { key: "after", header: t("service.after"), align: "right", render: (h) => f.money(h.after) },
  ];
  return <DataTable rows={rows} columns={columns} rowKey={(h) => h.id} label={t("service.history")} minWidth={480} />;
}

function Split({ service, plan }: { service: Service; plan: ServicePlan }) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <Stack gap="md">
      {plan.stale && <StaleNote>{t(service.mode === "off" ? "service.off" : "service.stale")}</StaleNote>}
      {plan.missing > 0 && <StaleNote>{t("service.missing", { value: f.integer(plan.missing) })}</StaleNote>}
      {plan.relaxed.map((r) => (
        <StaleNote key={r}>{word(t, "relaxed", r)}</StaleNote>
      ))}
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 4 }}>
        <Stat label={t("service.now")} value={t("common.perHour", { value: f.money(plan.before) })} />
        <Stat
          label={t("service.after")}
          value={t("common.perHour", { value: f.money(plan.after) })}
          detail={plan.saving ? t("service.saving", { value: f.money(plan.saving) }) : undefined}
        />
        <Stat label={t("service.demand")} hint={t("service.demandHint")} value={f.integer(plan.demand)} />
        <Stat label={t("service.survives")} value={f.integer(plan.survives)} />
      </SimpleGrid>
      <Panel
        title={t("service.split")}
        hint={t("service.splitHint")}
        flush
        actions={<SplitBadge outcome={plan.outcome} />}
      >
        <Parts plan={plan} />
      </Panel>
      <Panel title={t("service.considered")} flush>
        <Options plan={plan} />
      </Panel>
    </Stack>
  );
}

export function ServicePage() {
  const { t } = useTranslation();
  const { id } = useParams({ from: "/signed-in/services/$id" });
  const navigate = useNavigate();
  const may = useMay("operator");
  const { act, busy } = useAct();
  const query = useQuery(serviceQuery(id));
  const plan = useQuery(servicePlanQuery(id));
  const [edits, setEdits] = useState(false);
  const s = query.data;
  const forget = (of: Service) =>
    ask({
      title: t("service.removeTitle", { name: of.name }),
      text: t("service.removeText"),
      confirm: t("service.remove"),
      cancel: t("common.cancel"),
      danger: true,
      onConfirm: () =>
        void act(() => deleteService(id), [], t("service.removed")).then((done) => {
          if (done) void navigate({ to: "/services" });
        }),
    });
  return (
    <>
      <PageHead
        title={s?.name ?? t("service.title")}
        crumb={<Link to="/services">{t("service.title")}</Link>}
        badges={s && <ServiceModeBadge mode={s.mode} />}
        text={s && t(`service.traffic.${(s.rules.traffic || "local") as "local"}`)}
        actions={
          may &&
          s && (
            <>
              <Button size="sm" variant="default" onClick={() => setEdits(true)}>
                {t("service.edit")}
              </Button>
              <Button size="sm" variant="default" color="red" disabled={busy} onClick={() => forget(s)}>
                {t("service.remove")}
              </Button>
            </>
          )
        }
      />
      <Gate query={query} skeleton={<BlockSkeleton height={320} />}>
        {(of) => (
          <Stack gap="md">
            {of.sites
              .filter((x) => x.twice || x.gone)
              .map((x) => (
                <Group key={x.workloadId} gap={8}>
                  <Badge color="orange" variant="light">
                    {x.cluster}
                  </Badge>
                  <Text size="sm">
                    {x.workload}: {t(x.twice ? "service.twice" : "service.held.gone")}
                  </Text>
                </Group>
              ))}
            <Gate
              query={plan}
              skeleton={<TableSkeleton rows={4} />}
              isEmpty={(p) => p.plan === null}
              empty={<Empty title={t("service.noPlan")} text={t("service.noPlanText")} />}
            >
              {(p) => (
                <Stack gap="md">
                  {p.plan && <Split service={of} plan={p.plan} />}
                  <Panel title={t("service.history")} flush>
                    <History rows={p.history} />
                  </Panel>
                </Stack>
              )}
            </Gate>
          </Stack>
        )}
      </Gate>
      {edits && s && (
        <ServiceForm
          service={s}
          busy={busy}
          onClose={() => setEdits(false)}
          onSave={(input) =>
            void act(() => saveService(id, s.version, input), [["services"]], t("service.saved")).then(
              (done) => done && setEdits(false),
            )
          }
        />
      )}
    </>
  );
}
