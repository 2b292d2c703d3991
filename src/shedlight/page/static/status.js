// How the run is: the header, the banner when there is no news, and what needs attention.

import { badge } from "./badge.js";
import { byId, h, keyed, setAttribute, setText } from "./dom.js";
import { clock, percent, rate, seconds } from "./numbers.js";
import { lines, lookOf, plain, rankOf } from "./words.js";

const QUIET = 20; // seconds without news that are nothing to speak of: a micro-batch may take that long
const facts = new Map();
let latest = null;
let arrived = 0;
let problem = null;
let since = 0;
let spoken = "";

export function startStatus(run) {
  setText(byId("application"), plain(run.application, 80) || "a run");
  document.title = `${plain(run.application, 60) || "a run"} – Shedlight`;
  setText(byId("footer"), `Shedlight ${plain(run.version, 30)}${run.started == null ? "; not begun yet" : `; began ${clock(run.started)}`}${run.live ? "" : "; a recorded run"}`);
}

export function updateStatus(now) {
  latest = now;
  arrived = performance.now();
  problem = null;
  since = 0;
  const state = byId("state");
  if (state.dataset.state !== now.state) {
    state.dataset.state = now.state;
    state.replaceChildren(badge(now.state));
  }
  const entering = now.edges.filter((row) => row.stream === row.from); // from sources
  const read = entering.reduce((sum, row) => sum + (row.rate ?? 0), 0);
  const shed = entering.reduce((sum, row) => sum + (row.rate ?? 0) * (row.shed ?? 0), 0);
  fact("read", rate(read));
  fact("shed", percent(read ? shed / read : 0));
  fact("bottleneck", now.bottleneck == null ? "none" : plain(now.bottleneck, 40));
  fact("plan", now.plan == null ? "none yet" : `#${now.plan}`);
  remedies(now);
  announce(now);
  tick();
}

function fact(name, value) {
  if (!facts.has(name)) {
    facts.set(name, h("dd"));
    byId("facts").append(h("div", {}, h("dt", {}, name), facts.get(name)));
  }
  setText(facts.get(name), value);
}

// Nodes that are not well, the worst first, with what can be done; those with the same trouble together.
function remedies(now) {
  const ill = Object.entries(now.nodes).filter(([, one]) => rankOf(one.state) > 0 || one.remedy);
  ill.sort((a, b) => rankOf(b[1].state) - rankOf(a[1].state));
  const groups = Map.groupBy(ill, ([, one]) => JSON.stringify([one.state, one.remedy]));
  const make = () => h("li", {}, h("strong"), " ", h("span"), h("span"));
  keyed(byId("remedies"), [...groups], ([key]) => key, make, (element, [, members]) => {
    const [[, { state, remedy }]] = members;
    const [names, sign, words] = element.children;
    setAttribute(element, "class", lookOf(state));
    setText(names, plain(members.map(([name]) => plain(name, 80)).join(", "), 300));
    if (!sign.firstChild) sign.append(badge(state));
    setText(words, remedy ? `  ${lines(remedy)}` : "");
  });
}

// Said aloud by screen readers, and only when it changes.
function announce(now) {
  const words = Object.entries(now.nodes).map(([name, one]) => `${plain(name, 80)} is ${plain(one.state, 30)}`).join(", ");
  if (spoken && words !== spoken) setText(byId("announcer"), words);
  spoken = words;
}

export function tellProblem(error) {
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
  if (problem?.status === 401 || problem?.status === 403) return `The server refuses this page: ${plain(problem.message)}. Open the link that was printed in the terminal.`;
  if (problem && performance.now() - since > 2500) {
    const lost = seconds(Math.round((performance.now() - since) / 1000));
    return `No news for ${lost}: ${plain(problem.message)}. The page goes on trying, and catches up by itself.`;
  }
  if (!latest) return "";
  if (!latest.live) return `The run is over. This is how it was at ${clock(latest.time)}.`;
  if (age < QUIET) return "";
  return `No news for ${seconds(Math.round(age))}. The engine may be busy, waiting for events or restarting; this is how it was at ${clock(latest.time)}.`;
}

setInterval(tick, 1000);
