/** All sessions of whoever looks on, newest first, kept up to date by the feed over all of them. */

import { get } from "./api.js";
import { Feed } from "./feed.js";

const PAGE = 1_000;

export class SessionsModel extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, any>} */
    this._all = new Map();
    /** @type {any[] | null} newest first, as it was sorted last */
    this._sorted = null;
    this._isTelling = false;
    this._reading = 0;
    /** @type {import("./feed.js").FeedState} */
    this.state = "connecting";
    /** @type {Feed | null} */
    this._feed = null;
  }

  get count() {
    return this._all.size;
  }

  /** Watch, and read all that there is. */
  open() {
    this._feed = new Feed((cursor) => `/api/events${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`, {
      onEvent: (event) => this._take(event),
      onState: (state) => this._connected(state),
    });
  }

  again() {
    this._feed?.again();
  }

  /** Sessions whose key has this in it, newest first. @param {string} [words] */
  sorted(words = "") {
    this._sorted ??= [...this._all.values()].sort((a, b) => b.updated_at - a.updated_at || (a.key < b.key ? -1 : 1));
    const wanted = words.trim().toLowerCase();
    return wanted ? this._sorted.filter((one) => one.key.toLowerCase().includes(wanted)) : this._sorted;
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
      // Somebody began to read later, and will know better.
      if (number !== this._reading) return;
      for (const one of page.sessions) found.set(one.key, one);
      // What comes first is shown first; what went is noticed at the end.
      for (const one of page.sessions) this._all.set(one.key, one);
      this._tell();
      if (page.next === null) break;
      after = page.next;
    }
    this._all = found;
    this._tell();
  }

  /** @param {import("./feed.js").Event} event */
  _take({ name, told }) {
    if (name === "session") {
      const { session: key, seq: records, ...rest } = told;
      this._all.set(key, { ...this._all.get(key), ...rest, key, records });
      this._tell();
    } else if (name === "deleted") {
      this._all.delete(told.session);
      this._tell();
    } else if (name === "resync" || (name === "watching" && !this._reading)) {
      // Whoever comes back with a cursor has missed nothing.
      this.read().catch(() => {});
    }
  }

  /** @param {import("./feed.js").FeedState} state */
  _connected(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  /** Many changes come at once; a screen shows one of them. */
  _tell() {
    this._sorted = null;
    if (this._isTelling) return;
    this._isTelling = true;
    requestAnimationFrame(() => {
      this._isTelling = false;
      this.dispatchEvent(new Event("change"));
    });
  }
}
