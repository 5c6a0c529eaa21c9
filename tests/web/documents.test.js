// Documents: lists, editing, bulk work, import and export, attachments, hostile contents.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { checkAccessibility, fill, goTo, makeDatabase, openTab, picture, press, request, seeEditor, seeText, server, startBrowser, writeEditor } from "./browser.js";

const MANY = 100_000;

let browser;
before(async () => {
  browser = await startBrowser();
  await makeDatabase(
    "many",
    Array.from({ length: MANY }, (_, n) => ({ _id: `doc:${String(n).padStart(6, "0")}`, n, even: n % 2 === 0 })),
  );
});
after(() => browser.close());

const status = (tab, text) => tab.waitForFunction((wanted) => [...document.querySelectorAll('[role="status"]')].some((node) => node.innerText.includes(wanted)), { timeout: 15_000, polling: 50 }, text);

test("a list of 100,000 documents scrolls to its end without loading them", async () => {
  const tab = await openTab(browser, "#/db/many/documents");
  let bytes = 0;
  tab.on("response", async (response) => {
    if (response.url().includes("_all_docs")) bytes += (await response.buffer().catch(() => "")).length;
  });
  await status(tab, "100,000 documents");
  await seeText(tab, "doc:000000");
  await picture(tab, "documents");
  await tab.$eval(".rows", (rows) => (rows.scrollTop = rows.scrollHeight));
  await seeText(tab, "doc:099999");
  await tab.$eval(".rows", (rows) => (rows.scrollTop = rows.scrollHeight / 2));
  await tab.waitForFunction(() => /doc:0(4|5)\d{4}/.test(document.querySelector(".rows").innerText));
  assert.ok(bytes < 1_000_000, `${bytes} bytes were loaded`);
  await press(tab, "JSON");
  await tab.waitForFunction(() => document.querySelector(".rows").innerText.includes('"even": true'));
  await checkAccessibility(tab);
  await tab.end();
});

test("a list is narrowed by the beginning of an id, and by a filter", async () => {
  const tab = await openTab(browser, "#/db/many/documents");
  await fill(tab, "Find an id", "doc:00012");
  await tab.waitForFunction(() => document.querySelector(".rows")?.innerText.includes("doc:000129") && !document.querySelector(".rows").innerText.includes("doc:000130"));
  await fill(tab, "Find an id", "");
  await fill(tab, "Filter", "{ n: { $lt: 30 }, even: false }");
  await tab.keyboard.press("Enter");
  await status(tab, "15 documents found");
  await tab.end();
});

test("a document is created, edited with a look at the changes, duplicated and deleted", async () => {
  await makeDatabase("cars");
  const tab = await openTab(browser, "#/db/cars/documents");
  await press(tab, "New document");
  await fill(tab, "Id", "2cv");
  await writeEditor(tab, "Document as JSON", '{ "maker": "Citroën", "year": 1948, "weight": 600.0 }');
  await press(tab, "Create");
  await press(tab, "Save", { within: "dialog" });
  await seeText(tab, "Saved.");
  assert.equal((await request("GET", "/cars/2cv")).maker, "Citroën");
  await writeEditor(tab, "Document as JSON", '{ "maker": "Citroën", "year": 1949, "weight": 600.0 }');
  await press(tab, "Review and save");
  await seeText(tab, '"year": 1949');
  await checkAccessibility(tab);
  await picture(tab, "document-diff");
  await press(tab, "Save", { within: "dialog" });
  await tab.waitForFunction(() => !document.querySelector("dialog"));
  const text = await (await fetch(`${server}/cars/2cv`)).text();
  assert.match(text, /"year":1949,"weight":600\.0/);
  await press(tab, "Duplicate");
  await seeText(tab, "Duplicate of 2cv");
  await fill(tab, "Id", "2cv-copy");
  await press(tab, "Create");
  await press(tab, "Save", { within: "dialog" });
  await tab.waitForFunction(() => location.hash.includes("2cv-copy"));
  await press(tab, "Delete");
  await press(tab, "Delete", { within: "dialog" });
  await tab.waitForFunction(() => location.hash.endsWith("/documents"));
  assert.equal((await request("GET", "/cars/2cv-copy")).status, 404);
  await tab.end();
});

