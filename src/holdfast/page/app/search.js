/** Search over all sessions, including records that left the view: words or a phrase, by date, author and key. */

import { get } from "./api.js";
import { sentenceOf } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { count, counted, moment, when } from "./format.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";
import { go, toSearch, toSession } from "./router.js";
import { middle } from "./session_row.js";
import { bones } from "./skeleton.js";

const HITS = 100;
/** @type {Record<string, string>} */
const AUTHORS = { "": "Anyone", user: "The user", model: "The model", tool: "A tool" };
/** Milliseconds after the last key until the key filter applies. */
const DEBOUNCE = 300;

/** @typedef {{ exact: boolean, since: string, until: string, author: string, match: string }} Filters */

export class SearchView {
  /** @param {import("./sessions_model.js").SessionsModel} sessions */
  constructor(sessions) {
    this._sessions = sessions;
    this._stop = new AbortController();
    this._query = "";
    /** @type {Filters} */
    this._filters = { exact: false, since: "", until: "", author: "", match: "" };
    this._box = el("input", { id: freshId("query"), class: "field", type: "search", autocomplete: "off", spellcheck: "false", maxlength: "2000" });
    this._status = el("p", { class: "faint", role: "status", "aria-live": "polite" });
    this._hits = el("ol", { class: "hits" });
    this._form = this._makeForm();
    // Titles come with the list of sessions.
    this._closed = new AbortController();
    const redraw = () => {
      if (!this._found || !sessions.isKnown) return;
      this._draw(this._found);
      this._found = null;
    };
    sessions.addEventListener("change", redraw, { signal: this._closed.signal });
    this.node = el(
      "section",
      { class: "page", "aria-label": "Search" },
      el(
        "div",
        { class: "page-narrow" },
        el(
          "header",
          { class: "page-head" },
          el("a", { class: "quiet icon-button only-narrow", href: "#/", "aria-label": "All sessions" }, icon("back")),
          el("h1", { tabindex: "-1" }, "Search"),
        ),
        this._form,
        this._status,
        this._hits,
      ),
    );
  }

  close() {
    this._stop.abort();
    this._closed.abort();
    clearTimeout(this._timer);
  }

  /** @param {import("./router.js").Place} place */
  show({ rest: query }) {
    // A phrase in quotation marks is an exact one.
    const quoted = /^["“](.+)["”]$/.exec(query);
    this._query = quoted ? quoted[1] : query;
    if (quoted) this._set("exact", true);
    this._box.value = this._query;
    this._search();
  }

