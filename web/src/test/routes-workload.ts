// What the fake service answers about workloads, their policies and decisions.
import type { WireDecision, WireFinding } from "../api/wire";
import * as make from "./factories.ts";
import type { FakeApi } from "./fake-api.ts";
import { timeline } from "./fake-figures.ts";
import { type FakeAnswer, list, missing, ok, one, page, problem, type Route } from "./fake-http.ts";

function lint(document: string): WireFinding[] {
  const lines = document.split("\n");
  const findings: WireFinding[] = [];
  const tab = lines.findIndex((l) => l.includes("\t"));
  if (tab >= 0) findings.push({ field: "", severity: "error", message: "tabs cannot indent YAML", line: tab + 1 });
  const max = lines.findIndex((l) => l.startsWith("max:"));
  if (max < 0) findings.push({ field: "max", severity: "error", message: "max is required" });
  else if (Number(lines[max]?.slice(4)) > 50) {
    findings.push({
      field: "max",
      severity: "warning",
      message: "more than 50 replicas is rarely meant",
      line: max + 1,
    });
  }
  return findings;
}

function resolve(api: FakeApi, id: string | undefined, state: WireDecision["state"]): FakeAnswer {
  const decision = api.decisions.find((d) => d.id === id);
  if (!decision) return missing();
  if (decision.state !== "proposed") return problem(409, "Conflict", "this decision is no longer a proposal");
  decision.state = state;
  decision.decided_by = "Sample Owner";
  decision.decided_at = new Date().toISOString();
  api.overview.decisions_24h.proposed = api.decisions.filter((d) => d.state === "proposed").length;
  return ok(decision);
}

export const workloadRoutes = (api: FakeApi): Route[] => [
  [
    "GET",
    "/workloads",
    (r) => {
      const is = (name: string, value: string) => !r.query.get(name) || r.query.get(name) === value;
      return ok(
        page(
          api.workloads.filter(
            (w) =>
              w.key.includes(r.query.get("q") ?? "") &&
              is("cluster", w.cluster_id) &&
              is("namespace", w.namespace) &&
              is("team", w.team),
          ),
          r.query,
        ),
      );
    },
  ],
  ["GET", "/workloads/{id}", (_, p) => one(api.workloads, p.id)],
  [
    "GET",
    "/workloads/{id}/timeline",
    (r, p) => {
      const workload = api.workloads.find((w) => w.id === p.id);
      return workload ? ok(timeline(r.query, workload)) : missing();
    },
  ],
  [
    "GET",
    "/workloads/{id}/forecast",
    (r, p) => {
      const workload = api.workloads.find((w) => w.id === p.id);
      return workload ? ok(make.aForecast(r.query, workload)) : missing();
    },
  ],
  ["GET", "/workloads/{id}/tunings", () => ok(api.tunings.list())],
  [
    "POST",
    "/workloads/{id}/tunings/{tuning}/dismiss",
    (_, p) => {
      api.tunings.dismiss(p.tuning ?? "");
      return ok();
    },
  ],
  ["GET", "/workloads/{id}/hints", (r) => ok(api.hints.list(r.query.get("past") === "true"))],
  ["POST", "/workloads/{id}/hints", (r) => ok(api.hints.add(r.body as object))],
  [
    "DELETE",
    "/workloads/{id}/hints/{hint}",
    (_, p) => {
      api.hints.remove(p.hint ?? "");
      return ok();
    },
  ],
  [
    "GET",
    "/workloads/{id}/policy",
    (_, p) =>
      ok(
        api.policies.get(p.id ?? "")?.[0] ??
          make.aPolicy(0, { document: "", mode: "observe", created_by: "", created_at: null }),
      ),
  ],
  [
    "PUT",
    "/workloads/{id}/policy",
    (r, p) => {
      const { document } = r.body as { document: string };
      const versions = api.policies.get(p.id ?? "") ?? [];
      const newest = versions[0]?.version ?? 0;
      if (r.headers["if-match"] !== `"${newest}"`) {
        return problem(409, "Conflict", "the policy was changed meanwhile");
      }
      const errors = lint(document).filter((f) => f.severity === "error");
      if (errors.length > 0) {
        return problem(
          422,
          "Unprocessable Entity",
          "the policy cannot be used as it is",
          errors.map((e) => ({ location: `body.document.${e.field}`, message: e.message })),
        );
      }
      const saved = make.aPolicy(newest + 1, { document, created_at: new Date().toISOString() });
      api.policies.set(p.id ?? "", [saved, ...versions]);
      return ok(saved);
    },
  ],
  ["GET", "/workloads/{id}/rollouts", (_, p) => ok(list(api.rollouts.filter((r) => r.workload_id === p.id)))],
  [
    "POST",
    "/workloads/{id}/rollouts",
    (r, p) => {
      const body = r.body as { document: string; shadow_seconds: number; replay_override?: string };
      if (!body.replay_override && !api.tunings.items.some((x) => x.document === body.document)) {
        return problem(409, "Conflict", "the policy was never replayed", [
          { location: "body.replay_override", message: "say why it cannot wait" },
        ]);
      }
      const made = make.aRollout(p.id ?? "", { ...body, reason: body.replay_override ?? "" });
      api.rollouts.unshift(made);
      return { status: 201, body: made };
    },
  ],
  [
    "POST",
    "/rollouts/{id}/rollback",
    (_, p) => {
      const found = api.rollouts.find((r) => r.id === p.id);
      if (!found) return missing();
      Object.assign(found, { state: found.state === "shadow" ? "cancelled" : "rolled_back" });
      return ok(found);
    },
  ],
  ["GET", "/workloads/{id}/policy/versions", (_, p) => ok(list(api.policies.get(p.id ?? "") ?? []))],
  ["POST", "/policies/lint", (r) => ok({ findings: lint((r.body as { document: string }).document) })],
  [
    "GET",
    "/policies/presets",
    () =>
      ok(
        list([
          {
            name: "llm-queue",
            about: "Serving of language models: sized by requests per replica.",
            document: make.aPolicy(1).document,
          },
          {
            name: "static",
            about: "Fixed thresholds for a known load.",
            document: "mode: recommend\nmin: 1\nmax: 6\n",
          },
        ]),
      ),
  ],
  [
    "GET",
    "/decisions",
    (r) => {
      const words = (name: string) => (r.query.get(name) ?? "").split(",").filter(Boolean);
      const fits = (name: string, value: string) => words(name).length === 0 || words(name).includes(value);
      return ok(
        page(
          api.decisions.filter(
            (d) =>
              fits("state", d.state) &&
              fits("outcome", d.outcome) &&
              fits("workload", d.workload_id) &&
              fits("cluster", d.cluster_id),
          ),
          r.query,
        ),
      );
    },
  ],
  [
    "GET",
    "/decisions/{id}",
    (_, p) => {
      const decision = api.decisions.find((d) => d.id === p.id);
      return decision ? ok(make.aDecisionDetail(1, decision)) : missing();
    },
  ],
  ["POST", "/decisions/{id}/approve", (_, p) => resolve(api, p.id, "approved")],
  ["POST", "/decisions/{id}/reject", (_, p) => resolve(api, p.id, "rejected")],
  ["POST", "/decisions/{id}/recompute", () => ok({ equal: true })],
];
