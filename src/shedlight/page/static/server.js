// Requests to the server. What goes wrong is an Error with a sentence for the reader.

const PATIENCE = 15000; // milliseconds

export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// What a report has in it, which needs no server: the answers of one moment. Without it they are asked for.
const found = document.getElementById("recorded");
export const recorded = found && JSON.parse(found.textContent);

export const get = (path) => (recorded ? recall(path) : asked(path, { headers: { Accept: "application/json" } }));

const missing = (what) => new RequestError(404, `${what} is not in this report; shedlight serve shows it from the log`);
const named = (answers, name) => (Object.hasOwn(answers, name) ? answers[name] : null);

async function recall(path) {
  const [route, query] = path.split("?");
  const asked = new URLSearchParams(query);
  const [what, name] = [route.replace("/api/", ""), asked.get("node") ?? asked.get("name")];
  const answer = what === "plan" ? planAt(Number(asked.get("time"))) : name === null ? recorded[what] : named(recorded[what], name);
  if (!answer) throw missing(name ?? `the ${what} of then`);
  return answer;
}

// The plan that was active at a time; there is null for one that was left out.
const planAt = (time) => recorded.plans.findLast(([decided]) => decided <= time)?.[1];

export function post(path, body, token = null, patience = PATIENCE) {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  return asked(path, { method: "POST", headers, body: JSON.stringify(body) }, patience);
}

async function asked(path, options, patience = PATIENCE) {
  let response;
  try {
    response = await fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(patience) });
  } catch {
    throw new RequestError(0, "the server does not answer; it may be restarting");
  }
  let content = null;
  try {
    content = await response.json();
  } catch {
    // What is no JSON is reported by its status below.
  }
  if (!response.ok) throw new RequestError(response.status, content?.error ?? `the server says ${response.status}`);
  if (content === null) throw new RequestError(response.status, "the server's answer was cut off");
  return content;
}
