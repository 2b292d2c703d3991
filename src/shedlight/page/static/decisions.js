// The log of decisions, newest first; those that changed nothing are put together.

import { badge } from "./badge.js";
import { byId, h } from "./dom.js";
import { clock, moment, seconds } from "./numbers.js";
import { chooseMoment } from "./moment.js";
import { get } from "./server.js";
import { fillTable, madeCell, makeTable } from "./tables.js";
import { plain } from "./text.js";

const EVERY = 2000; // milliseconds; the status does not say whether there are new ones
const table = makeTable(byId("decisions"), "What the controller decided, newest first.", [
  { head: "at", look: "decided" },
  { head: "what", look: "text" },
  { head: "why", look: "prose" },
  { head: "took", look: "number" },
]);

let isFirst = true;
let timer = 0;

export function startDecisions() {
  isFirst = true;
}

export function updateDecisions() {
  timer ||= setTimeout(ask, isFirst ? 0 : EVERY);
  isFirst = false;
}

async function ask() {
  timer = 0;
  try {
    const decisions = await get("/api/decisions?limit=100");
    fillTable(table, grouped(decisions).map(rowOf), "No decisions yet. The first comes a few seconds after the first events.");
  } catch {
    isFirst = true; // ask again with the next news
  }
}

// Neighbours that made no plan and left all statuses as they were are one entry.
export function grouped(decisions) {
  const entries = [];
  for (let index = decisions.length - 1; index >= 0; index -= 1) {
    const decision = decisions[index];
    const last = entries.at(-1);
    const news = Object.entries(decision.statuses).filter(([node, status]) => last?.last.statuses[node] !== status);
    if (last && !decision.replanned && !news.length && !last.first.replanned) Object.assign(last, { last: decision, number: last.number + 1 });
    else entries.push({ first: decision, last: decision, news, number: 1 });
  }
  return entries.reverse();
}

function rowOf({ first, last, news, number }) {
  const when = number > 1 ? `${clock(first.time)} – ${clock(last.time)}` : clock(first.time);
  const reason = plain(last.reason, 1000);
  return {
    key: String(first.time),
    look: first.replanned ? "plan" : null,
    cells: [
      madeCell(when, () => h("button", { type: "button", class: "link", title: "Show the keep shares of then", click: () => chooseMoment(last.time) },
        h("time", { datetime: isoOf(first.time), title: moment(first.time) }, when))),
      madeCell(JSON.stringify([first.replanned, news]), () => whatOf(first, news)),
      number > 1 ? `${number} decisions that changed nothing, the last: ${reason}` : reason,
      seconds(last.seconds || null),
    ],
  };
}

const isoOf = (time) => (Math.abs(time) < 8.64e12 ? new Date(time * 1000).toISOString() : null);

function whatOf(first, news) {
  const parts = news.map(([node, status]) => h("div", {}, `${plain(node, 60)} `, badge(status)));
  return [first.replanned ? h("strong", {}, "new plan") : "", ...parts];
}
