// How much the page is, how fast it appears, and how it looks on narrow screens.

import assert from "node:assert/strict";
import { readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { goTo, makeDatabase, openTab, picture, seeText, startBrowser } from "./browser.js";

const DIST = join(dirname(fileURLToPath(import.meta.url)), "../../web/dist");

let browser;
before(async () => {
  browser = await startBrowser();
  await makeDatabase("cars", [{ _id: "a", maker: "Citroën" }]);
});
after(() => browser.close());

test("all files have at most 400 KB, compressed", () => {
  const sizes = readdirSync(DIST, { recursive: true }).map((name) => statSync(join(DIST, name))).filter((file) => file.isFile());
  const total = sizes.reduce((sum, { size }) => sum + size, 0);
  assert.ok(total > 50_000 && total <= 400_000, `${total} bytes`);
});

test("a cold page is painted within 300 ms", async () => {
  const times = [];
  for (let turn = 0; turn < 5; turn++) {
    const tab = await openTab(browser, "#/db/cars/documents");
    await seeText(tab, "Citroën");
    times.push(await tab.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    await tab.end();
  }
  times.sort((a, b) => a - b);
  // Other tests run at the same time, so the fastest of five cold loads counts.
  assert.ok(times[0] <= 300, `first paints after ${times.map(Math.round).join(", ")} ms`);
});

test("no page is wider than a narrow screen", async () => {
  const tab = await openTab(browser, "#/", { viewport: { width: 360, height: 740 } });
  const pages = ["#/", "#/new", ...["overview", "operations", "slow", "replication", "users", "settings", "audit", "connect"].map((page) => `#/server/${page}`)];
  pages.push(...["documents", "doc/a", "query", "schema", "indexes", "design", "changes", "conflicts", "revisions/a", "settings"].map((page) => `#/db/cars/${page}`));
  for (const page of pages) {
    await goTo(tab, page);
    await tab.waitForFunction(() => !document.body.innerText.includes("Loading…"));
    await new Promise((resolve) => setTimeout(resolve, 150));
    const wide = await tab.evaluate(() => {
      const main = document.querySelector("main");
      return [document.documentElement.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth];
    });
    assert.ok(wide.every((pixels) => pixels <= 0), `${page} is ${wide} pixels too wide`);
  }
  await goTo(tab, "#/db/cars/documents");
  await seeText(tab, "Citroën");
  await picture(tab, "documents-narrow");
  await tab.end();
});

test("the keyboard reaches the page without a mouse", async () => {
  const tab = await openTab(browser, "#/db/cars/documents");
  await seeText(tab, "Citroën");
  await tab.keyboard.press("Tab");
  assert.equal(await tab.evaluate(() => document.activeElement.innerText), "Skip to the page");
  await tab.keyboard.press("Enter");
  assert.equal(await tab.evaluate(() => document.activeElement.tagName), "MAIN");
  const reached = new Set();
  for (let turn = 0; turn < 60; turn++) {
    await tab.keyboard.press("Tab");
    reached.add(await tab.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.innerText));
  }
  for (const name of ["Query", "Filter", "More actions", "New document", "Select a", "a"]) assert.ok(reached.has(name), `${name} is not reached: ${[...reached].join(", ")}`);
  await tab.end();
});
