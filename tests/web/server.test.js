// Running the server: slow queries, operations, settings, users, rights, audit. The tests build on each other: the first
// user closes the server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkAccessibility, fill, goTo, makeDatabase, openTab, picture, press, request, seeEditor, seeText, signIn, startBrowser, writeEditor } from "./browser.js";

const PASSWORD = "a long password";

let browser;
before(async () => {
  browser = await startBrowser();
  await makeDatabase("cars", Array.from({ length: 3000 }, (_, n) => ({ _id: `car:${n}`, n, year: 1950 + (n % 60) })));
  await makeDatabase("secret", [{ _id: "s" }]);
});
after(() => browser.close());

const LATER = [{ $lookup: { from: "cars", let: { n: "$n" }, pipeline: [{ $match: { $expr: { $gt: ["$n", "$$n"] } } }], as: "later" } }, { $group: { _id: null, n: { $sum: { $size: "$later" } } } }];

test("slow queries are grouped by shape and lead to their plan", async () => {
  const tab = await openTab(browser, "#/server/slow");
  await fill(tab, "Slow from, in milliseconds", "0");
  await press(tab, "Save");
  await seeText(tab, "Operations of 0 ms and more");
  for (const year of [1960, 1961, 1962]) await request("POST", "/_diwan/command/test", { find: "cars", filter: { year }, batchSize: 1000 });
  await press(tab, "Load again");
  await seeText(tab, '"year": "?"');
  await seeText(tab, "9,000");
  await checkAccessibility(tab);
  await picture(tab, "slow");
  const href = await tab.$eval('section[aria-label="find on test.cars"] a.button', (link) => link.getAttribute("href"));
  await goTo(tab, href);
  await seeEditor(tab, "Filter", '{"year":1962}');
  await press(tab, "Explain");
  await seeText(tab, "{ year: 1 }");
  await goTo(tab, "#/server/slow");
  await fill(tab, "Slow from, in milliseconds", "1000");
  await press(tab, "Save");
  await press(tab, "Forget all");
  await seeText(tab, "No slow operations");
  await tab.end();
});

test("an operation is seen and ended", async () => {
  const tab = await openTab(browser, "#/server/operations");
  await seeText(tab, "Nothing runs now");
  const running = request("POST", "/_diwan/command/test", { aggregate: "cars", pipeline: LATER, cursor: {} });
  await seeText(tab, "test.cars");
  await checkAccessibility(tab);
  await picture(tab, "operations");
  await tab.evaluate(() => [...document.querySelectorAll("tr")].find((row) => row.innerText.includes("test.cars")).querySelector("button").click());
  await press(tab, "End it");
  const reply = await running;
  assert.equal(reply.code, 11601, JSON.stringify(reply));
  await tab.end();
});

test("a setting is changed, takes effect, and has its default again", async () => {
  const tab = await openTab(browser, "#/server/settings", { dark: true });
  await fill(tab, "Find", "max_document_size");
  await press(tab, "Edit couchdb/max_document_size");
  await fill(tab, "Value", "1000");
  await press(tab, "Save");
  await seeText(tab, "couchdb/max_document_size is set.");
  assert.equal((await request("PUT", "/cars/large", { text: "x".repeat(2000) })).status, 413);
  await picture(tab, "settings");
  await checkAccessibility(tab);
  await press(tab, "Edit couchdb/max_document_size");
  await press(tab, "Use the default");
  await seeText(tab, "has its default again.");
  assert.equal((await request("PUT", "/cars/large", { text: "x".repeat(2000) })).status, 201);
  await tab.end();
});

test("the first user closes the server, and makes a role and a user of few rights", async () => {
  const tab = await openTab(browser, "#/server/users");
  tab.expectErrors(/status of 401/);
  await seeText(tab, "The server has no users");
  await picture(tab, "no-users");
  await press(tab, "New user");
  await fill(tab, "Name", "ada");
  await fill(tab, "Password", PASSWORD);
  await checkAccessibility(tab);
  await press(tab, "Create");
  await signIn(tab, "ada", PASSWORD);
  await seeText(tab, "root on admin");
  await press(tab, "New role");
  await fill(tab, "Name", "planner");
  await writeEditor(tab, "Privileges", '[{ resource: { db: "test", collection: "cars" }, actions: ["find", "listIndexes"] }]');
  await press(tab, "Create");
  await seeText(tab, "The role planner is there.");
  await press(tab, "New user");
  await fill(tab, "Name", "bob");
  await fill(tab, "Password", PASSWORD);
  await tab.select('select[aria-label="Role"]', "planner");
  await press(tab, "Add the role");
  await press(tab, "Create");
  await seeText(tab, "planner on admin");
  await checkAccessibility(tab);
  await picture(tab, "users");
  await tab.end();
});

