// Why did a pattern not match, for a key, around a time? The server asks the events, which needs the token.

import { knownToken, rememberToken } from "./apply.js";
import { byId, h, setText } from "./dom.js";
import { onMoment, planThen } from "./moment.js";
import { post, recorded } from "./server.js";
import { plain } from "./text.js";

const form = byId("why");
const [patternPicker, keyField, timeField, tokenField, button] = ["why-pattern", "why-key", "why-time", "why-token", "why-ask"].map(byId);

export function startWhy(run) {
  byId("why-panel").hidden = Boolean(recorded) || !run.can_ask_why;
  const names = Object.entries(run.operators).flatMap(([name, { patterns }]) => patterns.map((pattern) => `${name}.${pattern}`));
  patternPicker.replaceChildren(...names.map((name) => h("option", { value: name }, plain(name, 80))));
}

// The time of day where the reader is, as the field has it.
function localTime(time) {
  const date = new Date(time * 1000);
  return new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

onMoment(() => planThen() && (timeField.value = localTime(planThen().time)));
form.addEventListener("submit", ask);

async function ask(event) {
  event.preventDefault();
  const time = timeField.value ? new Date(timeField.value).getTime() / 1000 : null;
  const question = { pattern: patternPicker.value, key: keyField.value.trim() || null, time };
  button.disabled = true;
  show(["Reading the events of the sources …"]);
  try {
    const token = tokenField.value || knownToken();
    const { lines } = await post("/api/why", question, token, 70000);
    rememberToken(token);
    show(lines);
  } catch (problem) {
    show([`No answer: ${plain(problem.message, 600)}.`], true);
  }
  button.disabled = false;
}

// As in the terminal: what is further in belongs to the line before it.
function show(lines, isProblem = false) {
  const answer = byId("why-answer");
  answer.classList.toggle("problem", isProblem);
  setText(answer, lines.map((line) => line.slice(0, line.search(/\S|$/)) + plain(line.trimStart(), 1000)).join("\n"));
}
