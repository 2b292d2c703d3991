// Labels of edges: each where it covers neither a card nor another label, and best no edge; else shorter;
// else none (the table below the graph has it). A label keeps its place while it can, so that it does
// not jump about.

import { s, setAttribute, setText } from "./dom.js";
import { along } from "./ribbon.js";
import { widthOf } from "./text.js";

const FONT = "11.5px system-ui, sans-serif";
const LINE = 14;
const PLACES = [0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78, 0.15, 0.85];
const AIR = 3;

export function placeLabels(edges, layout) {
  const boxes = [...layout.boxes.values()];
  const taken = [...layout.rects.values(), ...boxes.map(tag)];
  layout.dots ??= dotsOf(layout);
  for (const edge of edges) {
    const spot = edge.label.lines.length ? placeOf(edge, layout, taken, boxes) : null;
    show(edge.label, spot);
    if (spot) taken.push(spot.rect);
  }
}

function placeOf({ way, label }, layout, taken, boxes) {
  const shape = label.lines.flat().map((line) => line.length).join();
  if (label.hopeless === shape) return null; // there was no place for it, and what is around it stays
  const covered = [...taken, ...(way.isInside ? boxes.map(header) : boxes)];
  for (const lines of label.lines) {
    const width = Math.max(...lines.map((line) => widthOf(line, FONT))) + 2;
    const placed = (choice) => {
      const rect = rectOf(choice, way, lines, width, label.width, layout);
      return isWithin(rect, layout) && !covered.some((other) => overlap(rect, other)) ? rect : null;
    };
    const old = label.choice && placed(label.choice);
    if (old) return { lines, rect: old };
    const best = leastCrossed(choices(way), placed, layout.dots);
    label.choice = best?.choice;
    if (best) return { lines, rect: best.rect };
  }
  label.hopeless = shape;
  return null;
}

function leastCrossed(choices, placed, dots) {
  let best = null;
  for (const choice of choices) {
    const rect = placed(choice);
    if (!rect) continue;
    const crossed = dots.reduce((sum, dot) => sum + isIn(dot, rect), 0);
    if (!best || crossed < best.crossed) best = { choice, rect, crossed };
    if (!crossed) break;
  }
  return best;
}

function* choices(way) {
  for (let piece = 0; piece < way.points.length - 1; piece += 2) {
    for (const t of PLACES) for (const side of [-1, 1]) yield { piece, t, side };
  }
}

// Points along all edges, close enough that no label slips between two.
function dotsOf({ ways, isDown }) {
  const dots = [];
  for (const { points } of ways.values()) {
    for (let index = 1; index < points.length; index += 1) {
      const [start, end] = [points[index - 1], points[index]];
      const steps = Math.ceil((Math.abs(end.x - start.x) + Math.abs(end.y - start.y)) / 8);
      for (let step = 0; step <= steps; step += 1) dots.push(along(start, end, step / (steps || 1), isDown));
    }
  }
  return dots;
}

const isIn = (dot, { x, y, width, height }) => dot.x >= x && dot.x <= x + width && dot.y >= y && dot.y <= y + height;

// Next to the ribbon: above or below it; to its left or right where it goes down.
function rectOf({ piece, t, side }, way, lines, width, thick, { isDown }) {
  const { x, y } = along(way.points[piece], way.points[piece + 1], t, isDown);
  const height = LINE * lines.length;
  if (isDown) return { x: side > 0 ? x + thick / 2 + 4 : x - thick / 2 - 4 - width, y: y - height / 2, width, height };
  return { x: x - width / 2, y: side < 0 ? y - thick / 2 - 2 - height : y + thick / 2 + 2, width, height };
}

const header = ({ x, y, width }) => ({ x, y, width, height: 62 });

const tag = ({ x, y, width }) => ({ x: x + width - 78, y: y - 13, width: 72, height: 13 }); // where a bottleneck is marked

const overlap = (a, b) =>
  a.x < b.x + b.width + AIR && b.x < a.x + a.width + AIR && a.y < b.y + b.height + AIR && b.y < a.y + a.height + AIR;

const isWithin = (rect, { width, height }) =>
  rect.x >= 0 && rect.y >= 0 && rect.x + rect.width <= width && rect.y + rect.height <= height;

function show(label, spot) {
  setAttribute(label.group, "visibility", spot ? "visible" : "hidden");
  const lines = spot ? spot.lines : [];
  while (label.group.childElementCount < lines.length) label.group.append(s("text", { class: "mid" }));
  [...label.group.children].forEach((text, index) => {
    setText(text, lines[index] ?? "");
    if (!lines[index]) return;
    setAttribute(text, "x", (spot.rect.x + spot.rect.width / 2).toFixed(1));
    setAttribute(text, "y", (spot.rect.y + LINE * index + 11).toFixed(1));
    setAttribute(text, "class", lines[index].endsWith(" shed") ? "mid shed" : "mid");
  });
}
