// The market's part of the fake service.
import type {
  WireCloudAccount,
  WireCloudAccountInput,
  WireCommitment,
  WireCommitmentRecord,
  WireCommitmentStep,
  WireInstance,
  WirePending,
  WireReservedStock,
  WireSpotMarket,
  WireSpotSeries,
  WireSpotStats,
  WireSupply,
} from "../api/wire";
import * as make from "./factories.ts";
import * as market from "./factories-market.ts";
import type { FakeAnswer, Handler } from "./fake-api.ts";

const ok = (body?: unknown): FakeAnswer => ({ status: body === undefined ? 204 : 200, body });
const invalid = (detail: string): FakeAnswer => ({
  status: 422,
  body: { status: 422, title: "Unprocessable Entity", detail },
});

const noise = (n: number) => {
  const x = Math.sin(n * 78.233) * 43_758.5453;
  return x - Math.floor(x);
};

const A100 = market.aMachine({ gpu_model: "A100-80GB", gpu_count: 1, cpu_milli: 24_000, mem_mib: 225_280 });
const L4 = market.aMachine({
  gpu_model: "L4",
  gpu_count: 4,
  gpu_memory_mib: 24_576,
  cpu_milli: 48_000,
  mem_mib: 196_608,
});

export class FakeMarket {
  markets: WireSpotMarket[] = [
    market.aMarket(),
    market.aMarket({ instance_type: "g6.12xlarge", machine: L4 }),
    market.aMarket({
      cloud: "azure",
      region: "eastus",
      instance_type: "Standard_NC24ads_A100_v4",
      zones: [""],
      machine: A100,
    }),
    market.aMarket({
      cloud: "gcp",
      region: "europe-west4",
      instance_type: "a3-highgpu-8g",
      zones: ["europe-west4-a", "europe-west4-b"],
      machine: market.aMachine({ cpu_milli: 208_000 }),
    }),
  ];
  quarantine = [
    market.aQuarantined(1),
    market.aQuarantined(2, {
      pool: market.aPool({ zone: "us-east-1c" }),
      spot: "0",
      on_demand: "",
      expected: make.money("33.4"),
      reason: "not_positive",
      source: "aws DescribeSpotPriceHistory",
    }),
  ];
  supply: WireSupply[] = this.makeSupply();
  commitments: WireCommitment[] = [
    market.aCommitment(1),
    market.aCommitment(2, {
      ref: "sp-compute",
      kind: "aws_compute_sp",
      region: undefined,
      instance_type: undefined,
      quantity: 0,
      hourly_commitment: make.money("2.5"),
      hour_cost: make.money("2.5"),
      ends_at: "2029-06-01T00:00:00Z",
    }),
    market.aCommitment(3, {
      ref: "az-h100",
      kind: "azure_reservation",
      cloud: "azure",
      region: "eastus",
      instance_type: "Standard_NC40ads_H100_v5",
      quantity: 1,
      hour_cost: make.money("4.8"),
      ends_at: "2026-12-20T00:00:00Z",
      owner: "research",
    }),
  ];
  instances: WireInstance[] = [
    market.anInstance({
      name: "p4de.24xlarge",
      gpu_model: "A100-80GB",
      cpu_milli: 96_000,
      mem_mib: 1_179_648,
      on_demand: make.money("27.44705"),
      spot: make.money("9.6064675"),
      per_gpu: make.money("3.43088125"),
    }),
    market.anInstance({
      cloud: "azure",
      name: "Standard_ND96amsr_A100_v4",
      region: "eastus",
      gpu_model: "A100-80GB",
      cpu_milli: 96_000,
      mem_mib: 1_843_200,
      on_demand: make.money("32.77"),
      spot: null,
      per_gpu: make.money("4.09625"),
      source: "azure-ondemand 2026-06-18",
    }),
    market.anInstance(),
    market.anInstance({
      name: "g6.12xlarge",
      gpu_model: "L4",
      gpu_count: 4,
      gpu_memory_mib: 24_576,
      cpu_milli: 48_000,
      mem_mib: 196_608,
      on_demand: make.money("4.6016"),
      spot: make.money("1.2432"),
      per_gpu: make.money("1.1504"),
      network_mbps: 40_000,
      local_disk_gib: 3501,
      gpu_link: "pcie",
      gpu_link_gbyte_s: null,
      fabric: "none",
      fabric_gbps: null,
      mig: false,
      mig_profiles: [],
    }),
    market.anInstance({
      cloud: "gcp",
      name: "g2-standard-96",
      gpu_model: "L4",
      gpu_memory_mib: 24_576,
      cpu_milli: 96_000,
      mem_mib: 393_216,
      region: "us-east5",
      on_demand: make.money("9.01415056"),
      spot: null,
      per_gpu: make.money("1.12676882"),
      network_mbps: null,
      local_disk_gib: null,
      gpu_link: "",
      gpu_link_gbyte_s: null,
      fabric: "",
      fabric_gbps: null,
      mig: null,
      mig_profiles: [],
      allocatable: { cpu_milli: 95_690, mem_mib: null, max_pods: null, rule: "gke" },
      doubts: [
        {
          region: "us-east5",
          purchase: "spot",
          hour: make.money("0.90128"),
          expected: make.money("5.067512062"),
          reason: "off_peers",
        },
      ],
    }),
    market.anInstance({
      name: "p4d.24xlarge",
      gpu_model: "A100-40GB",
      gpu_memory_mib: 40_960,
      region: "us-west-2",
      on_demand: null,
      spot: null,
      per_gpu: null,
      source: "",
    }),
  ];
  advice = [
    market.anAdvice(),
    market.anAdvice({
      instance_type: "g5.xlarge",
      buy: 0,
      owned: 0,
      on_demand_hour: make.money("1.006"),
      spot_hour: make.money("0.3459"),
      reserved_hour: make.money("0.63378"),
      reserved_source: "assumed",
      saving_month: make.money(0),
      levels: [
        {
          level: 1,
          busy: 0.468,
          spot_available: 1,
          instead_hour: make.money("0.161955"),
          reserved_hour: make.money("0.63378"),
          buy: false,
        },
      ],
    }),
  ];
  explanation = market.anExplanation();
  accounts: WireCloudAccount[] = [
    market.aCloudAccount(1),
    market.aCloudAccount(2, {
      cloud: "azure",
      name: "Research",
      subject: "application 00000021-0000-4000-8000-00000000000a",
      external_id: undefined,
      regions: ["eastus"],
      state: "failing",
      failures: 4,
      problem: "Reservations Reader is missing at the level of the tenant",
      refreshed_at: null,
      age_seconds: null,
      stale: true,
      outcome: {},
    }),
  ];
  sources = [
    market.aPriceSource(),
    market.aPriceSource({
      kind: "spot",
      source: "aws DescribeSpotPriceHistory",
      listed: 2310,
      skipped: {},
      doubted: [],
    }),
    market.aPriceSource({ cloud: "azure", region: "eastus", source: "azure retail prices", stale: true, doubted: [] }),
  ];

