// A node over time: a kind of chart for its latency, its rates, what it keeps, its load and its micro-batches. Each line
// has a dash of its own and an entry in the legend. With the pointer or the arrow keys a time is chosen, and the legend
// has its values.

import { h, s, setAttribute, setText } from "./dom.js";
import { clock, percent, rate, seconds, short } from "./numbers.js";
import { chooseMoment } from "./moment.js";
import { niceStep, timeStep } from "./scale.js";
import { kindOf, lookOf, plain } from "./text.js";

const [LEFT, RIGHT, TOP, BOTTOM, HEIGHT] = [48, 8, 16, 22, 164];
const MOST_MARKS = 60; // new plans; of more, the times say nothing

const ofTime = (step) => (value, top) => (top < 1 ? `${short(1000 * step * value)} ms` : `${short(step * value)} s`);
const times = { says: seconds, axis: ofTime, top: 0 };
const shares = { says: percent, axis: (step) => (value) => percent(step * value), top: 1 };

// Lines are {name of the curve: [what it is, how it looks]}, the most important first; it is drawn last.
export const KINDS = {
  latency: {
    ...times, title: "latency", empty: "no event with a latency yet",
    lines: { mean: ["mean", "line5"], p50: ["p50", "line0"], p95: ["p95", "line1"], p99: ["p99", "line2"] },
    limit: (series) => series.bound,
    limitName: "bound",
    sayLimit: ({ bound, percentile }) => (bound == null ? "none" : `${seconds(bound)} ${kindOf(percentile)}`),
  },
  events: {
    says: rate, axis: (step) => (value) => short(step * value), top: 0, title: "events per second", empty: "no events yet",
    lines: { kept_rate: ["kept", "line2"], rate: ["read", "line0"] },
  },
  kept: {
    ...shares, title: "relevant events kept", empty: "no relevant event yet",
    lines: { kept: ["kept", "line6"], pressure: ["shares of the plan lowered to", "line4"] },
  },
  load: {
    ...shares, title: "load", empty: "no load known yet",
    lines: { load: ["busy time, of its limit", "line2"], busy: ["time in micro-batches", "line0"] },
    limit: (series) => (series.load.some((value) => value != null) ? 1 : null),
    limitName: "limit",
    sayLimit: () => percent(1),
  },
  took: { ...times, title: "duration of a micro-batch", empty: "no micro-batch yet", lines: { took: ["took", "line6"] } },
};

const swatch = (shape) => s("svg", { viewBox: "0 0 20 8", "aria-hidden": "true" }, shape);
const entry = (shape, name, ...value) => h("div", {}, h("dt", {}, swatch(shape), name), ...value);

