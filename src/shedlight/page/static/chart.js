// The latency of a node over time: four lines, each with a dash of its own, against the bound. With the
// pointer or the arrow keys a time is chosen, and the legend has its values.

import { h, s, setAttribute, setText } from "./dom.js";
import { clock, seconds, short } from "./numbers.js";
import { chooseMoment } from "./moment.js";
import { niceStep, timeStep } from "./scale.js";
import { kindOf, plain } from "./text.js";

export const LINES = { p99: "line2", p95: "line1", p50: "line0", mean: "line5" };
const [LEFT, RIGHT, TOP, BOTTOM, HEIGHT] = [48, 8, 8, 22, 160];

export function chartOf(name) {
  const svg = s("svg", { height: HEIGHT, tabindex: 0, role: "img" });
  const values = {};
  const legend = h("dl", { class: "legend" });
  for (const key of ["mean", "p50", "p95", "p99"]) {
    values[key] = h("dd");
    const stroke = s("line", { class: LINES[key], x1: 0, x2: 20, y1: 4, y2: 4 });
    legend.append(h("div", {}, h("dt", {}, s("svg", { viewBox: "0 0 20 8", "aria-hidden": "true" }, stroke), key), values[key]));
  }
  values.bound = h("dd");
  const stroke = s("line", { class: "limit", x1: 0, x2: 20, y1: 4, y2: 4 });
  legend.append(h("div", {}, h("dt", {}, s("svg", { viewBox: "0 0 20 8", "aria-hidden": "true" }, stroke), "bound"), values.bound));
  const when = h("span", { class: "when" });
  const title = h("figcaption", {}, plain(name, 60), when);
  const curves = {};
  for (const [key, look] of Object.entries(LINES)) curves[key] = s("path", { class: look });
  const limit = s("line", { class: "limit" });
  const cursor = s("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  const empty = s("text", { class: "mid", y: HEIGHT / 2 });
  const axes = s("g");
  svg.append(axes, ...Object.values(curves), limit, empty, cursor);
  const chart = { name, svg, values, when, curves, limit, cursor, empty, axes, chosen: null, series: null, element: h("figure", {}, title, svg, legend) };
  listen(chart);
  return chart;
}

// Draw {time, mean, p50, p95, p99, bound} from one time to another. Axes are made anew only when they
// differ, which they do every few seconds; of a line only its path is set.
export function drawChart(chart, series, start, end) {
  const width = Math.max(220, Math.floor(chart.element.clientWidth - 2));
  const drawn = [series.time.length, series.time.at(-1), series.bound, start, end, width].join();
  if (chart.series === series && chart.drawn === drawn) return;
  [chart.series, chart.drawn] = [series, drawn];
  const known = Object.keys(LINES).flatMap((key) => series[key].filter((value) => value != null));
  const most = Math.max(known.length ? Math.max(...known) : 0, (series.bound ?? 0) * 1.1) || 1;
  const step = niceStep(most);
  const top = step * Math.ceil(most / step - 1e-9);
  const x = (time) => LEFT + Math.min(1, Math.max(0, (time - start) / (end - start || 1))) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - Math.min(1, value / top) * (HEIGHT - TOP - BOTTOM);
  chart.scale = { x, y, width };
  const frame = [width, step, top, start, end].join();
  if (chart.frame !== frame) {
    chart.frame = frame;
    setAttribute(chart.svg, "viewBox", `0 0 ${width} ${HEIGHT}`);
    chart.axes.replaceChildren(...axes(x, y, step, top, start, end, width));
  }
  for (const key of Object.keys(LINES)) setAttribute(chart.curves[key], "d", curve(series.time, series[key], x, y));
  drawLimit(chart, series.bound);
  setAttribute(chart.empty, "x", (LEFT + width) / 2);
  setText(chart.empty, known.length ? "" : "no event with a latency yet");
  setAttribute(chart.svg, "aria-label", describe(chart.name, series));
  tell(chart);
}

function drawLimit({ limit, scale }, bound) {
  setAttribute(limit, "visibility", bound == null ? "hidden" : "visible");
  if (bound == null) return;
  const level = scale.y(bound).toFixed(1);
  for (const [name, value] of [["x1", LEFT], ["x2", scale.width - RIGHT], ["y1", level], ["y2", level]]) setAttribute(limit, name, value);
}

function describe(name, series) {
  const last = series.time.length - 1;
  const latest = last < 0 ? "nothing yet" : `mean ${seconds(series.mean[last])}, p99 ${seconds(series.p99[last])}`;
  const bound = series.bound == null ? "no bound" : `bound ${seconds(series.bound)} ${kindOf(series.percentile)}`;
  return `Latency of ${plain(name, 60)} over time: ${latest}; ${bound}. Arrow keys choose a time, Enter shows the keep shares of then.`;
}

function* axes(x, y, step, top, start, end, width) {
  for (let number = 0; number <= Math.round(top / step); number += 1) {
    const level = y(number * step);
    yield s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: level, y2: level });
    const label = top < 1 ? `${short(1000 * number * step)} ms` : `${short(number * step)} s`;
    yield s("text", { x: LEFT - 5, y: level + 4, class: "end" }, number ? label : "0");
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
  const last = series.time.length - 1;
  const index = chosen == null ? last : Math.min(chosen, last);
  for (const key of Object.keys(LINES)) setText(chart.values[key], index < 0 ? "–" : seconds(series[key][index]));
  setText(chart.values.bound, series.bound == null ? "none" : `${seconds(series.bound)} ${kindOf(series.percentile)}`);
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
