// Chromium for the end-to-end walk and for looking at pages by hand.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts the machine's Chromium; CHROMIUM names another one. */
export function launch() {
  const found = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
    (path) => path && existsSync(path),
  );
  if (!found) throw new Error("no Chromium found: install the package chromium, or set CHROMIUM to its path");
  return chromium.launch({ executablePath: found, args: FLAGS });
}