export function chartOf(name, kind) {
  const { lines, title, limit: hasLimit, limitName } = KINDS[kind];
  const svg = s("svg", { height: HEIGHT, tabindex: 0, role: "img" });
  const [values, entries, curves] = [{}, {}, {}];
  for (const [key, [label, look]] of Object.entries(lines)) {
    values[key] = h("dd");
    entries[key] = entry(s("line", { class: look, x1: 0, x2: 20, y1: 4, y2: 4 }), label, values[key]);
    curves[key] = s("path", { class: look });
  }
  values.limit = h("dd");
  if (hasLimit) entries.limit = entry(s("line", { class: "limit", x1: 0, x2: 20, y1: 4, y2: 4 }), limitName, values.limit);
  entries.marks = entry(s("line", { class: "mark", x1: 10, x2: 10, y1: 0, y2: 8 }), "new plan");
  const when = h("span", { class: "when" });
  const caption = h("figcaption", {}, h("span", {}, plain(name, 60), " ", h("span", { class: "kind" }, title)), when);
  const [limit, marks] = [s("line", { class: "limit" }), s("path", { class: "mark" })];
  const cursor = s("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  const empty = s("text", { class: "mid", y: HEIGHT / 2 });
  const [axes, band, statuses] = [s("g"), s("g"), h("div", { class: "statuses" })];
  svg.append(axes, band, marks, ...Object.values(curves).reverse(), limit, empty, cursor);
  const element = h("figure", {}, caption, svg, h("dl", { class: "legend" }, ...Object.values(entries)), statuses);
  const chart = { name, kind, svg, values, entries, when, curves, limit, marks, cursor, empty, axes, band, statuses, chosen: null, series: null, element };
  listen(chart);
  return chart;
}

// Draw the series of a node from one time to another. Axes are made anew only when they
// differ, which they do every few seconds; of a line only its path is set.
export function drawChart(chart, series, start, end, room) {
  const { lines, top: least, limit, axis } = KINDS[chart.kind];
  const width = Math.max(220, Math.floor(room - 2));
  const bound = limit?.(series) ?? null;
  const drawn = [series.time.length, series.time.at(-1), bound, start, end, width, series.plans.length, series.statuses.length].join();
  if (chart.series === series && chart.drawn === drawn) return;
  [chart.series, chart.drawn] = [series, drawn];
  const known = Object.keys(lines).flatMap((key) => series[key].filter((value) => value != null));
  const most = known.reduce((a, b) => Math.max(a, b), Math.max(least, (bound ?? 0) * 1.1)) || 1;
  const step = niceStep(most);
  const top = step * Math.max(1, Math.ceil(most / step - 1e-9));
  const x = (time) => LEFT + Math.min(1, Math.max(0, (time - start) / (end - start || 1))) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - Math.min(1, Math.max(0, value / top)) * (HEIGHT - TOP - BOTTOM);
  chart.scale = { x, y, width };
  const frame = [width, step, top, start, end].join();
  if (chart.frame !== frame) {
    chart.frame = frame;
    setAttribute(chart.svg, "viewBox", `0 0 ${width} ${HEIGHT}`);
    chart.axes.replaceChildren(...axes(x, y, step, top, start, end, width, axis(step)));
  }
  for (const key of Object.keys(lines)) {
    setAttribute(chart.curves[key], "d", curve(series.time, series[key], x, y));
    chart.entries[key].hidden = known.length > 0 && series[key].every((value) => value == null);
  }
  drawLimit(chart, bound);
  drawMarks(chart, series.plans.filter((time) => time >= start && time <= end));
  if (chart.kind === "latency") drawStatuses(chart, series.statuses, start, end);
  setAttribute(chart.empty, "x", (LEFT + width) / 2);
  setText(chart.empty, known.length ? "" : KINDS[chart.kind].empty);
  setAttribute(chart.svg, "aria-label", describe(chart, series));
  tell(chart);
}

function drawLimit({ limit, scale, kind, entries }, bound) {
  setAttribute(limit, "visibility", bound == null ? "hidden" : "visible");
  if (entries.limit) entries.limit.hidden = bound == null && kind !== "latency";
  if (bound == null) return;
  const level = scale.y(bound).toFixed(1);
  for (const [name, value] of [["x1", LEFT], ["x2", scale.width - RIGHT], ["y1", level], ["y2", level]]) setAttribute(limit, name, value);
}

// The times of new plans, unless there are too many to tell apart.
function drawMarks({ marks, scale, entries }, plans) {
  const shown = plans.length <= MOST_MARKS ? plans : [];
  entries.marks.hidden = !shown.length;
  setAttribute(marks, "d", shown.map((time) => `M${scale.x(time).toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`).join(""));
}

// A band above the latency: which status the node had.
function drawStatuses({ band, scale, statuses: legend }, statuses, start, end) {
  const shown = statuses.map(([from, status], index) => [Math.max(start, from), Math.min(end, statuses[index + 1]?.[0] ?? end), status]).filter(([from, to]) => to > from);
  band.replaceChildren(...shown.map(([from, to, status]) =>
    s("rect", { class: `sign ${lookOf(status)}`, x: scale.x(from).toFixed(1), y: 3, width: Math.max(1, scale.x(to) - scale.x(from)).toFixed(1), height: 7 }, s("title", {}, `${plain(status, 30)} from ${clock(from)}`))));
  const names = [...new Set(shown.map(([, , status]) => status))];
  const key = names.join("\u0000");
  if (legend.dataset.shown === key) return;
  legend.dataset.shown = key;
  const sign = (status) => swatch(s("rect", { class: `sign ${lookOf(status)}`, x: 2, y: 0.5, width: 16, height: 7 }));
  legend.replaceChildren(...names.map((status) => h("span", {}, sign(status), plain(status, 30))));
}

function describe({ name, kind }, series) {
  const { lines, says, title, limit, limitName, sayLimit } = KINDS[kind];
  const last = series.time.length - 1;
  const latest = Object.entries(lines).map(([key, [label]]) => `${label} ${says(series[key][last])}`).join(", ");
  const bound = limit ? `; ${limitName} ${sayLimit(series)}` : "";
  return `${title[0].toUpperCase()}${title.slice(1)} of ${plain(name, 60)} over time: ${last < 0 ? "nothing yet" : latest}${bound}. Arrow keys choose a time, Enter shows the keep shares of then.`;
}

function* axes(x, y, step, top, start, end, width, label) {
  for (let number = 0; number <= Math.round(top / step); number += 1) {
    const level = y(number * step);
    yield s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: level, y2: level });
    yield s("text", { x: LEFT - 5, y: level + 4, class: "end" }, number ? label(number, top) : "0");
  }
  const room = (each) => timeStep(end - start, Math.max(2, Math.floor((width - LEFT) / each)));
  const ticks = room(52) < 60 ? room(78) : room(52); // with seconds a label is longer
  const offset = new Date(end * 1000).getTimezoneOffset() * 60;
  for (let time = Math.ceil((start - offset) / ticks) * ticks + offset; time <= end; time += ticks) {
    const left = x(time);
    if (left < LEFT + 22 || left > width - RIGHT - 22) continue;
    yield s("line", { class: "axis", x1: left, x2: left, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 });
    yield s("text", { x: left, y: HEIGHT - 5, class: "mid" }, ticks < 60 ? clock(time) : clock(time).slice(0, 5));
  }
}

