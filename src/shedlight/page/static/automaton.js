// The automaton of a pattern: its states from left to right by how many events a partial match has taken at least,
// and on each arrow the elements that lead from one to the next. A double circle is a match.

import { s } from "./dom.js";
import { plain, widthOf } from "./text.js";

const [ACROSS, DOWN, RADIUS] = [118, 62, 15];
const FONT = "11.5px system-ui, sans-serif";
const MATCH = "match";

export function drawAutomaton(states) {
  const every = arrowsOf(states);
  const places = placesOf(every);
  const arrows = every.filter(({ from }) => places.has(from));
  const width = Math.max(...[...places.values()].map(({ x }) => x)) + 2 * RADIUS + 8;
  const height = Math.max(...[...places.values()].map(({ y }) => y)) + 2 * RADIUS + 14;
  const parts = [...arrows.map((arrow) => drawArrow(arrow, places)), ...[...places].map(([key, place]) => drawState(key, place, states[key]))];
  return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": wordsOf(states) }, heads(), ...parts);
}

// One arrow for all that leads from a state to another.
function arrowsOf(states) {
  const arrows = new Map();
  const add = (from, to, text) => {
    const key = `${from} ${to}`;
    if (!arrows.has(key)) arrows.set(key, { from, to, texts: [] });
    arrows.get(key).texts.push(plain(text, 24));
  };
  states.forEach(({ takes, ends }, from) => {
    for (const { element, to } of takes) add(String(from), to === null ? MATCH : String(to), element);
    if (ends) add(String(from), MATCH, "end of window");
  });
  return [...arrows.values()];
}

// A column is how many steps a state is from the first one; the match stands behind all.
function placesOf(arrows) {
  const depth = new Map([["0", 0]]);
  for (const key of depth.keys()) {
    for (const { from, to } of arrows) if (from === key && !depth.has(to)) depth.set(to, depth.get(key) + 1);
  }
  if (depth.delete(MATCH)) depth.set(MATCH, Math.max(...depth.values()) + 1);
  const columns = Map.groupBy ? Map.groupBy(depth.keys(), (key) => depth.get(key)) : grouped(depth);
  const most = Math.max(...[...columns.values()].map((keys) => keys.length));
  const places = new Map();
  for (const [column, keys] of columns) {
    keys.forEach((key, row) => places.set(key, { x: RADIUS + 4 + column * ACROSS, y: 40 + DOWN * (row + (most - keys.length) / 2) }));
  }
  return places;
}

function grouped(depth) {
  const columns = new Map();
  for (const [key, column] of depth) columns.set(column, [...(columns.get(column) ?? []), key]);
  return columns;
}

function drawArrow({ from, to, texts }, places) {
  const [a, b] = [places.get(from), places.get(to)];
  const text = texts.join(", ");
  const path = (d, x, y) =>
    s("g", {}, s("path", { d, class: "arrow", "marker-end": "url(#head)" }),
      s("text", { x, y, class: "mid small" }, cut(text), s("title", {}, text)));
  if (from === to) return path(`M${a.x - 7} ${a.y - 13}c-9 -24 23 -24 15 -2`, a.x, a.y - 30);
  const steps = Math.round((b.x - a.x) / ACROSS);
  const bend = Math.abs(steps) === 1 || !steps ? 0 : -22 * steps; // around what lies between
  const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 + bend };
  const [start, end] = [toward(a, middle), toward(b, middle, 5)];
  const [x, y] = steps ? [middle.x, middle.y - bend / 2 - 5] : [middle.x + 8 + widthOf(cut(text), FONT) / 2, middle.y + 4];
  return path(`M${start.x} ${start.y}Q${middle.x} ${middle.y} ${end.x} ${end.y}`, x, y);
}

function toward(from, to, more = 0) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const part = (RADIUS + more) / length;
  return { x: (from.x + (to.x - from.x) * part).toFixed(1), y: (from.y + (to.y - from.y) * part).toFixed(1) };
}

function cut(text) {
  if (widthOf(text, FONT) <= ACROSS - 44) return text;
  let length = text.length;
  while (length > 1 && widthOf(`${text.slice(0, length)}…`, FONT) > ACROSS - 44) length -= 1;
  return `${text.slice(0, length)}…`;
}

function drawState(key, { x, y }, state) {
  const circle = (r) => s("circle", { cx: x, cy: y, r, class: "card" });
  if (key === MATCH) return s("g", {}, circle(RADIUS), circle(RADIUS - 4), s("title", {}, "a match"));
  const closed = state.closed_by.map((name) => plain(name, 40)).join(", ");
  return s("g", { class: closed ? "closed-by" : null }, circle(RADIUS), s("text", { x, y: y + 4, class: "mid" }, key),
    closed ? s("text", { x, y: y + 29, class: "mid small" }, cut(`not ${closed}`)) : null,
    s("title", {}, `state ${key}${closed ? `; closed by ${closed}` : ""}`));
}

const heads = () =>
  s("defs", {}, s("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, s("path", { d: "M0 0 8 4 0 8z", class: "arrow-head" })));

function wordsOf(states) {
  const said = states.map(({ takes, closed_by: closed, ends }, number) => {
    const ways = takes.map(({ element, to }) => `${plain(element, 40)} leads to ${to === null ? "a match" : `state ${to}`}`);
    if (closed.length) ways.push(`${closed.map((name) => plain(name, 40)).join(", ")} closes it`);
    if (ends) ways.push("the end of the window is a match");
    return ways.length ? [`State ${number}: ${ways.join("; ")}.`] : []; // a match has no state
  });
  return said.flat().join(" ");
}
