/** Filter and order of the list of sessions: by state, model, tag and key. */

import { el, fill, freshId } from "./dom.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";

/** @type {Record<string, { words: string, has: (one: any) => boolean }>} */
const STATES = {
  working: { words: "Working", has: (one) => ["model", "tools", "rung", "working"].includes(one.state) },
  waiting: { words: "Queued or about to continue", has: (one) => ["waiting", "ready"].includes(one.state) },
  approval: { words: "Waiting for an approval", has: (one) => one.state === "approval" },
  idle: { words: "Idle", has: (one) => one.state === "rest" },
  full: { words: "Window over 70 % full", has: (one) => (one.gauge?.tokens?.fraction ?? 0) >= 0.7 },
};

/** @type {Record<string, { words: string, order: (a: any, b: any) => number }>} */
const ORDERS = {
  newest: { words: "Last used", order: (a, b) => b.updated_at - a.updated_at },
  oldest: { words: "Unused for longest", order: (a, b) => a.updated_at - b.updated_at },
  created: { words: "Created", order: (a, b) => (b.created_at ?? 0) - (a.created_at ?? 0) },
  cost: { words: "Cost", order: (a, b) => (b.cost_usd ?? 0) - (a.cost_usd ?? 0) },
  full: { words: "Fullest window", order: (a, b) => (b.gauge?.tokens?.fraction ?? 0) - (a.gauge?.tokens?.fraction ?? 0) },
  records: { words: "Most records", order: (a, b) => b.records - a.records },
  key: { words: "Key", order: (a, b) => (a.key < b.key ? -1 : 1) },
};

export class SessionFilter {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this._onChange = onChange;
    this.state = "";
    this.model = "";
    this.tag = "";
    this.order = "newest";
    this._models = "";
    this._tags = "";
    this._menu = el("div", { class: "menu-list filter-menu", popover: "auto", id: freshId("filter"), "aria-label": "Filter and order" });
    this._badge = el("span", { class: "filter-count" });
    this.button = el(
      "button",
      {
        type: "button",
        class: "quiet filter-button",
        "aria-label": "Filter and order",
        title: "Filter and order (f)",
        "aria-keyshortcuts": "f",
        popovertarget: this._menu.id,
      },
      icon("filter"),
      this._badge,
    );
    this._menu.addEventListener("toggle", (/** @type {any} */ event) => {
      if (event.newState !== "open") return;
      const place = this.button.getBoundingClientRect();
      this._menu.style.insetBlockStart = `${place.bottom + 6}px`;
      this._menu.style.insetInlineStart = `${Math.max(8, place.right - this._menu.offsetWidth)}px`;
      this._menu.querySelector("select")?.focus();
    });
    this.node = el("span", {}, this.button, this._menu);
    this._draw([], []);
  }

  /** Number of filters in force; the order is none. */
  get count() {
    return [this.state, this.model, this.tag].filter(Boolean).length;
  }

  /** Tags of all sessions. */
  get tags() {
    return this._tags.split("\n").filter(Boolean);
  }

  open() {
    this._menu.showPopover();
  }

  clear() {
    this.state = this.model = this.tag = "";
    // Draw the menu again, with nothing chosen.
    this._models = this._tags = "\n";
    this._onChange();
  }

  /** The sessions to show, in order. @param {any[]} all last used first @param {string} text in key, title or tags */
  apply(all, text) {
    this._offer(all);
    const needle = text.trim().toLowerCase();
    const shown = all.filter((one) => this._has(one) && (!needle || searchable(one).includes(needle)));
    return this.order === "newest" ? shown : [...shown].sort(ORDERS[this.order].order);
  }

  /** @param {any} one */
  _has(one) {
    if (this.state && !STATES[this.state].has(one)) return false;
    if (this.model && one.model !== this.model) return false;
    return !this.tag || (one.tags ?? []).includes(this.tag);
  }

  /** Offer the models and tags that the list has. @param {any[]} all */
  _offer(all) {
    const models = [...new Set(all.map((one) => one.model).filter(Boolean))].sort();
    const tags = [...new Set(all.flatMap((one) => one.tags ?? []))].sort();
    const [nowModels, nowTags] = [models.join("\n"), tags.join("\n")];
    if (nowModels !== this._models || nowTags !== this._tags) this._draw(models, tags);
    this._models = nowModels;
    this._tags = nowTags;
    this._badge.textContent = this.count ? String(this.count) : "";
    this.button.classList.toggle("is-on", this.count > 0 || this.order !== "newest");
  }

  /** @param {string[]} models @param {string[]} tags */
  _draw(models, tags) {
    const named = (/** @type {Record<string, { words: string }>} */ table) => Object.entries(table).map(([name, { words }]) => /** @type {[string, string]} */ ([name, words]));
    const same = (/** @type {string[]} */ names) => names.map((name) => /** @type {[string, string]} */ ([name, name]));
    fill(
      this._menu,
      this._choice("State", "state", [["", "All"], ...named(STATES)]),
      this._choice("Model", "model", [["", "All"], ...same(models)]),
      tags.length ? this._choice("Tag", "tag", [["", "All"], ...same(tags)]) : null,
      this._choice("Order", "order", named(ORDERS)),
      el("button", { type: "button", class: "button", on: { click: () => this.clear() } }, "Show all sessions"),
    );
  }

  /** @param {string} label @param {"state" | "model" | "tag" | "order"} name @param {[string, string][]} choices */
  _choice(label, name, choices) {
    const id = freshId(name);
    const select = el(
      "select",
      { id, class: "field" },
      choices.map(([value, words]) => el("option", { value, selected: value === this[name] }, plain(words))),
    );
    select.addEventListener("change", () => {
      this[name] = select.value;
      this._onChange();
    });
    return el("div", { class: "form" }, el("label", { for: id }, label), select);
  }
}

/** @param {any} one */
function searchable(one) {
  return [one.key, one.title ?? "", ...(one.tags ?? [])].join("\n").toLowerCase();
}
