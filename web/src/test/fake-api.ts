// A small in-memory stand-in for the service, for tests and `npm run dev:fake`. It speaks the wire types that the real API has, so a
// change of the contract breaks it at compile time. It computes nothing: figures are made up to look plausible.
import type {
  WireApiKey,
  WireAuditEntry,
  WireBudgetInput,
  WireCluster,
  WireDecision,
  WireFinding,
  WireList,
  WireMember,
  WireRestatement,
  WireRollout,
  WireTimeline,
  WireTimelinePoint,
  WireTimeseries,
  WireWorkload,
} from "../api/wire";
import * as make from "./factories.ts";
import * as bill from "./factories-bills.ts";
import * as capacity from "./factories-capacity.ts";
import { FakeCapacityPolicy } from "./fake-capacity-policy.ts";
import { finopsRoutes } from "./fake-finops.ts";
import { FakeGroups } from "./fake-groups.ts";
import { FakeHints } from "./fake-hints.ts";
import { FakeKarpenter } from "./fake-karpenter.ts";
import { FakeMarket } from "./fake-market.ts";
import { FakeServices } from "./fake-services.ts";
import * as telling from "./fake-telling";
import { FakeTunings } from "./fake-tunings.ts";

export interface FakeRequest {
  method: string;
  path: string;
  query: URLSearchParams;
  body: unknown;
  headers: Record<string, string>;
}

export interface FakeAnswer {
  status: number;
  body?: unknown;
}

/** A body as its content type says: JSON read, all else as it came. */
export function readBody(text: string, contentType: string | undefined): unknown {
  if (text === "") return undefined;
  return /json/.test(contentType ?? "json") ? JSON.parse(text) : text;
}

export type Handler = (request: FakeRequest, params: Record<string, string>) => FakeAnswer;

const ok = (body?: unknown): FakeAnswer => ({ status: body === undefined ? 204 : 200, body });
const problem = (status: number, title: string, detail: string, errors?: { location: string; message: string }[]) => ({
  status,
  body: { status, title, detail, errors },
});
const missing = () => problem(404, "Not Found", "there is no such thing");
const list = <T>(items: T[]): WireList<T> => ({ items });

function page<T>(items: T[], query: URLSearchParams): WireList<T> {
  const start = Number(query.get("cursor") ?? 0);
  const limit = Number(query.get("limit") ?? 50);
  const end = start + limit;
  return { items: items.slice(start, end), ...(end < items.length ? { next_cursor: String(end) } : {}) };
}

const wave = (t: number, phase: number) => 0.5 + 0.5 * Math.sin((t / 86_400_000) * 2 * Math.PI + phase);
const noise = (n: number) => {
  const x = Math.sin(n * 12.9898) * 43_758.5453;
  return x - Math.floor(x);
};