test("two tabs that edit one document lose nothing", async () => {
  await makeDatabase("pairs", [{ _id: "a", left: 1, right: 1 }]);
  const [one, two] = [await openTab(browser, "#/db/pairs/doc/a"), await openTab(browser, "#/db/pairs/doc/a")];
  two.expectErrors(/status of 409/);
  for (const [tab, text] of [
    [one, '{ "left": 2, "right": 1 }'],
    [two, '{ "left": 1, "right": 2 }'],
  ]) {
    await writeEditor(tab, "Document as JSON", text);
  }
  await press(one, "Review and save");
  await press(one, "Save", { within: "dialog" });
  await seeText(one, "Saved.");
  await press(two, "Review and save");
  await press(two, "Save", { within: "dialog" });
  await two.waitForSelector('section[aria-label="Two versions of the document"]');
  await checkAccessibility(two);
  await two.evaluate(() => [...document.querySelectorAll('section[aria-label="Two versions of the document"] button')].find((button) => /merge|use|take/i.test(button.innerText)).click());
  await press(two, "Save", { within: "dialog" });
  await two.waitForFunction(() => !document.querySelector("dialog"));
  const { left, right } = await request("GET", "/pairs/a");
  assert.deepEqual([left, right], [2, 2]);
  await one.end();
  await two.end();
});

test("unsaved text is kept when the page is left by accident", async () => {
  await makeDatabase("kept", [{ _id: "a", n: 1 }]);
  const tab = await openTab(browser, "#/db/kept/doc/a");
  await writeEditor(tab, "Document as JSON", '{ "n": 2 }');
  await goTo(tab, "#/db/kept/documents");
  await seeText(tab, "Leave without saving?");
  await press(tab, "Cancel", { within: "dialog" });
  await seeEditor(tab, "Document as JSON", '{ "n": 2 }');
  await tab.end();
});

test("documents are edited and deleted in bulk, with a count first", async () => {
  await makeDatabase("bulk", Array.from({ length: 1500 }, (_, n) => ({ _id: `d${n}`, n })));
  const tab = await openTab(browser, `#/db/bulk/documents?filter=${encodeURIComponent("{ n: { $lt: 1200 } }")}`);
  await status(tab, "1,200 documents found");
  await press(tab, "More actions");
  await press(tab, "Edit all that match…");
  await seeText(tab, "1,200 documents");
  await writeEditor(tab, "Update", "{ $set: { checked: true } }");
  await checkAccessibility(tab);
  await press(tab, "Edit 1,200 documents");
  await seeText(tab, "Edited 1,200");
  await press(tab, "Close");
  const counted = async (query) => (await request("POST", "/_diwan/command/test", { count: "bulk", query })).n;
  assert.equal(await counted({ checked: true }), 1200);
  await press(tab, "More actions");
  await press(tab, "Delete all that match…");
  await fill(tab, "Type 1200 to confirm", "1200");
  await press(tab, "Delete 1,200 documents");
  await seeText(tab, "Deleted 1,200");
  assert.equal(await counted({}), 300);
  await tab.end();
});

test("files are imported and exported", async () => {
  await makeDatabase("files");
  const directory = mkdtempSync(join(tmpdir(), "diwan-files-"));
  const write = (name, text) => (writeFileSync(join(directory, name), text), join(directory, name));
  const tab = await openTab(browser, "#/db/files/documents");
  const load = async (file, expected) => {
    await press(tab, "More actions");
    await press(tab, "Import…");
    await (await tab.waitForSelector('input[type="file"]')).uploadFile(file);
    await press(tab, "Import", { within: "dialog" });
    await seeText(tab, expected);
    await press(tab, "Close");
  };
  await load(write("a.json", '[{ "_id": "1", "n": 1 }, { "_id": "2", "n": { "$numberLong": "9007199254740993" } }]'), "2 imported.");
  await load(write("b.ndjson", '{ "_id": "3", "n": 3.0 }\n{ "_id": "4" }\n'), "2 imported.");
  await load(write("c.csv", "_id,name,age\n5,Ada,36\n6,Grace,85\n"), "2 imported.");
  assert.match(await (await fetch(`${server}/files/2`)).text(), /9007199254740993/);
  assert.equal((await request("GET", "/files/5")).age, 36);
  const client = await tab.createCDPSession();
  await client.send("Page.setDownloadBehavior", { behavior: "allow", downloadPath: directory });
  await tab.evaluate(() => {
    delete window.showSaveFilePicker;
  });
  await press(tab, "More actions");
  await press(tab, "Export…");
  await checkAccessibility(tab);
  await press(tab, "Export 6");
  await seeText(tab, "6 documents exported.");
  let name;
  for (let turn = 0; turn < 100 && !name; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    name = readdirSync(directory).find((each) => each.startsWith("files."));
  }
  assert.match(readFileSync(join(directory, name), "utf8"), /9007199254740993/);
  await tab.end();
});

