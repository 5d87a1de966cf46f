// Wire values of bills.
import type { WireBill, WireReconciliation, WireRestatement } from "../api/wire";
import { before, money, uuid } from "./factories.ts";

export function aBill(over: Partial<WireBill> = {}): WireBill {
  return {
    id: uuid(71, 1),
    name: "cur-2026-10.csv.gz",
    format: "aws_cur",
    content_hash: "5f1c".repeat(16),
    bytes: 48_212_004,
    lines: 181_204,
    charges: 9_120,
    from: "2026-10-01T00:00:00Z",
    to: "2026-11-01T00:00:00Z",
    billed: money("101204.551230004712"),
    effective: money("98110.204400000001"),
    list: money("131950.10"),
    lines_without_effective: 0,
    lines_without_list: 12,
    rounded_values: 0,
    unread_columns: ["identity_line_item_id"],
    periods: [
      {
        provider: "AWS",
        account: "000000000000",
        from: "2026-10-01T00:00:00Z",
        to: "2026-11-01T00:00:00Z",
        lines: 181_204,
        billed: money("101204.551230004712"),
      },
    ],
    created_by: "finance@example.com",
    created_at: before(2_000),
    ...over,
  };
}

export function aRestatement(over: Partial<WireRestatement> = {}): WireRestatement {
  return {
    id: uuid(72, 1),
    from: "2026-10-01T00:00:00Z",
    to: "2026-11-01T00:00:00Z",
    machines: 42,
    machine_hours: 30_100,
    before: money("96020.5"),
    after: money("94404.2"),
    bills: [uuid(71, 1)],
    waiting_hours: 3,
    created_by: "finance@example.com",
    created_at: before(5),
    undone_at: null,
    ...over,
  };
}

/** A comparison whose causes add up to its gap. */
export function aReconciliation(from: string | null, to: string | null): WireReconciliation {
  const day = from ?? "2026-10-01T00:00:00.000Z";
  return {
    from: day,
    to: to ?? "2026-11-01T00:00:00.000Z",
    estimate: money("96020.50"),
    bill: money("98110.204400000001"),
    gap: money("2089.704400000001"),
    causes: [
      { cause: "network", amount: money("3105.904400000001") },
      { cause: "price", amount: money("-1616.30") },
      { cause: "tax", amount: money("600.10") },
    ],
    estimate_matched: 0.9968,
    bill_matched: 0.9921,
    open_hours: 2,
    lines_without_effective: 0,
    lines: [
      {
        day,
        provider: "AWS",
        service: "AmazonEC2",
        estimate: money("96020.50"),
        bill: money("94404.20"),
        gap: money("-1616.30"),
      },
    ],
    pairs: [
      {
        day,
        level: "resource",
        provider: "AWS",
        service: "AmazonEC2",
        region: "us-east-1",
        instance_type: "p5.48xlarge",
        purchase: "on_demand",
        resource: "i-0f00d",
        machines: ["gpu-h100-1"],
        machine_count: 1,
        estimate_hours: 24,
        bill_hours: 24,
        estimate: money("2359.68"),
        bill: money("2203.20"),
        gap: money("-156.48"),
        causes: [{ cause: "price", amount: money("-156.48") }],
      },
    ],
    pair_count: 412,
    bill_only: [
      {
        from: day,
        to: to ?? "2026-11-01T00:00:00.000Z",
        provider: "AWS",
        service: "AWSDataTransfer",
        category: "Usage",
        description: "data transfer out",
        amount: money("3105.904400000001"),
        cause: "network",
        first_line: 77,
        lines: 720,
      },
    ],
    bill_only_count: 1,
    ledger_only: [],
    ledger_only_count: 0,
  };
}
