// What if: other bounds, other weights, another load. Each question is planned by the server,
// apart from the run; only `Apply` changes anything, and the load is never applied since nobody can set it.

import { byId, h } from "./dom.js";
import { control } from "./control.js";
import { confirmApply } from "./apply.js";
import { post, recorded } from "./server.js";
import { showAnswer, showDone, showNothing, showProblem } from "./answer.js";
import { kindOf, plain } from "./text.js";

const PAUSE = 180; // a slider that is dragged asks once it rests
const MANY = 5; // so many controls of one group are shown at once; more are folded away

let run = null;
let latest = null;
let controls = null;
let timer = 0;
let question = 0;

export function startWhatIf(newRun) {
  run = newRun;
  byId("whatif-panel").hidden = Boolean(recorded); // nobody is there to plan
  if (recorded) return;
  if (!Object.keys(run.nodes).length) {
    byId("whatif").replaceChildren();
    return showNothing("Questions can be asked once it is known what is run.");
  }
  const nodes = Object.entries(run.nodes).filter(([, node]) => node.bound != null);
  controls = {
    load: control({ label: "Load", unit: "×", value: 1, least: 0.1, most: 10, isRatio: true, onChange: changed }),
    bounds: new Map(nodes.map(([name, { bound, percentile }]) => [name, boundControl(name, bound, percentile)])),
    weights: new Map(Object.entries(run.sinks).map(([name, { weight }]) => [name, weightControl(name, weight)])),
  };
  const apply = h("button", { type: "button", id: "whatif-apply", class: "main", disabled: true, click: ask }, "Apply…");
  const reset = h("button", { type: "button", id: "whatif-reset", disabled: true, click: resetAll }, "Reset");
  const note = h("p", { class: "hint", id: "whatif-note" });
  byId("whatif").replaceChildren(
    controls.load.element,
    group("Bounds", controls.bounds, "No node has a bound, so nothing is ever shed."),
    group("Weights of sinks", controls.weights, "There are no sinks."),
    h("div", { class: "buttons" }, reset, apply),
    note,
  );
  allowApply(run);
  showNothing();
}

// Whether there is something to apply to changes when the run makes its first decision, and when it ends.
export function allowApply(newRun) {
  if (!controls || !byId("whatif-note")) return;
  run = newRun;
  byId("whatif-note").hidden = run.can_apply;
  byId("whatif-note").textContent = run.live
    ? "What is asked can be applied once the run has made its first decision."
    : "This run cannot be changed: it is recorded or over. Questions are answered all the same.";
  enableButtons(asked());
}

const boundControl = (name, bound, percentile) =>
  control({ label: plain(name, 60), unit: percentile == null ? "s" : `s ${kindOf(percentile)}`, value: bound, least: bound / 10, most: bound * 10, isRatio: true, onChange: changed });

const weightControl = (name, weight) =>
  control({ label: plain(name, 60), unit: "", value: weight, least: 0, most: Math.max(10, 2 * weight), isRatio: false, onChange: changed });

function group(title, members, empty) {
  const elements = [...members.values()].map((member) => member.element);
  if (!elements.length) return h("p", { class: "hint" }, empty);
  if (elements.length <= MANY) return h("fieldset", {}, h("legend", {}, title), ...elements);
  return h("details", {}, h("summary", {}, `${title} (${elements.length})`), h("fieldset", {}, h("legend", { class: "unseen" }, title), ...elements));
}

export function updateWhatIf(status) {
  latest = status;
}

// The active values; after an `Apply` that is what the run says now, not what it began with.
const boundNow = (name) => latest?.nodes[name]?.bound ?? run.nodes[name].bound;
const kindNow = (name) => kindOf(run.nodes[name].percentile);
const weightNow = (name) => latest?.sinks[name]?.weight ?? run.sinks[name].weight;

// What differs from how it is; null if something that was typed is no number.
function asked() {
  const differing = (members, current) => {
    const changes = Object.create(null); // a name may be __proto__
    for (const [name, member] of members) {
      const value = member.value();
      if (value === null) return null;
      if (Math.abs(value - current(name)) > 1e-9) changes[name] = value;
    }
    return changes;
  };
  const [bounds, weights, load] = [differing(controls.bounds, boundNow), differing(controls.weights, weightNow), controls.load.value()];
  return bounds === null || weights === null || !load ? null : { bounds, weights, load };
}

const isSame = ({ bounds, weights, load }) => !Object.keys(bounds).length && !Object.keys(weights).length && load === 1;

function enableButtons(body) {
  const isChange = body !== null && Boolean(Object.keys(body.bounds).length || Object.keys(body.weights).length);
  byId("whatif-apply").disabled = !isChange || !run.can_apply;
  byId("whatif-reset").disabled = body !== null && isSame(body);
}

function changed() {
  clearTimeout(timer);
  timer = setTimeout(plan, PAUSE);
}

async function plan() {
  const body = asked();
  question += 1;
  const mine = question;
  enableButtons(body);
  if (body === null) return showProblem("a load and a bound are numbers above 0, a weight is 0 or more");
  if (isSame(body)) return showNothing();
  try {
    const answer = await post("/api/what-if", body);
    if (mine === question) showAnswer(answer, latest, run); // else a newer question is on its way
  } catch (problem) {
    if (mine === question) showProblem(problem.message);
  }
}

function resetAll() {
  controls.load.set(1);
  for (const [name, member] of controls.bounds) member.set(boundNow(name));
  for (const [name, member] of controls.weights) member.set(weightNow(name));
  plan();
}

async function ask() {
  const body = asked();
  if (body === null) return;
  const { bounds, weights } = body;
  const summary = await confirmApply({ bounds, weights }, boundNow, weightNow, kindNow);
  if (summary === null) return;
  controls.load.set(1);
  showDone(summary);
  byId("whatif-apply").disabled = true;
}
