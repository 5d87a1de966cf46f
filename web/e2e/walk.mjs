// Walks through every page of a running service in Chromium, in both languages and both colour schemes, and fails on console errors,
// failed requests, crashed pages and missing content. Writes a screenshot of each page.
//
//   BASE_URL=http://127.0.0.1:8080 EMAIL=... PASSWORD=... node e2e/walk.mjs OUT [--docs DIR | --workloads N]
//
// With --docs a few of the pictures are also written there, small enough for the README. With --workloads the service is a large one: the
// walk is in both languages on a desktop and on a phone, looks for layouts that break and for pages that take too long, and compares the
// figures on pages with the API's and with sums over the ledger in LEDGER_DATABASE (a URL for psql). How long the same pages took in an
// earlier walk is read from BASELINE, if that file is there.
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch } from "./browser.mjs";
import { brokenLayout } from "./layout.mjs";
import { compareNumbers } from "./numbers.mjs";

const { BASE_URL, EMAIL, PASSWORD, LEDGER_DATABASE, BASELINE } = process.env;
const [out, flag, argument] = process.argv.slice(2);
const docs = flag === "--docs" ? argument : undefined;
const many = flag === "--workloads" ? Number(argument) : 0;
if (!BASE_URL || !EMAIL || !PASSWORD || !out || (flag && !docs && !(many > 0)) || (many && !LEDGER_DATABASE)) {
  console.error(
    "usage: BASE_URL=... EMAIL=... PASSWORD=... node e2e/walk.mjs OUT [--docs DIR | --workloads N, with LEDGER_DATABASE=...]",
  );
  process.exit(2);
}
mkdirSync(out, { recursive: true });
if (docs) mkdirSync(docs, { recursive: true });

const WAIT = 30_000;
const PROPOSAL_WAIT = 120_000;
const DOCS_BYTES = 300_000;
// A page of a large service may take this many times what it took in the small one of BASELINE, and this many times what the median page of
// the same pass takes; below the floor nothing is too long.
const SLOWER = 6;
const SLOWER_THAN_MEDIAN = 8;
const FLOOR_MS = 1500;
const failures = [];
const fail = (where, what) => {
  failures.push(`${where}: ${what}`);
  console.error(`FAIL ${where}: ${what}`);
};

/** Asks the API with the page's own session. */
const ask = (page, path) =>
  page.evaluate(async (p) => {
    const response = await fetch(`/api/v1${p}`);
    return response.ok ? response.json() : null;
  }, path);

/** A finished replay: one that is there, or a new one of the workload's policy. */
async function replayed(page, workload) {
  const done = async () => ((await ask(page, "/replays?limit=50"))?.items ?? []).find((r) => r.state === "done");
  const there = await done();
  if (there) return there;
  await page.evaluate(async (id) => {
    const body = JSON.stringify({ workload_id: id });
    await fetch("/api/v1/replays", { method: "POST", headers: { "content-type": "application/json" }, body });
  }, workload.id);
  for (let i = 0; i < 60; i++) {
    await page.waitForTimeout(1000);
    const one = await done();
    if (one) return one;
    const [last] = (await ask(page, "/replays?limit=1"))?.items ?? [];
    if (last?.state === "failed") {
      fail("replay", `the replay failed: ${last.problem}`);
      return null;
    }
  }
  fail("replay", "no replay was done within a minute");
  return null;
}

