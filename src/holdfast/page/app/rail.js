/** Sidebar: search, list of sessions with filter and selection, and buttons to create or import one. */

import { exportAll, removeAll, tagAll } from "./bulk.js";
import { el, fill, freshId } from "./dom.js";
import { importSession } from "./files.js";
import { count, counted } from "./format.js";
import { icon } from "./icons.js";
import { newSession } from "./new_session.js";
import { go, toSearch, toSession } from "./router.js";
import { SessionFilter } from "./session_filter.js";
import { drawSession, skeletonRow } from "./session_row.js";
import { VirtualList } from "./virtual.js";

/** Row height in pixels, as in the style sheet. */
const ROW = 34;
const SKELETONS = 12;
/** Milliseconds between updates of the ages. */
const MINUTE = 60_000;

export class Rail {
  /** @param {import("./sessions_model.js").SessionsModel} sessions */
  constructor(sessions) {
    this._sessions = sessions;
    /** @type {any[]} */
    this._shown = [];
    /** @type {Set<string>} */
    this._selected = new Set();
    this._from = -1;
    this._current = "";
    const id = freshId("search");
    this.search = el(
      "input",
      {
        id,
        class: "search-box",
        type: "search",
        placeholder: "Search everything",
        autocomplete: "off",
        spellcheck: "false",
        "aria-keyshortcuts": "/",
        maxlength: "2000",
      },
    );
    this._count = el("p", { class: "rail-count", role: "status", "aria-live": "polite" });
    this._skeleton = el("div", { class: "rail-skeleton" }, Array.from({ length: SKELETONS }, (_, place) => skeletonRow(place)));
    this.filter = new SessionFilter(() => this._filter());
    this._bulk = el("div", { class: "rail-bulk", role: "toolbar", "aria-label": "Selected sessions" });
    this.list = new VirtualList({
      label: "Sessions",
      role: "listbox",
      rowRole: "option",
      guess: ROW,
      isEven: true,
      isSelected: (index) => this._selected.has(this._shown[index]?.key),
      draw: (index) => this._draw(index),
      onOpen: (index) => this._open(index),
    });
    this.list.node.setAttribute("aria-multiselectable", "true");
    this.list.node.addEventListener("click", (event) => this._click(event));
    this.list.node.addEventListener("keydown", (event) => this._key(event));
    this.node = el(
      "aside",
      { class: "rail", "aria-label": "Sessions" },
      el(
        "div",
        { class: "rail-head" },
        el(
          "form",
          { class: "search", role: "search", on: { submit: (/** @type {Event} */ event) => this._search(event) } },
          icon("search"),
          el("label", { for: id, class: "hidden" }, "Search sessions and their records"),
          this.search,
          el("kbd", { "aria-hidden": "true" }, "/"),
        ),
        el(
          "button",
          {
            type: "button",
            class: "button icon-button",
            "aria-label": "New session",
            title: "New session (n)",
            on: { click: () => newSession() },
          },
          icon("plus"),
        ),
        el(
          "button",
          {
            type: "button",
            class: "button icon-button",
            "aria-label": "Import a session",
            title: "Import a session (i)",
            on: { click: () => importSession() },
          },
          icon("upload"),
        ),
      ),
      el("div", { class: "rail-bar" }, this._count, this.filter.node),
      this._bulk,
      this._skeleton,
      this.list.node,
    );
    this.search.addEventListener("input", () => this._filter());
    this.search.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        this.list.node.focus();
        this.list.activate(0);
      } else if (event.key === "Escape") {
        this.search.value = "";
        this._filter();
        this.search.blur();
      }
    });
    sessions.addEventListener("change", () => this._filter());
    setInterval(() => this.list.redraw(), MINUTE);
    this._filter();
  }

  /** Mark the session that is open. @param {string} key */
  mark(key) {
    this._current = key;
    this.list.redraw();
  }

  /** Move the focus into the list. */
  focusList() {
    this.list.node.focus();
    if (this.list.active < 0) this.list.activate(0);
  }

  /** Go to the session below or above. @param {number} step */
  step(step) {
    const from = this._shown.findIndex((one) => one.key === this._current);
    const to = Math.max(0, Math.min(this._shown.length - 1, from + step));
    if (this._shown[to]) go(toSession(this._shown[to].key));
    this.list.activate(to);
  }

  _filter() {
    const active = this._shown[this.list.active]?.key;
    this._shown = this.filter.apply(this._sessions.newest(), this.search.value);
    this.list.setCount(this._shown.length);
    if (active !== undefined) this.list.activate(this._shown.findIndex((one) => one.key === active), { scroll: false });
    this.list.redraw();
    for (const key of this._selected) if (!this._sessions.get(key)) this._selected.delete(key);
    const { isKnown, problem } = this._sessions;
    this._skeleton.hidden = isKnown || Boolean(problem);
    this.list.node.hidden = !isKnown;
    this._count.textContent = this._said();
    this._showBulk();
  }

  /** What the list has, as the store told it: never a number that is not known yet. */
  _said() {
    const { isKnown, isComplete, problem, count: all, loaded } = this._sessions;
    if (!isKnown) return problem ? `The list cannot be read: ${problem}` : "Loading sessions…";
    const rest = isComplete ? "" : `, ${count(loaded)} loaded`;
    const isPart = this.search.value.trim() !== "" || this.filter.count > 0;
    if (!isPart) return `${counted(all, "session")}${rest}`;
    const enter = this.search.value.trim() ? "; Enter searches their records" : "";
    return `${count(this._shown.length)} of ${counted(all, "session")}${rest}${enter}`;
  }

  /** @param {Event} event */
  _search(event) {
    event.preventDefault();
    if (this.search.value.trim()) go(toSearch(this.search.value.trim()));
  }

  /** @param {MouseEvent} event */
  _click(event) {
    const target = /** @type {Element} */ (event.target);
    const row = target.closest("[aria-posinset]");
    if (!row) return;
    const index = Number(row.getAttribute("aria-posinset")) - 1;
    if (event.shiftKey && this._from >= 0) this._selectRange(this._from, index);
    else if (event.ctrlKey || event.metaKey || target.closest("[data-pick]")) this._toggle(index);
    else this._open(index);
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    if (event.key === " " && this.list.active >= 0) {
      event.preventDefault();
      this._toggle(this.list.active);
    } else if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this._selectRange(0, this._shown.length - 1);
    } else if (event.key === "Escape" && this._selected.size) {
      this._selected.clear();
      this._filter();
    } else if (event.key === "Delete" && this._selected.size) {
      this._removeSelected();
    } else if (event.key === "t" && this._selected.size && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      this._tagSelected();
    }
  }

  /** @param {number} index */
  _toggle(index) {
    const key = this._shown[index]?.key;
    if (key === undefined) return;
    if (!this._selected.delete(key)) this._selected.add(key);
    this._from = index;
    this.list.activate(index, { scroll: false });
    this._filter();
  }

  /** @param {number} from @param {number} to */
  _selectRange(from, to) {
    for (let index = Math.min(from, to); index <= Math.max(from, to); index += 1) {
      if (this._shown[index]) this._selected.add(this._shown[index].key);
    }
    this._filter();
  }

  _showBulk() {
    const all = this._selected.size;
    this._bulk.hidden = all === 0;
    if (!all) return;
    const button = (/** @type {string} */ words, /** @type {Parameters<typeof icon>[0]} */ picture, /** @type {() => void} */ act) =>
      el("button", { type: "button", class: "quiet", on: { click: act } }, icon(picture), words);
    const said = `${count(all)} selected`;
    if (this._bulkSaid === said) return;
    this._bulkSaid = said;
    fill(
      this._bulk,
      el("b", { role: "status" }, said),
      button("Export", "download", () => exportAll([...this._selected])),
      button("Tag…", "tag", () => this._tagSelected()),
      button("Delete…", "trash", () => this._removeSelected()),
      el(
        "button",
        {
          type: "button",
          class: "quiet icon-button",
          "aria-label": "Clear the selection",
          title: "Clear the selection (Esc)",
          on: { click: () => { this._selected.clear(); this._filter(); this.list.node.focus(); } },
        },
        icon("close"),
      ),
    );
  }

  /** The selected sessions. */
  _chosen() {
    return [...this._selected].map((key) => this._sessions.get(key)).filter(Boolean);
  }

  _tagSelected() {
    return tagAll(this._chosen(), this.filter.tags);
  }

  async _removeSelected() {
    const gone = await removeAll(this._chosen());
    for (const key of gone) this._selected.delete(key);
    if (gone.includes(this._current)) go("#/");
    this._filter();
  }

  /** @param {number} index */
  _open(index) {
    const one = this._shown[index];
    if (!one) return;
    this.list.activate(index, { scroll: false });
    go(toSession(one.key));
  }

  /** @param {number} index */
  _draw(index) {
    const one = this._shown[index];
    if (!one) return el("div", {});
    return drawSession(one, {
      isCurrent: one.key === this._current,
      isSelected: this._selected.has(one.key),
      isSelecting: this._selected.size > 0,
    });
  }
}
