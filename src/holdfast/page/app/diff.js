/** Changes between two requests: messages that came, went or changed. */

import { diffArrays } from "../vendor/diff/array.js";
import { el } from "./dom.js";
import { count, counted } from "./format.js";
import { plain } from "./plain.js";
import { inWords } from "./record_text.js";

/** Characters of a message that are shown, and rows: a person reads no more. */
const CHARS_MAX = 2_000;
const ROWS_MAX = 400;
/** Longer texts are not compared word by word. */
const COMPARED_CHARS_MAX = 40_000;

/** @typedef {{ who: string, text: string, seq: number, tokens: number }} Line */

/** @param {any} before @param {any} after views @returns {Node[]} */
export function drawDiff(before, after) {
  const changes = diffArrays(linesOf(before), linesOf(after), { comparator: (/** @type {Line} */ a, /** @type {Line} */ b) => a.who === b.who && a.text === b.text });
  const sum = (/** @type {string} */ kind) => changes.filter((/** @type {any} */ one) => one[kind]).reduce((/** @type {number} */ all, /** @type {any} */ one) => all + one.value.length, 0);
  const tokens = after.tokens_estimated - before.tokens_estimated;
  const head = el(
    "header",
    { class: "pane-head" },
    el("h2", {}, "Changes"),
    el(
      "span",
      { class: "faint" },
      `${counted(sum("added"), "message")} added, ${count(sum("removed"))} removed; ${tokens < 0 ? "−" : "+"}${count(Math.abs(tokens))} tokens`,
    ),
  );
  const rows = [];
  for (let place = 0; place < changes.length; place += 1) {
    const one = /** @type {any} */ (changes[place]);
    const next = /** @type {any} */ (changes[place + 1]);
    if (one.removed && next?.added && one.value.length === 1 && next.value.length === 1 && one.value[0].who === next.value[0].who) {
      rows.push(changed(one.value[0], next.value[0]));
      place += 1;
    } else if (one.added || one.removed) rows.push(...one.value.map((/** @type {Line} */ line) => whole(line, one.added ? "added" : "removed")));
    else rows.push(el("p", { class: "diff-same" }, `${counted(one.value.length, "message")} unchanged`));
  }
  const shown = rows.slice(0, ROWS_MAX);
  if (rows.length > ROWS_MAX) shown.push(el("p", { class: "diff-same" }, `and ${count(rows.length - ROWS_MAX)} more`));
  return [head, el("div", { class: "pane-scroll", tabindex: "0", role: "region", "aria-label": "Changes between two requests" }, shown)];
}

/** @param {any} view @returns {Line[]} */
function linesOf(view) {
  const system = view.system ? [{ who: "System text", text: view.system, seq: 0, tokens: 0 }] : [];
  return [
    ...system,
    ...view.messages.map((/** @type {any} */ { layer, seq, tokens, message }) => ({
      who: layer === "summary" ? "Summary" : { user: "User", assistant: "Assistant", tool: "Tool" }[/** @type {string} */ (message.role)] ?? message.role,
      text: inWords(message.parts),
      seq,
      tokens,
    })),
  ];
}

/** @param {Line} line @param {"added" | "removed" | "changed"} kind @param {any[]} text */
function row(line, kind, ...text) {
  const sign = { added: "+", removed: "−", changed: "±" }[kind];
  return el(
    "article",
    { class: `diff-row is-${kind}`, "aria-label": `${line.who}, ${kind}` },
    el("p", { class: "diff-who" }, el("b", {}, `${sign} ${line.who}`), line.seq ? el("span", { class: "faint" }, `#${line.seq}`) : null),
    el("p", { class: "diff-text", dir: "auto" }, text),
  );
}

/** @param {Line} line @param {"added" | "removed"} kind */
function whole(line, kind) {
  const text = line.text.length > CHARS_MAX ? `${line.text.slice(0, CHARS_MAX)}…` : line.text;
  return row(line, kind, ...plain(text));
}

/** @param {Line} before @param {Line} after */
function changed(before, after) {
  if (before.text.length + after.text.length > COMPARED_CHARS_MAX) return row(after, "changed", ...plain(after.text.slice(0, CHARS_MAX)));
  const pieces = diffArrays(words(before.text), words(after.text)).map((/** @type {any} */ one) => {
    const text = one.value.join("");
    if (one.added) return el("ins", {}, plain(text));
    return one.removed ? el("del", {}, plain(text)) : el("span", {}, plain(text));
  });
  return row(after, "changed", ...pieces);
}

/** @param {string} text */
const words = (text) => text.split(/(\s+)/).filter(Boolean);
