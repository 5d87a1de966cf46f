// The groups of clouds of the fake service: one that is short of machines, one whose change came about, one that is off.
import type { components } from "../api/schema.gen";
import { uuid } from "./factories.ts";
import { aCloudAccount } from "./factories-market.ts";
import type { FakeAnswer, Handler } from "./fake-api.ts";

type Schemas = components["schemas"];
type Group = Schemas["CloudGroup"];
type Action = Schemas["CloudGroupAction"];

const ok = (body?: unknown): FakeAnswer => ({ status: body === undefined ? 204 : 200, body });
const problem = (status: number, title: string, detail: string, location?: string): FakeAnswer => ({
  status,
  body: { status, title, detail, errors: location ? [{ location, message: detail }] : undefined },
});
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

export function aGroup(n: number, over: Partial<Group> = {}): Group {
  return {
    id: uuid(60, n),
    account_id: aCloudAccount(1).id,
    cloud: "aws",
    ref: "us-east-1/gpu-l4",
    region: "us-east-1",
    zones: ["us-east-1a", "us-east-1b"],
    instance_types: ["g6.xlarge", "g6.2xlarge"],
    purchase: "on_demand",
    min: 1,
    max: 24,
    step: 4,
    hourly: 12,
    enabled: true,
    own: false,
    shrink: false,
    writers: [],
    writers_at: ago(60),
    yields: false,
    suspended: [],
    ...over,
  };
}

export function anAction(n: number, over: Partial<Action> = {}): Action {
  return {
    id: uuid(61, n),
    group_id: uuid(60, 1),
    plan_id: uuid(40, 1),
    before: 6,
    desired: 9,
    ready: 9,
    state: "joined",
    failures: [],
    nodes: [],
    asked_at: ago(3600 * n),
    closed_at: ago(3600 * n - 400),
    ...over,
  };
}

export class FakeGroups {
  items: Group[] = [
    aGroup(1, { own: true, shrink: true, suspended: ["AZRebalance", "AlarmNotification"] }),
    aGroup(2, {
      yields: true,
      writers: [{ kind: "scaling_policy", name: "target-cpu", sizes: true, stop: "AlarmNotification" }],
      ref: "us-east-1/gpu-spot",
      instance_types: ["g5.12xlarge"],
      zones: [],
      purchase: "spot",
      max: 6,
    }),
    aGroup(3, { ref: "us-east-1/cpu", instance_types: ["m7i.4xlarge"], min: 0, max: 10, enabled: false }),
  ];
  actions: Action[] = [
    anAction(2, {
      group_id: uuid(60, 2),
      before: 2,
      desired: 5,
      ready: 3,
      state: "stock_out",
      problem: "what did not come is still asked for: the cloud refuses too many calls",
      failures: [
        {
          at: ago(7000),
          kind: "stock_out",
          code: "InsufficientInstanceCapacity",
          message: "no g5.12xlarge capacity in the zone",
          zone: "us-east-1b",
          instance_type: "g5.12xlarge",
        },
      ],
    }),
    anAction(3),
    anAction(5, { before: 9, desired: 7, ready: 7, nodes: ["ip-10-0-1-7", "ip-10-0-1-9"] }),
    anAction(4, { before: 4, desired: 6, ready: 6 }),
  ];

  private of(cluster: string | undefined): boolean {
    return cluster === uuid(3, 1);
  }

  readonly routes: [string, string, Handler][] = [
    [
      "GET",
      "/clusters/{id}/cloud-groups",
      (_, p) => ok(this.of(p.id) ? { items: this.items, actions: this.actions } : { items: [], actions: [] }),
    ],
    [
      "PUT",
      "/clusters/{id}/cloud-groups/{group}",
      (r, p) => {
        const body = r.body as Schemas["SetCloudGroupInputBody"];
        if (body.min > body.max) return problem(422, "Unprocessable Entity", "min is 0 to max", "body.min");
        if (this.items.some((g) => g.id !== p.group && g.ref === body.ref)) {
          return problem(409, "Conflict", "this group is there already", "body.ref");
        }
        const at = this.items.findIndex((g) => g.id === p.group);
        const made = aGroup(0, { ...body, zones: body.zones ?? [], id: p.group ?? "" });
        if (at < 0) this.items.push(made);
        else this.items[at] = made;
        return ok();
      },
    ],
    [
      "DELETE",
      "/clusters/{id}/cloud-groups/{group}",
      (_, p) => {
        this.items = this.items.filter((g) => g.id !== p.group);
        this.actions = this.actions.filter((a) => a.group_id !== p.group);
        return ok();
      },
    ],
    [
      "POST",
      "/clusters/{id}/cloud-group-actions/{action}/undo",
      (_, p) => {
        const done = this.actions.find((a) => a.id === p.action);
        if (!done) return problem(404, "Not Found", "there is no such thing");
        if (this.actions.some((a) => a.group_id === done.group_id && !a.closed_at)) {
          return problem(409, "Conflict", "another action of this group has not ended");
        }
        this.actions.unshift(
          anAction(0, {
            id: uuid(61, 100 + this.actions.length),
            group_id: done.group_id,
            plan_id: undefined,
            undoes: done.id,
            before: done.desired,
            desired: done.before,
            ready: done.ready,
            state: "asked",
            closed_at: undefined,
          }),
        );
        return { status: 202 };
      },
    ],
  ];
}
