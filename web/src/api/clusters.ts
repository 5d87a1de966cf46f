import { queryOptions } from "@tanstack/react-query";
import type { Money } from "../lib/money";
import { parseTime } from "../lib/time";
import { answer, client } from "./client";
import { type Page, readMoneyOr, readPage, readTimeOr, readWord } from "./read";
import type { WireCluster, WireClusterEvent, WireNode } from "./wire";

export const MODES = ["observe", "recommend", "approve", "enforce"] as const;
export type Mode = (typeof MODES)[number];

export const HEALTHS = ["online", "lagging", "offline", "never"] as const;
export type Health = (typeof HEALTHS)[number];

export interface Cluster {
  id: string;
  name: string;
  mode: Mode;
  frozen: boolean;
  simulatedClock: boolean;
  clockSpeed: number;
  agentVersion: string;
  kubernetesVersion: string;
  capabilities: string[];
  /** The agent's own limits; zero means none. */
  limits: {
    maxReplicas: number;
    maxReplicasPerWorkload: number;
    maxActionsPerMinute: number;
    frozen: boolean;
    mode: string | null;
  };
  skewSeconds: number;
  lastSeenAt: Date | null;
  dataAt: Date | null;
  generation: number;
  appliedGeneration: number;
  health: Health;
  nodes: number;
  gpus: number;
  workloads: number;
  costHour: Money | null;
  unpricedNodes: number;
}

export const PURCHASES = ["on_demand", "spot", "reserved"] as const;
export type Purchase = (typeof PURCHASES)[number];

/** What the agent may report; a newer agent may know more. */
export const EVENT_KINDS = [
  "interruption_notice",
  "capacity_failure",
  "node_lost",
  "failed_scheduling",
  "image_pull",
  "oom",
  "driver_error",
  "conflict",
  "limit",
] as const;

export const NODE_PHASES = ["booting", "ready", "draining", "not_ready", "terminated"] as const;
export type NodePhase = (typeof NODE_PHASES)[number];

export interface Node {
  id: string;
  name: string;
  pool: string;
  instanceType: string;
  zone: string;
  purchase: Purchase;
  phase: NodePhase;
  gpuModel: string;
  gpuCount: number;
  gpuAllocated: number;
  cpuRatio: number | null;
  memoryRatio: number | null;
  costHour: Money | null;
  pods: number;
  startedAt: Date;
}

export interface ClusterEvent {
  at: Date;
  kind: string;
  object: string;
  workloadKey: string;
  reason: string;
  message: string;
}

export function readCluster(wire: WireCluster): Cluster {
  return {
    id: wire.id,
    name: wire.name,
    mode: wire.mode,
    frozen: wire.frozen,
    simulatedClock: wire.simulated_clock,
    clockSpeed: wire.clock_speed,
    agentVersion: wire.agent_version,
    kubernetesVersion: wire.kubernetes_version,
    capabilities: wire.capabilities ?? [],
    limits: {
      maxReplicas: wire.agent_limits.max_replicas,
      maxReplicasPerWorkload: wire.agent_limits.max_replicas_per_workload,
      maxActionsPerMinute: wire.agent_limits.max_actions_per_minute,
      frozen: wire.agent_limits.frozen,
      mode: wire.agent_limits.mode || null,
    },
    skewSeconds: wire.skew_ms / 1000,
    lastSeenAt: readTimeOr(wire.last_seen_at),
    dataAt: readTimeOr(wire.data_at),
    generation: wire.generation,
    appliedGeneration: wire.applied_generation,
    health: readWord(HEALTHS, wire.health, "offline"),
    nodes: wire.nodes,
    gpus: wire.gpus,
    workloads: wire.workloads,
    costHour: readMoneyOr(wire.cost_hour),
    unpricedNodes: wire.unpriced_nodes,
  };
}

export function readNode(wire: WireNode): Node {
  const ratio = (part: number, whole: number) => (whole > 0 ? part / whole : null);
  return {
    id: wire.uid,
    name: wire.name,
    pool: wire.pool,
    instanceType: wire.instance_type,
    zone: wire.zone,
    purchase: readWord(PURCHASES, wire.purchase, "on_demand"),
    phase: readWord(NODE_PHASES, wire.phase, "not_ready"),
    gpuModel: wire.gpu_model,
    gpuCount: wire.gpu_count,
    gpuAllocated: wire.gpu_allocated,
    cpuRatio: ratio(wire.cpu_milli_allocated, wire.cpu_milli),
    memoryRatio: ratio(wire.memory_mib_allocated, wire.memory_mib),
    costHour: readMoneyOr(wire.cost_hour),
    pods: wire.pods,
    startedAt: parseTime(wire.started_at),
  };
}

export function readClusterEvent(wire: WireClusterEvent): ClusterEvent {
  return {
    at: parseTime(wire.at),
    kind: wire.kind,
    object: wire.object,
    workloadKey: wire.workload,
    reason: wire.reason,
    message: wire.message,
  };
}

export const clustersQuery = (query: { q?: string; cursor?: string; limit?: number }) =>
  queryOptions({
    queryKey: ["clusters", "list", query],
    queryFn: async ({ signal }): Promise<Page<Cluster>> =>
      readPage(await answer(client.GET("/clusters", { params: { query }, signal })), readCluster),
  });

export const clusterQuery = (id: string) =>
  queryOptions({
    queryKey: ["clusters", "one", id],
    queryFn: async ({ signal }) =>
      readCluster(await answer(client.GET("/clusters/{id}", { params: { path: { id } }, signal }))),
  });

export const nodesQuery = (id: string, cursor?: string) =>
  queryOptions({
    queryKey: ["clusters", "nodes", id, cursor ?? ""],
    queryFn: async ({ signal }): Promise<Page<Node>> =>
      readPage(
        await answer(
          client.GET("/clusters/{id}/nodes", { params: { path: { id }, query: { cursor, limit: 200 } }, signal }),
        ),
        readNode,
      ),
  });

export const clusterEventsQuery = (id: string, query: { kind?: string; cursor?: string; limit?: number }) =>
  queryOptions({
    queryKey: ["clusters", "events", id, query],
    queryFn: async ({ signal }): Promise<Page<ClusterEvent>> =>
      readPage(
        await answer(client.GET("/clusters/{id}/events", { params: { path: { id }, query }, signal })),
        readClusterEvent,
      ),
  });

export async function addCluster(name: string, mode: Mode): Promise<Cluster> {
  return readCluster(await answer(client.POST("/clusters", { body: { name, mode } })));
}

export async function changeCluster(id: string, change: { mode?: Mode; frozen?: boolean }): Promise<Cluster> {
  return readCluster(await answer(client.PATCH("/clusters/{id}", { params: { path: { id } }, body: change })));
}

export interface Enrolment {
  token: string;
  expiresAt: Date;
  helmCommand: string;
}

export async function createEnrolment(id: string): Promise<Enrolment> {
  const wire = await answer(client.POST("/clusters/{id}/enrolment-tokens", { params: { path: { id } } }));
  return { token: wire.token, expiresAt: parseTime(wire.expires_at), helmCommand: wire.helm_command };
}
