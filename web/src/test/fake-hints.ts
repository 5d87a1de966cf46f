// What the fake service knows of expected load.
import * as make from "./factories.ts";

const hint = {
  id: make.uuid(31, 1),
  from: new Date(Date.now() + 86_400_000).toISOString(),
  to: new Date(Date.now() + 97_200_000).toISOString(),
  kind: "factor",
  amount: 3,
  note: "autumn sale",
  created_by: "Mei Tanaka",
  created_at: make.before(7_200),
  state: "ahead",
};

export class FakeHints {
  items: (typeof hint)[] = [hint];

  list(past: boolean) {
    const over = { ...hint, id: make.uuid(31, 2), from: make.before(90_000), to: make.before(80_000), state: "over" };
    return { items: past ? [over, ...this.items] : this.items, most: 50, reads: "all" };
  }

  add(body: object) {
    const added = { ...hint, ...body, id: make.uuid(31, 3 + this.items.length) };
    this.items = [...this.items, added];
    return added;
  }

  remove(id: string) {
    this.items = this.items.filter((h) => h.id !== id);
  }
}
