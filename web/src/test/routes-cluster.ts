// What the fake service answers about the overview and clusters.
import type { WireCluster } from "../api/wire";
import * as make from "./factories.ts";
import * as capacity from "./factories-capacity.ts";
import type { FakeApi } from "./fake-api.ts";
import { list, missing, ok, one, page, problem, type Route } from "./fake-http.ts";

/** Whether a cluster has a capacity plan: the third never reported. */
function planned(cluster: string | undefined): boolean {
  return cluster !== make.uuid(3, 4);
}

export const clusterRoutes = (api: FakeApi): Route[] => [
  ["GET", "/overview", () => ok(api.overview)],
  [
    "GET",
    "/clusters",
    (r) =>
      ok(
        page(
          api.clusters.filter((c) => c.name.includes(r.query.get("q") ?? "")),
          r.query,
        ),
      ),
  ],
  [
    "POST",
    "/clusters",
    (r) => {
      const { name, mode } = r.body as Pick<WireCluster, "name" | "mode">;
      if (api.clusters.some((c) => c.name === name)) {
        return problem(409, "Conflict", "there is a cluster of this name");
      }
      const cluster = make.aCluster(api.clusters.length + 1, {
        ...api.clusters[3],
        id: make.uuid(3, api.clusters.length + 1),
        name,
        mode,
      });
      api.clusters.push(cluster);
      return ok(cluster);
    },
  ],
  ["GET", "/clusters/{id}", (_, p) => one(api.clusters, p.id)],
  [
    "PATCH",
    "/clusters/{id}",
    (r, p) => {
      const cluster = api.clusters.find((c) => c.id === p.id);
      if (!cluster) return missing();
      Object.assign(cluster, r.body);
      return ok(cluster);
    },
  ],
  [
    "POST",
    "/clusters/{id}/enrolment-tokens",
    (_, p) =>
      ok({
        token: "fake-token-for-development-only",
        expires_at: new Date(Date.now() + 86_400_000).toISOString(),
        helm_command: `helm upgrade --install plimsoll-agent deploy/helm/plimsoll-agent --namespace plimsoll --create-namespace --set endpoint=http://127.0.0.1:8080 --set clusterName=${api.clusters.find((c) => c.id === p.id)?.name} --set enrolment.token=fake-token-for-development-only`,
      }),
  ],
  ["GET", "/clusters/{id}/capacity-map", (_, p) => ok(planned(p.id) ? capacity.aCapacityMap() : { at: null })],
  ["GET", "/clusters/{id}/capacity-plan", (_, p) => ok({ plan: planned(p.id) ? capacity.aCapacityPlan() : null })],
  [
    "GET",
    "/clusters/{id}/checkpoints",
    (_, p) => ok(planned(p.id) ? capacity.checkpoints() : { told: false, items: [] }),
  ],
  ["GET", "/clusters/{id}/capacity-plans", (_, p) => ok(planned(p.id) ? capacity.capacityPlans() : list([]))],
  ["GET", "/clusters/{id}/pending-pods", (_, p) => ok(planned(p.id) ? capacity.pendingPods() : { at: null })],
  ["GET", "/clusters/{id}/conflicts", (_, p) => ok(planned(p.id) ? capacity.conflicts(make.uuid(5, 1)) : list([]))],
  ["GET", "/clusters/{id}/nodes", (r, p) => ok(page(p.id === make.uuid(3, 4) ? [] : api.nodes, r.query))],
  [
    "GET",
    "/clusters/{id}/events",
    (r) =>
      ok(
        page(
          Array.from({ length: 90 }, (_, i) => ({
            at: make.before(i * 17),
            kind: ["interruption_notice", "image_pull", "failed_scheduling"][i % 3] ?? "",
            object: ["Node/gpu-l4-spot-7", "Pod/chat/assistant-70b-x1", "Pod/vision/image-gen-k2"][i % 3] ?? "",
            workload: "",
            reason: ["SpotInterruption", "Pulling", "FailedScheduling"][i % 3] ?? "",
            message: ["the machine goes in 120 s", "pulling the model image", "no node fits: 4 lack GPUs"][i % 3] ?? "",
          })).filter((e) => !r.query.get("kind") || e.kind === r.query.get("kind")),
          r.query,
        ),
      ),
  ],
];
