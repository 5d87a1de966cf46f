// Factories of wire values: each gives a whole, plausible value, and takes what a test wants different.
import type {
  WireAlert,
  WireAllocation,
  WireBudget,
  WireCluster,
  WireDecision,
  WireDecisionDetail,
  WireDelivery,
  WireForecast,
  WireMe,
  WireMoney,
  WireNode,
  WireOverview,
  WirePolicyVersion,
  WireReason,
  WireRollout,
  WireSignal,
  WireWebhook,
  WireWorkload,
} from "../api/wire";

export const NOW = new Date("2026-11-27T14:20:00Z");

/** A stable id that looks like the service's. */
export function uuid(kind: number, n: number): string {
  return `${kind.toString(16).padStart(8, "0")}-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;
}

export function money(amount: string | number): WireMoney {
  return { amount: typeof amount === "number" ? amount.toFixed(9) : amount, currency: "USD" };
}

export function before(minutes: number): string {
  return new Date(NOW.getTime() - minutes * 60_000).toISOString();
}

export function aMe(over: Partial<WireMe> = {}): WireMe {
  return {
    kind: "user",
    user: { id: uuid(1, 1), email: "owner@example.com", display_name: "Sample Owner" },
    tenant: { id: uuid(2, 1), name: "Example tenant", currency: "USD", time_zone: "Europe/Amsterdam" },
    role: "owner",
    data_now: NOW.toISOString(),
    demo: true,
    ...over,
  };
}

export function aCluster(n: number, over: Partial<WireCluster> = {}): WireCluster {
  return {
    id: uuid(3, n),
    name: `cluster-${n}`,
    created_at: before(60 * 24 * 15),
    mode: "enforce",
    frozen: false,
    simulated_clock: false,
    clock_speed: 1,
    agent_version: "0.1.0",
    kubernetes_version: "v1.37.2",
    capabilities: ["inventory", "gpu", "scale", "pod_metrics"],
    agent_limits: { max_replicas: 200, max_replicas_per_workload: 40, max_actions_per_minute: 30, frozen: false },
    skew_ms: 120,
    last_seen_at: new Date(Date.now() - 4000).toISOString(),
    data_at: NOW.toISOString(),
    generation: 1841 + n,
    applied_generation: 1841 + n,
    health: "online",
    nodes: 14,
    gpus: 56,
    workloads: 6,
    cost_hour: money(184.32),
    unpriced_nodes: 0,
    ...over,
  };
}

export function aNode(n: number, over: Partial<WireNode> = {}): WireNode {
  return {
    uid: uuid(4, n),
    name: `gpu-a100-${n}`,
    pool: "gpu-stable",
    cloud: "aws",
    region: "us-east-1",
    zone: "us-east-1a",
    instance_type: "p4d.24xlarge",
    purchase: "on_demand",
    phase: "ready",
    started_at: before(900),
    ready_at: before(895),
    pods: 6,
    cpu_milli: 96_000,
    cpu_milli_allocated: 61_000,
    memory_mib: 1_179_648,
    memory_mib_allocated: 620_000,
    gpu_model: "A100-40GB",
    gpu_count: 8,
    gpu_allocated: 6,
    cost_hour: money("32.7726"),
    ...over,
  };
}

export function aSignal(value: number, over: Partial<WireSignal> = {}): WireSignal {
  return { value, age_seconds: 8, truth: "fresh", ...over };
}

export function aWorkload(n: number, over: Partial<WireWorkload> = {}): WireWorkload {
  return {
    id: uuid(5, n),
    cluster_id: uuid(3, 1),
    cluster_name: "cluster-1",
    key: `chat/Deployment/model-${n}`,
    namespace: "chat",
    kind: "Deployment",
    name: `model-${n}`,
    team: "assistant",
    class: "gold",
    labels: {},
    cpu_milli: 8000,
    mem_mib: 65_536,
    gpu_milli: 1000,
    replicas: 12,
    ready: 11,
    starting: 1,
    draining: 0,
    scalable: true,
    mode: "enforce",
    policy_version: 3,
    min: 2,
    max: 24,
    signals: {
      request_rate: aSignal(84.2),
      queue_length: aSignal(3),
      latency_p99_seconds: aSignal(1.84),
      gpu_sm_active_ratio: aSignal(0.68),
    },
    last_decision: {
      id: uuid(6, n),
      at: before(6),
      outcome: "scale_up",
      binding: "queue",
      target: 12,
      state: "applied",
    },
    cost_hour: money("49.1589"),
    replica_hour: money("5.4621"),
    preflight: [],
    writers: [],
    data_at: NOW.toISOString(),
    gone_at: null,
    ...over,
  };
}

export function aDecision(n: number, over: Partial<WireDecision> = {}): WireDecision {
  return {
    id: uuid(6, n),
    at: before(6 + n * 11),
    plan_id: uuid(7, n),
    cluster_id: uuid(3, 1),
    workload_id: uuid(5, 1),
    key: "chat/Deployment/model-1",
    outcome: "scale_up",
    from_replicas: 9,
    needed: 15,
    target: 12,
    binding: "queue",
    state: "applied",
    cost_delta_hour: money("12.289725"),
    expires_at: before(-11),
    decided_by: null,
    decided_at: null,
    before_replicas: 9,
    after_replicas: 12,
    result_code: "done",
    result_detail: null,
    finished_at: before(5 + n * 11),
    ...over,
  };
}

export function aReason(code: string, from: number, to: number, over: Partial<WireReason> = {}): WireReason {
  return { code, from, to, numbers: {}, ...over };
}

export function aDecisionDetail(n: number, over: Partial<WireDecisionDetail> = {}): WireDecisionDetail {
  const base = aDecision(n, over);
  return {
    ...base,
    detail: {
      at: base.at,
      expires_at: base.expires_at,
      workload: base.workload_id,
      cost_delta_nano: null,
      key: base.key,
      outcome: base.outcome,
      from: base.from_replicas,
      ready: base.from_replicas,
      needed: base.needed,
      target: base.target,
      min: 2,
      max: 24,
      mode: base.state === "proposed" ? "approve" : "enforce",
      binding: base.binding,
      policy_version: 3,
      reasons:
        base.from_replicas !== 9
          ? [aReason(base.binding, base.from_replicas, base.target, { binding: true })]
          : [
              aReason("queue", 9, 15, {
                signal: "queue_length",
                numbers: { waiting: 112, running: 118, target_per_replica: 16 },
              }),
              aReason("latency_high", 9, 12, {
                signal: "ttft_p99_seconds",
                numbers: { value: 2.91, target: 2, threshold: 2.4, rate_change: 0.22 },
              }),
              aReason("largest_need", 9, 15, { signal: "queue_length", numbers: { rules: 2 } }),
              aReason("step_up", 15, 12, { numbers: { limit: 12 }, binding: true }),
            ],
      inputs: [
        {
          name: "queue_length",
          raw: 124,
          filtered: 112,
          age_seconds: 6,
          truth: "fresh",
          samples: 11,
          target: 16,
          needed: 15,
        },
        {
          name: "running_requests",
          raw: 117,
          filtered: 118,
          age_seconds: 6,
          truth: "fresh",
          samples: 11,
          target: 16,
          needed: null,
        },
        {
          name: "ttft_p99_seconds",
          raw: 3.02,
          filtered: 2.91,
          age_seconds: 6,
          truth: "fresh",
          samples: 11,
          target: 2,
          needed: 12,
        },
        {
          name: "request_rate",
          raw: 88.4,
          filtered: 84.2,
          age_seconds: 66,
          truth: "stale",
          samples: 4,
          outlier: true,
          target: 0,
          needed: null,
        },
      ],
      alternatives: [
        { replicas: 9, cost_hour_nano: 36_869_175_000, load_ratio: 1.597, rejected: "smaller_is_late" },
        { replicas: 11, cost_hour_nano: 45_062_325_000, load_ratio: 1.307, rejected: "smaller_is_late" },
        { replicas: 13, cost_hour_nano: 53_255_475_000, load_ratio: 1.106, rejected: "step_up" },
        { replicas: 15, cost_hour_nano: 61_448_625_000, load_ratio: 0.958, rejected: "step_up" },
      ],
    },
    plan: {
      id: uuid(7, n),
      generation: 1841,
      parent_id: uuid(7, n + 1),
      mode: "enforce",
      input_hash: "4f1c0b6f3d0e6f0c9a0b1f6b7f4f6d1f7b1f3f3b1f2b6a7c8d9e0f1a2b3c4d5e",
    },
    ...over,
  };
}

/** A workload under an SLO rule with a band over the range asked for; the first workload has one, the others have none. */
export function aForecast(query: URLSearchParams, workload: WireWorkload): WireForecast {
  const account = (mean: number, late: number, cycles: number) => ({
    want: Math.ceil(mean),
    mean_replicas: mean,
    late,
    cycles_per_hour: cycles,
    cost_hour: money(mean * 5.4621),
  });
  const none: WireForecast = {
    status: "none",
    at: null,
    began: "",
    began_at: null,
    objective: 0,
    aim: 0,
    late_seconds: 0,
    lead_seconds: 0,
    hours: 0,
    half_life_days: 0,
    now: null,
    in_charge: null,
    runner_up: null,
    own: null,
    hpa_70: null,
    band: [],
  };
  if (workload.id !== uuid(5, 1)) return none;
  const step = 300_000;
  const band: WireForecast["band"] = [];
  const last = NOW.getTime() - 60_000;
  const from = Math.max(Date.parse(query.get("from") ?? ""), last - 48 * 3_600_000);
  for (let t = Math.ceil(from / step) * step; t <= last + step; t += step) {
    const demand = 5 + 3 * Math.sin(t / 9_000_000) + Math.sin(t / 700_000);
    const known = t <= last;
    band.push({
      at: new Date(t).toISOString(),
      middle: demand + 0.2,
      upper: demand + 1.9,
      demand: known ? demand + 0.4 * Math.sin(t / 200_000) : null,
      want: known ? Math.ceil(demand + 1.9) : null,
      hpa_70: known ? Math.ceil(demand / 0.7) + 1 : null,
    });
  }
  return {
    ...none,
    status: "ready",
    at: new Date(last).toISOString(),
    began: "new",
    began_at: before(60 * 24 * 9),
    objective: 0.01,
    aim: 0.006,
    late_seconds: 5,
    lead_seconds: 195,
    hours: 216,
    half_life_days: 3,
    now: { demand: 6.1, level: 6.3, middle: 6.4, upper: 8.3, need: 9, want: 10, backlog_replica_seconds: 0 },
    in_charge: {
      method: "trend",
      quantile: 0.94,
      hold_seconds: 600,
      expected_late: 0.0048,
      ...account(8.2, 0.0041, 0.6),
    },
    runner_up: {
      method: "linear",
      quantile: 0.96,
      hold_seconds: 300,
      expected_late: 0.0052,
      ...account(8.4, 0.0047, 0.9),
    },
    own: account(8.3, 0.0045, 0.7),
    hpa_70: account(10.6, 0.0131, 1.8),
    band,
  };
}

export function aRollout(workload: string, over: Partial<WireRollout> = {}): WireRollout {
  return {
    id: uuid(16, 1),
    workload_id: workload,
    document: "mode: enforce\nmax: 9\n",
    base_version: 3,
    version: null,
    state: "shadow",
    shadow_seconds: 3600,
    canary_seconds: 3600,
    canary_share: 0.25,
    canary_floor: null,
    replay_id: null,
    reason: "",
    stage_at: before(30),
    before_late_ratio: null,
    before_error_ratio: null,
    after_late_ratio: null,
    after_error_ratio: null,
    shadow: {
      decisions: 120,
      same: 90,
      more: 10,
      fewer: 20,
      blind: 0,
      ratio: 0.93,
      last_target: 4,
      last_in_force: 5,
      last_reason: "load",
    },
    outcome: "",
    created_by: "user:demo",
    created_at: before(30),
    finished_at: null,
    ...over,
  };
}

export function aPolicy(version: number, over: Partial<WirePolicyVersion> = {}): WirePolicyVersion {
  return {
    version,
    document: `mode: enforce
min: 2
max: ${20 + version}
queue:
  target_per_replica: 16
  include_running: true
  max_age_seconds: 10
latency:
  signal: ttft_p99_seconds
  target_seconds: 2
down:
  stabilisation_seconds: 600
  cooldown_seconds: 300
  steps:
    - {type: percent, value: 25, period_seconds: 300}
`,
    mode: "enforce",
    created_by: "user:demo",
    created_at: before(60 * 24 * (5 - version)),
    findings: [],
    ...over,
  };
}

export function anOverview(over: Partial<WireOverview> = {}): WireOverview {
  return {
    data_now: NOW.toISOString(),
    currency: "USD",
    cost: {
      today: money("2418.339421"),
      month_to_date: money("98237.118203114"),
      previous_same_span: money("107611.9"),
      forecast_month: money("109870.4"),
      unpriced_share: 0,
      idle_share: 0.183,
    },
    slo: {
      late_ratio_24h: 0.0042,
      worst: [
        { workload_id: uuid(5, 2), key: "vision/Deployment/image-gen", late_ratio: 0.0183 },
        { workload_id: uuid(5, 1), key: "chat/Deployment/model-1", late_ratio: 0.0061 },
        { workload_id: uuid(5, 4), key: "chat/Deployment/embed", late_ratio: 0.0009 },
      ],
    },
    savings: { month_to_date: money("61204.77") },
    replicas: { ready: 61, desired: 63 },
    gpus: { total: 96, allocated: 74, sm_active_ratio: 0.61 },
    clusters: { online: 2, offline: 1 },
    decisions_24h: { scale_up: 41, scale_down: 37, hold: 212, proposed: 2, capped: 3 },
    alerts_open: 2,
    cost_by_day: Array.from({ length: 30 }, (_, i) => {
      const day = new Date(NOW.getTime() - (29 - i) * 86_400_000);
      const weekend = [0, 6].includes(day.getUTCDay()) ? 0.72 : 1;
      const amount = i === 29 ? 2418.34 : (3600 + 420 * Math.sin(i / 3)) * weekend;
      return { day: day.toISOString().slice(0, 10), amount: money(amount) };
    }),
    ...over,
  };
}

export function anAllocation(key: string, amount: number, over: Partial<WireAllocation> = {}): WireAllocation {
  return {
    key,
    name: key,
    kind: "workload",
    amount: money(amount),
    cpu: money(amount * 0.12),
    memory: money(amount * 0.08),
    gpu: money(amount * 0.8),
    share: 0,
    previous: money(amount * 0.93),
    core_hours: amount / 2,
    gib_hours: amount * 2,
    gpu_hours: amount / 4.1,
    efficiency: 0.64,
    unpriced: false,
    ...over,
  };
}

export function aBudget(n: number, over: Partial<WireBudget> = {}): WireBudget {
  return {
    id: uuid(8, n),
    name: `Budget ${n}`,
    team: "assistant",
    amount: money(60_000),
    thresholds: [50, 80, 100],
    webhook_id: uuid(9, 1),
    created_at: before(60 * 24 * 20),
    spent: money(41_233.12),
    spent_ratio: 0.687,
    forecast: money(52_871.4),
    forecast_ratio: 0.881,
    crossed: [{ basis: "actual", percent: 50 }],
    period_start: "2026-11-01T00:00:00Z",
    period_end: "2026-12-01T00:00:00Z",
    period: "month",
    forecast_low: money(49_900),
    forecast_high: money(56_300),
    forecast_error: 0.071,
    forecast_test_origins: 14,
    forecast_test_hours: 168,
    usual_hour: money(62.4),
    allowed_hour: money(91.3),
    checked_at: before(3),
    enforced: false,
    breaker: null,
    ...over,
  };
}

export function aWebhook(n: number, over: Partial<WireWebhook> = {}): WireWebhook {
  return {
    id: uuid(9, n),
    name: `platform-alerts-${n}`,
    url: `https://hooks.example.com/plimsoll/${n}`,
    created_at: before(60 * 24 * 12),
    ...over,
  };
}

export function aDelivery(n: number, over: Partial<WireDelivery> = {}): WireDelivery {
  return {
    id: uuid(10, n),
    webhook_id: uuid(9, 1),
    alert_id: uuid(11, n),
    event: "alert.opened",
    event_id: uuid(13, n),
    payload: {},
    state: "delivered",
    attempts: 1,
    last_status: 204,
    created_at: before(n * 190),
    finished_at: before(n * 190 - 1),
    ...over,
  };
}

export function anAlert(n: number, over: Partial<WireAlert> = {}): WireAlert {
  return {
    id: uuid(11, n),
    kind: "budget_threshold",
    subject: `budget/${uuid(8, 1)}/actual/50`,
    severity: "warning",
    opened_at: before(n * 300),
    resolved_at: null,
    told: [{ event: "alert.opened", state: "told", channels: 1, at: before(n * 300) }],
    detail: { name: "Budget 1", basis: "actual", percent: 50, limit: "60000.00", figure: "30120.55", currency: "USD" },
    ...over,
  };
}
