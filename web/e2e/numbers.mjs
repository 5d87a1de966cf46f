// Compares what pages show with the answers of the API they came from, and those with sums over the ledger's own rows in Postgres.
// Amounts are compared exactly (nano-units, BigInt); what a page shows may differ from them by half a unit of its last digit.
import { execFileSync } from "node:child_process";

const WAIT = 30_000;
const TRIES = 12;
const NANO = 1_000_000_000n;

/** Asks the ledger's database. Rows of text columns. */
function sql(database, query) {
  const out = execFileSync(process.env.PSQL || "psql", [database, "-X", "-q", "-A", "-t", "-F", "\t", "-c", query], {
    encoding: "utf8",
    timeout: 30_000,
    maxBuffer: 64 << 20,
  });
  return out
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split("\t"));
}

/** Nano-units of the API's decimal string. */
function nano(money) {
  const match = /^(-?)(\d+)(?:\.(\d{1,9}))?$/.exec(money.amount);
  if (!match) throw new Error(`${JSON.stringify(money)} is no amount`);
  const value = BigInt(match[2]) * NANO + BigInt((match[3] ?? "").padEnd(9, "0"));
  return match[1] ? -value : value;
}

/** Whether a text such as "$1,234.57" says the amount, to its last digit. */
function says(text, amount) {
  const match = /([-−]?)[^\d-]*(\d[\d,]*)(?:\.(\d+))?/.exec(text ?? "");
  if (!match) return false;
  const places = match[3]?.length ?? 0;
  let shown = BigInt(match[2].replaceAll(",", "") + (match[3] ?? "")) * 10n ** BigInt(9 - places);
  if (match[1]) shown = -shown;
  const off = shown > amount ? shown - amount : amount - shown;
  return 2n * off <= 10n ** BigInt(9 - places);
}

/** Opens a page and returns the answer to the request of that path which the page itself made. */
async function openWith(page, base, path, api, match = () => true) {
  await page.goto("about:blank"); // so that the answer is not one to the page before
  const answered = page.waitForResponse(
    (r) => {
      const url = new URL(r.url());
      return url.pathname === `/api/v1${api}` && match(url.searchParams) && r.ok();
    },
    { timeout: WAIT },
  );
  await page.goto(`${base}${path}`);
  const answer = await (await answered).json();
  await settle(page);
  return answer;
}

