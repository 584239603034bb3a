// SPDX-License-Identifier: Apache-2.0
// Loaded by ComfyUI's page at its start: only says that there is a panel. What it takes to show one is loaded when it is
// opened for the first time; ComfyUI loads every .js of this folder at once, so that is an .mjs.
import { api } from "../../scripts/api.js";
import { app } from "../../scripts/app.js";

const id = "penstock";
let panel = null;
let shown = 0;  // Grows with each opening and closing.

async function open(element) {
  const mine = ++shown;
  try {
    const { Panel } = await import("./panel.mjs");
    if (mine !== shown) return;  // Closed, or opened again, while it was loading.
    panel = new Panel(element, (path) => api.fetchApi(path, { cache: "no-store" }), leave);
    await panel.open();
  } catch (error) {
    element.textContent = `penstock: ${error.message}`;
  }
}

function close() {
  ++shown;
  panel?.close();
  panel = null;
}

// Closes the tab as its button does, which has the focus then.
function leave() {
  app.extensionManager?.command?.execute?.(`Workspace.ToggleSidebarTab.${id}`);
  document.querySelector(`.${id}-tab-button`)?.focus();
}

app.registerExtension({
  name: "penstock.panel",
  setup() {
    app.extensionManager?.registerSidebarTab?.({
      id,
      icon: "pi pi-server",
      title: "penstock",
      tooltip: "penstock: what is where in memory",
      type: "custom",
      render(element) {
        close();
        open(element);
      },
      destroy: close,
    });
  },
});
