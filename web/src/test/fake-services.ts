// Services of the fake service: one that moves, one label that nobody declared.
import type { components } from "../api/schema.gen";
import { uuid } from "./factories.ts";
import type { FakeAnswer, Handler } from "./fake-api.ts";

type Schemas = components["schemas"];

const ok = (body?: unknown): FakeAnswer => ({ status: body === undefined ? 204 : 200, body });
const problem = (status: number, title: string, detail: string): FakeAnswer => ({
  status,
  body: { status, title, detail },
});
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();
const usd = (amount: string) => ({ amount, currency: "USD" });

const offering = (region: string, purchase: "spot" | "on_demand"): Schemas["PlannedOffering"] => ({
  cloud: "aws",
  region,
  zone: `${region}a`,
  instance_type: "g6.xlarge",
  purchase,
});

const marginal = (
  price: string,
  kind: "runs" | "new",
  region: string,
  purchase: "spot" | "on_demand",
  extra = "0.00",
) => ({
  price: usd(price),
  weighed: usd(price),
  extra: usd(extra),
  kind,
  offering: offering(region, purchase),
});

export class FakeServices {
  labelled: Schemas["LabelledName"][] = [{ name: "embeddings", clusters: 2 }];
  services: Schemas["ServiceView"][] = [
    {
      id: uuid(80, 1),
      name: "assistant",
      mode: "enforce",
      version: 3,
      rules: { traffic: "balanced", headroom: 0.5 },
      sites: [
        {
          workload_id: uuid(5, 1),
          workload: "llm/Deployment/assistant-70b",
          cluster_id: uuid(3, 1),
          cluster: "inference-us",
          rules: { min: 2 },
          labelled: false,
          twice: false,
          gone: false,
        },
        {
          workload_id: uuid(5, 2),
          workload: "llm/Deployment/assistant-70b",
          cluster_id: uuid(3, 2),
          cluster: "inference-eu",
          rules: {},
          labelled: true,
          twice: false,
          gone: false,
        },
      ],
      updated_by: "owner@example.com",
      updated_at: ago(86_400),
      checked_at: ago(8),
    },
  ];
  summary: Schemas["ServicePlanSummary"] = {
    id: uuid(81, 1),
    at: ago(8),
    first_at: ago(120),
    outcome: "move",
    target: 12,
    before: usd("11.40"),
    after: usd("9.20"),
  };
  plan: Schemas["ServicePlanView"] = {
    ...this.summary,
    mode: "enforce",
    stale: false,
    asked: 12,
    demand: 12,
    missing: 0,
    survives: 6,
    relaxed: [],
    moves: 3,
    saving: usd("2.20"),
    parts: [
      {
        workload_id: uuid(5, 2),
        workload: "llm/Deployment/assistant-70b",
        cluster_id: uuid(3, 2),
        cluster: "inference-eu",
        cloud: "aws",
        region: "eu-central-1",
        from: 9,
        ready: 9,
        need: 8,
        target: 6,
        floor: 9,
        cap: 9,
        bound: "price",
        wait: "ready",
        last: marginal("0.95", "runs", "eu-central-1", "on_demand", "0.12"),
        next: marginal("0.95", "runs", "eu-central-1", "on_demand", "0.12"),
        weight: 0.75,
        priced_at: ago(20),
      },
      {
        workload_id: uuid(5, 1),
        workload: "llm/Deployment/assistant-70b",
        cluster_id: uuid(3, 1),
        cluster: "inference-us",
        cloud: "aws",
        region: "us-east-1",
        from: 3,
        ready: 3,
        need: 4,
        target: 6,
        floor: 6,
        cap: 6,
        bound: "headroom",
        last: marginal("0.41", "new", "us-east-1", "spot"),
        next: marginal("0.41", "new", "us-east-1", "spot"),
        weight: 0.25,
        priced_at: ago(20),
      },
    ],
    options: [
      { name: "plan", counts: [6, 6], replicas: 12, cost: usd("9.20"), delta: usd("0.00") },
      { name: "keep", counts: [9, 3], replicas: 12, cost: usd("11.40"), delta: usd("2.20"), why_not: "dearer" },
      {
        name: "no_headroom",
        counts: [2, 10],
        replicas: 12,
        cost: usd("6.30"),
        delta: usd("-2.90"),
        why_not: "headroom",
      },
      {
        name: "single",
        cluster: "inference-us",
        counts: [],
        replicas: 0,
        cost: null as never,
        delta: null as never,
        why_not: "reach",
      },
    ],
  };

  readonly routes: [string, string, Handler][] = [
    [
      "GET",
      "/services",
      () =>
        ok({
          labelled: this.labelled,
          items: this.services.map((s) => ({
            id: s.id,
            name: s.name,
            mode: s.mode,
            clusters: s.sites?.length ?? 0,
            plan: s.id === uuid(80, 1) ? this.summary : null,
          })),
        }),
    ],
    [
      "POST",
      "/services",
      (r) => {
        const body = r.body as Schemas["ServiceDoc"];
        if (this.services.some((s) => s.name === body.name)) {
          return problem(409, "Conflict", "there is a service of this name");
        }
        const made: Schemas["ServiceView"] = {
          id: uuid(80, 9),
          name: body.name,
          mode: body.mode,
          version: 1,
          rules: body.rules ?? {},
          sites: [],
          updated_by: "owner",
          updated_at: ago(0),
          checked_at: null as never,
        };
        this.services.push(made);
        this.labelled = this.labelled.filter((l) => l.name !== body.name);
        return ok(made);
      },
    ],
    ["GET", "/services/{id}", (_, p) => this.find(p.id, (s) => ok(s))],
    [
      "PUT",
      "/services/{id}",
      (r, p) =>
        this.find(p.id, (s) => {
          const body = r.body as Schemas["SetServiceInputBody"];
          if (body.version !== s.version)
            return problem(409, "Conflict", "the service was changed meanwhile: load it again");
          Object.assign(s, { mode: body.service.mode, rules: body.service.rules, version: s.version + 1 });
          return ok(s);
        }),
    ],
    [
      "DELETE",
      "/services/{id}",
      (_, p) =>
        this.find(p.id, (s) => {
          this.services = this.services.filter((x) => x !== s);
          return ok();
        }),
    ],
    [
      "GET",
      "/services/{id}/plan",
      (_, p) =>
        this.find(p.id, (s) =>
          s.id === uuid(80, 1) ? ok({ plan: this.plan, history: [this.summary] }) : ok({ plan: null, history: [] }),
        ),
    ],
  ];

  private find(id: string | undefined, then: (s: Schemas["ServiceView"]) => FakeAnswer): FakeAnswer {
    const s = this.services.find((x) => x.id === id);
    return s ? then(s) : problem(404, "Not Found", "service not found");
  }
}
