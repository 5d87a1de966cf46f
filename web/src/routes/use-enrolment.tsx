import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Cluster, clusterQuery, createEnrolment, type Enrolment } from "../api/clusters";
import { Enrol } from "../components/enrol";
import { useAct } from "./act";

/** Makes an enrolment token and shows it until it is closed; `element` goes into the page. */
export function useEnrolment() {
  const { act } = useAct();
  const [open, setOpen] = useState<{ cluster: Cluster; enrolment: Enrolment | null } | null>(null);
  const id = open?.cluster.id ?? "";
  const current = useQuery({ ...clusterQuery(id), enabled: id !== "", refetchInterval: id ? 3000 : false });

  const start = async (cluster: Cluster) => {
    setOpen({ cluster, enrolment: null });
    const done = await act(async () => {
      const enrolment = await createEnrolment(cluster.id);
      setOpen({ cluster, enrolment });
    }, []);
    if (!done) setOpen(null);
  };
  const element = open && (
    <Enrol
      name={open.cluster.name}
      enrolment={open.enrolment}
      connected={(current.data?.lastSeenAt?.getTime() ?? 0) > (open.cluster.lastSeenAt?.getTime() ?? 0)}
      onClose={() => setOpen(null)}
    />
  );
  return { start: (cluster: Cluster) => void start(cluster), element };
}