test("a user of few rights is offered what he may do", async () => {
  const tab = await openTab(browser, "#/", { user: "bob", password: PASSWORD });
  await seeText(tab, "cars");
  const side = await tab.$eval(".side", (nav) => nav.innerText);
  assert.ok(!side.includes("secret"), side);
  for (const page of ["Slow queries", "Replication", "Settings", "Audit"]) assert.ok(!side.includes(page), `${page} is offered`);
  await goTo(tab, "#/db/cars/documents");
  await seeText(tab, "car:0");
  assert.ok(!(await tab.evaluate(() => document.body.innerText)).includes("New document"));
  await goTo(tab, "#/db/cars/doc/car%3A1");
  await seeText(tab, "You may read this document, but not change it.");
  await goTo(tab, `#/db/cars/query?filter=${encodeURIComponent("{ year: 1999, n: { $gt: 5 } }")}`);
  await press(tab, "Explain");
  await seeText(tab, "{ year: 1, n: 1 }");
  assert.ok(!(await tab.evaluate(() => document.body.innerText)).includes("Create this index"));
  for (const page of ["schema", "indexes", "changes", "conflicts", "design", "settings"]) {
    await goTo(tab, `#/db/cars/${page}`);
    await tab.waitForFunction(() => !document.body.innerText.includes("Loading…"));
    const text = await tab.evaluate(() => document.body.innerText);
    assert.ok(!text.includes("Unauthorized") && !text.includes("forbidden"), `${page}: ${text}`);
  }
  for (const page of ["overview", "operations", "users", "connect"]) {
    await goTo(tab, `#/server/${page}`);
    await tab.waitForFunction(() => !document.body.innerText.includes("Loading…"));
    const text = await tab.evaluate(() => document.body.innerText);
    assert.ok(!text.includes("Unauthorized") && !text.includes("(403)"), `${page}: ${text}`);
  }
  await tab.end();
});

test("a session that ends in the middle of an edit asks to sign in, and the text is saved", async () => {
  const tab = await openTab(browser, "#/db/secret/doc/s", { user: "ada", password: PASSWORD });
  tab.expectErrors(/status of 401/);
  await writeEditor(tab, "Document as JSON", '{ "kept": true }');
  const cookies = await tab.browserContext().cookies();
  await tab.browserContext().deleteCookie(...cookies);
  await press(tab, "Review and save");
  await press(tab, "Save", { within: "dialog" });
  await signIn(tab, "ada", PASSWORD);
  await seeText(tab, "Saved.");
  const session = Buffer.from(`ada:${PASSWORD}`).toString("base64");
  assert.equal((await request("GET", "/secret/s", undefined, { authorization: `Basic ${session}` })).kept, true);
  await tab.end();
});

test("a wrong password says so, and the audit page has it", async () => {
  const tab = await openTab(browser, "#/server/audit");
  tab.expectErrors(/status of 401/);
  await tab.waitForSelector('input[name="username"]');
  await checkAccessibility(tab);
  await picture(tab, "sign-in");
  await tab.type('input[name="username"]', "ada");
  await tab.type('input[name="password"]', "wrong");
  await tab.click("dialog button.primary");
  await seeText(tab, "Name or password is incorrect.");
  await tab.$eval('input[name="username"]', (input) => input.select());
  await tab.type('input[name="username"]', "ada");
  await tab.$eval('input[name="password"]', (input) => input.select());
  await tab.type('input[name="password"]', PASSWORD);
  await tab.click("dialog button.primary");
  await seeText(tab, "bob");
  await tab.waitForFunction(() => [...document.querySelectorAll("td:nth-child(3)")].some((cell) => cell.innerText === "ada"));
  await checkAccessibility(tab);
  await picture(tab, "audit");
  await tab.end();
});

test("signing out forgets the queries of the browser", async () => {
  const tab = await openTab(browser, "#/db/cars/query", { user: "ada", password: PASSWORD });
  tab.expectErrors(/status of 401/);
  await press(tab, "Run");
  await seeText(tab, "There are more.");
  const kept = () => tab.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith("diwan.history.")));
  assert.deepEqual(await kept(), ["diwan.history.cars"]);
  await press(tab, "Signed in as ada");
  await Promise.all([tab.waitForNavigation(), press(tab, "Sign out")]);
  await tab.waitForSelector('input[name="username"]');
  assert.deepEqual(await kept(), []);
  await tab.end();
});

test("one changes one's own password", async () => {
  const tab = await openTab(browser, "#/server/users", { user: "bob", password: PASSWORD });
  await tab.waitForSelector("details summary");
  await tab.click("details summary");
  await fill(tab, "New password", "another long one");
  await fill(tab, "The same again", "another long one");
  await press(tab, "Change the password");
  await seeText(tab, "Your password is changed.");
  await tab.end();
  const other = await openTab(browser, "#/", { user: "bob", password: "another long one" });
  await seeText(other, "cars");
  await other.end();
});
