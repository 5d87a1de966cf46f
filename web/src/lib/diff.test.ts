import { expect, test } from "vitest";
import { diffLines } from "./diff";

const show = (before: string, after: string) =>
  diffLines(before, after).map((l) => ({ same: " ", add: "+", remove: "-" })[l.kind] + l.text);

test.each([
  ["equal texts", "a\nb\n", "a\nb\n", [" a", " b"]],
  ["a line is changed", "min: 1\nmax: 5\n", "min: 1\nmax: 9\n", [" min: 1", "-max: 5", "+max: 9"]],
  ["a line is put in", "a\nc", "a\nb\nc", [" a", "+b", " c"]],
  ["a line is taken out", "a\nb\nc", "a\nc", [" a", "-b", " c"]],
  ["from nothing", "", "a", ["-", "+a"]],
])("%s", (_, before, after, want) => {
  expect(show(before, after)).toEqual(want);
});

test("applying the diff gives the other text back", () => {
  const before = "a\nb\nc\nd\ne";
  const after = "b\nx\nd\ny\ne\nz";
  const lines = diffLines(before, after);
  expect(
    lines
      .filter((l) => l.kind !== "add")
      .map((l) => l.text)
      .join("\n"),
  ).toBe(before);
  expect(
    lines
      .filter((l) => l.kind !== "remove")
      .map((l) => l.text)
      .join("\n"),
  ).toBe(after);
});
