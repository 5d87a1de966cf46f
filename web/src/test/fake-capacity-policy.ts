// The capacity policy of the fake service with its rollouts, and machines that do not obey it. Cluster 1 enforces and has a rollout in its canary.
import type { components } from "../api/schema.gen";
import { uuid } from "./factories.ts";
import type { FakeAnswer, Handler } from "./fake-api.ts";

type Schemas = components["schemas"];

const ok = (body?: unknown, status = 200): FakeAnswer => ({ status, body });
const conflict = (detail: string): FakeAnswer => ({ status: 409, body: { status: 409, title: "Conflict", detail } });
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();
const usd = (amount: string) => ({ amount, currency: "USD" });

const sum = (after: string, spot: number): Schemas["CapacityPlanSum"] => ({
  after: usd(after),
  adds: 2,
  drains: spot > 0 ? 3 : 1,
  moves: 5,
  left: 0,
  machines: 11,
  spot,
  interruptions_per_hour: spot * 0.02,
  p_stock_out: 0.12,
  unpriced: 0,
  held: [],
  incomplete: false,
});

const offering = (purchase: "spot" | "on_demand"): Schemas["PlannedOffering"] => ({
  cloud: "aws",
  region: "us-east-1",
  zone: "us-east-1a",
  instance_type: "g6.2xlarge",
  purchase,
});

export const comparison: Schemas["CapacityComparison"] = {
  cost: usd("41.20"),
  in_force: sum("39.80", 0),
  proposed: sum("31.05", 6),
  offerings: [
    { offering: offering("on_demand"), now: 8, in_force: 7, proposed: 2 },
    { offering: offering("spot"), now: 0, in_force: 0, proposed: 6 },
  ],
};

const signs = (waiting: number): Schemas["CapacitySigns"] => ({
  long_waiting: waiting,
  disruption_breached: 0,
  cost: usd("41.20"),
  unpriced: 0,
  ready_seconds: 95,
  started: 4,
  failed: 0,
  interruptions: 1,
  machine_hours: 8,
  late_ratio: 0.004,
  error_ratio: null,
});

export class FakeCapacityPolicy {
  body: Schemas["CapacityPolicyOutputBody"] = {
    policy: {
      max_nodes: 40,
      hourly_max: "60.00",
      no_spot: true,
      max_moved_milli: 250,
      freeze: [{ days: ["fri"], from: "18:00", to: "06:00", time_zone: "Europe/Berlin" }],
    },
    version: 3,
    inherited: false,
    default_version: 0,
    updated_by: "rollout",
    updated_at: ago(86_400),
  };
  standard: Schemas["CapacityDefaultOutputBody"] = {
    policy: { max_nodes: 25, no_spot: true },
    version: 2,
    updated_by: "owner",
    updated_at: ago(3600),
    clusters: [
      { id: uuid(3, 2), name: "staging", mode: "enforce" },
      { id: uuid(3, 3), name: "edge", mode: "observe" },
    ],
  };

  private inherited(version: number): Schemas["CapacityPolicyOutputBody"] {
    const { policy, updated_by, updated_at, version: default_version } = this.standard;
    return { policy, version, inherited: true, default_version, updated_by, updated_at };
  }

  rollouts: Schemas["CapacityRollout"][] = [
    {
      id: uuid(71, 1),
      default: false,
      default_version: 0,
      state: "rolled_back",
      step: 0,
      shares: [0.1, 0.5, 1],
      shadow_seconds: 1800,
      stage_seconds: 3600,
      hourly: 10,
      cost_over: 0.2,
      paused: false,
      policy: {},
      clusters: [],
      outcome: "unplaced",
      outcome_cluster_id: uuid(3, 1),
      seq: 2,
      created_by: "rollout",
      created_at: ago(200_000),
      stage_at: ago(190_000),
      looked_at: ago(190_000),
      finished_at: ago(190_000),
    },
  ];

  canary(): Schemas["CapacityRollout"] {
    const [old] = this.rollouts;
    return {
      ...(old as Schemas["CapacityRollout"]),
      id: uuid(71, 2),
      state: "canary",
      outcome: "",
      outcome_cluster_id: "",
      seq: 1,
      finished_at: null,
      looked_at: ago(12),
      clusters: [
        {
          cluster_id: uuid(3, 1),
          cluster: "prod",
          in_force: true,
          base: {},
          base_version: 3,
          watched_seconds: 1200,
          silent_seconds: 0,
          passed: "",
          cost_limit: usd("49.44"),
          before: signs(0),
          after: signs(0),
          shadow: comparison,
        },
      ],
    };
  }

