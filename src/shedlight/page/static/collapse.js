// The graph with the operators of each node as one vertex, for graphs too large to be read. What goes from a node to
// another one, or to a sink, is one edge: the rates of its streams are added up, each stream once.

import { edgeKey, keyOfRow, producerOf, topologyOf } from "./topology.js";
import { plural } from "./text.js";

// Give the topology, and `rowsOf`, which finds the rows of its edges in a status. It is null if nodes go round in a circle.
export function collapsed(run) {
  const nodes = nodesOf(run);
  const keys = new Map(); // from the key of an edge of the run to that of one here
  const connect = (stream, target, wanted) => {
    const from = producerOf(run, stream).replace("operator:", "");
    const home = run.operators[from]?.node;
    if (home === undefined) return keys.set(edgeKey(stream, wanted), edgeKey(stream, target)) && stream;
    if (target === `operator:${home}`) return null;
    const pattern = target.startsWith("sink:") ? stream : `to ${target.replace("operator:", "")}`;
    if (!nodes[home].patterns.includes(pattern)) nodes[home].patterns.push(pattern);
    keys.set(edgeKey(stream, wanted), edgeKey(`${home}.${pattern}`, target));
    return `${home}.${pattern}`;
  };
  for (const [name, { node, inputs }] of Object.entries(run.operators)) {
    for (const input of inputs) {
      const stream = connect(input, `operator:${node}`, `operator:${name}`);
      if (stream !== null && !nodes[node].inputs.includes(stream)) nodes[node].inputs.push(stream);
    }
  }
  const sinks = Object.entries(run.sinks).map(([name, sink]) => [name, { ...sink, input: connect(sink.input, `sink:${name}`, `sink:${name}`) }]);
  const topology = topologyOf({ ...run, operators: nodes, sinks: Object.fromEntries(sinks) });
  const { vertices, edges } = topology;
  if (edges.some(({ from, to }) => vertices.get(to).layer <= vertices.get(from).layer)) return null;
  return { topology, rowsOf: (status) => addedUp(run, keys, status.edges) };
}

function nodesOf(run) {
  const nodes = {};
  for (const [name, { node }] of Object.entries(run.operators)) {
    nodes[node] ??= { node, inputs: [], patterns: [], members: [] };
    nodes[node].members.push(name);
    nodes[node].title = plural(nodes[node].members.length, "operator");
  }
  return nodes;
}

function addedUp(run, keys, rows) {
  const streams = new Map(); // by the edge that it goes along, then by name: several operators may read one
  for (const row of rows) {
    const key = keys.get(keyOfRow(run, row));
    if (key === undefined) continue; // it stays within a node
    if (!streams.has(key)) streams.set(key, new Map());
    const read = streams.get(key);
    read.set(row.stream, [...(read.get(row.stream) ?? []), row]);
  }
  return new Map([...streams].map(([key, read]) => [key, sumOf([...read.values()].map(meanOf))]));
}

// A stream that several operators read comes to a node once; they may shed different shares of it.
function meanOf(rows) {
  const rate = Math.max(...rows.map((row) => row.rate ?? 0));
  return { rate, shed_share: rows.reduce((sum, row) => sum + (row.shed_share ?? 0), 0) / rows.length };
}

function sumOf(rows) {
  const rate = rows.reduce((sum, row) => sum + row.rate, 0);
  const shed = rows.reduce((sum, row) => sum + row.rate * row.shed_share, 0);
  return { rate, shed_share: rate ? shed / rate : 0 };
}
