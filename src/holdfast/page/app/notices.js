/** Notices, warnings and faults of a session, newest first. The model never sees them. */

import { at, get } from "./api.js";
import { sentenceOf } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { count, moment, when } from "./format.js";
import { plain } from "./plain.js";
import { toSession } from "./router.js";
import { toneOf } from "./parts.js";
import { spoken } from "./record_text.js";

/** Records per request. */
const BATCH = 1_000;
const NOTICE_TONES = new Set(["notice", "warning", "turning", "fault"]);

export class NoticesTab {
  /** @param {import("./session_model.js").SessionModel} model */
  constructor(model) {
    this._model = model;
    this._stop = new AbortController();
    /** The first record that was read. */
    this._from = 0;
    this._list = el("ol", { class: "notices" });
    this._more = el("button", { type: "button", class: "button", hidden: true });
    this._status = el("p", { class: "faint", role: "status" });
    this.node = el(
      "div",
      { class: "pane-scroll page-narrow", tabindex: "0", role: "region", "aria-label": "Notices" },
      this._list,
      this._status,
      this._more,
    );
    this._more.addEventListener("click", () => this._back());
    model.addEventListener(
      "record",
      (event) => this._arrived(/** @type {any} */ (event).detail),
      { signal: this._stop.signal },
    );
    this._begin();
  }

  close() {
    this._stop.abort();
  }

  async _begin() {
    if (!this._model.detail) await this._model.refresh().catch(() => {});
    this._from = this._model.count + 1;
    await this._back();
  }

  async _back() {
    this._more.disabled = true;
    try {
      // Skip batches without notices, at most five; then the user decides.
      for (let tries = 0; tries < 5 && this._from > 1; tries += 1) {
        const after = Math.max(0, this._from - 1 - BATCH);
        const { records } = await get(
          at(this._model.key, "/records"),
          { after, limit: this._from - 1 - after },
          this._stop.signal,
        );
        this._from = after + 1;
        const found = records.filter((/** @type {any} */ one) => NOTICE_TONES.has(toneOf(one.record))).reverse();
        this._list.append(...found.map((/** @type {any} */ one) => this._draw(one)));
        if (found.length) break;
      }
      this._showStatus();
    } catch (error) {
      if (!this._stop.signal.aborted) this._status.textContent = sentenceOf(error);
    }
    this._more.disabled = false;
  }

  _showStatus() {
    const isAll = this._from <= 1;
    this._more.hidden = isAll;
    this._more.textContent = `Search before record ${count(this._from)}`;
    if (!this._list.childElementCount) this._status.textContent = isAll ? "No notices: everything fitted, and nothing failed." : "No recent notices.";
    else this._status.textContent = "";
  }

  /** @param {import("./record_text.js").Logged} logged */
  _arrived(logged) {
    if (!NOTICE_TONES.has(toneOf(logged.record))) return;
    this._list.prepend(this._draw(logged));
    this._status.textContent = "";
  }

  /** @param {import("./record_text.js").Logged} logged */
  _draw({ seq, at: then, record }) {
    const isTurning = record.type === "CompactionApplied" || record.type === "GenerationStarted";
    const address = isTurning ? toSession(
      this._model.key,
      "compaction",
      seq,
    ) : toSession(this._model.key, "timeline", seq);
    const text = spoken(record).replace(/^notice: /, "");
    const line = el("p", { dir: "auto" });
    fill(line, plain(text.slice(0, 1).toUpperCase() + text.slice(1)));
    return el(
      "li",
      { class: `notice tone-${toneOf(record)}` },
      line,
      el("a", { class: "faint", href: address, title: moment(then) }, `${when(then)}, record ${count(seq)}`),
    );
  }
}
