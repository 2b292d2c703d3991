// Nodes over time: the past is asked for once, news is added to it, and it is asked for anew now and
// then, since a window may have missed some.

import { byId, h } from "./dom.js";
import { chartOf, drawChart, KINDS } from "./chart.js";
import { get, recorded } from "./server.js";
import { plain } from "./text.js";

const MOST_AT_ONCE = 6;
const MOST_POINTS = 900;
const ANEW = 60000;
const FEW = "\u0000few"; // no node has this name
const ALL = "all"; // every kind of chart
const CURVES = ["mean", "p50", "p95", "p99", "rate", "kept_rate", "kept", "pressure", "busy", "load", "took"];
const home = byId("curves");
const kindPicker = byId("curves-kind");
const nodePicker = byId("curves-node");
const spanPicker = byId("curves-span");

const known = new Map(); // node -> {series, asked}
let charts = new Map();
let run = null;
let latest = null;

if (recorded) {
  kindPicker.value = ALL;
  spanPicker.value = [...spanPicker.options].at(-1).value;
  spanPicker.parentElement.hidden = true;
}
kindPicker.addEventListener("change", show);
nodePicker.addEventListener("change", show);
spanPicker.addEventListener("change", () => {
  known.clear();
  show();
});
new ResizeObserver(() => redraw()).observe(home);

export function startCurves(newRun) {
  run = newRun;
  known.clear();
  const names = Object.keys(run.nodes);
  const isFew = names.length <= MOST_AT_ONCE;
  const all = h("option", { value: FEW }, isFew ? "all" : "nearest to their bounds");
  nodePicker.replaceChildren(all, ...names.map((name) => h("option", { value: name }, plain(name, 40))));
  charts = new Map();
  nodePicker.closest(".bar").classList.toggle("bare", !names.length);
  if (!names.length) nothing("No node has started yet.");
  else show();
}

const nothing = (text) => home.replaceChildren(h("p", { class: "empty" }, text));

// Which nodes to show: those whose mean takes the largest part of their bound.
function chosen() {
  if (nodePicker.value !== FEW) return [nodePicker.value];
  const names = Object.keys(run.nodes);
  if (names.length <= MOST_AT_ONCE) return names;
  const used = (name) => {
    const node = latest?.nodes[name];
    return node?.bound ? (node.latency?.mean ?? 0) / node.bound : -1;
  };
  const shown = new Set([...charts.values()].map((chart) => chart.name));
  const sticky = (name) => (shown.has(name) ? 0.05 : 0); // so that charts do not swap places all the time
  return names.sort((a, b) => used(b) + sticky(b) - used(a) - sticky(a)).slice(0, MOST_AT_ONCE).sort();
}

// The kinds of charts to show; if the events were there before the run began, their latency says nothing, and a
// simulation may have no micro-batches.
function kinds() {
  if (kindPicker.value !== ALL) return [kindPicker.value];
  return Object.keys(KINDS).filter((kind) => (kind !== "latency" || run.timed) && (kind !== "took" || !run.simulated));
}

function show() {
  if (!run || !Object.keys(run.nodes).length) return;
  if (kindPicker.value === "latency" && !run.timed) {
    charts = new Map();
    return nothing("The events were there before the run began, so their latency says nothing.");
  }
  const names = chosen();
  const wanted = names.flatMap((name) => kinds().map((kind) => [`${kind} ${name}`, name, kind]));
  if (wanted.map(([key]) => key).join("\u0000") !== [...charts.keys()].join("\u0000")) {
    charts = new Map(wanted.map(([key, name, kind]) => [key, charts.get(key) ?? chartOf(name, kind)]));
    const isAll = kindPicker.value === ALL; // those of a node go together then
    const groups = Map.groupBy(charts.values(), (chart) => (isAll ? chart.name : ""));
    home.replaceChildren(...[...groups.values()].map((group) =>
      h("div", { class: isAll ? "charts small" : "charts" }, ...group.map((chart) => chart.element))));
  }
  for (const name of names) refresh(name);
  redraw();
}

async function refresh(name) {
  const old = known.get(name);
  if (old && Date.now() - old.asked < ANEW) return;
  const entry = { series: old?.series ?? emptySeries(name), asked: Date.now() };
  known.set(name, entry);
  try {
    const query = new URLSearchParams({ node: name, seconds: spanPicker.value });
    entry.series = await get(`/api/series?${query}`);
  } catch {
    entry.asked = Date.now() - ANEW + 5000; // news goes on being added; ask again soon
  }
  redraw();
}

function emptySeries(name) {
  const { bound, percentile } = run.nodes[name] ?? {};
  return { time: [], bound: bound ?? null, percentile: percentile ?? null, statuses: [], plans: [], ...Object.fromEntries(CURVES.map((key) => [key, []])) };
}

export function updateCurves(status) {
  latest = status;
  for (const [name, { series }] of known) add(series, status.nodes[name]);
  show();
}

// What is new of a node. When there was a new plan is asked for with the past.
function add(series, node) {
  if (!node) return;
  series.bound = node.bound;
  const status = series.statuses.at(-1)?.[1];
  const { point } = node;
  if (!point || point.time <= (series.time.at(-1) ?? 0)) return;
  if (status !== node.status) series.statuses.push([point.time, node.status]);
  for (const key of ["time", ...CURVES]) series[key].push(point[key]);
  if (series.time.length > MOST_POINTS) for (const key of ["time", ...CURVES]) series[key].shift();
}

function redraw() {
  const ends = [...known.values()].map(({ series }) => series.time.at(-1) ?? 0);
  const newest = Math.max(latest?.time ?? 0, ...ends);
  const starts = [...known.values()].map(({ series }) => series.time[0] ?? newest);
  const first = Math.min(newest - 30, ...starts);
  const asked = Number(spanPicker.value);
  const span = Math.min(asked, newest - first);
  const grain = recorded ? 1 : Math.max(5, Math.min(asked, 10 * span) / 120); // the time axis moves in small steps, not with every update
  const end = Math.ceil(newest / grain) * grain;
  const start = Math.max(end - span, first);
  const shown = [...charts.values()].filter((chart) => known.has(chart.name) && chart.element.isConnected);
  const widths = shown.map((chart) => chart.element.clientWidth); // all before any is drawn, so that there is one layout
  shown.forEach((chart, index) => drawChart(chart, known.get(chart.name).series, start, end, widths[index]));
}
