/** Tool calls that wait for an approval: tool, arguments and deadline, with buttons that approve or deny. */

import { at, send } from "./api.js";
import { sentenceOf, toast } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { ago, count, lasting, moment } from "./format.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";

/** Characters of a note to the model that the gateway accepts. */
const NOTE_CHARS = 2_000;
/** Milliseconds between updates of the times. */
const MINUTE = 60_000;

export class ApprovalsPanel {
  /** @param {import("./session_model.js").SessionModel} model */
  constructor(model) {
    this._model = model;
    /** Drawn questions by request: typed notes survive a change of the others. @type {Map<number, any>} */
    this._drawn = new Map();
    this._said = el("p", { class: "hidden", role: "status", "aria-live": "polite" });
    this.node = el("section", { class: "approvals", "aria-label": "Approvals", hidden: true }, this._said);
    this._stop = new AbortController();
    model.addEventListener("approvals", () => this._show(), { signal: this._stop.signal });
    this._timer = setInterval(() => this._showTimes(), MINUTE);
    this._show();
  }

  close() {
    this._stop.abort();
    clearInterval(this._timer);
  }

  /** Move the focus to the reason of the oldest question, from which Tab leads to the buttons: no key approves by itself. */
  focus() {
    const field = this.node.querySelector("input");
    if (field instanceof HTMLElement) field.focus();
    else toast("No tool call waits for an approval.");
  }

  _show() {
    const { approvals } = this._model;
    const before = this._drawn;
    this._drawn = new Map(approvals.map((one) => [one.request, before.get(one.request) ?? this._draw(one)]));
    // A question that stays is not moved, so that it keeps the focus.
    for (const [request, drawn] of before) if (!this._drawn.has(request)) drawn.remove();
    for (const drawn of this._drawn.values()) if (!drawn.isConnected) this.node.append(drawn);
    this.node.hidden = approvals.length === 0;
    const isNew = approvals.some((one) => !before.has(one.request));
    if (isNew) this._said.textContent = `${approvals[0].tool} waits for your approval. Press a to answer.`;
    this._showTimes();
  }

  _showTimes() {
    for (const { request, asked_at: asked, expires_at: expires } of this._model.approvals) {
      const place = this._drawn.get(request)?.querySelector(".approval-when");
      if (!place) continue;
      const left = expires - Date.now() / 1_000;
      const then = left > 0 ? `denied without an answer in ${lasting(left)}` : "denied: nobody answered in time";
      place.textContent = `Asked ${ago(asked)}; ${then}`;
      place.title = `asked ${moment(asked)}, denied ${moment(expires)}`;
    }
  }

  /** @param {any} one approval */
  _draw(one) {
    const id = freshId("reason");
    const reason = el("input", { id, class: "field compact", type: "text", maxlength: String(NOTE_CHARS), autocomplete: "off" });
    const why = el("p", { class: "problem", role: "alert" });
    const button = (/** @type {string} */ words, /** @type {boolean} */ isApproved) => el(
      "button",
      {
        type: "button",
        class: isApproved ? "button is-main" : "button",
        "aria-label": `${words} ${one.tool}`,
        on: { click: () => answer(isApproved) },
      },
      icon(isApproved ? "check" : "close"),
      words,
    );
    const buttons = [button("Deny", false), button("Approve", true)];
    const answer = async (/** @type {boolean} */ isApproved) => {
      for (const each of buttons) each.disabled = true;
      try {
        await this._answer(one, isApproved, reason.value.trim());
      } catch (error) {
        fill(why, sentenceOf(error));
        for (const each of buttons) each.disabled = false;
      }
    };
    reason.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape") reason.blur();
      if (event.key !== "Enter" || event.isComposing || !reason.value.trim()) return;
      event.preventDefault();
      answer(false);
    });
    return el(
      "div",
      { class: "approval", role: "group", "aria-label": `Approval of ${one.tool}`, "data-request": one.request },
      el(
        "header",
        { class: "approval-head" },
        icon("tool"),
        el("b", {}, plain(one.tool)),
        el("span", {}, "waits for your approval"),
        el("span", { class: "approval-when faint" }),
      ),
      drawArguments(one.arguments),
      el(
        "div",
        { class: "approval-answer" },
        el("label", { for: id }, "Reason, if denied"),
        reason,
        buttons,
      ),
      why,
    );
  }

  /** @param {any} one @param {boolean} isApproved @param {string} note */
  async _answer(one, isApproved, note) {
    const body = { request: one.request, approve: isApproved, ...(isApproved || !note ? {} : { note }) };
    const { is_new: isNew } = await send("POST", at(this._model.key, "/approvals"), body);
    if (isNew === false) toast("Somebody else has answered this request before.");
    else toast(isApproved ? `${one.tool} is approved, and runs once.` : `${one.tool} is denied; the model is told so.`);
    await this._model.refresh();
  }
}

/** Arguments as names and values; as text if they are no JSON object, for instance because they were truncated. @param {string} json */
function drawArguments(json) {
  let value;
  try {
    value = JSON.parse(json);
  } catch {
    value = null;
  }
  if (!value || typeof value !== "object" || Array.isArray(value)) {
    return el("pre", { class: "code approval-text", dir: "ltr", tabindex: "0" }, el("code", {}, plain(json)));
  }
  const entries = Object.entries(value);
  if (!entries.length) return el("p", { class: "faint" }, "Without arguments.");
  return el(
    "dl",
    { class: "approval-arguments", tabindex: "0", "aria-label": `${count(entries.length)} arguments` },
    entries.map(([name, one]) => el(
      "div",
      {},
      el("dt", {}, plain(name)),
      el("dd", { dir: "auto" }, plain(typeof one === "string" ? one : JSON.stringify(one, null, 1))),
    )),
  );
}
