import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { uuid } from "../test/factories";
import { renderAt } from "../test/render";

const SLOW = { timeout: 4000 };
const page = (n: number) => `/clusters/${uuid(3, n)}?tab=plan`;
const find = (text: string | RegExp) => screen.findByText(text, {}, SLOW);

describe.each(["en", "zh"] as const)("Karpenter in %s", (language) => {
  const say = (english: string, chinese: string) => (language === "zh" ? chinese : english);

  test("orders with how they ended, and each object with both writers", async () => {
    await renderAt(page(1), { language });
    await find(say("Done in part", "部分完成"));
    await find(say("2 pools and 0 overlays of ours", "我们的 2 个节点池，0 个价格覆盖"));
    fireEvent.click(screen.getByRole("button", { name: say("Show order 42", "查看指令 42") }));
    const dialog = within(await screen.findByRole("dialog", { name: say("Order 42", "指令 42") }, SLOW));
    expect(
      await dialog.findByText(say("Written by kubectl-edit, plimsoll-agent", "写入者：kubectl-edit, plimsoll-agent")),
    ).toBeTruthy();
    expect(dialog.getByText("conflict")).toBeTruthy();
    expect(dialog.getAllByText(/"weight": 55/).length).toBe(2);
    expect(screen.queryByText(/\{\{|NaN|undefined/)).toBeNull();
  });

  test("a cluster that never had it says what it is", async () => {
    await renderAt(page(4), { language });
    await find(say("Karpenter was told nothing", "尚未向 Karpenter 下达任何内容"));
  });
});

test("it is switched off after a question, then handed back", async () => {
  const { fake } = await renderAt(page(1));
  const panel = within((await find("Done in part")).closest("[data-karpenter]") as HTMLElement);
  fireEvent.click(panel.getByRole("button", { name: "Switch off" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Stop telling Karpenter?" }, SLOW));
  expect(fake.calls.some((c) => c.method === "PUT")).toBe(false);
  fireEvent.click(dialog.getByRole("button", { name: "Switch off" }));
  await find("Nothing is sent: it is off.");
  fireEvent.click(panel.getByRole("button", { name: "Hand back" }));
  const back = within(await screen.findByRole("dialog", { name: "Take our pools away?" }, SLOW));
  fireEvent.click(back.getByRole("button", { name: "Hand back" }));
  await find("hand-back");
});

test("it is switched on with a node class", async () => {
  const { fake } = await renderAt(page(4));
  await find("Karpenter was told nothing");
  const panel = within(document.querySelector("[data-karpenter]") as HTMLElement);
  fireEvent.click(panel.getByRole("button", { name: "Switch on" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Let Karpenter carry plans out?" }, SLOW));
  fireEvent.change(dialog.getByLabelText(/^Name/), { target: { value: "gpu" } });
  fireEvent.click(dialog.getByRole("button", { name: "Switch on" }));
  await waitFor(() => {
    const sent = fake.calls.find((c) => c.method === "PUT");
    expect(sent?.body).toMatchObject({
      version: 0,
      settings: { enabled: true, class_kind: "EC2NodeClass", class_name: "gpu" },
    });
  });
});

test("pools of others, the label of reservations and prices are set while it is on", async () => {
  const { fake } = await renderAt(page(1));
  const panel = within((await find("Done in part")).closest("[data-karpenter]") as HTMLElement);
  fireEvent.click(panel.getByRole("button", { name: "Settings" }));
  const dialog = within(await screen.findByRole("dialog", { name: "What Karpenter is told" }, SLOW));
  fireEvent.change(dialog.getByLabelText(/^Pools of yours/), { target: { value: "general, gpu general" } });
  fireEvent.change(dialog.getByLabelText(/^Label that names/), { target: { value: "example.test/reservation" } });
  fireEvent.click(dialog.getByRole("switch", { name: /^Tell effective prices/ }));
  fireEvent.click(dialog.getByRole("button", { name: "Save" }));
  await find("Taken over: general, gpu");
  expect(fake.calls.find((c) => c.method === "PUT")?.body).toMatchObject({
    version: 1,
    settings: { enabled: true, own: ["general", "gpu"], reservation_key: "example.test/reservation", prices: true },
  });
});
