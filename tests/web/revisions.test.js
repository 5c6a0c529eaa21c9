// Revisions and conflicts.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkAccessibility, makeDatabase, openTab, picture, press, request, seeText, startBrowser } from "./browser.js";

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
