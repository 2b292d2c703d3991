// A number that can be dragged or typed: a slider with a field next to it, on a scale of ratios or not.

import { h } from "./dom.js";

const STEPS = 200;
let made = 0;

// `value()` is the number, or null if what is typed is none; `set` changes both without a call of onChange.
export function control({ label, unit, value, least, most, isRatio, onChange }) {
  made += 1;
  const id = `control-${made}`;
  const toPosition = (number) =>
    isRatio ? (STEPS * Math.log(Math.max(number, least) / least)) / Math.log(most / least) : (STEPS * (number - least)) / (most - least);
  const toNumber = (position) => {
    const number = isRatio ? least * (most / least) ** (position / STEPS) : least + ((most - least) * position) / STEPS;
    return Number(number.toPrecision(isRatio ? 2 : 3));
  };
  const slider = h("input", { type: "range", min: 0, max: STEPS, step: 1, "aria-label": `${label}${unit ? `, in ${unit}` : ""}, roughly` });
  const field = h("input", { type: "number", id, min: 0, step: "any", required: true, inputmode: "decimal" });
  const numberOf = () => (field.value.trim() === "" || !Number.isFinite(field.valueAsNumber) || field.valueAsNumber < 0 ? null : field.valueAsNumber);
  const set = (number) => {
    field.value = Number(number.toPrecision(6));
    slider.value = toPosition(number);
    announceValue();
  };
  const announceValue = () => slider.setAttribute("aria-valuetext", `${field.value} ${unit}`);
  slider.addEventListener("input", () => {
    field.value = toNumber(Number(slider.value));
    announceValue();
    onChange();
  });
  field.addEventListener("input", () => {
    const number = numberOf();
    field.setAttribute("aria-invalid", String(number === null));
    if (number !== null) slider.value = toPosition(number);
    announceValue();
    onChange();
  });
  set(value);
  const element = h("div", { class: "control" }, h("label", { for: id }, label), slider, h("span", { class: "field" }, field, h("span", {}, unit)));
  return { element, value: numberOf, set };
}
