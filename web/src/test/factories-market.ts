// Factories of the market's wire values.
import type {
  WireAdvice,
  WireCloudAccount,
  WireCommitment,
  WireCommitmentUse,
  WireExpiry,
  WireInstance,
  WireMachine,
  WirePool,
  WirePriceExplained,
  WirePriceSource,
  WireQuarantined,
  WireSpotMarket,
  WireSpotOffer,
  WireSpotStats,
  WireSupply,
} from "../api/wire";
import { before, money, NOW, uuid } from "./factories.ts";

export const SOURCE = "aws-ondemand 2026-07-20";

export function aMachine(over: Partial<WireMachine> = {}): WireMachine {
  return {
    gpu_model: "H100",
    gpu_count: 8,
    gpu_memory_mib: 81_920,
    cpu_milli: 192_000,
    mem_mib: 2_097_152,
    ...over,
  };
}

export function aPool(over: Partial<WirePool> = {}): WirePool {
  return {
    cloud: "aws",
    region: "us-east-1",
    zone: "us-east-1a",
    instance_type: "p5.48xlarge",
    product: "Linux/UNIX",
    ...over,
  };
}

export function aMarket(over: Partial<WireSpotMarket> = {}): WireSpotMarket {
  return {
    cloud: "aws",
    region: "us-east-1",
    instance_type: "p5.48xlarge",
    product: "Linux/UNIX",
    zones: ["us-east-1a", "us-east-1b", "us-east-1c"],
    machine: aMachine(),
    seen_at: before(190),
    last_at: before(190),
    stale: false,
    spot_listed: true,
    ...over,
  };
}

export function aSpotStats(over: Partial<WireSpotStats> = {}): WireSpotStats {
  return {
    pool: aPool(),
    machine: aMachine(),
    listed_share: 1,
    level: money("33.18"),
    per_gpu: money("4.1475"),
    min: money("30.1"),
    max: money("53.02"),
    last: money("31.44"),
    on_demand: money("55.04"),
    discount: 0.397,
    changes_per_day: 3.71,
    volatility: 0.0093,
    jump_probability: 0.04,
    seen_at: before(190),
    source: "aws DescribeSpotPriceHistory",
    ...over,
  };
}

export function aSpotOffer(over: Partial<WireSpotOffer> = {}): WireSpotOffer {
  return {
    pool: aPool(),
    machine: aMachine(),
    quote: { price: money("30.8851"), at: before(190), source: "aws DescribeSpotPriceHistory", stale: false },
    on_demand: money("55.04"),
    per_gpu: money("3.8606"),
    discount: 0.439,
    ...over,
  };
}

export function aQuarantined(id: number, over: Partial<WireQuarantined> = {}): WireQuarantined {
  return {
    id,
    pool: aPool({ zone: "us-east-1b", instance_type: "p3.2xlarge" }),
    at: before(300),
    spot: "",
    on_demand: "36.08",
    expected: money("3.06"),
    reason: "off_catalogue",
    source: "third-party list",
    found_at: before(298),
    ...over,
  };
}

export function aSupply(over: Partial<WireSupply> = {}): WireSupply {
  return {
    cloud: "aws",
    region: "us-east-1",
    zone: "us-east-1a",
    instance_type: "g5.xlarge",
    purchase: "spot",
    p_available_now: 0.91,
    p_available_next_hour: 0.97,
    p_survives_next_hour: 0.952,
    hazard: 0.049,
    expected_seconds_to_capacity: 260,
    backoff_until: null,
    prior_share: 0.54,
    placement: null,
    price_ratio: 0.38,
    evidence: {
      attempts: 69.1,
      stock_outs: 2.56,
      interruptions: 2.07,
      observed_hours: 49.2,
      failures_in_a_row: 0,
      last_seen: before(20),
    },
    ...over,
  };
}

export function aCommitment(n: number, over: Partial<WireCommitment> = {}): WireCommitment {
  return {
    id: uuid(20, n),
    ref: `ri-g6-${n}`,
    kind: "aws_regional_ri",
    cloud: "aws",
    region: "us-east-1",
    instance_type: "g6.12xlarge",
    resource: "machine",
    quantity: 2,
    upfront: money(0),
    recurring_hour: money("5.8"),
    hourly_commitment: null,
    hour_cost: money("5.8"),
    rates: 0,
    starts_at: "2026-02-01T00:00:00Z",
    ends_at: "2027-02-01T00:00:00Z",
    state: "active",
    owner: "platform",
    source: "csv",
    created_by: "user:demo",
    created_at: before(60 * 24 * 40),
    changed_at: before(60 * 24 * 40),
    ...over,
  };
}

export function aCommitmentUse(n: number, over: Partial<WireCommitmentUse> = {}): WireCommitmentUse {
  return {
    id: uuid(20, n),
    ref: `ri-g6-${n}`,
    kind: "aws_regional_ri",
    owner: "platform",
    bought: money(4176),
    used: money(3716.64),
    unused: money(459.36),
    utilisation: 0.89,
    hours: 720,
    listed: money(5897.2),
    savings: money(1721.2),
    ...over,
  };
}

