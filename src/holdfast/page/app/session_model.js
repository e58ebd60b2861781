/**
 * Model of one session: its state, loaded records and the streamed answer. Records load in pages when they become
 * visible, and are evicted when far away.
 */

import { at, get } from "./api.js";
import { Feed } from "./feed.js";

const PAGE = 200;
/** Cached pages: 12,000 records, more than a user scrolls through at once. */
const PAGES_MAX = 60;
/** Debounce in milliseconds before the state and the view are read again. */
const DEBOUNCE = 150;
/** Records that may change the view or its size. */
const CHANGES_VIEW = new Set([
  "InputAdmitted", "ReplyRecorded", "ToolSettled", "TurnStarted", "TurnEnded", "CompactionApplied", "GenerationStarted", "CompactionUndone",
  "MessagePinned", "MessageExcluded", "MessageAppended", "MessagesRetracted", "PartReplaced", "OutputMasked", "ReasoningDropped", "SessionConfigured", "CompactionSettled",
  "ApprovalRequested", "ApprovalAnswered", "BranchSwitched",
]);

/** @typedef {import("./record_text.js").Logged} Logged */

export class SessionModel extends EventTarget {
  /** @param {string} key */
  constructor(key) {
    super();
    this.key = key;
    /** @type {any} SessionDetail; null until loaded */
    this.detail = null;
    /** @type {any} ViewNow; null until loaded */
    this.view = null;
    /** @type {any[]} tool calls that wait for an approval, oldest first */
    this.approvals = [];
    this.count = 0;
    /** @type {Map<number, Logged[]>} */
    this._pages = new Map();
    /** @type {Map<number, Promise<void>>} */
    this._loading = new Map();
    /**
     * The streamed answer.
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

  /** Read the session's state, then open its event stream. */
  async open() {
    await this.refresh();
    if (this._stop.signal.aborted) return;
    this._feed = new Feed(
      (cursor) => at(this.key, `/events${cursor ? `?cursor=${encodeURIComponent(cursor)}` : `?after=${this.count}`}`),
      { onEvent: (event) => this._receive(event), onState: (state, problem) => this._connected(state, problem) },
    );
  }

  close() {
    this._stop.abort();
    this._feed?.close();
    clearTimeout(this._timer);
  }

  /** Reconnect, for instance with another key. */
  again() {
    this._feed?.again();
  }

  /** Read the state and the view. The state is announced as soon as it is there: it is small, the view may not be. */
  async refresh() {
    const detail = async () => {
      this.detail = await get(at(this.key), {}, this._stop.signal);
      this._grow(Math.max(this.count, this.detail.records));
      this._announce("detail");
      await this._readApprovals();
    };
    const view = async () => {
      this.view = await get(at(this.key, "/view"), {}, this._stop.signal);
      this._announce("view");
    };
    await Promise.all([detail(), view()]);
  }

  /** Read the questions of a session that may have some: one that is about to continue. */
  async _readApprovals() {
    const isAsked = this.detail.in_flight === "ready";
    const found = isAsked ? (await get(at(this.key, "/approvals"), {}, this._stop.signal)).approvals : [];
    if (!found.length && !this.approvals.length) return;
    this.approvals = found;
    this._announce("approvals");
  }

  /** Whether any record is loaded. */
  get hasRecords() {
    return this._pages.size > 0;
  }

  /** Return a record if it is loaded; `need` loads it. @param {number} seq */
  record(seq) {
    return this._pages.get(Math.floor((seq - 1) / PAGE))?.[(seq - 1) % PAGE];
  }

  /** Load a range of records. @param {number} first @param {number} last */
  async need(first, last) {
    const pages = [];
    for (let page = Math.floor((first - 1) / PAGE); page <= Math.floor((last - 1) / PAGE); page += 1) pages.push(page);
    await Promise.all(pages.map((page) => this._page(page)));
    this._evict(Math.floor((first - 1) / PAGE));
  }

  /** @param {number} page @returns {Promise<void>} */
  _page(page) {
    const known = this._pages.get(page);
    const expected = Math.min(PAGE, this.count - page * PAGE);
    if (known && known.length >= expected) return Promise.resolve();
    let loading = this._loading.get(page);
    if (!loading) {
      loading = this._read(page).finally(() => this._loading.delete(page));
      this._loading.set(page, loading);
    }
    return loading;
  }

  /** @param {number} page */
  async _read(page) {
    const data = await get(at(this.key, "/records"), { after: page * PAGE, limit: PAGE }, this._stop.signal);
    const newer = this._pages.get(page) ?? [];
    // Keep records that the event stream delivered during the request.
    this._pages.set(page, newer.length > data.records.length ? newer : data.records);
    this._announce("records", { first: page * PAGE + 1, last: page * PAGE + data.records.length });
  }

  /** @param {number} near */
  _evict(near) {
    if (this._pages.size <= PAGES_MAX) return;
    const far = [...this._pages.keys()].sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
    for (const page of far.slice(0, this._pages.size - PAGES_MAX)) this._pages.delete(page);
  }

  /** @param {import("./feed.js").Event} event */
  _receive(event) {
    if (event.name === "record") this._receiveRecord(event.data);
    else if (event.name === "delta") this._receiveDelta(event.data);
    else if (event.name === "resync") this._resync();
    else if (event.name === "watching" && event.data.seq > this.count) {
      this._grow(event.data.seq);
      this._refreshSoon();
    }
    else if (event.name === "gone") this._announce("gone");
  }

  /** @param {Logged} logged */
  _receiveRecord(logged) {
    const page = Math.floor((logged.seq - 1) / PAGE);
    const place = (logged.seq - 1) % PAGE;
    const known = this._pages.get(page);
    // Keep the record if it continues a loaded page; others load when they become visible.
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
  _receiveDelta(delta) {
    const { turn, attempt } = delta;
    if (!this.writing || this.writing.turn !== turn || this.writing.attempt !== attempt) {
      this.writing = { turn, attempt, text: "", reasoning: "" };
    }
    this.writing[delta.kind] += delta.text;
    this._announce("writing");
  }

  /** The loaded records are from a deleted session: start over. */
  async _resync() {
    this._pages.clear();
    this.count = 0;
    this.writing = null;
    await this.refresh().catch(() => {});
    this._announce("reset");
  }

  _refreshSoon() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.refresh().catch(() => {}), DEBOUNCE);
  }

  /** @param {import("./feed.js").FeedState} state @param {Error} [problem] */
  _connected(state, problem) {
    if (this.state === state) return;
    const wasAway = this.state === "waiting" || this.state === "connecting";
    this.state = state;
    // Deltas are not replayed: after a disconnect drop the partial text; the record will have all of it.
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
