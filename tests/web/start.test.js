// The first minutes: sample data, queries to try, connecting, a new database and its settings.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkAccessibility, fill, goTo, openTab, picture, press, request, seeText, server, startBrowser, writeEditor } from "./browser.js";

let browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser.close());

test("an empty server offers sample data and three queries to try", async () => {
  const tab = await openTab(browser);
  await seeText(tab, "Nothing is in here yet");
  await checkAccessibility(tab);
  await picture(tab, "empty");
  await press(tab, "Create library");
  await seeText(tab, "library has 25 documents.");
  await tab.click("details summary");
  await press(tab, "Create persons");
  await seeText(tab, "persons has 100,000 documents.", { timeout: 60_000 });
  for (const [name, seen] of [
    ["Books before 1850", "Frankenstein"],
    ["Books of each country", "England"],
    ["Persons who are 30 years old", "salary"],
  ]) {
    await goTo(tab, "#/");
    await tab.waitForSelector(`a.card`);
    await tab.evaluate((title) => [...document.querySelectorAll("a.card")].find((card) => card.innerText.includes(title)).click(), name);
    await press(tab, "Run");
    await seeText(tab, seen);
  }
  await goTo(tab, "#/");
  await seeText(tab, "Queries to try");
  await picture(tab, "start");
  await tab.end();
});

test("the lines to connect name this server", async () => {
  const tab = await openTab(browser, "#/server/connect");
  await seeText(tab, "directConnection=true");
  const { mongodb } = await request("GET", "/_diwan/status");
  await seeText(tab, `:${mongodb.port}/`);
  for (const [client, line] of [
    ["Python", "from pymongo import MongoClient"],
    ["Node.js", 'import { MongoClient } from "mongodb"'],
    ["Mongoose", "mongoose.connect"],
    ["PouchDB", "new PouchDB"],
    ["nano", "Nano("],
    ["couchdb-python", "couchdb.Server"],
    ["curl", "curl -X PUT"],
    ["mongosh", "mongosh "],
  ]) {
    await press(tab, client);
    await seeText(tab, line);
  }
  await checkAccessibility(tab);
  await picture(tab, "connect");
  await tab.end();
});

test("a database is created, described, renamed and deleted", async () => {
  const tab = await openTab(browser, "#/new");
  await fill(tab, "Name", "shop/orders");
  await seeText(tab, "collection orders of the database shop");
  await checkAccessibility(tab);
  await press(tab, "Create");
  await seeText(tab, "No documents yet");
  await goTo(tab, "#/db/shop%2Forders/settings");
  await seeText(tab, "shop.orders");
  await fill(tab, "Members: Names", "ada, grace");
  await press(tab, "Save who may use it");
  await seeText(tab, "Saved.");
  assert.deepEqual((await request("GET", "/shop%2Forders/_security")).members.names, ["ada", "grace"]);
  await fill(tab, "Revisions of a document that are remembered", "20");
  await press(tab, "Save the limit");
  await tab.waitForFunction(() => [...document.querySelectorAll("button")].some((button) => button.innerText === "Save the limit" && button.disabled));
  assert.equal(await (await fetch(`${server}/shop%2Forders/_revs_limit`)).json(), 20);
  await writeEditor(tab, "Validator", "{ total: { $gte: 0 } }");
  await press(tab, "Save the validator");
  await seeText(tab, "Writes from now on must match.");
  assert.equal((await request("POST", "/shop%2Forders", { total: -1 })).status, 403);
  assert.equal((await request("POST", "/shop%2Forders", { total: 1 })).status, 201);
  await checkAccessibility(tab);
  await picture(tab, "database-settings");
  await fill(tab, "New name", "shop/bills");
  await press(tab, "Rename");
  await seeText(tab, "shop.bills");
  await fill(tab, "The name of the database", "shop/bill");
  assert.equal(await tab.$eval("button.danger", (button) => button.disabled), true);
  await fill(tab, "The name of the database", "shop/bills");
  await press(tab, "Delete the database");
  await seeText(tab, "shop/bills is deleted.");
  assert.equal((await request("GET", "/shop%2Fbills")).status, 404);
  await tab.end();
});

test("capped and partitioned databases are what they are called", async () => {
  const tab = await openTab(browser, "#/new");
  await fill(tab, "Name", "log");
  await press(tab, "Capped");
  await fill(tab, "Size in megabytes", "1");
  await press(tab, "Create");
  await seeText(tab, "No documents yet");
  const stats = await request("POST", "/_diwan/command/test", { collStats: "log" });
  assert.deepEqual([stats.capped, stats.maxSize], [true, 1_000_192]);
  await goTo(tab, "#/new");
  await fill(tab, "Name", "parts");
  await press(tab, "Partitioned");
  await press(tab, "Create");
  await seeText(tab, "No documents yet");
  assert.equal((await request("GET", "/parts")).props.partitioned, true);
  tab.expectErrors(/status of 412/);
  await goTo(tab, "#/new");
  await fill(tab, "Name", "parts");
  await press(tab, "Create");
  await seeText(tab, "file_exists");
  await tab.end();
});