  private makeSupply(): WireSupply[] {
    const zones = ["us-east-1a", "us-east-1b", "us-east-1c"];
    const spot = zones.map((zone, i) =>
      market.aSupply({
        zone,
        p_available_next_hour: 0.97 - i * 0.06,
        hazard: 0.02 + i * 0.03,
        expected_seconds_to_capacity: 260 + i * 700,
      }),
    );
    const scarce = zones.map((zone, i) =>
      market.aSupply({
        zone,
        instance_type: "p5.48xlarge",
        p_available_now: 0.11,
        p_available_next_hour: 0.34 + i * 0.21,
        p_survives_next_hour: 0.91,
        hazard: 0.094,
        expected_seconds_to_capacity: i === 0 ? 86_400 : 5400,
        backoff_until: i === 0 ? make.before(-14) : null,
        prior_share: 0.22,
      }),
    );
    const steady = zones.map((zone) =>
      market.aSupply({
        zone,
        instance_type: "g6.12xlarge",
        purchase: "on_demand",
        p_available_next_hour: 0.998,
        p_survives_next_hour: 0.9998,
        hazard: 0.00002,
        expected_seconds_to_capacity: 188,
        prior_share: 0.998,
        price_ratio: null,
      }),
    );
    const elsewhere = market.aSupply({
      cloud: "azure",
      region: "eastus",
      zone: "eastus-1",
      instance_type: "Standard_NC24ads_A100_v4",
      p_available_next_hour: 0.62,
    });
    return [...spot, ...steady, ...scarce, elsewhere];
  }

