// The frame of the page: the tree, the theme, addresses that do not exist.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkAccessibility, goTo, makeDatabase, openTab, press, seeText, startBrowser } from "./browser.js";

let browser;
before(async () => {
  browser = await startBrowser();
  await makeDatabase("shell-cars", [{ _id: "a" }, { _id: "b" }]);
  await makeDatabase("shop/shell-orders", [{ _id: "1" }]);
});
after(() => browser.close());

test("the tree shows databases with their counts, and filters them", async () => {
  const tab = await openTab(browser);
  await seeText(tab, "shell-cars");
  await tab.waitForFunction(() => [...document.querySelectorAll(".side li a")].some((link) => /shell-cars\s*2/.test(link.innerText)));
  await tab.type('input[type="search"]', "orders");
  await tab.waitForFunction(() => !document.querySelector(".side-tree").innerText.includes("shell-cars"));
  await seeText(tab, "shell-orders");
  await checkAccessibility(tab);
  await tab.end();
});

test("the theme changes at once and is kept", async () => {
  const tab = await openTab(browser);
  await press(tab, "Theme: system");
  await press(tab, "Theme: light");
  await tab.reload();
  assert.equal(await tab.evaluate(() => document.documentElement.dataset.theme), "dark");
  await checkAccessibility(tab);
  await tab.end();
});

test("an address without a page says so", async () => {
  const tab = await openTab(browser, "#/nowhere/x");
  await seeText(tab, "There is no such page");
  await goTo(tab, "#/db/shell-cars/nothing");
  await seeText(tab, "There is no such page");
  await tab.end();
});
