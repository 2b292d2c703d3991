// The status of the run: the header, the banner when there is no news, and what needs attention.

import { badge } from "./badge.js";
import { byId, h, keyed, setAttribute, setText } from "./dom.js";
import { clock, percent, rate, seconds } from "./numbers.js";
import { recorded } from "./server.js";
import { lines, lookOf, plain, rankOf } from "./text.js";

const QUIET = 20; // seconds without news that are nothing to speak of: a micro-batch may take that long
const MOST_EXPLAINED = 3; // nodes; of more, the graph says it under the pointer
const facts = new Map();
let latest = null;
let arrived = 0;
let problem = null;
let since = 0;
let spoken = "";

export function startStatus(run) {
  setText(byId("application"), plain(run.application, 80) || "a run");
  document.title = `${plain(run.application, 60) || "a run"} – Shedlight`;
  setText(byId("footer"), `Shedlight ${plain(run.version, 30)}${run.started == null ? "; not begun yet" : `; began ${clock(run.started)}`}${run.simulated ? "; a simulation, whose times are virtual" : run.live ? "" : "; a recorded run"}`);
}

export function updateStatus(status) {
  latest = status;
  arrived = performance.now();
  problem = null;
  since = 0;
  const sign = byId("status");
  if (sign.dataset.status !== status.status) {
    sign.dataset.status = status.status;
    sign.replaceChildren(badge(status.status));
  }
  const entering = status.edges.filter((row) => row.stream === row.origin); // from sources
  const read = entering.reduce((sum, row) => sum + (row.rate ?? 0), 0);
  fact("read", rate(read));
  fact("shed", percent(status.shed_share));
  fact("bottleneck", status.bottleneck == null ? "none" : plain(status.bottleneck, 40));
  fact("plan", status.plan == null ? "none yet" : `#${status.plan}`);
  showAdvice(status);
  announce(status);
  tick();
}

function fact(name, value) {
  if (!facts.has(name)) {
    facts.set(name, h("dd"));
    byId("facts").append(h("div", {}, h("dt", {}, name), facts.get(name)));
  }
  setText(facts.get(name), value);
}

// Nodes with another status than OK, the worst first, with advice; those with the same together.
function showAdvice(status) {
  const ill = Object.entries(status.nodes).filter(([, node]) => rankOf(node.status) > 0 || node.advice);
  ill.sort((a, b) => rankOf(b[1].status) - rankOf(a[1].status));
  const explained = (node) => (ill.length <= MOST_EXPLAINED && node.shed_share > 0 ? node.explanation : "");
  const groups = Map.groupBy(ill, ([, node]) => JSON.stringify([node.status, node.advice, explained(node)]));
  const make = () => h("li", {}, h("strong"), " ", h("span"), h("span"));
  keyed(byId("advice"), [...groups], ([key]) => key, make, (element, [, members]) => {
    const [[, node]] = members;
    const { status, advice } = node;
    const [names, sign, text] = element.children;
    setAttribute(element, "class", lookOf(status));
    setText(names, plain(members.map(([name]) => plain(name, 80)).join(", "), 300));
    if (!sign.firstChild) sign.append(badge(status));
    const said = [advice, explained(node)].filter(Boolean).join("\n");
    setText(text, said ? `  ${lines(said)}` : "");
  });
}

// Said aloud by screen readers, and only when it changes.
function announce(status) {
  const text = Object.entries(status.nodes).map(([name, node]) => `${plain(name, 80)} is ${plain(node.status, 30)}`).join(", ");
  if (spoken && text !== spoken) setText(byId("announcer"), text);
  spoken = text;
}

export function showProblem(error) {
  problem = error;
  since ||= performance.now();
  tick();
}

// Once a second: how old the news is, and what that means.
function tick() {
  const age = latest ? (latest.stale_seconds ?? 0) + (performance.now() - arrived) / 1000 : 0;
  const banner = bannerOf(age);
  setText(byId("news"), latest ? newsOf(age) : "waiting for news");
  setText(byId("banner"), banner);
  byId("banner").hidden = !banner;
}

function newsOf(age) {
  if (!latest.live) return `as of ${clock(latest.time)}`;
  return age < 1.5 ? "up to date" : `${seconds(Math.round(age))} ago`;
}

function bannerOf(age) {
  if (problem?.status === 401 || problem?.status === 403) return `The server rejects this window: ${plain(problem.message)}. Open the link that was printed in the terminal.`;
  if (problem && performance.now() - since > 2500) {
    const lost = seconds(Math.round((performance.now() - since) / 1000));
    return `No news for ${lost}: ${plain(problem.message)}. The web UI goes on trying, and catches up by itself.`;
  }
  if (!latest) return "";
  if (recorded) return latest.time == null ? "A report of a log without a micro-batch." : `A report: this is how it was at ${clock(latest.time)}, where the log ends.`;
  if (!latest.live) return `The run is over. This is how it was at ${clock(latest.time)}.`;
  if (age < QUIET) return "";
  return `No news for ${seconds(Math.round(age))}. The engine may be busy, waiting for events or restarting; this is how it was at ${clock(latest.time)}.`;
}

setInterval(tick, 1000);