test("attachments are uploaded, previewed and deleted, and their scripts never run", async () => {
  await makeDatabase("attached", [{ _id: "a" }]);
  const directory = mkdtempSync(join(tmpdir(), "diwan-attached-"));
  const evil = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>parent.hacked = top.hacked = 1</script></svg>';
  writeFileSync(join(directory, "picture.svg"), evil);
  writeFileSync(join(directory, "page.html"), "<script>parent.hacked = top.hacked = 1</script><h1>page</h1>");
  const tab = await openTab(browser, "#/db/attached/doc/a?view=attachments");
  await (await tab.waitForSelector('input[type="file"]')).uploadFile(join(directory, "picture.svg"), join(directory, "page.html"));
  await press(tab, "Preview page.html");
  await seeText(tab, "<h1>page</h1>");
  await press(tab, "Preview picture.svg");
  await tab.waitForSelector('section[aria-label="Preview of picture.svg"] :is(img, pre)');
  await checkAccessibility(tab);
  await picture(tab, "attachments");
  assert.equal(await tab.evaluate(() => window.hacked), undefined);
  const answer = await fetch(`${server}/attached/a/page.html`);
  assert.match(answer.headers.get("content-security-policy"), /sandbox/);
  await press(tab, "Delete page.html");
  await press(tab, "Delete", { within: "dialog" });
  await tab.waitForFunction(() => !document.querySelector(".attachments").innerText.includes("page.html"));
  await tab.end();
});

test("links between documents are followed", async () => {
  await makeDatabase("linked", [
    { _id: "book", author: { $ref: "linked", $id: "person" } },
    { _id: "person", name: "Ada" },
  ]);
  const tab = await openTab(browser, "#/db/linked/doc/book?view=tree");
  await press(tab, "Go to the document that author names");
  await tab.waitForFunction(() => location.hash.includes("doc/person"));
  await tab.end();
});

test("ids of every type and hostile names are texts", async () => {
  const evil = '<img src=x onerror="window.hacked=1">';
  await makeDatabase("hostile", [
    { _id: evil, [evil]: evil, "javascript:window.hacked=1": "javascript:window.hacked=1", link: { $ref: evil, $id: evil } },
    { _id: "~x/../y?z#%", constructor: { prototype: 1 } },
    { _id: "with space\u2028", v: "\u202etext" },
  ]);
  for (const id of [{ $oid: "0123456789abcdef01234567" }, 7, 1.5, true, { a: 1 }, { $date: "2020-01-01T00:00:00Z" }, null, ""]) {
    const reply = await request("POST", "/_diwan/command/test", { insert: "hostile", documents: [{ _id: id, typed: true }] });
    assert.equal(reply.n, 1, JSON.stringify(id));
  }
  const tab = await openTab(browser, "#/db/hostile/documents");
  await status(tab, "11 documents");
  const links = await tab.$$eval(".rows-row a.mono", (all) => all.map((link) => link.getAttribute("href")));
  assert.equal(links.length, 11);
  for (const href of links) {
    for (const view of ["", "?view=tree", "?view=extended"]) {
      await goTo(tab, href + view);
      await tab.waitForFunction((wanted) => location.hash === wanted && document.querySelector(".document-head"), {}, href + view);
      await tab.waitForFunction(() => !document.body.innerText.includes("Loading…"));
      assert.ok(!(await tab.evaluate(() => document.body.innerText)).includes("There is no document"), href);
    }
  }
  for (const page of ["schema", "query?filter=%7B%7D", "changes?since=0", "conflicts", "indexes"]) {
    await goTo(tab, `#/db/hostile/${page}`);
    await tab.waitForFunction(() => !document.body.innerText.includes("Loading…"));
  }
  assert.equal(await tab.evaluate(() => window.hacked), undefined);
  await tab.end();
});

test("a document of 16 MB is shown in part and kept whole", async () => {
  await makeDatabase("large");
  const text = "x".repeat(15_900_000);
  assert.equal((await request("PUT", "/large/big", { text, last: 1 })).status, 201);
  const tab = await openTab(browser, "#/db/large/documents");
  await seeText(tab, "too long for the list");
  await goTo(tab, "#/db/large/doc/big");
  await seeText(tab, "it is always saved whole", { timeout: 20_000 });
  await tab.end();
});
