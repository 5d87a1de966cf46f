import type { Supply } from "../api/availability";

export const MEASURES = ["hour", "now", "survives", "hazard", "wait"] as const;
export type Measure = (typeof MEASURES)[number];

const HOUR = 3600;
/** A machine that lives ten hours in the mean is middling: what is shown per hour is coloured by what is left after ten. */
const HOURS = 10;

/** How good a cell is, 0 to 1, for its colour only; the cell also says its figure. */
export function goodness(s: Supply, measure: Measure): number {
  switch (measure) {
    case "hour":
      return s.availableNextHour;
    case "now":
      return s.availableNow;
    case "survives":
      return s.survivesNextHour ** HOURS;
    case "hazard":
      return Math.exp(-s.hazard * HOURS);
    case "wait":
      return s.expectedSeconds === null ? 0 : Math.exp(-s.expectedSeconds / HOUR);
  }
}

export interface HeatRow {
  key: string;
  instanceType: string;
  purchase: Supply["purchase"];
  cells: (Supply | null)[];
}

export interface HeatGrid {
  /** One per zone, grouped by cloud and region. */
  zones: { key: string; cloud: string; region: string; zone: string }[];
  regions: { key: string; cloud: string; region: string; zones: number }[];
  rows: HeatRow[];
}

/** Offerings as a grid of machine types by zones, both sorted. */
export function heatGrid(items: readonly Supply[]): HeatGrid {
  const zoneKey = (s: Pick<Supply, "cloud" | "region" | "zone">) => `${s.cloud}/${s.region}/${s.zone}`;
  const zones = new Map<string, HeatGrid["zones"][number]>();
  const rows = new Map<string, { instanceType: string; purchase: Supply["purchase"]; cells: Map<string, Supply> }>();
  for (const s of items) {
    const at = zoneKey(s);
    zones.set(at, { key: at, cloud: s.cloud, region: s.region, zone: s.zone });
    const key = `${s.instanceType}/${s.purchase}`;
    const row = rows.get(key) ?? { instanceType: s.instanceType, purchase: s.purchase, cells: new Map() };
    row.cells.set(at, s);
    rows.set(key, row);
  }
  const sorted = [...zones.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  const regions: HeatGrid["regions"] = [];
  for (const z of sorted) {
    const key = `${z.cloud}/${z.region}`;
    const last = regions.at(-1);
    if (last?.key === key) last.zones++;
    else regions.push({ key, cloud: z.cloud, region: z.region, zones: 1 });
  }
  return {
    zones: sorted,
    regions,
    rows: [...rows.entries()]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, { cells, ...row }]) => ({ key, ...row, cells: sorted.map((z) => cells.get(z.key) ?? null) })),
  };
}
