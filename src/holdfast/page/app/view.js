/** Model view tab: the messages in the view, and beside them the records that left it, with reasons. */

import { PastList } from "./past.js";
import { el, fill } from "./dom.js";
import { count, counted } from "./format.js";
import { drawParts } from "./parts.js";
import { plain } from "./plain.js";
import { folded } from "./prose.js";
import { toSession } from "./router.js";
import { parseSummary } from "./summary.js";
import { VirtualList } from "./virtual.js";

const MESSAGE_GUESS = 96;
/** @type {Record<string, string>} */
const ROLES = { user: "User", assistant: "Assistant", tool: "Tool" };
/** Beginning of the summary message. */
const FRAME = "<earlier-conversation>";

/** @typedef {{ kind: "system" | "summary" | "message", message: any }} Shown */

export class ViewTab {
  /** @param {import("./session_model.js").SessionModel} model */
  constructor(model) {
    this._model = model;
    this._memory = { unfolded: new Set() };
    this._stop = new AbortController();
    /** @type {Shown[]} */
    this._shown = [];
    this._list = new VirtualList(
      {
        label: "Model view",
        role: "feed",
        rowRole: "article",
        guess: MESSAGE_GUESS,
        draw: (index) => this._draw(index),
        onOpen: (index) => this._open(index),
      }
    );
    this._sum = el("span", { class: "faint" });
    this._past = new PastList(model);
    this.node = el(
      "div",
      { class: "sides" },
      el(
        "section",
        { class: "pane", "aria-label": "In the view" },
        el("header", { class: "pane-head" }, el("h2", {}, "In the view"), this._sum),
        this._list.node,
      ),
      this._past.node,
    );
    model.addEventListener("view", () => this._refresh(), { signal: this._stop.signal });
    this._refresh();
  }

  close() {
    this._stop.abort();
    this._list.close();
    this._past.close();
  }

  _refresh() {
    const { view } = this._model;
    if (!view) return;
    /** @type {Shown[]} */
    const shown = view.messages.map(
      (/** @type {any} */ message) => ({ kind: isSummary(message) ? "summary" : "message", message })
    );
    if (view.system) shown.unshift(
      { kind: "system", message: { role: "system", parts: [{ type: "text", text: view.system }] } }
    );
    this._shown = shown;
    this._list.setCount(shown.length);
    this._list.redraw();
    const tools = view.tools.length ? `, ${counted(view.tools.length, "tool")}: ${view.tools.join(", ")}` : "";
    fill(
      this._sum,
      plain(`${counted(view.messages.length, "message")}, about ${count(view.tokens_estimated)} tokens${tools}`),
    );
  }

  /** @param {number} index */
  _draw(index) {
    const shown = this._shown[index];
    if (!shown) return el("div", {});
    if (shown.kind === "summary") return this._drawSummary(shown.message, index);
    const who = shown.kind === "system" ? "System text" : (ROLES[shown.message.role] ?? shown.message.role);
    const tone = {
      user: "input",
      assistant: "reply",
      tool: "tool",
    }[/** @type {string} */ (shown.message.role)] ?? "system";
    return el(
      "div",
      { class: `row row-card tone-${tone}` },
      el("header", { class: "row-head" }, el("b", { class: "row-who" }, who)),
      el("div", { class: "row-body" }, drawParts(shown.message.parts, this._memory, `view.${index}`)),
    );
  }

  /** @param {any} message @param {number} index */
  _drawSummary(message, index) {
    const seq = this._model.detail?.compaction;
    const summary = parseSummary(message.parts[0].text);
    const open = seq ? el(
      "a",
      { class: "button", href: toSession(this._model.key, "compaction", seq), "data-opens": "compaction" },
      "Originals and ledger",
    ) : null;
    return el(
      "div",
      { class: "row row-card tone-summary" },
      el(
        "header",
        { class: "row-head" },
        el("b", { class: "row-who" }, "Summary of the earlier conversation"),
        el("span", { class: "row-aside" }, counted(summary.ledger.length, "line", "lines"), " of ledger"),
      ),
      el(
        "div",
        { class: "row-body" },
        folded(summary.notes || "Only the ledger.", { unfolded: this._memory.unfolded, name: `view.${index}` }),
        el("p", {}, open),
      ),
    );
  }

  /** @param {number} index */
  _open(index) {
    const opener = this._list.node.querySelector(
      `[aria-posinset="${index + 1}"] :is([data-opens], .fold-button, summary)`
    );
    if (opener instanceof HTMLElement) opener.click();
  }
}

/** @param {any} message */
function isSummary(message) {
  const [first] = message.parts;
  return message.role === "user" && first?.type === "text" && first.text.startsWith(FRAME);
}
