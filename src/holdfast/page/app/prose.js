/**
 * Rendering of untrusted text: nothing in it becomes markup.
 *
 * Code between fences and backticks is rendered as code, because agents write mostly code. Characters that reorder or
 * hide text are shown by their code point.
 */

import { el } from "./dom.js";

/** Control characters, and marks that override the text direction or are invisible. Joiners of scripts and emoji stay. */
const INVISIBLE = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb])/;
/** A fence ends with the same fence on its own line, or at the end of the text. */
const FENCE = /(?:^|\n)[ \t]*(```+|~~~+)[^\n`]*\n([\s\S]*?)(?:(?:^|\n)[ \t]*\1[ \t]*(?=\n|$)|$)/;
const TICKS = /(?<!`)`([^`\n]+)`(?!`)/;
/** Longer texts are folded. */
const FOLD_LINES = 18;
const FOLD_CHARS = 1_800;
/** Characters rendered at once. Records hold 32 KiB; a browser lays that out in a few milliseconds. */
const SHOWN_CHARS_MAX = 200_000;

/**
 * Text with invisible characters made visible.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function plain(text) {
  return text
    .split(INVISIBLE)
    .filter((piece) => piece !== "")
    .map((piece) => (piece.length === 1 && INVISIBLE.test(piece) ? invisible(piece) : piece));
}

/** @param {string} mark */
function invisible(mark) {
  const name = `U+${mark.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`;
  return el("span", { class: "unseen", title: "a character that is invisible or reorders text" }, name);
}

/**
 * Text with its code rendered as code.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function prose(text) {
  const box = el("div", { class: "prose", dir: "auto" });
  let rest = text.slice(0, SHOWN_CHARS_MAX);
  for (let fence = FENCE.exec(rest); fence; fence = FENCE.exec(rest)) {
    paragraph(box, rest.slice(0, fence.index));
    box.append(el("pre", { class: "code", dir: "ltr" }, el("code", {}, plain(fence[2]))));
    rest = rest.slice(fence.index + fence[0].length).replace(/^\n/, "");
  }
  paragraph(box, rest);
  return box;
}

/** @param {HTMLElement} box @param {string} text */
function paragraph(box, text) {
  if (!text) return;
  const pieces = text.split(TICKS).map((piece, place) => (place % 2 ? el("code", {}, plain(piece)) : plain(piece)));
  box.append(el("p", { dir: "auto" }, pieces.flat()));
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
