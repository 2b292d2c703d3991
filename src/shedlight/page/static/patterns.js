// What the patterns of an operator look for, once its card is chosen: their texts and their automata.

import { drawAutomaton } from "./automaton.js";
import { byId, h, setText } from "./dom.js";
import { get } from "./server.js";
import { plain } from "./text.js";

const MOST = 20; // patterns that are shown of an operator
const panel = byId("patterns");
let chosen = "";

byId("patterns-close").addEventListener("click", () => {
  panel.hidden = true;
  chosen = "";
});

export async function showPatterns(operator, patterns) {
  chosen = operator;
  setText(byId("patterns-title"), `What ${plain(operator, 80)} looks for`);
  const shown = patterns.slice(0, MOST);
  const parts = await Promise.all(shown.map((name) => partOf(operator, name)));
  if (chosen !== operator) return; // another was chosen meanwhile
  const more = patterns.length - shown.length;
  byId("patterns-list").replaceChildren(...parts, more ? h("p", { class: "hint" }, `${more} more are left out.`) : "");
  panel.hidden = false;
  panel.scrollIntoView({ block: "nearest" });
}

async function partOf(operator, name) {
  const title = h("h3", {}, plain(name, 120));
  try {
    const { text, regions } = await get(`/api/pattern?${new URLSearchParams({ name: `${operator}.${name}` })}`);
    const drawings = regions.map((states) => h("div", { class: "scroll automaton" }, drawAutomaton(states)));
    const note = regions.length > 1 ? "A match needs each of these." : regions.length ? "" : "Its automaton has too many states to be drawn, or calls functions of your own.";
    return h("article", {}, title, h("pre", {}, plain(text, 4000)), ...drawings, note ? h("p", { class: "hint" }, note) : null);
  } catch (problem) {
    return h("article", {}, title, h("p", { class: "hint" }, plain(problem.message)));
  }
}
