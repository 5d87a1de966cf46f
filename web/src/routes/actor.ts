import { useQuery } from "@tanstack/react-query";
import { membersQuery } from "../api/settings";

/** Names who did something: "user:<id>" becomes the member's name, all else stays as the service wrote it. */
export function useActorName(): (actor: string) => string {
  const members = useQuery(membersQuery);
  return (actor) => {
    const [kind, id] = actor.split(":");
    const member = kind === "user" ? members.data?.find((m) => m.id === id) : undefined;
    return member ? member.displayName || member.email : actor;
  };
}
