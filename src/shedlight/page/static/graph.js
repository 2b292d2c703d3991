// The operator graph. It is laid out when the run or the width changes; a new status only changes texts,
// widths and looks of what is there.

import { byId, h, s, setAttribute, setText } from "./dom.js";
import { ribbon } from "./ribbon.js";
import { placeLabels } from "./labels.js";
import { layoutOf } from "./layout.js";
import { drawNode, drawOperator, drawSink, drawSource } from "./cards.js";
import { collapsed } from "./collapse.js";
import { keyOfRow, topologyOf } from "./topology.js";
import { loadKey, describeLoad } from "./loads.js";
import { showPatterns } from "./patterns.js";
import { plural, plain } from "./text.js";
import { percent } from "./numbers.js";

const NARROW = 640;
const TALL = 0.85; // of the window; a graph that is larger scrolls, or is shown whole and small
const LARGE = 40; // cards
const PAUSE = 1900; // milliseconds
const home = byId("graph");

let run = null;
let picture = null;
let latest = null;
let drawnFor = 0;
let updated = 0; // when the picture got its numbers last
let timer = 0;

export function startGraph(newRun) {
  run = newRun;
  if (!byId("graph-key").firstChild) byId("graph-key").append(...keyRows());
  draw();
  byId("graph-nodes").onchange = draw;
  byId("graph-whole").onchange = (event) => home.classList.toggle("whole", event.target.checked);
  if (!startGraph.watched) new ResizeObserver(() => widthOf() !== drawnFor && draw()).observe(home);
  startGraph.watched = true;
}

const widthOf = () => Math.floor(home.clientWidth);

function draw() {
  if (!run) return;
  drawnFor = widthOf();
  const { topology, rowsOf } = chosen();
  byId("graph-key").hidden = byId("graph-tables").hidden = !topology.vertices.size;
  if (!topology.vertices.size) {
    home.replaceChildren(h("p", { class: "empty" }, "The log does not say what is run; the graph appears once it does."));
    picture = null;
    return;
  }
  const layout = layoutOf(topology, drawnFor, drawnFor < NARROW);
  picture = { ...pictureOf(topology, layout), rowsOf };
  home.replaceChildren(picture.svg);
  const fits = layout.width <= drawnFor && layout.height <= TALL * window.innerHeight;
  byId("graph-whole").closest("label").hidden = fits;
  home.classList.toggle("large", !fits);
  startFinder(topology.vertices);
  showSources(topology.vertices, layout);
  if (latest) updateGraph(latest);
}

// The graph with all operators or, where there are many and it is asked for, with the nodes.
function chosen() {
  const topology = topologyOf(run);
  const byNode = topology.vertices.size < MANY ? null : collapsed(run);
  const choice = byId("graph-nodes");
  choice.closest("label").hidden = byNode === null;
  const rowsOf = (status) => new Map(status.edges.map((row) => [keyOfRow(run, row), row]));
  return byNode !== null && choice.checked ? byNode : { topology, rowsOf };
}

const MANY = 20; // vertices; fewer are found by looking

// Find an operator, a source or a sink by a part of its name: those that have it are marked, the first is scrolled to.
function startFinder(vertices) {
  const finder = byId("graph-find");
  finder.parentElement.hidden = vertices.size < MANY;
  const every = [...vertices.values()].map(({ key, name, members }) => ({ key, names: members ?? [name] }));
  byId("graph-names").replaceChildren(...every.flatMap(({ names }) => names).map((name) => h("option", { value: plain(name, 80) })));
  finder.oninput = () => {
    const wanted = finder.value.trim().toLowerCase();
    const found = every.filter(({ names }) => wanted && names.some((name) => name.toLowerCase().includes(wanted))).map(({ key }) => key);
    for (const [key, { group }] of picture.cards) group.classList.toggle("found", found.includes(key));
    if (found.length) scrollTo(picture.layout.rects.get(found[0]));
  };
}

// A graph that is larger than its window begins where events come in.
function showSources(vertices, layout) {
  const source = [...vertices.values()].find(({ role }) => role === "source");
  if (source && !showSources.done) scrollTo(layout.rects.get(source.key));
  showSources.done = Boolean(source);
}

function scrollTo({ x, y, width, height }) {
  home.scrollLeft = x + width / 2 - home.clientWidth / 2;
  home.scrollTop = y + height / 2 - home.clientHeight / 2;
}

