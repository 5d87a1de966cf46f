import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { en } from "./en";
import { zh } from "./zh";

type Tree = { [key: string]: string | Tree };

function leaves(tree: Tree, prefix = ""): [string, string][] {
  return Object.entries(tree).flatMap(([key, value]): [string, string][] =>
    typeof value === "string" ? [[prefix + key, value]] : leaves(value, `${prefix}${key}.`),
  );
}

const english = new Map(leaves(en));
const chinese = new Map(leaves(zh));
/** Numbers of a text; a count and the same count with its noun are one. */
const variables = (text: string) => [...text.matchAll(/\{\{(\w+?)(?:Replicas)?\}\}/g)].map((m) => m[1]).sort();

/** Every source file that shows words. */
function sources(): string {
  const root = join(import.meta.dirname, "..");
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name) && !/\.test\.|^test\/|^locales\/|schema\.gen/.test(name))
    .map((name) => readFileSync(join(root, name), "utf8"))
    .join("\n");
}

test("both languages have the same keys", () => {
  expect([...chinese.keys()].sort()).toEqual([...english.keys()].sort());
});

test("no text is empty, and both languages use the same numbers", () => {
  for (const [key, text] of english) {
    const other = chinese.get(key) ?? "";
    expect(text.trim(), key).not.toBe("");
    expect(other.trim(), key).not.toBe("");
    for (const name of variables(other)) expect(variables(text), `${key} in Chinese`).toContain(name);
  }
});

test("Chinese is Chinese, but for names", () => {
  const same = [...english].filter(
    ([key, text]) => text === chinese.get(key) && /[a-z]{4}/i.test(text.replaceAll(/\{\{\w+\}\}/g, "")),
  );
  expect(same.map(([key]) => key)).toEqual([
    "clusters.kubernetes",
    "bills.formats.focus",
    "bills.formats.azure",
    "bills.formats.gcp_detail",
    "karpenter.title",
  ]);
});

test("every key is used, and every used key is there", () => {
  const code = sources();
  const used = new Set<string>();
  // t("a.b") and t(condition ? "a.b" : "a.c") and words handed on: any quoted string that is a key counts.
  for (const match of code.matchAll(/"([\w.]+)"/g)) if (match[1] && english.has(match[1])) used.add(match[1]);
  // t(`a.${b}`) and t(`a.${b}.c`): every key of that shape counts.
  const shapes = [...code.matchAll(/`((?:[\w.]|\$\{[^`}]*(?:\{[^}]*\}[^`}]*)?\})+)`/g)]
    .map((m) => m[1] ?? "")
    .filter((s) => /^[\w]+\./.test(s) && s.includes("${"))
    .map((s) => new RegExp(`^${s.replaceAll(/\$\{[^}]*\}/g, "\\w+").replaceAll(".", "\\.")}$`));
  for (const key of english.keys()) if (shapes.some((shape) => shape.test(key))) used.add(key);
  expect([...english.keys()].filter((key) => !used.has(key))).toEqual([]);

  const called = [...code.matchAll(/\bt\(\s*"([^"]+)"/g)].map((m) => m[1] ?? "");
  expect(called.length).toBeGreaterThan(100);
  expect(called.filter((key) => !english.has(key))).toEqual([]);
});
