// Queries, plans, schemas and indexes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkAccessibility, fill, goTo, makeDatabase, openTab, picture, press, request, seeEditor, seeText, startBrowser, waitInEditors, writeEditor } from "./browser.js";

const MAKERS = ["Citroën", "Fiat", "Saab", "Volvo"];

let browser;
before(async () => {
  browser = await startBrowser();
  const cars = Array.from({ length: 3000 }, (_, n) => ({ _id: `car:${n}`, n, maker: MAKERS[n % 4], year: 1950 + (n % 60), price: { net: n * 1.5 } }));
  await makeDatabase("cars", cars);
});
after(() => browser.close());

const status = (tab, text) => tab.waitForFunction((wanted) => [...document.querySelectorAll('[role="status"]')].some((node) => node.innerText.includes(wanted)), { timeout: 10_000 }, text);

test("a filter with fields, order and limit runs, and its address can be shared", async () => {
  const tab = await openTab(browser, "#/db/cars/query");
  await writeEditor(tab, "Filter", '{ maker: "Fiat", year: { $lt: 1960 } }');
  await fill(tab, "Fields", "{ year: 1 }");
  await fill(tab, "Sort", "{ year: -1, _id: 1 }");
  await fill(tab, "Limit", "7");
  await press(tab, "Run");
  await status(tab, "7 results");
  const address = await tab.evaluate(() => location.hash);
  await picture(tab, "query");
  await checkAccessibility(tab);
  await tab.end();
  const other = await openTab(browser, address);
  await seeEditor(other, "Filter", '{ maker: "Fiat", year: { $lt: 1960 } }');
  await press(other, "Run");
  await status(other, "7 results");
  await press(other, "Table");
  await press(other, "car:1029");
  await seeText(other, "car:1029");
  await other.end();
});

test("many results come in parts, and a text that is no filter is marked", async () => {
  const tab = await openTab(browser, "#/db/cars/query");
  await press(tab, "Run");
  await status(tab, "500 results");
  await seeText(tab, "There are more.");
  await press(tab, "Read more");
  await status(tab, "1,000 results");
  await writeEditor(tab, "Filter", "{ year: ");
  await press(tab, "Run");
  await tab.waitForSelector('.query-editor [role="alert"]');
  tab.expectErrors(/status of 400/);
  await writeEditor(tab, "Filter", "{ year: { $no: 1 } }");
  await press(tab, "Run");
  await seeText(tab, "unknown operator: $no");
  await tab.end();
});

test("a query that never ends is cancelled on the server, too", async () => {
  const tab = await openTab(browser, "#/db/cars/query?kind=pipeline");
  const later = "{ from: 'cars', let: { n: '$n' }, pipeline: [{ $match: { $expr: { $gt: ['$n', '$$n'] } } }], as: 'later' }";
  await writeEditor(tab, "Pipeline", `[{ $lookup: ${later} }, { $group: { _id: null, n: { $sum: { $size: "$later" } } } }]`);
  await press(tab, "Run");
  const running = async () => {
    const { inprog } = await request("POST", "/_diwan/command/admin", { currentOp: 1 });
    return inprog.filter(({ command }) => command?.aggregate === "cars").length;
  };
  for (let turn = 0; turn < 50 && (await running()) === 0; turn++) await new Promise((resolve) => setTimeout(resolve, 50));
  await press(tab, "Cancel");
  await seeText(tab, "Cancelled after 0 results.");
  for (let turn = 0; turn < 100 && (await running()) > 0; turn++) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(await running(), 0);
  await tab.end();
});

test("the plan proposes an index, and uses it when it is created", async () => {
  const tab = await openTab(browser, `#/db/cars/query?filter=${encodeURIComponent('{ maker: "Saab", year: { $gt: 2000 } }')}&sort=${encodeURIComponent("{ n: 1 }")}`, { dark: true });
  await press(tab, "Explain");
  await seeText(tab, "COLLSCAN");
  await seeText(tab, "3,000");
  await seeText(tab, "{ maker: 1, n: 1, year: 1 }");
  await picture(tab, "plan");
  await checkAccessibility(tab);
  await press(tab, "Create this index");
  await seeText(tab, "IXSCAN");
  assert.ok(!(await tab.evaluate(() => document.body.innerText)).includes("Create this index"));
  await picture(tab, "plan-index");
  await tab.end();
});

test("a pipeline runs, shows its stages, and is copied as code", async () => {
  const tab = await openTab(browser, "#/db/cars/query?kind=pipeline");
  await writeEditor(tab, "Pipeline", '[\n  { $match: { year: 1955 } },\n  { $group: { _id: "$maker", n: { $sum: 1 } } },\n  { $sort: { _id: 1 } },\n  { $out: "never" }\n]');
  await press(tab, "Stages");
  await seeText(tab, "Nothing is written here.");
  await tab.waitForFunction(() => document.querySelectorAll(".stage-documents").length >= 4);
  await picture(tab, "stages");
  await checkAccessibility(tab);
  assert.equal((await request("GET", "/never")).status, 404);
  await writeEditor(tab, "Pipeline", '[{ $group: { _id: "$maker", n: { $sum: 1 } } }, { $sort: { _id: 1 } }]');
  await press(tab, "Run");
  await status(tab, "4 results");
  await seeText(tab, '"n": 750');
  await press(tab, "Explain");
  await seeText(tab, "$group");
  await tab.evaluate(() => {
    window.copied = [];
    Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => void window.copied.push(text) } });
  });
  for (const [target, line] of [
    ["mongosh", 'db.getSiblingDB("test").getCollection("cars").aggregate(['],
    ["Python", 'client["test"]["cars"].aggregate(['],
    ["Node", 'client.db("test").collection("cars")'],
    ["curl", "/_diwan/command/test"],
  ]) {
    await press(tab, "Copy as");
    await press(tab, target);
    await seeText(tab, `Copied as ${target}.`);
    assert.ok((await tab.evaluate(() => window.copied.at(-1))).includes(line), target);
  }
  await tab.end();
});

