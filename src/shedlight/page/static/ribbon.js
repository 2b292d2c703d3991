// An edge as a ribbon: as wide as the root of its rate, what is shed of it hatched next to what is kept.

import { s, setAttribute } from "./dom.js";
import { percent, rate } from "./numbers.js";
import { plain } from "./text.js";

const WIDEST = 11; // for few edges; of many each is thinner, since their ports are close
const MANY = 16;
const SHED_SEEN = 0.005;

export function ribbon(way, isDown, number, { edges, labels }) {
  const widest = number > MANY ? Math.max(4, (WIDEST * MANY) / number) : WIDEST;
  const kept = s("path", { class: "kept" });
  const lost = s("path", { class: "lost" });
  const full = s("title");
  const group = s("g", { class: "edge" }, kept, lost, full);
  edges.append(group);
  const label = { group: s("g", { class: "label" }), lines: [], width: 0 };
  labels.append(label.group);
  return {
    way, group, label,
    update(row, most) {
      const width = row.rate ? Math.max(1.5, widest * Math.sqrt(row.rate / most)) : 1;
      const shed = row.shed_share > SHED_SEEN ? Math.max(2, width * row.shed_share) : 0;
      const whole = Math.max(width, shed + 1);
      draw(kept, way.points, whole - shed, -shed / 2, isDown);
      draw(lost, way.points, shed, (whole - shed) / 2, isDown);
      group.classList.toggle("idle", !row.rate);
      label.width = whole;
      label.lines = linesOf(way.edge, row);
      setAttribute(group, "data-shed", (row.shed_share ?? 0).toFixed(3));
      full.textContent = `${plain(way.edge.stream)}: ${rate(row.rate)}${shed ? `, ${percent(row.shed_share)} of it shed` : ""}`;
    },
  };
}

// What to write at an edge, from the longest to the shortest that will do.
function linesOf({ stream, from }, row) {
  if (row.rate == null) return [];
  const shed = row.shed_share > SHED_SEEN ? [`${percent(row.shed_share)} shed`] : [];
  const pattern = from.startsWith("operator:") ? stream.slice(stream.lastIndexOf(".") + 1) : "";
  if (!pattern) return shed.length ? [shed] : []; // the source itself says how many come
  return [[`${plain(pattern, 18)} ${rate(row.rate)}`, ...shed], [rate(row.rate), ...shed], shed].filter((lines) => lines.length);
}

function draw(path, points, width, aside, isDown) {
  setAttribute(path, "stroke-width", width.toFixed(1));
  setAttribute(path, "visibility", width ? "visible" : "hidden");
  if (width) setAttribute(path, "d", curve(points, aside, isDown));
}

function curve(points, aside, isDown) {
  const at = ({ x, y }) => (isDown ? [x + aside, y] : [x, y + aside]);
  const [first, ...others] = points.map(at);
  let last = first;
  let d = `M${first.map(tidy).join(" ")}`;
  for (const next of others) {
    const [a, b] = isDown
      ? [[last[0], (last[1] + next[1]) / 2], [next[0], (last[1] + next[1]) / 2]]
      : [[(last[0] + next[0]) / 2, last[1]], [(last[0] + next[0]) / 2, next[1]]];
    d += `C${[a, b, next].map((pair) => pair.map(tidy).join(" ")).join(" ")}`;
    last = next;
  }
  return d;
}

const tidy = (number) => number.toFixed(1);

// A point of the curve from one point to the next.
export function along(start, end, t, isDown) {
  const ease = t * t * (3 - 2 * t); // across the layers, when both handles are in the middle
  const bend = (from, to) => from + (to - from) * ease;
  const run = (from, to) => {
    const middle = (from + to) / 2;
    return (1 - t) ** 3 * from + 3 * t * (1 - t) * middle + t ** 3 * to;
  };
  return isDown
    ? { x: bend(start.x, end.x), y: run(start.y, end.y) }
    : { x: run(start.x, end.x), y: bend(start.y, end.y) };
}
