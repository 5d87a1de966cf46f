// What the fake service knows of channels, routes, silences, digests and anomalies.
import * as make from "./factories";

export const channels = [
  {
    id: make.uuid(9, 1),
    kind: "webhook",
    name: "platform-alerts-1",
    address: "https://hooks.example.com/plimsoll/1",
    language: "en",
    created_at: make.before(17_000),
    old_secret_until: null,
  },
  {
    id: make.uuid(9, 2),
    kind: "slack",
    name: "finops",
    address: "https://hooks.slack.com/…",
    language: "zh",
    created_at: make.before(9_000),
    old_secret_until: null,
  },
];

export const routes = [
  {
    id: make.uuid(14, 1),
    name: "money",
    channel_id: make.uuid(9, 2),
    kinds: ["budget_threshold", "spend_breaker", "cost_anomaly"],
    min_severity: "warning",
    resolved: true,
    created_at: make.before(9_000),
  },
];

export const silences = [
  {
    id: make.uuid(15, 1),
    kinds: ["agent_offline"],
    subject_prefix: "cluster/",
    reason: "Upgrade of the nodes",
    from: make.before(30),
    until: make.before(-210),
    created_by: "Mei Tanaka",
    created_at: make.before(30),
    ended_at: null,
  },
];

export const digests = [{ channel_id: make.uuid(9, 2), every: "day", hour: 9, sent_for: null }];

export const attempts = [
  { n: 1, at: make.before(12), status: 503, problem: "answered 503", took_ms: 120 },
  { n: 2, at: make.before(11), status: 204, took_ms: 95 },
];

export const anomalies = [
  {
    id: make.uuid(16, 1),
    scope: "team",
    key: "assistant",
    name: "assistant",
    day: "2026-11-14",
    direction: "up",
    actual: make.money(3_120.5),
    expected: make.money(1_980),
    low: make.money(1_700),
    high: make.money(2_260),
    score: 14.2,
    learned_from_days: 42,
    contributors: [
      {
        workload_id: make.uuid(4, 1),
        name: "chat/Deployment/chat-llm",
        delta: "1140.50",
        price: "40.50",
        quantity: "1100.00",
        mix: "0.00",
      },
    ],
    decisions: [
      {
        id: make.uuid(6, 1),
        workload_id: make.uuid(4, 1),
        workload: "chat/Deployment/chat-llm",
        at: make.before(900),
        from: 6,
        target: 18,
        binding: "queue",
      },
    ],
    found_at: make.before(600),
    acknowledged_at: null,
  },
];
