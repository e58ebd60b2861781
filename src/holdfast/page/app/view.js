/** Model view tab: the layers of a request with their tokens, of the next or of an earlier one, and what left the view. */

import { at, get, send } from "./api.js";
import { attempt, sentenceOf, toast } from "./dialogs.js";
import { drawDiff } from "./diff.js";
import { el, fill, freshId } from "./dom.js";
import { count, counted, moment, percent, short } from "./format.js";
import { icon } from "./icons.js";
import { LAYERS, layerBar } from "./layers.js";
import { drawParts, excluder, pinner } from "./parts.js";
import { PastList } from "./past.js";
import { plain } from "./plain.js";
import { folded } from "./prose.js";
import { go, toSession } from "./router.js";
import { sides } from "./sides.js";
import { bones } from "./skeleton.js";
import { drawLedger, parseSummary } from "./summary.js";
import { VirtualList } from "./virtual.js";

const MESSAGE_GUESS = 96;
/** Newest records whose requests the slider offers. */
const RECORDS = 20_000;
const PAGE = 1_000;
/** Milliseconds that the slider rests before a request is read. */
const DEBOUNCE = 120;
/** @type {Record<string, string>} */
const ROLES = { user: "User", assistant: "Assistant", tool: "Tool" };
/** @type {Record<string, string>} */
const TONES = { user: "input", assistant: "reply", tool: "tool" };

/** @typedef {{ kind: "head" | "system" | "story" | "lines" | "message", layer: string, seen?: any, text?: string }} Row */

export class ViewTab {
  /** @param {import("./session_model.js").SessionModel} model @param {import("./session_actions.js").SessionActions} actions */
  constructor(model, actions) {
    this._model = model;
    this._undo = actions.undo;
    this._memory = { unfolded: new Set() };
    this._stop = new AbortController();
    /** @type {any[]} requests of the session, oldest first */
    this._requests = [];
    this._areRead = false;
    /** The request that is shown, by its record; 0: the next one. And the one it is compared with; null: none. */
    this._at = 0;
    /** @type {number | null} */
    this._other = null;
    /** @type {any} */
    this._view = null;
    /** @type {Row[]} */
    this._rows = [];
    this._list = new VirtualList({
      label: "Model view",
      role: "feed",
      rowRole: "article",
      guess: MESSAGE_GUESS,
      draw: (index) => this._draw(index),
      onOpen: (index) => this._open(index),
    });
    this._makeHead();
    this._sum = el("span", { class: "faint" });
    this._loading = bones("Loading the view…");
    this._past = new PastList(model);
    this._diff = el("section", { class: "pane", "aria-label": "Changes", hidden: true });
    this.node = el(
      "div",
      { class: "view-tab" },
      this._head,
      sides(
        {
          name: "In the view",
          node: el(
            "section",
            { class: "pane", "aria-label": "In the view" },
            el("header", { class: "pane-head" }, el("h2", {}, "In the view"), this._sum),
            this._loading,
            this._list.node,
          ),
        },
        { name: "Left or changed", node: [this._past.node, this._diff] },
      ),
    );
    const { signal } = this._stop;
    // The next request changes with the session; earlier ones do not.
    model.addEventListener("view", () => (this._at === 0 ? this._read() : undefined), { signal });
    model.addEventListener("detail", () => this._list.redraw(), { signal });
    model.addEventListener("record", (event) => {
      if (/** @type {CustomEvent} */ (event).detail.record.type === "AttemptStarted") this._readRequests();
    }, { signal });
    this._read();
    this._readRequests();
  }

  close() {
    this._stop.abort();
    clearTimeout(this._timer);
    this._list.close();
    this._past.close();
  }

  /** Show a request, and its changes since another. @param {string} rest "35" or "35-18" */
  show(rest) {
    const [shown, other] = rest.split("-");
    const [at, since] = [Number(shown) || 0, other === undefined ? null : Number(other) || 0];
    if (at === this._at && since === this._other) return;
    this._at = at;
    this._other = since;
    this._showHead();
    this._read();
  }

