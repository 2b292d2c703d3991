// Requests to the server. What goes wrong is an Error with a sentence for the reader.

export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const get = (path) => asked(path, { headers: { Accept: "application/json" } });

export function post(path, body, token = null) {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  return asked(path, { method: "POST", headers, body: JSON.stringify(body) });
}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(15000) });
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