async function settle(page) {
  await page.waitForFunction(() => document.querySelectorAll("[aria-busy=true]").length === 0, null, { timeout: WAIT });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** The figure of a card with this label. */
const figure = (page, label) =>
  page.evaluate((l) => {
    for (const card of document.querySelectorAll(".card"))
      if ([...card.querySelectorAll("p")].some((p) => p.textContent === l))
        return card.querySelector(".number")?.textContent ?? null;
    return null;
  }, label);

/** The rows of a table: texts of its cells, and where the first link leads. */
const rowsOf = (page, label) =>
  page.evaluate(
    (l) =>
      [...document.querySelectorAll(`table[aria-label="${l}"] tbody tr`)].map((tr) => ({
        link: tr.querySelector("td a")?.getAttribute("href") ?? "",
        // biome-ignore lint/performance/useDomNodeTextContent: words are told apart as a person sees them
        cells: [...tr.querySelectorAll("td")].map((td) => td.innerText.trim()),
      })),
    label,
  );

/** Shows more rows until all are there. */
async function all(page, label, count) {
  const table = page.locator(`table[aria-label="${label}"]`);
  for (let i = 0; i < 40; i++) {
    if ((await table.locator("tbody tr").count()) >= count) return;
    await table.locator("xpath=following::button[normalize-space()='Next'][1]").click();
  }
}

/** What changes with every costing: while it stays the same, so do the amounts. */
const stamp = (db) =>
  sql(
    db,
    `SELECT (SELECT coalesce(sum(amount_nano), 0) FROM cost_hour_line), (SELECT coalesce(sum(amount_nano), 0) FROM cost_day),
       (SELECT count(*) FROM cost_transfer), (SELECT coalesce(sum(spent_nano), 0) FROM budget_standing), (SELECT max(closed_at) FROM cost_hour)`,
  )[0].join(" ");

/** Notes what was compared, and what did not agree. */
const checker = (found) => ({
  same(what, a, b) {
    found.compared++;
    if (a !== b) found.wrong.push(`${what}: ${a}, not ${b}`);
  },
  shows(what, text, amount) {
    found.compared++;
    if (!says(text, amount)) found.wrong.push(`${what}: the page says ${JSON.stringify(text)} of ${amount} nano-units`);
  },
});

/** Runs a comparison while the ledger stands still: one that it moved under is done again. */
async function steady(db, name, compare) {
  for (let i = 0; i < TRIES; i++) {
    const before = stamp(db);
    const found = { wrong: [], compared: 0 };
    await compare(checker(found));
    if (stamp(db) === before) return found;
  }
  return { wrong: [`${name}: the ledger did not stand still in ${TRIES} looks`], compared: 0 };
}

const byOwner = { team: "team", workload: "workload_id" };

async function explorer({ page, base, db, aggregate, idle }, check) {
  const path = `/cost?by=${aggregate}&window=d14&idle=${idle}`;
  const answer = await openWith(
    page,
    base,
    path,
    "/cost/allocations",
    (q) => q.get("aggregate") === aggregate && q.get("idle") === idle,
  );
  const label = "Who bears it";
  const days = `day >= '${answer.from.slice(0, 10)}' AND day < '${answer.to.slice(0, 10)}'`;
  const hours = `hour >= '${answer.from}' AND hour < '${answer.to}'`;
  const total = nano(answer.total);
  check.same(
    "total of days",
    total,
    BigInt(sql(db, `SELECT coalesce(sum(amount_nano), 0) FROM cost_day WHERE ${days}`)[0][0]),
  );
  check.same(
    "total of hours",
    total,
    BigInt(sql(db, `SELECT coalesce(sum(amount_nano), 0) FROM cost_hour_line WHERE ${hours}`)[0][0]),
  );
  check.same(
    "sum of items",
    total,
    answer.items.reduce((sum, i) => sum + nano(i.amount), 0n),
  );
  check.shows("total", await figure(page, "Total in window"), total);
  if (idle === "separate") {
    const ledger = new Map(
      sql(
        db,
        `SELECT CASE WHEN kind = 'workload' THEN ${byOwner[aggregate]}::text ELSE '' END AS key, kind, sum(amount_nano) FROM cost_hour_line WHERE ${hours} GROUP BY 1, 2`,
      ).map(([key, kind, amount]) => [`${kind}/${key}`, BigInt(amount)]),
    );
    let known = 0n;
    for (const item of answer.items.filter((i) => i.key !== "other")) {
      const amount = ledger.get(`${item.kind}/${item.key}`) ?? 0n;
      known += amount;
      check.same(`${aggregate} ${item.name || item.kind}`, nano(item.amount), amount);
    }
    const other = answer.items.find((i) => i.key === "other");
    check.same("what is not listed", other ? nano(other.amount) : 0n, total - known);
  }
  await all(page, label, Math.min(answer.items.length, 250));
  const rows = await rowsOf(page, label);
  const ordered = [...answer.items].sort((a, b) =>
    nano(b.amount) > nano(a.amount) ? 1 : nano(b.amount) < nano(a.amount) ? -1 : 0,
  );
  rows.forEach((row, i) => {
    const item = row.link.startsWith("/workloads/")
      ? answer.items.find((a) => `/workloads/${a.key}` === row.link)
      : ordered[i];
    if (!item) check.same(`row ${row.cells[0]}`, "no such item", "");
    else {
      check.shows(`${row.cells[0]}`, row.cells[1], nano(item.amount));
      check.shows(`${row.cells[0]}, GPU`, row.cells[4], nano(item.gpu));
    }
  });
  check.same("rows at most 250 at a time", rows.length >= Math.min(answer.items.length, 50), true);
}

async function overview({ page, base, db }, check) {
  const o = await openWith(page, base, "/", "/overview");
  const now = new Date(o.data_now);
  const day = now.toISOString().slice(0, 10);
  const month = `${day.slice(0, 7)}-01`;
  const spent = (from) =>
    BigInt(sql(db, `SELECT coalesce(sum(amount_nano), 0) FROM cost_hour_line WHERE hour >= '${from}T00:00:00Z'`)[0][0]);
  check.same("today", nano(o.cost.today), spent(day));
  check.same("month to date", nano(o.cost.month_to_date), spent(month));
  check.shows("spend today", await figure(page, "Spend today"), nano(o.cost.today));
  check.shows("month to date", await figure(page, "Month to date"), nano(o.cost.month_to_date));
}

async function statement({ page, base, db }, check, months) {
  const month = months.at(-1);
  const s = await openWith(page, base, `/statements?month=${month}`, "/statements", (q) => q.get("month") === month);
  const [[sum]] = sql(
    db,
    `SELECT coalesce(sum(CASE WHEN t.debit LIKE 'node/%' OR t.debit LIKE 'nodes/%' THEN -t.amount_nano ELSE t.amount_nano END), 0)
       FROM cost_transfer t JOIN cost_hour h USING (tenant_id, cluster_id, hour, version)
      WHERE h.state = 'closed' AND t.hour >= '${s.from}' AND t.hour < '${s.to}'`,
  );
  check.same("total of the ledger's transfers", nano(s.total), BigInt(sum));
  const parts = [...s.teams.map((t) => nano(t.total)), ...s.rest.map((l) => nano(l.amount))];
  check.same(
    "teams and rest",
    nano(s.total),
    parts.reduce((a, b) => a + b, 0n),
  );
  // biome-ignore lint/performance/useDomNodeTextContent: words are told apart as a person sees them
  const text = await page.locator("main").innerText();
  check.shows("ledger", /Ledger (\S+)/.exec(text)?.[1], nano(s.total));
  await all(page, "Statements", s.teams.length);
  const rows = await rowsOf(page, "Statements");
  check.same("rows", rows.length, s.teams.length);
  for (const row of rows) {
    const team = s.teams.find((t) => (t.team || "No team") === row.cells[0]);
    if (!team) check.same(`row ${row.cells[0]}`, "no such team", "");
    else {
      check.shows(`${row.cells[0]}, direct`, row.cells[1], nano(team.direct));
      check.shows(`${row.cells[0]}, total`, row.cells[4], nano(team.total));
    }
  }
}

/** Waits until no costing and no check of budgets is under way: what the ledger has, budgets have counted then. */
async function counted(db) {
  for (let i = 0; i < 120; i++) {
    const [[under]] = sql(
      db,
      "SELECT count(*) FROM river_job WHERE kind IN ('close_hour', 'check_budgets') AND state IN ('available', 'pending', 'running', 'retryable', 'scheduled')",
    );
    if (under === "0") return;
    await new Promise((done) => setTimeout(done, 500));
  }
  throw new Error("costing did not come to an end in a minute");
}

async function budgets({ page, base, db }, check) {
  await counted(db);
  const answer = await openWith(page, base, "/budgets", "/budgets");
  const cards = await page.evaluate(() =>
    [...document.querySelectorAll(".card")].map((c) => ({
      name: c.querySelector("p")?.textContent ?? "",
      text: c.querySelector(".number")?.textContent ?? "",
    })),
  );
  check.same("budgets there are", answer.items.length > 0, true);
  for (const b of answer.items) {
    const scope = b.team ? ` AND team = '${b.team.replaceAll("'", "''")}'` : "";
    const [[sum]] = sql(
      db,
      `SELECT coalesce(sum(amount_nano), 0) FROM cost_hour_line WHERE hour >= '${b.period_start}' AND hour < '${b.period_end}'${scope}`,
    );
    check.same(`${b.name}, spent`, nano(b.spent), BigInt(sum));
    check.shows(b.name, cards.find((c) => c.name === b.name)?.text, nano(b.spent));
  }
}

/** Pages through the whole list, as a person would, and compares each row with what its page was given. */
async function workloads({ page, base, db }, check, expected) {
  let answer = await openWith(page, base, "/workloads", "/workloads");
  const replicas = new Map(
    sql(db, "SELECT id::text, replicas FROM workload WHERE gone_at IS NULL").map(([id, n]) => [id, Number(n)]),
  );
  const seen = new Set();
  let [moved, told] = [0, 0];
  for (let n = 0; n < 60; n++) {
    const rows = await rowsOf(page, "Workloads");
    check.same(`rows of page ${n + 1}`, rows.length, answer.items.length);
    for (const row of rows) {
      const item = answer.items.find((w) => row.link === `/workloads/${w.id}`);
      if (!item) {
        check.same(`row ${row.cells[0]}`, "not in the answer", "");
        continue;
      }
      seen.add(item.id);
      if (Object.keys(item.signals).length > 0) told++;
      check.same(`${item.name}, replicas`, row.cells[2].split("\n")[0], `${item.ready} / ${item.replicas}`);
      if (replicas.get(item.id) !== item.replicas) moved++; // scaled since they were read from the database
      if (item.cost_hour) check.shows(`${item.name}, cost`, row.cells.at(-1), nano(item.cost_hour));
      else check.same(`${item.name}, cost`, row.cells.at(-1), "–");
    }
    if (!answer.next_cursor) break;
    const { next_cursor: cursor } = answer;
    const next = page.waitForResponse((r) => {
      const url = new URL(r.url());
      return url.pathname === "/api/v1/workloads" && url.searchParams.get("cursor") === cursor && r.ok();
    });
    await page.getByRole("button", { name: "Next" }).click();
    answer = await (await next).json();
    await page.waitForFunction((id) => document.querySelector(`td a[href="/workloads/${id}"]`), answer.items[0].id, {
      timeout: WAIT,
    });
    await settle(page);
  }
  check.same("workloads listed", seen.size, replicas.size);
  check.same("workloads at least", seen.size >= expected, true);
  check.same("signals of nearly all", told >= 0.9 * seen.size, true);
  check.same("replicas as in the database, of nearly all", moved <= seen.size / 10, true);
  // Search, a team, and the dearest first.
  const [[word]] = sql(db, "SELECT count(*) FROM workload WHERE gone_at IS NULL AND strpos(lower(key), 'ranker') > 0");
  const found = await openWith(page, base, "/workloads?q=ranker", "/workloads", (q) => q.get("q") === "ranker");
  check.same("search", found.items.length, Math.min(Number(word), 50));
  check.same("search shows", (await rowsOf(page, "Workloads")).length, found.items.length);
  const [[team, size]] = sql(
    db,
    "SELECT team, count(*) FROM workload WHERE gone_at IS NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1",
  );
  const teams = await openWith(page, base, `/workloads?team=${team}`, "/workloads", (q) => q.get("team") === team);
  check.same(`team ${team}`, teams.items.length, Math.min(Number(size), 50));
  await page.locator('table[aria-label="Workloads"] th button').last().click();
  const costs = (await rowsOf(page, "Workloads")).map((r) => Number(r.cells.at(-1).replaceAll(/[^\d.]/g, "")));
  check.same(
    "sorted by cost",
    costs.every((c, i) => i === 0 || c >= costs[i - 1]) || costs.every((c, i) => i === 0 || c <= costs[i - 1]),
    true,
  );
}

/** The ledger agrees with itself: closed hours' lines are the transfers of their newest version, and days are their hours. */
function ledgerItself(db, check) {
  const [[lines, transfers]] = sql(
    db,
    `SELECT (SELECT coalesce(sum(l.amount_nano), 0) FROM cost_hour_line l JOIN cost_hour h USING (tenant_id, cluster_id, hour) WHERE h.state = 'closed'),
       (SELECT coalesce(sum(CASE WHEN t.debit LIKE 'node/%' OR t.debit LIKE 'nodes/%' THEN -t.amount_nano ELSE t.amount_nano END), 0)
          FROM cost_transfer t JOIN cost_hour h USING (tenant_id, cluster_id, hour, version) WHERE h.state = 'closed')`,
  );
  check.same("transfers of closed hours", BigInt(transfers), BigInt(lines));
  const [[different]] = sql(
    db,
    `SELECT count(*) FROM (
       SELECT (hour AT TIME ZONE 'UTC')::date AS day, kind, workload_id, team, sum(amount_nano) AS amount FROM cost_hour_line GROUP BY 1, 2, 3, 4) h
     FULL JOIN (SELECT day, kind, workload_id, team, sum(amount_nano) AS amount FROM cost_day GROUP BY 1, 2, 3, 4) d USING (day, kind, workload_id, team)
     WHERE h.amount IS DISTINCT FROM d.amount`,
  );
  check.same("days that differ from their hours", Number(different), 0);
}

/** Compares everything; what is wrong goes to fail. Returns how many figures agreed. */
export async function compareNumbers(page, { base, db, workloads: expected, fail }) {
  const about = { page, base, db };
  const months = sql(
    db,
    "SELECT DISTINCT to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM') FROM cost_hour WHERE state = 'closed' ORDER BY 1",
  ).flat();
  let agreed = 0;
  for (const [name, compare] of [
    ["ledger", (check) => ledgerItself(db, check)],
    ["overview", (check) => overview(about, check)],
    ["cost by team", (check) => explorer({ ...about, aggregate: "team", idle: "separate" }, check)],
    ["cost by workload", (check) => explorer({ ...about, aggregate: "workload", idle: "separate" }, check)],
    ["cost by team, idle shared", (check) => explorer({ ...about, aggregate: "team", idle: "shared" }, check)],
    ["cost by team, idle evenly", (check) => explorer({ ...about, aggregate: "team", idle: "even" }, check)],
    ["cost by workload, idle shared", (check) => explorer({ ...about, aggregate: "workload", idle: "shared" }, check)],
    ["statement", (check) => statement(about, check, months)],
    ["budgets", (check) => budgets(about, check)],
  ]) {
    const { wrong, compared } = await steady(db, name, compare);
    for (const w of wrong.slice(0, 10)) fail(`numbers, ${name}`, w);
    if (wrong.length > 10) fail(`numbers, ${name}`, `and ${wrong.length - 10} more`);
    agreed += compared - wrong.length;
    console.log(`numbers, ${name}: ${compared} figures compared, ${wrong.length} wrong`);
  }
  const found = { wrong: [], compared: 0 };
  await workloads(about, checker(found), expected);
  for (const w of found.wrong.slice(0, 10)) fail("numbers, workloads", w);
  console.log(`numbers, workloads: ${found.compared} figures compared, ${found.wrong.length} wrong`);
  return agreed + found.compared - found.wrong.length;
}
