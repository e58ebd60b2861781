/** Records that left the view: ranges with their reasons, and the originals. */

import { at, get } from "./api.js";
import { sentenceOf } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { count, counted } from "./format.js";
import { drawRecord, toneOf } from "./parts.js";
import { plain } from "./plain.js";
import { toSession } from "./router.js";
import { VirtualList } from "./virtual.js";

const ROW_GUESS = 64;
/** @type {Record<string, string>} */
const REASONS = {
  compacted: "replaced by a summary",
  rolled_over: "dropped by a new generation",
  masked: "tool output masked",
  replaced: "replaced by a smaller part",
  thinking: "reasoning not sent back",
  excluded: "left out",
  heartbeat: "a heartbeat, dropped by a compaction",
};
/** Rows of a range that are hidden: they are not messages, so they never were in the view. */
const NEVER_IN_VIEW = new Set(["step", "notice", "warning", "turning", "fault", "rung"]);

/** @typedef {{ left: any, begin: number }} Range `begin` is the row of its head */

export class PastList {
  /** @param {import("./session_model.js").SessionModel} model */
  constructor(model) {
    this._model = model;
    this._memory = { unfolded: new Set() };
    this._stop = new AbortController();
    /** @type {Range[]} */
    this._ranges = [];
    this._status = el("p", { class: "empty", role: "status" }, "Loading…");
    this._sum = el("span", { class: "faint" });
    this._list = new VirtualList({
      label: "Records that left the view",
      role: "feed",
      rowRole: "article",
      guess: ROW_GUESS,
      draw: (index) => this._draw(index),
      isShown: (index) => this._isShown(index),
      onRange: (first, last) => this._need(first, last),
    });
    this.node = el(
      "section",
      { class: "pane", "aria-label": "Left the view" },
      el("header", { class: "pane-head" }, el("h2", {}, "Left the view"), this._sum),
      this._status,
      this._list.node,
    );
    model.addEventListener("detail", () => this._refresh(), { signal: this._stop.signal });
    model.addEventListener("records", () => this._list.redraw(), { signal: this._stop.signal });
    if (model.detail) this._refresh();
  }

  close() {
    this._stop.abort();
    this._list.close();
  }

  async _refresh() {
    let past;
    try {
      past = await get(at(this._model.key, "/past"), {}, this._stop.signal);
    } catch (error) {
      if (!this._stop.signal.aborted) this._status.textContent = sentenceOf(error);
      return;
    }
    const now = JSON.stringify(past.left);
    if (now === this._known) return;
    this._known = now;
    this._show(past);
  }

  /** @param {any} past */
  _show(past) {
    let row = 0;
    this._ranges = past.left.map((/** @type {any} */ left) => {
      const begin = row;
      row += 2 + left.last - left.first;
      return { left, begin };
    });
    const records = past.left.reduce(
      (/** @type {number} */ sum, /** @type {any} */ left) => sum + 1 + left.last - left.first,
      0,
    );
    this._status.hidden = row > 0;
    this._status.textContent = "Nothing has left the view: the model sees every message verbatim.";
    this._list.node.hidden = row === 0;
    fill(
      this._sum,
      row ? `${counted(records, "record")}, all stored${past.is_whole ? "" : "; this list is truncated"}` : null,
    );
    this._list.reset(row);
    this._list.redraw();
  }

  /** @param {number} index @returns {{ left: any, seq: number }} seq 0 is the head of the range */
  _at(index) {
    const place = this._ranges.findLastIndex(({ begin }) => begin <= index);
    const { left, begin } = this._ranges[place];
    return { left, seq: index === begin ? 0 : left.first + index - begin - 1 };
  }

  /** @param {number} index */
  _isShown(index) {
    const { left, seq } = this._at(index);
    const logged = seq ? this._model.record(seq) : undefined;
    if (!logged) return true;
    return !NEVER_IN_VIEW.has(toneOf(logged.record)) && !(
      left.reason === "thinking" && logged.record.type !== "ReplyRecorded"
    );
  }

  /** @param {number} first @param {number} last */
  _need(first, last) {
    const seqs = [first, last].map((index) => this._at(index)).map(({ left, seq }) => seq || left.first);
    this._model.need(Math.min(...seqs), Math.max(...seqs)).catch(() => {});
  }

  /** @param {number} index */
  _draw(index) {
    const { left, seq } = this._at(index);
    if (!seq) return this._drawHead(left);
    const logged = this._model.record(seq);
    if (!logged) return el("div", { class: "row row-line is-empty" }, el("span", { class: "row-seq" }, `#${seq}`));
    const none = () => {};
    const isPinned = (/** @type {number} */ at) => this._model.detail?.pinned.includes(at) ?? false;
    const note = isPinned(seq) ? "pinned, still in the view" : (REASONS[left.reason] ?? left.reason);
    return drawRecord(
      logged,
      this._memory,
      {
        key: this._model.key,
        isPinned,
        pin: none,
        isExcluded: () => false,
        exclude: none,
        openCompaction: none,
        fork: none,
        isInView: () => true,
        isReadOnly: true,
        note,
      },
    );
  }

  /** @param {any} left */
  _drawHead(left) {
    const isCompaction = left.reason === "compacted" || left.reason === "rolled_over";
    const address = left.by ? toSession(this._model.key, isCompaction ? "compaction" : "timeline", left.by) : null;
    const range = left.first === left.last ? `Record ${count(left.first)}` : `Records ${count(left.first)} to ${count(left.last)}`;
    return el(
      "div",
      { class: "stretch" },
      el("h3", {}, `${range}: ${REASONS[left.reason] ?? left.reason}`),
      el("p", { class: "faint", dir: "auto" }, plain(left.words)),
      left.shown ? el("p", { class: "quoted", dir: "auto" }, plain(left.shown)) : null,
      address ? el(
        "a",
        { href: address },
        isCompaction ? "Summary and originals side by side" : `By record ${count(left.by)}`,
      ) : null,
    );
  }
}
