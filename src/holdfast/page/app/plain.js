/** Untrusted text as text: characters that reorder or hide others are shown by their code point. */

import { el } from "./dom.js";

/** Control characters, and marks that override the text direction or are invisible. Joiners of scripts and emoji stay. */
const INVISIBLE = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb])/;

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
