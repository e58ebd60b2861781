/**
 * Virtual list: only visible rows are in the DOM.
 *
 * Visible rows stay in place: when a row above is taller than estimated, the list scrolls by the difference. A list that
 * is scrolled to the end stays at the end while rows are added.
 */

import { el } from "./dom.js";
import { Heights } from "./heights.js";

/** Pixels drawn above and below the visible area. */
const AHEAD = 400;
/** Pixels from the end that count as the end. */
const NEAR_END = 48;
/** Maximum passes of drawing and measuring: measured or hidden rows make others visible. */
const PASSES_MAX = 8;

/**
 * @typedef {object} ListOptions
 * @property {string} label accessible name
 * @property {string} [role] of the list: "list", "feed" or "listbox"
 * @property {string} [rowRole]
 * @property {number} guess estimated row height in pixels
 * @property {boolean} [isEven] all rows have exactly this height
 * @property {boolean} [sticksToEnd]
 * @property {(index: number) => Node} draw
 * @property {(index: number) => boolean} [isShown] hidden rows have no height
 * @property {(index: number) => boolean} [isSelected] of a listbox with a selection
 * @property {(first: number, last: number) => void} [onRange] called with the visible rows
 * @property {(index: number) => void} [onOpen] Enter on a row
 */

export class VirtualList {
  /** @param {ListOptions} options */
  constructor(options) {
    this._options = options;
    this._heights = new Heights(options.guess);
    /** @type {Map<number, HTMLElement>} */
    this._rows = new Map();
    this._space = el("div", { class: "v-space", role: "presentation" });
    const isChoice = options.role === "listbox";
    /** @type {HTMLElement} */
    this.node = el(
      "div",
      { class: "v-list", role: options.role ?? "list", "aria-label": options.label, tabindex: "0" },
      this._space,
    );
    this._isChoice = isChoice;
    /** The row with the keyboard focus. */
    this.active = -1;
    this._isQueued = false;
    this._stays = options.sticksToEnd ?? false;
    this._atEnd = this._stays;
    this._width = 0;
    this.node.addEventListener("scroll", () => this._scrolled(), { passive: true });
    this.node.addEventListener("keydown", (event) => this._key(event));
    this._sizes = new ResizeObserver(() => this._resized());
    this._sizes.observe(this.node);
    this._rowSizes = new ResizeObserver(() => this.queue());
  }

  get count() {
    return this._heights.count;
  }

  /** @param {number} count */
  setCount(count) {
    if (count === this.count) return;
    this._heights.resize(count);
    if (this.active >= count) this.active = count - 1;
    for (const [index, row] of this._rows) if (index >= count) this._drop(index, row);
    this.queue();
  }

  /** Redraw one visible row, or all without an index. @param {number} [index] */
  redraw(index) {
    for (const [each, row] of this._rows) {
      if (index !== undefined && each !== index) continue;
      row.replaceChildren(this._options.draw(each));
      this._mark(each, row);
    }
    this.queue();
  }

  /** Measure all rows again after `isShown` changed, and keep the scroll position. */
  restart() {
    const first = this._heights.at(this.node.scrollTop);
    this._heights.forget();
    if (!this._atEnd) this._place(this._heights.top(first));
    this.queue();
  }

  /** Start over at the top, or at the end. @param {number} count */
  reset(count) {
    for (const [index, row] of this._rows) this._drop(index, row);
    this._heights.resize(0);
    this._heights.resize(count);
    this.active = -1;
    this._atEnd = this._stays;
    if (!this._atEnd) this.node.scrollTop = 0;
    this.queue();
  }

  /** @param {number} index @param {"start" | "nearest"} [align] */
  scrollTo(index, align = "start") {
    const top = this._heights.top(index);
    const { scrollTop, clientHeight } = this.node;
    const bottom = top + this._heights.of(index);
    if (align === "nearest" && top >= scrollTop && bottom <= scrollTop + clientHeight) return;
    const isBelow = align === "nearest" && bottom > scrollTop + clientHeight;
    this._atEnd = false;
    this._draw();
    this.node.scrollTop = isBelow ? bottom - clientHeight : top;
    this._draw();
    // Rows in between were estimated; now they are measured, so the offset may differ.
    this.node.scrollTop = isBelow
      ? this._heights.top(index) + this._heights.of(index) - clientHeight
      : this._heights.top(index);
    this.queue();
  }

  scrollToEnd() {
    this._atEnd = this._stays;
    this.node.scrollTop = this.node.scrollHeight;
    this.queue();
  }

  get isAtEnd() {
    return this._atEnd;
  }

  /** Move the keyboard focus to a row. @param {number} index @param {{ scroll?: boolean }} [how] */
  activate(index, { scroll = true } = {}) {
    const before = this.active;
    this.active = Math.max(-1, Math.min(index, this.count - 1));
    if (this.active >= 0 && scroll) this.scrollTo(this.active, "nearest");
    for (const each of [before, this.active]) {
      const row = this._rows.get(each);
      if (row) this._mark(each, row);
    }
    const row = this._rows.get(this.active);
    if (row && !this._isChoice && scroll) row.focus({ preventScroll: true });
    if (row && this._isChoice) this.node.setAttribute("aria-activedescendant", row.id);
    else this.node.removeAttribute("aria-activedescendant");
  }

  /** Draw at the next frame. */
  queue() {
    if (this._isQueued) return;
    this._isQueued = true;
    requestAnimationFrame(() => {
      this._isQueued = false;
      this._draw();
    });
  }

  close() {
    this._sizes.disconnect();
    this._rowSizes.disconnect();
  }

