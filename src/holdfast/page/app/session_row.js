/** Row of the list of sessions: title or first words, state, model, tags, cost and age, in two lines. */

import { el } from "./dom.js";
import { age, moment, money } from "./format.js";
import { smallGauge } from "./gauge.js";
import { plain } from "./plain.js";

/** Characters at the end of a key that are always shown: keys of one program differ there. */
const TAIL_CHARS = 10;

/** Text that is truncated in the middle if it does not fit. @param {string} text @param {string} name class */
export function middle(text, name) {
  const characters = [...text];
  const isLong = characters.length > 2 * TAIL_CHARS;
  const head = isLong ? characters.slice(0, -TAIL_CHARS).join("") : text;
  const tail = isLong ? characters.slice(-TAIL_CHARS).join("") : "";
  return el(
    "span",
    { class: `middle ${name}`, title: text },
    el("span", { class: "middle-head" }, plain(head)),
    tail ? el("span", { class: "middle-tail" }, plain(tail)) : null,
  );
}

/**
 * @param {any} one of the sessions
 * @param {{ isCurrent: boolean, isSelected: boolean, isSelecting: boolean }} how
 */
export function drawSession(one, { isCurrent, isSelected, isSelecting }) {
  const { title } = one;
  const classes = ["rail-row", isCurrent && "is-current", isSelected && "is-selected", isSelecting && "is-selecting"];
  const isBusy = one.state !== undefined && one.state !== "rest";
  return el(
    "div",
    { class: classes.filter(Boolean).join(" "), "data-key": one.key },
    el(
      "span",
      { class: `rail-pick state-of-${one.state ?? "rest"}`, "data-pick": "", title: one.says ?? "" },
      el("span", { class: "rail-dot", "aria-hidden": "true" }),
      el("span", { class: "rail-check", "aria-hidden": "true" }),
    ),
    title
      ? el("span", { class: "rail-title", dir: "auto", title }, plain(title))
      : middle(one.key, "rail-title"),
    el("time", { class: "rail-when", title: moment(one.updated_at) }, age(one.updated_at)),
    el(
      "span",
      { class: "rail-about" },
      title ? middle(one.key, "rail-key") : null,
      isBusy && one.says ? el("span", { class: "rail-says" }, plain(one.says)) : null,
      one.model && !isBusy ? el("span", {}, plain(one.model)) : null,
      one.tags?.length ? el("span", { class: "rail-tags", title: one.tags.join(", ") }, plain(one.tags.join(", "))) : null,
      one.cost_usd && !isBusy ? el("span", { class: "rail-cost" }, money(one.cost_usd)) : null,
    ),
    gaugeOf(one),
  );
}

/** Usage of the fullest budget, if known. @param {any} one */
function gaugeOf({ gauge }) {
  const budgets = [["Tokens", gauge?.tokens], ["Bytes", gauge?.wire_bytes], ["Media", gauge?.media]];
  const known = budgets.filter(([, budget]) => budget?.fraction != null);
  const fullest = known.sort((a, b) => b[1].fraction - a[1].fraction)[0];
  return fullest ? el("span", { class: "rail-gauge" }, smallGauge(fullest[0], fullest[1].fraction)) : null;
}

/** Placeholder of a row while the list loads. @param {number} place */
export function skeletonRow(place) {
  return el("div", { class: `rail-bones skeleton skeleton-${place % 3}`, "aria-hidden": "true" }, el("span", {}), el("span", {}));
}
