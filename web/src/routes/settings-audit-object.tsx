import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { clustersQuery } from "../api/clusters";
import { TextLink } from "../components/link";
import { useActorName } from "./actor";

const SHORT = 8;

/** What an entry of the audit log is about: a name where one is at hand, the head of an id elsewhere, and a link to its page. */
export function AuditObject({ object }: { object: string }) {
  const clusters = useQuery(clustersQuery({ limit: 200 }));
  const who = useActorName();
  const [, kind, id] = /^(\w+)[:/]([^/]+)$/.exec(object) ?? [];
  if (!kind || !id) return <span className="mono">{object}</span>;
  const person = kind === "user" ? who(`user:${id}`) : "";
  const known = person === `user:${id}` ? "" : person;
  const name =
    known || (kind === "cluster" && clusters.data?.items.find((c) => c.id === id)?.name) || id.slice(0, SHORT);
  const text = (
    <>
      <span className="mono">{kind}</span> {name}
    </>
  );
  const link = { size: "sm", title: id } as const;
  switch (kind) {
    case "cluster":
      return (
        <TextLink to="/clusters/$id" params={{ id }} {...link}>
          {text}
        </TextLink>
      );
    case "workload":
      return (
        <TextLink to="/workloads/$id" params={{ id }} {...link}>
          {text}
        </TextLink>
      );
    case "decision":
      return (
        <TextLink to="/decisions/$id" params={{ id }} {...link}>
          {text}
        </TextLink>
      );
    case "budget":
      return (
        <TextLink to="/budgets" {...link}>
          {text}
        </TextLink>
      );
    case "cloud_account":
      return (
        <TextLink to="/cloud-accounts" {...link}>
          {text}
        </TextLink>
      );
    default:
      return (
        <Text size="sm" title={id}>
          {text}
        </Text>
      );
  }
}
