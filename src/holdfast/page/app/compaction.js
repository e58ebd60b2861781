/** Compaction tab: the summary with its ledger, side by side with the originals it replaces. */

import { sentenceOf } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { count, moment, percent } from "./format.js";
import { drawRecord } from "./parts.js";
import { toSession } from "./router.js";
import { fact } from "./session_actions.js";
import { drawLedger, parseSummary, withCitations } from "./summary.js";
import { sides } from "./sides.js";
import { VirtualList } from "./virtual.js";

export class CompactionTab {
  /**
   * @param {import("./session_model.js").SessionModel} model
   * @param {number} seq of the compaction's record
   * @param {import("./session_actions.js").SessionActions} actions
   */
  constructor(model, seq, actions) {
    this._model = model;
    this._seq = seq;
    this._actions = actions;
    this._memory = { unfolded: new Set() };
    this._stop = new AbortController();
    this._left = el("section", { class: "pane", "aria-label": "Compaction" });
    this._right = el("section", { class: "pane", "aria-label": "Originals" });
    this.node = sides({ name: "Summary", node: this._left }, { name: "Originals", node: this._right });
    /** @type {VirtualList | null} */
    this._originals = null;
    this._open();
  }

  close() {
    this._stop.abort();
    this._originals?.close();
  }

  async _open() {
    try {
      if (!this._model.detail) await this._model.refresh();
      if (!(this._seq >= 1 && this._seq <= this._model.count)) throw new Error(`Record ${this._seq} does not exist.`);
      await this._model.need(this._seq, this._seq);
    } catch (error) {
      fill(this._left, el("p", { class: "problem", role: "alert" }, sentenceOf(error)));
      return;
    }
    if (this._stop.signal.aborted) return;
    const logged = this._model.record(this._seq);
    if (!logged?.record.summary && logged?.record.boundary === undefined) {
      fill(this._left, el("p", { class: "empty" }, `Record ${this._seq} is not a compaction.`));
      return;
    }
    this._drawLeft(logged);
    this._drawRight(logged.record);
  }

  /** @param {import("./record_text.js").Logged} logged */
  _drawLeft({ record, at }) {
    const summary = parseSummary(record.summary);
    const open = (/** @type {number} */ seq) => this._originals?.activate(seq - 1);
    const kind = record.type === "GenerationStarted" ? `Generation ${record.generation ?? 2}` : record.kind === "summary" ? "Summary" : "Digest";
    const by = record.kind === "summary" ? `written by ${record.model}` : "made without a model; a model will replace it later";
    const isCurrent = this._model.detail?.compaction === this._seq;
    const saved = record.tokens_before ? 1 - record.tokens_after / record.tokens_before : 0;
    fill(
      this._left,
      el(
        "header",
        { class: "pane-head" },
        el("h2", {}, kind),
        isCurrent ? el("span", { class: "badge is-on" }, "current") : el("span", { class: "badge" }, "replaced or undone"),
        isCurrent ? el(
          "button",
          { type: "button", class: "button", on: { click: () => this._actions.undo() } },
          "Undo",
        ) : null,
      ),
      el(
        "div",
        { class: "pane-scroll", tabindex: "0" },
        el(
          "dl",
          { class: "facts" },
          fact("Created", `${moment(at)}, ${by}`),
          fact("Replaces", `records 1 to ${count(record.boundary - 1)}`),
          fact(
            "Tokens",
            `${count(record.tokens_before)} became ${count(record.tokens_after)} (${percent(saved)} less)`,
          ),
        ),
        el("h3", {}, "Summary"),
        summary.notes ? el(
          "div",
          { class: "quoted prose", dir: "auto" },
          el("p", {}, withCitations(summary.notes, open)),
        ) : el("p", { class: "faint" }, "Only the ledger."),
        el("h3", {}, "Ledger"),
        drawLedger(summary, open),
      ),
    );
  }

  /** @param {any} record */
  _drawRight(record) {
    const last = record.boundary - 1;
    const list = new VirtualList({
      label: `Originals, records 1 to ${last}`,
      role: "feed",
      rowRole: "article",
      guess: 52,
      draw: (index) => this._draw(index + 1),
      onRange: (first, until) => this._model.need(first + 1, until + 1).catch(() => {}),
    });
    this._originals = list;
    this._model.addEventListener("records", () => list.redraw(), { signal: this._stop.signal });
    const back = el(
      "a",
      { class: "quiet", href: toSession(this._model.key, "timeline", this._seq) },
      "In the timeline",
    );
    fill(
      this._right,
      el(
        "header",
        { class: "pane-head" },
        el("h2", {}, "Originals"),
        el("span", { class: "faint" }, "verbatim"),
        back,
      ),
      list.node,
    );
    list.setCount(Math.max(0, last));
  }

  /** @param {number} seq */
  _draw(seq) {
    const logged = this._model.record(seq);
    if (!logged) return el("div", { class: "row row-line is-empty" }, el("span", { class: "row-seq" }, `#${seq}`));
    const none = () => {};
    return drawRecord(
      logged,
      this._memory,
      {
        key: this._model.key,
        isPinned: (at) => this._model.detail?.pinned.includes(at),
        pin: none,
        isExcluded: () => false,
        exclude: none,
        openCompaction: none,
        fork: none,
        isInView: () => true,
        isReadOnly: true,
      },
    );
  }
}
