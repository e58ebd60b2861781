/** Dialogs: one at a time, closed by Escape, with the focus back where it was. */

import { Problem } from "./api.js";
import { el, fill, freshId } from "./dom.js";
import { icon } from "./icons.js";

/**
 * Open a dialog. `content` gets a function that closes it.
 * @param {string} title
 * @param {(close: (answer?: any) => void) => (Node | string | null | false)[]} content
 * @param {{ wide?: boolean, closable?: boolean }} [how]
 * @returns {Promise<any>} what it was closed with
 */
export function openDialog(title, content, { wide = false, closable = true } = {}) {
  const id = freshId("dialog");
  return new Promise((resolve) => {
    const close = (/** @type {any} */ answer) => {
      if (!dialog.isConnected) return;
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const dialog = el("dialog", { class: wide ? "dialog is-wide" : "dialog", "aria-labelledby": id });
    dialog.addEventListener("cancel", (/** @type {Event} */ event) => {
      event.preventDefault();
      if (closable) close();
    });
    dialog.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      if (closable && event.target === dialog) close();
    });
    const leave = closable && el(
      "button",
      { type: "button", class: "quiet icon-button", "aria-label": "Close", on: { click: () => close() } },
      icon("close"),
    );
    dialog.append(
      el(
        "div",
        { class: "dialog-body" },
        el("header", { class: "dialog-head" }, el("h2", { id }, title), leave),
        ...content(close).filter(Boolean),
      )
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * Ask before something that cannot be taken back.
 * @param {string} title @param {string} sentence @param {string} verb
 * @returns {Promise<boolean>}
 */
export async function confirmed(title, sentence, verb) {
  const answer = await openDialog(title, (close) => [
    el("p", {}, sentence),
    el(
      "footer",
      { class: "dialog-foot" },
      el("button", { type: "button", class: "button", autofocus: true, on: { click: () => close(false) } }, "Keep it"),
      el("button", { type: "button", class: "button is-danger", on: { click: () => close(true) } }, verb),
    ),
  ]);
  return answer === true;
}

/**
 * A form with one line of text.
 * @param {string} title
 * @param {{ label: string, hint: string, verb: string, value?: string, type?: string, closable?: boolean }} asked
 * @param {(text: string) => Promise<void>} act closes the dialog where it succeeds; says why where it does not
 */
export function askLine(title, asked, act) {
  return openDialog(
    title,
    (close) => {
      const id = freshId("field");
      const why = el("p", { class: "problem", role: "alert" });
      const input = el(
        "input",
        {
          id,
          class: "field",
          type: asked.type ?? "text",
          value: asked.value ?? "",
          autocomplete: "off",
          spellcheck: "false",
          required: true,
          autofocus: true,
        },
      );
      const button = el("button", { class: "button is-main" }, asked.verb);
      const submit = async (/** @type {Event} */ event) => {
        event.preventDefault();
        button.disabled = true;
        try {
          await act(input.value.trim());
          close(input.value.trim());
        } catch (error) {
          fill(why, sentenceOf(error));
          button.disabled = false;
          input.focus();
        }
      };
      return [
        el(
          "form",
          { class: "form", on: { submit } },
          el("label", { for: id }, asked.label),
          input,
          el("p", { class: "faint" }, withCommands(asked.hint)),
          why,
          el("footer", { class: "dialog-foot" }, button),
        ),
      ];
    },
    { closable: asked.closable ?? true },
  );
}

/** Draw a sentence of ours with what stands between backticks as something to type. @param {string} sentence */
export function withCommands(sentence) {
  return sentence.split("`").map((piece, place) => (place % 2 ? el("code", {}, piece) : piece));
}

/** @param {unknown} error */
export function sentenceOf(error) {
  const text = error instanceof Error ? error.message : String(error);
  return error instanceof Problem || text ? text.slice(0, 1).toUpperCase() + text.slice(1) : "It did not work.";
}

/** Sentences that come and go, read out by screen readers. */
const toasts = el("div", { class: "toasts", role: "status", "aria-live": "polite" });

export function toastPlace() {
  return toasts;
}

/** @param {string} sentence @param {"told" | "problem"} [tone] */
export function toast(sentence, tone = "told") {
  const one = el("p", { class: `toast is-${tone}` }, sentence);
  toasts.append(one);
  while (toasts.children.length > 3) toasts.firstChild?.remove();
  // Long enough to read twice.
  setTimeout(() => one.remove(), 6_000 + sentence.length * 40);
}

/** Do something and say why where it fails. @param {() => Promise<any>} act */
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    toast(sentenceOf(error), "problem");
    return undefined;
  }
}