  private series(m: WireSpotMarket, query: URLSearchParams): WireSpotSeries[] {
    const from = Date.parse(query.get("from") ?? "");
    const to = Date.parse(query.get("to") ?? "");
    const step = Math.max(60_000, (to - from) / 300);
    const base = m.machine?.gpu_model === "L4" ? 1.3 : m.machine?.gpu_count === 1 ? 1.1 : 32;
    const list = make.money(base * 1.7).amount;
    return (m.zones ?? []).map((zone, z) => ({
      pool: market.aPool({ cloud: m.cloud, region: m.region, instance_type: m.instance_type, zone }),
      newest: { price: make.money(base * (1 + z * 0.06)), at: make.before(190), source: "generated", stale: false },
      points: Array.from({ length: 300 }, (_, i) => {
        const jump = z === 0 && i > 150 && i < 205 ? 1.55 : 1;
        const gap = z === 1 && i > 240 && i < 262;
        const amount = make.money(
          base * (1 + z * 0.06) * jump * (1 + 0.05 * Math.sin(i / 19 + z) + 0.01 * noise(i + z)),
        );
        const price = gap ? null : amount.amount;
        return {
          at: new Date(from + i * step).toISOString(),
          min: price,
          avg: price,
          max: price,
          last: price,
          on_demand: list,
        };
      }),
    }));
  }

  /** What the next machine on demand cost: half of it was paid in advance in the first half of the range. */
  ownPrice: string | null = "27.52";

  private effective(m: WireSpotMarket, query: URLSearchParams) {
    const points = this.series(m, query)[0]?.points ?? [];
    return points.map((p, i) => ({
      at: p.at,
      price: i < points.length / 2 ? (this.ownPrice ?? p.on_demand) : p.on_demand,
    }));
  }

  pending: WirePending[] = [
    {
      reason: "no_cost",
      account_id: make.uuid(7, 71),
      account_name: "Research",
      seen_at: make.before(40),
      record: {
        ref: "az-res-7",
        kind: "azure_reservation",
        region: "eastus",
        instance_type: "Standard_NC40ads_H100_v5",
        quantity: "2",
        starts_at: "2026-01-01T00:00:00Z",
        ends_at: "2027-01-01T00:00:00Z",
      },
    },
  ];
  stock: WireReservedStock[] = [
    {
      ref: "cr-0a1",
      account_id: make.uuid(7, 70),
      cloud: "aws",
      region: "us-east-1",
      zone: "us-east-1b",
      instance_type: "p5.48xlarge",
      machines: 4,
      available: 1,
      block: true,
      starts_at: "2026-11-01T00:00:00Z",
      ends_at: "2026-12-15T00:00:00Z",
      state: "active",
      seen_at: make.before(40),
    },
  ];

  private steps(query: URLSearchParams): WireCommitmentStep[] {
    const from = Date.parse(query.get("from") ?? "");
    const to = Date.parse(query.get("to") ?? "");
    const step = query.get("step") === "hour" ? 3_600_000 : 86_400_000;
    return Array.from({ length: Math.ceil((to - from) / step) }, (_, i) => {
      const used = 80 + 15 * Math.sin(i / 5);
      return {
        from: new Date(from + i * step).toISOString(),
        to: new Date(Math.min(to, from + (i + 1) * step)).toISOString(),
        bought: make.money(100),
        used: make.money(used),
        unused: make.money(100 - used),
        utilisation: used / 100,
        eligible_hours: 48,
        covered_hours: 30,
        on_demand_cost: make.money(160),
        covered_cost: make.money(110),
        coverage: 0.69 + 0.05 * noise(i),
      };
    });
  }

