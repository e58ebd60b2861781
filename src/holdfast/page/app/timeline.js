/** Timeline of a session: every record, and the streamed answer below. */

import { attempt, toast } from "./dialogs.js";
import { at, send } from "./api.js";
import { el } from "./dom.js";
import { icon } from "./icons.js";
import { drawRecord, toneOf } from "./parts.js";
import { prose } from "./prose.js";
import { bones } from "./skeleton.js";
import { IN_STEP, replyOf, stepsOf } from "./steps.js";
import { VirtualList } from "./virtual.js";

/** Estimated row height in pixels: between a step and a short message. */
const ROW_GUESS = 52;
/** Records loaded before and after a record to be shown: about a screen. */
const AROUND = 30;
/** Records that may follow the newest answer: the end of its turn, a compaction, notices. */
const RECORDS_AFTER_ANSWER = 20;
const DETAIL_KEY = "holdfast-timeline";

export class Timeline {
  /**
   * @param {import("./session_model.js").SessionModel} model
   * @param {{ openCompaction: (seq: number) => void, fork: (seq: number) => void, edit: (seq: number) => void }} actions
   */
  constructor(model, actions) {
    this._model = model;
    this._memory = { unfolded: new Set() };
    /** The newest answer that was unfolded. */
    this._newest = 0;
    this._actions = {
      ...actions,
      key: model.key,
      isPinned: (/** @type {number} */ seq) => model.detail?.pinned.includes(seq) ?? false,
      pin: (/** @type {number} */ seq, /** @type {boolean} */ isPinned) => this._pin(seq, isPinned),
      isExcluded: (/** @type {number} */ seq) => model.detail?.excluded.includes(seq) ?? false,
      exclude: (/** @type {number} */ seq, /** @type {boolean} */ isExcluded) => this._exclude(seq, isExcluded),
      isInView: (/** @type {import("./record_text.js").Logged} */ logged) => this._isInView(logged),
    };
    this.list = new VirtualList({
      label: "Timeline",
      role: "feed",
      rowRole: "article",
      guess: ROW_GUESS,
      sticksToEnd: true,
      draw: (index) => this._draw(index),
      isShown: (index) => this._isShown(index),
      onRange: (first, last) => this._need(first, last),
      onOpen: (index) => this._open(index),
    });
    this._toEnd = el(
      "button",
      { type: "button", class: "button to-end", on: { click: () => this.list.scrollToEnd() } },
      icon("down"),
      "Newest",
    );
    // Screen readers announce a complete answer, not every delta.
    this._announced = el("p", { class: "hidden", role: "status", "aria-live": "polite" });
    this._isBrief = localStorage.getItem(DETAIL_KEY) !== "everything";
    this.tools = el(
      "button",
      { type: "button", class: "quiet detail-button", on: { click: () => this._switch(!this._isBrief) } },
    );
    this._empty = el("p", { class: "empty" }, "No messages yet. Write one below.");
    this._loading = bones("Loading the timeline…");
    this.node = el("div", { class: "timeline" }, this._loading, this._empty, this.list.node, this._toEnd, this._announced);
    this._showDetail();
    this.list.node.addEventListener("scroll", () => this._showToEnd(), { passive: true });
    this._listen();
    this._resize();
    this._showToEnd();
  }

  close() {
    this._stop.abort();
    this.list.close();
  }

  /** Scroll to a record. @param {number} seq */
  async show(seq) {
    const { count } = this._model;
    if (!(seq >= 1 && seq <= count)) return;
    // Load the records around it first, so that rows taller than estimated do not push it away.
    await this._model.need(Math.max(1, seq - AROUND), Math.min(count, seq + AROUND)).catch(() => {});
    const logged = this._model.record(seq);
    const reply = logged && IN_STEP.has(logged.record.type) ? replyOf(this._model, logged) : 0;
    const target = reply || seq;
    if (reply) this._openStep(reply, /** @type {any} */ (logged).record);
    else if (this._isBrief && logged && toneOf(logged.record) === "step") this._switch(false);
    requestAnimationFrame(() => {
      this.list.scrollTo(target - 1);
      this.list.activate(target - 1);
    });
  }

