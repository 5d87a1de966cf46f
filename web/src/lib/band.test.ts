import { describe, expect, test } from "vitest";
import type { BandPoint } from "../api/forecast";
import { bandColumn, timesAhead } from "./band";

const point = (minute: number, upper: number | null): BandPoint => ({
  at: minute * 60_000,
  middle: upper === null ? null : upper / 2,
  upper,
  demand: null,
  hpa: null,
});
const at = (...minutes: number[]) => minutes.map((m) => m * 60_000);

describe("the band at the times of a chart", () => {
  test.each([
    ["straight lines between points", [point(0, 4), point(5, 9)], at(0, 1, 4, 5), [4, 5, 8, 9]],
    ["nothing before and after", [point(5, 4), point(10, 4)], at(4, 5, 10, 11), [null, 4, 4, null]],
    ["a gap stays one", [point(0, 4), point(20, 8)], at(0, 10, 20), [4, null, 8]],
    [
      "an unknown point is no zero",
      [point(0, 4), point(5, null), point(10, 8)],
      at(0, 3, 5, 7, 10),
      [4, null, null, null, 8],
    ],
    ["no band at all", [], at(0, 1), [null, null]],
  ])("%s", (_, band, times, want) => {
    expect(bandColumn(band, times, "upper")).toEqual(want);
  });

  test("counts are not averaged", () => {
    const counts = [9, 12].map((hpa, i) => ({ ...point(5 * i, null), hpa }));
    expect(bandColumn(counts, at(0, 3, 5), "hpa")).toEqual([9, 9, 12]);
  });

  test("what is ahead lies after the last time", () => {
    expect(timesAhead([point(0, 1), point(5, 2), point(10, 3), point(15, null)], at(0, 5))).toEqual(at(10));
    expect(timesAhead([point(5, 2)], [])).toEqual([]);
  });
});
