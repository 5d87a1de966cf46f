import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { uuid } from "../test/factories";
import { FakeApi } from "../test/fake-api";
import { renderAt } from "../test/render";

const SLOW = { timeout: 4000 };
const page = `/services/${uuid(80, 1)}`;
const find = (text: string | RegExp) => screen.findByText(text, {}, SLOW);

describe.each(["en", "zh"] as const)("a service in %s", (language) => {
  const say = (english: string, chinese: string) => (language === "zh" ? chinese : english);

  test("its split, what it costs, what bounds it, and what else was considered", async () => {
    await renderAt(page, { language });
    await find(say("$2.20 less per hour than the split as it is", "比保持当前分配每小时少 $2.20"));
    await find(say("The loss of it must be survived", "必须承受失去该集群"));
    await find(
      say(
        "gives up more when what stands in for it is ready · bounded to 9 – 9",
        "替代副本就绪后再减少 · 约束为 9 – 9",
      ),
    );
    expect(document.querySelector("[data-part=inference-us]")?.textContent).toBe("6");
    await find(say("All in inference-us", "全部在 inference-us"));
    await find(say("not so many are to be had", "无法获得这么多"));
    expect(screen.queryByText(/\{\{|NaN|undefined/)).toBeNull();
  });

  test("a service without a plan, one that is off, and none at all", async () => {
    const fake = new FakeApi();
    fake.services.plan = { ...fake.services.plan, stale: true, missing: 3, relaxed: ["shares"] };
    await renderAt(page, { fake, language });
    await find(
      say(
        "It was not planned for over two minutes. What is shown is the last plan.",
        "已超过两分钟没有规划。以下为最后一次规划。",
      ),
    );
    await find(say("3 replicas are asked for that no cluster may have.", "有 3 个所需副本，没有集群可以承载。"));
  });

  test("an empty list says how to begin", async () => {
    const fake = new FakeApi();
    fake.services.services = [];
    await renderAt("/services", { fake, language });
    await find(say("No service is declared", "尚未声明服务"));
  });
});

test("a label that nobody declared becomes a service", async () => {
  const { fake } = await renderAt("/services");
  const note = (await find(/have the label “embeddings”/)).closest("[role=alert], .mantine-Alert-root") as HTMLElement;
  fireEvent.click(within(note).getByRole("button", { name: "Declare a service" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Declare a service" }, SLOW));
  expect((dialog.getByLabelText(/^Name/) as HTMLInputElement).value).toBe("embeddings");
  fireEvent.click(dialog.getByRole("button", { name: "Save" }));
  await waitFor(() => {
    const sent = fake.calls.find((c) => c.method === "POST" && c.path === "/services");
    expect(sent?.body).toMatchObject({ name: "embeddings", mode: "recommend", rules: { traffic: "local" }, sites: [] });
  });
  await find("not planned yet");
});

test("a service is changed with the version that was read, and what the form does not show is kept", async () => {
  const { fake } = await renderAt(page);
  await find("The loss of it must be survived");
  fireEvent.click(screen.getByRole("button", { name: "Change" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Change" }, SLOW));
  fireEvent.click(dialog.getByRole("radio", { name: "Off" }));
  fireEvent.click(dialog.getByRole("button", { name: "Save" }));
  await waitFor(() => {
    const sent = fake.calls.find((c) => c.method === "PUT");
    expect(sent?.body).toMatchObject({
      version: 3,
      service: {
        mode: "off",
        rules: { traffic: "balanced", headroom: 0.5 },
        sites: [{ workload_id: uuid(5, 1), rules: { min: 2 } }],
      },
    });
  });
});

test("a service is forgotten after a question", async () => {
  const { fake, history } = await renderAt(page);
  await find("The loss of it must be survived");
  fireEvent.click(screen.getByRole("button", { name: "Forget" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Forget the service assistant?" }, SLOW));
  expect(fake.calls.some((c) => c.method === "DELETE")).toBe(false);
  fireEvent.click(dialog.getByRole("button", { name: "Forget" }));
  await waitFor(() => expect(history.location.pathname).toBe("/services"));
});
