// Rules of the house that no linter holds.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
const files = readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name) && !name.includes(".test.") && name !== "api/schema.gen.ts")
  .map((name) => ({ name, text: readFileSync(join(root, name), "utf8") }));

const offenders = (pattern: RegExp, where: (name: string) => boolean) =>
  files.filter((f) => where(f.name) && pattern.test(f.text)).map((f) => f.name);

test("there is something to look at", () => {
  expect(files.length).toBeGreaterThan(70);
});

test("only api/ and the fake service know the wire", () => {
  expect(
    offenders(/from "[./]*(api\/)?(wire|schema\.gen)"/, (n) => !n.startsWith("api/") && !n.startsWith("test/")),
  ).toEqual([]);
});

test("money, time and numbers are formatted in lib/ only", () => {
  expect(
    offenders(/\bIntl\.|toLocale\w*String|\.toFixed\(/, (n) => !n.startsWith("lib/") && !n.startsWith("test/")),
  ).toEqual([]);
});

test("components take props: they ask no service", () => {
  expect(offenders(/useQuery\b|useSuspenseQuery|useMutation|api\/client/, (n) => n.startsWith("components/"))).toEqual(
    [],
  );
});

test("nothing is cast twice, nothing is any", () => {
  expect(offenders(/as unknown as|:\s*any\b|<any>|as any\b/, () => true)).toEqual([]);
});

test("ECharts is loaded by one lazy module", () => {
  expect(offenders(/from "echarts/, (n) => !n.startsWith("components/chart/"))).toEqual([]);
  expect(
    offenders(/from "\.{1,2}\/(chart\/)?(engine|time-chart)"/, (n) => !n.endsWith("chart/time-chart.tsx")),
  ).toEqual([]);
});

test("files stay readable", () => {
  const long = files.filter(
    (f) => !f.name.startsWith("locales/") && !f.name.startsWith("test/") && f.text.split("\n").length > 450,
  );
  expect(long.map((f) => f.name)).toEqual([]);
});
