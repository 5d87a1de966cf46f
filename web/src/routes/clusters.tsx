import { Button, Group } from "@mantine/core";
import { IconPlus, IconServer2 } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useState } from "react";
import { useTranslation } from "react-i18next";
import { addCluster, clustersQuery, type Mode } from "../api/clusters";
import { AddCluster } from "../components/cluster-add";
import { ClusterTable } from "../components/cluster-table";
import { PageHead, Panel } from "../components/page";
import { SearchBox } from "../components/search-box";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { Pager } from "../components/table";
import { useAct } from "./act";
import { useMay } from "./me";
import { useEnrolment } from "./use-enrolment";

export function ClustersPage() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/signed-in/clusters" });
  const navigate = useNavigate();
  const mayAdd = useMay("admin");
  const { act, busy } = useAct();
  const enrolment = useEnrolment();
  const [adding, setAdding] = useState(false);
  const query = useQuery({
    ...clustersQuery({ q: search.q, cursor: search.cursor, limit: 50 }),
    placeholderData: keepPreviousData,
  });
  const filter = useCallback((q: string) => void navigate({ to: "/clusters", search: q ? { q } : {} }), [navigate]);

  const create = (name: string, mode: Mode) =>
    act(async () => {
      const cluster = await addCluster(name, mode);
      setAdding(false);
      enrolment.start(cluster);
    }, [["clusters"], ["overview"]]);

  const addButton = mayAdd && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setAdding(true)}>
      {t("clusters.add")}
    </Button>
  );
  return (
    <>
      <PageHead title={t("clusters.title")} actions={addButton} />
      <Panel flush>
        <Group p="md" pb="xs">
          <SearchBox value={search.q ?? ""} placeholder={t("common.search")} onChange={filter} />
        </Group>
        <Gate
          query={query}
          skeleton={<TableSkeleton rows={6} />}
          isEmpty={(page) => page.items.length === 0}
          empty={
            search.q ? (
              <Empty title={t("clusters.noMatch")} />
            ) : (
              <Empty
                icon={<IconServer2 size={34} stroke={1.4} />}
                title={t("clusters.empty")}
                text={t("clusters.emptyText")}
                action={addButton}
                height={300}
              />
            )
          }
        >
          {(page) => (
            <>
              <ClusterTable
                clusters={page.items}
                onOpen={(c) => void navigate({ to: "/clusters/$id", params: { id: c.id } })}
              />
              <Pager
                cursor={search.cursor}
                nextCursor={page.nextCursor}
                onMove={(cursor) => void navigate({ to: "/clusters", search: { ...search, cursor } })}
              />
            </>
          )}
        </Gate>
      </Panel>
      <AddCluster
        opened={adding}
        busy={busy}
        onClose={() => setAdding(false)}
        onCreate={(name, mode) => void create(name, mode)}
      />
      {enrolment.element}
    </>
  );
}
