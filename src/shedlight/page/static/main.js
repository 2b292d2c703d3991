// The page: ask what is run, then follow how it is. When the engine begins anew, so does the page.

import { startDecisions, updateDecisions } from "./decisions.js";
import { follow } from "./feed.js";
import { startGraph, updateGraph } from "./graph.js";
import { updateInventory, watchInventory } from "./inventory.js";
import { updateKeeps } from "./keeps.js";
import { startLatency, updateLatency } from "./latency.js";
import { get } from "./server.js";
import { startStatus, tellProblem, updateStatus } from "./status.js";
import { allowApply, startWhatIf, updateWhatIf } from "./whatif.js";

let run = null;
let shownRun = "";
let again = 0;
let latest = null;
let loading = null; // news that comes meanwhile waits for the same answer

const AGAIN = 4000;

// What is run may be another if it began at another time, has ended, or has other nodes.
const isOther = (now) =>
  !run ||
  (now.started !== undefined && now.started !== run.started) ||
  now.live !== run.live ||
  Object.keys(now.nodes).some((name) => !(name in run.nodes));

function load() {
  loading ??= loaded().finally(() => (loading = null));
  return loading;
}

async function loaded() {
  run = await get("/api/run");
  clearTimeout(again); // a run under way can be changed once it has made a decision: look again until then
  if (run.live && !run.can_apply) again = setTimeout(() => load().catch(tellProblem), AGAIN);
  allowApply(run);
  const { can_apply: _, ...shown } = run;
  if (JSON.stringify(shown) === shownRun) return;
  shownRun = JSON.stringify(shown);
  startStatus(run);
  startGraph(run);
  startLatency(run);
  startDecisions();
  startWhatIf(run);
}

async function take(now, isNew) {
  latest = now;
  try {
    if (isNew || isOther(now)) await load();
  } catch (problem) {
    tellProblem(problem);
    return;
  }
  if (!run || now !== latest) return; // newer news came meanwhile
  updateStatus(now);
  updateGraph(now);
  updateInventory(now);
  updateLatency(now);
  updateKeeps(now);
  updateWhatIf(now);
  updateDecisions(now);
}

watchInventory(() => latest);
follow(take, tellProblem);
