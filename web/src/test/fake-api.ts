// A small in-memory stand-in for the service, for tests and `npm run dev:fake`. It speaks the wire types that the real API has, so a
// change of the contract breaks it at compile time. It computes nothing: figures are made up to look plausible.
import type { WireApiKey, WireAuditEntry, WireDecision, WireMember, WireRestatement, WireRollout } from "../api/wire";
import * as make from "./factories.ts";
import * as bill from "./factories-bills.ts";
import { FakeCapacityPolicy } from "./fake-capacity-policy.ts";
import { someClusters, someDecisions, someNodes, someWorkloads } from "./fake-estate.ts";
import { FakeGroups } from "./fake-groups.ts";
import { FakeHints } from "./fake-hints.ts";
import { type FakeAnswer, type FakeRequest, problem, type Route } from "./fake-http.ts";
import { FakeKarpenter } from "./fake-karpenter.ts";
import { FakeMarket } from "./fake-market.ts";
import { FakeServices } from "./fake-services.ts";
import { FakeTunings } from "./fake-tunings.ts";
import { accountRoutes } from "./routes-account.ts";
import { clusterRoutes } from "./routes-cluster.ts";
import { spendRoutes } from "./routes-spend.ts";
import { tellingRoutes } from "./routes-telling.ts";
import { workloadRoutes } from "./routes-workload.ts";

export { type FakeAnswer, type FakeRequest, type Handler, readBody } from "./fake-http.ts";

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
  clusters = someClusters();
  nodes = someNodes();
  workloads = someWorkloads();
  decisions: WireDecision[] = someDecisions();
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

  private readonly routes: Route[] = [
    ...accountRoutes(this),
    ...clusterRoutes(this),
    ...workloadRoutes(this),
    ...spendRoutes(this),
    ...tellingRoutes(this),
  ];

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
