// The web UI: ask what is run, then follow its status. When the engine begins anew, so does the web UI.

import { startCurves, updateCurves } from "./curves.js";
import { startDecisions, updateDecisions } from "./decisions.js";
import { follow } from "./feed.js";
import { startGraph, updateGraph } from "./graph.js";
import { updateInventory, watchInventory } from "./inventory.js";
import { updateKeepRows } from "./keep_rows.js";
import { get } from "./server.js";
import { startStatus, showProblem, updateStatus } from "./status.js";
import { updateTotals } from "./totals.js";
import { allowApply, startWhatIf, updateWhatIf } from "./whatif.js";
import { startWhy } from "./why.js";

let run = null;
let shownRun = "";
let again = 0;
let latest = null;
let loading = null; // news that comes meanwhile waits for the same answer

const AGAIN = 4000;

// What is run may be another if it has ended or begun, or has other nodes.
const isOther = (status) =>
  !run ||
  status.live !== run.live ||
  Object.keys(status.nodes).some((name) => !Object.hasOwn(run.nodes, name));

function load() {
  loading ??= loaded().finally(() => (loading = null));
  return loading;
}

async function loaded() {
  run = await get("/api/run");
  clearTimeout(again); // a run under way can be changed once it has made a decision: look again until then
  if (run.live && !run.can_apply) again = setTimeout(() => load().catch(showProblem), AGAIN);
  allowApply(run);
  const { can_apply: _, ...shown } = run;
  if (JSON.stringify(shown) === shownRun) return;
  shownRun = JSON.stringify(shown);
  startStatus(run);
  startGraph(run);
  startCurves(run);
  startDecisions();
  startWhatIf(run);
  startWhy(run);
}

async function take(status, isNew) {
  latest = status;
  try {
    if (isNew || isOther(status)) await load();
  } catch (problem) {
    showProblem(problem);
    return;
  }
  if (!run || status !== latest) return; // newer news came meanwhile
  updateStatus(status);
  updateTotals(status);
  updateGraph(status);
  updateInventory(status);
  updateCurves(status);
  updateKeepRows(status);
  updateWhatIf(status);
  updateDecisions();
}

watchInventory(() => latest);
follow(take, showProblem);
