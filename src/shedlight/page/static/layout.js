// Where everything goes. Layers lie along the main axis (from left to right; from top to bottom where
// it is narrow), and what is in a layer is stacked across it. Operators of a node are cells of one box;
// boxes are packed so that none overlap. An edge that passes a layer has a thin cell of its own there,
// so that it goes around boxes and never behind them.

import { relaxed, stacked } from "./stacking.js";

// Sizes are [along the main axis, across it]; `tight` is `across` where there is little room for many layers.
const SIZES = {
  across: { source: [124, 44], operator: [152, 48], sink: [186, 82], header: [0, 66], pad: 12, gap: 76, widest: 260 },
  tight: { source: [104, 44], operator: [124, 48], sink: [164, 82], header: [0, 66], pad: 9, gap: 34, widest: 76 },
  down: { source: [40, 126], operator: [46, 126], sink: [82, 148], header: [66, 0], pad: 10, gap: 46, widest: 46 },
};
const CELL_GAP = 10;
const THIN = 12;
const MARGIN = 9;
const TOP = 14; // room for the tag on the ring of the uppermost box

export function layoutOf(topology, width, isDown) {
  if (isDown) return laidOut(topology, width, SIZES.down, true);
  const wide = laidOut(topology, width, SIZES.across, false);
  return wide.width <= width ? wide : laidOut(topology, width, SIZES.tight, false);
}

function laidOut({ vertices, edges }, width, sizes, isDown) {
  const cells = new Map();
  for (const vertex of vertices.values()) {
    const ports = Math.max(...portCounts(vertex, edges));
    const [main, cross] = sizes[vertex.role];
    cells.set(vertex.key, cell(vertex.key, vertex.layer, main, Math.max(cross, ports * 13 + 10)));
  }
  const spans = spansOf(vertices);
  const routes = edges.map((edge) => routed(edge, vertices, cells, spans));
  const items = itemsOf(vertices, cells, routes, sizes);
  const order = stacked(items, links(routes), CELL_GAP);
  relaxed(order, CELL_GAP);
  const columns = columnsOf(items, cells, sizes, width, isDown);
  return placed({ items, cells, routes, columns, sizes, isDown, width });
}

const cell = (key, layer, main, cross) => ({ key, layer, main, cross, start: 0, near: [] });

function portCounts(vertex, edges) {
  return [edges.filter((edge) => edge.from === vertex.key).length, edges.filter((edge) => edge.to === vertex.key).length];
}

// From which layer to which the box of each node goes.
function spansOf(vertices) {
  const spans = new Map();
  for (const { node, layer } of vertices.values()) {
    const [first, last] = spans.get(node) ?? [layer, layer];
    spans.set(node, [Math.min(first, layer), Math.max(last, layer)]);
  }
  spans.delete(undefined);
  return spans;
}

// The cells that an edge goes through, from the first to the last: inside the box that it comes from or
// goes to as far as that reaches, so that it crosses the border where the box ends.
function routed(edge, vertices, cells, spans) {
  const [from, to] = [vertices.get(edge.from), vertices.get(edge.to)];
  const isInside = from.node !== undefined && from.node === to.node;
  const through = [];
  for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
    const node = layer >= (spans.get(to.node)?.[0] ?? Infinity) ? to.node : layer <= (spans.get(from.node)?.[1] ?? -1) ? from.node : undefined;
    const thin = { ...cell(`${edge.key}@${layer}`, layer, 0, THIN), node, isThin: true };
    cells.set(thin.key, thin);
    through.push(thin);
  }
  return { edge, isInside, cells: [cells.get(edge.from), ...through, cells.get(edge.to)] };
}

function links(routes) {
  const pairs = [];
  for (const { cells } of routes) {
    for (let index = 1; index < cells.length; index += 1) {
      const [a, b] = [cells[index - 1], cells[index]];
      a.near.push(b);
      b.near.push(a);
      pairs.push([a, b]);
    }
  }
  return pairs;
}

// What is stacked: a box per node, and everything else by itself.
function itemsOf(vertices, cells, routes, sizes) {
  const boxes = new Map();
  const items = [];
  for (const cell of cells.values()) {
    const node = cell.isThin ? cell.node : vertices.get(cell.key).node;
    if (node === undefined) {
      items.push({ cells: [cell], first: cell.layer, last: cell.layer, before: 0, after: 0, gap: cell.isThin ? 8 : sizes === SIZES.down ? 10 : 20 });
      continue;
    }
    if (!boxes.has(node)) {
      boxes.set(node, { node, cells: [], first: cell.layer, last: cell.layer, before: sizes.header[1] || sizes.pad, after: sizes.pad, gap: sizes === SIZES.down ? 14 : 26 });
      items.push(boxes.get(node));
    }
    const box = boxes.get(node);
    box.cells.push(cell);
    box.first = Math.min(box.first, cell.layer);
    box.last = Math.max(box.last, cell.layer);
  }
  return items;
}