// A point that stands alone is drawn as a short dash.
function curve(time, values, x, y) {
  let d = "";
  values.forEach((value, index) => {
    if (value == null) return;
    const [left, level] = [x(time[index]), y(value).toFixed(1)];
    const isAlone = values[index - 1] == null && values[index + 1] == null;
    d += values[index - 1] == null ? `M${left.toFixed(1)} ${level}` : `L${left.toFixed(1)} ${level}`;
    if (isAlone) d += "h3";
  });
  return d;
}

// Say how it was at the time chosen, or how it is.
function tell(chart) {
  const { series, chosen } = chart;
  const { lines, says, limit, sayLimit } = KINDS[chart.kind];
  const last = series.time.length - 1;
  const index = chosen == null ? last : Math.min(chosen, last);
  for (const key of Object.keys(lines)) setText(chart.values[key], index < 0 ? "–" : says(series[key][index]));
  if (limit) setText(chart.values.limit, sayLimit(series));
  setText(chart.when, chosen == null || index < 0 ? "" : `at ${clock(series.time[index])}`);
  if (chosen != null && index >= 0) {
    setAttribute(chart.cursor, "x1", chart.scale.x(series.time[index]));
    setAttribute(chart.cursor, "x2", chart.scale.x(series.time[index]));
  }
  setAttribute(chart.cursor, "visibility", chosen == null || index < 0 ? "hidden" : "visible");
}

function listen(chart) {
  const choose = (index) => {
    chart.chosen = index;
    if (chart.series) tell(chart);
  };
  chart.svg.addEventListener("pointermove", (event) => {
    if (!chart.series?.time.length) return;
    const box = chart.svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * chart.scale.width;
    const off = chart.series.time.map((time) => Math.abs(chart.scale.x(time) - at));
    choose(off.indexOf(Math.min(...off)));
  });
  const show = () => chart.chosen != null && chooseMoment(chart.series.time[chart.chosen]);
  chart.svg.addEventListener("click", show);
  chart.svg.addEventListener("pointerleave", () => choose(null));
  chart.svg.addEventListener("blur", () => choose(null));
  chart.svg.addEventListener("keydown", (event) => {
    const last = (chart.series?.time.length ?? 0) - 1;
    const index = chart.chosen ?? last;
    if (event.key === "Enter") show();
    const next = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: last, Escape: null }[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    choose(next === null ? null : Math.min(last, Math.max(0, next)));
  });
}
