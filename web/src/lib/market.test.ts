import { describe, expect, test } from "vitest";
import { readSupply, readSupplyHistory } from "../api/availability";
import { readHistory } from "../api/spot";
import { badRow, formatOf, rowText } from "../components/commitment-import";
import { chanceText } from "../components/heat-map";
import { aSupply } from "../test/factories-market";
import { cloudName } from "./cloud";
import { makeFormat } from "./format";
import { goodness, heatGrid } from "./supply";

describe("heat map", () => {
  test("types by zones, zones grouped by region, gaps where nothing is known", () => {
    const grid = heatGrid(
      [
        aSupply({ zone: "us-east-1b" }),
        aSupply({ region: "eu-west-1", zone: "eu-west-1a", instance_type: "p5.48xlarge" }),
        aSupply({ zone: "us-east-1a" }),
        aSupply({ zone: "us-east-1a", purchase: "on_demand" }),
      ].map(readSupply),
    );
    expect(grid.zones.map((z) => z.zone)).toEqual(["eu-west-1a", "us-east-1a", "us-east-1b"]);
    expect(grid.regions).toMatchObject([
      { region: "eu-west-1", zones: 1 },
      { region: "us-east-1", zones: 2 },
    ]);
    expect(grid.rows.map((r) => [r.key, r.cells.map((c) => c?.zone ?? null)])).toEqual([
      ["g5.xlarge/on_demand", [null, "us-east-1a", null]],
      ["g5.xlarge/spot", [null, "us-east-1a", "us-east-1b"]],
      ["p5.48xlarge/spot", ["eu-west-1a", null, null]],
    ]);
  });

  test("every measure is best at its best", () => {
    const best = readSupply(
      aSupply({
        p_available_now: 1,
        p_available_next_hour: 1,
        p_survives_next_hour: 1,
        hazard: 0,
        expected_seconds_to_capacity: 0,
      }),
    );
    const worst = readSupply(
      aSupply({
        p_available_now: 0,
        p_available_next_hour: 0,
        p_survives_next_hour: 0,
        hazard: 9,
        expected_seconds_to_capacity: 86_400,
      }),
    );
    for (const measure of ["hour", "now", "survives", "hazard", "wait"] as const) {
      expect(goodness(best, measure), measure).toBe(1);
      expect(goodness(worst, measure), measure).toBeLessThan(0.001);
    }
    expect(worst.expectedSeconds).toBeNull();
  });

  test.each([
    [0.34, "34%"],
    [0.9952, "99.5%"],
    [0.9998, "> 99.9%"],
    [1, "100%"],
    [0, "0%"],
  ])("a chance of %d", (p, want) => expect(chanceText(makeFormat("en-GB", "USD", "UTC"), p)).toBe(want));
});

test("steps without events have counts of zero", () => {
  const history = readSupplyHistory({
    step_seconds: 3600,
    from: "2026-11-27T10:00:00Z",
    to: "2026-11-27T13:00:00Z",
    items: [{ at: "2026-11-27T11:00:00Z", had: 3, stock_outs: 1, notices: 1, lost: 1, given_back: 0 }],
  });
  expect(history).toMatchObject({ had: [0, 3, 0], stockOuts: [0, 1, 0], lost: [0, 2, 0] });
});

test("a step without a listed price is a gap, not zero", () => {
  const history = readHistory({
    currency: "USD",
    from: "2026-11-27T10:00:00Z",
    to: "2026-11-27T12:00:00Z",
    step_seconds: 3600,
    machine: null,
    catalogue_on_demand: null,
    catalogue_spot: null,
    effective: [
      { at: "2026-11-27T10:00:00Z", price: "3.2" },
      { at: "2026-11-27T11:00:00Z", price: null },
    ],
    data: null,
    series: [
      {
        pool: { cloud: "aws", region: "r", zone: "z", instance_type: "t", product: "Linux/UNIX" },
        newest: { price: null, at: "2026-11-27T10:00:00Z", source: "s", stale: true },
        points: [
          { at: "2026-11-27T10:00:00Z", min: "1.5", avg: "1.55", max: "1.6", last: "1.5", on_demand: "4" },
          { at: "2026-11-27T11:00:00Z", min: null, avg: null, max: null, last: null, on_demand: null },
        ],
      },
    ],
  });
  expect(history.lines[0]).toMatchObject({ mean: [1.55, null], onDemand: [4, null], newest: { price: null } });
  expect(history.effective.price).toEqual([3.2, null]);
});

describe("import", () => {
  const csv = "ref,kind\r\n\r\na,x\nb,y\n";
  test.each([
    [csv, "csv", 2, "a,x"],
    [csv, "csv", 3, "b,y"],
    [csv, "csv", 9, null],
    ['ref,owner\n"a\nb",x\n', "csv", 2, null],
    ['[{"ref":"a"},{"ref":"b"}]', "json", 2, '{"ref":"b"}'],
    ["[", "json", 1, null],
  ] as const)("row of %j as %s, no. %d", (text, format, row, want) => expect(rowText(text, format, row)).toBe(want));
  test.each([
    ["row 12, column kind: is unknown", 12],
    ["an import is a JSON array of objects", null],
    ["arrow 3", null],
  ])("%s", (message, want) => expect(badRow(message)).toBe(want));
  test.each([
    [' [{"a":1}]', "json"],
    ["ref,kind", "csv"],
  ])("%s is %s", (text, want) => expect(formatOf(text)).toBe(want));
});

test("a price in a tooltip keeps its hundredth of a cent", () => {
  const f = makeFormat("en-GB", "USD", "UTC");
  expect([f.price(0.4367), f.price(55.04), f.price(1)]).toEqual(["$0.4367", "$55.04", "$1.00"]);
});

test("a cloud of a newer service keeps its own name", () => {
  expect([cloudName("gcp"), cloudName("onprem")]).toEqual(["Google Cloud", "onprem"]);
});
