import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

/** Splits "namespace/Kind/name". */
export function readKey(key: string): { namespace: string; kind: string; name: string } {
  const [namespace = "", kind = "", ...name] = key.split("/");
  return name.length === 0 ? { namespace: "", kind: "", name: key } : { namespace, kind, name: name.join("/") };
}

/** A workload's name as a link, with its namespace and kind below. */
export function WorkloadName({ id, workloadKey, detail }: { id: string; workloadKey: string; detail?: string }) {
  const { namespace, kind, name } = readKey(workloadKey);
  return (
    <div style={{ minWidth: 0 }}>
      <Link to="/workloads/$id" params={{ id }} className="cell-link truncate" style={{ display: "block" }}>
        {name}
      </Link>
      <Text size="xs" c="dimmed" truncate>
        {[namespace, kind, detail].filter(Boolean).join(" · ")}
      </Text>
    </div>
  );
}
