// What is run as a layered graph: sources in layer 0, each operator one after the last it reads from,
// sinks in the last. A vertex is {key, role, name, layer, node}; an edge {key, from, to, stream}.

export function topologyOf(run) {
  const vertices = new Map();
  const add = (role, name, more = {}) => {
    const vertex = { key: `${role}:${name}`, role, name, layer: 0, ...more };
    vertices.set(vertex.key, vertex);
  };
  for (const name of run.sources) add("source", name);
  for (const [name, operator] of Object.entries(run.operators)) {
    const { node, patterns, title, members } = operator;
    add("operator", name, { node, patterns, title, members });
  }
  for (const [name, sink] of Object.entries(run.sinks)) add("sink", name, { weight: sink.weight });
  const edges = edgesOf(run, vertices);
  layer(vertices, edges);
  return { vertices, edges };
}

function edgesOf(run, vertices) {
  const edges = [];
  const connect = (stream, to) => {
    const from = producerOf(run, stream);
    if (!vertices.has(from) || !vertices.has(to)) return;
    edges.push({ key: edgeKey(stream, to), from, to, stream });
  };
  for (const [name, operator] of Object.entries(run.operators)) {
    for (const stream of operator.inputs) connect(stream, `operator:${name}`);
  }
  for (const [name, sink] of Object.entries(run.sinks)) connect(sink.input, `sink:${name}`);
  return edges;
}

export const edgeKey = (stream, to) => JSON.stringify([stream, to]);

// Find which edge a row of `status.edges` is about; an operator and a sink may have one name.
export function keyOfRow(run, row) {
  const isSink = run.sinks[row.target]?.input === row.stream && !run.operators[row.target]?.inputs.includes(row.stream);
  return edgeKey(row.stream, `${isSink ? "sink" : "operator"}:${row.target}`);
}

export function producerOf(run, stream) {
  if (run.sources.includes(stream)) return `source:${stream}`;
  for (const [name, operator] of Object.entries(run.operators)) {
    if (operator.patterns.some((pattern) => stream === `${name}.${pattern}`)) return `operator:${name}`;
  }
  return `operator:${stream.split(".")[0]}`;
}

// The longest way from a source; a graph with a cycle never gets here, but the loop ends all the same.
function layer(vertices, edges) {
  for (const vertex of vertices.values()) if (vertex.role !== "source") vertex.layer = 1;
  for (let round = 0, moved = true; moved && round <= vertices.size; round += 1) {
    moved = false;
    for (const { from, to } of edges) {
      const least = vertices.get(from).layer + 1;
      if (vertices.get(to).layer >= least) continue;
      vertices.get(to).layer = least;
      moved = true;
    }
  }
  const every = [...vertices.values()];
  const last = Math.max(1, ...every.filter((vertex) => vertex.role === "operator").map((vertex) => vertex.layer)) + 1;
  for (const vertex of every) if (vertex.role === "sink") vertex.layer = last;
}
