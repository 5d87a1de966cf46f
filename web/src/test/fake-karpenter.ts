// What Karpenter was told, of the fake service: one order done, one that somebody else's field kept from being done.
import type { components } from "../api/schema.gen";
import { uuid } from "./factories.ts";
import type { FakeAnswer, Handler } from "./fake-api.ts";

type Schemas = components["schemas"];
type Body = Schemas["KarpenterOutputBody"];

const ok = (body?: unknown): FakeAnswer => ({ status: body === undefined ? 204 : 200, body });
const conflict = (detail: string): FakeAnswer => ({ status: 409, body: { status: 409, title: "Conflict", detail } });
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

export class FakeKarpenter {
  body: Body = {
    version: 1,
    settings: { enabled: true, class_group: "karpenter.k8s.aws", class_kind: "EC2NodeClass", class_name: "default" },
    pools: ["plimsoll-g6-xlarge-od", "plimsoll-rest"],
    overlays: [],
    orders: [
      {
        id: uuid(70, 2),
        generation: 42,
        kind: "plan",
        state: "partial",
        by: "planner",
        at: ago(90),
        closed_at: ago(80),
      },
      {
        id: uuid(70, 1),
        generation: 40,
        kind: "plan",
        state: "applied",
        by: "planner",
        at: ago(900),
        closed_at: ago(890),
      },
    ],
  };
  actions: Schemas["KarpenterActionView"][] = [
    {
      action_id: "pool/plimsoll-g6-xlarge-od",
      spec: {},
      outcome: "failed",
      code: "conflict",
      detail: "NodePool/plimsoll-g6-xlarge-od: spec.weight is written by kubectl-edit and plimsoll-agent: yielding",
      before: '{"weight":55}',
      after: '{"weight":55}',
      writers: ["kubectl-edit", "plimsoll-agent"],
    },
    { action_id: "pool/plimsoll-rest", spec: {}, outcome: "already", writers: [] },
  ];

  readonly routes: [string, string, Handler][] = [
    [
      "GET",
      "/clusters/{id}/karpenter",
      (_, p) =>
        ok(
          p.id === uuid(3, 1)
            ? this.body
            : { version: 0, settings: { enabled: false }, stopped: "off", pools: [], overlays: [], orders: [] },
        ),
    ],
    [
      "PUT",
      "/clusters/{id}/karpenter",
      (r, p) => {
        const body = r.body as Schemas["SetKarpenterInputBody"];
        if (p.id !== uuid(3, 1)) return ok();
        if (body.version !== this.body.version) return conflict("the policy was changed meanwhile; read it again");
        this.body = {
          ...this.body,
          version: body.version + 1,
          settings: body.settings,
          stopped: body.settings.enabled ? undefined : "off",
        };
        return ok();
      },
    ],
    [
      "GET",
      "/clusters/{id}/karpenter/orders/{order}",
      () => ok({ order: this.body.orders?.[0], actions: this.actions }),
    ],
    [
      "POST",
      "/clusters/{id}/karpenter/hand-back",
      () => {
        if (this.body.settings.enabled)
          return conflict("switch it off first: the next plan would make the pools again");
        this.body.orders?.unshift({
          id: uuid(70, 9),
          generation: 43,
          kind: "hand_back",
          state: "open",
          by: "owner",
          at: ago(0),
        });
        return { status: 202 };
      },
    ],
  ];
}
