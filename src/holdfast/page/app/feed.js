/**
 * Events of the gateway as they come, without end: whoever is cut off comes back behind the last event it has seen.
 *
 * EventSource cannot send a key, so the stream is read by hand. A hidden tab lets go of its connection, because a
 * browser gives a gateway six in all; it comes back with its cursor and has missed nothing.
 */

import { Problem, ask } from "./api.js";

/** Waits between two tries, in milliseconds: quick at first, because a restart takes a second or two. */
const WAIT_FIRST = 400;
const WAIT_MAX = 8_000;
/** The gateway shows a sign of life every 15 seconds; three missed ones are a dead connection. */
const SILENCE_MAX = 45_000;

/** @typedef {{ name: string, id: string, told: any }} Event */

/**
 * Read events from bytes as they come.
 * @param {ReadableStream<Uint8Array>} body
 * @param {() => void} [beat] called whenever anything comes
 * @returns {AsyncGenerator<Event>}
 */
export async function* eventsOf(body, beat = () => {}) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { name: "message", id: "", lines: /** @type {string[]} */ ([]) };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      beat();
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (event.lines.length) {
            yield { name: event.name, id: event.id, told: JSON.parse(event.lines.join("\n")) };
          }
          event = { name: "message", id: "", lines: [] };
          continue;
        }
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "event") event.name = value;
        else if (field === "id") event.id = value;
        else if (field === "data") event.lines.push(value);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** @typedef {"live" | "connecting" | "waiting" | "hidden" | "refused"} FeedState */

/** One stream of events that is kept up until it is closed. */
export class Feed {
  /**
   * @param {(cursor: string) => string} address where to ask, given the last cursor ("": from the beginning)
   * @param {{ onEvent: (event: Event) => void, onState?: (state: FeedState, problem?: Problem) => void }} told
   */
  constructor(address, { onEvent, onState = () => {} }) {
    this._address = address;
    this._onEvent = onEvent;
    this._onState = onState;
    this._cursor = "";
    this._wasLive = false;
    this._closed = new AbortController();
    /** @type {AbortController | null} */
    this._current = null;
    this._wake = () => {};
    this._visible = () => this._look();
    this._online = () => this._wake();
    document.addEventListener("visibilitychange", this._visible);
    window.addEventListener("online", this._online);
    this._run();
  }

  close() {
    this._closed.abort();
    this._current?.abort();
    this._wake();
    document.removeEventListener("visibilitychange", this._visible);
    window.removeEventListener("online", this._online);
  }

  /** Connect anew, for instance with another key. */
  again() {
    this._current?.abort();
    this._wake();
  }

  _look() {
    if (document.hidden) this._current?.abort();
    this._wake();
  }

  async _run() {
    let wait = WAIT_FIRST;
    while (!this._closed.signal.aborted) {
      if (document.hidden) {
        this._tell("hidden");
        await this._pause(0);
        continue;
      }
      this._tell("connecting");
      const started = Date.now();
      try {
        await this._connect();
        // It ended by itself: the gateway stops, or a proxy cut it. Another one may be there already.
        if (Date.now() - started > WAIT_MAX) wait = WAIT_FIRST;
      } catch (error) {
        if (this._closed.signal.aborted) return;
        if (error instanceof Problem && !error.isPassing) {
          this._tell("refused", error);
          await this._pause(0);
          continue;
        }
      }
      if (this._closed.signal.aborted) return;
      if (document.hidden) continue;
      this._tell("waiting");
      // All pages of a gateway come back at once when it does; a little chance spreads them.
      await this._pause(wait * (0.75 + Math.random() / 2));
      wait = this._wasLive ? WAIT_FIRST : Math.min(wait * 2, WAIT_MAX);
      this._wasLive = false;
    }
  }

  async _connect() {
    const current = (this._current = new AbortController());
    let heard = Date.now();
    const watchdog = setInterval(() => {
      if (Date.now() - heard > SILENCE_MAX) current.abort();
    }, SILENCE_MAX / 9);
    try {
      const response = await ask(this._address(this._cursor), { signal: current.signal });
      if (!response.body) return;
      this._tell("live");
      this._wasLive = true;
      for await (const event of eventsOf(response.body, () => (heard = Date.now()))) {
        if (current.signal.aborted) return;
        if (event.id) this._cursor = event.id;
        this._pass(event);
        if (event.name === "reconnect") return;
        if (event.name === "gone") this.close();
      }
    } finally {
      clearInterval(watchdog);
      current.abort();
    }
  }

  /** A mistake in showing an event must not be taken for a lost connection. @param {Event} event */
  _pass(event) {
    try {
      this._onEvent(event);
    } catch (error) {
      reportError(error);
    }
  }

  /** @param {FeedState} state @param {Problem} [problem] */
  _tell(state, problem) {
    if (!this._closed.signal.aborted) this._onState(state, problem);
  }

  /** Wait so long, or until somebody wakes us; 0: only until then. @param {number} milliseconds */
  _pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = milliseconds ? setTimeout(() => this._wake(), milliseconds) : 0;
      this._wake = () => {
        clearTimeout(timer);
        this._wake = () => {};
        resolve(undefined);
      };
    });
  }
}
