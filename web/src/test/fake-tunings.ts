// What the fake service knows of nightly tuning.
import type { components } from "../api/schema.gen";
import * as make from "./factories.ts";

type Schemas = components["schemas"];
type Wire = Omit<Schemas["Tuning"], "chosen_on" | "held_out"> & {
  chosen_on: Schemas["TuneSpan"] | null;
  held_out: Schemas["TuneSpan"] | null;
};

const value = (aim: number, hours: number, late: number) => ({
  aim_share: aim,
  replica_hours: hours,
  cost: make.money(hours * 2.1),
  late_ratio: late,
  timeout_ratio: late / 40,
  on_time: late <= 0.015,
});

export const aTuning = (n: number, over: Partial<Wire> = {}): Wire => ({
  id: make.uuid(32, n),
  at: make.before(86_400 * n),
  made_at: make.before(86_400 * n),
  policy_version: 3,
  state: n === 0 ? "proposed" : "kept",
  reason: n === 0 ? "cheaper_on_time" : "cheapest_on_time",
  words: "",
  days: 11,
  days_needed: 9,
  objective: 0.03,
  limit: 0.015,
  current: 0.6,
  proposed: n === 0 ? 0.75 : null,
  chosen_on: { from: make.before(86_400 * (n + 9)), to: make.before(86_400 * (n + 2)) },
  held_out: n === 0 ? { from: make.before(86_400 * (n + 2)), to: make.before(86_400 * n) } : null,
  tried: [
    value(0.3, 1044, 0.004),
    value(0.45, 1011, 0.007),
    value(0.6, 990, 0.009),
    value(0.75, 958, 0.013),
    value(0.9, 931, 0.019),
  ],
  held: n === 0 ? [value(0.6, 281, 0.008), value(0.75, 272, 0.012)] : [],
  document: n === 0 ? "mode: enforce\nmax: 24\nslo: {aim_share: 0.75, requests_per_replica: 16}\n" : "",
  replay_id: n === 0 ? make.uuid(33, 1) : null,
  rollout_id: null,
  took_seconds: 14.2,
  dismissed_by: "",
  ...over,
});

export class FakeTunings {
  items: Wire[] = [aTuning(0), aTuning(1)];
  mode: Schemas["TuningList"]["tuning"] = "propose";

  list() {
    return { items: this.items, tuning: this.mode };
  }

  dismiss(id: string) {
    this.items = this.items.map((x) => (x.id === id ? { ...x, state: "dismissed" as const } : x));
  }
}
