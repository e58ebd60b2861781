/** List of the user's sessions, updated by the event stream over all sessions. */

import { get } from "./api.js";
import { Feed } from "./feed.js";

/** The first page is a screen or two, so that it is there at once; the others are read behind it. */
const PAGE_FIRST = 100;
const PAGE = 1_000;
/** Milliseconds after a change until title, tags, model and cost of the changed sessions are read. */
const REFRESH_MS = 600;

export class SessionsModel extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, any>} */
    this._all = new Map();
    /** @type {any[] | null} cached order, newest first */
    this._sorted = null;
    this._isNotifying = false;
    this._reading = 0;
    this._total = 0;
    /** Whether the store has told how many sessions there are, and whether all of them are here. */
    this.isKnown = false;
    this.isComplete = false;
    /** Why the list cannot be read; "" if it can. */
    this.problem = "";
    /** @type {Set<string>} changed sessions whose details are read soon */
    this._stale = new Set();
    this._timer = 0;
    /** @type {import("./feed.js").FeedState} */
    this.state = "connecting";
    /** @type {Feed | null} */
    this._feed = null;
  }

  /** The number of sessions in the store; of the loaded ones as soon as all of them are loaded. */
  get count() {
    return this.isComplete ? this._all.size : Math.max(this._total, this._all.size);
  }

  get loaded() {
    return this._all.size;
  }

  /** Open the event stream; its first event loads the list. */
  open() {
    this._feed = new Feed((cursor) => `/api/events${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`, {
      onEvent: (event) => this._receive(event),
      onState: (state) => this._connected(state),
    });
  }

  again() {
    this._feed?.again();
  }

  /** All loaded sessions, last used first. @returns {any[]} */
  newest() {
    this._sorted ??= [...this._all.values()].sort((a, b) => b.updated_at - a.updated_at || (a.key < b.key ? -1 : 1));
    return this._sorted;
  }

  /** @param {string} key */
  get(key) {
    return this._all.get(key);
  }

  async read() {
    const number = (this._reading += 1);
    const found = new Map();
    this.isComplete = false;
    let after = "";
    try {
      for (;;) {
        const limit = after ? PAGE : PAGE_FIRST;
        const page = await get("/api/sessions", { order: "recent", after: after || undefined, limit, total: !after || undefined });
        // A later read replaces this one.
        if (number !== this._reading) return;
        for (const row of page.sessions) {
          const one = rowOf(row);
          found.set(one.key, one);
          // Show each page at once; deleted sessions disappear at the end.
          this._all.set(one.key, one);
        }
        this._total = page.total ?? this._total;
        this.isKnown = true;
        this.problem = "";
        this._notify();
        if (page.next === null) break;
        after = page.next;
      }
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
      this._notify();
      throw error;
    }
    this._all = found;
    this.isComplete = true;
    this._notify();
  }

  /** @param {import("./feed.js").Event} event */
  _receive({ name, data }) {
    if (name === "session") {
      const { session: key, seq: records, ...rest } = data;
      this._all.set(key, { ...this._all.get(key), ...rest, key, records });
      this._refreshSoon(key);
      this._notify();
    } else if (name === "deleted") {
      this._all.delete(data.session);
      this._total -= 1;
      this._notify();
    } else if (name === "resync" || (name === "watching" && (data.isBehind || !this._reading))) {
      // A stream that resumed from a cursor has missed nothing.
      this.read().catch(() => {});
    }
  }

  /** Read the details of changed sessions, which come first in the list. @param {string} key */
  _refreshSoon(key) {
    this._stale.add(key);
    this._timer ||= setTimeout(() => {
      const limit = Math.min(this._stale.size + 10, PAGE);
      this._timer = 0;
      this._stale.clear();
      get("/api/sessions", { order: "recent", limit }).then(
        (page) => {
          for (const row of page.sessions) this._all.set(row.key, rowOf(row));
          this._notify();
        },
        // The next change reads them.
        () => {},
      );
    }, REFRESH_MS);
  }

  /** @param {import("./feed.js").FeedState} state */
  _connected(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  /** Dispatch one change event per frame. */
  _notify() {
    this._sorted = null;
    if (this._isNotifying) return;
    this._isNotifying = true;
    requestAnimationFrame(() => {
      this._isNotifying = false;
      this.dispatchEvent(new Event("change"));
    });
  }
}

/** @param {any} row of the list: a session may be configured with no model of its own, and has asked one */
function rowOf(row) {
  return { ...row, model: row.model || row.asked_model || "" };
}
