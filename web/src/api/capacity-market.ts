import type { Money } from "../lib/money";
import type { Offering } from "./capacity";
import { readMoney, readTimeOr } from "./read";
import type { components } from "./schema.gen";

type Schemas = components["schemas"];

/** A place to buy; score and hazard are null on demand, most is null without a limit. */
export interface MarketPool {
  offering: Offering;
  price: Money;
  score: number | null;
  hazard: number | null;
  held: number;
  target: number;
  most: number | null;
  backoffUntil: Date | null;
}

/** Where machines for some pods were considered on Spot. */
export interface PlannedMarket {
  pods: string[];
  want: number;
  standIn: number;
  pools: MarketPool[];
}

export function readMarkets(
  wire: Schemas["PlannedMarket"][] | null | undefined,
  readOffering: (w: Schemas["PlannedOffering"]) => Offering,
): PlannedMarket[] {
  return (wire ?? []).map((m) => ({
    pods: m.pods ?? [],
    want: m.want,
    standIn: m.stand_in,
    pools: (m.pools ?? []).map((p) => ({
      offering: readOffering(p.offering),
      price: readMoney(p.price),
      score: p.score ?? null,
      hazard: p.hazard ?? null,
      held: p.held,
      target: p.target,
      most: p.most ?? null,
      backoffUntil: readTimeOr(p.backoff_until),
    })),
  }));
}
