// Foreign text, shortened and shown; and the statuses a node may be in, worst last.

export const STATUSES = ["OK", "SHEDDING", "BOUND-AT-RISK", "INFEASIBLE"];

export const rankOf = (status) => STATUSES.indexOf(status);
export const lookOf = (status) => (rankOf(status) < 0 ? "status" : `status${rankOf(status)}`);

// What is not to be seen (controls, marks that turn the direction of writing) is shown as such.
export const plain = (text, longest = 300) => {
  const seen = String(text ?? "").replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/gu, (c) => (/\s/.test(c) ? " " : "\ufffd"));
  const letters = [...seen.slice(0, 4 * longest)];
  return letters.length <= longest ? letters.join("") : `${letters.slice(0, longest - 1).join("")}…`;
};

// Of what a bound is: it stands behind its seconds.
export const kindOf = (percentile) => (percentile == null ? "on average" : `at p${percentile}`);

// Advice may have several lines, as the terminal shows it.
export const lines = (text, longest = 1000) => String(text ?? "").split("\n").map((line) => plain(line, longest)).join("\n");

const sheet = document.createElement("canvas").getContext("2d");
const MOST_WIDTHS = 4000;
const widths = new Map(); // measuring is what costs most in an update, and rates come again

export function widthOf(text, font) {
  const key = `${font}|${text}`;
  if (!widths.has(key)) {
    if (widths.size >= MOST_WIDTHS) widths.clear();
    sheet.font = font;
    widths.set(key, sheet.measureText(text).width);
  }
  return widths.get(key);
}

// Cut a text so that it fits a width, in pixels.
export function fitted(text, width, font) {
  const letters = [...plain(text)];
  if (widthOf(letters.join(""), font) <= width) return letters.join("");
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(`${letters.slice(0, middle).join("")}…`, font) <= width) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("").trimEnd()}…`;
}

export const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
