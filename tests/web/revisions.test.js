// Revisions and conflicts.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkAccessibility, goTo, makeDatabase, openTab, picture, press, request, seeText, startBrowser } from "./browser.js";

const PASSWORD = "a long password";

let browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser.close());

const hash = (digit) => digit.repeat(32);

/** Stores a replicated revision: `digits` are its own and its ancestors', the newest first. */
async function graft(db, id, start, digits, fields = {}) {
  const doc = { _id: id, _revisions: { start, ids: [...digits].map(hash) }, ...fields };
  assert.equal((await request("POST", `/${db}/_bulk_docs`, { new_edits: false, docs: [doc] })).status, 201);
}

test("the tree of a document is a picture, and two leaves become one field by field", async () => {
  await makeDatabase("notes");
  await graft("notes", "trip", 1, "a", { title: "Trip", days: 3 });
  await graft("notes", "trip", 2, "ba", { title: "Trip to Rome", days: 3, by: "train" });
  await graft("notes", "trip", 2, "ca", { title: "Trip", days: 5 });
  const tab = await openTab(browser, "#/db/notes/conflicts");
  await seeText(tab, "1 document has conflicts.");
  await checkAccessibility(tab);
  await picture(tab, "conflicts");
  await press(tab, "Resolve trip");
  await tab.waitForFunction(() => document.querySelectorAll(".revision-node").length === 3);
  await seeText(tab, "2 revisions are in conflict.");
  await checkAccessibility(tab);
  await picture(tab, "revisions");
  await press(tab, "Revision 1-aaaaa");
  await seeText(tab, "fields differ.");
  await press(tab, "Revision 2-bbbbb, in conflict");
  await press(tab, "title: take right");
  await press(tab, "days: take left");
  await press(tab, "by: take another value");
  await tab.type('textarea[aria-label="Value of by"]', "");
  await tab.$eval('textarea[aria-label="Value of by"]', (area) => {
    area.value = '"bus"';
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await press(tab, "Save the merged document");
  await seeText(tab, "No conflict.");
  const doc = await request("GET", "/notes/trip?conflicts=true");
  assert.deepEqual([doc.title, doc.days, doc.by, doc._conflicts], ["Trip to Rome", 5, "bus", undefined]);
  await tab.end();
});

test("one of two leaves is kept as it is", async () => {
  await makeDatabase("kept");
  await graft("kept", "x", 1, "a", { n: 1 });
  await graft("kept", "x", 1, "b", { n: 2 });
  const tab = await openTab(browser, "#/db/kept/revisions/x", { dark: true });
  await press(tab, "As text");
  await seeText(tab, '"n": 1');
  await picture(tab, "revisions-text");
  await press(tab, "Keep right");
  await press(tab, "Keep it");
  await seeText(tab, "No conflict.");
  assert.equal((await request("GET", "/kept/x")).n, 1);
  await tab.end();
});

test("a deleted document shows its tree, and a long branch is drawn short", async () => {
  await makeDatabase("long");
  let rev;
  for (let n = 0; n < 30; n++) rev = (await request("PUT", "/long/a", { _rev: rev, n })).rev;
  await request("DELETE", `/long/a?rev=${rev}`);
  const tab = await openTab(browser, "#/db/long/revisions/a");
  await seeText(tab, "The document is deleted.");
  const nodes = await tab.$$eval(".revision-node", (all) => all.length);
  assert.ok(nodes >= 3 && nodes < 10, `${nodes} nodes`);
  await tab.end();
});

/** A document with three leaves. Its winner is `3-ddd…`. */
async function makeThree(db) {
  await makeDatabase(db);
  await graft(db, "x", 3, "d1a", { n: 1 });
  await graft(db, "x", 2, "ba", { n: 2 });
  await graft(db, "x", 2, "ca", { n: 3 });
}

test("of three leaves two become one, on the branch of the winner, and the third one stays", async () => {
  await makeThree("three");
  const [winner, other] = [`3-${hash("d")}`, `2-${hash("b")}`];
  const tab = await openTab(browser, `#/db/three/revisions/x?left=${other}&right=${winner}`);
  await seeText(tab, "3 revisions are in conflict.");
  await press(tab, "n: take left");
  await checkAccessibility(tab);
  await picture(tab, "revisions-three");
  await press(tab, "Save the merged document");
  await seeText(tab, "2 revisions are still in conflict.");
  await seeText(tab, "2 revisions are in conflict.");
  const doc = await request("GET", "/three/x?conflicts=true&revs=true");
  assert.deepEqual([doc.n, doc._revisions.ids[1], doc._conflicts], [2, hash("d"), [`2-${hash("c")}`]]);
  await tab.end();
});

test("of three leaves all but the merged one are deleted if that is asked for", async () => {
  await makeThree("ended");
  const tab = await openTab(browser, "#/db/ended/revisions/x");
  await press(tab, "n: take right");
  await press(tab, "Also delete the other revision in conflict, without merging");
  await press(tab, "Save the merged document");
  await seeText(tab, "No conflict.");
  const doc = await request("GET", "/ended/x?conflicts=true");
  assert.deepEqual([doc.n, doc._conflicts], [3, undefined]);
  await tab.end();
});

test("the address names both revisions, and a merge is not lost by choosing another", async () => {
  await makeThree("guarded");
  const tab = await openTab(browser, "#/db/guarded/revisions/x");
  await press(tab, "n: take left");
  await press(tab, "Revision 2-bbbbb, in conflict");
  await seeText(tab, "Leave without saving?");
  await press(tab, "Cancel", { within: "dialog" });
  await seeText(tab, "All fields are decided.");
  await press(tab, "Revision 2-bbbbb, in conflict");
  await press(tab, "Leave and lose them");
  await seeText(tab, "1 field has no choice yet.");
  assert.ok(tab.url().endsWith(`?left=3-${hash("d")}&right=2-${hash("b")}`), tab.url());
  await tab.reload();
  await tab.waitForFunction((rev) => [...document.querySelectorAll(".revisions select")].at(-1)?.value === rev, {}, `2-${hash("b")}`);
  await tab.end();
});

test("a merge of what somebody else has changed meanwhile overwrites nothing", async () => {
  await makeThree("raced");
  const tab = await openTab(browser, "#/db/raced/revisions/x");
  tab.expectErrors(/status of 409/);
  await press(tab, "n: take right");
  assert.equal((await request("PUT", "/raced/x", { _rev: `3-${hash("d")}`, n: 9 })).status, 201);
  await press(tab, "Save the merged document");
  await seeText(tab, "Somebody else has changed the document meanwhile.");
  await tab.waitForSelector('[aria-label^="Revision 4-"]');
  const doc = await request("GET", "/raced/x?conflicts=true");
  assert.deepEqual([doc.n, doc._conflicts.length], [9, 2]);
  await tab.end();
});

test("many conflicts are listed in steps, and a failed step goes on where it was", async () => {
  await makeDatabase("many");
  const leaf = (n, digit) => ({ _id: `m${String(n).padStart(3, "0")}`, _revisions: { start: 1, ids: [hash(digit)] } });
  const docs = Array.from({ length: 250 }, (_, n) => [leaf(n, "a"), leaf(n, "b")]).flat();
  assert.equal((await request("POST", "/many/_bulk_docs", { new_edits: false, docs })).status, 201);
  const tab = await openTab(browser, "#/db/many/conflicts");
  tab.expectErrors(/status of 500/);
  await seeText(tab, "200 documents have conflicts so far.");
  let failures = 1;
  await tab.setRequestInterception(true);
  tab.on("request", (asked) => {
    if (asked.url().includes("/_diwan/conflicts/") && failures-- > 0) asked.respond({ status: 500, contentType: "application/json", body: '{"error":"broken","reason":"on purpose"}' });
    else asked.continue();
  });
  await press(tab, "Look for more");
  await seeText(tab, "on purpose");
  await press(tab, "Try again");
  await seeText(tab, "250 documents have conflicts.");
  const ids = await tab.$$eval("tbody tr td:first-child", (cells) => cells.map((cell) => cell.innerText));
  assert.deepEqual([ids.length, new Set(ids).size], [250, 250]);
  await tab.end();
});

test("hostile ids, fields and values are texts", async () => {
  const evil = '<img src=x onerror="window.hacked=1">/a?b#c';
  await makeDatabase("evil");
  await graft("evil", evil, 1, "a", { [evil]: "javascript:window.hacked=1" });
  await graft("evil", evil, 1, "b", { [evil]: evil });
  const tab = await openTab(browser, "#/db/evil/conflicts");
  await press(tab, `Resolve ${evil}`);
  await seeText(tab, "javascript:window.hacked=1");
  await press(tab, `${evil}: take left`);
  await press(tab, "Save the merged document");
  await seeText(tab, "No conflict.");
  assert.equal((await request("GET", `/evil/${encodeURIComponent(evil)}`))[evil], evil);
  await checkAccessibility(tab);
  assert.equal(await tab.evaluate(() => window.hacked), undefined);
  assert.equal(await tab.$('img[src="x"], a[href^="javascript:"]'), null);
  await tab.end();
});

// This test comes last: the first user closes the server.
test("a user who may only read compares revisions, and is offered no change", async () => {
  await makeThree("closed");
  await request("POST", "/_diwan/command/admin", { createUser: "ada", pwd: PASSWORD, roles: ["root"] });
  const authorization = `Basic ${Buffer.from(`ada:${PASSWORD}`).toString("base64")}`;
  const reader = { createUser: "rea", pwd: PASSWORD, roles: [{ role: "read", db: "test" }] };
  assert.equal((await request("POST", "/_diwan/command/admin", reader, { authorization })).status, 200);
  const tab = await openTab(browser, "#/db/closed/conflicts", { user: "rea", password: PASSWORD });
  await seeText(tab, "1 document has conflicts.");
  await goTo(tab, "#/db/closed/revisions/x");
  await seeText(tab, "1 of 1 fields differ.");
  const offered = await tab.$$eval("main button, main input", (all) => all.map((control) => control.innerText || control.getAttribute("aria-label")));
  for (const name of ["Keep left", "Keep right", "Save the merged document", "n: take left"]) assert.ok(!offered.includes(name), `${name} is offered`);
  await checkAccessibility(tab);
  await tab.end();
});
