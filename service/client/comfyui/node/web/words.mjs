// SPDX-License-Identifier: Apache-2.0
// From the service's answers to words: no element of a page here.

export const kinds = ["weights", "work", "carry", "results", "state", "other"];
export const kindHints = {
  weights: "models",
  work: "activations while a node runs",
  carry: "cast buffers and pools kept between steps",
  results: "cached outputs of nodes",
  state: "what nodes keep on themselves",
  other: "everything else of the process",
};
export const places = [
  ["devices", "device"],
  ["locked_host_bytes", "locked"],
  ["anonymous_bytes", "anonymous"],
  ["page_cache_bytes", "page cache"],
  ["disk_bytes", "disk"],
];

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

// A dash where nobody measures: that is not 0.
export function bytes(number) {
  if (typeof number !== "number") return "–";
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    ++unit;
  }
  return `${unit === 0 ? number : number.toFixed(1)} ${units[unit]}`;
}

export function placeOf(kind, place) {
  if (!kind) return undefined;
  if (place !== "devices") return kind[place];
  const all = Object.values(kind.devices ?? {});
  return all.length === 0 ? undefined : all.reduce((sum, one) => sum + one, 0);
}

const evictions = {
  fault: "to make room for a page that was needed",
  prefetch: "to make room for pages that are loaded ahead",
  budget: "because less may be used of the device now",
  request: "because somebody asked for it",
  session_closed: "because its client ended",
  table_closed: "because nobody uses it any more",
  released: "because its client gave it back",
};

function subjectOf(decision, status) {
  const checkpoint = (status.checkpoints ?? []).find((one) => one.id === decision.subject);
  if (checkpoint) return checkpoint.name;
  const client = (status.clients ?? []).find((one) => decision.subject === `client ${one.id}`);
  return client ? `${client.name} (process ${client.pid})` : decision.subject;
}

// One line: what was done to whom, and why.
export function sentence(decision, status) {
  const what = `${bytes(decision.bytes)} of ${subjectOf(decision, status)}`;
  const inputs = decision.inputs ?? {};
  const full = typeof inputs.used_bytes === "number" && typeof inputs.budget_bytes === "number"
    ? ` (${bytes(inputs.used_bytes)} of ${bytes(inputs.budget_bytes)} used)` : "";
  switch (decision.kind) {
    case "evict": return `Evicted ${what} ${evictions[decision.reason] ?? `(${decision.reason})`}${full}`;
    case "offload": return `Found no room for ${what}: ${decision.reason}${full}`;
    case "refuse": return `Refused ${what}: ${decision.reason}${full}`;
    default: return `${decision.kind}: ${what}, ${decision.reason}`;
  }
}

// Those that tell why something is not where one wants it; loads are the usual case.
export function isTelling(decision) {
  return decision.kind !== "load";
}
