/** Search results over all sessions, including records that left the view. */

import { get } from "./api.js";
import { sentenceOf } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { count, counted } from "./format.js";
import { plain } from "./plain.js";
import { toSession } from "./router.js";

export class SearchView {
  constructor() {
    this._stop = new AbortController();
    this._title = el("h1", { tabindex: "-1" });
    this._status = el("p", { class: "faint", role: "status", "aria-live": "polite" });
    this._hits = el("ol", { class: "hits" });
    this.node = el(
      "section",
      { class: "page", "aria-label": "Search" },
      el("div", { class: "page-narrow" }, this._title, this._status, this._hits),
    );
  }

  close() {
    this._stop.abort();
  }

  /** @param {import("./router.js").Place} place */
  async show({ rest: query }) {
    this._stop.abort();
    const stop = (this._stop = new AbortController());
    fill(this._title, "“", plain(query), "”");
    this._status.textContent = "Searching…";
    try {
      const {
        hits,
        searched,
        sessions,
        is_complete: isComplete,
      } = await get("/api/search", { query, limit: 100 }, stop.signal);
      fill(this._hits, hits.map((/** @type {any} */ hit) => drawHit(hit)));
      const found = hits.length ? `${counted(hits.length, "record")}, best first` : "No hits";
      const where = isComplete ? `in ${counted(sessions, "session")}` : `in ${count(searched)} of ${counted(sessions, "session")} before the timeout; search again to get further`;
      this._status.textContent = `${found}, ${where}.`;
    } catch (error) {
      if (!stop.signal.aborted) this._status.textContent = sentenceOf(error);
    }
  }
}

/** @param {any} hit */
function drawHit(hit) {
  return el(
    "li",
    {},
    el(
      "a",
      { class: "hit", href: toSession(hit.session, "timeline", hit.seq) },
      el(
        "span",
        { class: "hit-where" },
        el("b", {}, plain(hit.session)),
        el("span", { class: "faint" }, `record ${hit.seq}`),
      ),
      el("span", { class: "hit-text", dir: "auto" }, plain(hit.excerpt)),
    ),
  );
}