  _makeForm() {
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      const text = this._box.value.trim();
      if (!text) return;
      if (text === this._query) this._search();
      else go(toSearch(text));
    };
    const field = (/** @type {string} */ label, /** @type {any} */ input) => el("div", { class: "search-field" }, el("label", { for: input.id }, label), input);
    const date = (/** @type {"since" | "until"} */ name) => {
      const input = el("input", { id: freshId(name), class: "field compact", type: "date" });
      input.addEventListener("change", () => this._set(name, input.value, true));
      return input;
    };
    const author = el("select", { id: freshId("author"), class: "field compact" }, Object.entries(AUTHORS).map(([value, words]) => el("option", { value }, words)));
    author.addEventListener("change", () => this._set("author", author.value, true));
    const match = el("input", { id: freshId("match"), class: "field compact", type: "text", placeholder: "any", autocomplete: "off", spellcheck: "false" });
    match.addEventListener("input", () => {
      clearTimeout(this._timer);
      this._timer = setTimeout(() => this._set("match", match.value.trim(), true), DEBOUNCE);
    });
    this._exact = el("input", { id: freshId("exact"), type: "checkbox" });
    this._exact.addEventListener("change", () => this._set("exact", this._exact.checked, true));
    return el(
      "form",
      { class: "search-form", role: "search", "aria-label": "All sessions", on: { submit } },
      el("label", { class: "hidden", for: this._box.id }, "Search for"),
      el("div", { class: "search-line" }, this._box, el("button", { class: "button is-main" }, "Search")),
      el(
        "div",
        { class: "search-filters" },
        el("label", { class: "search-check", for: this._exact.id }, this._exact, "Exact phrase"),
        field("From", date("since")),
        field("To", date("until")),
        field("Said by", author),
        field("Key contains", match),
      ),
    );
  }

  /** @param {keyof Filters} name @param {any} value @param {boolean} [searches] */
  _set(name, value, searches = false) {
    this._filters = { ...this._filters, [name]: value };
    if (name === "exact") this._exact.checked = value;
    if (searches) this._search();
  }

  async _search() {
    if (!this._query) return;
    this._stop.abort();
    const stop = (this._stop = new AbortController());
    this._status.textContent = "Searching…";
    if (!this._hits.childElementCount) fill(this._hits, bones("Searching…", 6));
    const { exact, since, until, author, match } = this._filters;
    const asked = {
      query: this._query,
      limit: HITS,
      exact: exact || undefined,
      since: since ? dayStart(since) : undefined,
      // To the end of the day.
      until: until ? dayStart(until) + 86_400 : undefined,
      author: author || undefined,
      match: match || undefined,
    };
    try {
      const found = await get("/api/search", asked, stop.signal);
      this._show(found);
    } catch (error) {
      if (stop.signal.aborted) return;
      fill(this._hits);
      this._status.textContent = sentenceOf(error);
    }
  }

  /** @param {any} found */
  _show(found) {
    this._found = this._sessions.isKnown ? null : found;
    this._draw(found);
  }

  /** @param {any} found */
  _draw({ hits, searched, sessions, is_complete: isComplete }) {
    const needles = this._filters.exact ? [this._query.trim()] : wordsOf(this._query);
    fill(this._hits, hits.map((/** @type {any} */ hit) => this._drawHit(hit, needles)));
    const said = hits.length ? `${counted(hits.length, "record")}, best first` : "No hits";
    const where = isComplete ? `in ${counted(sessions, "session")}` : `in ${count(searched)} of ${counted(sessions, "session")} before the timeout; search again to get further`;
    this._status.textContent = `${said}, ${where}.`;
  }

  /** @param {any} hit @param {string[]} needles */
  _drawHit(hit, needles) {
    const known = this._sessions.get(hit.session);
    const title = known?.title;
    return el(
      "li",
      {},
      el(
        "a",
        { class: "hit", href: toSession(hit.session, "timeline", hit.seq) },
        el(
          "span",
          { class: "hit-where" },
          el("b", { dir: "auto" }, plain(title || hit.session)),
          title ? middle(hit.session, "hit-key") : null,
          el("span", { class: "hit-about" }, [AUTHORS[hit.author || "?"]?.toLowerCase(), `#${hit.seq}`].filter(Boolean).join(" · ")),
          hit.at ? el("time", { class: "hit-about", title: moment(hit.at) }, when(hit.at)) : null,
        ),
        el("span", { class: "hit-text", dir: "auto" }, marked(hit.excerpt, needles)),
      ),
    );
  }
}

/** Seconds at the start of a local day. @param {string} day */
const dayStart = (day) => new Date(`${day}T00:00:00`).getTime() / 1_000;

/** Words to mark: those of the query without punctuation. @param {string} query */
function wordsOf(query) {
  return [...new Set(query.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}._/-]*/gu) ?? [])];
}

/** Text with matches marked; a word is marked with its ending. @param {string} text @param {string[]} needles */
export function marked(text, needles) {
  if (!needles.length) return plain(text);
  const sorted = [...needles].sort((a, b) => b.length - a.length).map((one) => one.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`((?<![\\p{L}\\p{N}])(?:${sorted.join("|")})[\\p{L}\\p{N}]{0,3}(?![\\p{L}\\p{N}]))`, "giu");
  return text.split(pattern).flatMap((piece, place) => (place % 2 ? [el("mark", {}, plain(piece))] : plain(piece)));
}