export class FakeApi {
  signedIn: boolean;
  speed = 60;
  rollouts: WireRollout[] = [];
  hints = new FakeHints();
  tunings = new FakeTunings();
  cloudGroups = new FakeGroups();
  karpenter = new FakeKarpenter();
  capacityPolicy = new FakeCapacityPolicy();
  services = new FakeServices();
  me = make.aMe();
  overview = make.anOverview();
  clusters: WireCluster[] = [
    make.aCluster(1, { name: "inference-us", simulated_clock: true, clock_speed: 60 }),
    make.aCluster(2, {
      name: "training-eu",
      mode: "approve",
      health: "lagging",
      nodes: 9,
      gpus: 40,
      workloads: 2,
      applied_generation: 1841,
      cost_hour: make.money(241.9),
      last_seen_at: new Date(Date.now() - 95_000).toISOString(),
    }),
    make.aCluster(3, {
      name: "edge-ap",
      mode: "observe",
      health: "offline",
      frozen: true,
      nodes: 4,
      gpus: 0,
      workloads: 3,
      generation: 0,
      applied_generation: 0,
      cost_hour: make.money("3.0608"),
      unpriced_nodes: 1,
      last_seen_at: new Date(Date.now() - 5_400_000).toISOString(),
    }),
    make.aCluster(4, {
      name: "new-cluster",
      mode: "recommend",
      health: "never",
      nodes: 0,
      gpus: 0,
      workloads: 0,
      generation: 0,
      applied_generation: 0,
      agent_version: "",
      kubernetes_version: "",
      capabilities: [],
      cost_hour: null,
      last_seen_at: null,
      data_at: null,
    }),
  ];
  nodes = Array.from({ length: 14 }, (_, i) =>
    i < 6
      ? make.aNode(i + 1, { gpu_allocated: 8 - (i % 3), phase: i === 5 ? "booting" : "ready" })
      : make.aNode(i + 1, {
          name: i < 11 ? `gpu-l4-spot-${i}` : `cpu-${i}`,
          pool: i < 11 ? "gpu-elastic" : "cpu",
          instance_type: i < 11 ? "g6.12xlarge" : "m7i.4xlarge",
          purchase: i < 11 ? "spot" : "on_demand",
          zone: i % 2 ? "us-east-1b" : "us-east-1c",
          gpu_model: i < 11 ? "L4" : "",
          gpu_count: i < 11 ? 4 : 0,
          gpu_allocated: i < 11 ? 3 : 0,
          cpu_milli: 48_000,
          cpu_milli_allocated: 20_000 + i * 1500,
          phase: i === 9 ? "draining" : "ready",
          cost_hour: i === 13 ? null : make.money(i < 11 ? 1.8342 : 0.8064),
        }),
  );
  workloads: WireWorkload[] = [
    make.aWorkload(1, { key: "chat/Deployment/assistant-70b", name: "assistant-70b", cluster_name: "inference-us" }),
    make.aWorkload(2, {
      key: "vision/Deployment/image-gen",
      namespace: "vision",
      name: "image-gen",
      team: "creative",
      class: "standard",
      cluster_name: "inference-us",
      replicas: 8,
      ready: 5,
      starting: 3,
      cost_hour: make.money(21.04),
      signals: {
        request_rate: make.aSignal(12.6),
        queue_length: make.aSignal(41),
        latency_p99_seconds: make.aSignal(9.7),
        gpu_sm_active_ratio: make.aSignal(0.93),
      },
      writers: [
        {
          manager: "horizontal-pod-autoscaler",
          object: "HorizontalPodAutoscaler/image-gen",
          field: "spec.replicas",
          at: make.before(4),
        },
      ],
      last_decision: {
        id: make.uuid(6, 2),
        at: make.before(2),
        outcome: "hold",
        binding: "conflict",
        target: 8,
        state: "noted",
      },
    }),
    make.aWorkload(3, {
      key: "train/Job/finetune-nightly",
      namespace: "train",
      kind: "LeaderWorkerSet",
      name: "finetune-nightly",
      team: "research",
      class: "economy",
      cluster_id: make.uuid(3, 2),
      cluster_name: "training-eu",
      mode: "approve",
      replicas: 4,
      ready: 4,
      starting: 0,
      cost_hour: make.money(131.09),
      signals: { queue_length: make.aSignal(18), gpu_sm_active_ratio: make.aSignal(0.88) },
      last_decision: {
        id: make.uuid(6, 3),
        at: make.before(3),
        outcome: "scale_up",
        binding: "queue",
        target: 6,
        state: "proposed",
      },
    }),
    make.aWorkload(4, {
      key: "chat/Deployment/embed",
      name: "embed",
      class: "standard",
      cluster_name: "inference-us",
      replicas: 6,
      ready: 6,
      starting: 0,
      mode: "recommend",
      cost_hour: make.money(4.21),
      signals: {
        request_rate: make.aSignal(412),
        latency_p99_seconds: make.aSignal(0.084),
        gpu_sm_active_ratio: make.aSignal(0.34, { truth: "stale", age_seconds: 96 }),
      },
      last_decision: {
        id: make.uuid(6, 4),
        at: make.before(41),
        outcome: "hold",
        binding: "partial_signal",
        target: 6,
        state: "noted",
      },
    }),
    make.aWorkload(5, {
      key: "web/Deployment/gateway",
      namespace: "web",
      name: "gateway",
      team: "platform",
      class: "gold",
      cluster_name: "inference-us",
      gpu_milli: 0,
      cpu_milli: 2000,
      mem_mib: 4096,
      replicas: 9,
      ready: 9,
      starting: 0,
      cost_hour: make.money("0.9071"),
      signals: {
        request_rate: make.aSignal(1811),
        latency_p99_seconds: make.aSignal(0.041),
        cpu_ratio: make.aSignal(0.57),
      },
      last_decision: {
        id: make.uuid(6, 5),
        at: make.before(73),
        outcome: "scale_down",
        binding: "target_ratio",
        target: 9,
        state: "applied",
      },
    }),
    make.aWorkload(6, {
      key: "web/StatefulSet/session-cache",
      namespace: "web",
      kind: "StatefulSet",
      name: "session-cache",
      team: "platform",
      class: "standard",
      cluster_name: "inference-us",
      gpu_milli: 0,
      replicas: 3,
      ready: 3,
      starting: 0,
      mode: null,
      policy_version: 0,
      min: null,
      max: null,
      last_decision: null,
      cost_hour: null,
      preflight: ["no_readiness_probe", "no_requests"],
      signals: { cpu_ratio: make.aSignal(0.21) },
    }),
  ];
  decisions: WireDecision[] = this.makeDecisions();
  policies = new Map([[make.uuid(5, 1), [make.aPolicy(3), make.aPolicy(2), make.aPolicy(1)]]]);
  bills = [bill.aBill()];
  restatements: WireRestatement[] = [];
  budgets = [
    make.aBudget(1, { name: "Assistant team" }),
    make.aBudget(2, {
      name: "All clusters",
      team: undefined,
      amount: make.money(100_000),
      spent: make.money(98_237.12),
      spent_ratio: 0.982,
      forecast: make.money(109_870.4),
    }),
    make.aBudget(3, {
      name: "Vision namespace",
      team: undefined,
      namespace: "vision",
      amount: make.money(20_000),
      spent: make.money(7310.2),
      spent_ratio: 0.366,
      forecast: make.money(8190),
      webhook_id: undefined,
    }),
  ];
  webhooks = [make.aWebhook(1)];
  alerts = [
    make.anAlert(1, {
      severity: "critical",
      detail: {
        name: "All clusters",
        basis: "actual",
        percent: 100,
        limit: "100000.00",
        figure: "100120.55",
        currency: "USD",
      },
    }),
    make.anAlert(2, {
      kind: "agent_offline",
      subject: `cluster/${make.uuid(3, 3)}`,
      detail: { cluster: "edge-ap" },
    }),
    make.anAlert(3, { resolved_at: make.before(500), severity: "info" }),
  ];
  keys: WireApiKey[] = [
    {
      id: make.uuid(12, 1),
      name: "ci-exports",
      hint: "x7Qa",
      role: "finance",
      created_by: make.uuid(1, 1),
      created_at: make.before(60 * 24 * 9),
      expires_at: null,
      last_used_at: make.before(22),
    },
  ];
  members: WireMember[] = [
    {
      id: make.uuid(1, 1),
      email: "owner@example.com",
      display_name: "Sample Owner",
      role: "owner",
      disabled: false,
      joined_at: make.before(60 * 24 * 30),
    },
    {
      id: make.uuid(1, 2),
      email: "finance@example.com",
      display_name: "Sample Finance",
      role: "finance",
      disabled: false,
      joined_at: make.before(60 * 24 * 12),
    },
  ];
  audit: WireAuditEntry[] = Array.from({ length: 60 }, (_, i) => ({
    seq: 60 - i,
    at: make.before(i * 37),
    actor: i % 3 ? `user:${make.uuid(1, 1)}` : "system",
    action: ["decision.approve", "policy.save", "cluster.set"][i % 3] ?? "",
    object: `workload:${make.uuid(5, 1)}`,
    detail: { version: String(i), mode: "enforce" },
    hash: "00".repeat(32),
  }));
  readonly market = new FakeMarket();
  /** Answers that a test puts in the way of a path, tried first. */
  overrides = new Map<string, FakeAnswer>();
  readonly calls: FakeRequest[] = [];

