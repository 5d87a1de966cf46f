// The wire, as docs/openapi.yaml says it: snake_case, times as RFC 3339, money as a decimal string with its currency. Only api/ and
// the fake server may import this; everything else sees the domain types that api/ makes of it.
import type { components, paths as servicePaths } from "./schema.gen";

type Schemas = components["schemas"];
type Prefix = "/api/v1";

/** The service's paths without their common prefix, which the client's base URL has. */
export type paths = {
  [P in keyof servicePaths as P extends `${Prefix}${infer Rest}` ? Rest : never]: servicePaths[P];
};

export type WireMoney = Schemas["Money"];

/** The document cannot say that a reference may be null, so it is said here: these amounts are null when nobody knows the price. */
type Maybe<T, K extends keyof T> = Omit<T, K> & { [P in K]: WireMoney | null };

export interface WireList<T> {
  items: T[] | null;
  next_cursor?: string;
}

export type WireMe = Schemas["Me"];
export type WireCluster = Maybe<Schemas["Cluster"], "cost_hour">;
export type WireNode = Maybe<Schemas["Node"], "cost_hour">;
export type WireClusterEvent = Schemas["ClusterEvent"];
export type WireEnrolment = Schemas["EnrolmentOutputBody"];
export type WireWorkload = Omit<Maybe<Schemas["Workload"], "cost_hour" | "replica_hour">, "last_decision"> & {
  last_decision: Schemas["LastDecision"] | null;
};
export type WireSignal = Schemas["SignalNow"];
export type WireTimeline = Schemas["Timeline"];
export type WireForecastAccount = Maybe<Schemas["ForecastAccount"], "cost_hour">;
export type WireForecastChoice = Maybe<Schemas["ForecastChoice"], "cost_hour">;
type Forecast = Schemas["WorkloadForecast"];
export type WireForecast = Omit<Forecast, "now" | "in_charge" | "runner_up" | "own" | "hpa_70"> & {
  now: Schemas["ForecastNow"] | null;
  in_charge: WireForecastChoice | null;
  runner_up: WireForecastChoice | null;
  own: WireForecastAccount | null;
  hpa_70: WireForecastAccount | null;
};
export type WireTimelinePoint = Schemas["TimelinePoint"];
export type WirePolicyVersion = Schemas["PolicyVersion"];
export type WireFinding = Schemas["OptimizerFinding"];
export type WirePreset = Schemas["Preset"];
export type WireDecision = Maybe<Schemas["Decision"], "cost_delta_hour">;
export type WireDecisionDetail = Maybe<Schemas["DecisionExplained"], "cost_delta_hour">;
export type WireReason = Schemas["OptimizerReason"];
export type WireOverview = Omit<Schemas["Overview"], "cost" | "savings"> & {
  cost: Maybe<Schemas["OverviewCostStruct"], "forecast_month">;
  savings: Maybe<Schemas["OverviewSavingsStruct"], "month_to_date">;
};
export type WireAllocation = Schemas["Allocation"];
export type WireAllocations = Schemas["Allocations"];
export type WireTimeseries = Schemas["CostTimeseries"];
export type WireBudget = Omit<Maybe<Schemas["Budget"], "forecast" | "forecast_low" | "forecast_high">, "breaker"> & {
  breaker?: Schemas["BudgetBreaker"] | null;
};
export type WireBillMoney = Schemas["BillMoney"];
export type WireBill = Schemas["Bill"];
export type WireReconciliation = Schemas["Reconciliation"];
export type WireRestatement = Schemas["Restatement"];
export type WireBudgetInput = Schemas["BudgetBody"];
export type WireWebhook = Schemas["Webhook"];
export type WireDelivery = Schemas["Delivery"];
export type WireAlert = Schemas["Alert"];
export type WireMember = Schemas["Member"];
export type WireApiKey = Schemas["APIKey"];
export type WireAuditEntry = Schemas["AuditEntry"];

