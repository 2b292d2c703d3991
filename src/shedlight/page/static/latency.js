// Latency per node: the past is asked for once, news is added to it, and it is asked for anew now and
// then, since a window may have missed some.

import { byId, h } from "./dom.js";
import { chartOf, drawChart, LINES } from "./chart.js";
import { get } from "./server.js";
import { plain } from "./text.js";

const MOST_AT_ONCE = 6;
const MOST_POINTS = 600;
const ANEW = 60000;
const FEW = "\u0000few"; // no node has this name
const home = byId("latency");
const nodePicker = byId("latency-node");
const spanPicker = byId("latency-span");

const known = new Map(); // node -> {series, asked}
let charts = new Map();
let run = null;
let latest = null;

nodePicker.addEventListener("change", show);
spanPicker.addEventListener("change", () => {
  known.clear();
  show();
});
new ResizeObserver(() => redraw()).observe(home);

export function startLatency(newRun) {
  run = newRun;
  known.clear();
  const names = Object.keys(run.nodes);
  const isFew = names.length <= MOST_AT_ONCE;
  const all = h("option", { value: FEW }, isFew ? "all" : "nearest to their bounds");
  nodePicker.replaceChildren(all, ...names.map((name) => h("option", { value: name }, plain(name, 40))));
  charts = new Map();
  nodePicker.closest(".bar").classList.toggle("bare", !names.length || !run.timed);
  if (!run.timed) nothing("The events were there before the run began, so their latency says nothing.");
  else if (!names.length) nothing("No node has started yet.");
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
  const sticky = (name) => (charts.has(name) ? 0.05 : 0); // so that charts do not swap places all the time
  return names.sort((a, b) => used(b) + sticky(b) - used(a) - sticky(a)).slice(0, MOST_AT_ONCE).sort();
}

function show() {
  if (!run?.timed || !Object.keys(run.nodes).length) return;
  const names = chosen();
  if (names.join("\u0000") !== [...charts.keys()].join("\u0000")) {
    charts = new Map(names.map((name) => [name, charts.get(name) ?? chartOf(name)]));
    home.replaceChildren(...[...charts.values()].map((chart) => chart.element));
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
    entry.series = await get(`/api/latency?${query}`);
  } catch {
    entry.asked = Date.now() - ANEW + 5000; // news goes on being added; ask again soon
  }
  redraw();
}

const emptySeries = (name) => ({ time: [], mean: [], p50: [], p95: [], p99: [], bound: run.nodes[name]?.bound ?? null, percentile: run.nodes[name]?.percentile ?? null });

export function updateLatency(status) {
  latest = status;
  if (!run?.timed) return;
  for (const [name, { series }] of known) add(series, status.time, status.nodes[name]);
  show();
}

function add(series, time, node) {
  if (!node) return;
  series.bound = node.bound;
  const last = series.time.length - 1;
  const isNew = last < 0 || (time > series.time[last] && Object.keys(LINES).some((key) => (node.latency[key] ?? null) !== series[key][last]));
  if (!isNew || node.latency.mean == null) return;
  series.time.push(time);
  for (const key of Object.keys(LINES)) series[key].push(node.latency[key] ?? null);
  if (series.time.length > MOST_POINTS) for (const list of [series.time, series.mean, series.p50, series.p95, series.p99]) list.shift();
}

function redraw() {
  const ends = [...known.values()].map(({ series }) => series.time.at(-1) ?? 0);
  const newest = Math.max(latest?.time ?? 0, ...ends);
  const starts = [...known.values()].map(({ series }) => series.time[0] ?? newest);
  const span = Number(spanPicker.value);
  const grain = span / 120; // the time axis moves in small steps, not with every update
  const end = Math.ceil(newest / grain) * grain;
  const start = Math.max(end - span, Math.min(newest - 30, ...starts));
  for (const [name, chart] of charts) {
    if (known.has(name) && chart.element.isConnected) drawChart(chart, known.get(name).series, start, end);
  }
}
