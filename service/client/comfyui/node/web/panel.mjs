// SPDX-License-Identifier: Apache-2.0
// The panel. It asks while it is open and its page is visible, one question at a time, and does nothing otherwise.
import { bytes, isTelling, kindHints, kinds, placeOf, places, sentence } from "./words.mjs";

export const askEvery = 2000;  // ms, from an answer to the next question.

// ComfyUI's own colours where it has them, else those of the system's light or dark mode.
const style = `
.penstock { color-scheme: light dark; color: var(--fg-color, CanvasText); background: var(--comfy-menu-bg, Canvas);
  font-size: 0.85rem; padding: 0.75rem; overflow: auto; height: 100%; box-sizing: border-box; }
/* Scroll bars and what has no colour of ComfyUI's follow its theme, not the system. */
.dark-theme .penstock { color-scheme: dark; }
:root:not(.dark-theme) .litegraph .penstock { color-scheme: light; }
.penstock h2 { font-size: 1rem; margin: 0; }
.penstock header { display: flex; gap: 0.5rem; align-items: center; justify-content: space-between; }
.penstock table { border-collapse: collapse; width: 100%; margin: 0.25rem 0 0.75rem; }
.penstock caption { text-align: left; font-weight: bold; padding: 0.25rem 0; }
.penstock th, .penstock td { border-bottom: 1px solid var(--border-color, GrayText); padding: 0.15rem 0.3rem; text-align: right;
  white-space: nowrap; vertical-align: bottom; }
.penstock th[scope="col"] { white-space: normal; }
.penstock th:first-child { text-align: left; }
.penstock .scroll { overflow-x: auto; }
.penstock button { font: inherit; color: inherit; background: var(--comfy-input-bg, ButtonFace);
  border: 1px solid var(--border-color, ButtonBorder); border-radius: 4px; padding: 0.25rem 0.6rem; }
.penstock :focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
.penstock ol { padding-left: 1.25rem; margin: 0.25rem 0; }
`;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);  // Texts become text, never markup.
  return made;
}

function table(title, headings, rows) {
  const head = element("tr", {}, ...headings.map((one) => element("th", { scope: "col" }, one)));
  const body = rows.map(([first, ...others]) =>
    element("tr", {}, element("th", { scope: "row", ...(first.title ? { title: first.title } : {}) }, first.text ?? first),
      ...others.map((one) => element("td", {}, one))));
  return element("div", { class: "scroll", role: "region", "aria-label": title, tabindex: "0" },
    element("table", {}, element("caption", {}, title), element("thead", {}, head), element("tbody", {}, ...body)));
}

function deviceTable(status) {
  return table("Devices", ["device", "in use", "of", "pinned", "others"],
    (status.devices ?? []).map((one) => [one.id, bytes(one.resident_bytes), bytes(one.capacity_bytes),
      bytes(one.pinned_bytes), bytes(one.foreign_bytes ?? undefined)]));
}

function clientTable(client, own) {
  const rows = kinds.filter((kind) => client.kinds?.[kind]).map((kind) => [{ text: kind, title: kindHints[kind] },
    ...places.map(([key]) => bytes(placeOf(client.kinds[kind], key)))]);
  if (client.process) {
    const memory = client.process;
    rows.push([{ text: "process", title: "as the kernel counts it" }, bytes(), bytes(memory.locked_bytes),
      bytes(memory.anonymous_bytes), bytes(memory.page_cache_bytes), bytes()]);
    if (memory.swapped_bytes > 0) {
      rows.push([{ text: "swapped", title: "of the process; compressed in memory, or on a disk" }, bytes(), bytes(),
        `${bytes(memory.compressed_bytes)} compressed`, bytes(), bytes(memory.on_disk_bytes)]);
    }
  }
  const name = own ? "This ComfyUI" : `${client.name} (process ${client.pid})`;
  return table(name, ["kind", ...places.map(([, title]) => title)], rows);
}

