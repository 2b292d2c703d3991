// The answer to a question: current and forecast, for sinks, nodes and keep shares.

import { badge } from "./badge.js";
import { byId, h, setText } from "./dom.js";
import { change, clock, percent, rate, seconds } from "./numbers.js";
import { fillTable, madeCell, makeTable, shareCell } from "./tables.js";
import { kindOf, plain } from "./text.js";

const home = byId("whatif-result");
const number = (head) => ({ head, look: "number" });

export function showNothing(text = "Move a control to see what it would do.") {
  home.replaceChildren(h("p", { class: "empty" }, text));
}

export function showDone(text) {
  home.replaceChildren(h("p", { class: "done" }, announced(text)));
}

// A screen reader says the verdict, not every cell of the tables below it.
function announced(text) {
  setText(byId("announcer"), plain(text, 500));
  return plain(text, 500);
}

export function showProblem(text) {
  home.replaceChildren(h("p", { class: "problem" }, announced(text)));
}

export function showAnswer(answer, latest, run) {
  const took = `Planned in ${seconds(answer.seconds)}, from what was known at ${clock(latest?.time)}. Nothing is applied.`;
  home.replaceChildren(
    h("p", { class: answer.feasible ? "verdict" : "problem" }, announced(answer.summary)),
    table("Sinks, events per second", sinkColumns, sinkRows(answer, run), "There are no sinks."),
    table("Nodes", nodeColumns, nodeRows(answer, latest), "There are no nodes."),
    folded(answer),
    h("p", { class: "hint" }, took),
  );
}

function table(caption, columns, rows, empty) {
  const element = h("table");
  fillTable(makeTable(element, caption, columns), rows, empty);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, element);
}

const sinkColumns = [{ head: "sink", look: "text" }, number("current"), number("forecast"), number("change")];
const sinkRows = (answer) =>
  Object.entries(answer.sinks).map(([name, { current, forecast }]) => ({ key: name, cells: [plain(name, 60), rate(current), rate(forecast), change(current, forecast)] }));

const nodeColumns = [{ head: "node", look: "text" }, number("current load"), number("forecast"), number("bound"), { head: "forecast status", look: "text" }];
const nodeRows = (answer, latest) =>
  Object.entries(answer.nodes).map(([name, node]) => ({
    key: name,
    cells: [
      plain(name, 60), percent(latest?.nodes[name]?.load), percent(node.load), node.bound == null ? "none" : `${seconds(node.bound)} ${kindOf(node.percentile)}`,
      madeCell(name, () => [badge(node.status), node.advice ? h("div", { class: "hint" }, plain(node.advice, 400)) : ""]),
    ],
  }));

const changeColumns = [{ head: "pattern", look: "text" }, { head: "type", look: "text" }, number("current"), number("forecast")];
function folded(answer) {
  if (!answer.changes.length) return h("p", { class: "hint" }, "It would keep the same share of everything.");
  const rows = answer.changes.map((row) => ({
    key: JSON.stringify([row.pattern, row.type]),
    cells: [plain(row.pattern, 120), plain(row.type, 200), shareCell(row.before), shareCell(row.after)],
  }));
  const inside = table("Keep shares that would change, the largest changes first", changeColumns, rows, "");
  inside.classList.add("tall");
  return h("details", { open: rows.length <= 8 }, h("summary", {}, `Keep shares that would change (${rows.length}${rows.length === 100 ? " largest" : ""})`), inside);
}
