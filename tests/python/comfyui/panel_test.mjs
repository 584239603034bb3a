// SPDX-License-Identifier: Apache-2.0
// The panel on a page that is as small as it can be. usage: node --test panel_test.mjs, with PENSTOCK_PANEL naming a folder
// that has ComfyUI's scripts/ and extensions/penstock/.
import assert from "node:assert/strict";
import { test, beforeEach } from "node:test";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(`${process.env.PENSTOCK_PANEL}/`);
const at = (path) => import(new URL(path, folder));

class Element {
  constructor(name) {
    this.name = name;
    this.children = [];
    this.attributes = {};
    this.listeners = {};
  }
  setAttribute(key, value) { this.attributes[key] = String(value); }
  getAttribute(key) { return this.attributes[key] ?? null; }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  addEventListener(kind, run) { this.listeners[kind] = run; }
  focus() { document.activeElement = this; }
  get textContent() { return this.children.map((one) => one.textContent ?? one).join(""); }
  set textContent(text) { this.children = [text]; }
  all(name) {
    return this.children.flatMap((one) => (one instanceof Element ? [...(one.name === name ? [one] : []), ...one.all(name)] : []));
  }
}

let timers;
let listeners;
beforeEach(() => {
  timers = [];
  listeners = new Set();
  globalThis.document = {
    createElement: (name) => new Element(name),
    activeElement: null,
    visibilityState: "visible",
    addEventListener: (kind, run) => listeners.add(run),
    removeEventListener: (kind, run) => listeners.delete(run),
  };
  globalThis.setTimeout = (run, after) => timers.push({ run, after }) && timers.at(-1);
  globalThis.clearTimeout = (timer) => { timers = timers.filter((one) => one !== timer); };
});

const client = {
  id: 3, pid: 42, name: "ComfyUI",
  kinds: { weights: { devices: { host: 2 ** 30, "cuda-1": 2 ** 30 }, disk_bytes: 0 }, other: { anonymous_bytes: 1024 } },
  process: { anonymous_bytes: 4096, swapped_bytes: 2048, compressed_bytes: 2048, on_disk_bytes: 0 },
};
const status = {
  devices: [{ id: "host", resident_bytes: 1024, capacity_bytes: 2048, pinned_bytes: 0, foreign_bytes: null }],
  clients: [client, { ...client, id: 4, pid: 43, name: "<b>other</b>" }, { id: 5, pid: 44, name: "silent" }],
  checkpoints: [{ id: "0123456789ab", name: "flux.safetensors", bytes: 10, resident_bytes: 5, clients: 2 }],
};
const decisions = [
  { time: "2026-11-30T10:11:12Z", kind: "evict", subject: "0123456789ab", bytes: 8388608, reason: "fault",
    inputs: { used_bytes: 100, budget_bytes: 200 } },
  { time: "2026-11-30T10:11:11Z", kind: "load", subject: "0123456789ab", bytes: 1, reason: "fault or prefetch", inputs: {} },
];
const good = { "/penstock/status": { pid: 42, status }, "/penstock/explain": { decisions } };

function answering(answers, asked = []) {
  return async (path) => {
    asked.push(path);
    if (answers[path] instanceof Error) throw answers[path];
    return { ok: !answers[path].error, status: 503, json: async () => answers[path] };
  };
}

async function opened(answers = good, asked = []) {
  const { Panel } = await at("extensions/penstock/panel.mjs");
  const root = new Element("div");
  const panel = new Panel(root, answering(answers, asked));
  await panel.open();
  return { root, panel, asked };
}

test("shows each kind in each place, and a dash where nobody measures", async () => {
  const { root } = await opened();
  const own = root.all("table").find((one) => one.textContent.startsWith("This ComfyUI"));
  const rows = own.all("tr").map((row) => row.children.map((cell) => cell.textContent));
  assert.deepEqual(rows, [
    ["kind", "device", "locked", "anonymous", "page cache", "disk"],
    ["weights", "2.0 GiB", "–", "–", "–", "0 B"],
    ["other", "–", "–", "1.0 KiB", "–", "–"],
    ["process", "–", "–", "4.0 KiB", "–", "–"],
    ["swapped", "–", "–", "2.0 KiB compressed", "–", "0 B"],
  ]);
});

test("says why something was evicted", async () => {
  const { root } = await opened();
  const lines = root.all("li").map((one) => one.textContent);
  const time = new Date(decisions[0].time).toLocaleTimeString();
  assert.deepEqual(lines, [`${time} Evicted 8.0 MiB of flux.safetensors to make room for a page that was needed`
    + " (100 B of 200 B used)"]);
});

