import { Button, Group } from "@mantine/core";
import { IconStack2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import { useTranslation } from "react-i18next";
import { workloadsQuery } from "../api/workloads";
import { PageHead, Panel } from "../components/page";
import { SearchBox } from "../components/search-box";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { Pager } from "../components/table";
import { WorkloadTable } from "../components/workload-table";
import { ClusterSelect } from "./cluster-select";

export function WorkloadsPage() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/signed-in/workloads" });
  const navigate = useNavigate();
  const query = useQuery(workloadsQuery({ ...search, limit: 50 }));
  const { cursor, ...filters } = search;
  const filtered = Object.keys(filters).length > 0;
  const change = useCallback(
    (part: Partial<typeof filters>) =>
      void navigate({ to: "/workloads", search: (before) => ({ ...before, cursor: undefined, ...part }) }),
    [navigate],
  );
  const bySearch = useCallback((q: string) => change({ q: q || undefined }), [change]);
  const byNamespace = useCallback((v: string) => change({ namespace: v || undefined }), [change]);
  const byTeam = useCallback((v: string) => change({ team: v || undefined }), [change]);
  return (
    <>
      <PageHead title={t("workloads.title")} />
      <Panel flush>
        <Group p="md" pb="xs" gap="sm">
          <SearchBox value={search.q ?? ""} placeholder={t("workloads.search")} onChange={bySearch} />
          <ClusterSelect
            width={190}
            value={search.cluster ?? null}
            onChange={(cluster) => change({ cluster: cluster ?? undefined })}
          />
          <SearchBox
            value={search.namespace ?? ""}
            placeholder={t("workloads.namespace")}
            onChange={byNamespace}
            width={170}
          />
          <SearchBox value={search.team ?? ""} placeholder={t("workloads.team")} onChange={byTeam} width={150} />
          {filtered && (
            <Button variant="subtle" color="gray" onClick={() => void navigate({ to: "/workloads" })}>
              {t("common.clear")}
            </Button>
          )}
        </Group>
        <Gate
          query={query}
          skeleton={<TableSkeleton />}
          isEmpty={(page) => page.items.length === 0}
          empty={
            filtered ? (
              <Empty title={t("workloads.noMatch")} text={t("workloads.noMatchText")} height={300} />
            ) : (
              <Empty
                icon={<IconStack2 size={34} stroke={1.4} />}
                title={t("workloads.empty")}
                text={t("workloads.emptyText")}
                height={300}
              />
            )
          }
        >
          {(page) => (
            <>
              <WorkloadTable
                showCluster
                workloads={page.items}
                onOpen={(w) => void navigate({ to: "/workloads/$id", params: { id: w.id } })}
              />
              <Pager
                cursor={cursor}
                nextCursor={page.nextCursor}
                onMove={(next) => void navigate({ to: "/workloads", search: { ...filters, cursor: next } })}
              />
            </>
          )}
        </Gate>
      </Panel>
    </>
  );
}
