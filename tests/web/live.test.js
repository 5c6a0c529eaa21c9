// What moves: changes, replications, the last hour, a server that goes away.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkAccessibility, fill, goTo, makeDatabase, openTab, picture, press, request, seeText, server, startBrowser } from "./browser.js";

let browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser.close());

test("changes appear as they happen, are paused and filtered", async () => {
  await makeDatabase("feed", [{ _id: "old", type: "a" }]);
  const tab = await openTab(browser, "#/db/feed/changes");
  await seeText(tab, "Listening");
  await tab.waitForFunction(() => document.body.innerText.includes("0 changes"));
  // The feed begins when the server has answered.
  for (let turn = 0; turn < 100 && !(await tab.evaluate(() => document.body.innerText)).includes("first"); turn++) {
    await request("PUT", `/feed/first-${turn}`, { type: "a" });
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await seeText(tab, "first");
  await request("POST", "/_diwan/command/test", { insert: "feed", documents: [{ _id: "by-driver", type: "b" }] });
  await seeText(tab, "by-driver");
  await press(tab, "Pause");
  await request("PUT", "/feed/later", { type: "a" });
  await seeText(tab, "(1 new)");
  assert.ok(!(await tab.$eval(".change-list", (list) => list.innerText)).includes("later"));
  await tab.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.innerText.startsWith("Go on")).click());
  await seeText(tab, "later");
  await checkAccessibility(tab);
  await picture(tab, "changes");
  await press(tab, "From the beginning");
  await fill(tab, "Selector", '{ type: "b" }');
  await press(tab, "Filter");
  await tab.waitForFunction(() => document.querySelectorAll(".change").length === 1);
  await seeText(tab, "by-driver");
  await request("DELETE", `/feed/by-driver?rev=${(await request("GET", "/feed/by-driver"))._rev}`);
  await tab.click(".change summary");
  await seeText(tab, '"type": "b"');
  await tab.end();
});

test("a replication runs once, another follows, and errors say what to do", async () => {
  await makeDatabase("source", Array.from({ length: 200 }, (_, n) => ({ _id: `d${n}`, n })));
  const tab = await openTab(browser, "#/server/replication");
  await seeText(tab, "No replications");
  const start = async (source, target, boxes) => {
    await press(tab, "New replication");
    await fill(tab, "Source: database or address", source);
    await fill(tab, "Target: database or address", target);
    for (const box of boxes) await tab.evaluate((text) => [...document.querySelectorAll("dialog label.check")].find((label) => label.innerText.includes(text)).querySelector("input").click(), box);
    await press(tab, "Start");
  };
  await start("source", "copy", ["Create the target"]);
  await seeText(tab, "completed");
  assert.equal((await request("GET", "/copy")).doc_count, 200);
  await start("source", `${server}/follower`, ["Create the target", "Continuous"]);
  await seeText(tab, "running");
  await request("PUT", "/source/late", {});
  for (let turn = 0; turn < 100 && (await request("GET", "/follower")).doc_count !== 201; turn++) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal((await request("GET", "/follower")).doc_count, 201);
  await start("http://127.0.0.1:1/nowhere", "copy", []);
  await seeText(tab, "No server listens at that address and port.", { timeout: 30_000 });
  await start("missing", "copy", []);
  await seeText(tab, "The database does not exist.", { timeout: 30_000 });
  await tab.waitForSelector(".replication .chart canvas", { timeout: 20_000 });
  await checkAccessibility(tab);
  await picture(tab, "replication");
  const { docs } = await request("GET", "/_scheduler/docs");
  const follower = docs.find(({ state }) => state === "running").doc_id;
  await press(tab, `Stop ${follower}`);
  await press(tab, "Stop", { within: "dialog" });
  await seeText(tab, "Stopped.");
  assert.equal((await request("GET", `/_replicator/${follower}`)).status, 404);
  await tab.end();
});

test("the overview shows figures and the last hour", async () => {
  const tab = await openTab(browser, "#/server/overview", { dark: true });
  await seeText(tab, "Running for");
  // The first two samples are there half a minute after the start.
  await tab.waitForSelector(".charts canvas", { timeout: 60_000 });
  await seeText(tab, "Documents a second");
  await checkAccessibility(tab);
  await picture(tab, "overview");
  await tab.end();
});

test("a server that goes away and comes back is noticed, and nothing typed is lost", async () => {
  await makeDatabase("away", [{ _id: "a", n: 1 }]);
  const tab = await openTab(browser, "#/db/away/query?filter=%7Bn:1%7D");
  tab.expectErrors(/ERR_INTERNET_DISCONNECTED/);
  await seeText(tab, "Run");
  await tab.setOfflineMode(true);
  await press(tab, "Run");
  await seeText(tab, "The server does not answer.");
  await tab.setOfflineMode(false);
  await tab.waitForFunction(() => !document.body.innerText.includes("The server does not answer. The page goes on"), { timeout: 20_000 });
  await press(tab, "Run");
  await seeText(tab, "1 result");
  await tab.end();
});

test("two hundred changes of the page leave no listener, timer or request behind", async () => {
  await makeDatabase("leaks", [{ _id: "a", n: 1 }]);
  const pages = ["documents", "doc/a", "query", "schema", "indexes", "design", "changes", "conflicts", "settings"].map((page) => `#/db/leaks/${page}`);
  pages.push("#/", "#/server/overview", "#/server/replication", "#/server/operations", "#/server/slow", "#/server/users", "#/server/connect");
  const tab = await openTab(browser, "#/");
  const visit = async (count) => {
    for (let turn = 0; turn < count; turn++) {
      await goTo(tab, pages[turn % pages.length]);
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
    await goTo(tab, "#/new");
    await seeText(tab, "New database");
    await new Promise((resolve) => setTimeout(resolve, 300));
    const client = await tab.createCDPSession();
    await client.send("HeapProfiler.collectGarbage");
    const { JSEventListeners, Nodes } = await tab.metrics();
    await client.detach();
    return { JSEventListeners, Nodes };
  };
  const first = await visit(pages.length * 2);
  const last = await visit(200);
  assert.ok(last.JSEventListeners <= first.JSEventListeners + 20, `${first.JSEventListeners} listeners became ${last.JSEventListeners}`);
  assert.ok(last.Nodes <= first.Nodes + 500, `${first.Nodes} nodes became ${last.Nodes}`);
  await tab.end();
});
