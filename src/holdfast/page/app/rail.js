/** Sidebar: search, list of sessions, and buttons to create or import one. */

import { send, at } from "./api.js";
import { askLine } from "./dialogs.js";
import { el, freshId } from "./dom.js";
import { importSession } from "./files.js";
import { count, counted, when } from "./format.js";
import { smallGauge } from "./gauge.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";
import { go, toSearch, toSession } from "./router.js";
import { VirtualList } from "./virtual.js";

/** Row height in pixels, as in the style sheet. */
const ROW = 68;

export class Rail {
  /** @param {import("./sessions_model.js").SessionsModel} sessions */
  constructor(sessions) {
    this._sessions = sessions;
    /** @type {any[]} */
    this._shown = [];
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
    this.list = new VirtualList({
      label: "Sessions",
      role: "listbox",
      rowRole: "option",
      guess: ROW,
      isEven: true,
      draw: (index) => this._draw(index),
      onOpen: (index) => this._open(index),
    });
    this.list.node.addEventListener("click", (event) => {
      const row = /** @type {Element} */ (event.target).closest("[aria-posinset]");
      if (row && !(event.ctrlKey || event.metaKey)) this._open(Number(row.getAttribute("aria-posinset")) - 1);
    });
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
      this._count,
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
    this._filter();
  }

  /** Mark the session that is open. @param {string} key */
  mark(key) {
    this._current = key;
    this.list.redraw();
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
    this._shown = this._sessions.sorted(this.search.value);
    this.list.setCount(this._shown.length);
    if (active !== undefined) this.list.activate(this._shown.findIndex((one) => one.key === active), { scroll: false });
    this.list.redraw();
    const all = this._sessions.count;
    const isPart = this.search.value.trim() !== "";
    this._count.textContent = isPart ? `${count(this._shown.length)} of ${counted(all, "session")}; Enter searches their records` : counted(all, "session");
  }

  /** @param {Event} event */
  _search(event) {
    event.preventDefault();
    if (this.search.value.trim()) go(toSearch(this.search.value.trim()));
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
    const isCurrent = one.key === this._current;
    return el(
      "div",
      { class: `rail-row${isCurrent ? " is-current" : ""}`, "data-key": one.key },
      el("span", { class: "rail-key", dir: "auto", title: one.key }, plain(one.key)),
      el("time", { class: "rail-when" }, when(one.updated_at)),
      el("span", { class: `rail-state${one.unanswered ? " is-busy" : ""}` }, one.says ?? ""),
      gaugesOf(one),
    );
  }
}

/** Usage of the three budgets, if known. @param {any} one */
function gaugesOf({ gauge }) {
  if (!gauge) return null;
  const bars = [
    ["Tokens", gauge.tokens],
    ["Bytes", gauge.wire_bytes],
    ["Media", gauge.media],
  ].filter(([, budget]) => budget?.fraction != null);
  return el("span", { class: "rail-gauges" }, bars.map(([name, budget]) => smallGauge(name, budget.fraction)));
}

/** Open the dialog that creates a session. */
export function newSession() {
  return askLine(
    "New session",
    {
      label: "Key",
      hint: "Any name, such as telegram:42. The session exists from now on, even without a message.",
      verb: "Create",
    },
    async (key) => {
      await send("PUT", at(key), {});
      go(toSession(key));
    },
  );
}
