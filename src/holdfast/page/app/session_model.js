/**
 * One session as the page knows it: where it stands, its records as far as they were looked at, and what is being
 * written right now. Records are read in pages when they come into sight, and forgotten again when far away.
 */

import { at, get } from "./api.js";
import { Feed } from "./feed.js";

const PAGE = 200;
/** Pages kept: 12,000 records, more than anyone scrolls through without noticing a short wait. */
const PAGES_MAX = 60;
/** Milliseconds in which changes are gathered before the sizes of the view are asked for again. */
const GATHER = 150;
/** Records after which what the model sees, or how full it is, may be another. */
const CHANGES_VIEW = new Set([
  "InputAdmitted", "ReplyRecorded", "ToolSettled", "TurnStarted", "TurnEnded", "CompactionApplied", "GenerationStarted", "CompactionUndone",
  "MessagePinned", "PartReplaced", "OutputMasked", "ReasoningDropped", "SessionConfigured", "CompactionSettled",
]);

/** @typedef {import("./words.js").Logged} Logged */

export class SessionModel extends EventTarget {
  /** @param {string} key */
  constructor(key) {
    super();
    this.key = key;
    /** @type {any} what GET of the session answers; null until it did */
    this.detail = null;
    /** @type {any} what the model sees now */
    this.view = null;
    this.count = 0;
    /** @type {Map<number, Logged[]>} */
    this._pages = new Map();
    /** @type {Map<number, Promise<void>>} */
    this._asked = new Map();
    /**
     * What is being written, as it comes.
     * @type {{ turn: number, attempt: number, text: string, reasoning: string } | null}
     */
    this.writing = null;
    /** @type {import("./feed.js").FeedState} */
    this.state = "connecting";
    /** @type {Feed | null} */
    this._feed = null;
    this._stop = new AbortController();
    this._timer = 0;
  }

  /** Read where the session stands, then watch it. */
  async open() {
    await this.refresh();
    if (this._stop.signal.aborted) return;
    this._feed = new Feed(
      (cursor) => at(this.key, `/events${cursor ? `?cursor=${encodeURIComponent(cursor)}` : `?after=${this.count}`}`),
      { onEvent: (event) => this._take(event), onState: (state, problem) => this._connected(state, problem) },
    );
  }

  close() {
    this._stop.abort();
    this._feed?.close();
    clearTimeout(this._timer);
  }

  /** Connect anew, for instance with another key. */
  again() {
    this._feed?.again();
  }

  async refresh() {
    const [detail, view] = await Promise.all([
      get(at(this.key), {}, this._stop.signal),
      get(at(this.key, "/view"), {}, this._stop.signal),
    ]);
    this.detail = detail;
    this.view = view;
    this._grow(Math.max(this.count, detail.records));
    this._announce("detail");
  }

  /** Return a record if it is here; otherwise it is asked for, and told when it came. @param {number} seq */
  record(seq) {
    return this._pages.get(Math.floor((seq - 1) / PAGE))?.[(seq - 1) % PAGE];
  }

  /** Have these records here. @param {number} first @param {number} last */
  async need(first, last) {
    const pages = [];
    for (let page = Math.floor((first - 1) / PAGE); page <= Math.floor((last - 1) / PAGE); page += 1) pages.push(page);
    await Promise.all(pages.map((page) => this._page(page)));
    this._forget(Math.floor((first - 1) / PAGE));
  }

  /** @param {number} page @returns {Promise<void>} */
  _page(page) {
    const known = this._pages.get(page);
    const wanted = Math.min(PAGE, this.count - page * PAGE);
    if (known && known.length >= wanted) return Promise.resolve();
    let asked = this._asked.get(page);
    if (!asked) {
      asked = this._read(page).finally(() => this._asked.delete(page));
      this._asked.set(page, asked);
    }
    return asked;
  }

  /** @param {number} page */
  async _read(page) {
    const told = await get(at(this.key, "/records"), { after: page * PAGE, limit: PAGE }, this._stop.signal);
    const newer = this._pages.get(page) ?? [];
    // Records that came by the feed while we asked are not overwritten by an older answer.
    this._pages.set(page, newer.length > told.records.length ? newer : told.records);
    this._announce("records", { first: page * PAGE + 1, last: page * PAGE + told.records.length });
  }

  /** @param {number} near */
  _forget(near) {
    if (this._pages.size <= PAGES_MAX) return;
    const far = [...this._pages.keys()].sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
    for (const page of far.slice(0, this._pages.size - PAGES_MAX)) this._pages.delete(page);
  }

  /** @param {import("./feed.js").Event} event */
  _take(event) {
    if (event.name === "record") this._takeRecord(event.told);
    else if (event.name === "delta") this._takeDelta(event.told);
    else if (event.name === "resync") this._resync();
    else if (event.name === "watching" && event.told.seq > this.count) this._grow(event.told.seq);
    else if (event.name === "gone") this._announce("gone");
  }

  /** @param {Logged} logged */
  _takeRecord(logged) {
    const page = Math.floor((logged.seq - 1) / PAGE);
    const place = (logged.seq - 1) % PAGE;
    const known = this._pages.get(page);
    // Only what continues a page that is here is kept; the rest is read when somebody looks at it.
    if (known && known.length === place) known.push(logged);
    else if (!known && place === 0) this._pages.set(page, [logged]);
    if (this.writing && isEndOfWriting(logged.record, this.writing)) {
      this.writing = null;
      this._announce("writing");
    }
    this._grow(Math.max(this.count, logged.seq));
    this._announce("record", logged);
    if (CHANGES_VIEW.has(logged.record.type)) this._refreshSoon();
  }

  /** @param {number} count */
  _grow(count) {
    if (count === this.count) return;
    this.count = count;
    this._announce("count");
  }

  /** @param {{ turn: number, attempt: number, kind: "text" | "reasoning", text: string }} delta */
  _takeDelta(delta) {
    const { turn, attempt } = delta;
    if (!this.writing || this.writing.turn !== turn || this.writing.attempt !== attempt) {
      this.writing = { turn, attempt, text: "", reasoning: "" };
    }
    this.writing[delta.kind] += delta.text;
    this._announce("writing");
  }

  /** What we have is from another life of the session: begin anew. */
  async _resync() {
    this._pages.clear();
    this.count = 0;
    this.writing = null;
    await this.refresh().catch(() => {});
    this._announce("reset");
  }

  _refreshSoon() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.refresh().catch(() => {}), GATHER);
  }

  /** @param {import("./feed.js").FeedState} state @param {Error} [problem] */
  _connected(state, problem) {
    if (this.state === state) return;
    const wasAway = this.state === "waiting" || this.state === "connecting";
    this.state = state;
    // Deltas are told once: after a break the record will have the text, and half of it would only mislead.
    if (state === "waiting" && this.writing) {
      this.writing = null;
      this._announce("writing");
    }
    if (state === "live" && wasAway) this._refreshSoon();
    if (state === "refused" && /** @type {any} */ (problem)?.status === 404) this._announce("gone");
    this._announce("state");
  }

  /** @param {string} name @param {any} [detail] */
  _announce(name, detail) {
    if (!this._stop.signal.aborted) this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

/** @param {any} record @param {{ turn: number, attempt: number }} writing */
function isEndOfWriting(record, writing) {
  if (record.turn !== writing.turn) return false;
  if (record.type === "TurnEnded") return true;
  return [
    "ReplyRecorded",
    "AttemptFailed",
    "AttemptAbandoned",
  ].includes(record.type) && record.attempt === writing.attempt;
}