// Where each layer begins on the main axis; what is left of the width goes into the gaps.
function columnsOf(items, cells, sizes, width, isDown) {
  const last = Math.max(...[...cells.values()].map((cell) => cell.layer));
  const boxes = items.filter((item) => item.node !== undefined);
  const columns = [];
  for (let layer = 0; layer <= last; layer += 1) {
    const main = Math.max(0, ...[...cells.values()].filter((cell) => cell.layer === layer).map((cell) => cell.main));
    const opens = boxes.some((box) => box.first === layer) ? sizes.pad + sizes.header[0] : 0;
    const closes = boxes.some((box) => box.last === layer - 1) ? sizes.pad : 0;
    columns.push({ main, room: layer ? opens + closes : opens, gap: layer ? sizes.gap : 0, start: 0 });
  }
  const needed = columns.reduce((sum, column) => sum + column.main + column.room + column.gap, 2 * MARGIN);
  const free = isDown ? 0 : Math.max(0, width - needed) / Math.max(1, columns.length - 1);
  const extra = Math.min(free, sizes.widest - sizes.gap);
  let position = isDown ? TOP : MARGIN + Math.max(0, (width - needed - extra * (columns.length - 1)) / 2);
  for (const column of columns) {
    if (column.gap) column.gap += extra;
    position += column.room + column.gap;
    column.start = position;
    position += column.main;
  }
  columns.end = position + MARGIN;
  return columns;
}

// From main and cross to x and y.
function placed({ items, cells, routes, columns, sizes, isDown, width }) {
  const crossEnd = Math.max(...items.map((item) => item.start + item.size));
  const shift = isDown ? MARGIN + Math.max(0, (width - crossEnd - 2 * MARGIN) / 2) : TOP;
  const rect = (main, cross, mainSize, crossSize) =>
    isDown ? { x: cross, y: main, width: crossSize, height: mainSize } : { x: main, y: cross, width: mainSize, height: crossSize };
  const rects = new Map();
  for (const cell of cells.values()) {
    cell.at = columns[cell.layer].start;
    cell.start += shift;
    if (!cell.isThin) rects.set(cell.key, rect(cell.at, cell.start, cell.main, cell.cross));
  }
  const boxes = new Map();
  for (const box of items.filter((item) => item.node !== undefined)) {
    const from = columns[box.first].start - sizes.pad - sizes.header[0];
    const to = columns[box.last].start + columns[box.last].main + sizes.pad;
    boxes.set(box.node, rect(from, box.start + shift, to - from, box.size));
  }
  const ways = waysOf(routes, columns, isDown);
  const [mainSize, crossSize] = [columns.end, crossEnd + MARGIN + (isDown ? MARGIN : TOP)];
  return { rects, boxes, ways, isDown, width: isDown ? Math.max(crossSize, width) : mainSize, height: isDown ? mainSize : crossSize };
}

// The points that each edge goes through: it leaves and enters cells at ports of its own, in the order
// of where it goes, so that edges of one cell do not cross there.
function waysOf(routes, columns, isDown) {
  const point = (main, cross) => (isDown ? { x: cross, y: main } : { x: main, y: cross });
  const middle = (cell) => cell.start + cell.cross / 2;
  const ports = (end, other) => {
    const byCell = new Map();
    for (const route of routes) {
      const cell = route.cells.at(end);
      if (!byCell.has(cell)) byCell.set(cell, []);
      byCell.get(cell).push(route);
    }
    for (const list of byCell.values()) list.sort((a, b) => middle(a.cells.at(other)) - middle(b.cells.at(other)));
    return (route) => {
      const list = byCell.get(route.cells.at(end));
      const cell = route.cells.at(end);
      return cell.start + (cell.cross * (list.indexOf(route) + 1)) / (list.length + 1);
    };
  };
  const [leaves, enters] = [ports(0, 1), ports(-1, -2)];
  return new Map(
    routes.map((route) => {
      const [first, ...between] = route.cells;
      const last = between.pop();
      const points = [point(first.at + first.main, leaves(route))];
      for (const cell of between) points.push(point(cell.at, middle(cell)), point(cell.at + columns[cell.layer].main, middle(cell)));
      points.push(point(last.at, enters(route)));
      return [route.edge.key, { ...route, points }];
    }),
  );
}
