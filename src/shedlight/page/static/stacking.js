// Stacking across the layers: an item is a box of cells over some layers (first to last), and it is put
// below all that was put there before it. The order comes from where its neighbours are (barycentres),
// then from trying other places for single items. The best has short edges, few that cross each other,
// and none that cross a box.

const ROUNDS = 18;
const TRIES = 1200;
const CROSSING = 90;
const THROUGH = 400;

// Give every item and cell a start on the cross axis; return the items in their order.
export function stacked(items, links, gap) {
  const boxes = items.filter((item) => item.node !== undefined);
  const byLayer = Map.groupBy(links, ([from]) => from.layer);
  const cost = (order) => {
    pack(order, gap);
    return [...byLayer.values()].reduce((sum, group) => sum + costOf(group, boxes), 0);
  };
  let best = byNeighbours(items, cost);
  for (let tries = 0, isBetter = true; isBetter && tries < TRIES; ) {
    isBetter = false;
    for (let from = 0; from < items.length && tries < TRIES; from += 1) {
      for (let to = 0; to < items.length && tries < TRIES; to += 1) {
        if (to === from || to === from - 1) continue;
        tries += 1;
        const order = [...best.order];
        order.splice(to, 0, ...order.splice(from, 1));
        const value = cost(order);
        if (value < best.value - 1) [best.order, best.value, isBetter] = [order, value, true];
      }
    }
  }
  pack(best.order, gap);
  return best.order;
}

function byNeighbours(items, cost) {
  let order = [...items];
  let best = null;
  for (let round = 0; round < ROUNDS; round += 1) {
    const value = cost(order);
    if (!best || value < best.value) best = { value, order, cells: order.map((item) => [...item.cells]) };
    for (const item of order) for (const cell of item.cells) cell.wanted = wantedOf(cell, round);
    for (const item of order) {
      item.cells.sort((a, b) => a.layer - b.layer || a.wanted - b.wanted);
      item.wanted = item.cells.reduce((sum, cell) => sum + cell.wanted, 0) / item.cells.length;
    }
    order = [...order].sort((a, b) => a.wanted - b.wanted);
  }
  best.order.forEach((item, index) => (item.cells = best.cells[index]));
  return best;
}

const middle = (cell) => cell.start + cell.cross / 2;
const mean = (cells) => cells.reduce((sum, cell) => sum + middle(cell), 0) / cells.length;

// Rounds look by turns at what comes before, after, and on both sides.
function wantedOf(cell, round) {
  const sides = [cell.near.filter((other) => other.layer < cell.layer), cell.near.filter((other) => other.layer > cell.layer), cell.near];
  const near = sides[round % 3].length ? sides[round % 3] : cell.near;
  return near.length ? mean(near) : middle(cell);
}

function pack(order, gap) {
  const ends = [];
  for (const item of order) {
    let start = 0;
    for (let layer = item.first; layer <= item.last; layer += 1) start = Math.max(start, ends[layer] ?? 0);
    move(item, start, gap);
    for (let layer = item.first; layer <= item.last; layer += 1) ends[layer] = start + item.size + item.gap;
  }
}

// Put an item somewhere: its cells item after the other in each layer, each stack in its middle.
function move(item, start, gap) {
  const heights = [];
  for (const cell of item.cells) heights[cell.layer] = (heights[cell.layer] ?? -gap) + cell.cross + gap;
  const inner = Math.max(...heights.filter((height) => height !== undefined));
  item.start = start;
  item.size = item.before + inner + item.after;
  const places = heights.map((height) => start + item.before + (inner - height) / 2);
  for (const cell of item.cells) {
    cell.start = places[cell.layer];
    places[cell.layer] += cell.cross + gap;
  }
}

// Of the links from one layer to the next.
function costOf(links, boxes) {
  const [{ layer }] = links[0];
  const between = boxes.filter((box) => box.first <= layer && box.last > layer);
  const ends = links.map(([a, b]) => [middle(a), middle(b)]);
  let cost = 0;
  ends.forEach(([from, to], index) => {
    cost += Math.abs(from - to);
    for (let next = index + 1; next < ends.length; next += 1) {
      if ((from - ends[next][0]) * (to - ends[next][1]) < 0) cost += CROSSING;
    }
    for (const box of between) {
      if (Math.min(from, to) < box.start && Math.max(from, to) > box.start + box.size) cost += THROUGH;
    }
  });
  return cost;
}

// Move items towards their neighbours as far as there is room, without changing their order.
export function relaxed(order, gap) {
  const bottom = Math.max(...order.map((item) => item.start + item.size));
  const shares = (a, b) => a.first <= b.last && b.first <= a.last;
  const settle = (item, index) => {
    const above = order.slice(0, index).filter((other) => shares(item, other));
    const below = order.slice(index + 1).filter((other) => shares(item, other));
    const least = Math.max(0, ...above.map((other) => other.start + other.size + other.gap));
    const most = Math.min(bottom - item.size, ...below.map((other) => other.start - item.size - item.gap));
    const linked = item.cells.filter((cell) => cell.near.some((other) => !item.cells.includes(other)));
    if (!linked.length || most < least) return;
    const pull = linked.map((cell) => mean(cell.near.filter((other) => !item.cells.includes(other))) - middle(cell));
    const start = item.start + pull.reduce((sum, value) => sum + value, 0) / pull.length;
    move(item, Math.min(most, Math.max(least, start)), gap);
  };
  for (let round = 0; round < 8; round += 1) {
    if (round % 2) order.forEach(settle);
    else for (let index = order.length - 1; index >= 0; index -= 1) settle(order[index], index);
  }
}