  constructor({ signedIn = true }: { signedIn?: boolean } = {}) {
    this.signedIn = signedIn;
  }

  private makeDecisions(): WireDecision[] {
    const open = make.before(-11);
    const proposed: WireDecision[] = [
      make.aDecision(3, {
        at: make.before(3),
        key: "train/Job/finetune-nightly",
        workload_id: make.uuid(5, 3),
        cluster_id: make.uuid(3, 2),
        from_replicas: 4,
        needed: 6,
        target: 6,
        state: "proposed",
        cost_delta_hour: make.money("65.5452"),
        expires_at: open,
        before_replicas: null,
        after_replicas: null,
        finished_at: null,
        result_code: null,
      }),
      make.aDecision(7, {
        at: make.before(9),
        key: "train/Job/evals",
        workload_id: make.uuid(5, 3),
        cluster_id: make.uuid(3, 2),
        outcome: "scale_down",
        binding: "long_tail",
        from_replicas: 3,
        needed: 1,
        target: 1,
        state: "proposed",
        cost_delta_hour: make.money("-21.4"),
        expires_at: make.before(-1.6),
        before_replicas: null,
        after_replicas: null,
        finished_at: null,
        result_code: null,
      }),
    ];
    const shapes: Partial<WireDecision>[] = [
      {},
      { outcome: "hold", needed: 9, target: 9, binding: "cooldown_down", state: "noted", cost_delta_hour: null },
      { outcome: "scale_down", needed: 7, target: 7, binding: "target_ratio", cost_delta_hour: make.money("-8.1931") },
      { outcome: "hold", needed: 30, target: 9, binding: "max_replicas", state: "noted", cost_delta_hour: null },
      { state: "failed", result_code: "forbidden", binding: "latency_high" },
      { outcome: "scale_down", needed: 6, target: 8, binding: "step_down", cost_delta_hour: make.money("-4.09655") },
      { state: "expired", binding: "queue", decided_by: null },
    ];
    const workloads = [
      ["chat/Deployment/assistant-70b", 1],
      ["vision/Deployment/image-gen", 2],
      ["chat/Deployment/embed", 4],
      ["web/Deployment/gateway", 5],
    ] as const;
    const past = Array.from({ length: 120 }, (_, i) => {
      const [key, n] = workloads[i % 4] ?? workloads[0];
      return make.aDecision(i + 10, { key, workload_id: make.uuid(5, n), ...shapes[i % shapes.length] });
    });
    return [...proposed, ...past];
  }

