// How busy a node is, as a step of the ladder of colours; the number always stands next to it.

import { s } from "./dom.js";
import { percent } from "./numbers.js";

const STEPS = [0.25, 0.5, 0.75, 0.9, 1.0005];
const LABELS = ["load < 25 %", "< 50 %", "< 75 %", "< 90 %", "≤ 100 %", "over its limit"];

export function loadLook(load) {
  if (load == null) return "load none";
  const step = STEPS.findIndex((most) => load < most);
  return `load load${step < 0 ? STEPS.length : step}`;
}

export const describeLoad = (load) => (load == null ? "load not known" : `load ${percent(load)} of its limit`);

export const loadKey = (item) =>
  LABELS.map((label, step) => item(label, s("rect", { x: 1, y: 0.5, width: 26, height: 11, rx: 2, class: `load load${step}` })));
