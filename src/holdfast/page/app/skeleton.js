/** Placeholders while something loads: the page never says that there is nothing before it knows. */

import { el } from "./dom.js";

/** Lines of a text that is not loaded yet. @param {string} words for screen readers @param {number} [lines] */
export function bones(words, lines = 9) {
  return el(
    "div",
    { class: "bones", role: "status" },
    el("span", { class: "hidden" }, words),
    Array.from({ length: lines }, () => el("span", { class: "bone", "aria-hidden": "true" })),
  );
}

/** One line. */
export const bone = () => el("span", { class: "bone", "aria-hidden": "true" });
