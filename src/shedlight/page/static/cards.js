// The boxes of nodes and the cards of sources, operators and sinks. Each drawing has an `update`.

import { s, setAttribute, setText } from "./dom.js";
import { shapeOf } from "./badge.js";
import { loadLook } from "./loads.js";
import { percent, rate, seconds, short } from "./numbers.js";
import { fitted, kindOf, lookOf, plain, widthOf } from "./text.js";

const BOLD = "600 13px system-ui, sans-serif";
const VALUE = "600 11.5px system-ui, sans-serif";
const SMALL = "11.5px system-ui, sans-serif";

const text = (x, y, look, content = "") => s("text", { x, y, class: look }, content);

// A node: a strip that says how busy it is, its status, its headroom. Its operators are drawn on its box,
// and edges that come from above go behind its header.
export function drawNode(name, { x, y, width, height }, isDown, { boxes, headers }) {
  const ring = s("rect", { x: x - 5, y: y - 5, width: width + 10, height: height + 10, rx: 11, class: "ring" });
  const tag = s("g", { class: "tag" },
    s("rect", { x: x + width - 78, y: y - 13, width: 72, height: 16, rx: 8 }),
    text(x + width - 42, y - 1.5, "mid", "bottleneck"));
  const strip = s("path", { d: `M${x} ${y + 26}v-19a7 7 0 0 1 7-7h${width - 14}a7 7 0 0 1 7 7v19z` });
  const label = text(x + 11, y + 17.5, "name");
  const load = text(x + width - 11, y + 17.5, "value end");
  const sign = s("path", { transform: `translate(${x + 11} ${y + 33}) scale(0.69)` });
  const statusName = text(x + 27, y + 42, "status-name");
  const spare = text(x + 11, y + 58, "small");
  const full = s("title");
  boxes.append(s("rect", { x, y, width, height, rx: 7, class: "box" }));
  const face = s("rect", { x: x + 0.5, y: y + 6, width: isDown ? width - 1 : Math.min(width - 1, 150), height: 57, class: "face" });
  headers.append(s("g", {}, face, strip, ring, tag, label, load, sign, statusName, spare, full));
  return {
    update(node, isBottleneck) {
      setAttribute(strip, "class", loadLook(node.load));
      const dark = node.load == null ? "" : ` on ${loadLook(node.load)}`;
      setAttribute(label, "class", `name${dark}`);
      setAttribute(load, "class", `value end${dark}`);
      const ways = loadWays(node);
      const room = (value) => width - 28 - widthOf(value, VALUE);
      const value = ways.find((way) => widthOf(plain(name), BOLD) <= room(way)) ?? ways.at(-1);
      setText(load, value);
      setText(label, fitted(name, room(value), BOLD));
      setAttribute(sign, "d", shapeOf(node.status));
      setAttribute(sign, "class", `sign ${lookOf(node.status)}`);
      setText(statusName, fitted(node.status ?? "", width - 40, BOLD));
      setText(spare, fittest(headroom(node), width - 22));
      for (const shape of [ring, tag]) shape.classList.toggle("shown", isBottleneck);
      setText(full, `${plain(name)}: ${headroom(node)[0]}${node.explanation ? `\n${plain(node.explanation)}` : ""}${node.advice ? `\n${plain(node.advice)}` : ""}`);
    },
  };
}

// How busy it is, from the longest to the shortest way to say it.
function loadWays({ load, bound }) {
  if (load == null) return bound == null ? ["no limit"] : ["load –"];
  return [`load ${percent(load)}`, percent(load)];
}

// How far its latency, the mean or a percentile, is from its bound, from the longest to the shortest way to say it.
function headroom({ bound, percentile, headroom: room, latency }) {
  if (bound == null) return latency?.mean == null ? ["no bound"] : [`no bound, mean ${seconds(latency.mean)}`, "no bound"];
  const whole = `${seconds(bound)} ${kindOf(percentile)}`;
  if (room == null) return [`bound ${whole}`, `bound ${seconds(bound)}`];
  if (room < 0) return [`${seconds(-room)} over its bound, ${whole}`, `${seconds(-room)} over its bound, ${seconds(bound)}`, `${seconds(-room)} over ${seconds(bound)}`];
  return [`headroom ${seconds(room)} of ${whole}`, `headroom ${seconds(room)} of ${seconds(bound)}`, `${seconds(room)} below ${seconds(bound)}`];
}

