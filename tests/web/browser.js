// A headless Chromium for the tests, and what every test demands of the page: no error in the console, no request to another
// host, no violation of the content security policy.

import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import puppeteer from "puppeteer-core";

/** The server under test, without a slash at the end. */
export const server = (process.env.DIWAN_URL ?? "http://127.0.0.1:5984/").replace(/\/$/, "");

/** Where the page is; `make web-dev` serves it elsewhere. */
const page = process.env.DIWAN_PAGE ?? `${server}/_utils/`;

const INSTALLED = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** The browser: CHROMIUM, the one that the npm package brings for Linux on x86-64, or an installed one. */
async function executable() {
  if (process.env.CHROMIUM) return { executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] };
  if (process.platform === "linux" && process.arch === "x64") {
    const { default: chromium } = await import("@sparticuz/chromium");
    // With a single process, which the package proposes, closing a tab closes the browser.
    const args = chromium.args.filter((argument) => argument !== "--single-process");
    return { executablePath: await chromium.executablePath(), args };
  }
  const found = INSTALLED.find(existsSync);
  if (!found) throw new Error("There is no Chromium for this machine: install one and set CHROMIUM to its path.");
  return { executablePath: found, args: ["--no-sandbox"] };
}

/** Starts a browser. `close` it at the end. */
export async function startBrowser() {
  const { executablePath, args } = await executable();
  // The locale of a bare machine is "en-US@posix", which no browser of a person has.
  const env = { ...process.env, LANG: "en_US.UTF-8", LC_ALL: "en_US.UTF-8" };
  return puppeteer.launch({ executablePath, args: [...args, "--lang=en-US"], env, headless: "shell", defaultViewport: { width: 1280, height: 800 } });
}

/**
 * Opens the page at an address such as `#/db/cars/documents` in a tab with cookies of its own. `tab.end()` closes it and
 * fails if the page has logged an error, asked another host, or violated its policy; `tab.expectErrors(pattern)` allows
 * messages that a test causes on purpose, such as the browser's line about an answer 409.
 */
export async function openTab(browser, address = "#/", { dark = false, user, password, viewport } = {}) {
  const context = await browser.createBrowserContext();
  const tab = await context.newPage();
  if (viewport) await tab.setViewport(viewport);
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  const faults = [];
  const allowed = [];
  const host = new URL(page).host;
  tab.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warn") faults.push(`console: ${message.text()}`);
  });
  tab.on("pageerror", (error) => faults.push(`error: ${error.stack ?? error}`));
  tab.on("request", (request) => {
    const url = new URL(request.url());
    if (!["data:", "blob:"].includes(url.protocol) && url.host !== host) faults.push(`another host: ${url}`);
  });
  tab.on("dialog", (dialog) => {
    if (dialog.type() !== "beforeunload") faults.push(`dialog: ${dialog.message()}`);
    dialog.accept();
  });
  tab.expectErrors = (pattern) => allowed.push(pattern);
  tab.end = async () => {
    await context.close();
    const left = faults.filter((fault) => !allowed.some((pattern) => pattern.test(fault)));
    assert.deepEqual(left, [], "the page has faults");
  };
  await tab.goto(page + address, { waitUntil: "load" });
  if (user) await signIn(tab, user, password);
  return tab;
}

/** Signs in by the dialog that the page shows. */
export async function signIn(tab, user, password) {
  await tab.waitForSelector('input[name="username"]');
  // The name is there already if a session has ended.
  await tab.$eval('input[name="username"]', (node) => node.select());
  await tab.type('input[name="username"]', user);
  await tab.type('input[name="password"]', password);
  await tab.keyboard.press("Enter");
  await tab.waitForSelector('input[name="password"]', { hidden: true });
}

/** Goes to another address of the page. */
export async function goTo(tab, address) {
  await tab.evaluate((hash) => {
    location.hash = hash;
  }, address);
}

/** Waits until the page shows a text. */
export async function seeText(tab, text, { timeout = 10_000 } = {}) {
  try {
    await tab.waitForFunction((wanted) => document.body.innerText.includes(wanted), { timeout, polling: 50 }, text);
  } catch {
    throw new Error(`the page does not show ${JSON.stringify(text)}, but:\n${await tab.evaluate(() => document.body.innerText)}`);
  }
}

/** Clicks the button, link or option whose accessible name is `name`. */
export async function press(tab, name, { within = "" } = {}) {
  const element = await named(tab, name, "button, a, summary, option, input[type=radio], input[type=checkbox]", within);
  await element.evaluate(async (node) => {
    node.scrollIntoView({ block: "center", inline: "center" });
    // What was just loaded may still move it.
    let place = "";
    for (let turn = 0; turn < 60; turn++) {
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      const { x, y } = node.getBoundingClientRect();
      if (place === `${x} ${y}`) break;
      place = `${x} ${y}`;
    }
  });
  await element.click();
}