  _scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.node;
    if (!this._isPlacing) this._atEnd = this._stays && scrollHeight - scrollTop - clientHeight < NEAR_END;
    this._isPlacing = false;
    this.queue();
  }

  _resized() {
    const width = this.node.clientWidth;
    if (width !== this._width && !this._options.isEven && this._width) {
      const first = this._heights.at(this.node.scrollTop);
      this._heights.forget();
      this._width = width;
      if (!this._atEnd) this.node.scrollTop = this._heights.top(first);
    }
    this._width = width;
    this.queue();
  }

  _draw() {
    if (!this.node.isConnected || !this.node.clientHeight) return;
    for (let pass = 0; pass < PASSES_MAX; pass += 1) {
      this._space.style.height = `${this._heights.total}px`;
      if (this._atEnd) this._place(this._heights.total - this.node.clientHeight);
      const [first, last] = this._range();
      const isOther = this._fit(first, last);
      if (!this._measure() && !isOther) break;
    }
    this._space.style.height = `${this._heights.total}px`;
    if (this._atEnd) this._place(this._heights.total - this.node.clientHeight);
    for (const [index, row] of this._rows) row.style.transform = `translateY(${this._heights.top(index)}px)`;
    const [first, last] = this._range();
    if (this.count) this._options.onRange?.(first, last);
  }

  /** @param {number} top */
  _place(top) {
    const wanted = Math.max(0, top);
    if (Math.abs(this.node.scrollTop - wanted) < 1) return;
    this._isPlacing = true;
    this.node.scrollTop = wanted;
  }

  /** @returns {[number, number]} */
  _range() {
    if (!this.count) return [0, -1];
    const { scrollTop, clientHeight } = this.node;
    return [this._heights.at(scrollTop - AHEAD), this._heights.at(scrollTop + clientHeight + AHEAD)];
  }

  /**
   * Keep exactly the rows of a range in the DOM.
   * @param {number} first @param {number} last
   * @returns {boolean} true if rows were hidden
   */
  _fit(first, last) {
    let isOther = false;
    for (const [index, row] of this._rows) {
      // Keep the focused row, so that scrolling does not lose the focus.
      if ((index < first || index > last) && !row.contains(document.activeElement)) this._drop(index, row);
    }
    let after = null;
    for (let index = first; index <= last; index += 1) {
      let row = this._rows.get(index);
      if (this._options.isShown?.(index) === false) {
        if (row) this._drop(index, row);
        if (this._leave(index)) isOther = true;
        continue;
      }
      if (!row) {
        row = /** @type {HTMLElement} */ (el("div", { class: "v-row", id: `${this._prefix()}-${index}` }));
        row.append(this._options.draw(index));
        row.setAttribute("role", this._options.rowRole ?? "listitem");
        this._rows.set(index, row);
        if (!this._options.isEven) this._rowSizes.observe(row);
        // DOM order is list order, for screen readers.
        if (after) after.after(row);
        else this._space.prepend(row);
        row.style.transform = `translateY(${this._heights.top(index)}px)`;
      }
      this._mark(index, row);
      after = row;
    }
    return isOther;
  }

  /** Hide a row without moving visible ones. @param {number} index */
  _leave(index) {
    const seen = this._heights.at(this.node.scrollTop);
    const by = this._heights.set(index, 0);
    if (by && index < seen && !this._atEnd) this._place(this.node.scrollTop + by);
    return by !== 0;
  }

  /** @param {number} index @param {HTMLElement} row */
  _mark(index, row) {
    row.setAttribute("aria-posinset", String(index + 1));
    row.setAttribute("aria-setsize", String(this.count));
    row.classList.toggle("is-active", index === this.active);
    const isSelected = this._options.isSelected?.(index) ?? index === this.active;
    if (this._isChoice) row.setAttribute("aria-selected", String(isSelected));
    else row.tabIndex = -1;
  }

  /** Measure the rows. @returns {boolean} true if a height changed */
  _measure() {
    if (this._options.isEven) return false;
    const seen = this._heights.at(this.node.scrollTop);
    let moved = 0;
    let isOther = false;
    for (const [index, row] of this._rows) {
      const by = this._heights.set(index, row.getBoundingClientRect().height);
      if (by) isOther = true;
      if (index < seen) moved += by;
    }
    if (moved && !this._atEnd) {
      this._space.style.height = `${this._heights.total}px`;
      this._place(this.node.scrollTop + moved);
    }
    return isOther;
  }

  /** @param {number} index @param {HTMLElement} row */
  _drop(index, row) {
    this._rowSizes.unobserve(row);
    row.remove();
    this._rows.delete(index);
  }

  _prefix() {
    this._name ??= `row-${(VirtualList.made += 1)}`;
    return this._name;
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.altKey || event.ctrlKey || event.metaKey || target.closest("input, textarea, select")) return;
    const step = Math.max(1, Math.floor(this.node.clientHeight / Math.max(20, this._options.guess)) - 1);
    const from = this.active < 0 ? this._heights.at(this.node.scrollTop) - 1 : this.active;
    const to = {
      ArrowDown: from + 1,
      ArrowUp: from - 1,
      Home: 0,
      End: this.count - 1,
      PageDown: from + step,
      PageUp: from - step,
    }[event.key];
    if (to !== undefined && this.count) {
      event.preventDefault();
      this.activate(Math.max(0, Math.min(to, this.count - 1)));
      if (event.key === "End") this.scrollToEnd();
    } else if (event.key === "Enter" && this.active >= 0 && !target.closest("button, a, summary")) {
      event.preventDefault();
      this._options.onOpen?.(this.active);
    }
  }
}

VirtualList.made = 0;
