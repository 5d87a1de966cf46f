import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { renderAt } from "../test/render";

const SLOW = { timeout: 4000 };
const find = (text: string | RegExp) => screen.findByText(text, {}, SLOW);

describe("catalogue", () => {
  test("traits narrow the search, and what is not known does not fit", async () => {
    const { fake, history } = await renderAt("/catalogue");
    await find("g2-standard-96");
    fireEvent.click(screen.getByRole("checkbox", { name: "MIG" }));
    await waitFor(() => expect(screen.queryByText("g2-standard-96")).toBeNull(), SLOW);
    expect(screen.queryByText("g6.12xlarge")).toBeNull();
    fireEvent.change(screen.getByRole("textbox", { name: "Gbit/s ≥" }), { target: { value: "400" } });
    await waitFor(() => expect(history.location.search).toBe("?mig=true&gbps=400"), SLOW);
    await waitFor(() => expect(fake.calls.at(-1)?.query.get("min_network_mbps")).toBe("400000"), SLOW);
    expect(fake.calls.at(-1)?.query.get("mig")).toBe("true");
  });

  test("a type that is sold at an unknown price is unpriced, not missing and not free", async () => {
    await renderAt("/catalogue");
    const row = (await screen.findByRole("button", { name: "p4d.24xlarge" }, SLOW)).closest("tr");
    expect(row?.textContent).toContain("Unpriced");
    expect(row?.textContent).not.toContain("$");
    await find("AWS: regions with prices 1 of 2");
  });

  test("a price that was not believed is told, with what was expected", async () => {
    await renderAt("/catalogue");
    await screen.findByRole("img", { name: "Not believed: $0.901 in us-east5" }, SLOW);
    await find("Prices not believed, and not used: 1.");
    fireEvent.click(screen.getByRole("button", { name: "g2-standard-96" }));
    const drawer = await screen.findByRole("dialog", { name: "Price of g2-standard-96" }, SLOW);
    await within(drawer).findByText(
      "Spot at $0.901 in us-east5, where about $5.07 was expected: far off the same type in other regions. It is not used.",
      {},
      SLOW,
    );
    expect(within(drawer).getAllByText("not known").length).toBe(5);
  });

  test("a machine's traits stand under its price", async () => {
    await renderAt("/catalogue?open=aws/us-east-1/p5.48xlarge");
    const drawer = await screen.findByRole("dialog", { name: "Price of p5.48xlarge" }, SLOW);
    for (const text of [
      "NVSwitch, 900 GB/s per GPU",
      /^7\s×\s1g\.10gb, 1\s×\s7g\.80gb$/,
      "EFA, 3,200 Gbit/s",
      "191 cores, 2,047 GiB, 100 pods",
      "sold in 12, priced in 1",
    ])
      await within(drawer).findByText(text, {}, SLOW);
  });
});
