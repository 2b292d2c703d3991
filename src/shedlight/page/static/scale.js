// Round steps for axes.

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600];

export function niceStep(most, lines = 3) {
  const rough = Math.max(most, 1e-6) / lines;
  const size = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 2.5, 5, 10].find((step) => step * size >= rough) ?? 10) * size;
}

export const timeStep = (length, most) => TIMES.find((step) => length / step <= most) ?? 86400 * Math.ceil(length / 86400 / most);