function pictureOf({ vertices }, layout) {
  const title = s("title", { id: "graph-name" });
  const text = s("desc", { id: "graph-text" });
  const layers = { boxes: s("g"), edges: s("g"), headers: s("g"), cards: s("g"), labels: s("g", { class: "labels" }) };
  const nodes = new Map();
  for (const [name, rect] of layout.boxes) nodes.set(name, drawNode(name, rect, layout.isDown, layers));
  const edges = new Map();
  for (const [key, way] of layout.ways) edges.set(key, ribbon(way, layout.isDown, layout.ways.size, layers));
  const cards = new Map();
  const makers = { source: drawSource, operator: drawOperator, sink: drawSink };
  for (const vertex of vertices.values()) {
    const card = makers[vertex.role](vertex, layout.rects.get(vertex.key), layers.cards);
    card.group.addEventListener("pointerenter", () => highlight(vertex.key));
    card.group.addEventListener("pointerleave", () => highlight(null));
    if (vertex.role === "operator" && !vertex.members) letChoose(card.group, vertex);
    cards.set(vertex.key, card);
  }
  const svg = s(
    "svg",
    { width: layout.width, height: layout.height, viewBox: `0 0 ${layout.width} ${layout.height}`, role: "group", "aria-labelledby": "graph-name graph-text" },
    title, text, hatch(), layers.boxes, layers.edges, layers.headers, layers.cards, layers.labels,
  );
  return { svg, title, text, nodes, edges, cards, layout };
}

// The patterns of an operator are a click away, or Enter where its card has the focus.
function letChoose(group, { name, patterns }) {
  const choose = () => showPatterns(name, patterns);
  for (const [key, value] of [["tabindex", 0], ["role", "button"], ["aria-label", `What ${plain(name, 80)} looks for`]]) group.setAttribute(key, value);
  group.addEventListener("click", choose);
  group.addEventListener("keydown", (event) => event.key === "Enter" && choose());
}

function hatch() {
  const bar = s("path", { d: "M-1 1 1-1M0 6 6 0M5 7 7 5", class: "hatching" });
  return s("defs", {}, s("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, bar));
}

// Show what goes in and out of a vertex by dimming the rest.
function highlight(key) {
  picture.svg.classList.toggle("dimmed", key !== null);
  for (const { way, group, label } of picture.edges.values()) {
    const isNear = key !== null && (way.edge.from === key || way.edge.to === key);
    group.classList.toggle("near", isNear);
    label.group.classList.toggle("near", isNear);
  }
}

// A large graph costs most to update, and nobody reads all of it: it is every other second.
export function updateGraph(status) {
  latest = status;
  clearTimeout(timer);
  const wait = picture?.isDrawn && picture.cards.size > LARGE ? updated + PAUSE - performance.now() : 0;
  if (wait > 0) timer = setTimeout(() => fill(latest), wait);
  else fill(status);
}

function fill(status) {
  if (!picture) return;
  updated = performance.now();
  picture.isDrawn = true;
  for (const [name, drawing] of picture.nodes) drawing.update(status.nodes[name] ?? {}, status.bottleneck === name);
  const rows = picture.rowsOf(status);
  const most = Math.max(1e-9, ...[...rows.values()].map((row) => row.rate ?? 0));
  const sources = new Map();
  for (const [key, edge] of picture.edges) {
    const row = rows.get(key) ?? { rate: null, shed_share: 0 };
    edge.update(row, most);
    const { from } = edge.way.edge;
    if (row.rate != null) sources.set(from, Math.max(sources.get(from) ?? 0, row.rate));
  }
  for (const [key, card] of picture.cards) card.update(status, sources.get(key));
  placeLabels([...picture.edges.values()], picture.layout);
  describe(status);
}

// What the picture shows, in words, for those who do not see it; the tables below have the numbers.
function describe(status) {
  const { operators, sources, sinks, nodes } = run;
  const number = (what, noun) => plural(Object.keys(what).length, noun);
  setText(picture.title, `${plain(run.application, 80)}: ${number(sources, "source")}, ${number(operators, "operator")} on ${number(nodes, "node")}, ${number(sinks, "sink")}`);
  const texts = Object.entries(status.nodes).map(([name, node]) => {
    const shed = node.shed_share > 0 ? `, ${percent(node.shed_share)} shed` : "";
    return `${plain(name, 80)} is ${plain(node.status, 30)}, ${describeLoad(node.load)}${shed}${status.bottleneck === name ? ", the bottleneck" : ""}`;
  });
  setText(picture.text, `${texts.join("; ")}.`);
  setAttribute(home, "data-plan", status.plan);
}

function keyRows() {
  const drawing = (...parts) => s("svg", { viewBox: "0 0 28 12", "aria-hidden": "true" }, ...parts);
  const item = (text, ...parts) => h("li", {}, drawing(...parts), text);
  return [
    ...loadKey(item),
    item("width: events/s", s("path", { d: "M1 6h26", class: "kept", "stroke-width": 5 })),
    item("shed before matching, counted for each pattern", s("path", { d: "M1 6h26", class: "lost", "stroke-width": 8 })),
    item("no events now", s("g", { class: "edge idle" }, s("path", { d: "M1 6h26", class: "kept", "stroke-width": 1 }))),
    item("bottleneck", s("rect", { x: 3, y: 1.5, width: 22, height: 9, rx: 3, class: "ring shown" })),
  ];
}