const fittest = (ways, width) => ways.find((way) => widthOf(way, SMALL) <= width) ?? fitted(ways.at(-1), width, SMALL);

function card(vertex, { x, y, width, height }, parent, ...parts) {
  const shape = s("rect", { x, y, width, height, rx: vertex.role === "operator" ? 5 : height / 2 > 22 ? 10 : height / 2, class: "card" });
  const group = s("g", { class: `vertex ${vertex.role}` }, shape, ...parts, s("title", {}, plain(vertex.name)));
  parent.append(group);
  return group;
}

export function drawOperator(vertex, rect, parent) {
  const middle = rect.y + rect.height / 2;
  const [title, parts] = [vertex.title ?? vertex.name, (vertex.members ?? vertex.patterns).join(", ")];
  const name = text(rect.x + 12, middle - 4, "name", fitted(title, rect.width - 24, BOLD));
  const what = text(rect.x + 12, middle + 13, "small", fitted(parts, rect.width - 24, SMALL));
  const group = card(vertex, rect, parent, name, what);
  group.lastChild.textContent = `${plain(title)}: ${plain(parts, 1000)}`;
  return { group, update() {} };
}

export function drawSource(vertex, rect, parent) {
  const middle = rect.y + rect.height / 2;
  const name = text(rect.x + 16, middle - 4, "name", fitted(vertex.name, rect.width - 30, BOLD));
  const amount = text(rect.x + 16, middle + 13, "small");
  const group = card(vertex, rect, parent, name, amount);
  return { group, update: (status, read) => setText(amount, read == null ? "no events yet" : rate(read)) };
}

// The share of results that shedding leaves, in per cent, as the unshed sample has it; its interval if there is room.
function recallOf(sample, width) {
  if (sample == null) return "";
  if (sample.recall == null) return "not known";
  const [value, low, high] = [sample.recall, sample.recall_low, sample.recall_high].map((x) => Math.round(100 * x));
  const whole = `${value}\u202f% (${low}–${high})`;
  return widthOf(whole, SMALL) <= width ? whole : `${value}\u202f%`;
}

// A sink: what the plan predicts and what is observed, as numbers and as bars on one scale, and recall.
export function drawSink(vertex, rect, parent) {
  const [left, right, top] = [rect.x + 14, rect.x + rect.width - 14, rect.y + rect.height / 2 - 41];
  const weight = `weight ${short(vertex.weight)}`;
  const bar = (y, look) => s("rect", { x: left + 62, y, width: 0, height: 7, rx: 1.5, class: look });
  const rows = [
    { bar: bar(top + 32.5, "foreseen"), value: text(right, top + 40, "value end") },
    { bar: bar(top + 48.5, "observed"), value: text(right, top + 56, "value end") },
  ];
  const share = text(right, top + 20, "small end", weight);
  const [label, recall] = [text(left, top + 72, "small"), text(right, top + 72, "small end")];
  const name = text(left, top + 20, "name", fitted(vertex.name, rect.width - 38 - widthOf(weight, SMALL), BOLD));
  const group = card(vertex, rect, parent, name, share,
    text(left, top + 40, "small", "predicted"), text(left, top + 56, "small", "observed"), label, recall,
    ...rows.flatMap((row) => [row.bar, row.value]));
  const room = rect.width - 28 - 62 - 56 < 12 ? 0 : rect.width - 28 - 62 - 56; // too narrow: numbers alone
  return {
    group,
    update(status) {
      const { predicted, observed, weight: current, unshed_sample: sample } = status.sinks[vertex.name] ?? {};
      setText(label, sample == null ? "" : "recall");
      setText(recall, recallOf(sample, rect.width - 32 - widthOf("recall", SMALL)));
      if (current != null) setText(share, `weight ${short(current)}`);
      const most = Math.max(predicted ?? 0, observed ?? 0);
      [predicted, observed].forEach((value, index) => {
        setText(rows[index].value, rate(value));
        setAttribute(rows[index].bar, "width", most ? (room * (value ?? 0)) / most : 0);
      });
    },
  };
}