  _makeHead() {
    const id = freshId("slider");
    this._slider = el("input", { id, type: "range", class: "slider", min: "0", max: "0", step: "1", set: { value: "0" } });
    this._slider.addEventListener("input", () => this._slide(Number(this._slider.value)));
    this._where = el("span", { class: "view-where", role: "status", "aria-live": "polite" });
    const compareId = freshId("compare");
    this._compare = el("select", { id: compareId, class: "field compact" });
    this._compare.addEventListener("change", () => this._go(this._at, this._compare.value === "" ? null : Number(this._compare.value)));
    const step = (/** @type {number} */ by, /** @type {string} */ words, /** @type {string} */ name) => el(
      "button",
      { type: "button", class: `quiet icon-button ${name}`, "aria-label": words, title: words, on: { click: () => this._slide(Number(this._slider.value) + by) } },
      icon("back"),
    );
    this._bar = el("div", { class: "layer-place" });
    this._head = el(
      "div",
      { class: "view-head" },
      el(
        "div",
        { class: "view-time" },
        step(-1, "Request before", ""),
        el("label", { class: "hidden", for: id }, "Request"),
        this._slider,
        step(1, "Request after", "is-forward"),
        this._where,
        el("span", { class: "view-compare" }, el("label", { for: compareId }, "Changes since"), this._compare),
      ),
      this._bar,
    );
    this._showHead();
  }

  /** @param {number} place among the requests; the last is the next request */
  _slide(place) {
    const at = this._requests[Math.max(0, place)]?.seq ?? 0;
    if (place < 0) return;
    clearTimeout(this._timer);
    this._at = at;
    this._showHead();
    this._timer = setTimeout(() => this._go(at, this._other), DEBOUNCE);
  }

  /** @param {number} at @param {number | null} other */
  _go(at, other) {
    this._at = -1;
    const rest = other === null ? (at ? [at] : []) : [`${at}-${other}`];
    const address = toSession(this._model.key, "view", ...rest);
    if (location.hash === address) this.show(rest.map(String).join(""));
    else go(address);
  }

  _showHead() {
    const { _requests: all } = this;
    const place = this._at ? all.findIndex((one) => one.seq === this._at) : all.length;
    this._slider.max = String(all.length);
    this._slider.value = String(place < 0 ? 0 : place);
    // Until the requests are read, nothing can be chosen.
    this._slider.disabled = all.length === 0;
    this._slider.classList.toggle("is-loading", all.length === 0);
    const one = all[place];
    const said = one
      ? `Request ${count(place + 1)} of ${count(all.length)} · ${moment(one.at)} · ${one.model}${one.outcome === "answered" ? "" : ` · ${one.outcome.replace("_", " ")}`}`
      : this._at ? `Before record ${count(this._at)}` : "The next request";
    fill(this._where, plain(said));
    this._slider.setAttribute("aria-valuetext", said);
    const offered = all.map((request, index) => ({ seq: request.seq, words: `request ${count(index + 1)}, ${short(request.gauge.tokens?.used ?? 0)} tokens` }));
    fill(
      this._compare,
      el("option", { value: "", selected: this._other === null }, "(not compared)"),
      offered.reverse().filter(({ seq }) => seq !== this._at).map(({ seq, words }) => el("option", { value: String(seq), selected: this._other === seq }, words)),
    );
  }

  async _readRequests() {
    if (this._isReading) return;
    this._isReading = true;
    try {
      let after = this._requests.at(-1)?.seq ?? Math.max(0, (this._model.detail?.records ?? this._model.count) - RECORDS);
      for (;;) {
        const page = await get(at(this._model.key, "/budgets"), { after, limit: PAGE }, this._stop.signal);
        const known = new Set(this._requests.map((one) => one.seq));
        this._requests.push(...page.requests.filter((/** @type {any} */ one) => !known.has(one.seq)));
        if (page.next === null) break;
        after = page.next;
      }
    } catch {
      // The next request reads on.
    }
    this._isReading = false;
    if (!this._stop.signal.aborted) this._showHead();
  }

