// A status as a word with a sign whose shape says the same as its colour.

import { h, s } from "./dom.js";
import { lookOf, plain, rankOf } from "./text.js";

const SHAPES = [
  "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Z", // OK: a disc
  "M8 15 1 3h14Z", // SHEDDING: a funnel
  "M8 1 15 14H1Z", // BOUND-AT-RISK: a warning
  "M3.2 1 8 5.8 12.8 1 15 3.2 10.2 8 15 12.8 12.8 15 8 10.2 3.2 15 1 12.8 5.8 8 1 3.2Z", // INFEASIBLE: a cross
];
const OTHER = "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11Zm0 3a2.5 2.5 0 1 1 0 5a2.5 2.5 0 0 1 0-5Z";

export const shapeOf = (status) => SHAPES[rankOf(status)] ?? OTHER;

export function badge(status) {
  const sign = s("path", { d: shapeOf(status), class: `sign ${lookOf(status)}` });
  return h("span", { class: "badge" }, s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, sign), plain(status, 30));
}
