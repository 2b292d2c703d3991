// What each pattern keeps of each type, and why.

import { byId, setAttribute, setText } from "./dom.js";
import { rate, short } from "./numbers.js";
import { fillTable, makeTable, shareCell } from "./tables.js";
import { plain, plural } from "./words.js";

const CAPTION = "Per pattern and type of event: how many come, what share is kept, and why.";
const PRICE = "what one more busy millisecond per second of its node would bring at the sinks, in weighted events per second";
const COLUMNS = [
  { head: "pattern", look: "text", sort: (row) => row.pattern },
  { head: "type", look: "text", sort: (row) => row.type },
  { head: "rate", look: "number", sort: (row) => row.rate ?? -1 },
  { head: "kept", look: "number", sort: (row) => row.share ?? 2 },
  { head: "price", look: "number", title: PRICE, sort: (row) => row.price ?? -1 },
  { head: "reason", look: "words", sort: (row) => row.reason },
];

const finder = byId("keeps-find");
let order = null; // {column, isDown}; without it, as the server says: most shed volume first
let latest = null;
const table = makeTable(byId("keeps"), CAPTION, COLUMNS, (column) => {
  const isDown = order?.column === column ? !order.isDown : typeof column.sort(latest?.keeps[0] ?? {}) === "number";
  order = { column, isDown };
  table.head.forEach((th, place) => setAttribute(th, "aria-sort", COLUMNS[place] !== column ? null : isDown ? "descending" : "ascending"));
  if (latest) updateKeeps(latest);
});
finder.addEventListener("input", () => latest && updateKeeps(latest));

export function updateKeeps(now) {
  latest = now;
  const wanted = finder.value.trim().toLowerCase();
  const rows = now.keeps.filter((row) => !wanted || [row.pattern, row.type, row.reason].some((text) => text.toLowerCase().includes(wanted)));
  if (order) {
    const { sort } = order.column;
    const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
    rows.sort((a, b) => (order.isDown ? -1 : 1) * compare(sort(a), sort(b)));
  }
  const empty = wanted && now.keeps.length ? `Nothing here has “${plain(wanted, 40)}” in it.` : "Everything is kept: no plan has had to shed yet.";
  fillTable(table, rows.map(rowOf), empty);
  setText(byId("keeps-note"), `${now.keeps.length ? `Price: ${PRICE}.` : ""}${now.more ? ` ${plural(now.more, "row")} with less shed volume ${now.more === 1 ? "is" : "are"} left out.` : ""}`);
}

const rowOf = (row) => ({
  key: JSON.stringify([row.pattern, row.type]),
  cells: [plain(row.pattern, 120), plain(row.type, 200), rate(row.rate), shareCell(row.share), row.price ? short(row.price) : "–", plain(row.reason)],
});
