import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Cloud } from "../lib/cloud";
import type { Money } from "../lib/money";
import { parseDay, parseTime } from "../lib/time";
import { answer, client } from "./client";
import { PURCHASES, type Purchase } from "./clusters";
import type { CommitmentResource } from "./commitments";
import { readMoney, readMoneyOr, readTimeOr, readWord } from "./read";
import type { Machine } from "./spot";
import type { WireCatalogue, WireInstance, WireKnownPrice, WirePriceExplained } from "./wire";

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
  traits: Traits;
  allocatable: Allocatable;
  /** Regions that are known to sell the type, and how many of them have an on-demand price. */
  regionsSold: number;
  regionsPriced: number;
  doubts: PriceDoubt[];
}

export const LINKS = ["none", "pcie", "nvlink", "nvswitch", "infinity_fabric"] as const;
export const FABRICS = ["none", "efa", "infiniband", "gpudirect"] as const;

/** Of a machine beyond its size; null is unknown, never none. */
export interface Traits {
  networkMbps: number | null;
  localDiskGib: number | null;
  link: (typeof LINKS)[number] | null;
  linkGbytes: number | null;
  fabric: (typeof FABRICS)[number] | null;
  fabricGbps: number | null;
  mig: boolean | null;
  migProfiles: { name: string; most: number }[];
}

/** An estimate of what a node leaves to pods. */
export interface Allocatable {
  cpuCores: number | null;
  memoryMib: number | null;
  maxPods: number | null;
  rule: "eks" | "aks" | "gke" | null;
}

export const DOUBTS = ["above_on_demand", "off_on_demand", "off_peers"] as const;

/** A listed price that was not believed; it is not used. */
export interface PriceDoubt {
  region: string;
  purchase: "on_demand" | "spot";
  hour: Money;
  expected: Money;
  reason: (typeof DOUBTS)[number];
}

export interface Coverage {
  cloud: string;
  priced: string[];
  unpriced: string[];
}

export const SOURCE_KINDS = ["types", "on_demand", "spot", "traits", "network", "pods", "offered"] as const;

export interface CatalogueSource {
  cloud: string;
  kind: (typeof SOURCE_KINDS)[number];
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
  coverage: Coverage[];
  /** Prices of the whole catalogue that were not believed. */
  doubts: number;
}

export interface CatalogueFilter {
  q?: string;
  cloud?: Cloud;
  region?: string;
  minGpus?: number;
  minGpuGb?: number;
  minCpus?: number;
  minGib?: number;
  mig?: true;
  minGbps?: number;
  minDiskGib?: number;
  fabric?: "any" | "efa" | "infiniband" | "gpudirect";
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

function readTraits(i: WireInstance): Traits {
  return {
    networkMbps: i.network_mbps,
    localDiskGib: i.local_disk_gib,
    link: LINKS.find((l) => l === i.gpu_link) ?? null,
    linkGbytes: i.gpu_link_gbyte_s,
    fabric: FABRICS.find((l) => l === i.fabric) ?? null,
    fabricGbps: i.fabric_gbps,
    mig: i.mig,
    migProfiles: i.mig_profiles ?? [],
  };
}

function readInstance(i: WireInstance): Instance {
  return {
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
    traits: readTraits(i),
    allocatable: {
      cpuCores: i.allocatable.cpu_milli === null ? null : i.allocatable.cpu_milli / 1000,
      memoryMib: i.allocatable.mem_mib,
      maxPods: i.allocatable.max_pods,
      rule: i.allocatable.rule === "" ? null : i.allocatable.rule,
    },
    regionsSold: i.regions_sold,
    regionsPriced: i.regions_priced,
    doubts: (i.doubts ?? []).map((d) => ({
      region: d.region,
      purchase: d.purchase,
      hour: readMoney(d.hour),
      expected: readMoney(d.expected),
      reason: readWord(DOUBTS, d.reason, "off_peers"),
    })),
  };
}

export function readCatalogue(wire: WireCatalogue): Catalogue {
  return {
    date: parseDay(wire.date),
    sources: (wire.sources ?? []).map((s) => ({ ...s, date: parseDay(s.date) })),
    total: wire.total,
    items: (wire.items ?? []).map(readInstance),
    coverage: (wire.coverage ?? []).map((c) => ({
      cloud: c.cloud,
      priced: c.priced ?? [],
      unpriced: c.unpriced ?? [],
    })),
    doubts: wire.doubts,
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
        mig: filter.mig,
        min_network_mbps: filter.minGbps === undefined ? undefined : filter.minGbps * 1000,
        min_local_disk_gib: filter.minDiskGib,
        fabric: filter.fabric,
        purchase: filter.purchase,
        limit,
      };
      return readCatalogue(await answer(client.GET("/catalog/instances", { params: { query }, signal })));
    },
    placeholderData: keepPreviousData,
  });

/** One machine type in one region, priced there or not; null when the catalogue does not have it. */
export const machineQuery = (cloud: Cloud, region: string, name: string) =>
  queryOptions({
    queryKey: ["catalogue", "machine", cloud, region, name],
    queryFn: async ({ signal }) => {
      const query = { q: name, cloud, region, limit: 100 };
      const found = readCatalogue(await answer(client.GET("/catalog/instances", { params: { query }, signal })));
      return found.items.find((i) => i.name === name) ?? null;
    },
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