  private timeline(query: URLSearchParams, workload: WireWorkload): WireTimeline {
    const to = Math.min(Date.parse(query.get("to") ?? ""), make.NOW.getTime());
    const from = Date.parse(query.get("from") ?? "");
    const step = Math.max(60, Math.ceil((to - from) / 1000 / 360 / 60) * 60);
    const gpu = workload.gpu_milli > 0;
    const points: WireTimelinePoint[] = [];
    let replicas = 4;
    const decisions: WireTimeline["decisions"] = [];
    for (let t = from; t <= to; t += step * 1000) {
      const n = Math.floor(t / 1000 / step);
      const demand = 30 + 70 * wave(t, -1.6) ** 2 + 12 * (noise(n) - 0.5);
      const wanted = Math.max(2, Math.ceil(demand / 8));
      const gone = noise(Math.floor(t / 7_200_000) + 3) > 0.97;
      if (Math.abs(wanted - replicas) > 1 && n % 3 === 0) {
        const target = replicas + Math.sign(wanted - replicas) * Math.min(2, Math.abs(wanted - replicas));
        decisions.push({
          id: make.uuid(6, (n % 100) + 10),
          at: new Date(t).toISOString(),
          outcome: target > replicas ? "scale_up" : "scale_down",
          from: replicas,
          target,
          needed: wanted,
          binding: "queue",
          state: n % 17 === 0 ? "expired" : "applied",
        });
        replicas = target;
      }
      const load = demand / (replicas * 8);
      points.push({
        at: new Date(t).toISOString(),
        replicas,
        ready: Math.max(1, replicas - (n % 7 === 0 ? 1 : 0)),
        starting: n % 7 === 0 ? 1 : 0,
        request_rate: gone ? null : demand,
        queue_length: gone ? null : Math.max(0, (load - 0.9) * 120 + 4 * noise(n + 5)),
        running_requests: gone ? null : demand * 1.3,
        latency_p50_seconds: gone ? null : 0.6 + load * 0.3,
        latency_p99_seconds: gone ? null : 1.1 + Math.max(0, load - 0.8) * 5 + noise(n) * 0.3,
        ttft_p99_seconds: gone || !gpu ? null : 0.5 + Math.max(0, load - 0.8) * 4 + noise(n + 1) * 0.2,
        gpu_sm_active_ratio: gone || !gpu ? null : Math.min(0.97, load * 0.72),
        kv_cache_ratio: gone || !gpu ? null : Math.min(0.99, load * 0.55),
        cpu_ratio: gone ? null : Math.min(1, load * 0.4),
        error_ratio: gone ? null : load > 1.1 ? 0.004 : 0,
        late_ratio: gone ? null : Math.max(0, load - 1) * 0.12,
        request_rate_max: null,
        queue_length_max: null,
        gpu_util_ratio: null,
        cpu_cores: null,
        memory_mib: null,
      });
    }
    return {
      from: new Date(from).toISOString(),
      to: new Date(to).toISOString(),
      step_seconds: step,
      points,
      decisions,
    };
  }

  private groups(aggregate: string): { key: string; name: string; amount: number }[] {
    switch (aggregate) {
      case "team":
        return [
          { key: "assistant", name: "assistant", amount: 41_233.12 },
          { key: "research", name: "research", amount: 22_104.5 },
          { key: "creative", name: "creative", amount: 11_871.22 },
          { key: "platform", name: "platform", amount: 3104.81 },
          { key: "", name: "", amount: 902.4 },
        ];
      case "namespace":
        return [
          { key: "chat", name: "chat", amount: 42_135.52 },
          { key: "train", name: "train", amount: 22_104.5 },
          { key: "vision", name: "vision", amount: 11_871.22 },
          { key: "web", name: "web", amount: 3104.81 },
        ];
      case "cluster":
        return this.clusters
          .slice(0, 3)
          .map((c, i) => ({ key: c.id, name: c.name, amount: [61_000, 34_000, 3237][i] ?? 0 }));
      case "purchase":
        return [
          { key: "on_demand", name: "on_demand", amount: 70_120 },
          { key: "spot", name: "spot", amount: 28_117.1 },
        ];
      case "resource":
        return [
          { key: "gpu", name: "gpu", amount: 78_120 },
          { key: "cpu", name: "cpu", amount: 13_117.1 },
          { key: "memory", name: "memory", amount: 7000 },
        ];
      default:
        return this.workloads.map((w, i) => ({ key: w.id, name: w.key, amount: 30_000 / (i + 1) }));
    }
  }

  private costGroups(query: URLSearchParams) {
    const aggregate = query.get("aggregate") ?? "team";
    const span = (Date.parse(query.get("to") ?? "") - Date.parse(query.get("from") ?? "")) / 86_400_000 / 27;
    const owner = aggregate !== "cluster" && aggregate !== "purchase" && aggregate !== "resource";
    const kind = owner ? ("workload" as const) : ("all" as const);
    const groups = this.groups(aggregate).map((g) => ({ ...g, kind, amount: g.amount * span }));
    if (!owner || ["shared", "even"].includes(query.get("idle") ?? "")) return groups;
    return [
      ...groups,
      { key: "", name: "", kind: "idle" as const, amount: 17_980.2 * span },
      { key: "", name: "", kind: "overhead" as const, amount: 1041 * span },
    ];
  }

  private series(query: URLSearchParams): WireTimeseries {
    const hourly = query.get("step") === "hour";
    const step = hourly ? 3_600_000 : 86_400_000;
    const from = Math.floor(Date.parse(query.get("from") ?? "") / step) * step;
    const to = Math.ceil(Date.parse(query.get("to") ?? "") / step) * step;
    const at: number[] = [];
    for (let t = from; t < to; t += step) at.push(t);
    return {
      from: new Date(from).toISOString(),
      to: new Date(to).toISOString(),
      step: hourly ? "hour" : "day",
      series: this.costGroups(query).map((g, i) => ({
        key: g.key,
        name: g.name,
        kind: g.kind,
        points: at.map((t) => {
          const shape = hourly ? 0.5 + wave(t, -1.6) : [0, 6].includes(new Date(t).getUTCDay()) ? 0.75 : 1.08;
          const past = t > make.NOW.getTime() ? 0 : 1;
          return {
            at: new Date(t).toISOString(),
            amount: make.money((past * g.amount * shape * (0.95 + 0.1 * noise(t / step + i))) / at.length),
          };
        }),
      })),
    };
  }