/** What a page must show, given what the API says is there. Each entry: a name, a path, selectors that must appear. */
async function pagesOf(page) {
  const clusters = (await ask(page, "/clusters?limit=5"))?.items ?? [];
  // One with a story first, if this is a demo; then the first of the list.
  const told = (await ask(page, "/workloads?limit=5&q=chat-llm"))?.items ?? [];
  const workloads = [...told, ...((await ask(page, "/workloads?limit=50"))?.items ?? [])];
  const recent = (await ask(page, "/decisions?limit=50&outcome=scale_up"))?.items ?? [];
  // The one with most to explain first: where something held the signals back.
  const decisions = recent.sort((a, b) => Math.abs(b.needed - b.target) - Math.abs(a.needed - a.target));
  const cluster = clusters.find((c) => c.nodes > 0) ?? clusters[0];
  const workload =
    workloads.find((w) => w.policy_version > 0 && w.signals.request_rate && w.gpu_milli > 0) ??
    workloads.find((w) => w.policy_version > 0) ??
    workloads[0];
  if (!cluster || !workload) throw new Error("the service has no cluster with workloads to walk through");
  const replay = await replayed(page, workload);
  const chart = "[data-chart] canvas";
  const row = "tbody tr";
  const pages = [
    ["overview", "/", [chart]],
    ["clusters", "/clusters", [row]],
    ["cluster-nodes", `/clusters/${cluster.id}?tab=nodes`, [row]],
    ["cluster-map", `/clusters/${cluster.id}?tab=map`, [".node-cell"]],
    ["cluster-pending", `/clusters/${cluster.id}?tab=pending`, ["main h1"]],
    [
      "cluster-plan",
      `/clusters/${cluster.id}?tab=plan`,
      ["[data-capacity-plan] table", "[data-karpenter]", "[data-cloud-groups]"],
    ],
    ["cluster-policy", `/clusters/${cluster.id}?tab=policy`, ["[data-capacity-policy] input"]],
    ["cluster-conflicts", `/clusters/${cluster.id}?tab=conflicts`, ["main h1"]],
    ["cluster-workloads", `/clusters/${cluster.id}?tab=workloads`, [row]],
    ["cluster-events", `/clusters/${cluster.id}?tab=events`, ["main h1"]],
    ["cluster-agent", `/clusters/${cluster.id}?tab=agent`, ["dl"]],
    ["workloads", "/workloads", [row]],
    ["workload", `/workloads/${workload.id}?range=h24`, [chart]],
    ["workload-policy", `/workloads/${workload.id}?tab=policy`, [".editor textarea"]],
    ["workload-decisions", `/workloads/${workload.id}?tab=decisions`, ["main h1"]],
    ["services", "/services", ["main h1"]],
    ["decisions", "/decisions", decisions.length ? [row] : ["main h1"]],
    ...(decisions[0] ? [["decision", `/decisions/${decisions[0].id}`, [".ladder", row]]] : []),
    ["approvals", "/approvals", ["main h1"]],
    ["replay", "/replay", ["main h1"]],
    ...(replay ? [["replay-result", `/replay?id=${replay.id}`, ["[data-frontier]", chart, row]]] : []),
    ["cost", "/cost", [chart, row]],
    ["cost-workloads", "/cost?by=workload&window=d7&idle=shared", [chart, row]],
    ["cost-tree", "/cost?view=tree", ["[data-treemap] button"]],
    ["cost-compare", "/cost?view=compare", ["main h1"]],
    ["cost-fiscal", "/cost?fiscal=quarter", [chart, row]],
    ["savings", "/savings?window=quarter", [chart, row]],
    ["units", "/units?window=quarter", [row]],
    ["statements", "/statements", [row]],
    ["settings-calendar", "/settings?tab=calendar", ["main input"]],
    ["budgets", "/budgets", ["main h1"]],
    ["anomalies", "/anomalies?show=all", ["main h1"]],
    ["reconciliation", "/reconciliation", [row]],
    ["reconciliation-files", "/reconciliation?tab=files", ["main h1"]],
    ["catalogue", "/catalogue?gpus=8&gpuGb=80", [row]],
    ["price", "/catalogue?open=aws/us-east-1/p5.48xlarge", ["[role=dialog] table"]],
    ["spot", "/spot", [chart, row]],
    ["spot-cheapest", "/spot?tab=cheapest&gpus=8", [row]],
    ["spot-quarantine", "/spot?tab=quarantine", ["main h1"]],
    ["availability", "/availability", [".heat-cell"]],
    ["availability-table", "/availability?view=table", [row]],
    ["commitments", "/commitments?window=d7", ["main h1"]],
    ["commitments-list", "/commitments?tab=list", ["main h1"]],
    ["commitments-expiries", "/commitments?tab=expiries", ["main h1"]],
    ["cloud-accounts", "/cloud-accounts", ["main h1"]],
    ["commitments-advice", "/commitments?tab=advice", ["[data-advice]"]],
    ["webhooks", "/webhooks", ["main h1"]],
    ["alerts", "/alerts?show=all", ["main h1"]],
    ["settings-keys", "/settings?tab=keys", ["main h1"]],
    ["settings-members", "/settings?tab=members", [row]],
    ["settings-audit", "/settings?tab=audit", ["main h1"]],
    ["not-found", "/there/is/nothing", ["h1"]],
  ];
  return pages;
}

