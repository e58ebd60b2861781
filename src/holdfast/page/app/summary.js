/** Parser and renderer of a summary: its text, its ledger of exact facts, and its citations. */

import { el } from "./dom.js";
import { plain } from "./plain.js";

/** Labels of ledger lines (`label [#seq] text`) with the heading that each is listed under. @type {Record<string, string>} */
const LABELS = {
  goal: "Goal", "newest request": "Goal", task: "Tasks", plan: "Plan", agreed: "Agreed", answered: "Answered", rule: "Instructions",
  "changed, not committed": "Changed files", check: "Checks", "error, still open": "Open errors",
  "last words": "Last words", committed: "Commits", user: "Requests", assistant: "Answers", ran: "Commands",
  called: "Calls", edit: "Edited", solved: "Solved", value: "Values", names: "Names",
  decided: "Decisions", error: "Errors",
};
/** Labels of lists without a record, which older versions wrote (`label: a, b`). @type {Record<string, string>} */
const LISTS = { edited: "Edited", paths: "Paths", urls: "Addresses", ids: "Ids", names: "Names", numbers: "Numbers" };
const LEDGER = new RegExp(`^(${Object.keys(LABELS).join("|")})(?= \\[#\\d+\\] )|^(${Object.keys(LISTS).join("|")})(?=: )`);
const CITATION = /\[#(\d+)\]/;

/** @typedef {{ label: string, notes: string, ledger: { kind: string, text: string }[] }} Summary */

/** @param {string} text @returns {Summary} */
export function parseSummary(text) {
  const inner = text.replace(/^<earlier-conversation>\n?/, "").replace(/\n?<\/earlier-conversation>\s*$/, "");
  const isFramed = inner !== text;
  const [label, ...lines] = isFramed ? inner.split("\n") : ["", ...inner.split("\n")];
  let begin = lines.length;
  while (begin > 0 && LEDGER.test(lines[begin - 1])) begin -= 1;
  const ledger = lines.slice(begin).map((line) => {
    const kind = /** @type {RegExpExecArray} */ (LEDGER.exec(line));
    const name = kind[1] ?? kind[2];
    return { kind: kind[1] ? LABELS[name] : LISTS[name], text: line.slice(name.length).replace(/^:? /, "") };
  });
  return { label, notes: unescaped(lines.slice(0, begin).join("\n")), ledger };
}

/** Undo the escaping of brackets, which is for the model. @param {string} text */
const unescaped = (text) => text.replaceAll("&lt;", "<");

/**
 * Text with citations as buttons.
 * @param {string} text
 * @param {(seq: number) => void} open
 */
export function withCitations(text, open) {
  return unescaped(text)
    .split(CITATION)
    .map((piece, place) => (place % 2 ? citation(Number(piece), open) : plain(piece)))
    .flat();
}

/** @param {number} seq @param {(seq: number) => void} open */
function citation(seq, open) {
  return el(
    "button",
    { type: "button", class: "citation", "aria-label": `Show record ${seq}`, on: { click: () => open(seq) } },
    `#${seq}`,
  );
}

/** @param {Summary} summary @param {(seq: number) => void} open */
export function drawLedger(summary, open) {
  if (!summary.ledger.length) return el("p", { class: "faint" }, "The ledger is empty.");
  /** @type {Map<string, string[]>} */
  const kinds = new Map();
  for (const { kind, text } of summary.ledger) kinds.set(kind, [...(kinds.get(kind) ?? []), text]);
  return el(
    "dl",
    { class: "ledger" },
    [...kinds].map(
      ([kind, texts]) => el(
        "div",
        {},
        el("dt", {}, kind),
        texts.map((text) => el("dd", { dir: "auto" }, withCitations(text, open))),
      )
    ),
  );
}
