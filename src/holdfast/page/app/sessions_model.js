/** List of the user's sessions, newest first, updated by the event stream over all sessions. */

import { get } from "./api.js";
import { Feed } from "./feed.js";

const PAGE = 1_000;

export class SessionsModel extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, any>} */
    this._all = new Map();
    /** @type {any[] | null} cached order, newest first */
    this._sorted = null;
    this._isNotifying = false;
    this._reading = 0;
    /** @type {import("./feed.js").FeedState} */
    this.state = "connecting";
    /** @type {Feed | null} */
    this._feed = null;
  }

  get count() {
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

  /** Sessions whose key contains the text, newest first. @param {string} [text] */
  sorted(text = "") {
    this._sorted ??= [...this._all.values()].sort((a, b) => b.updated_at - a.updated_at || (a.key < b.key ? -1 : 1));
    const needle = text.trim().toLowerCase();
    return needle ? this._sorted.filter((one) => one.key.toLowerCase().includes(needle)) : this._sorted;
  }

  /** @param {string} key */
  get(key) {
    return this._all.get(key);
  }

  async read() {
    const number = (this._reading += 1);
    const found = new Map();
    let after = "";
    for (;;) {
      const page = await get("/api/sessions", { after: after || undefined, limit: PAGE });
      // A later read replaces this one.
      if (number !== this._reading) return;
      for (const one of page.sessions) found.set(one.key, one);
      // Show each page at once; deleted sessions disappear at the end.
      for (const one of page.sessions) this._all.set(one.key, one);
      this._notify();
      if (page.next === null) break;
      after = page.next;
    }
    this._all = found;
    this._notify();
  }

  /** @param {import("./feed.js").Event} event */
  _receive({ name, data }) {
    if (name === "session") {
      const { session: key, seq: records, ...rest } = data;
      this._all.set(key, { ...this._all.get(key), ...rest, key, records });
      this._notify();
    } else if (name === "deleted") {
      this._all.delete(data.session);
      this._notify();
    } else if (name === "resync" || (name === "watching" && !this._reading)) {
      // A stream that resumed from a cursor has missed nothing.
      this.read().catch(() => {});
    }
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
