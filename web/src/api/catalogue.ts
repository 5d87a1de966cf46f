import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Cloud } from "../lib/cloud";
import type { Money } from "../lib/money";
import { parseDay, parseTime } from "../lib/time";
import { answer, client } from "./client";
import { PURCHASES, type Purchase } from "./clusters";
import type { CommitmentResource } from "./commitments";
import { readMoneyOr, readTimeOr, readWord } from "./read";
import type { Machine } from "./spot";
import type { WireCatalogue, WireKnownPrice, WirePriceExplained } from "./wire";

export interface Instance {
  /** cloud/region/type, as the URL names it. */
  key: string;
  cloud: string;
  region: string;
  name: string;
  arch: string;
  machine: Machine;
  onDemand: Money | null;
  spot: Money | null;
  perGpu: Money | null;
  source: string;
}

export interface CatalogueSource {
  cloud: string;
  kind: "types" | "on_demand" | "spot";
  name: string;
  date: Date;
  licence: string;
  origin: string;
}

export interface Catalogue {
  date: Date;
  sources: CatalogueSource[];
  total: number;
  items: Instance[];
}

export interface CatalogueFilter {
  q?: string;
  cloud?: Cloud;
  region?: string;
  minGpus?: number;
  minGpuGb?: number;
  minCpus?: number;
  minGib?: number;
  purchase: "on_demand" | "spot";
}

export const BASES = ["commitment", "contracted", "list", "spot", "unknown"] as const;
export type Basis = (typeof BASES)[number];

export interface KnownPrice {
  hour: Money | null;
  source: string;
  asOf: Date | null;
  stale: boolean;
}

export interface PricePart {
  basis: Basis;
  commitment: string;
  resource: CommitmentResource;
  share: number;
  perHour: Money | null;
  leftMachines: number | null;
  leftSpend: Money | null;
  source: string;
  asOf: Date | null;
  stale: boolean;
}

/** What the next machine of an offering costs, and why. */
export interface PriceExplained {
  at: Date;
  purchase: Purchase;
  quantity: number;
  perHour: Money | null;
  total: Money | null;
  stale: boolean;
  parts: PricePart[];
  list: KnownPrice;
  contracted: KnownPrice;
  spot: KnownPrice;
  running: number;
}

export interface Asked {
  cloud: Cloud;
  region: string;
  zone?: string;
  instanceType: string;
  purchase: Purchase;
  quantity: number;
}

export function readCatalogue(wire: WireCatalogue): Catalogue {
  return {
    date: parseDay(wire.date),
    sources: (wire.sources ?? []).map((s) => ({ ...s, date: parseDay(s.date) })),
    total: wire.total,
    items: (wire.items ?? []).map((i) => ({
      key: `${i.cloud}/${i.region}/${i.name}`,
      cloud: i.cloud,
      region: i.region,
      name: i.name,
      arch: i.arch,
      machine: {
        gpuModel: i.gpu_model ?? "",
        gpuCount: i.gpu_count,
        gpuMemoryMib: i.gpu_memory_mib,
        cpuCores: i.cpu_milli / 1000,
        memoryMib: i.mem_mib,
      },
      onDemand: readMoneyOr(i.on_demand),
      spot: readMoneyOr(i.spot),
      perGpu: readMoneyOr(i.per_gpu),
      source: i.source,
    })),
  };
}

function readKnown(wire: WireKnownPrice): KnownPrice {
  return {
    hour: readMoneyOr(wire.hour),
    source: wire.source ?? "",
    asOf: readTimeOr(wire.as_of),
    stale: wire.stale,
  };
}

export function readExplained(wire: WirePriceExplained): PriceExplained {
  return {
    at: parseTime(wire.at),
    purchase: readWord(PURCHASES, wire.purchase, "on_demand"),
    quantity: wire.quantity,
    perHour: readMoneyOr(wire.per_hour),
    total: readMoneyOr(wire.total_hour),
    stale: wire.stale,
    parts: (wire.parts ?? []).map((p) => ({
      basis: readWord(BASES, p.basis, "unknown"),
      commitment: p.commitment ?? "",
      resource: readWord(["machine", "vcpu", "memory", "gpu"], p.resource, "machine"),
      share: p.share,
      perHour: readMoneyOr(p.per_hour),
      leftMachines: p.left_machines,
      leftSpend: readMoneyOr(p.left_spend),
      source: p.source ?? "",
      asOf: readTimeOr(p.as_of),
      stale: p.stale,
    })),
    list: readKnown(wire.list),
    contracted: readKnown(wire.contracted),
    spot: readKnown(wire.spot),
    running: wire.running,
  };
}

const GIB_IN_MIB = 1024;
/** Sellers count GPU memory in GB of 10⁹ bytes or in GiB; what is asked for in GB finds both. */
const GB_IN_MIB = 1e9 / 1024 / 1024;

export const catalogueQuery = (filter: CatalogueFilter, limit: number) =>
  queryOptions({
    queryKey: ["catalogue", filter, limit],
    queryFn: async ({ signal }) => {
      const query = {
        q: filter.q,
        cloud: filter.cloud,
        region: filter.region,
        min_gpus: filter.minGpus,
        min_gpu_memory_mib: filter.minGpuGb === undefined ? undefined : Math.floor(filter.minGpuGb * GB_IN_MIB),
        min_cpu_milli: filter.minCpus === undefined ? undefined : filter.minCpus * 1000,
        min_mem_mib: filter.minGib === undefined ? undefined : filter.minGib * GIB_IN_MIB,
        purchase: filter.purchase,
        limit,
      };
      return readCatalogue(await answer(client.GET("/catalog/instances", { params: { query }, signal })));
    },
    placeholderData: keepPreviousData,
  });

export const explainQuery = (asked: Asked) =>
  queryOptions({
    queryKey: ["prices", "explain", asked],
    queryFn: async ({ signal }) => {
      const { instanceType, ...rest } = asked;
      return readExplained(
        await answer(
          client.GET("/prices/explain", { params: { query: { ...rest, instance_type: instanceType } }, signal }),
        ),
      );
    },
    placeholderData: keepPreviousData,
  });
