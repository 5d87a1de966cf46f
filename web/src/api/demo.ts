import { queryOptions } from "@tanstack/react-query";
import { answer, client } from "./client";

export const speedQuery = queryOptions({
  queryKey: ["demo", "speed"],
  queryFn: async ({ signal }) => (await answer(client.GET("/demo/speed", { signal }))).speed,
});

export async function setSpeed(speed: number): Promise<number> {
  return (await answer(client.PUT("/demo/speed", { body: { speed } }))).speed;
}
