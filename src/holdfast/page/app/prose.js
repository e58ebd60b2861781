/**
 * Text of people, models and tools, as text: nothing in it is taken for markup.
 *
 * Code between fences and backticks is set as code, because that is most of what agents write. Characters that would
 * reorder or hide other text are shown by their number instead of being obeyed.
 */

import { el } from "./dom.js";

/** Controls, and marks that override the direction of text or cannot be seen. Joiners of scripts and emoji may stay. */
const UNSEEN = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb])/;
/** A fence is closed by one like it on a line of its own, or by the end. */
const FENCE = /(?:^|\n)[ \t]*(```+|~~~+)[^\n`]*\n([\s\S]*?)(?:(?:^|\n)[ \t]*\1[ \t]*(?=\n|$)|$)/;
const TICKS = /(?<!`)`([^`\n]+)`(?!`)/;
/** Longer texts are folded: more lines or characters than one reads at a glance. */
const FOLD_LINES = 18;
const FOLD_CHARS = 1_800;
/** What is put on the page at once. Records hold 32 KiB; a browser lays that out in a few milliseconds. */
const SHOWN_CHARS_MAX = 200_000;

/**
 * Text as it is, with what cannot be seen made visible.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function plain(text) {
  return text
    .split(UNSEEN)
    .filter((piece) => piece !== "")
    .map((piece) => (piece.length === 1 && UNSEEN.test(piece) ? unseen(piece) : piece));
}

/** @param {string} mark */
function unseen(mark) {
  const name = `U+${mark.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`;
  return el("span", { class: "unseen", title: "a character that cannot be seen or reorders text" }, name);
}

/**
 * Text with its code set as code.
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
 * A text that is folded where it is long, with a button that unfolds it.
 * @param {string} text
 * @param {{ isCode?: boolean, unfolded?: Set<string>, name?: string }} [how] `unfolded` remembers by `name`
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