test("names of others are text and no markup", async () => {
  const { root } = await opened();
  assert.equal(root.all("b").length, 0);
  assert.ok(root.textContent.includes("<b>other</b> (process 43)"));
  assert.ok(!root.textContent.includes("silent"));
});

test("asks again after a while, one question at a time", async () => {
  const { root, asked } = await opened();
  assert.equal(asked.length, 2);
  assert.deepEqual(timers.map((one) => one.after), [2000]);
  const [button] = root.all("button");
  button.listeners.click();
  button.listeners.click();
  assert.equal(asked.length, 4);
});

test("does nothing once closed", async () => {
  const { root, panel, asked } = await opened();
  const [button] = root.all("button");
  panel.close();
  assert.deepEqual([timers.length, listeners.size, root.children.length], [0, 0, 0]);
  button.listeners.click();
  assert.equal(asked.length, 2);
});

test("the escape key leaves it, and no other key", async () => {
  const { Panel } = await at("extensions/penstock/panel.mjs");
  const root = new Element("div");
  let left = 0;
  await new Panel(root, answering(good), () => ++left).open();
  const [box] = root.all("div");
  box.listeners.keydown({ key: "Tab" });
  assert.equal(left, 0);
  box.listeners.keydown({ key: "Escape" });
  assert.equal(left, 1);
});

test("closed while it asks, it shows nothing and asks no more", async () => {
  const { Panel } = await at("extensions/penstock/panel.mjs");
  const root = new Element("div");
  const panel = new Panel(root, answering(good));
  const opening = panel.open();
  panel.close();
  await opening;
  assert.deepEqual([timers.length, root.children.length], [0, 0]);
});

test("does nothing while its page is hidden, and goes on when it is seen", async () => {
  document.visibilityState = "hidden";
  const { asked } = await opened();
  assert.deepEqual([asked.length, timers.length], [0, 0]);
  document.visibilityState = "visible";
  [...listeners][0]();
  assert.equal(asked.length, 2);
});

test("a service that is away is said, and asked for again", async () => {
  const away = { ...good, "/penstock/status": { error: { kind: "unreachable", message: "the service is not there" } } };
  const { root } = await opened(away);
  const said = root.all("p").find((one) => one.getAttribute("role") === "status");
  assert.equal(said.textContent, "The service can't be asked: the service is not there");
  assert.equal(timers.length, 1);
  assert.equal((await opened({ ...good, "/penstock/explain": new Error("no network") })).root.all("table").length, 0);
});

test("who reads a table with the keyboard stays in it", async () => {
  const { root } = await opened();
  const regions = () => root.all("div").filter((one) => one.getAttribute("role") === "region");
  const before = regions()[1];
  before.focus();
  await timers[0].run();
  await new Promise(setImmediate);
  assert.notEqual(regions()[1], before);
  assert.equal(document.activeElement, regions()[1]);
});

test("every table can be reached and is named, every heading has its scope, every control is a button", async () => {
  const { root } = await opened();
  for (const table of root.all("table")) assert.equal(table.children[0].name, "caption");
  for (const region of root.all("div").filter((one) => one.all("table").length > 0 && one.getAttribute("role") === "region")) {
    assert.equal(region.getAttribute("tabindex"), "0");
    assert.ok(region.getAttribute("aria-label"));
  }
  for (const heading of root.all("th")) assert.ok(["col", "row"].includes(heading.getAttribute("scope")));
  assert.ok(root.all("button").every((one) => one.getAttribute("type") === "button" && one.textContent));
});

test("until it is opened nothing of the panel is loaded and nothing asked", async () => {
  const { app, tabs } = await at("scripts/app.js");
  const { asked } = await at("scripts/api.js");
  await at("extensions/penstock/penstock.js");
  for (const extension of app.extensions) extension.setup();
  assert.equal(tabs.length, 1);
  assert.deepEqual([tabs[0].id, tabs[0].type, Boolean(tabs[0].title && tabs[0].tooltip)], ["penstock", "custom", true]);
  assert.deepEqual([timers.length, listeners.size, asked.length], [0, 0, 0]);
  const root = new Element("div");
  tabs[0].render(root);
  for (let turn = 0; turn < 1000 && asked.length < 2; ++turn) await new Promise(setImmediate);
  assert.deepEqual(asked, ["/penstock/status", "/penstock/explain"]);
  tabs[0].destroy();
  assert.equal(root.children.length, 0);
  tabs[0].render(root);
  tabs[0].destroy();  // Before it was loaded.
  await new Promise(setImmediate);
  assert.deepEqual([asked.length, listeners.size], [2, 0]);
});

test("a ComfyUI without a side bar is left as it is", async () => {
  const { app } = await at("scripts/app.js");
  app.extensionManager = undefined;
  for (const extension of app.extensions) extension.setup();
});
