import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { uuid } from "../test/factories";
import { FakeApi } from "../test/fake-api";
import { renderAt } from "../test/render";

const SLOW = { timeout: 8000 };
const path = `/workloads/${uuid(5, 1)}?tab=policy`;

test("load that comes is told, checked before it is sent, and taken back", async () => {
  const { fake } = await renderAt(path);
  await screen.findByText("3 × the demand before", {}, SLOW);
  fireEvent.click(screen.getByRole("button", { name: "Expect load" }));
  const dialog = within(await screen.findByRole("dialog", {}, SLOW));
  fireEvent.change(dialog.getByLabelText("Amount"), { target: { value: "0" } });
  fireEvent.click(dialog.getByRole("button", { name: "Create" }));
  await dialog.findByText("More than 0", {}, SLOW);
  expect(fake.hints.items).toHaveLength(1);
  fireEvent.change(dialog.getByLabelText("Amount"), { target: { value: "4" } });
  fireEvent.change(dialog.getByLabelText("To"), { target: { value: "2001-01-01T00:00" } });
  fireEvent.click(dialog.getByRole("button", { name: "Create" }));
  await dialog.findByText("After the beginning, and not over yet", {}, SLOW);
  fireEvent.change(dialog.getByLabelText("To"), { target: { value: "2099-01-01T00:00" } });
  fireEvent.click(dialog.getByRole("button", { name: "Create" }));
  await waitFor(() => expect(fake.hints.items).toHaveLength(2), SLOW);
  expect(fake.hints.items[1]).toMatchObject({ kind: "factor", amount: 4 });
  await screen.findByText("4 × the demand before", {}, SLOW);
  fireEvent.click(screen.getAllByRole("button", { name: "Take back" })[0] as HTMLElement);
  await waitFor(() => expect(fake.hints.items).toHaveLength(1), SLOW);
});

test.each([
  ["en", "Nothing is expected"],
  ["zh", "没有预期的负载"],
])("nothing expected says so, in %s", async (language, text) => {
  const fake = new FakeApi();
  fake.hints.items = [];
  await renderAt(path, { fake, language });
  await screen.findByText(text, {}, SLOW);
});
