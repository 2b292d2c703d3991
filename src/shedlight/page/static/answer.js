// The answer to a question: before and after, for sinks, nodes and what is kept.

import { badge } from "./badge.js";
import { byId, h, setText } from "./dom.js";
import { change, clock, percent, rate, seconds } from "./numbers.js";
import { fillTable, madeCell, makeTable, shareCell } from "./tables.js";
import { plain } from "./words.js";

const home = byId("whatif-result");
const number = (head) => ({ head, look: "number" });

export function showNothing(words = "Move a control to see what it would do.") {
  home.replaceChildren(h("p", { class: "empty" }, words));
}

export function showDone(words) {
  home.replaceChildren(h("p", { class: "done" }, said(words)));
}

// A screen reader says the verdict, not every cell of the tables below it.
function said(words) {
  setText(byId("announcer"), plain(words, 500));
  return plain(words, 500);
}

export function showProblem(words) {
  home.replaceChildren(h("p", { class: "problem" }, said(words)));
}

export function showAnswer(answer, latest, run) {
  const took = `Planned in ${seconds(answer.seconds)}, from what was known at ${clock(latest?.time)}. Nothing is applied.`;
  home.replaceChildren(
    h("p", { class: answer.feasible ? "verdict" : "problem" }, said(answer.words)),
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

const sinkColumns = [{ head: "sink", look: "text" }, number("predicted now"), number("then"), number("change")];
const sinkRows = (answer) =>
  Object.entries(answer.sinks).map(([name, { now, then }]) => ({ key: name, cells: [plain(name, 60), rate(now), rate(then), change(now, then)] }));

const nodeColumns = [{ head: "node", look: "text" }, number("load now"), number("then"), number("bound"), { head: "state then", look: "text" }];
const nodeRows = (answer, latest) =>
  Object.entries(answer.nodes).map(([name, one]) => ({
    key: name,
    cells: [
      plain(name, 60), percent(latest?.nodes[name]?.load), percent(one.load), one.bound == null ? "none" : seconds(one.bound),
      madeCell(name, () => [badge(one.state), one.remedy ? h("div", { class: "hint" }, plain(one.remedy, 400)) : ""]),
    ],
  }));

const changeColumns = [{ head: "pattern", look: "text" }, { head: "type", look: "text" }, number("kept now"), number("then")];
function folded(answer) {
  if (!answer.changes.length) return h("p", { class: "hint" }, "It would keep the same share of everything.");
  const rows = answer.changes.map((one) => ({
    key: JSON.stringify([one.pattern, one.type]),
    cells: [plain(one.pattern, 120), plain(one.type, 200), shareCell(one.before), shareCell(one.after)],
  }));
  const inside = table("What would be kept, the largest changes first", changeColumns, rows, "");
  inside.classList.add("tall");
  return h("details", { open: rows.length <= 8 }, h("summary", {}, `What would be kept (${rows.length}${rows.length === 100 ? " largest" : ""})`), inside);
}