type Machine = Schemas["SpotMachine"] | null;
export type WirePool = Schemas["SpotPool"];
export type WireMachine = Schemas["SpotMachine"];
export type WireSpotQuote = Maybe<Schemas["SpotQuote"], "price">;
export type WireSpotSeries = Omit<Schemas["SpotSeries"], "newest"> & { newest: WireSpotQuote };
export type WireSpotHistory = Omit<
  Maybe<Schemas["SpotHistory"], "catalogue_on_demand" | "catalogue_spot">,
  "machine" | "series" | "data"
> & { machine: Machine; series: WireSpotSeries[] | null; data: Schemas["SpotData"] | null };
export type WireSpotStats = Omit<
  Maybe<Schemas["SpotPoolStats"], "level" | "per_gpu" | "min" | "max" | "last" | "on_demand">,
  "machine"
> & { machine: Machine };
export type WireSpotOffer = Omit<Maybe<Schemas["SpotOffer"], "on_demand" | "per_gpu">, "quote"> & {
  quote: WireSpotQuote;
};
export type WireSpotMarket = Omit<Schemas["SpotMarket"], "machine"> & { machine: Machine };
export type WireQuarantined = Maybe<Schemas["QuarantinedPrice"], "expected">;
export type WireSupply = Omit<Schemas["Supply"], "placement"> & { placement: Schemas["PlacementNote"] | null };
export type WireSupplyList = Omit<Schemas["SupplyList"], "items"> & { items: WireSupply[] | null };
export type WireSupplyHistory = Schemas["SupplyHistory"];
export type WireSupplyStep = Schemas["SupplyStep"];
export type WireCommitment = Maybe<Schemas["Commitment"], "hourly_commitment">;
export type WireCommitmentUse = Maybe<Schemas["CommitmentUse"], "listed" | "savings">;
export type WireUtilisation = Omit<Schemas["CommitmentUtilisation"], "items"> & { items: WireCommitmentUse[] | null };
export type WireCoverage = Schemas["CommitmentCoverage"];
export type WireCommitmentStep = Schemas["CommitmentStep"];
export type WireCommitmentSeries = Schemas["CommitmentSeries"];
export type WirePending = Schemas["PendingCommitment"];
export type WireCommitmentRecord = Schemas["CommitmentRecord"];
export type WireReservedStock = Schemas["ReservedStock"];
export type WireExpiry = Schemas["CommitmentExpiry"];
export type WireAdvice = Maybe<Schemas["CommitmentAdvice"], "spot_hour">;
export type WireAdviceAnswer = Omit<Schemas["CommitmentAdviceAnswer"], "items"> & { items: WireAdvice[] | null };
export type WireInstance = Maybe<Schemas["Instance"], "on_demand" | "spot" | "per_gpu">;
export type WireCatalogue = Omit<Schemas["CatalogAnswer"], "items"> & { items: WireInstance[] | null };
export type WireKnownPrice = Maybe<Schemas["KnownPrice"], "hour">;
export type WirePricePart = Maybe<Schemas["PricePart"], "per_hour" | "left_spend">;
export type WirePriceExplained = Omit<
  Maybe<Schemas["PriceExplained"], "per_hour" | "total_hour">,
  "parts" | "list" | "contracted" | "spot"
> & {
  parts: WirePricePart[] | null;
  list: WireKnownPrice;
  contracted: WireKnownPrice;
  spot: WireKnownPrice;
};

export type WireCloudAccount = Schemas["CloudAccount"];
export type WireCloudAccountInput = Schemas["NewCloudAccountBody"];
export type WireCloudChecks = Schemas["CloudChecks"];
export type WirePriceSource = Schemas["PriceSource"];

export type WireReplayRow = Maybe<Schemas["ReplayRow"], "cost">;
export type WireReplayResult = Omit<Maybe<Schemas["ReplayResult"], "bound_cost" | "replica_hour">, "rows"> & {
  rows: WireReplayRow[] | null;
};
export type WireRollout = Schemas["Rollout"];
export type WireReplay = Omit<Schemas["Replay"], "result"> & { result?: WireReplayResult };
