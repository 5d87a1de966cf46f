import { Anchor, Button, Group, Menu, Stack, Text, TextInput } from "@mantine/core";
import { IconDownload, IconFileInvoice, IconSend } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import {
  issueStatement,
  type StatementFormat,
  type StatementHead,
  statementFile,
  statementsQuery,
  type TeamCharge,
} from "../api/statements";
import { ask } from "../components/ask";
import { PageHead, Panel } from "../components/page";
import { Empty, Gate, StaleNote, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import { parseTime } from "../lib/time";
import { useAct } from "./act";
import { useMay } from "./me";

const FORMATS: readonly StatementFormat[] = ["html", "pdf", "csv"];
const KINDS = ["showback", "chargeback"] as const;
type About = { scope: "tenant" | "team"; team: string };

function Files({ of }: { of: { id: string } | ({ month: string } & About) }) {
  const { i18n } = useTranslation();
  return (
    <Group gap={10} wrap="nowrap" justify="flex-end">
      {FORMATS.map((format) => (
        <Anchor key={format} size="sm" href={statementFile(of, format, i18n.language)} target="_blank" rel="noreferrer">
          {format.toUpperCase()}
        </Anchor>
      ))}
    </Group>
  );
}

/** Issues a statement as one kind or the other. */
function Issue({ enabled, onIssue }: { enabled: boolean; onIssue: (kind: (typeof KINDS)[number]) => void }) {
  const { t } = useTranslation();
  return (
    <Menu>
      <Menu.Target>
        <Button size="compact-xs" variant="default" disabled={!enabled} leftSection={<IconSend size={13} />}>
          {t("finops.statements.issue")}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {KINDS.map((kind) => (
          <Menu.Item key={kind} onClick={() => onIssue(kind)}>
            {t(`finops.statements.${kind}`)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

export function StatementsPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const { month } = useSearch({ from: "/signed-in/statements" });
  const navigate = useNavigate();
  const may = useMay("finance");
  const { act, busy } = useAct();
  const query = useQuery(statementsQuery(month));
  const shown = query.data?.month ?? month ?? "";
  const named = (m: string) => (m === "" ? "" : f.calendarMonthYear(parseTime(m)));
  const name = (of: About) => (of.scope === "tenant" ? t("finops.statements.all") : of.team || t("cost.noneTeam"));
  const issue = (of: About, kind: (typeof KINDS)[number]) =>
    ask({
      title: t("finops.statements.issueTitle", {
        kind: t(`finops.statements.${kind}`),
        name: name(of),
        month: named(shown),
      }),
      text: t("finops.statements.issueText"),
      confirm: t("finops.statements.issue"),
      cancel: t("common.cancel"),
      onConfirm: () =>
        void act(
          () => issueStatement(shown, of.scope, of.team, kind),
          [["statements"]],
          t("finops.statements.issuedNote"),
        ),
    });
  const columns: Column<TeamCharge>[] = [
    {
      key: "team",
      header: t("cost.aggregate.team"),
      sort: (c) => c.team,
      render: (c) => <b style={{ fontWeight: 550 }}>{c.team || t("cost.noneTeam")}</b>,
    },
    ...(["direct", "idle", "shared", "total"] as const).map(
      (key): Column<TeamCharge> => ({
        key,
        header: t(`finops.statements.${key}`),
        align: "right",
        sort: (c) => c[key].nano,
        render: (c) => f.money(c[key]),
      }),
    ),
    {
      key: "files",
      header: t("finops.statements.draft"),
      align: "right",
      render: (c) => <Files of={{ month: shown, scope: "team", team: c.team }} />,
    },
    {
      key: "issue",
      header: "",
      align: "right",
      render: (c) => <Issue enabled={may && !busy} onIssue={(kind) => issue({ scope: "team", team: c.team }, kind)} />,
    },
  ];
  const issued: Column<StatementHead>[] = [
    { key: "name", header: t("finops.statements.for"), sort: (s) => name(s), render: (s) => name(s) },
    { key: "kind", header: t("finops.statements.kind"), render: (s) => t(`finops.statements.${s.kind}`) },
    { key: "version", header: t("finops.statements.version"), align: "right", render: (s) => f.integer(s.version) },
    {
      key: "asOf",
      header: t("finops.statements.asOf"),
      sort: (s) => s.asOf.getTime(),
      render: (s) => f.dateTime(s.asOf),
    },
    {
      key: "total",
      header: t("common.total"),
      align: "right",
      sort: (s) => s.total.nano,
      render: (s) => f.money(s.total),
    },
    { key: "files", header: "", align: "right", render: (s) => <Files of={{ id: s.id }} /> },
  ];
  return (
    <>
      <PageHead
        title={t("finops.statements.title")}
        text={t("finops.statements.text")}
        actions={
          <TextInput
            type="month"
            aria-label={t("finops.statements.month")}
            value={shown}
            onChange={(e) => {
              const next = e.currentTarget.value;
              if (/^20\d\d-(0[1-9]|1[0-2])$/.test(next)) void navigate({ to: "/statements", search: { month: next } });
            }}
          />
        }
      />
      <Gate query={query} skeleton={<TableSkeleton rows={8} />}>
        {(data) => (
          <Stack gap="md">
            {data.missingHours > 0 && (
              <StaleNote>{t("finops.statements.missing", { value: f.integer(data.missingHours) })}</StaleNote>
            )}
            <Panel
              flush
              title={t("finops.statements.charges", { month: named(data.month) })}
              actions={
                <Group gap="md">
                  <Text size="sm" c="dimmed" className="number">
                    {t("finops.statements.ledger", { total: f.money(data.total) })}
                  </Text>
                  <Group gap={6}>
                    <IconDownload size={14} />
                    <Files of={{ month: data.month, scope: "tenant", team: "" }} />
                  </Group>
                  <Issue enabled={may && !busy} onIssue={(kind) => issue({ scope: "tenant", team: "" }, kind)} />
                </Group>
              }
            >
              {data.teams.length === 0 ? (
                <Empty
                  icon={<IconFileInvoice size={34} stroke={1.4} />}
                  title={t("finops.statements.empty")}
                  text={t("finops.statements.emptyText")}
                />
              ) : (
                <DataTable
                  label={t("finops.statements.title")}
                  rows={data.teams}
                  columns={columns}
                  rowKey={(c) => c.team}
                  initialSort={{ key: "total", down: true }}
                  minWidth={980}
                />
              )}
              {data.rest.length > 0 && (
                <Text size="sm" c="dimmed" px="md" py="sm" className="number">
                  {t("finops.statements.rest")}{" "}
                  {data.rest
                    .map((l) => `${t(`finops.statements.rests.${l.kind as "idle"}`)} ${f.money(l.amount)}`)
                    .join(" · ")}
                </Text>
              )}
            </Panel>
            <Panel flush title={t("finops.statements.issuedTitle")}>
              {data.issued.length === 0 ? (
                <Empty title={t("finops.statements.noneIssued")} height={120} />
              ) : (
                <DataTable
                  label={t("finops.statements.issuedTitle")}
                  rows={data.issued}
                  columns={issued}
                  rowKey={(s) => s.id}
                />
              )}
            </Panel>
          </Stack>
        )}
      </Gate>
    </>
  );
}
