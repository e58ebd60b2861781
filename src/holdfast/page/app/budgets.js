/** Budgets tab: the three budgets over time with marks, and costs by model. */

import { at, get } from "./api.js";
import { drawChart, legend } from "./chart.js";
import { sentenceOf } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { bytes, count, short } from "./format.js";
import { plain } from "./plain.js";
import { go, toSession } from "./router.js";
import { bones } from "./skeleton.js";

/** Newest records that are read first; a button reads a long session from the beginning. */
const RECORDS_FIRST = 20_000;
const PAGE = 1_000;
/** Debounce in milliseconds before more is read. */
const DEBOUNCE = 400;

export class BudgetsTab {
  /** @param {import("./session_model.js").SessionModel} model */
  constructor(model) {
    this._model = model;
    this._stop = new AbortController();
    /** @type {any[]} */
    this._requests = [];
    /** @type {any[]} */
    this._marks = [];
    /** Everything up to this record is loaded and final. */
    this._settled = 0;
    this._from = 0;
    this._timer = 0;
    this._isReading = false;
    this._isRead = false;
    this._chart = el("div", { class: "chart-place" }, bones("Loading the budgets…"));
    this._legend = el("div", {});
    this._costs = el("section", { class: "card", "aria-label": "Costs", hidden: true });
    this._status = el("p", { class: "faint", role: "status" });
    this._whole = el(
      "button",
      { type: "button", class: "button", hidden: true, on: { click: () => this._readWhole() } },
      "From the beginning",
    );
    this.node = el(
      "div",
      { class: "pane-scroll", tabindex: "0", role: "region", "aria-label": "Budgets and costs" },
      el(
        "section",
        { class: "card", "aria-label": "Budgets over time" },
        el("header", { class: "card-head" }, el("h2", {}, "Budgets over time"), this._legend, this._whole),
        this._status,
        this._chart,
      ),
      this._costs,
    );
    this._sizes = new ResizeObserver(() => this._draw());
    this._sizes.observe(this._chart);
    model.addEventListener("record", () => this._soon(), { signal: this._stop.signal });
    this._begin();
  }

  close() {
    this._stop.abort();
    this._sizes.disconnect();
    clearTimeout(this._timer);
  }

  async _begin() {
    if (!this._model.detail) await this._model.refresh().catch(() => {});
    this._from = this._settled = Math.max(0, this._model.count - RECORDS_FIRST);
    await this._read();
  }

  async _readWhole() {
    this._from = this._settled = 0;
    this._requests = [];
    this._marks = [];
    await this._read();
  }

  _soon() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this._read(), DEBOUNCE);
  }

  async _read() {
    if (this._isReading) {
      this._soon();
      return;
    }
    this._isReading = true;
    try {
      let after = this._settled;
      this._requests = this._requests.filter((one) => one.seq <= after);
      this._marks = this._marks.filter((one) => one.seq <= after);
      for (let next = /** @type {number | null} */ (after); next !== null; ) {
        const page = await get(at(this._model.key, "/budgets"), { after: next, limit: PAGE }, this._stop.signal);
        this._requests.push(...page.requests);
        this._marks.push(...page.marks);
        next = page.next;
        this._isRead = true;
        this._draw();
      }
      this._settled = this._lastSettled();
      this._drawCosts();
      this._status.textContent = this._requests.length ? "" : "No requests to a model yet.";
    } catch (error) {
      if (!this._stop.signal.aborted) this._status.textContent = sentenceOf(error);
    }
    this._isReading = false;
  }

  _lastSettled() {
    const open = this._requests.find((one) => one.outcome === "open");
    const last = Math.max(this._from, this._requests.at(-1)?.seq ?? 0, this._marks.at(-1)?.seq ?? 0);
    return open ? open.seq - 1 : last;
  }

  _draw() {
    const width = Math.floor(this._chart.clientWidth);
    if (!width || !this._isRead) return;
    const newest = this._requests.at(-1)?.gauge ?? {};
    const lanes = [
      { name: "Tokens", most: newest.tokens?.limit ?? null, say: short },
      { name: "Request bytes", most: newest.wire_bytes?.limit ?? null, say: bytes },
      { name: "Media", most: newest.media?.limit ?? null, say: count },
    ];
    const points = this._requests.map(
      ({ seq, at: then, gauge }) => (
        {
          seq,
          at: then,
          // An imported answer has no usage.
          values: [gauge.tokens?.used || null, gauge.wire_bytes?.used ?? null, gauge.media?.used ?? null],
        }
      )
    );
    const isKnown = this._marks.length > 0 || points.some((point) => point.values.some((value) => value !== null));
    // Imported answers have no sizes.
    const none = this._requests.length ? "No request of this session has a known size." : "";
    if (!isKnown) fill(this._chart, none ? el("p", { class: "faint" }, none) : null);
    else fill(this._chart, drawChart({ lanes, points, marks: this._marks, width, open: (seq) => this._open(seq) }));
    fill(this._legend, legend(new Set(this._marks.map((one) => one.kind))));
    this._whole.hidden = this._from === 0;
  }

  /** @param {number} seq */
  _open(seq) {
    const kind = this._marks.find((one) => one.seq === seq)?.kind;
    go(toSession(this._model.key, kind === "compaction" || kind === "roll_over" ? "compaction" : "timeline", seq));
  }

  _drawCosts() {
    /**
     * @type {Map<string, { requests: number, answered: number, failed: number, read: number, cached: number, wrote:
     * number, usd: number | null }>}
     */
    const models = new Map();
    for (const { model, outcome, usage, cost_usd: usd } of this._requests) {
      const sum = models.get(model) ?? { requests: 0, answered: 0, failed: 0, read: 0, cached: 0, wrote: 0, usd: null };
      sum.requests += 1;
      sum.answered += outcome === "answered" ? 1 : 0;
      sum.failed += outcome === "failed" ? 1 : 0;
      sum.read += usage?.input_tokens ?? 0;
      sum.cached += usage?.cached_input_tokens ?? 0;
      sum.wrote += usage?.output_tokens ?? 0;
      if (usd !== null && usd !== undefined) sum.usd = (sum.usd ?? 0) + usd;
      models.set(model, sum);
    }
    const heads = ["Model", "Requests", "Answered", "Failed", "Input tokens", "of them cached", "Output tokens", "US dollars"];
    const rows = [...models].map(
      ([model, sum]) => el(
        "tr",
        {},
        el("th", { scope: "row" }, plain(model)),
        [sum.requests, sum.answered, sum.failed, sum.read, sum.cached, sum.wrote].map((one) => el("td", {}, count(one))),
        el("td", {}, sum.usd === null ? "no price" : sum.usd.toFixed(4)),
      )
    );
    this._costs.hidden = false;
    fill(
      this._costs,
      el(
        "header",
        { class: "card-head" },
        el("h2", {}, "Costs"),
        el("span", { class: "faint" }, "of answers, by reported usage and declared prices"),
      ),
      rows.length ? el(
        "div",
        { class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Costs by model" },
        el(
          "table",
          {},
          el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
          el("tbody", {}, rows),
        ),
      ) : el("p", { class: "faint" }, "No costs yet."),
    );
  }
}
