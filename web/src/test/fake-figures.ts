// The curves of the fake service: a workload over time, and costs.
import type { WireCluster, WireTimeline, WireTimelinePoint, WireTimeseries, WireWorkload } from "../api/wire";
import * as make from "./factories.ts";
import { noise, wave } from "./fake-http.ts";

interface Estate {
  clusters: WireCluster[];
  workloads: WireWorkload[];
}

/** What a workload did in a window. */
export function timeline(query: URLSearchParams, workload: WireWorkload): WireTimeline {
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

function groupsBy(api: Estate, aggregate: string): { key: string; name: string; amount: number }[] {
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
      return api.clusters
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
      return api.workloads.map((w, i) => ({ key: w.id, name: w.key, amount: 30_000 / (i + 1) }));
  }
}

/** What a window cost, by what is asked for. */
export function costGroups(api: Estate, query: URLSearchParams) {
  const aggregate = query.get("aggregate") ?? "team";
  const span = (Date.parse(query.get("to") ?? "") - Date.parse(query.get("from") ?? "")) / 86_400_000 / 27;
  const owner = aggregate !== "cluster" && aggregate !== "purchase" && aggregate !== "resource";
  const kind = owner ? ("workload" as const) : ("all" as const);
  const groups = groupsBy(api, aggregate).map((g) => ({ ...g, kind, amount: g.amount * span }));
  if (!owner || ["shared", "even"].includes(query.get("idle") ?? "")) return groups;
  return [
    ...groups,
    { key: "", name: "", kind: "idle" as const, amount: 17_980.2 * span },
    { key: "", name: "", kind: "overhead" as const, amount: 1041 * span },
  ];
}

/** The same, hour by hour or day by day. */
export function costSeries(api: Estate, query: URLSearchParams): WireTimeseries {
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
    series: costGroups(api, query).map((g, i) => ({
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