  private fits(pool: { cloud: string; region: string; instance_type: string }, query: URLSearchParams): boolean {
    const is = (name: string, value: string) => !query.get(name) || query.get(name) === value;
    return is("cloud", pool.cloud) && is("region", pool.region) && is("instance_type", pool.instance_type);
  }

  private stats(query: URLSearchParams): WireSpotStats[] {
    return this.markets
      .filter((m) => this.fits(m, query) && (m.machine?.gpu_count ?? 0) >= Number(query.get("min_gpus") ?? 0))
      .filter((m) => !query.get("gpu_model") || m.machine?.gpu_model === query.get("gpu_model"))
      .flatMap((m) =>
        (m.zones ?? []).map((zone, i) =>
          market.aSpotStats({
            pool: market.aPool({ cloud: m.cloud, region: m.region, instance_type: m.instance_type, zone }),
            machine: m.machine,
            ...(i === 1 ? { listed_share: 0.93, volatility: 0.17, jump_probability: 0.44 } : {}),
          }),
        ),
      );
  }

  /** Reads CSV as far as a test needs: known kinds, and a ref in every row. */
  private take(text: unknown): FakeAnswer {
    if (typeof text !== "string") return ok({ added: Array.isArray(text) ? text.length : 0, changed: 0, unchanged: 0 });
    const [head = "", ...rows] = text.trim().split(/\r?\n/);
    const columns = head.split(",");
    if (!columns.includes("ref")) return invalid("row 1, column ref: is missing");
    let n = this.commitments.length;
    const added: WireCommitment[] = [];
    for (const [i, row] of rows.entries()) {
      const cells = new Map(row.split(",").map((cell, c) => [columns[c] ?? "", cell]));
      if (cells.get("kind") !== "aws_regional_ri") return invalid(`row ${i + 2}, column kind: is unknown`);
      added.push(market.aCommitment(++n, { ref: cells.get("ref") ?? "", source: "csv" }));
    }
    this.commitments.push(...added);
    return ok({ added: added.length, changed: 0, unchanged: 0 });
  }