async function signedIn(browser, language, scheme, viewport = { width: 1440, height: 900 }) {
  const context = await browser.newContext({ viewport, colorScheme: scheme });
  const page = await context.newPage();
  await page.addInitScript((l) => {
    if (location.protocol.startsWith("http")) localStorage.setItem("plimsoll.language", l); // a blank page has none
  }, language);
  const where = { now: "sign-in" };
  page.on("pageerror", (error) => fail(`${language} ${scheme} ${where.now}`, `crashed: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error") fail(`${language} ${scheme} ${where.now}`, `console: ${message.text()}`);
  });
  page.on("requestfailed", (request) => {
    const reason = request.failure()?.errorText ?? "";
    // A page that is left takes its open requests with it.
    if (reason !== "net::ERR_ABORTED") fail(`${language} ${scheme} ${where.now}`, `${request.url()}: ${reason}`);
  });
  page.on("response", (response) => {
    const expected = where.now === "sign-in" && response.status() === 401;
    if (response.status() >= 400 && !expected) {
      fail(
        `${language} ${scheme} ${where.now}`,
        `${response.request().method()} ${response.url()}: ${response.status()}`,
      );
    }
  });
  return { context, page, where };
}

async function signIn(page, where) {
  await page.goto(`${BASE_URL}/sign-in`);
  await page.locator("input[name=email]").fill(EMAIL);
  await page.locator("input[name=password]").fill(PASSWORD);
  await page.locator("button[type=submit]").click();
  await page.locator("main h1").waitFor({ timeout: WAIT });
  where.now = "overview";
}

/** Waits until nothing on the page is loading, and its charts have been drawn. */
async function settled(page) {
  await page.waitForFunction(() => document.querySelectorAll("[aria-busy=true]").length === 0, null, { timeout: WAIT });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

async function visit(page, where, [name, path, selectors], label, full) {
  where.now = name;
  const began = performance.now();
  await page.goto(`${BASE_URL}${path}`);
  for (const selector of selectors) {
    try {
      await page.locator(selector).first().waitFor({ timeout: WAIT });
    } catch {
      fail(`${label} ${name}`, `${selector} is missing`);
    }
  }
  try {
    await settled(page);
  } catch {
    fail(`${label} ${name}`, "still loading");
  }
  const took = performance.now() - began;
  const text = await page.locator("#root").textContent();
  if (/\{\{\w+\}\}|\bNaN\b|\bundefined\b|Invalid Date/.test(text)) {
    fail(`${label} ${name}`, `odd text: ${/.{0,40}(\{\{\w+\}\}|NaN|undefined|Invalid Date).{0,40}/.exec(text)?.[0]}`);
  }
  if (label.startsWith("zh") && name !== "not-found" && !/[\u4e00-\u9fff]/.test(text))
    fail(`${label} ${name}`, "not Chinese");
  if ((await page.locator("[role=alert]").count()) > 0) {
    fail(`${label} ${name}`, `problem shown: ${await page.locator("[role=alert]").first().textContent()}`);
  }
  await page.screenshot({ path: join(out, `${label.replace(" ", "-")}-${name}.png`), fullPage: full });
  return took;
}

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0;

/** Fails for pages that take too long, and tells which took longest. */
function judgeTimes(label, times) {
  const typical = median([...times.values()]);
  const small = BASELINE && existsSync(BASELINE) ? JSON.parse(readFileSync(BASELINE, "utf8")) : {};
  for (const [name, took] of times) {
    if (took < FLOOR_MS) continue;
    if (took > SLOWER_THAN_MEDIAN * typical)
      fail(`${label} ${name}`, `took ${Math.round(took)} ms, the median page ${Math.round(typical)} ms`);
    if (small[name] && took > SLOWER * small[name])
      fail(`${label} ${name}`, `took ${Math.round(took)} ms, with few workloads ${Math.round(small[name])} ms`);
  }
  const slowest = [...times].sort((a, b) => b[1] - a[1]).slice(0, 5);
  const told = slowest.map(([name, took]) => {
    const was = small[name] ? ` (small: ${Math.round(small[name])})` : "";
    return `${name} ${Math.round(took)}${was}`;
  });
  console.log(`${label}: ${times.size} pages, median ${Math.round(typical)} ms, longest ${told.join(", ")}`);
}

/** Walks a large service: every page in both languages, on a desktop and on a phone; then the figures. */
async function walkMany(browser) {
  for (const [language, scheme, width, height] of [
    ["en", "light", 1280, 900],
    ["zh", "dark", 390, 844],
    ["zh", "light", 1280, 900],
    ["en", "dark", 390, 844],
  ]) {
    const { context, page, where } = await signedIn(browser, language, scheme, { width, height });
    await signIn(page, where);
    const times = new Map();
    for (const entry of await pagesOf(page)) {
      const label = `${language} ${width}`;
      times.set(entry[0], await visit(page, where, entry, label, true));
      for (const problem of await brokenLayout(page)) fail(`${label} ${entry[0]}`, problem);
      visited++;
    }
    judgeTimes(`${language} ${width}`, times);
    if (language === "en" && width === 1280) {
      where.now = "numbers";
      const agreed = await compareNumbers(page, { base: BASE_URL, db: LEDGER_DATABASE, workloads: many, fail });
      console.log(`${agreed} figures agree on the page, in the API and in the ledger`);
    }
    where.now = "sign-in";
    await context.close();
  }
}

/** Clicks through the navigation as a person does, to see that links lead where they say and that nothing needs a reload. */
async function clickThrough(page, where) {
  where.now = "navigation";
  await page.goto(`${BASE_URL}/`);
  const links = page.locator("nav a");
  await links.first().waitFor({ timeout: WAIT });
  const count = await links.count();
  for (let i = 0; i < count; i++) {
    const href = await links.nth(i).getAttribute("href");
    await links.nth(i).click();
    await page.waitForURL((url) => url.pathname === href, { timeout: WAIT });
    await settled(page);
  }
  // A row opens its detail, and the keyboard reaches the same place.
  await page.goto(`${BASE_URL}/workloads`);
  const first = page.locator("tbody tr").first();
  await first.waitFor({ timeout: WAIT });
  await first.locator("a").first().focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/workloads\/[^/]+$/, { timeout: WAIT });
  // Zoom: dragging in a chart sets the range in the URL.
  const chart = page.locator("[data-chart]").first();
  await chart.locator("canvas").first().waitFor({ timeout: WAIT });
  await chart.scrollIntoViewIfNeeded();
  await settled(page);
  const box = await chart.boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + box.height / 2, { steps: 6 });
  await page.mouse.up();
  await page.waitForURL(/from=.*to=/, { timeout: WAIT });
  await settled(page);
  // Colour scheme and language change in place.
  const before = await page.locator("html").getAttribute("data-mantine-color-scheme");
  await page.locator("header button[aria-haspopup=menu]").nth(-2).click();
  await page
    .locator("[role=menuitem]")
    .nth(before === "dark" ? 0 : 1)
    .click();
  await page.waitForFunction((b) => document.documentElement.dataset.mantineColorScheme !== b, before, {
    timeout: WAIT,
  });
}

/** Sends to the API with the page's own session; the answer's body, null where there is none. */
const send = (page, method, path, body) =>
  page.evaluate(
    async ([m, p, b]) => {
      const response = await fetch(`/api/v1${p}`, {
        method: m,
        headers: { "content-type": "application/json" },
        body: b,
      });
      if (!response.ok) throw new Error(`${m} ${p}: ${response.status}`);
      return response.status === 200 || response.status === 201 ? response.json() : null;
    },
    [method, path, body === undefined ? undefined : JSON.stringify(body)],
  );

/** Who carries a cluster's plans out: a group of a cloud is written down, changed in its form and left alone again; Karpenter is told what to take over. */
async function steering(page, where) {
  where.now = "steering";
  const cluster = (await ask(page, "/clusters?limit=5"))?.items?.[0];
  const has = async (selector, what) => {
    const there = await page
      .locator(selector)
      .first()
      .waitFor({ timeout: WAIT })
      .then(() => true)
      .catch(() => false);
    if (!there) fail("steering", `${what}: ${selector} is missing`);
  };
  const account = await send(page, "POST", "/cloud-accounts", {
    name: "walk",
    cloud: "aws",
    regions: ["us-east-1"],
    aws: { role_arn: "arn:aws:iam::123456789012:role/walk" },
  });
  const group = crypto.randomUUID();
  await send(page, "PUT", `/clusters/${cluster.id}/cloud-groups/${group}`, {
    account_id: account.id,
    ref: "us-east-1/walk",
    region: "us-east-1",
    instance_types: ["g6.xlarge"],
    purchase: "on_demand",
    min: 0,
    max: 3,
  });
  await page.goto(`${BASE_URL}/clusters/${cluster.id}?tab=plan`);
  const row = page.locator("[data-cloud-groups] tbody tr", { hasText: "us-east-1/walk" });
  await row.waitFor({ timeout: WAIT });
  await row.locator("button[aria-label='Edit us-east-1/walk']").click();
  await page.getByRole("switch", { name: /^Plans may make it smaller/ }).click({ timeout: WAIT });
  await page.getByRole("switch", { name: /^Stop the cloud's own scaling/ }).click({ timeout: WAIT });
  await page.locator("[role=dialog] button[type=submit]").click();
  await page.locator("[role=dialog]").waitFor({ state: "detached", timeout: WAIT });
  const kept = (await ask(page, `/clusters/${cluster.id}/cloud-groups`))?.items?.find((g) => g.id === group);
  if (!kept?.own || !kept?.shrink || kept.enabled || kept.yields || kept.writers?.length !== 0) {
    fail("steering", `the group is ${JSON.stringify(kept)}`);
  }
  await send(page, "DELETE", `/clusters/${cluster.id}/cloud-groups/${group}`);
  await send(page, "DELETE", `/cloud-accounts/${account.id}`);

  const before = await ask(page, `/clusters/${cluster.id}/karpenter`);
  await page.goto(`${BASE_URL}/clusters/${cluster.id}?tab=plan`);
  const panel = page.locator("[data-karpenter]");
  await panel.getByRole("button", { name: /^(Switch on|Settings)$/ }).click({ timeout: WAIT });
  await page
    .locator("[role=dialog]")
    .getByLabel(/^Pools of yours/)
    .fill("general, general");
  await page
    .locator("[role=dialog]")
    .getByLabel(/^Label that names/)
    .fill("example.test/reservation");
  await page.locator("[role=dialog] button[type=submit]").click();
  await has("[data-karpenter] >> text=Taken over: general", "what is taken over");
  const told = await ask(page, `/clusters/${cluster.id}/karpenter`);
  if (told?.settings.own?.join() !== "general" || told.settings.reservation_key !== "example.test/reservation") {
    fail("steering", `Karpenter is told ${JSON.stringify(told?.settings)}`);
  }
  const settings = {
    ...told.settings,
    ...before.settings,
    own: before.settings.own ?? [],
    reservation_key: before.settings.reservation_key ?? "",
  };
  await send(page, "PUT", `/clusters/${cluster.id}/karpenter`, { version: told.version, settings });
  await settled(page);
}

/** A draft of a capacity policy: what it changes, what a plan would be under it, and nothing saved. */
async function capacityPolicy(page, where) {
  where.now = "capacity policy";
  const cluster = (await ask(page, "/clusters?limit=5"))?.items?.[0];
  const before = await ask(page, `/clusters/${cluster.id}/capacity-policy`);
  await page.goto(`${BASE_URL}/clusters/${cluster.id}?tab=policy`);
  const form = page.locator("[data-capacity-policy]");
  await form.getByLabel("Machines", { exact: true }).fill("9000", { timeout: WAIT });
  await form.locator("[data-policy-changes] >> text=9000").waitFor({ timeout: WAIT });
  await form.getByRole("button", { name: "Preview the plan" }).click();
  const shown = await form
    .locator("[data-policy-comparison] table")
    .first()
    .waitFor({ timeout: WAIT })
    .then(() => true)
    .catch(() => false);
  if (!shown) fail("capacity policy", "no preview of a plan came");
  await form.getByRole("button", { name: "Discard" }).click();
  await form.locator("[data-policy-changes]").waitFor({ state: "detached", timeout: WAIT });
  const after = await ask(page, `/clusters/${cluster.id}/capacity-policy`);
  if (after?.version !== before?.version) fail("capacity policy", "a preview saved something");
  await settled(page);
}

/** Approves a proposal and says which; null when none is waiting. */
async function approveOne(page, where) {
  where.now = "approve";
  await page.goto(`${BASE_URL}/approvals`);
  await page.locator("main h1").waitFor({ timeout: WAIT });
  await settled(page);
  const proposals = page.locator("[data-proposal]");
  const buttons = proposals.locator("button:not([aria-haspopup])");
  if ((await buttons.count()) === 0) return null;
  const proposal = proposals.filter({ has: page.locator("button") }).first();
  const id = await proposal.getAttribute("data-proposal");
  await proposal.locator("button").last().click();
  await page.locator("[role=dialog] button").last().click();
  const done = await page
    .waitForFunction((p) => !document.querySelector(`[data-proposal="${p}"]`), id, { timeout: WAIT })
    .then(() => true)
    .catch(() => false);
  const decision = await ask(page, `/decisions/${id}`);
  if (!done) fail("approve", `proposal ${id} stays in the queue; its state is ${decision?.state}`);
  return `proposal ${id}: ${decision?.state}${decision?.decided_by ? ` by ${decision.decided_by}` : ""}`;
}

/** Stays on the queue until a live event brings a proposal, where some workload waits for approvals at all. */
async function waitForProposal(page, where) {
  const workloads = (await ask(page, "/workloads?limit=200"))?.items ?? [];
  if (!workloads.some((w) => w.mode === "approve")) return null;
  await page.goto(`${BASE_URL}/approvals`);
  const came = await page
    .locator("[data-proposal]")
    .first()
    .waitFor({ timeout: PROPOSAL_WAIT })
    .then(() => true)
    .catch(() => false);
  if (!came) return null;
  await page.screenshot({ path: join(out, "zh-dark-approvals.png") });
  return approveOne(page, where);
}

const DOCS = ["overview", "workload", "decision", "cost", "approvals"];

async function writeDocs(browser, pages) {
  const shots = [
    ["en", "light", DOCS],
    ["zh", "dark", ["overview", "workload"]],
  ];
  for (const [language, scheme, names] of shots) {
    const { context, page, where } = await signedIn(browser, language, scheme);
    await signIn(page, where);
    for (const entry of pages.filter(([name]) => names.includes(name))) {
      await visit(page, where, entry, `${language} ${scheme}`, false);
      // An empty queue is no picture worth showing: the one from before stays.
      if (entry[0] === "approvals" && (await page.locator("[data-proposal]").count()) === 0) continue;
      const path = join(docs, `${entry[0]}${language === "en" ? "" : `-${language}`}.png`);
      await page.screenshot({ path });
      if (statSync(path).size > DOCS_BYTES) fail("docs", `${path} is larger than ${DOCS_BYTES} bytes`);
    }
    await context.close();
  }
}

const started = Date.now();
const browser = await launch();
let visited = 0;
let approved = null;
try {
  let pages = [];
  const times = new Map();
  if (many) await walkMany(browser);
  for (const [language, scheme] of [
    ["en", "light"],
    ["en", "dark"],
    ["zh", "light"],
    ["zh", "dark"],
  ].slice(many ? 4 : 0)) {
    const { context, page, where } = await signedIn(browser, language, scheme);
    await signIn(page, where);
    pages = await pagesOf(page);
    for (const entry of pages) {
      const took = await visit(page, where, entry, `${language} ${scheme}`, true);
      times.set(entry[0], [...(times.get(entry[0]) ?? []), took]);
      visited++;
    }
    if (language === "en" && scheme === "light") {
      await clickThrough(page, where);
      await steering(page, where);
      await capacityPolicy(page, where);
    }
    // Proposals come and go: each pass tries until one was there.
    if (!approved) approved = await approveOne(page, where);
    if (!approved && language === "zh" && scheme === "dark") approved = await waitForProposal(page, where);
    where.now = "sign-in";
    await context.close();
    console.log(`${language} ${scheme}: ${pages.length} pages`);
  }
  const medians = Object.fromEntries([...times].map(([name, list]) => [name, median(list)]));
  if (!many) writeFileSync(join(out, "times.json"), JSON.stringify(medians));
  if (docs) await writeDocs(browser, pages);
} catch (error) {
  fail("walk", error.stack ?? String(error));
} finally {
  await browser.close();
}
if (!many) console.log(approved ?? "no proposal was waiting");
console.log(
  `${visited} page visits, ${failures.length} failures, ${Math.round((Date.now() - started) / 1000)} s, screenshots in ${out}`,
);
process.exit(failures.length === 0 && visited > 0 ? 0 : 1);