  /** Unfold the step that a tool record belongs to. @param {number} reply @param {any} record */
  _openStep(reply, record) {
    const { parts } = /** @type {any} */ (this._model.record(reply)).record.reply;
    const id = record.call_id ?? record.result.call_id;
    const place = parts.findIndex((/** @type {any} */ part) => part.type === "tool_call" && part.call_id === id);
    this._memory.unfolded.add(`${reply}.${place}.step`);
    this.list.redraw(reply - 1);
  }

  /** @param {number} index */
  _isShown(index) {
    if (!this._isBrief || index >= this._model.count) return true;
    const logged = this._model.record(index + 1);
    if (!logged) return true;
    // A result is shown with its call, as far as that is loaded.
    if (IN_STEP.has(logged.record.type) && replyOf(this._model, logged)) return false;
    return toneOf(logged.record) !== "step";
  }

  /** @param {boolean} isBrief */
  _switch(isBrief) {
    this._isBrief = isBrief;
    localStorage.setItem(DETAIL_KEY, isBrief ? "brief" : "everything");
    this._showDetail();
    this._showEmpty();
    this.list.restart();
  }

  _showDetail() {
    this.tools.textContent = this._isBrief ? "Show every step" : "Hide steps";
    this.tools.setAttribute("aria-pressed", String(!this._isBrief));
  }

  _listen() {
    this._stop = new AbortController();
    const on = (/** @type {string} */ name, /** @type {(event: any) => void} */ act) => this._model.addEventListener(
      name,
      act,
      { signal: this._stop?.signal },
    );
    on("count", () => this._resize());
    on("records", (event) => this._arrived(event.detail.first, event.detail.last));
    on("record", (event) => this._arrived(event.detail.seq, event.detail.seq));
    on("record", (event) => this._announce(event.detail));
    on("writing", () => this._write());
    on("reset", () => this.list.reset(this._model.count));
    on("detail", () => this._showEmpty());
    on("detail", () => this._restate());
  }

  _resize() {
    this.list.setCount(this._model.count + (this._model.writing ? 1 : 0));
    this._showEmpty();
  }

  /** Redraw the rows if the boundary, the pins or the exclusions changed. */
  _restate() {
    const { boundary = 0, pinned = [], excluded = [] } = this._model.detail ?? {};
    const now = `${boundary} ${pinned} ${excluded}`;
    if (now !== this._stated) this.list.redraw();
    this._stated = now;
  }

  _write() {
    const isWriting = Boolean(this._model.writing);
    if (isWriting !== this._wasWriting) this._resize();
    this._wasWriting = isWriting;
    if (!isWriting || this._isDrawing) return;
    // Deltas arrive faster than frames are drawn.
    this._isDrawing = true;
    requestAnimationFrame(() => {
      this._isDrawing = false;
      if (this._model.writing) this.list.redraw(this._model.count);
    });
  }

  /** @param {number} first @param {number} last */
  _arrived(first, last) {
    for (let seq = first; seq <= last; seq += 1) {
      this.list.redraw(seq - 1);
      const logged = this._model.record(seq);
      const reply = logged && IN_STEP.has(logged.record.type) ? replyOf(this._model, logged) : 0;
      if (reply && reply < first) this.list.redraw(reply - 1);
    }
    this._showEmpty();
  }

  /** @param {import("./record_text.js").Logged} logged */
  _announce({ record }) {
    if (record.type === "ReplyRecorded") this._announced.textContent = "The model has answered.";
    else if ([
      "notice",
      "warning",
      "turning",
      "fault",
    ].includes(toneOf(record))) this._announced.textContent = record.sentence ?? "";
  }