  readonly routes: [string, string, Handler][] = [
    [
      "GET",
      "/commitments/series",
      (r) =>
        ok({
          from: r.query.get("from"),
          to: r.query.get("to"),
          step: r.query.get("step"),
          items: this.steps(r.query),
        }),
    ],
    [
      "POST",
      "/commitments",
      (r) => {
        const record = r.body as WireCommitmentRecord;
        if (record.upfront === "free") return invalid("upfront: is no amount");
        this.pending = this.pending.filter((p) => p.record.ref !== record.ref);
        const made = market.aCommitment(this.commitments.length + 1, { ref: record.ref, source: "api" });
        this.commitments.push(made);
        return { status: 201, body: made };
      },
    ],
    ["GET", "/commitments/pending", () => ok({ items: this.pending })],
    ["GET", "/capacity-reservations", () => ok({ items: this.stock })],
    ["GET", "/prices/spot/markets", () => ok({ items: this.markets })],
    [
      "GET",
      "/prices/spot/stats",
      (r) => {
        const items = this.stats(r.query);
        return ok({ from: r.query.get("from"), to: r.query.get("to"), total: items.length, items });
      },
    ],
    [
      "GET",
      "/prices/spot/cheapest",
      (r) => {
        const items = this.stats(r.query).map((s) =>
          market.aSpotOffer({ pool: s.pool, machine: s.machine ?? undefined }),
        );
        const estimate = market.aSpotOffer({
          pool: market.aPool({ zone: "", region: "us-west-2", instance_type: "g6e.xlarge" }),
          quote: {
            price: make.money("0.42"),
            at: "2025-06-28T00:00:00Z",
            source: "aws-spot-advisor 2025-06-28",
            stale: true,
          },
        });
        return ok({ at: make.NOW.toISOString(), items: [...items, estimate] });
      },
    ],
    ["GET", "/prices/spot/quarantine", () => ok({ items: this.quarantine })],
    [
      "GET",
      "/prices/spot",
      (r) => {
        const found = this.markets.find((m) => this.fits(m, r.query));
        return ok({
          currency: "USD",
          from: r.query.get("from"),
          to: r.query.get("to"),
          step_seconds: 3600,
          machine: found?.machine ?? null,
          catalogue_on_demand: make.money("55.04"),
          catalogue_spot: null,
          catalogue_source: market.SOURCE,
          effective: found ? this.effective(found, r.query) : [],
          data: found && {
            first_at: "2022-01-01T00:00:00Z",
            last_at: found.last_at,
            seen_at: found.seen_at,
            stale: found.stale,
            source: "generated",
            pools: 3,
            changes: 900,
          },
          series: found ? this.series(found, r.query) : [],
        });
      },
    ],
    [
      "GET",
      "/prices/explain",
      (r) => {
        const purchase = r.query.get("purchase");
        const quantity = Number(r.query.get("quantity") ?? 1);
        const total = make.money(Number(this.explanation.per_hour?.amount ?? 0) * quantity);
        return ok({
          ...this.explanation,
          cloud: r.query.get("cloud"),
          region: r.query.get("region"),
          instance_type: r.query.get("instance_type"),
          purchase,
          quantity,
          total_hour: this.explanation.per_hour && total,
        });
      },
    ],
    [
      "GET",
      "/availability",
      () =>
        ok({
          data_now: make.NOW.toISOString(),
          bands_date: "2025-06-28",
          total: this.supply.length,
          items: this.supply,
        }),
    ],
    [
      "GET",
      "/availability/history",
      (r) => {
        const step = Number(r.query.get("step_seconds") ?? 3600);
        const to = make.NOW.getTime();
        return ok({
          step_seconds: step,
          from: new Date(to - 7 * 86_400_000).toISOString(),
          to: new Date(to).toISOString(),
          items: Array.from({ length: 26 }, (_, i) => ({
            at: new Date(Math.floor((to - i * step * 1000) / step / 1000) * step * 1000).toISOString(),
            had: Math.floor(noise(i) * 6),
            stock_outs: noise(i + 90) > 0.7 ? 2 : 0,
            notices: noise(i + 40) > 0.8 ? 1 : 0,
            lost: 0,
            given_back: 1,
          })),
        });
      },
    ],
    ["GET", "/cloud-accounts", () => ok({ items: this.accounts })],
    [
      "POST",
      "/cloud-accounts",
      (r) => {
        const { name, cloud, regions, aws } = r.body as WireCloudAccountInput;
        const n = this.accounts.length + 1;
        const made = market.aCloudAccount(n, {
          name,
          cloud,
          regions,
          subject: aws?.role_arn ?? "",
          ...(cloud === "aws" ? {} : { external_id: undefined }),
          state: "new",
          refreshed_at: null,
          outcome: {},
        });
        this.accounts.push(made);
        return { status: 201, body: made };
      },
    ],
    [
      "DELETE",
      "/cloud-accounts/{id}",
      (_, p) => {
        this.accounts = this.accounts.filter((a) => a.id !== p.id);
        return ok();
      },
    ],
    [
      "POST",
      "/cloud-accounts/{id}/validate",
      () =>
        ok({
          ok: false,
          checks: [
            { name: "ec2:DescribeInstanceTypes", ok: true },
            { name: "savingsplans:DescribeSavingsPlans", ok: false, problem: "AccessDenied" },
          ],
        }),
    ],
    ["POST", "/cloud-accounts/{id}/refresh", () => ({ status: 202 })],
    ["GET", "/price-sources", () => ok({ items: this.sources })],
    ["GET", "/commitments", () => ok({ items: this.commitments })],
    ["POST", "/commitments/import", (r) => this.take(r.body)],
    [
      "DELETE",
      "/commitments/{id}",
      (_, p) => {
        this.commitments = this.commitments.filter((c) => c.id !== p.id);
        return ok();
      },
    ],
    [
      "GET",
      "/commitments/utilisation",
      (r) => {
        const items = this.commitments.map((c, i) =>
          market.aCommitmentUse(i + 1, {
            id: c.id,
            ref: c.ref,
            kind: c.kind,
            owner: c.owner,
            ...(i === 2
              ? {
                  used: make.money(0),
                  unused: make.money(3456),
                  bought: make.money(3456),
                  utilisation: 0,
                  listed: make.money(0),
                  savings: make.money(-3456),
                }
              : {}),
          }),
        );
        const none = items.length === 0;
        return ok({
          from: r.query.get("from"),
          to: r.query.get("to"),
          bought: make.money(none ? 0 : 11_808),
          used: make.money(none ? 0 : 7433.28),
          unused: make.money(none ? 0 : 4374.72),
          utilisation: none ? null : 0.6295,
          items,
        });
      },
    ],
    [
      "GET",
      "/commitments/coverage",
      (r) =>
        ok({
          from: r.query.get("from"),
          to: r.query.get("to"),
          coverage: 0.66,
          items: [
            ["g6", 1223, 764, 5626.26, 3514.53],
            ["g5", 2195, 1518, 2660.53, 1839.72],
            ["m6i", 740, 740, 283.98, 283.98],
          ].map(([family, eligible, covered, cost, of]) => ({
            cloud: "aws",
            region: "us-east-1",
            family,
            eligible_hours: eligible,
            covered_hours: covered,
            coverage: Number(of) / Number(cost),
            on_demand_cost: make.money(Number(cost)),
            covered_cost: make.money(Number(of)),
            unlisted: family === "m6i",
          })),
        }),
    ],
    [
      "GET",
      "/commitments/expiries",
      () =>
        ok({
          data_now: make.NOW.toISOString(),
          items: this.commitments
            .filter((c) => c.ends_at)
            .map((c, i) =>
              market.anExpiry(i + 1, {
                id: c.id,
                ref: c.ref,
                kind: c.kind,
                owner: c.owner,
                ends_at: c.ends_at ?? "",
                days_left: Math.floor((Date.parse(c.ends_at ?? "") - make.NOW.getTime()) / 86_400_000),
                hour_cost: c.hour_cost,
              }),
            )
            .sort((a, b) => a.days_left - b.days_left),
        }),
    ],
    [
      "GET",
      "/commitments/recommendations",
      (r) =>
        ok({
          from: r.query.get("from"),
          to: r.query.get("to"),
          saving_month: make.money(this.advice.reduce((sum, a) => sum + Number(a.saving_month.amount), 0)),
          items: this.advice,
        }),
    ],
    [
      "GET",
      "/catalog/instances",
      (r) => {
        const least = (name: string) => Number(r.query.get(name) ?? 0);
        // What is not known does not fit.
        const has = (value: number | null, name: string) => least(name) === 0 || (value ?? -1) >= least(name);
        const text = (r.query.get("q") ?? "").toLowerCase();
        const items = this.instances.filter(
          (i) =>
            (!r.query.get("cloud") || i.cloud === r.query.get("cloud")) &&
            (!r.query.get("region") || i.region === r.query.get("region")) &&
            `${i.name} ${i.gpu_model ?? ""}`.toLowerCase().includes(text) &&
            i.gpu_count >= least("min_gpus") &&
            i.gpu_memory_mib >= least("min_gpu_memory_mib") &&
            i.cpu_milli >= least("min_cpu_milli") &&
            i.mem_mib >= least("min_mem_mib") &&
            has(i.network_mbps, "min_network_mbps") &&
            has(i.local_disk_gib, "min_local_disk_gib") &&
            (r.query.get("mig") !== "true" || i.mig === true) &&
            (!r.query.get("fabric") ||
              (r.query.get("fabric") === "any" ? i.fabric !== "none" : i.fabric === r.query.get("fabric"))),
        );
        return ok({
          date: "2026-07-30",
          sources: [
            {
              cloud: "aws",
              kind: "on_demand",
              name: "aws-ondemand",
              date: "2026-07-20",
              licence: "Apache-2.0",
              origin: "an open price list",
            },
          ],
          total: items.length,
          coverage: [
            { cloud: "aws", priced: ["us-east-1"], unpriced: ["us-west-2"] },
            { cloud: "gcp", priced: ["us-central1"], unpriced: [] },
          ],
          doubts: this.instances.reduce((sum, i) => sum + (i.doubts ?? []).length, 0),
          items,
        });
      },
    ],
  ];
}