test("a Mango selector and a temporary view run", async () => {
  const tab = await openTab(browser, "#/db/cars/query?kind=selector");
  await writeEditor(tab, "Mango selector", '{ "selector": { "year": 1999 }, "fields": ["_id", "maker"], "limit": 250 }');
  await press(tab, "Run");
  await status(tab, "50 results");
  await press(tab, "Explain");
  await seeText(tab, "Documents examined");
  await press(tab, "Temporary view");
  await writeEditor(tab, "Map function", "function (doc) { emit(doc.maker, 1); }");
  await writeEditor(tab, "Reduce function, such as _sum; may be empty", "_sum");
  await press(tab, "Run");
  await status(tab, "4 results");
  await seeText(tab, '"value": 750');
  await checkAccessibility(tab);
  await tab.end();
});

test("fields, operators and stages are completed", async () => {
  const tab = await openTab(browser, "#/db/cars/query?kind=pipeline");
  await writeEditor(tab, "Pipeline", "[{ $sor");
  const options = async () => {
    const items = await waitInEditors(tab, ".cm-tooltip-autocomplete li");
    return Promise.all(items.map((item) => item.evaluate((node) => node.innerText)));
  };
  await tab.keyboard.type("t");
  assert.ok((await options()).some((text) => text.startsWith("$sortByCount")));
  await writeEditor(tab, "Pipeline", "[{ $match: { pric");
  await tab.keyboard.type("e");
  assert.ok((await options()).some((text) => text.startsWith("price.net")));
  await tab.end();
});

test("queries are kept in the history, saved as documents, and deleted", async () => {
  const tab = await openTab(browser, `#/db/cars/query?filter=${encodeURIComponent("{ n: 5 }")}`);
  await press(tab, "Run");
  await status(tab, "1 result");
  await press(tab, "Saved queries");
  await press(tab, "Save this query…");
  await fill(tab, "Name", "The fifth");
  await press(tab, "Save");
  await seeText(tab, "Saved as The fifth.");
  const { docs } = await request("POST", "/diwan%2Fqueries/_find", { selector: { type: "query" } });
  assert.deepEqual([docs.length, docs[0].name, docs[0].db, docs[0].text], [1, "The fifth", "cars", "{ n: 5 }"]);
  await writeEditor(tab, "Filter", "{ n: 6 }");
  await press(tab, "Run");
  await status(tab, "1 result");
  await press(tab, "History");
  await tab.waitForSelector(".query-line");
  assert.equal((await tab.$$(".query-line")).length, 2);
  await checkAccessibility(tab);
  await press(tab, "Close");
  await press(tab, "Saved queries");
  await tab.waitForSelector(".query-line");
  await tab.click(".query-line");
  await seeEditor(tab, "Filter", "{ n: 5 }");
  await press(tab, "Saved queries");
  await press(tab, "Delete The fifth");
  await seeText(tab, "None yet.");
  await tab.end();
});

test("a schema has types, frequent values and distributions", async () => {
  const tab = await openTab(browser, "#/db/cars/schema");
  await seeText(tab, "price.net");
  await seeText(tab, "Citroën");
  await checkAccessibility(tab);
  await picture(tab, "schema");
  await press(tab, "Volvo");
  await seeEditor(tab, "Filter", '{"maker":"Volvo"}');
  await tab.end();
});

test("an index is created, hidden and deleted", async () => {
  const tab = await openTab(browser, "#/db/cars/indexes");
  await press(tab, "New index");
  await fill(tab, "Field 1", "price.net");
  await press(tab, "Add a field");
  await fill(tab, "Field 2", "n");
  await tab.select('select[aria-label="Order of field 2"]', "-1");
  await fill(tab, "Only documents that match", "{ year: { $gt: 1990 } }");
  await checkAccessibility(tab);
  await press(tab, "Create");
  await seeText(tab, "price.net_1_n_-1");
  await seeText(tab, "partialFilterExpression");
  await seeText(tab, "never");
  await picture(tab, "indexes");
  await press(tab, "Hide price.net_1_n_-1");
  await seeText(tab, "hidden");
  await press(tab, "Delete price.net_1_n_-1");
  await press(tab, "Delete", { within: "dialog" });
  await seeText(tab, "is deleted.");
  const { cursor } = await request("POST", "/_diwan/command/test", { listIndexes: "cars" });
  assert.ok(!cursor.firstBatch.some(({ name }) => name === "price.net_1_n_-1"));
  await goTo(tab, "#/db/cars/query");
  await tab.end();
});
