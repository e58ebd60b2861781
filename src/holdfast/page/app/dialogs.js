/** Modal dialogs and toasts. */

import { Problem } from "./api.js";
import { el, fill, freshId } from "./dom.js";
import { icon } from "./icons.js";

/**
 * Open a dialog. `content` receives a function that closes it.
 * @param {string} title
 * @param {(close: (answer?: any) => void) => (Node | string | null | false)[]} content
 * @param {{ wide?: boolean, closable?: boolean }} [how]
 * @returns {Promise<any>} the value passed to that function
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
 * Ask for confirmation of an irreversible action.
 * @param {string} title @param {string} sentence @param {string} verb
 * @returns {Promise<boolean>}
 */
export async function confirmed(title, sentence, verb) {
  const answer = await openDialog(title, (close) => [
    el("p", {}, sentence),
    el(
      "footer",
      { class: "dialog-foot" },
      el("button", { type: "button", class: "button", autofocus: true, on: { click: () => close(false) } }, "Cancel"),
      el("button", { type: "button", class: "button is-danger", on: { click: () => close(true) } }, verb),
    ),
  ]);
  return answer === true;
}

/**
 * A form with one line of text.
 * @param {string} title
 * @param {{ label: string, hint: string, verb: string, value?: string, type?: string, closable?: boolean }} field
 * @param {(text: string) => Promise<void>} act success closes the dialog; the form shows an error
 */
export function askLine(title, field, act) {
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
          type: field.type ?? "text",
          value: field.value ?? "",
          autocomplete: "off",
          spellcheck: "false",
          required: true,
          autofocus: true,
        },
      );
      const button = el("button", { class: "button is-main" }, field.verb);
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
          el("label", { for: id }, field.label),
          input,
          el("p", { class: "faint" }, withCommands(field.hint)),
          why,
          el("footer", { class: "dialog-foot" }, button),
        ),
      ];
    },
    { closable: field.closable ?? true },
  );
}

/** Render text between backticks as code. @param {string} sentence */
export function withCommands(sentence) {
  return sentence.split("`").map((piece, place) => (place % 2 ? el("code", {}, piece) : piece));
}

/** @param {unknown} error */
export function sentenceOf(error) {
  const text = error instanceof Error ? error.message : String(error);
  return error instanceof Problem || text ? text.slice(0, 1).toUpperCase() + text.slice(1) : "Failed.";
}

/** Toasts, announced by screen readers. */
const toasts = el("div", { class: "toasts", role: "status", "aria-live": "polite" });

export function toastPlace() {
  return toasts;
}

/** @param {string} sentence @param {"notice" | "problem"} [tone] */
export function toast(sentence, tone = "notice") {
  const one = el("p", { class: `toast is-${tone}` }, sentence);
  toasts.append(one);
  while (toasts.children.length > 3) toasts.firstChild?.remove();
  // Long enough to read twice.
  setTimeout(() => one.remove(), 6_000 + sentence.length * 40);
}

/** Run an action and show its error as a toast. @param {() => Promise<any>} act */
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    toast(sentenceOf(error), "problem");
    return undefined;
  }
}