  private act(what: string): Handler {
    return (r, p) => {
      const found = this.rollouts.find((x) => x.id === p.id);
      if (!found) return { status: 404, body: { status: 404, title: "Not found", detail: "no such rollout" } };
      const { seq } = r.body as { seq?: number };
      if (seq !== undefined && seq !== found.seq) return conflict("the rollout has moved meanwhile: load it again");
      found.seq++;
      if (what === "promote") found.step++;
      if (what === "pause") found.paused = true;
      if (what === "resume") found.paused = false;
      if (what === "rollback") {
        found.state = "rolled_back";
        found.outcome = "by owner";
      }
      return ok(found);
    };
  }

  readonly routes: [string, string, Handler][] = [
    ["GET", "/clusters/{id}/capacity-policy", (_, p) => ok(p.id === uuid(3, 1) ? this.body : this.inherited(0))],
    [
      "DELETE",
      "/clusters/{id}/capacity-policy",
      (r) => {
        if (!r.query.get("rollout_override")) return conflict("this cluster enforces: roll the default's policy out");
        this.body = this.inherited(this.body.version + 1);
        return ok(this.body);
      },
    ],
    ["GET", "/capacity-default", () => ok(this.standard)],
    [
      "PUT",
      "/capacity-default",
      (r) => {
        const body = r.body as { policy: Schemas["CapacityPolicyDoc"]; version: number };
        if (body.version !== this.standard.version) return conflict("the default was changed meanwhile: load it again");
        this.standard = { ...this.standard, policy: body.policy, version: body.version + 1 };
        return ok(this.standard);
      },
    ],
    [
      "PUT",
      "/clusters/{id}/capacity-policy",
      (r, p) => {
        const body = r.body as Schemas["SetCapacityPolicyInputBody"];
        if (p.id !== uuid(3, 1))
          return ok({ ...this.body, policy: body.policy, version: body.version + 1, updated_by: "owner" });
        if (!body.rollout_override) return conflict("this cluster enforces: roll the policy out in steps");
        if (body.version !== this.body.version) return conflict("the policy was changed meanwhile: load it again");
        this.body = { ...this.body, policy: body.policy, version: body.version + 1, updated_by: "owner" };
        return ok(this.body);
      },
    ],
    ["POST", "/clusters/{id}/capacity-policy/preview", () => ok({ comparison })],
    ["GET", "/capacity-rollouts", (r) => ok({ items: r.query.get("cluster") === uuid(3, 1) ? this.rollouts : [] })],
    ["GET", "/capacity-rollouts/{id}", (_, p) => ok(this.rollouts.find((x) => x.id === p.id))],
    [
      "POST",
      "/capacity-rollouts",
      () => {
        this.rollouts.unshift(this.canary());
        return ok(this.rollouts[0], 201);
      },
    ],
    ...(["promote", "pause", "resume", "rollback"] as const).map((what): [string, string, Handler] => [
      "POST",
      `/capacity-rollouts/{id}/${what}`,
      this.act(what),
    ]),
    [
      "GET",
      "/clusters/{id}/node-compliance",
      (_, p) =>
        ok(
          p.id === uuid(3, 1)
            ? {
                at: ago(20),
                policy_version: 3,
                default_version: 0,
                kubernetes_version: "v1.34.1",
                checked: 12,
                breaking: 1,
                unknown: 1,
                truncated: false,
                items: [
                  {
                    node: "gpu-7",
                    pool: "gpu",
                    offering: offering("spot"),
                    findings: [
                      { code: "spot", want: "on_demand", got: "spot" },
                      { code: "label", want: "team=ml", got: "" },
                      { code: "kubelet_old", want: "1.31", got: "v1.30.4" },
                    ],
                    unchecked: [],
                  },
                  { node: "gpu-8", pool: "gpu", offering: offering("on_demand"), findings: [], unchecked: ["driver"] },
                ],
              }
            : {
                at: ago(20),
                policy_version: 0,
                default_version: 0,
                kubernetes_version: "",
                checked: 3,
                breaking: 0,
                unknown: 0,
                truncated: false,
                items: [],
              },
        ),
    ],
  ];
}