export function anExpiry(n: number, over: Partial<WireExpiry> = {}): WireExpiry {
  return {
    id: uuid(20, n),
    ref: `ri-g6-${n}`,
    kind: "aws_regional_ri",
    owner: "platform",
    ends_at: "2027-02-01T00:00:00Z",
    days_left: 65,
    hour_cost: money("5.8"),
    left: money(9109.1),
    ...over,
  };
}

export function anAdvice(over: Partial<WireAdvice> = {}): WireAdvice {
  return {
    cloud: "aws",
    region: "us-east-1",
    instance_type: "g6.12xlarge",
    buy: 2,
    owned: 2,
    on_demand_hour: money("4.6016"),
    spot_hour: money("1.2432"),
    reserved_hour: money("2.9"),
    reserved_source: "own",
    availability_source: "own_nodes",
    saving_month: money(1288.4),
    levels: [
      {
        level: 3,
        busy: 0.97,
        spot_available: 0.08,
        instead_hour: money("4.2029"),
        reserved_hour: money("2.9"),
        buy: true,
      },
      {
        level: 4,
        busy: 0.84,
        spot_available: 0.21,
        instead_hour: money("3.2726"),
        reserved_hour: money("2.9"),
        buy: true,
      },
      {
        level: 5,
        busy: 0.61,
        spot_available: 0.4,
        instead_hour: money("1.9876"),
        reserved_hour: money("2.9"),
        buy: false,
      },
    ],
    ...over,
  };
}

export function anInstance(over: Partial<WireInstance> = {}): WireInstance {
  return {
    cloud: "aws",
    name: "p5.48xlarge",
    arch: "amd64",
    cpu_milli: 192_000,
    mem_mib: 2_097_152,
    gpu_model: "H100",
    gpu_count: 8,
    gpu_memory_mib: 81_920,
    region: "us-east-1",
    on_demand: money("55.04"),
    spot: money("26.4192"),
    per_gpu: money("6.88"),
    source: SOURCE,
    network_mbps: 3_200_000,
    local_disk_gib: 28_312,
    gpu_link: "nvswitch",
    gpu_link_gbyte_s: 900,
    fabric: "efa",
    fabric_gbps: 3200,
    mig: true,
    mig_profiles: [
      { name: "1g.10gb", most: 7 },
      { name: "7g.80gb", most: 1 },
    ],
    allocatable: { cpu_milli: 191_450, mem_mib: 2_095_697, max_pods: 100, rule: "eks" },
    regions_sold: 12,
    regions_priced: 1,
    doubts: [],
    ...over,
  };
}

export function anExplanation(over: Partial<WirePriceExplained> = {}): WirePriceExplained {
  return {
    cloud: "aws",
    region: "us-east-1",
    instance_type: "p5.48xlarge",
    purchase: "on_demand",
    at: NOW.toISOString(),
    quantity: 1,
    per_hour: money("22.016"),
    total_hour: money("22.016"),
    stale: false,
    parts: [
      {
        basis: "commitment",
        commitment_id: uuid(20, 2),
        commitment: "sp-compute",
        resource: "machine",
        share: 0.6,
        per_hour: money(0),
        left_machines: 0.6,
        left_spend: money("2.11"),
        as_of: null,
        stale: false,
      },
      {
        basis: "list",
        resource: "machine",
        share: 0.4,
        per_hour: money("22.016"),
        left_machines: null,
        left_spend: null,
        source: SOURCE,
        as_of: "2026-07-20T00:00:00Z",
        stale: false,
      },
    ],
    list: { hour: money("55.04"), source: SOURCE, as_of: "2026-07-20T00:00:00Z", stale: false },
    contracted: { hour: null, as_of: null, stale: false },
    spot: { hour: money("30.8851"), source: "aws DescribeSpotPriceHistory", as_of: before(190), stale: false },
    running: 21,
    ...over,
  };
}

export function aCloudAccount(n: number, over: Partial<WireCloudAccount> = {}): WireCloudAccount {
  return {
    id: uuid(21, n),
    cloud: "aws",
    name: "Production",
    subject: "arn:aws:iam::123456789012:role/plimsoll",
    external_id: `plimsoll-${uuid(21, n)}`,
    regions: ["us-east-1", "eu-west-1"],
    state: "ok",
    failures: 0,
    refreshed_at: new Date(Date.now() - 1_900_000).toISOString(),
    age_seconds: 1900,
    stale: false,
    next_at: new Date(Date.now() + 1_700_000).toISOString(),
    outcome: {
      on_demand_prices: 812,
      on_demand_changed: 3,
      spot_prices: 2310,
      spot_changed: 122,
      machines: 812,
      commitments: 4,
      capacity_reservations: 1,
    },
    created_by: "user:demo",
    created_at: before(60 * 24 * 3),
    ...over,
  };
}

export function aPriceSource(over: Partial<WirePriceSource> = {}): WirePriceSource {
  return {
    cloud: "aws",
    region: "us-east-1",
    kind: "on_demand",
    source: "aws GetProducts",
    refreshed_at: new Date(Date.now() - 7_200_000).toISOString(),
    age_seconds: 7200,
    stale: false,
    listed: 812,
    changed: 3,
    skipped: { "no price": 14, "other currency": 2 },
    doubted: [{ instance_type: "p3.2xlarge", hour: "36.08", expected: "3.06" }],
    ...over,
  };
}
