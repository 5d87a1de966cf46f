import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { readPending } from "../api/commitment-stock";
import { readMarket } from "../api/spot";
import { pendingCsv } from "../components/commitment-pending";
import { aMarket, anExplanation } from "../test/factories-market";
import { FakeApi } from "../test/fake-api";
import { renderAt } from "../test/render";
import { readOffering } from "./price-drawer";
import { firstMarket } from "./spot";

const SLOW = { timeout: 4000 };
const find = (text: string | RegExp) => screen.findByText(text, {}, SLOW);

describe.each([
  ["/spot", "Spot market", "竞价市场", ["Standard_NC24ads_A100_v4", "Price per hour|每小时价格"]],
  ["/spot?tab=cheapest", "Spot market", "竞价市场", ["g6e.xlarge", "Old|陈旧"]],
  [
    "/spot?tab=quarantine",
    "Spot market",
    "竞价市场",
    [/36\.08/, "On demand five times off the catalogue|按需价格偏离目录五倍"],
  ],
  ["/availability", "Availability", "可用性", ["34%", "us-east-1a"]],
  ["/availability?view=table", "Availability", "可用性", ["Not within a day|一天内无法获得"]],
  ["/commitments", "Commitments", "承诺", ["63%", "$4,375", "m6i"]],
  ["/commitments?tab=list", "Commitments", "承诺", ["sp-compute", "$2.50/h|$2.50/小时"]],
  ["/commitments?tab=expiries", "Commitments", "承诺", ["20 Dec 2026|2026年12月20日", "Dec 2026|2026年12月"]],
  ["/commitments?tab=advice", "Commitments", "承诺", ["Reserve 2 more|再预留 2 台", "No. 3|第 3 台"]],
  [
    "/cloud-accounts",
    "Cloud accounts",
    "云账户",
    ["Production", "4 failures in a row|连续失败 4 次", "aws GetProducts"],
  ],
  ["/catalogue", "Catalogue", "机型目录", ["p4de.24xlarge", "$3.43"]],
  ["/catalogue?open=aws/us-east-1/p5.48xlarge", "Catalogue", "机型目录", ["$22.02/h|$22.02/小时", "List price|目录价"]],
] as const)("%s", (path, english, chinese, contents) => {
  test.each(["en", "zh"] as const)("in %s", async (language) => {
    await renderAt(path, { language });
    // What lies behind a drawer is hidden from readers of the screen: the heading is looked for all the same.
    await screen.findByRole("heading", { level: 1, name: language === "en" ? english : chinese, hidden: true }, SLOW);
    for (const content of contents) {
      const words = typeof content === "string" ? content.split("|") : [content];
      expect(
        (await screen.findAllByText(words[language === "zh" ? words.length - 1 : 0] ?? "", {}, SLOW)).length,
      ).toBeGreaterThan(0);
    }
    expect(screen.queryByText(/\{\{|NaN|undefined/)).toBeNull();
  });
});

describe("Spot prices", () => {
  test("a line per zone, the on-demand line, and what the next machine costs after commitments", async () => {
    await renderAt("/spot?market=aws/us-east-1/p5.48xlarge");
    const chart = await screen.findByRole("img", { name: /^Price per hour: p5\.48xlarge/ }, SLOW);
    await waitFor(
      () =>
        expect(chart.getAttribute("data-lines")).toBe(
          "us-east-1a|us-east-1b|us-east-1c|On demand|Your next machine on demand, after commitments",
        ),
      SLOW,
    );
  });

  test("no line for the next machine where it costs what the list says", async () => {
    const fake = new FakeApi();
    fake.market.ownPrice = null;
    const { client } = await renderAt("/spot?market=aws/us-east-1/p5.48xlarge", { fake });
    const chart = await screen.findByRole("img", { name: /^Price per hour: p5\.48xlarge/ }, SLOW);
    await waitFor(() => expect(client.isFetching()).toBe(0), SLOW);
    await find(/no commitment or price of your own changed it/);
    expect(chart.getAttribute("data-lines")).toMatch(/On demand$/);
  });

  test("where nobody reports prices any more, ranges end with the data and the page says so", async () => {
    const fake = new FakeApi();
    fake.market.markets = [aMarket({ stale: true, seen_at: "2023-12-14T05:06:07Z", last_at: "2023-12-14T05:06:07Z" })];
    const { history } = await renderAt("/spot", { fake });
    await find(/^Data until 14 Dec 2023.*nobody has reported these prices since/);
    const asked = fake.calls.find((c) => c.path === "/prices/spot");
    expect(asked?.query.get("to")).toBe("2023-12-14T06:00:00.000Z");
    expect(asked?.query.get("from")).toBe("2023-11-14T06:00:00.000Z");
    expect(fake.calls.find((c) => c.path === "/prices/spot/stats")?.query.get("to")).toBe("2023-12-14T06:00:00.000Z");
    await find("Newest price, cheapest zone");
    expect(screen.getByRole("button", { name: "Later" }).hasAttribute("disabled")).toBe(true);
    fireEvent.click(screen.getByRole("button", { name: "Earlier" }));
    await waitFor(() => expect(history.location.search).toContain("2023-10-15T06"), SLOW);
  });

  test("any range of the past can be picked by its days", async () => {
    const { history } = await renderAt("/spot");
    fireEvent.click(await screen.findByRole("button", { name: /28 Oct 2026/ }, SLOW));
    fireEvent.change(await screen.findByLabelText("From", {}, SLOW), { target: { value: "2026-07-01" } });
    fireEvent.change(screen.getByLabelText("To"), { target: { value: "2026-06-01" } });
    fireEvent.click(await screen.findByRole("button", { name: "Show", hidden: true }, SLOW));
    await find(/beginning before the end/);
    fireEvent.change(screen.getByLabelText("To"), { target: { value: "2026-07-09" } });
    fireEvent.click(screen.getByRole("button", { name: "Show", hidden: true }));
    await waitFor(() => expect(history.location.search).toContain("2026-07-01T00"), SLOW);
    expect(history.location.search).toContain("2026-07-10T00");
  });

  test("a row chooses what the chart shows, and the URL keeps it", async () => {
    const { history } = await renderAt("/spot");
    fireEvent.click((await screen.findAllByRole("button", { name: "g6.12xlarge" }, SLOW))[0] as HTMLElement);
    await waitFor(() => expect(history.location.search).toContain("g6.12xlarge"), SLOW);
    await screen.findByRole("img", { name: /^Price per hour: g6\.12xlarge/ }, SLOW);
  });

  test("a zoom goes to the service as its range", async () => {
    const { fake } = await renderAt("/spot?from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z");
    await find("Back to 30 days");
    await waitFor(() => expect(fake.calls.some((c) => c.path === "/prices/spot")).toBe(true), SLOW);
    const asked = fake.calls.find((c) => c.path === "/prices/spot");
    expect(asked?.query.get("from")).toBe("2026-11-20T00:00:00.000Z");
    expect(asked?.query.get("to")).toBe("2026-11-21T00:00:00.000Z");
  });

  test("nothing recorded yet says how it begins", async () => {
    const fake = new FakeApi();
    fake.market.markets = [];
    await renderAt("/spot", { fake });
    await find("No price history yet");
  });

  test("a filter that no market fits is told apart from an empty history", async () => {
    await renderAt("/spot?cloud=azure&gpus=16");
    expect((await screen.findAllByText("No machine fits", {}, SLOW)).length).toBeGreaterThan(0);
  });

  test("the largest GPU machine is shown first", () => {
    const read = (over: Parameters<typeof aMarket>[0]) => readMarket(aMarket(over)) ?? [];
    const markets = [
      read({ machine: null, instance_type: "m6i.large" }),
      read({ spot_listed: false, instance_type: "p6-b200.48xlarge" }),
      read({}),
      read({ instance_type: "x" }),
    ].flat();
    expect(firstMarket(markets)?.instanceType).toBe("p5.48xlarge");
    expect(firstMarket([])).toBeUndefined();
  });

  test("a market of a cloud that nobody here knows is left out, not renamed", () => {
    expect(readMarket(aMarket({ cloud: "ovh" }))).toBeNull();
  });
});

describe("availability", () => {
  test("a cell says its figure to those who see no colour, and opens its evidence", async () => {
    const { history } = await renderAt("/availability");
    fireEvent.click(await screen.findByRole("button", { name: "p5.48xlarge, us-east-1a: 34%" }, SLOW));
    const drawer = await screen.findByRole("dialog", { name: "p5.48xlarge" }, SLOW);
    await within(drawer).findByText("69.1", {}, SLOW);
    expect(history.location.search).toContain("offering=");
    const week = await within(drawer).findByRole("img", { name: "Seen in the last seven days" }, SLOW);
    expect(week.getAttribute("data-lines")).toBe("Machines had|Out of stock|Interrupted");
  });

  test("what is left alone counts down on the data's clock", async () => {
    await renderAt("/availability?view=table");
    // 14 minutes of data time at 60 times speed.
    await find(/^in 1[0-4] sec/);
  });

  test("nothing tried yet is told apart from a filter without a match", async () => {
    const first = await renderAt("/availability?cloud=gcp");
    await find("No offering matches");
    first.unmount();
    const fake = new FakeApi();
    fake.market.supply = [];
    await renderAt("/availability", { fake });
    await find("Nothing was tried yet");
  });
});

describe("commitments", () => {
  const paste = async (text: string) => {
    fireEvent.click((await screen.findAllByRole("button", { name: "Import" }, SLOW))[0] as HTMLElement);
    const dialog = await screen.findByRole("dialog", { name: "Import commitments" }, SLOW);
    fireEvent.change(within(dialog).getByRole("textbox", { name: "Commitments as CSV or JSON" }), {
      target: { value: text },
    });
    fireEvent.click(within(dialog).getByRole("button", { name: "Import" }));
    return dialog;
  };

  test("a file that cannot be read names the row and shows it; nothing is taken", async () => {
    const { fake } = await renderAt("/commitments?tab=list");
    const dialog = await paste("ref,kind\nri-1,aws_regional_ri\nri-2,magic");
    const alert = await within(dialog).findByRole("alert", {}, SLOW);
    expect(alert.textContent).toContain("row 3, column kind: is unknown");
    expect(alert.textContent).toContain("ri-2,magic");
    expect(fake.market.commitments).toHaveLength(3);
  });

  test("a good file goes as it is, with its type, and shows in the list", async () => {
    const { fake } = await renderAt("/commitments?tab=list");
    await paste("ref,kind\nri-new,aws_regional_ri\n");
    await find("ri-new");
    const sent = fake.calls.find((c) => c.path === "/commitments/import");
    expect(sent?.headers["content-type"]).toBe("text/csv");
    expect(sent?.body).toBe("ref,kind\nri-new,aws_regional_ri\n");
  });

  test("JSON is known by its look", async () => {
    const { fake } = await renderAt("/commitments");
    await paste('[{"ref":"sp-1"}]');
    await waitFor(() => expect(fake.calls.some((c) => c.path === "/commitments/import")).toBe(true), SLOW);
    const sent = fake.calls.find((c) => c.path === "/commitments/import");
    expect(sent?.headers["content-type"]).toBe("application/json");
    expect(sent?.body).toEqual([{ ref: "sp-1" }]);
  });

  test("one is deleted after a question", async () => {
    const { fake } = await renderAt("/commitments?tab=list");
    fireEvent.click(await screen.findByRole("button", { name: "Delete az-h100" }, SLOW));
    const dialog = await screen.findByRole("dialog", { name: "Delete az-h100?" }, SLOW);
    fireEvent.click(within(dialog).getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(fake.market.commitments.map((c) => c.ref)).not.toContain("az-h100"), SLOW);
  });

  test("a viewer may look, not change", async () => {
    const fake = new FakeApi();
    fake.me = { ...fake.me, role: "viewer" };
    await renderAt("/commitments?tab=list", { fake });
    await find("sp-compute");
    expect(screen.queryByRole("button", { name: "Import" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Delete az-h100" })).toBeNull();
  });

  test("the rule's assumptions are in the URL and go to the service", async () => {
    const { fake } = await renderAt("/commitments?tab=advice&discount=50&spot=25");
    await find("Reserve 2 more");
    const asked = fake.calls.find((c) => c.path === "/commitments/recommendations");
    expect(asked?.query.get("reserved_discount_percent")).toBe("50");
    expect(asked?.query.get("spot_availability")).toBe("0.25");
  });

  test("use and coverage over time, and what waits for its cost", async () => {
    const { fake, history } = await renderAt("/commitments?window=d30");
    const shares = await screen.findByRole("img", { name: "Utilisation, Coverage" }, SLOW);
    expect(shares.getAttribute("data-lines")).toBe("Utilisation|Coverage");
    expect(fake.calls.find((c) => c.path === "/commitments/series")?.query.get("step")).toBe("day");
    await find(/^Left out, because the cloud does not say what they cost: 1 of/);
    fireEvent.click(screen.getByRole("button", { name: "Add their cost" }));
    await waitFor(() => expect(history.location.search).toContain("list"), SLOW);
    await find("Machines held by the clouds");
    fireEvent.click(await screen.findByRole("button", { name: "Add cost of az-res-7" }, SLOW));
    const dialog = await screen.findByRole("dialog", { name: "Add cost of az-res-7" }, SLOW);
    const type = (label: string, value: string) =>
      fireEvent.change(within(dialog).getByLabelText(label), { target: { value } });
    type("Paid once, for the whole term", "free");
    fireEvent.click(within(dialog).getByRole("button", { name: "Save" }));
    expect((await within(dialog).findByRole("alert", {}, SLOW)).textContent).toContain("is no amount");
    type("Paid once, for the whole term", "9600");
    type("Team that bears what is unused", "research");
    fireEvent.click(within(dialog).getByRole("button", { name: "Save" }));
    await waitFor(() => expect(fake.market.pending).toHaveLength(0), SLOW);
    const sent = fake.calls.filter((c) => c.path === "/commitments" && c.method === "POST").at(-1)?.body;
    expect(sent).toMatchObject({ ref: "az-res-7", quantity: "2", upfront: "9600", owner: "research" });
    expect(sent).not.toHaveProperty("recurring_hour");
    await waitFor(() => expect(screen.queryByText("Waiting for their cost")).toBeNull(), SLOW);
  });

  test("a file of what waits can be filled in and imported", () => {
    const fake = new FakeApi();
    const text = pendingCsv(fake.market.pending.map(readPending));
    const [head = "", row = ""] = text.split("\r\n");
    expect(head).toContain("upfront,recurring_hour");
    expect(row).toBe(
      "az-res-7,azure_reservation,eastus,,Standard_NC40ads_H100_v5,,,,2,2026-01-01T00:00:00Z,2027-01-01T00:00:00Z,,,,,",
    );
  });

  test("without any, the page says how to begin", async () => {
    const fake = new FakeApi();
    fake.market.commitments = [];
    await renderAt("/commitments", { fake });
    await find("No commitment ran in this range");
    expect(screen.getAllByText("Utilisation", { selector: "p" }).length).toBeGreaterThan(0);
  });
});

describe("catalogue", () => {
  test("“8 GPUs of at least 80 GB” is one click, and asks in MiB of 10⁹-byte GB", async () => {
    const { fake, history } = await renderAt("/catalogue");
    await find("g6.12xlarge");
    fireEvent.click(screen.getByRole("button", { name: "8 GPUs of at least 80 GB" }));
    await waitFor(() => expect(screen.queryByText("g6.12xlarge")).toBeNull(), SLOW);
    expect(history.location.search).toBe("?gpus=8&gpuGb=80");
    expect(fake.calls.at(-1)?.query.get("min_gpu_memory_mib")).toBe("76293");
  });

  test("the age of the snapshot is said", async () => {
    await renderAt("/catalogue");
    await find(/^Catalogue of 30 Jul 2026, \d+ days? old/);
  });

  test("a row opens the price's parts; what nobody knows stays unknown", async () => {
    const fake = new FakeApi();
    fake.market.explanation = anExplanation({
      per_hour: null,
      total_hour: null,
      parts: [
        {
          basis: "unknown",
          resource: "machine",
          share: 1,
          per_hour: null,
          left_machines: null,
          left_spend: null,
          as_of: null,
          stale: false,
        },
      ],
    });
    await renderAt("/catalogue", { fake });
    fireEvent.click(await screen.findByRole("button", { name: "p5.48xlarge" }, SLOW));
    const drawer = await screen.findByRole("dialog", { name: "Price of p5.48xlarge" }, SLOW);
    expect((await within(drawer).findAllByText("Unknown", {}, SLOW)).length).toBe(2);
    expect(drawer.textContent).not.toContain("$0");
  });

  test.each([
    ["aws/us-east-1/p5.48xlarge", { cloud: "aws", region: "us-east-1", instanceType: "p5.48xlarge" }],
    ["gcp/r/t/z", { cloud: "gcp", region: "r", instanceType: "t", zone: "z" }],
    ["moon/r/t", null],
    ["aws/r", null],
    ["aws/r/t/z/more", null],
    [undefined, null],
  ])("an offering in the URL: %s", (text, want) => expect(readOffering(text)).toEqual(want));

  test("a failed search shows the service's words and can be tried again", async () => {
    const fake = new FakeApi();
    fake.overrides.set("GET /catalog/instances", { status: 503, body: { detail: "the catalogue is away" } });
    await renderAt("/catalogue", { fake });
    await find("the catalogue is away");
    fake.overrides.clear();
    fireEvent.click(screen.getByRole("button", { name: "Try again" }));
    await find("p5.48xlarge");
  });
});

describe("cloud accounts", () => {
  const form = async (cloud?: string) => {
    fireEvent.click((await screen.findAllByRole("button", { name: "Add account" }, SLOW))[0] as HTMLElement);
    const dialog = await screen.findByRole("dialog", { name: "Add account" }, SLOW);
    if (cloud) fireEvent.click(within(dialog).getByRole("radio", { name: cloud }));
    return {
      dialog,
      fill: (label: string, value: string) =>
        fireEvent.change(within(dialog).getByLabelText(label), { target: { value } }),
      create: () => fireEvent.click(within(dialog).getByRole("button", { name: "Create" })),
    };
  };

  test("an AWS role is checked, added, and its external id shown", async () => {
    const { fake } = await renderAt("/cloud-accounts");
    const { fill, create } = await form();
    fill("Name", "Staging");
    fill("Regions", "us-east-1, us-east-1");
    fill("ARN of the role", "arn:aws:iam::1:user/x");
    create();
    await find("Name 1 to 40 regions, each once.");
    await find(/^Give a role's ARN/);
    fill("Regions", "us-east-1, eu-west-1");
    fill("ARN of the role", "arn:aws:iam::123456789012:role/plimsoll");
    create();
    await screen.findByRole("dialog", { name: "External id of Staging" }, SLOW);
    expect(fake.calls.find((c) => c.method === "POST" && c.path === "/cloud-accounts")?.body).toEqual({
      name: "Staging",
      cloud: "aws",
      regions: ["us-east-1", "eu-west-1"],
      aws: { role_arn: "arn:aws:iam::123456789012:role/plimsoll" },
    });
  });

  test("Azure's application goes without a secret when none is given", async () => {
    const { fake } = await renderAt("/cloud-accounts");
    const { fill, create } = await form("Azure");
    const id = "00000021-0000-4000-8000-00000000000a";
    fill("Name", "Research 2");
    fill("Regions", "eastus");
    fill("Directory (tenant) id", id);
    fill("Application (client) id", "no uuid");
    fill("Subscription id", id);
    create();
    await find("Give the id as a UUID.");
    fill("Application (client) id", id);
    create();
    await find("Research 2");
    expect(fake.calls.find((c) => c.method === "POST" && c.path === "/cloud-accounts")?.body).toEqual({
      name: "Research 2",
      cloud: "azure",
      regions: ["eastus"],
      azure: { directory_id: id, client_id: id, subscription_id: id },
    });
  });

  test("Google wants a key or a service account, not both", async () => {
    await renderAt("/cloud-accounts");
    const { fill, create } = await form("Google Cloud");
    fill("Name", "Lab");
    fill("Regions", "us-central1");
    fill("Project id", "lab-project-1");
    create();
    await find("Give a key, or the name of a service account, not both.");
    fill("Service account", "reader@lab-project-1.iam.gserviceaccount.com");
    create();
    await find("Lab");
  });

  test("validation names what is missing", async () => {
    await renderAt("/cloud-accounts");
    fireEvent.click((await screen.findAllByRole("button", { name: "Validate" }, SLOW))[0] as HTMLElement);
    const dialog = await screen.findByRole("dialog", { name: "Validation of Production" }, SLOW);
    expect(dialog.textContent).toContain("savingsplans:DescribeSavingsPlansAccessDenied");
  });

  test("one is deleted after a question", async () => {
    const { fake } = await renderAt("/cloud-accounts");
    fireEvent.click(await screen.findByRole("button", { name: "Delete Research" }, SLOW));
    const dialog = await screen.findByRole("dialog", { name: "Delete Research?" }, SLOW);
    fireEvent.click(within(dialog).getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(fake.market.accounts.map((a) => a.name)).toEqual(["Production"]), SLOW);
  });

  test("whoever may not manage sees no buttons, and nothing connected says so", async () => {
    const fake = new FakeApi();
    fake.me = { ...fake.me, role: "finance" };
    fake.market.accounts = [];
    fake.market.sources = [];
    await renderAt("/cloud-accounts", { fake });
    await find("No cloud account yet");
    await find("No list was read yet");
    expect(screen.queryByRole("button", { name: "Add account" })).toBeNull();
  });
});