  private lint(document: string): WireFinding[] {
    const lines = document.split("\n");
    const findings: WireFinding[] = [];
    const tab = lines.findIndex((l) => l.includes("\t"));
    if (tab >= 0) findings.push({ field: "", severity: "error", message: "tabs cannot indent YAML", line: tab + 1 });
    const max = lines.findIndex((l) => l.startsWith("max:"));
    if (max < 0) findings.push({ field: "max", severity: "error", message: "max is required" });
    else if (Number(lines[max]?.slice(4)) > 50) {
      findings.push({
        field: "max",
        severity: "warning",
        message: "more than 50 replicas is rarely meant",
        line: max + 1,
      });
    }
    return findings;
  }

  private resolve(id: string | undefined, state: WireDecision["state"]): FakeAnswer {
    const decision = this.decisions.find((d) => d.id === id);
    if (!decision) return missing();
    if (decision.state !== "proposed") return problem(409, "Conflict", "this decision is no longer a proposal");
    decision.state = state;
    decision.decided_by = "Sample Owner";
    decision.decided_at = new Date().toISOString();
    this.overview.decisions_24h.proposed = this.decisions.filter((d) => d.state === "proposed").length;
    return ok(decision);
  }

  private budgetOf(input: WireBudgetInput, n: number) {
    return make.aBudget(n, {
      name: input.name,
      amount: make.money(input.amount),
      thresholds: input.thresholds ?? [50, 80, 100],
      team: input.team,
      namespace: input.namespace,
      cluster_id: input.cluster_id,
      webhook_id: input.webhook_id,
      spent: make.money(0),
      spent_ratio: 0,
      forecast: null,
    });
  }