  /** @param {number} index */
  _draw(index) {
    if (index >= this._model.count) return this._drawWriting();
    const logged = this._model.record(index + 1);
    if (!logged) return el(
      "div",
      { class: "row row-line is-empty" },
      el("span", { class: "row-seq" }, `#${index + 1}`),
    );
    this._unfoldNewest(logged);
    if (logged.record.type === "ReplyRecorded") {
      return drawRecord(logged, { ...this._memory, steps: stepsOf(this._model, logged) }, this._actions);
    }
    const isLine = IN_STEP.has(logged.record.type) && replyOf(this._model, logged) > 0;
    return drawRecord(logged, this._memory, { ...this._actions, isLine });
  }

  /** Show the newest answer whole, unless the user has folded it. @param {import("./record_text.js").Logged} logged */
  _unfoldNewest({ seq, record }) {
    if (record.type !== "ReplyRecorded" || seq <= this._newest || this._model.count - seq > RECORDS_AFTER_ANSWER) return;
    for (let later = seq + 1; later <= this._model.count; later += 1) {
      if (["ReplyRecorded", "InputAdmitted"].includes(this._model.record(later)?.record.type ?? "")) return;
    }
    this._newest = seq;
    record.reply.parts.forEach((/** @type {any} */ _part, /** @type {number} */ place) =>
      this._memory.unfolded.add(`${seq}.${place}`));
  }

  _drawWriting() {
    const { text = "", reasoning = "" } = this._model.writing ?? {};
    const thinking = reasoning && !text ? el("p", { class: "faint" }, "Thinking…") : null;
    return el(
      "div",
      { class: "row row-card tone-reply is-writing" },
      el("header", { class: "row-head" }, el("b", { class: "row-who" }, "Writing")),
      el("div", { class: "row-body" }, thinking, prose(text)),
    );
  }

  /** @param {number} first @param {number} last */
  _need(first, last) {
    const { count } = this._model;
    if (count) this._model.need(Math.min(first + 1, count), Math.min(last + 1, count)).catch(() => {});
    this._showToEnd();
  }

  _showToEnd() {
    this._toEnd.hidden = this.list.isAtEnd;
  }

  /** Show the empty state if there are no messages: configuration records are steps. */
  _showEmpty() {
    const { count, detail, writing } = this._model;
    // Until the newest records are there, rows are empty lines.
    this._loading.hidden = Boolean(detail) && (count === 0 || Boolean(writing) || this._model.hasRecords);
    let isEmpty = Boolean(detail) && this._isBrief && !writing && count <= AROUND;
    for (let seq = 1; isEmpty && seq <= count; seq += 1) {
      const logged = this._model.record(seq);
      isEmpty = Boolean(logged) && toneOf(/** @type {any} */ (logged).record) === "step";
    }
    this._empty.hidden = !isEmpty;
    this.list.node.hidden = isEmpty || !detail;
  }

  /** @param {number} index */
  _open(index) {
    const row = this.list.node.querySelector(`[aria-posinset="${index + 1}"]`);
    const button = row?.querySelector("[data-opens], .fold-button, summary, button");
    if (button instanceof HTMLElement) button.click();
  }

  /** @param {number} seq @param {boolean} isPinned */
  _pin(seq, isPinned) {
    return attempt(async () => {
      await send(isPinned ? "PUT" : "DELETE", at(this._model.key, `/pins/${seq}`));
      toast(
        isPinned ? `Message ${seq} stays in the view through compactions.` : `Message ${seq} is no longer pinned.`
      );
      await this._model.refresh();
    });
  }

  /** @param {number} seq @param {boolean} isExcluded */
  _exclude(seq, isExcluded) {
    return attempt(async () => {
      await send(isExcluded ? "PUT" : "DELETE", at(this._model.key, `/exclusions/${seq}`));
      toast(isExcluded ? `Record ${seq} is left out of the view.` : `Record ${seq} is in the view again.`);
      await this._model.refresh();
    });
  }

  /** @param {import("./record_text.js").Logged} logged */
  _isInView({ seq, record }) {
    const { boundary = 0, pinned = [] } = this._model.detail ?? {};
    const turn = record.turn ?? seq;
    return turn >= boundary || pinned.includes(turn);
  }
}
