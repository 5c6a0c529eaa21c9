// Design documents: functions, trials, rows, errors at their lines, rights.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkAccessibility, fill, goTo, makeDatabase, openTab, picture, press, readEditor, request, seeText, startBrowser, waitInEditors, writeEditor } from "./browser.js";

const PASSWORD = "a long password";

let browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser.close());

test("a design document is made, tried with errors at the line, saved and read", async () => {
  await makeDatabase(
    "books",
    Array.from({ length: 40 }, (_, n) => ({ _id: `b${String(n).padStart(2, "0")}`, tags: n === 7 ? null : [`t${n % 3}`] })),
  );
  const tab = await openTab(browser, "#/db/books/design");
  await press(tab, "New design document");
  await fill(tab, "Name of the design document", "tags");
  await fill(tab, "Name of its first view", "by_tag");
  await press(tab, "Create");
  await writeEditor(tab, "Map function", "function (doc) {\n  doc.tags.forEach(function (tag) {\n    emit(tag, 1);\n  });\n}");
  await press(tab, "_sum");
  await press(tab, "Try it");
  await seeText(tab, "The function fails on 1 of them.");
  await seeText(tab, "Line 2: TypeError");
  await seeText(tab, "All rows reduced: 39");
  const [marker] = await waitInEditors(tab, ".cm-lint-marker-error");
  assert.ok(marker);
  await checkAccessibility(tab);
  await picture(tab, "design");
  await fill(tab, "Document to try", "b07");
  await press(tab, "Try it");
  await seeText(tab, "1 document emits 0 rows.");
  await press(tab, "Save");
  await seeText(tab, "Saved.");
  await press(tab, "Rows of the view");
  await press(tab, "Grouped by key");
  await seeText(tab, '"t2"');
  const { rows } = await request("GET", "/books/_design/tags/_view/by_tag?group=true");
  assert.deepEqual(rows.map(({ value }) => value), [14, 12, 13]);
  await seeText(tab, "up to date");
  await tab.end();
});

test("functions of every kind are added and removed, and errors of syntax are told", async () => {
  await makeDatabase("functions");
  assert.equal((await request("PUT", "/functions/_design/all", { views: { a: { map: "function (doc) { emit(1); }" } } })).status, 201);
  const tab = await openTab(browser, "#/db/functions/design/all");
  await press(tab, "Add a function");
  await tab.select("dialog select", "validate_doc_update");
  await press(tab, "Add");
  await writeEditor(tab, "Function", "function (doc) {\n  return tru e;\n}");
  await press(tab, "Check the syntax");
  await seeText(tab, "Line 2: SyntaxError");
  assert.equal((await waitInEditors(tab, ".cm-lint-marker-error")).length, 1);
  await writeEditor(tab, "Function", 'function (doc) { if (!doc.type) throw { forbidden: "no type" }; }');
  await press(tab, "Check the syntax");
  await seeText(tab, "The syntax is right.");
  await checkAccessibility(tab);
  await press(tab, "Save");
  await seeText(tab, "Saved.");
  assert.equal((await request("PUT", "/functions/x", {})).status, 403);
  await press(tab, "Remove views/a");
  await press(tab, "Remove", { within: "dialog" });
  await press(tab, "Save");
  await tab.waitForFunction(() => !document.body.innerText.includes("Remove views/a") && [...document.querySelectorAll("button")].some((button) => button.innerText === "Save" && button.disabled));
  const doc = await request("GET", "/functions/_design/all");
  assert.deepEqual([doc.views, typeof doc.validate_doc_update], [undefined, "string"]);
  await press(tab, "Delete");
  await press(tab, "Delete", { within: "dialog" });
  await seeText(tab, "No design documents");
  await goTo(tab, "#/");
  await tab.end();
});

test("an error stays at its line after a quick trial, until the text changes", async () => {
  await makeDatabase("quick", [{ _id: "a" }]);
  await request("PUT", "/quick/_design/d", { views: { v: { map: "function (doc) { emit(1); }" } } });
  const tab = await openTab(browser, "#/db/quick/design/d");
  await writeEditor(tab, "Map function", "function (doc) {\n  emit(doc.none.x);\n}");
  await tab.keyboard.down("Control");
  await tab.keyboard.press("Enter");
  await tab.keyboard.up("Control");
  await waitInEditors(tab, ".cm-lint-marker-error");
  // The editor looks for problems of its own 300 ms after a change.
  await new Promise((resolve) => setTimeout(resolve, 700));
  const markers = () => tab.$$(".editor >>> .cm-lint-marker-error");
  assert.equal((await markers()).length, 1);
  await writeEditor(tab, "Map function", "function (doc) { emit(doc._id); }");
  await new Promise((resolve) => setTimeout(resolve, 700));
  assert.equal((await markers()).length, 0);
  await tab.end();
});

