/**
 * Message box. A message is retried until it is accepted, with one client id, so that retries cannot duplicate it.
 */

import { Problem, request, at, queryOf, send } from "./api.js";
import { sentenceOf, toast } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { bytes } from "./format.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";

/** Backoff between retries, in milliseconds. */
const BACKOFF_FIRST = 500;
const BACKOFF_MAX = 5_000;
/** Maximum height of the box in pixels. */
const BOX_MAX = 220;

export class Composer {
  /** @param {import("./session_model.js").SessionModel} model @param {{ onSent: () => void }} handlers */
  constructor(model, { onSent }) {
    this._model = model;
    this._onSent = onSent;
    /** @type {File[]} */
    this._files = [];
    const id = freshId("message");
    this.box = el(
      "textarea",
      { id, class: "composer-box", rows: "1", placeholder: "Write a message", "aria-keyshortcuts": "m" },
    );
    this._status = el("p", { class: "composer-status", role: "status", "aria-live": "polite" });
    this._chips = el("ul", { class: "composer-files", "aria-label": "Attached" });
    this._picker = el(
      "input",
      { type: "file", multiple: true, class: "hidden", tabindex: "-1", "aria-label": "Files to attach" },
    );
    this._send = el(
      "button",
      { class: "button is-main icon-button", "aria-label": "Send", title: "Send (Enter)" },
      icon("send"),
    );
    this._stop = el(
      "button",
      {
        type: "button",
        class: "button icon-button",
        "aria-label": "Cancel the answer",
        title: "Cancel the answer (x)",
      },
      icon("stop"),
    );
    const attach = el(
      "button",
      { type: "button", class: "quiet icon-button", "aria-label": "Attach a file", title: "Attach a file" },
      icon("attach"),
    );
    this.node = el(
      "form",
      { class: "composer", "aria-label": "Send a message" },
      this._chips,
      el(
        "div",
        { class: "composer-line" },
        attach,
        this._picker,
        el("label", { for: id, class: "hidden" }, "Message"),
        this.box,
        this._stop,
        this._send,
      ),
      this._status,
    );
    this.node.addEventListener("submit", (/** @type {Event} */ event) => this._submit(event));
    this.box.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this._key(event));
    this.box.addEventListener("input", () => this._grow());
    attach.addEventListener("click", () => this._picker.click());
    this._picker.addEventListener("change", () => this._add(this._picker.files));
    this._stop.addEventListener("click", () => this.cancel());
    this.show();
  }

  /**
   * Take files that are dropped or pasted anywhere on the session.
   * @param {HTMLElement} place
   * @param {AbortSignal} signal
   */
  takeFiles(place, signal) {
    const hasFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files") && !this.node.hidden;
    const mark = (/** @type {boolean} */ isOver) => place.classList.toggle("is-dropping", isOver);
    place.addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      mark(true);
    }, { signal });
    place.addEventListener("dragleave", (event) => {
      if (!place.contains(/** @type {Node | null} */ (event.relatedTarget))) mark(false);
    }, { signal });
    place.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      mark(false);
      this._add(event.dataTransfer?.files);
    }, { signal });
    document.addEventListener("paste", (event) => {
      const isElsewhere = document.querySelector("dialog[open]") || this.node.hidden;
      if (!isElsewhere && event.clipboardData?.files.length) this._add(event.clipboardData.files);
    }, { signal });
  }

  /** Show the cancel button if a turn is open. */
  show() {
    const { detail } = this._model;
    this._stop.hidden = !detail || !detail.unanswered;
  }

  /** Cancel all open turns. */
  async cancel() {
    try {
      await send("POST", at(this._model.key, "/cancel"), {});
      this._showStatus("Cancelling.");
    } catch (error) {
      this._showStatus(sentenceOf(error));
    }
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.node.requestSubmit();
    } else if (event.key === "Escape") {
      this.box.blur();
    }
  }

  _grow() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight, BOX_MAX)}px`;
  }

  /** @param {FileList | null | undefined} files */
  _add(files) {
    if (!files?.length) return;
    this._files.push(...files);
    this._picker.value = "";
    this._list();
  }

  _list() {
    fill(
      this._chips,
      this._files.map((file, place) => {
        const remove = () => {
          this._files.splice(place, 1);
          this._list();
        };
        return el(
          "li",
          { class: "chip" },
          icon("attach"),
          el("span", {}, plain(file.name), ` ${bytes(file.size)}`),
          el(
            "button",
            { type: "button", class: "quiet icon-button", "aria-label": `Remove ${file.name}`, on: { click: remove } },
            icon("close"),
          ),
        );
      }),
    );
  }

  /** @param {Event} event */
  async _submit(event) {
    event.preventDefault();
    const text = this.box.value;
    const files = this._files;
    if (!text.trim() && !files.length) return;
    this.box.value = "";
    this._files = [];
    this._grow();
    this._list();
    const clientId = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    this._showStatus("Sending…");
    try {
      const attachments = await Promise.all(files.map((file) => this._upload(file)));
      await this._retry(
        () => send("POST", at(this._model.key, "/messages"), { text, attachments, client_id: clientId, mode: "post" })
      );
      this._showStatus("");
      this._onSent();
    } catch (error) {
      // Put the text and files back.
      if (!this.box.value) this.box.value = text;
      this._files = [...files, ...this._files];
      this._grow();
      this._list();
      this._showStatus(sentenceOf(error));
      toast(`Not sent: ${sentenceOf(error)}`, "problem");
    }
  }

  /** @param {File} file */
  async _upload(file) {
    const response = await this._retry(
      () => request(`/api/attachments${queryOf({ name: file.name })}`, { method: "POST", body: file })
    );
    const { upload } = await response.json();
    return { upload, name: file.name };
  }

  /** Retry while the error is transient. @param {() => Promise<any>} act */
  async _retry(act) {
    for (let wait = BACKOFF_FIRST; ; wait = Math.min(wait * 2, BACKOFF_MAX)) {
      try {
        return await act();
      } catch (error) {
        if (!(error instanceof Problem) || !error.isTransient) throw error;
        this._showStatus(`Not sent yet: ${error.message}`);
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  /** @param {string} sentence */
  _showStatus(sentence) {
    this._status.textContent = sentence;
  }
}
