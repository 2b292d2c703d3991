// News of the run: server-sent events while they work, questions every few seconds while they do not.
//
// A browser gives an event source up for good when the server refuses it, and otherwise tries again
// by itself; so it is closed at the first error and opened anew after a pause that grows. Before it
// is opened the page asks, so it is never without news for longer than the pause. A window that is
// not seen is not updated: it catches up when it is.

import { get } from "./server.js";

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 5000;
const SILENCE = 12000; // nothing may have changed, or something between here and there holds it back

export function follow(onNow, onProblem) {
  let source = null;
  let pause = FIRST_PAUSE;
  let timer = 0;
  let silence = 0;

  // Whether the connection is new is told too: it may be to another run.
  function take(now, isNew = false) {
    clearTimeout(silence);
    silence = setTimeout(ask, SILENCE);
    onNow(now, isNew);
  }

  async function ask(isNew = false) {
    try {
      take(await get("/api/now"), isNew);
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
    clearTimeout(silence);
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

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : open()));
  open();
}
