// Numbers and times as people read them; the command line writes them the same way (report/format.py).

const THIN = "\u202f"; // between a number and its unit: narrow, and never broken

const FORMATS = [0, 1].map((most) => new Intl.NumberFormat("en", { maximumFractionDigits: most }));
const digits = (value, most) => FORMATS[most].format(value);

// Three digits at most: 0.0123 -> 0.0123, 12.34 -> 12.3, 12345 -> 12.3k.
export function short(value) {
  if (value == null || !Number.isFinite(value)) return "–";
  if (value && Math.abs(value) < 0.001) return "<0.001";
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size * 0.9995) return Number((value / size).toPrecision(3)) + letter;
  }
  return String(Number(value.toPrecision(3)));
}

export const rate = (value) => (value == null ? "–" : `${short(value)}/s`);

export function percent(share) {
  if (share == null || !Number.isFinite(share)) return "–";
  const number = 100 * share;
  if (number > 0 && number < 0.1) return `<0.1${THIN}%`;
  if (number > 99.9 && number < 99.9999) return `>99.9${THIN}%`;
  return `${digits(number, Math.abs(number) < 10 ? 1 : 0)}${THIN}%`;
}

export function seconds(time) {
  if (time == null || !Number.isFinite(time)) return "–";
  if (time < 0) return `−${seconds(-time)}`;
  if (time < 0.00095) return time ? `<1${THIN}ms` : `0${THIN}ms`;
  if (time < 0.9995) return `${digits(1000 * time, time < 0.01 ? 1 : 0)}${THIN}ms`;
  if (time < 60) return `${digits(time, 1)}${THIN}s`;
  const whole = Math.round(time);
  if (whole < 3600) return `${Math.floor(whole / 60)}${THIN}min ${whole % 60}${THIN}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}${THIN}h ${Math.floor((whole % 3600) / 60)}${THIN}min`;
  return `${Math.floor(whole / 86400)}${THIN}d ${Math.floor((whole % 86400) / 3600)}${THIN}h`;
}

export function bytes(number) {
  if (number == null) return "–";
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (number >= size) return `${Number((number / size).toPrecision(3))}${THIN}${unit}`;
  }
  return `${number}${THIN}B`;
}

export const count = (number) => (number == null ? "–" : digits(number, 0));

// The time of day where the reader is.
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const valid = (time) => time != null && Math.abs(time) < 8.64e12;

export const clock = (time) => (valid(time) ? CLOCK.format(time * 1000) : "–");
export const moment = (time) => (valid(time) ? MOMENT.format(time * 1000) : "–");

// Change of a number, with its sign: +12 %, −3.4 %.
export function change(before, after) {
  if (before == null || after == null || !before) return "";
  const share = after / before - 1;
  if (Math.abs(share) < 0.0005) return "as now";
  return `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`;
}
