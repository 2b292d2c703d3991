// What there was in all, once the run is over.

import { badge } from "./badge.js";
import { byId, setText } from "./dom.js";
import { clock, count, moment, percent, rate, seconds } from "./numbers.js";
import { get } from "./server.js";
import { fillTable, madeCell, makeTable } from "./tables.js";
import { kindOf, plain, plural } from "./text.js";

const number = (head, title) => ({ head, look: "number", title });
const nodes = makeTable(byId("totals-nodes"), "Each node, from the beginning of the log to its end.", [
  { head: "node", look: "text" }, { head: "at the end", look: "text" },
  number("read"), number("irrelevant", "events that no pattern can take"), number("kept"), number("shed", "relevant events that no pattern kept"),
  number("mean latency"), number("bound"), number("took longer"), number("worst", "of a micro-batch"),
]);
const sinks = makeTable(byId("totals-sinks"), "Each sink. Recall is the share of the results without shedding that it got, estimated from the unshed sample, with its 95 % interval.", [
  { head: "sink", look: "text" }, { head: "pattern", look: "text" }, number("complex events"), number("recall"), number("without shedding"),
]);
const patterns = makeTable(byId("totals-patterns"), "Each pattern. Partial matches are those at the end.", [
  { head: "pattern", look: "text" }, number("events given"), number("complex events"), number("matching took"), number("partial matches"),
]);
const FEW = 10; // so many patterns are shown at once; more are folded away
let shown = "";

export async function updateTotals(status) {
  byId("totals").hidden = status.live || status.time == null;
  const version = `${status.live} ${status.time}`;
  if (status.live || status.time == null || version === shown) return;
  shown = version;
  try {
    show(await get("/api/totals"));
  } catch {
    shown = ""; // ask again with the next news
    byId("totals").hidden = true;
  }
}

function show(totals) {
  setText(byId("totals-text"), plain(totals.summary, 1000));
  fillTable(nodes, Object.entries(totals.nodes).map(nodeRow), "No micro-batch has ended.");
  fillTable(sinks, Object.entries(totals.sinks).map(sinkRow), "There is no sink.");
  byId("totals-more").open = Object.keys(totals.patterns).length <= FEW;
  fillTable(patterns, Object.entries(totals.patterns).map(patternRow), "No pattern was given an event.");
  const losses = [...Object.entries(totals.late).map(([name, one]) => `${plural(one, "event")} late at ${plain(name, 60)}`),
    ...Object.entries(totals.malformed).map(([name, one]) => `${plural(one, "record")} malformed in ${plain(name, 60)}`)];
  const parts = [`${moment(totals.began)} to ${clock(totals.ended)}`, plural(totals.starts, "start"), plural(totals.decisions, "decision"), plural(totals.plans, "plan"), ...losses];
  setText(byId("totals-note"), `${parts.join("; ")}.`);
}

const nodeRow = ([name, node]) => ({
  key: name,
  cells: [
    plain(name, 80), madeCell(node.status, () => badge(node.status)), count(node.events), node.irrelevant == null ? "not known" : count(node.irrelevant),
    count(node.kept), count(node.shed), seconds(node.mean_latency), node.bound == null ? "none" : `${seconds(node.bound)} ${kindOf(node.percentile)}`,
    percent(node.over_share), node.worst == null ? "–" : `${seconds(node.worst)} at ${clock(node.worst_time)}`,
  ],
});

const sinkRow = ([name, sink]) => ({
  key: name,
  cells: [plain(name, 80), plain(sink.input, 80), count(sink.complex_events), recallOf(sink.unshed_sample), unshedOf(sink.unshed_sample)],
});

const patternRow = ([name, pattern]) => ({
  key: name,
  cells: [plain(name, 120), count(pattern.kept), count(pattern.complex_events), seconds(pattern.seconds), count(pattern.partial_matches)],
});

function recallOf(sample) {
  if (sample == null) return "no sample";
  if (sample.recall == null) return "not known";
  return `${percent(sample.recall)} (${percent(sample.recall_low)} to ${percent(sample.recall_high)})`;
}

const unshedOf = (sample) => (sample?.rate == null ? "–" : `${rate(sample.rate)} (${rate(sample.rate_low)} to ${rate(sample.rate_high)})`);
