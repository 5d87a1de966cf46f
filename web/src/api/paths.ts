import type {
  WireCluster,
  WireClusterEvent,
  WireDecision,
  WireDecisionDetail,
  WireDecisionState,
  WireEnrolmentToken,
  WireFinding,
  WireList,
  WireMe,
  WireMode,
  WireNode,
  WireOutcome,
  WireOverview,
  WirePolicyVersion,
  WireTimeline,
  WireWorkload,
} from "./wire";
import type { moneyPaths } from "./wire-money";
import type { settingsPaths } from "./wire-settings";

/** One operation in the shape that openapi-fetch reads. */
export type Operation<Out, In extends { path?: object; query?: object; header?: object; body?: unknown } = object> = {
  parameters: (In extends { path: infer P } ? { path: P } : { path?: never }) & {
    query?: In extends { query: infer Q } ? Q : never;
    header?: In extends { header: infer H } ? H : never;
  };
  responses: { 200: { content: { "application/json": Out } } };
} & (In extends { body: infer B } ? { requestBody: { content: { "application/json": B } } } : { requestBody?: never });

type Id = { id: string };

export interface paths extends moneyPaths, settingsPaths {
  "/auth/login": { post: Operation<WireMe, { body: { email: string; password: string } }> };
  "/auth/logout": { post: Operation<undefined> };
  "/me": { get: Operation<WireMe> };
  "/overview": { get: Operation<WireOverview> };
  "/clusters": {
    get: Operation<WireList<WireCluster>, { query: { q?: string; cursor?: string; limit?: number } }>;
    post: Operation<WireCluster, { body: { name: string; mode: WireMode } }>;
  };
  "/clusters/{id}": {
    get: Operation<WireCluster, { path: Id }>;
    patch: Operation<WireCluster, { path: Id; body: { mode?: WireMode; frozen?: boolean } }>;
  };
  "/clusters/{id}/enrolment-tokens": { post: Operation<WireEnrolmentToken, { path: Id }> };
  "/clusters/{id}/nodes": {
    get: Operation<WireList<WireNode>, { path: Id; query: { cursor?: string; limit?: number } }>;
  };
  "/clusters/{id}/events": {
    get: Operation<WireList<WireClusterEvent>, { path: Id; query: { kind?: string; cursor?: string; limit?: number } }>;
  };
  "/workloads": {
    get: Operation<
      WireList<WireWorkload>,
      {
        query: { cluster?: string; namespace?: string; team?: string; q?: string; cursor?: string; limit?: number };
      }
    >;
  };
  "/workloads/{id}": { get: Operation<WireWorkload, { path: Id }> };
  "/workloads/{id}/timeline": {
    get: Operation<WireTimeline, { path: Id; query: { from: string; to: string } }>;
  };
  "/workloads/{id}/policy": {
    get: Operation<WirePolicyVersion, { path: Id }>;
    put: Operation<WirePolicyVersion, { path: Id; header: { "If-Match"?: string }; body: { document: string } }>;
  };
  "/workloads/{id}/policy/versions": { get: Operation<WireList<WirePolicyVersion>, { path: Id }> };
  "/policies/lint": { post: Operation<{ findings: WireFinding[] | null }, { body: { document: string } }> };
  "/policies/presets": { get: Operation<WireList<{ name: string; document: string }>> };
  "/decisions": {
    get: Operation<
      WireList<WireDecision>,
      {
        query: {
          cluster?: string;
          workload?: string;
          state?: WireDecisionState[];
          outcome?: WireOutcome[];
          from?: string;
          to?: string;
          cursor?: string;
          limit?: number;
        };
      }
    >;
  };
  "/decisions/{id}": { get: Operation<WireDecisionDetail, { path: Id }> };
  "/decisions/{id}/approve": { post: Operation<WireDecision, { path: Id }> };
  "/decisions/{id}/reject": { post: Operation<WireDecision, { path: Id; body: { reason?: string } }> };
  "/decisions/{id}/recompute": { post: Operation<{ equal: boolean }, { path: Id }> };
  "/demo/speed": {
    get: Operation<{ speed: number }>;
    put: Operation<{ speed: number }, { body: { speed: number } }>;
  };
}