  private readonly routes: [string, string, Handler][] = [
    ["GET", "/me", () => ok(this.me)],
    [
      "POST",
      "/auth/login",
      (r) => {
        const { password } = r.body as { password: string };
        if (password === "wrong") return problem(401, "Unauthorized", "email or password is wrong");
        this.signedIn = true;
        return ok(this.me);
      },
    ],
    [
      "POST",
      "/auth/logout",
      () => {
        this.signedIn = false;
        return ok();
      },
    ],
    ["GET", "/overview", () => ok(this.overview)],
    [
      "GET",
      "/clusters",
      (r) =>
        ok(
          page(
            this.clusters.filter((c) => c.name.includes(r.query.get("q") ?? "")),
            r.query,
          ),
        ),
    ],
    [
      "POST",
      "/clusters",
      (r) => {
        const { name, mode } = r.body as Pick<WireCluster, "name" | "mode">;
        if (this.clusters.some((c) => c.name === name)) {
          return problem(409, "Conflict", "there is a cluster of this name");
        }
        const cluster = make.aCluster(this.clusters.length + 1, {
          ...this.clusters[3],
          id: make.uuid(3, this.clusters.length + 1),
          name,
          mode,
        });
        this.clusters.push(cluster);
        return ok(cluster);
      },
    ],
    ["GET", "/clusters/{id}", (_, p) => this.one(this.clusters, p.id)],
    [
      "PATCH",
      "/clusters/{id}",
      (r, p) => {
        const cluster = this.clusters.find((c) => c.id === p.id);
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
          helm_command: `helm upgrade --install plimsoll-agent deploy/helm/plimsoll-agent --namespace plimsoll --create-namespace --set endpoint=http://127.0.0.1:8080 --set clusterName=${this.clusters.find((c) => c.id === p.id)?.name} --set enrolment.token=fake-token-for-development-only`,
        }),
    ],
    ["GET", "/clusters/{id}/capacity-map", (_, p) => ok(this.planned(p.id) ? capacity.aCapacityMap() : { at: null })],
    [
      "GET",
      "/clusters/{id}/capacity-plan",
      (_, p) => ok({ plan: this.planned(p.id) ? capacity.aCapacityPlan() : null }),
    ],
    [
      "GET",
      "/clusters/{id}/checkpoints",
      (_, p) => ok(this.planned(p.id) ? capacity.checkpoints() : { told: false, items: [] }),
    ],
    ["GET", "/clusters/{id}/capacity-plans", (_, p) => ok(this.planned(p.id) ? capacity.capacityPlans() : list([]))],
    ["GET", "/clusters/{id}/pending-pods", (_, p) => ok(this.planned(p.id) ? capacity.pendingPods() : { at: null })],
    [
      "GET",
      "/clusters/{id}/conflicts",
      (_, p) => ok(this.planned(p.id) ? capacity.conflicts(make.uuid(5, 1)) : list([])),
    ],
    ["GET", "/clusters/{id}/nodes", (r, p) => ok(page(p.id === make.uuid(3, 4) ? [] : this.nodes, r.query))],
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
              message:
                ["the machine goes in 120 s", "pulling the model image", "no node fits: 4 lack GPUs"][i % 3] ?? "",
            })).filter((e) => !r.query.get("kind") || e.kind === r.query.get("kind")),
            r.query,
          ),
        ),
    ],
    [
      "GET",
      "/workloads",
      (r) => {
        const is = (name: string, value: string) => !r.query.get(name) || r.query.get(name) === value;
        return ok(
          page(
            this.workloads.filter(
              (w) =>
                w.key.includes(r.query.get("q") ?? "") &&
                is("cluster", w.cluster_id) &&
                is("namespace", w.namespace) &&
                is("team", w.team),
            ),
            r.query,
          ),
        );
      },
    ],
    ["GET", "/workloads/{id}", (_, p) => this.one(this.workloads, p.id)],
    [
      "GET",
      "/workloads/{id}/timeline",
      (r, p) => {
        const workload = this.workloads.find((w) => w.id === p.id);
        return workload ? ok(this.timeline(r.query, workload)) : missing();
      },
    ],
    [
      "GET",
      "/workloads/{id}/forecast",
      (r, p) => {
        const workload = this.workloads.find((w) => w.id === p.id);
        return workload ? ok(make.aForecast(r.query, workload)) : missing();
      },
    ],
    ["GET", "/workloads/{id}/tunings", () => ok(this.tunings.list())],
    [
      "POST",
      "/workloads/{id}/tunings/{tuning}/dismiss",
      (_, p) => {
        this.tunings.dismiss(p.tuning ?? "");
        return ok();
      },
    ],
    ["GET", "/workloads/{id}/hints", (r) => ok(this.hints.list(r.query.get("past") === "true"))],
    ["POST", "/workloads/{id}/hints", (r) => ok(this.hints.add(r.body as object))],
    [
      "DELETE",
      "/workloads/{id}/hints/{hint}",
      (_, p) => {
        this.hints.remove(p.hint ?? "");
        return ok();
      },
    ],
    [
      "GET",
      "/workloads/{id}/policy",
      (_, p) =>
        ok(
          this.policies.get(p.id ?? "")?.[0] ??
            make.aPolicy(0, { document: "", mode: "observe", created_by: "", created_at: null }),
        ),
    ],
    [
      "PUT",
      "/workloads/{id}/policy",
      (r, p) => {
        const { document } = r.body as { document: string };
        const versions = this.policies.get(p.id ?? "") ?? [];
        const newest = versions[0]?.version ?? 0;
        if (r.headers["if-match"] !== `"${newest}"`) {
          return problem(409, "Conflict", "the policy was changed meanwhile");
        }
        const errors = this.lint(document).filter((f) => f.severity === "error");
        if (errors.length > 0) {
          return problem(
            422,
            "Unprocessable Entity",
            "the policy cannot be used as it is",
            errors.map((e) => ({ location: `body.document.${e.field}`, message: e.message })),
          );
        }
        const saved = make.aPolicy(newest + 1, { document, created_at: new Date().toISOString() });
        this.policies.set(p.id ?? "", [saved, ...versions]);
        return ok(saved);
      },
    ],
    ["GET", "/workloads/{id}/rollouts", (_, p) => ok(list(this.rollouts.filter((r) => r.workload_id === p.id)))],
    [
      "POST",
      "/workloads/{id}/rollouts",
      (r, p) => {
        const body = r.body as { document: string; shadow_seconds: number; replay_override?: string };
        if (!body.replay_override && !this.tunings.items.some((x) => x.document === body.document)) {
          return problem(409, "Conflict", "the policy was never replayed", [
            { location: "body.replay_override", message: "say why it cannot wait" },
          ]);
        }
        const made = make.aRollout(p.id ?? "", { ...body, reason: body.replay_override ?? "" });
        this.rollouts.unshift(made);
        return { status: 201, body: made };
      },
    ],
    [
      "POST",
      "/rollouts/{id}/rollback",
      (_, p) => {
        const found = this.rollouts.find((r) => r.id === p.id);
        if (!found) return missing();
        Object.assign(found, { state: found.state === "shadow" ? "cancelled" : "rolled_back" });
        return ok(found);
      },
    ],
    ["GET", "/workloads/{id}/policy/versions", (_, p) => ok(list(this.policies.get(p.id ?? "") ?? []))],
    ["POST", "/policies/lint", (r) => ok({ findings: this.lint((r.body as { document: string }).document) })],
    [
      "GET",
      "/policies/presets",
      () =>
        ok(
          list([
            {
              name: "llm-queue",
              about: "Serving of language models: sized by requests per replica.",
              document: make.aPolicy(1).document,
            },
            {
              name: "static",
              about: "Fixed thresholds for a known load.",
              document: "mode: recommend\nmin: 1\nmax: 6\n",
            },
          ]),
        ),
    ],
    [
      "GET",
      "/decisions",
      (r) => {
        const words = (name: string) => (r.query.get(name) ?? "").split(",").filter(Boolean);
        const fits = (name: string, value: string) => words(name).length === 0 || words(name).includes(value);
        return ok(
          page(
            this.decisions.filter(
              (d) =>
                fits("state", d.state) &&
                fits("outcome", d.outcome) &&
                fits("workload", d.workload_id) &&
                fits("cluster", d.cluster_id),
            ),
            r.query,
          ),
        );
      },
    ],
    [
      "GET",
      "/decisions/{id}",
      (_, p) => {
        const decision = this.decisions.find((d) => d.id === p.id);
        return decision ? ok(make.aDecisionDetail(1, decision)) : missing();
      },
    ],
    ["POST", "/decisions/{id}/approve", (_, p) => this.resolve(p.id, "approved")],
    ["POST", "/decisions/{id}/reject", (_, p) => this.resolve(p.id, "rejected")],
    ["POST", "/decisions/{id}/recompute", () => ok({ equal: true })],
    [
      "GET",
      "/cost/allocations",
      (r) => {
        const groups = this.costGroups(r.query);
        const total = groups.reduce((sum, g) => sum + g.amount, 0);
        return ok({
          from: r.query.get("from") ?? "",
          to: r.query.get("to") ?? "",
          aggregate: r.query.get("aggregate") ?? "team",
          idle: r.query.get("idle") ?? "separate",
          basis: r.query.get("basis") ?? "effective",
          basis_unknown: make.money(0),
          total: make.money(total),
          previous_total: make.money(total * 1.07),
          unpriced_share: 0.004,
          last_closed: make.before(80),
          open_hours: 1,
          items: groups.map((g) =>
            make.anAllocation(g.key, g.amount, { ...g, amount: make.money(g.amount), share: g.amount / total }),
          ),
        });
      },
    ],
    ["GET", "/cost/timeseries", (r) => ok(this.series(r.query))],
    ...finopsRoutes,
    ["GET", "/bills", () => ok(list(this.bills))],
    [
      "POST",
      "/bills",
      (r) => {
        const known = this.bills.some((b) => b.name === r.query.get("name"));
        if (!known)
          this.bills.push(
            bill.aBill({ id: make.uuid(71, 900 + this.bills.length), name: r.query.get("name") ?? "bill" }),
          );
        return { status: 201, body: { bill: this.bills.at(-1), known, replaced: [] } };
      },
    ],
    ["DELETE", "/bills/{id}", (_, p) => this.drop(this.bills, p.id)],
    ["GET", "/reconciliation", (r) => ok(bill.aReconciliation(r.query.get("from"), r.query.get("to")))],
    ["GET", "/restatements", () => ok(list(this.restatements))],
    [
      "POST",
      "/restatements",
      (r) => {
        const { from, to } = r.body as { from: string; to: string };
        this.restatements.push(bill.aRestatement({ id: make.uuid(71, 950 + this.restatements.length), from, to }));
        return { status: 201, body: this.restatements.at(-1) };
      },
    ],
    [
      "POST",
      "/restatements/{id}/undo",
      (_, p) => {
        const found = this.restatements.find((x) => x.id === p.id);
        if (!found) return missing();
        found.undone_at = make.before(0);
        return ok(found);
      },
    ],
    ["GET", "/budgets", () => ok(list(this.budgets))],
    [
      "POST",
      "/budgets",
      (r) => {
        const budget = this.budgetOf(r.body as WireBudgetInput, this.budgets.length + 1);
        this.budgets.push(budget);
        return ok(budget);
      },
    ],
    [
      "PUT",
      "/budgets/{id}",
      (r, p) => {
        const at = this.budgets.findIndex((b) => b.id === p.id);
        if (at < 0) return missing();
        const budget = { ...this.budgetOf(r.body as WireBudgetInput, at + 1), id: p.id ?? "" };
        this.budgets[at] = budget;
        return ok(budget);
      },
    ],
    ["DELETE", "/budgets/{id}", (_, p) => this.drop(this.budgets, p.id)],
    ["POST", "/budgets/{id}/reset-breaker", (_, p) => ok(this.budgets.find((b) => b.id === p.id))],
    ["GET", "/channels", () => ok(list(telling.channels))],
    ["POST", "/channels", (r) => ok({ ...telling.channels[0], ...(r.body as object), secret: "fake-signing-secret" })],
    ["POST", "/channels/{id}/test", () => ok(make.aDelivery(90, { state: "pending", event: "test" }))],
    ["POST", "/channels/{id}/rotate", () => ok({ ...telling.channels[0], secret: "fake-signing-secret" })],
    ["DELETE", "/channels/{id}", () => ok(undefined)],
    ["GET", "/channels/{id}/deliveries/{delivery}/attempts", () => ok(list(telling.attempts))],
    ["GET", "/notify-routes", () => ok(list(telling.routes))],
    ["POST", "/notify-routes", () => ok(telling.routes[0])],
    ["DELETE", "/notify-routes/{id}", () => ok(undefined)],
    ["GET", "/silences", () => ok(list(telling.silences))],
    ["POST", "/silences", () => ok(telling.silences[0])],
    ["POST", "/silences/{id}/end", () => ok(undefined)],
    ["GET", "/digests", () => ok(list(telling.digests))],
    ["PUT", "/digests/{id}/{every}", () => ok(undefined)],
    ["DELETE", "/digests/{id}/{every}", () => ok(undefined)],
    ["GET", "/anomalies", (r) => ok({ ...page(telling.anomalies, r.query), looked_over_to: "2026-11-14" })],
    ["POST", "/anomalies/{id}/acknowledge", () => ok({ ...telling.anomalies[0], acknowledged_by: "Mei Tanaka" })],
    ["GET", "/webhooks", () => ok(list(this.webhooks))],
    [
      "POST",
      "/webhooks",
      (r) => {
        const webhook = make.aWebhook(this.webhooks.length + 1, r.body as { name: string; url: string });
        this.webhooks.push(webhook);
        return ok({ ...webhook, secret: "fake-signing-secret" });
      },
    ],
    ["POST", "/webhooks/{id}/test", () => ok(make.aDelivery(90, { state: "pending", event: "test" }))],
    ["POST", "/webhooks/{id}/deliveries/{delivery}/redeliver", () => ok(make.aDelivery(91, { state: "pending" }))],
    ["DELETE", "/webhooks/{id}", (_, p) => this.drop(this.webhooks, p.id)],
    [
      "GET",
      "/webhooks/{id}/deliveries",
      (r) =>
        ok(
          page(
            Array.from({ length: 12 }, (_, i) =>
              make.aDelivery(
                i + 1,
                i % 5 === 2
                  ? { state: "failed", attempts: 8, last_status: null, last_error: "connection refused" }
                  : i === 0
                    ? { state: "pending", attempts: 2, last_status: 503, finished_at: null }
                    : {},
              ),
            ),
            r.query,
          ),
        ),
    ],
    [
      "GET",
      "/alerts",
      (r) =>
        ok(
          page(
            this.alerts.filter((a) => r.query.get("open") !== "true" || !a.resolved_at),
            r.query,
          ),
        ),
    ],
    ["GET", "/members", () => ok(list(this.members))],
    [
      "POST",
      "/members",
      (r) => {
        const { email, role } = r.body as { email: string; role: WireMember["role"] };
        const member: WireMember = {
          id: make.uuid(1, this.members.length + 1),
          email,
          display_name: email,
          role,
          disabled: false,
          joined_at: new Date().toISOString(),
        };
        this.members.push(member);
        return ok(member);
      },
    ],
    [
      "PATCH",
      "/members/{id}",
      (r, p) => {
        const member = this.members.find((m) => m.id === p.id);
        if (!member) return missing();
        Object.assign(member, r.body);
        return ok(member);
      },
    ],
    ["DELETE", "/members/{id}", (_, p) => this.drop(this.members, p.id)],
    ["GET", "/api-keys", () => ok(list(this.keys))],
    [
      "POST",
      "/api-keys",
      (r) => {
        const { name, role, expires_at } = r.body as { name: string; role: WireApiKey["role"]; expires_at?: string };
        const key: WireApiKey = {
          id: make.uuid(12, this.keys.length + 1),
          name,
          role,
          hint: "f4k3",
          created_by: make.uuid(1, 1),
          created_at: new Date().toISOString(),
          expires_at: expires_at ?? null,
          last_used_at: null,
        };
        this.keys.unshift(key);
        return ok({ ...key, secret: "fake-api-key" });
      },
    ],
    ["DELETE", "/api-keys/{id}", (_, p) => this.drop(this.keys, p.id)],
    ["GET", "/audit", (r) => ok(page(this.audit, r.query))],
    [
      "GET",
      "/audit/verification",
      () => ok({ entries: this.audit.length, intact: true, broken_at: null, head: "00".repeat(32) }),
    ],
    ["GET", "/demo/speed", () => (this.me.demo ? ok({ speed: this.speed }) : missing())],
    [
      "PUT",
      "/demo/speed",
      (r) => {
        this.speed = (r.body as { speed: number }).speed;
        return ok({ speed: this.speed });
      },
    ],
  ];

  /** Whether a cluster has a capacity plan: the third never reported. */
  private planned(cluster: string | undefined): boolean {
    return cluster !== make.uuid(3, 4);
  }

  private one<T extends { id: string }>(items: T[], id: string | undefined): FakeAnswer {
    const item = items.find((i) => i.id === id);
    return item ? ok(item) : missing();
  }

  private drop<T extends { id: string }>(items: T[], id: string | undefined): FakeAnswer {
    const at = items.findIndex((i) => i.id === id);
    if (at < 0) return missing();
    items.splice(at, 1);
    return ok();
  }

  /** Answers a request as the service would. */
  handle(request: FakeRequest): FakeAnswer {
    this.calls.push(request);
    const override = this.overrides.get(`${request.method} ${request.path}`);
    if (override) return override;
    if (!this.signedIn && request.path !== "/auth/login") {
      return problem(401, "Unauthorized", "sign in, or send an API key");
    }
    for (const [method, pattern, handler] of [
      ...this.routes,
      ...this.market.routes,
      ...this.cloudGroups.routes,
      ...this.karpenter.routes,
      ...this.capacityPolicy.routes,
      ...this.services.routes,
    ]) {
      if (method !== request.method) continue;
      const names = [...pattern.matchAll(/\{(\w+)\}/g)].map((m) => m[1] ?? "");
      const match = new RegExp(`^${pattern.replaceAll(/\{\w+\}/g, "([^/]+)")}$`).exec(request.path);
      if (match) return handler(request, Object.fromEntries(names.map((n, i) => [n, match[i + 1] ?? ""])));
    }
    return problem(404, "Not Found", `there is nothing at ${request.path}`);
  }
}
