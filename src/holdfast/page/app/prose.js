/** Rendering of untrusted text: Markdown as elements, folded if it is long. Nothing in it becomes markup. */

import { el } from "./dom.js";
import { markdown } from "./markdown.js";
import { plain } from "./plain.js";

/** Longer texts are folded. */
const FOLD_LINES = 18;
const FOLD_CHARS = 1_800;
/** Characters rendered at once. Records hold 32 KiB; a browser lays that out in a few milliseconds. */
const SHOWN_CHARS_MAX = 200_000;

/**
 * Text with its Markdown shown.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function prose(text) {
  return el("div", { class: "prose", dir: "auto" }, markdown(text.slice(0, SHOWN_CHARS_MAX)));
}

/**
 * Text that is folded if long, with a button that unfolds it.
 * @param {string} text
 * @param {{ isCode?: boolean, unfolded?: Set<string>, name?: string }} [how] `unfolded` stores the state by `name`
 */
export function folded(text, { isCode = false, unfolded, name = "" } = {}) {
  const body = isCode ? el(
    "pre",
    { class: "code", dir: "ltr" },
    el("code", {}, plain(text.slice(0, SHOWN_CHARS_MAX))),
  ) : prose(text);
  const lines = text.split("\n", FOLD_LINES + 1).length;
  if (lines <= FOLD_LINES && text.length <= FOLD_CHARS) return body;
  const box = el("div", { class: "fold" }, body);
  const button = el("button", { class: "quiet fold-button", type: "button" });
  const show = (/** @type {boolean} */ isOpen) => {
    box.classList.toggle("is-open", isOpen);
    button.textContent = isOpen ? "Show less" : "Show all";
    button.setAttribute("aria-expanded", String(isOpen));
  };
  show(unfolded?.has(name) ?? false);
  button.addEventListener("click", () => {
    const isOpen = !box.classList.contains("is-open");
    if (isOpen) unfolded?.add(name);
    else unfolded?.delete(name);
    show(isOpen);
  });
  box.append(button);
  return box;
}
