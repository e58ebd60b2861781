/** Gauges of the three budgets. */

import { el } from "./dom.js";
import { bytes, count, percent, short } from "./format.js";

/** Warning thresholds as shares of the window, the same as the engine's. */
export const WARNINGS = [0.7, 0.85, 0.95];

/**
 * @typedef {{ name: string, used: number, most: number | null, say: (n: number) => string, words: (n: number) =>
 * string }} Budget
 */

/**
 * The three budgets of a session: tokens, bytes, media.
 * @param {any} view ViewNow of the API: `tokens_estimated`, `sizes`, `limits`
 * @param {any} [measured] gauge of the last request, which warnings are based on; it wins if known
 * @returns {Budget[]}
 */
export function budgetsOf(view, measured) {
  const { sizes, limits } = view;
  const of = (/** @type {any} */ budget, /** @type {number} */ used, /** @type {number | null} */ most) => (
    budget ? { used: budget.used, most: budget.limit ?? most } : { used, most }
  );
  return [
    {
      name: "Tokens",
      ...of(measured?.tokens, view.tokens_estimated, limits.window_tokens),
      say: short,
      words: (n) => `${count(n)} tokens`,
    },
    { name: "Bytes", ...of(measured?.wire_bytes, sizes.wire_bytes, limits.wire_bytes_max), say: bytes, words: bytes },
    {
      name: "Media",
      ...of(measured?.media, sizes.media_count, limits.media_count_max),
      say: count,
      words: (n) => `${count(n)} attached`,
    },
  ];
}

/** @param {Budget} budget */
export function shareOf({ used, most }) {
  return most ? used / most : 0;
}

/** @param {number} share */
export function toneOfShare(share) {
  if (share >= WARNINGS[2]) return "is-high";
  return share >= WARNINGS[0] ? "is-raised" : "";
}

/** A bar with its numbers. @param {Budget} budget */
export function gauge(budget) {
  const share = shareOf(budget);
  const spoken = budget.most ? `${budget.words(budget.used)} of ${budget.words(budget.most)}, ${percent(share)}` : `${budget.words(budget.used)}; limit unknown`;
  const bar = el("span", { class: "gauge-fill" });
  bar.style.inlineSize = `${Math.min(100, share * 100)}%`;
  return el(
    "div",
    {
      class: `gauge ${budget.most ? toneOfShare(share) : "is-unlimited"}`,
      role: "meter",
      "aria-label": budget.name,
      "aria-valuemin": "0",
      "aria-valuemax": "100",
      "aria-valuenow": Math.min(100, Math.round(share * 100)),
      "aria-valuetext": spoken,
      title: spoken,
    },
    el("span", { class: "gauge-name" }, budget.name),
    el(
      "span",
      { class: "gauge-said" },
      budget.say(budget.used),
      budget.most ? el("span", { class: "faint" }, ` / ${budget.say(budget.most)}`) : null,
    ),
    el("span", { class: "gauge-bar", "aria-hidden": "true" }, bar),
  );
}

/** A bar without numbers, for a list row. @param {string} name @param {number} share */
export function smallGauge(name, share) {
  const bar = el("span", { class: "gauge-fill" });
  bar.style.inlineSize = `${Math.min(100, share * 100)}%`;
  return el(
    "span",
    {
      class: `gauge-bar is-small ${toneOfShare(share)}`,
      role: "img",
      "aria-label": `${name} ${percent(share)}`,
      title: `${name} ${percent(share)}`,
    },
    bar,
  );
}