  async _read() {
    const number = (this._reading = (this._reading ?? 0) + 1);
    const [wanted, other] = [this._at, this._other];
    const read = (/** @type {number} */ seq) => get(at(this._model.key, "/layers"), { at: seq || undefined }, this._stop.signal);
    try {
      const [view, since] = await Promise.all([read(wanted), other === null ? null : read(other)]);
      if (number !== this._reading) return;
      this._show(view, since);
    } catch (error) {
      if (this._stop.signal.aborted || number !== this._reading) return;
      fill(this._loading, el("p", { class: "empty", role: "alert" }, sentenceOf(error)));
      this._loading.hidden = false;
      this._list.node.hidden = true;
    }
  }

  /** @param {any} view @param {any} since */
  _show(view, since) {
    this._view = view;
    this._rows = rowsOf(view);
    this._loading.hidden = true;
    this._list.node.hidden = false;
    this._list.setCount(this._rows.length);
    this._list.redraw();
    fill(this._bar, layerBar(view, (layer) => this._list.scrollTo(Math.max(0, this._rows.findIndex((row) => row.layer === layer)))));
    const tools = view.tools.length ? `; ${counted(view.tools.length, "tool")}: ${view.tools.join(", ")}` : "";
    const messages = view.is_whole ? counted(view.messages.length, "message") : `The last ${counted(view.messages.length, "message")}`;
    const size = view.is_whole ? `, about ${count(view.tokens_estimated)} tokens` : `; the whole view has at least ${count(view.tokens_estimated)} tokens`;
    fill(this._sum, plain(`${messages}${size}${tools}`));
    this._diff.hidden = since === null;
    this._past.node.hidden = since !== null;
    if (since) fill(this._diff, ...drawDiff(since, view));
  }

  /** @param {number} index */
  _draw(index) {
    const row = this._rows[index];
    if (!row) return el("div", {});
    if (row.kind === "head") return drawLayerHead(row.layer, this._view);
    if (row.kind === "system") return card("system", "System text", null, folded(row.text ?? "", { unfolded: this._memory.unfolded, name: "system" }));
    if (row.kind === "lines") {
      const open = (/** @type {number} */ seq) => go(toSession(this._model.key, "timeline", seq));
      return card("summary", null, null, drawLedger(parseSummary(row.text ?? ""), open));
    }
    if (row.kind === "story") return this._drawStory(row.text ?? "");
    return this._drawMessage(row.seen, index);
  }

  /** @param {string} text */
  _drawStory(text) {
    const { compaction } = this._view;
    const { notes } = parseSummary(text);
    const isCurrent = compaction && compaction === this._model.detail?.compaction;
    return card(
      "summary",
      "Summary of the earlier conversation",
      null,
      folded(notes || "No sentences: state and facts only.", { unfolded: this._memory.unfolded, name: "story" }),
      el(
        "p",
        { class: "buttons" },
        compaction ? el("a", { class: "button", href: toSession(this._model.key, "compaction", compaction), "data-opens": "compaction" }, "Originals and ledger") : null,
        isCurrent ? el("button", { type: "button", class: "button", on: { click: () => this._undo() } }, icon("undo"), "Undo this compaction") : null,
      ),
    );
  }

