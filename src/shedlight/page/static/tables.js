// Tables whose rows stay the same elements while their cells change.

import { h, keyed, setAttribute, setText, s } from "./dom.js";
import { percent } from "./numbers.js";

// Columns are {head, look, sort}; cells of a row are texts or elements, in their order.
export function makeTable(table, caption, columns, onSort = null) {
  const head = columns.map((column) => {
    const content = onSort && column.sort ? h("button", { type: "button", click: () => onSort(column) }, column.head) : column.head;
    return h("th", { scope: "col", role: "columnheader", class: column.look, title: column.title }, content);
  });
  const body = h("tbody", { role: "rowgroup" });
  // Rows that are laid out as blocks are no rows to a screen reader unless it is said.
  table.setAttribute("role", "table");
  table.replaceChildren(h("caption", {}, caption), h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...head)), body);
  return { table, head, body, columns };
}

export function fillTable({ table, body, columns }, rows, empty) {
  const isEmpty = !rows.length;
  const shown = isEmpty ? [{ key: "\u0000empty", cells: [empty], whole: true }] : rows;
  keyed(body, shown, (row) => row.key, (row) => newRow(row, columns), updateRow);
  table.classList.toggle("empty-table", isEmpty);
}

function newRow(row, columns) {
  if (row.whole) return h("tr", { role: "row" }, h("td", { role: "cell", colspan: columns.length, class: "empty" }));
  const cells = columns.map(({ head, look }, index) =>
    index ? h("td", { role: "cell", class: look, "data-head": head }) : h("th", { role: "rowheader", scope: "row", class: look }));
  return h("tr", { role: "row" }, ...cells);
}

function updateRow(element, row) {
  setAttribute(element, "class", row.look ?? null);
  row.cells.forEach((cell, index) => {
    const td = element.children[index];
    if (typeof cell === "string") setText(td, cell);
    else cell(td);
  });
}

// A cell with a bar and a number: a share from 0 to 1.
export const shareCell = (share) => (td) => {
  if (!td.firstChild) {
    const bar = s("svg", { class: "share", viewBox: "0 0 44 9", "aria-hidden": "true" },
      s("rect", { class: "all", width: 44, height: 9, rx: 2 }), s("rect", { class: "part", height: 9, rx: 2 }));
    td.append(bar, h("span"));
  }
  setAttribute(td.querySelector(".part"), "width", (44 * Math.min(1, Math.max(0, share ?? 0))).toFixed(1));
  setText(td.querySelector("span"), percent(share));
};

// A cell with elements of its own, made anew when what it says differs.
export const madeCell = (key, make) => (td) => {
  if (td.dataset.made === key) return;
  td.dataset.made = key;
  td.replaceChildren(...[make()].flat());
};
