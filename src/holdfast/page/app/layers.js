/** The layers of a view: their names, and a bar with the share of each. */

import { el } from "./dom.js";
import { count, percent, short } from "./format.js";

/** @type {Record<string, { name: string, words: string }>} */
export const LAYERS = {
  instructions: { name: "Instructions", words: "verbatim in every request" },
  state: { name: "State", words: "of the work, taken by rule" },
  story: { name: "Story", words: "what happened, summarised" },
  facts: { name: "Facts", words: "exact values and names" },
  tail: { name: "Tail", words: "newest messages verbatim" },
};

/** @param {any} view @param {(layer: string) => void} open */
export function layerBar(view, open) {
  const most = Math.max(view.window_tokens ?? 0, view.tokens_estimated, 1);
  const shown = view.layers.filter((/** @type {any} */ one) => one.tokens > 0);
  const bars = shown.map((/** @type {any} */ one) => {
    const piece = el("span", { class: `layer-piece layer-${one.name}` });
    piece.style.inlineSize = `${(one.tokens / most) * 100}%`;
    return piece;
  });
  const left = view.window_tokens ? `${percent(view.tokens_estimated / view.window_tokens)} of ${short(view.window_tokens)}` : "window unknown";
  return el(
    "div",
    { class: "layer-box" },
    el("div", { class: "layer-bar", "aria-hidden": "true" }, bars),
    el(
      "div",
      { class: "layer-names" },
      view.layers.map((/** @type {any} */ one) => el(
        "button",
        { type: "button", class: "quiet layer-name", disabled: !shown.includes(one), on: { click: () => open(one.name) } },
        el("span", { class: `layer-mark layer-${one.name}`, "aria-hidden": "true" }),
        LAYERS[one.name].name,
        el("b", {}, count(one.tokens)),
      )),
      el("span", { class: "layer-sum" }, el("b", {}, `${view.is_whole === false ? "at least " : ""}${count(view.tokens_estimated)} tokens`), ` ${left}`),
    ),
  );
}