function checkpointTable(status) {
  return table("Checkpoints", ["file", "size", "on devices", "page cache", "users"],
    (status.checkpoints ?? []).map((one) => [one.name, bytes(one.bytes), bytes(one.resident_bytes),
      bytes(one.page_cache_bytes), String(one.clients)]));
}

function decisionList(decisions, status) {
  const lines = decisions.filter(isTelling).slice(0, 20).map((one) =>
    element("li", {}, element("time", { datetime: one.time }, new Date(one.time).toLocaleTimeString()), ` ${sentence(one, status)}`));
  return element("section", { "aria-label": "Why" }, element("h2", {}, "Why"),
    lines.length > 0 ? element("ol", {}, ...lines) : element("p", {}, "Nothing was evicted or refused lately."));
}

export class Panel {
  #root;
  #ask;
  #leave;
  #open = false;
  #timer = null;
  #asking = false;
  #said;
  #content;
  #seen = () => this.#refresh();

  // `ask`: path -> promise of a Response. `leave`: called when who is in the panel wants out of it.
  constructor(root, ask, leave = () => {}) {
    this.#root = root;
    this.#ask = ask;
    this.#leave = leave;
  }

  open() {
    this.#open = true;
    this.#said = element("p", { role: "status", "aria-live": "polite" });
    this.#content = element("div");
    const again = element("button", { type: "button" }, "Refresh");
    again.addEventListener("click", this.#seen);
    const box = element("div", { class: "penstock", role: "complementary", "aria-label": "penstock" },
      element("header", {}, element("h2", {}, "penstock"), again), this.#said, this.#content);
    box.addEventListener("keydown", (event) => { if (event.key === "Escape") this.#leave(); });
    this.#root.replaceChildren(element("style", {}, style), box);
    document.addEventListener("visibilitychange", this.#seen);
    return this.#refresh();
  }

  close() {
    this.#open = false;
    clearTimeout(this.#timer);
    this.#timer = null;
    document.removeEventListener("visibilitychange", this.#seen);
    this.#root.replaceChildren();
  }

  async #refresh() {
    if (!this.#open || this.#asking || document.visibilityState === "hidden") return;
    this.#asking = true;
    clearTimeout(this.#timer);
    try {
      const [status, explained] = await Promise.all([this.#answer("/penstock/status"), this.#answer("/penstock/explain")]);
      if (this.#open) this.#show(status, explained.decisions ?? []);
    } catch (error) {
      if (this.#open) this.#say(`The service can't be asked: ${error.message}`);
    } finally {
      this.#asking = false;
    }
    if (this.#open && document.visibilityState !== "hidden") this.#timer = setTimeout(this.#seen, askEvery);
  }

  async #answer(path) {
    const response = await this.#ask(path);
    const content = await response.json();
    if (!response.ok) throw new Error(content.error?.message ?? `status ${response.status}`);
    return content;
  }

  #say(text) {
    // Said again, it would be read out again.
    if (this.#said.textContent !== text) this.#said.textContent = text;
  }

  #show({ pid, status }, decisions) {
    const clients = (status.clients ?? []).filter((one) => one.kinds || one.process);
    const own = clients.filter((one) => one.pid === pid);
    const others = clients.filter((one) => one.pid !== pid);
    this.#say("");
    const focused = this.#focus();
    this.#content.replaceChildren(deviceTable(status), ...own.map((one) => clientTable(one, true)),
      ...others.map((one) => clientTable(one, false)), checkpointTable(status), decisionList(decisions, status));
    this.#refocus(focused);
  }

  // Tables are made anew: whoever reads one with the keyboard stays there.
  #focus() {
    const regions = [...this.#content.children];
    return regions.find((one) => one === document.activeElement)?.getAttribute("aria-label") ?? null;
  }
  #refocus(label) {
    if (label !== null) [...this.#content.children].find((one) => one.getAttribute("aria-label") === label)?.focus();
  }
}
