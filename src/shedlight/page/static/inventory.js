// The graph as two tables: what it shows by colour and width, in numbers.

import { badge } from "./badge.js";
import { byId } from "./dom.js";
import { bytes, count, percent, rate, seconds } from "./numbers.js";
import { fillTable, madeCell, makeTable } from "./tables.js";
import { plain } from "./words.js";

const number = (head, title) => ({ head, look: "number", title });
const nodes = makeTable(byId("nodes"), "How each node is. Load is its busy time as a share of what its bound allows.", [
  { head: "node", look: "text" },
  { head: "state", look: "text" },
  number("load"), number("mean latency"), number("bound"), number("headroom"), number("read"), number("kept"), number("shed"),
  number("micro-batch"), number("lag", "how long ago the newest event had arrived"), number("partial matches"), number("state size"),
  number("pressure", "what the shares of the plan were lowered to"),
]);
const streams = makeTable(byId("streams"), "What goes from where to where.", [
  { head: "stream", look: "text" }, { head: "from", look: "text named" }, { head: "to", look: "text named" }, number("rate"), number("shed"),
]);

export function updateInventory(now) {
  if (nodes.table.closest("details").open) fillTable(nodes, Object.entries(now.nodes).map(nodeRow), "No node has been heard of yet.");
  if (streams.table.closest("details").open) fillTable(streams, now.edges.map(streamRow), "No stream has been heard of yet.");
}

// A table is filled when it is opened, and not before.
export function watchInventory(latest) {
  for (const { table } of [nodes, streams]) {
    table.closest("details").addEventListener("toggle", () => latest() && updateInventory(latest()));
  }
}

const nodeRow = ([name, one]) => ({
  key: name,
  cells: [
    plain(name, 80), madeCell(one.state, () => badge(one.state)), percent(one.load), seconds(one.latency?.mean), one.bound == null ? "none" : seconds(one.bound),
    seconds(one.headroom), rate(one.rate), rate(one.kept), percent(one.shed_share), seconds(one.batch_seconds), seconds(one.lag),
    count(one.partial_matches), bytes(one.state_bytes), percent(one.pressure),
  ],
});

const streamRow = (row) => ({
  key: JSON.stringify([row.stream, row.to]),
  cells: [plain(row.stream, 120), plain(row.from, 80), plain(row.to, 80), rate(row.rate), percent(row.shed)],
});
