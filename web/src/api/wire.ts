// The wire as the REST contract says it: snake_case, times as RFC 3339, money as a decimal string with its currency. Only api/ and
// the fake server may import this; everything else sees the domain types that api/ makes of it.

export interface WireMoney {
  amount: string;
  currency: string;
}

export interface WireList<T> {
  items: T[] | null;
  next_cursor?: string;
}

export type WireRole = "owner" | "admin" | "operator" | "finance" | "viewer";
export type WireMode = "observe" | "recommend" | "approve" | "enforce";
export type WireOutcome = "scale_up" | "scale_down" | "hold";
export type WireTruth = "fresh" | "stale" | "missing" | "conflicting";

export interface WireMe {
  kind: "user" | "key";
  user?: { id: string; email: string; display_name: string };
  tenant: { id: string; name: string; currency: string; time_zone: string };
  role: WireRole;
  data_now: string;
  demo: boolean;
}

export interface WireCluster {
  id: string;
  name: string;
  mode: WireMode;
  frozen: boolean;
  simulated_clock: boolean;
  clock_speed: number;
  agent_version: string;
  kubernetes_version: string;
  capabilities: string[] | null;
  agent_limits: {
    max_replicas: number;
    max_replicas_per_workload: number;
    max_actions_per_minute: number;
    frozen: boolean;
    mode?: string;
  };
  skew_ms: number;
  last_seen_at?: string | null;
  data_at?: string | null;
  generation: number;
  applied_generation: number;
  health: "online" | "lagging" | "offline" | "never";
  nodes: number;
  gpus: number;
  workloads: number;
  cost_hour?: WireMoney | null;
  unpriced_nodes: number;
}

export interface WireEnrolmentToken {
  token: string;
  expires_at: string;
  helm_command: string;
}

export interface WireNode {
  uid: string;
  cloud: string;
  region: string;
  started_at: string;
  name: string;
  pool: string;
  instance_type: string;
  zone: string;
  purchase: "on_demand" | "spot" | "reserved";
  phase: "booting" | "ready" | "draining" | "not_ready" | "terminated";
  gpu_model: string;
  gpu_count: number;
  gpu_allocated: number;
  cpu_milli: number;
  cpu_milli_allocated: number;
  memory_mib: number;
  memory_mib_allocated: number;
  cost_hour?: WireMoney | null;
  pods: number;
}

export interface WireClusterEvent {
  at: string;
  kind: string;
  object: string;
  workload: string;
  reason: string;
  message: string;
}

export interface WireSignal {
  value?: number | null;
  age_seconds?: number | null;
  truth: WireTruth;
}

export interface WireWorkload {
  id: string;
  cluster_id: string;
  cluster_name: string;
  key: string;
  namespace: string;
  kind: string;
  name: string;
  team: string;
  class: "gold" | "standard" | "economy";
  cpu_milli: number;
  mem_mib: number;
  gpu_milli: number;
  replicas: number;
  ready: number;
  starting: number;
  draining: number;
  scalable: boolean;
  mode?: WireMode | null;
  policy_version?: number | null;
  min?: number | null;
  max?: number | null;
  signals: Record<string, WireSignal> | null;
  last_decision?: {
    id: string;
    at: string;
    outcome: WireOutcome;
    binding: string;
    target: number;
    state: WireDecisionState;
  } | null;
  cost_hour?: WireMoney | null;
  preflight: string[] | null;
  writers: { manager: string; object: string; field: string; at: string }[] | null;
  data_at?: string | null;
  gone_at?: string | null;
}

export interface WireTimelinePoint {
  at: string;
  replicas?: number | null;
  ready?: number | null;
  starting?: number | null;
  request_rate?: number | null;
  queue_length?: number | null;
  running_requests?: number | null;
  latency_p50_seconds?: number | null;
  latency_p99_seconds?: number | null;
  ttft_p99_seconds?: number | null;
  gpu_sm_active_ratio?: number | null;
  kv_cache_ratio?: number | null;
  cpu_ratio?: number | null;
  error_ratio?: number | null;
  late_ratio?: number | null;
}

export interface WireTimeline {
  step_seconds: number;
  points: WireTimelinePoint[] | null;
  decisions:
    | {
        id: string;
        at: string;
        outcome: WireOutcome;
        from: number;
        target: number;
        needed: number;
        binding: string;
        state: WireDecisionState;
      }[]
    | null;
}

export interface WireFinding {
  field: string;
  severity: "error" | "warning";
  message: string;
  line?: number;
}

export interface WirePolicyVersion {
  version: number;
  document: string;
  mode: WireMode;
  created_by: string;
  created_at?: string | null;
  findings?: WireFinding[] | null;
}

export type WireDecisionState =
  | "noted"
  | "proposed"
  | "approved"
  | "rejected"
  | "expired"
  | "dispatched"
  | "applied"
  | "refused"
  | "failed"
  | "superseded";

export interface WireDecision {
  id: string;
  at: string;
  cluster_id: string;
  workload_id: string;
  key: string;
  outcome: WireOutcome;
  from_replicas: number;
  needed: number;
  target: number;
  binding: string;
  state: WireDecisionState;
  cost_delta_hour?: WireMoney | null;
  expires_at?: string | null;
  decided_by?: string | null;
  decided_at?: string | null;
  before_replicas?: number | null;
  after_replicas?: number | null;
  result_code?: string | null;
  result_detail?: string | null;
  finished_at?: string | null;
}

export interface WireReason {
  code: string;
  signal?: string;
  from: number;
  to: number;
  numbers?: Record<string, number> | null;
  until?: string | null;
  binding?: boolean;
}

export interface WireSignalInput {
  name: string;
  raw?: number | null;
  filtered?: number | null;
  age_seconds: number;
  truth: WireTruth;
  samples: number;
  outlier?: boolean;
  target: number;
  needed?: number | null;
}

export interface WireAlternative {
  replicas: number;
  cost_hour_nano?: number | null;
  load_ratio?: number | null;
  rejected: string;
}

export interface WireDecisionDetail extends WireDecision {
  detail: {
    key: string;
    outcome: WireOutcome;
    from: number;
    ready: number;
    needed: number;
    target: number;
    min: number;
    max: number;
    mode: WireMode;
    binding: string;
    reasons: WireReason[] | null;
    inputs: WireSignalInput[] | null;
    alternatives: WireAlternative[] | null;
    policy_version: number;
  };
  plan: { id: string; generation: number; parent_id?: string | null; mode: WireMode; input_hash: string };
}

export interface WireOverview {
  data_now: string;
  currency: string;
  cost: {
    today: WireMoney;
    month_to_date: WireMoney;
    previous_same_span: WireMoney;
    forecast_month?: WireMoney | null;
    unpriced_share: number;
    idle_share: number;
  };
  slo: {
    late_ratio_24h?: number | null;
    worst: { workload_id: string; key: string; late_ratio: number }[] | null;
  };
  savings: { month_to_date?: WireMoney | null };
  replicas: { ready: number; desired: number };
  gpus: { total: number; allocated: number; sm_active_ratio?: number | null };
  clusters: { online: number; offline: number };
  decisions_24h: { scale_up: number; scale_down: number; hold: number; proposed: number; capped: number };
  alerts_open: number;
  cost_by_day: { day: string; amount: WireMoney }[] | null;
}