  /** @param {any} seen @param {number} index */
  _drawMessage(seen, index) {
    const { message, seq, tokens } = seen;
    const who = ROLES[message.role] ?? message.role;
    const { detail } = this._model;
    const actions = {
      isPinned: (/** @type {number} */ at) => detail?.pinned.includes(at) ?? false,
      pin: (/** @type {number} */ at, /** @type {boolean} */ isPinned) => this._change("pins", at, isPinned, isPinned ? "stays in the view through compactions" : "is no longer pinned"),
      isExcluded: (/** @type {number} */ at) => detail?.excluded.includes(at) ?? false,
      exclude: (/** @type {number} */ at, /** @type {boolean} */ isExcluded) => this._change("exclusions", at, isExcluded, isExcluded ? "is left out of the view" : "is in the view again"),
    };
    const buttons = seq
      ? el("span", { class: "row-buttons" }, message.role === "user" ? pinner(seq, /** @type {any} */ (actions)) : null, excluder(seq, /** @type {any} */ (actions)))
      : null;
    const aside = [
      el("span", { class: "row-aside" }, `${short(tokens)} tokens`),
      seq ? el("a", { class: "row-link", href: toSession(this._model.key, "timeline", seq) }, `#${seq}`) : null,
      buttons,
    ];
    return card(TONES[message.role] ?? "system", who, aside, ...drawParts(message.parts, this._memory, `view.${this._at}.${index}`));
  }

  /** @param {"pins" | "exclusions"} what @param {number} seq @param {boolean} isOn @param {string} words */
  _change(what, seq, isOn, words) {
    return attempt(async () => {
      await send(isOn ? "PUT" : "DELETE", at(this._model.key, `/${what}/${seq}`));
      toast(`Record ${seq} ${words}.`);
      await this._model.refresh();
    });
  }

  /** @param {number} index */
  _open(index) {
    const opener = this._list.node.querySelector(
      `[aria-posinset="${index + 1}"] :is([data-opens], .fold-button, summary, button)`
    );
    if (opener instanceof HTMLElement) opener.click();
  }
}

/** @param {any} view @returns {Row[]} */
function rowsOf(view) {
  const texts = Object.fromEntries(view.layers.map((/** @type {any} */ one) => [one.name, one.text]));
  const of = (/** @type {string} */ layer) => view.messages.filter((/** @type {any} */ one) => one.layer === layer).map((/** @type {any} */ seen) => ({ kind: "message", layer, seen }));
  const lines = (/** @type {string} */ layer) => (texts[layer] ? [{ kind: "lines", layer, text: texts[layer] }] : []);
  /** @type {Record<string, any[]>} */
  const rows = {
    instructions: [...(view.system ? [{ kind: "system", layer: "instructions", text: view.system }] : []), ...of("instructions"), ...lines("instructions")],
    state: lines("state"),
    story: texts.story ? [{ kind: "story", layer: "story", text: texts.story }] : [],
    facts: lines("facts"),
    tail: of("tail"),
  };
  return Object.entries(rows).flatMap(([layer, found]) => (found.length ? [{ kind: /** @type {const} */ ("head"), layer }, ...found] : []));
}

/** @param {string} layer @param {any} view */
function drawLayerHead(layer, view) {
  const { tokens } = view.layers.find((/** @type {any} */ one) => one.name === layer);
  const { name, words } = LAYERS[layer];
  const share = view.tokens_estimated ? percent(tokens / view.tokens_estimated) : "";
  return el(
    "div",
    { class: "layer-head" },
    el("span", { class: `layer-mark layer-${layer}`, "aria-hidden": "true" }),
    el("h3", {}, name),
    el("span", { class: "faint" }, words),
    el("span", { class: "layer-tokens" }, `${count(tokens)} tokens`, el("span", { class: "faint" }, ` ${share}`)),
  );
}

/** @param {string} tone @param {string | null} who @param {any} aside @param {...Node} body */
function card(tone, who, aside, ...body) {
  return el(
    "div",
    { class: `row row-card tone-${tone}` },
    who ? el("header", { class: "row-head" }, el("b", { class: "row-who" }, who), aside) : null,
    el("div", { class: "row-body" }, body),
  );
}