test("one saves twice, and what somebody else saved is not overwritten", async () => {
  await makeDatabase("twice");
  await request("PUT", "/twice/_design/d", { views: { v: { map: "function (doc) { emit(0); }" } } });
  const map = async () => (await request("GET", "/twice/_design/d")).views.v.map;
  const tab = await openTab(browser, "#/db/twice/design/d");
  tab.expectErrors(/status of 409/);
  const seeMap = async (wanted) => {
    for (let turn = 0; turn < 100 && (await map()) !== wanted; turn++) await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(await map(), wanted);
  };
  for (const n of [1, 2]) {
    await writeEditor(tab, "Map function", `function (doc) { emit(${n}); }`);
    await press(tab, "Save");
    await seeMap(`function (doc) { emit(${n}); }`);
  }
  await writeEditor(tab, "Map function", "function (doc) { emit(3); }");
  const { _rev } = await request("GET", "/twice/_design/d");
  await request("PUT", "/twice/_design/d", { _rev, views: { v: { map: "function (doc) { emit(4); }" } } });
  await press(tab, "Save");
  await seeText(tab, "Somebody else has saved this design document");
  assert.equal(await readEditor(tab, "Map function"), "function (doc) { emit(3); }");
  assert.equal(await map(), "function (doc) { emit(4); }");
  await tab.end();
});

test("an index of Mango is not offered as a function", async () => {
  await makeDatabase("mango");
  await request("POST", "/mango/_index", { index: { fields: ["a"] }, ddoc: "index", name: "by_a" });
  const tab = await openTab(browser, "#/db/mango/design/index");
  await seeText(tab, "No functions");
  assert.equal(await tab.$(".function-list"), null);
  await tab.end();
});

test("hostile names, ids, keys and values are texts", async () => {
  const evil = '<img src=x onerror="window.hacked=1">';
  await makeDatabase("evil", [{ _id: evil, name: "javascript:window.hacked=1" }]);
  const name = encodeURIComponent(evil);
  const views = { [evil]: { map: `function (doc) { emit(${JSON.stringify(evil)}, doc.name); }` } };
  assert.equal((await request("PUT", `/evil/_design/${name}`, { views, filters: { "a/b": "function () { return true; }" } })).status, 201);
  const tab = await openTab(browser, `#/db/evil/design/${name}`);
  await press(tab, "Try it");
  await seeText(tab, "1 document emits 1 row.");
  await seeText(tab, "javascript:window.hacked=1");
  await press(tab, "Rows of the view");
  await seeText(tab, "1 row in the view");
  await seeText(tab, evil);
  await checkAccessibility(tab);
  assert.equal(await tab.evaluate(() => window.hacked), undefined);
  assert.equal(await tab.$('img[src="x"], a[href^="javascript:"]'), null);
  await tab.end();
});

test("a view of 100,000 documents shows how far it is built", async () => {
  assert.equal((await request("POST", "/_diwan/sample", { name: "persons", db: "big", count: 100_000 })).status, 201);
  const map = "function (doc) {\n  for (var n = 0; n < 200; n++) Math.sqrt(n);\n  emit(doc._id, 1);\n}";
  await request("PUT", "/big/_design/d", { views: { v: { map } } });
  const tab = await openTab(browser, "#/db/big/design/d");
  await seeText(tab, "100,001 changes behind");
  await press(tab, "Build now");
  await seeText(tab, "The views are being built");
  await tab.waitForFunction(() => document.querySelector(".index-state progress")?.value > 0);
  await seeText(tab, "up to date", { timeout: 60_000 });
  await press(tab, "Rows of the view");
  await seeText(tab, "100,000 rows in the view");
  await tab.end();
});

// This test comes last: the first user closes the server.
test("a user who may only read sees functions and rows, and is offered no change", async () => {
  await makeDatabase("closed", [{ _id: "a" }]);
  await request("PUT", "/closed/_design/d", { views: { v: { map: "function (doc) { emit(doc._id, null); }" } } });
  await request("POST", "/_diwan/command/admin", { createUser: "ada", pwd: PASSWORD, roles: ["root"] });
  const authorization = `Basic ${Buffer.from(`ada:${PASSWORD}`).toString("base64")}`;
  const reader = { createUser: "rea", pwd: PASSWORD, roles: [{ role: "read", db: "test" }] };
  assert.equal((await request("POST", "/_diwan/command/admin", reader, { authorization })).status, 200);
  const tab = await openTab(browser, "#/db/closed/design/d", { user: "rea", password: PASSWORD });
  await press(tab, "Rows of the view");
  await seeText(tab, "1 row in the view");
  for (const name of ["New design document", "Add a function", "Save", "Delete", "Try it"]) {
    assert.ok(!(await tab.$$eval("button", (all) => all.map((button) => button.innerText))).includes(name), `${name} is offered`);
  }
  // The state of the index is asked for again and again: no request may be refused meanwhile.
  await new Promise((resolve) => setTimeout(resolve, 2500));
  await checkAccessibility(tab);
  await tab.end();
});
