import { Alert, Badge, Button, Group, Progress, Stack, Text } from "@mantine/core";
import { IconFlask, IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { cancelReplay, isOpen, type Replay, type ReplayState, replayQuery, replaysQuery } from "../api/replays";
import { PageHead, Panel } from "../components/page";
import { ReplayFound } from "../components/replay-result";
import { BlockSkeleton, Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { WorkloadName } from "../components/workload-name";
import { useFormat } from "../lib/format";
import { useAct } from "./act";
import { useActorName } from "./actor";
import { useMay } from "./me";
import { ReplayForm } from "./replay-form";

const COLOR: Record<ReplayState, string> = {
  queued: "gray",
  running: "blue",
  done: "teal",
  failed: "red",
  cancelled: "gray",
};

function State({ replay }: { replay: Replay }) {
  const { t } = useTranslation();
  return (
    <Stack gap={4} miw={110}>
      <Badge variant="light" color={COLOR[replay.state]}>
        {t(`replay.states.${replay.state}`)}
      </Badge>
      {isOpen(replay) && (
        <Progress value={100 * replay.progress} size="sm" animated aria-label={t("replay.progress")} />
      )}
    </Stack>
  );
}

/** One replay: what was asked, how far it is, what was found. */
function Detail({ id }: { id: string }) {
  const { t } = useTranslation();
  const f = useFormat();
  const may = useMay("operator");
  const { act, busy } = useAct();
  const query = useQuery(replayQuery(id));
  return (
    <Gate query={query} skeleton={<BlockSkeleton height={480} />}>
      {(r) => (
        <Stack gap="md">
          <Group justify="space-between">
            <Group gap="lg">
              <WorkloadName id={r.workloadId} workloadKey={r.workloadKey} />
              <State replay={r} />
              <Text size="sm" c="dimmed">
                {t("replay.span", { from: f.dateTime(r.from), to: f.dateTime(r.to) })}
              </Text>
              {r.state === "done" && (
                <Badge variant="light" color={r.usable ? "teal" : "gray"}>
                  {r.usable ? t("replay.usable") : t("replay.notUsable")}
                </Badge>
              )}
            </Group>
            {may && isOpen(r) && (
              <Button
                size="xs"
                variant="default"
                loading={busy}
                onClick={() => void act(() => cancelReplay(r.id), [["replays"]], t("replay.cancelled"))}
              >
                {t("replay.cancel")}
              </Button>
            )}
          </Group>
          {r.problem && (
            <Alert color="red" title={t("replay.failedTitle")} role="alert">
              {r.problem}
            </Alert>
          )}
          {isOpen(r) && <BlockSkeleton height={360} />}
          {r.result && <ReplayFound result={r.result} />}
        </Stack>
      )}
    </Gate>
  );
}

export function ReplayPage() {
  const { t } = useTranslation();
  const f = useFormat();
  const may = useMay("operator");
  const who = useActorName();
  const navigate = useNavigate();
  const { id, workload, cursor } = useSearch({ from: "/signed-in/replay" });
  const [asking, setAsking] = useState(false);
  const query = useQuery(replaysQuery(workload, cursor));
  const open = (to: string) => void navigate({ to: "/replay", search: { id: to } });

  const columns: Column<Replay>[] = [
    {
      key: "workload",
      header: t("replay.workload"),
      render: (r) => (
        <Link to="/replay" search={{ id: r.id }} className="cell-link">
          {r.workloadKey}
        </Link>
      ),
    },
    { key: "span", header: t("replay.window"), render: (r) => `${f.dateTime(r.from)} – ${f.dateTime(r.to)}` },
    { key: "state", header: t("replay.state"), render: (r) => <State replay={r} /> },
    { key: "by", header: t("replay.by"), render: (r) => `${who(r.createdBy)}, ${f.dateTime(r.createdAt)}` },
  ];
  const add = may && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setAsking(true)}>
      {t("replay.new")}
    </Button>
  );
  return (
    <>
      <PageHead title={t("replay.title")} actions={add} />
      <Stack gap="md">
        <Text size="sm" c="dimmed">
          {t("replay.text")}
        </Text>
        {id && <Detail key={id} id={id} />}
        <Panel title={t("replay.list")} flush>
          <Gate
            query={query}
            skeleton={<TableSkeleton rows={4} />}
            isEmpty={(page) => page.items.length === 0}
            empty={
              <Empty
                icon={<IconFlask size={34} stroke={1.4} />}
                title={t("replay.empty")}
                text={t("replay.emptyText")}
                action={add}
              />
            }
          >
            {(page) => (
              <>
                <DataTable
                  rows={page.items}
                  columns={columns}
                  rowKey={(r) => r.id}
                  onOpen={(r) => open(r.id)}
                  label={t("replay.list")}
                />
                {page.nextCursor && (
                  <Group justify="center" p="sm">
                    <Button
                      variant="default"
                      size="xs"
                      onClick={() =>
                        void navigate({ to: "/replay", search: { id, workload, cursor: page.nextCursor ?? undefined } })
                      }
                    >
                      {t("replay.older")}
                    </Button>
                  </Group>
                )}
              </>
            )}
          </Gate>
        </Panel>
      </Stack>
      {asking && (
        <ReplayForm
          workload={workload ?? null}
          onClose={() => setAsking(false)}
          onDone={(created) => {
            setAsking(false);
            open(created);
          }}
        />
      )}
    </>
  );
}