/** Replaces what an input with this label holds. */
export async function fill(tab, label, text) {
  const element = await named(tab, label, "input, textarea");
  await element.evaluate((node) => (node.focus(), node.select()));
  await tab.keyboard.press("Backspace");
  await element.type(text);
}

/** The element of a kind with an accessible name; cells, columns and headings may have the same name. */
async function named(tab, name, kind, within = "") {
  const selector = `::-p-aria([name="${name.replaceAll('"', '\\"')}"])`;
  for (let turn = 0; turn < 200; turn++) {
    const scope = within ? await tab.$(within) : tab;
    for (const element of (await scope?.$$(selector)) ?? []) {
      if (await element.evaluate((node, wanted) => node.matches(wanted), kind).catch(() => false)) return element;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`there is no ${kind} with the name ${JSON.stringify(name)}:\n${await tab.evaluate(() => document.body.innerText)}`);
}

/** Replaces the text of an editor, which lies in a shadow tree. */
export async function writeEditor(tab, label, text) {
  const editor = await editorContent(tab, label);
  await editor.focus();
  await tab.keyboard.down("Control");
  await tab.keyboard.press("a");
  await tab.keyboard.up("Control");
  await tab.keyboard.press("Backspace");
  // As one paste: typing would make the editor close brackets.
  await editor.evaluate((node, pasted) => {
    const data = new DataTransfer();
    data.setData("text/plain", pasted);
    node.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, text);
}

/** The text of an editor. It fails if the text is too long to be shown whole. */
export async function readEditor(tab, label) {
  const editor = await editorContent(tab, label);
  return editor.evaluate((node) => [...node.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n"));
}

/** Waits until an editor holds a text. */
export async function seeEditor(tab, label, text) {
  let now;
  for (let turn = 0; turn < 100 && now !== text; turn++) {
    now = await readEditor(tab, label);
    if (now !== text) await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal(now, text);
}

async function editorContent(tab, label) {
  return (await waitInEditors(tab, `.cm-content[aria-label="${label}"]`))[0];
}

/** Waits for elements in the shadow trees of editors, whose changes `waitForSelector` does not see. */
export async function waitInEditors(tab, selector) {
  for (let turn = 0; turn < 200; turn++) {
    const found = await tab.$$(`.editor >>> ${selector}`);
    if (found.length > 0) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`no editor has ${selector}`);
}

/** Fails if the page has findings of axe that are serious or critical. */
export async function checkAccessibility(tab) {
  const { source } = (await import("axe-core")).default;
  // As a script of the test, not of the page, it is not subject to the page's policy.
  const client = await tab.createCDPSession();
  await client.send("Runtime.evaluate", { expression: source });
  const { result } = await client.send("Runtime.evaluate", {
    expression: `axe.run(document, { resultTypes: ["violations"] }).then((found) => JSON.stringify(found.violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => ({ id, nodes: nodes.map((node) => node.html.slice(0, 200) + " " + node.failureSummary) }))))`,
    awaitPromise: true,
    returnByValue: true,
  });
  await client.detach();
  assert.deepEqual(JSON.parse(result.value), [], "axe has findings");
}

/** Writes pictures of the page, light and dark, if SCREENSHOTS names a directory. */
export async function picture(tab, name) {
  const directory = process.env.SCREENSHOTS;
  if (!directory) return;
  mkdirSync(directory, { recursive: true });
  for (const theme of ["dark", "light"]) {
    await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
    // Editors and charts take the colours a moment later.
    await new Promise((resolve) => setTimeout(resolve, 400));
    await tab.screenshot({ path: join(directory, `${name}-${theme}.webp`), type: "webp", quality: 80 });
  }
}

/** A request to the server, as curl makes it. Returns the answer's JSON. */
export async function request(method, path, body, headers = {}) {
  const response = await fetch(server + path, {
    method,
    headers: { "content-type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  try {
    return { status: response.status, ...JSON.parse(text) };
  } catch {
    return { status: response.status, text };
  }
}

/** Creates a database with documents, empty before. */
export async function makeDatabase(name, documents = []) {
  const path = `/${encodeURIComponent(name)}`;
  await request("DELETE", path);
  assert.equal((await request("PUT", path)).status, 201);
  for (let start = 0; start < documents.length; start += 10_000) {
    const answer = await fetch(`${server}${path}/_bulk_docs`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ docs: documents.slice(start, start + 10_000) }),
    });
    assert.equal(answer.status, 201);
    await answer.arrayBuffer();
  }
}
