// The moment that the keep shares are of: now, or a time of the run that was chosen in a chart or among the decisions.

import { byId, setText } from "./dom.js";
import { clock, percent } from "./numbers.js";
import { get } from "./server.js";
import { plain } from "./text.js";

const listeners = [];
let chosen = null; // the answer of /api/plan; null: now

export const planThen = () => chosen;
export const onMoment = (listener) => listeners.push(listener);

export async function chooseMoment(time) {
  try {
    show(await get(`/api/plan?${new URLSearchParams({ time })}`));
  } catch (problem) {
    show(chosen, plain(problem.message));
  }
}

byId("moment-now").addEventListener("click", () => show(null));

function show(plan, problem = "") {
  chosen = plan;
  byId("moment").hidden = !plan && !problem;
  setText(byId("moment-text"), problem || (plan ? describe(plan) : ""));
  for (const listener of listeners) listener();
}

function describe(plan) {
  const loads = Object.entries(plan.loads).map(([name, load]) => `${plain(name, 60)} ${plain(plan.statuses[name] ?? "", 30)}, load ${percent(load)}`);
  return `As decided at ${clock(plan.time)}: ${plain(plan.reason)}${loads.length ? ` (${loads.join("; ")})` : ""}.`;
}
