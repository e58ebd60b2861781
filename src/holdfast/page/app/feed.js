/**
 * Client of the gateway's event streams: reconnects with backoff and resumes after the last event.
 *
 * EventSource cannot send a key, so this parses the stream. A hidden tab closes its connection, because browsers allow
 * six per host; it resumes from its cursor and misses nothing. Visible windows share a connection (`shared_stream.js`).
 */

import { Problem, request } from "./api.js";
import { SharedStream } from "./shared_stream.js";

/** Backoff in milliseconds: short at first, because a restart takes a second or two. */
const WAIT_FIRST = 400;
const WAIT_MAX = 8_000;
/** The gateway sends a heartbeat every 15 seconds; after three missed ones the connection is dead. */
const SILENCE_MAX = 45_000;

/** @typedef {{ name: string, id: string, data: any }} Event */

/**
 * Parse server-sent events.
 * @param {ReadableStream<Uint8Array>} body
 * @param {() => void} [onActivity] called for every chunk
 * @returns {AsyncGenerator<Event>}
 */
export async function* eventsOf(body, onActivity = () => {}) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { name: "message", id: "", lines: /** @type {string[]} */ ([]) };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onActivity();
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (event.lines.length) {
            yield { name: event.name, id: event.id, data: JSON.parse(event.lines.join("\n")) };
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

/** An event stream that reconnects until it is closed. */
export class Feed {
  /**
   * @param {(cursor: string) => string} address returns the address for the last cursor ("": none yet)
   * @param {{ onEvent: (event: Event) => void, onState?: (state: FeedState, problem?: Problem) => void }} handlers
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
    this._visible = () => this._visibilityChanged();
    this._online = () => this._wake();
    this._shared = new SharedStream(address("").split("?")[0], {
      onEvent: (event) => this._follow(event),
      onState: (state) => this._setState(state),
    });
    /** Aborted to let another window lead, and to start over. */
    this._turn = new AbortController();
    document.addEventListener("visibilitychange", this._visible);
    window.addEventListener("online", this._online);
    this._run();
  }

  close() {
    this._closed.abort();
    this._turn.abort();
    this._current?.abort();
    this._wake();
    document.removeEventListener("visibilitychange", this._visible);
    window.removeEventListener("online", this._online);
  }

  /** Reconnect, for instance with another key. */
  again() {
    this._turn.abort();
    this._current?.abort();
    this._wake();
  }

  _visibilityChanged() {
    if (document.hidden) {
      this._turn.abort();
      this._current?.abort();
    }
    this._wake();
  }

  async _run() {
    while (!this._closed.signal.aborted) {
      if (document.hidden) {
        this._setState("hidden");
        await this._pause(0);
        continue;
      }
      this._turn = new AbortController();
      this._isRefused = false;
      await this._shared.run(this._turn.signal, () => this._lead(this._turn.signal));
      // Another window may ask for the key.
      if (this._isRefused && !this._turn.signal.aborted) await this._pause(0);
    }
  }

  /** Handle an event that the leading window received. @param {Event} event */
  _follow(event) {
    if (this._closed.signal.aborted || document.hidden) return;
    // The leader tells its position to a window that joins. One that was hidden has missed the events up to there.
    const isBehind = event.name === "watching" && this._cursor !== "" && this._cursor !== event.id;
    if (event.id) this._cursor = event.id;
    this._deliver(isBehind ? { ...event, data: { ...event.data, isBehind } } : event);
    if (event.name === "gone") this.close();
  }

  /** Hold the connection until the turn ends. @param {AbortSignal} turn */
  async _lead(turn) {
    let wait = WAIT_FIRST;
    while (!turn.aborted && !document.hidden) {
      this._setState("connecting");
      const started = Date.now();
      try {
        await this._connect();
        // The server ended the stream: a gateway restart or a proxy timeout.
        if (Date.now() - started > WAIT_MAX) wait = WAIT_FIRST;
      } catch (error) {
        if (turn.aborted) return;
        if (error instanceof Problem && !error.isTransient) {
          this._setState("refused", error);
          this._isRefused = true;
          return;
        }
      }
      if (turn.aborted || document.hidden) return;
      this._setState("waiting");
      // Jitter: all pages reconnect when the gateway returns.
      await this._pause(wait * (0.75 + Math.random() / 2));
      wait = this._wasLive ? WAIT_FIRST : Math.min(wait * 2, WAIT_MAX);
      this._wasLive = false;
    }
  }

  async _connect() {
    const current = (this._current = new AbortController());
    let activeAt = Date.now();
    const watchdog = setInterval(() => {
      if (Date.now() - activeAt > SILENCE_MAX) current.abort();
    }, SILENCE_MAX / 9);
    try {
      const response = await request(this._address(this._cursor), { signal: current.signal });
      if (!response.body) return;
      this._setState("live");
      this._wasLive = true;
      for await (const event of eventsOf(response.body, () => (activeAt = Date.now()))) {
        if (current.signal.aborted) return;
        if (event.id) this._cursor = event.id;
        if (event.name !== "reconnect") this._shared.pass(event);
        this._deliver(event);
        if (event.name === "reconnect") return;
        if (event.name === "gone") this.close();
      }
    } finally {
      clearInterval(watchdog);
      current.abort();
    }
  }

  /** Report an error of a handler without dropping the connection. @param {Event} event */
  _deliver(event) {
    try {
      this._onEvent(event);
    } catch (error) {
      reportError(error);
    }
  }

  /** @param {FeedState} state @param {Problem} [problem] */
  _setState(state, problem) {
    if (this._closed.signal.aborted) return;
    if (this._shared.isLeader && state !== "hidden" && state !== "refused") this._shared.passState(state);
    this._onState(state, problem);
  }

  /** Sleep until the timeout or `_wake`; 0: no timeout. @param {number} milliseconds */
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
