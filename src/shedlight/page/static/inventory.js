// The graph as two tables: what it shows by colour and width, in numbers.

import { badge } from "./badge.js";
import { byId } from "./dom.js";
import { bytes, count, percent, rate, seconds } from "./numbers.js";
import { fillTable, madeCell, makeTable } from "./tables.js";
import { kindOf, plain } from "./text.js";

const number = (head, title) => ({ head, look: "number", title });
const nodes = makeTable(byId("nodes"), "The status of each node. Load is its busy time as a share of what its bound allows.", [
  { head: "node", look: "text" },
  { head: "status", look: "text" },
  number("load"), number("mean latency"), number("bound"), number("headroom"), number("read"), number("kept"), number("shed"),
  number("micro-batch"), number("lag", "how long ago the newest event had arrived"), number("partial matches"), number("state size"),
  number("pressure", "what the shares of the plan were lowered to"),
]);
const streams = makeTable(byId("streams"), "What goes from where to where.", [
  { head: "stream", look: "text" }, { head: "from", look: "text named" }, { head: "to", look: "text named" }, number("rate"), number("shed"),
]);

export function updateInventory(status) {
  if (nodes.table.closest("details").open) fillTable(nodes, Object.entries(status.nodes).map(nodeRow), "No node has started yet.");
  if (streams.table.closest("details").open) fillTable(streams, status.edges.map(streamRow), "No stream is known yet.");
}

// A table is filled when it is opened, and not before.
export function watchInventory(latest) {
  for (const { table } of [nodes, streams]) {
    table.closest("details").addEventListener("toggle", () => latest() && updateInventory(latest()));
  }
}

const nodeRow = ([name, node]) => ({
  key: name,
  cells: [
    plain(name, 80), madeCell(node.status, () => badge(node.status)), percent(node.load), seconds(node.latency?.mean), node.bound == null ? "none" : `${seconds(node.bound)} ${kindOf(node.percentile)}`,
    seconds(node.headroom), rate(node.rate), rate(node.kept_rate), percent(node.shed_share), seconds(node.batch_seconds), seconds(node.lag),
    count(node.partial_matches), bytes(node.state_bytes), percent(node.pressure),
  ],
});

const streamRow = (row) => ({
  key: JSON.stringify([row.stream, row.target]),
  cells: [plain(row.stream, 120), plain(row.origin, 80), plain(row.target, 80), rate(row.rate), percent(row.shed_share)],
});
