// The one thing here that changes the run: it asks for the token, which is kept in this variable alone.

import { byId, h, setText } from "./dom.js";
import { seconds, short } from "./numbers.js";
import { post } from "./server.js";
import { plain } from "./text.js";

let token = "";
const dialog = byId("apply");

export const knownToken = () => token;

export function rememberToken(value) {
  token = value;
}

// Ask, and apply; the summary of the server, or null if it was cancelled.
export function confirmApply(body, boundNow, weightNow, kindNow) {
  const changes = [
    ...Object.entries(body.bounds).map(([name, value]) => `bound of ${plain(name, 60)}: ${seconds(boundNow(name))} → ${seconds(value)} ${kindNow(name)}`),
    ...Object.entries(body.weights).map(([name, value]) => `weight of ${plain(name, 60)}: ${short(weightNow(name))} → ${short(value)}`),
  ];
  byId("apply-what").replaceChildren(...changes.map((text) => h("li", {}, text)));
  byId("token").value = token;
  setText(byId("apply-problem"), "");
  dialog.showModal();
  byId("token").focus();
  return new Promise((resolve) => {
    let summary = null;
    byId("apply-cancel").onclick = () => dialog.close();
    dialog.onclose = () => {
      byId("token").value = "";
      resolve(summary);
    };
    byId("apply-form").onsubmit = async (event) => {
      event.preventDefault();
      byId("apply-now").disabled = true;
      try {
        const answer = await post("/api/apply", body, byId("token").value);
        rememberToken(byId("token").value);
        summary = answer.summary;
        dialog.close();
      } catch (problem) {
        setText(byId("apply-problem"), `Nothing was applied: ${plain(problem.message, 500)}.`);
      }
      byId("apply-now").disabled = false;
    };
  });
}
