// What each pattern keeps of each type, and why.

import { byId, setAttribute, setText } from "./dom.js";
import { rate, short } from "./numbers.js";
import { onMoment, planThen } from "./moment.js";
import { fillTable, makeTable, shareCell } from "./tables.js";
import { plain, plural } from "./text.js";

const CAPTION = "Per pattern and type of event: how many come, what share is kept, and why.";
const PRICE = "what one more busy millisecond per second of its node would bring at the sinks, in weighted events per second";
const COLUMNS = [
  { head: "pattern", look: "text", sort: (row) => row.pattern },
  { head: "type", look: "text", sort: (row) => row.type },
  { head: "rate", look: "number", sort: (row) => row.rate ?? -1 },
  { head: "kept", look: "number", sort: (row) => row.share ?? 2 },
  { head: "price", look: "number", title: PRICE, sort: (row) => row.price ?? -1 },
  { head: "reason", look: "prose", sort: (row) => row.reason },
];

const finder = byId("keep-rows-find");
let order = null; // {column, isDown}; without it, as the server sends them: most shed volume first
let latest = null;
const table = makeTable(byId("keep-rows"), CAPTION, COLUMNS, (column) => {
  const isDown = order?.column === column ? !order.isDown : typeof column.sort(latest?.keep_rows[0] ?? {}) === "number";
  order = { column, isDown };
  table.head.forEach((th, index) => setAttribute(th, "aria-sort", COLUMNS[index] !== column ? null : isDown ? "descending" : "ascending"));
  if (latest) updateKeepRows(latest);
});
finder.addEventListener("input", () => latest && updateKeepRows(latest));
onMoment(() => latest && updateKeepRows(latest));

export function updateKeepRows(news) {
  latest = news;
  const status = planThen() ?? news;
  const wanted = finder.value.trim().toLowerCase();
  const rows = status.keep_rows.filter((row) => !wanted || [row.pattern, row.type, row.reason].some((text) => text.toLowerCase().includes(wanted)));
  if (order) {
    const { sort } = order.column;
    const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
    rows.sort((a, b) => (order.isDown ? -1 : 1) * compare(sort(a), sort(b)));
  }
  const empty = wanted && status.keep_rows.length ? `Nothing here has “${plain(wanted, 40)}” in it.` : "Everything is kept: no plan has had to shed yet.";
  fillTable(table, rows.map(rowOf), empty);
  setText(byId("keep-rows-note"), `${status.keep_rows.length ? `Price: ${PRICE}.` : ""}${status.omitted_rows ? ` ${plural(status.omitted_rows, "row")} with less shed volume ${status.omitted_rows === 1 ? "is" : "are"} left out.` : ""}`);
}

const rowOf = (row) => ({
  key: JSON.stringify([row.pattern, row.type]),
  cells: [plain(row.pattern, 120), plain(row.type, 200), rate(row.rate), shareCell(row.share), row.price ? short(row.price) : "–", plain(row.reason)],
});
