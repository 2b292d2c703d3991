// The status of the run: server-sent events while they work, requests every few seconds while they do not.
//
// A browser gives an event source up for good when the server rejects it, and otherwise tries again
// by itself; so it is closed at the first error and opened anew after a pause that grows. Before it
// is opened the status is requested, so it is never without news for longer than the pause. A window that is
// not seen is not updated: it catches up when it is.

import { get, recorded } from "./server.js";

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 5000;
const IDLE_LIMIT = 12000; // nothing may have changed, or something between here and there holds it back

export function follow(onStatus, onProblem) {
  let source = null;
  let pause = FIRST_PAUSE;
  let timer = 0;
  let idleTimer = 0;

  // Whether the connection is new is passed on too: it may be to another run.
  function take(status, isNew = false) {
    clearTimeout(idleTimer);
    if (!recorded) idleTimer = setTimeout(ask, IDLE_LIMIT);
    onStatus(status, isNew);
  }

  async function ask(isNew = false) {
    try {
      take(await get("/api/status"), isNew);
      return true;
    } catch (problem) {
      onProblem(problem);
      retry();
      return false;
    }
  }

  function stop() {
    source?.close();
    source = null;
    clearTimeout(timer);
    clearTimeout(idleTimer);
  }

  function retry() {
    stop();
    timer = setTimeout(open, pause);
    pause = Math.min(LONGEST_PAUSE, pause * 1.6);
  }

  async function open() {
    if (document.hidden || source || !(await ask(true)) || source) return;
    source = new EventSource("/api/stream");
    source.onmessage = (message) => {
      pause = FIRST_PAUSE;
      try {
        take(JSON.parse(message.data));
      } catch {
        retry(); // half a message: begin anew
      }
    };
    source.onerror = retry;
  }

  if (recorded) return void ask(true); // a report: there is no more to come
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : open()));
  open();
}
