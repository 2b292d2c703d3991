// The log of decisions, newest first; those that changed nothing are put together.

import { badge } from "./badge.js";
import { byId, h } from "./dom.js";
import { clock, moment, seconds } from "./numbers.js";
import { get } from "./server.js";
import { fillTable, madeCell, makeTable } from "./tables.js";
import { plain } from "./words.js";

const EVERY = 2000; // at most so often where the server does not say how many there are
const table = makeTable(byId("decisions"), "What the controller decided, newest first.", [
  { head: "at", look: "moment" },
  { head: "what", look: "text" },
  { head: "why", look: "words" },
  { head: "took", look: "number" },
]);

let seen = null;
let timer = 0;

export function startDecisions() {
  seen = null;
}

export function updateDecisions(now) {
  if (now.decisions === undefined) timer ||= setTimeout(ask, seen === null ? 0 : EVERY);
  else if (now.decisions !== seen) ask();
  seen = now.decisions ?? "not said";
}

async function ask() {
  timer = 0;
  try {
    const found = await get("/api/decisions?limit=100");
    fillTable(table, grouped(found).map(rowOf), "No decisions yet. The first comes a few seconds after the first events.");
  } catch {
    seen = null; // ask again with the next news
  }
}

// Neighbours that made no plan and left all states as they were are one entry.
export function grouped(decisions) {
  const entries = [];
  for (let place = decisions.length - 1; place >= 0; place -= 1) {
    const one = decisions[place];
    const last = entries.at(-1);
    const news = Object.entries(one.states).filter(([node, state]) => last?.last.states[node] !== state);
    if (last && !one.replanned && !news.length && !last.first.replanned) Object.assign(last, { last: one, number: last.number + 1 });
    else entries.push({ first: one, last: one, news, number: 1 });
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
      madeCell(when, () => h("time", { datetime: isoOf(first.time), title: moment(first.time) }, when)),
      madeCell(JSON.stringify([first.replanned, news]), () => whatOf(first, news)),
      number > 1 ? `${number} decisions that changed nothing, the last: ${reason}` : reason,
      seconds(last.seconds),
    ],
  };
}

const isoOf = (time) => (Math.abs(time) < 8.64e12 ? new Date(time * 1000).toISOString() : null);

function whatOf(first, news) {
  const parts = news.map(([node, state]) => h("div", {}, `${plain(node, 60)} `, badge(state)));
  return [first.replanned ? h("strong", {}, "new plan") : "", ...parts];
}
