/** Tool steps: a call and its result as one block, with the tool's name, arguments, status and duration. */

import { el } from "./dom.js";
import { took } from "./format.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";
import { toolOutcome } from "./record_text.js";

/** Records after a reply among which the results of its calls are looked for. */
const RECORDS_MAX = 600;
/** Characters of arguments and of a result in the closed block. */
const LINE_CHARS = 160;

/**
 * @typedef {object} Step
 * @property {any} call
 * @property {number} seq of the record with the result; 0: none yet
 * @property {number} started time; 0: not started
 * @property {number} ended time; 0: none
 * @property {any} result
 * @property {boolean} [isImported]
 * @property {number} request seq of its approval request; 0: none
 * @property {"asked" | "waiting" | "approved" | "denied" | "running" | "interrupted" | "settled" | "left"} state
 */

/**
 * The steps of a reply by call id, from the loaded records.
 * @param {import("./session_model.js").SessionModel} model
 * @param {import("./record_text.js").Logged} logged the reply
 * @returns {Map<string, Step>}
 */
export function stepsOf(model, { seq, record }) {
  /** @type {Map<string, Step>} */
  const steps = new Map();
  for (const part of record.reply.parts) {
    if (part.type === "tool_call") steps.set(part.call_id, { call: part, seq: 0, started: 0, ended: 0, request: 0, result: null, state: "asked" });
  }
  for (let later = seq + 1; steps.size && later <= Math.min(model.count, seq + RECORDS_MAX); later += 1) {
    const found = model.record(later);
    if (!found) continue;
    const { type, turn } = found.record;
    if (turn === record.turn && (type === "TurnEnded" || type === "ReplyRecorded")) {
      leave(steps);
      break;
    }
    const step = type === "ApprovalAnswered"
      ? [...steps.values()].find((one) => one.request === found.record.request)
      : steps.get(found.record.call_id ?? found.record.result?.call_id);
    if (step) advance(step, found);
  }
  return steps;
}

/** The conversation went on: what has not begun will not. @param {Map<string, Step>} steps */
function leave(steps) {
  for (const step of steps.values()) if (["asked", "waiting", "approved"].includes(step.state)) step.state = "left";
}

/** @param {Step} step @param {import("./record_text.js").Logged} logged */
function advance(step, { seq, at, record }) {
  if (record.type === "ApprovalRequested") {
    step.request = seq;
    step.state = "waiting";
  } else if (record.type === "ApprovalAnswered") {
    if (step.state === "waiting") step.state = record.is_approved ? "approved" : "denied";
  } else if (record.type === "ToolStarted") {
    step.started = at;
    step.state = "running";
  } else if (record.type === "ToolInterrupted") {
    step.state = "interrupted";
  } else if (record.result && !(step.result && record.type === "ResultSubmitted")) {
    Object.assign(step, { seq, ended: at, result: record.result, state: "settled", isImported: record.origin != null });
  }
}

/**
 * The reply whose step a tool record belongs to; 0 if it is not loaded.
 * @param {import("./session_model.js").SessionModel} model
 * @param {import("./record_text.js").Logged} logged
 */
export function replyOf(model, { seq, record }) {
  const id = record.call_id ?? record.result?.call_id;
  for (let before = seq - 1; id !== undefined && before >= Math.max(1, seq - RECORDS_MAX); before -= 1) {
    const found = model.record(before);
    if (!found) continue;
    const { type, turn, reply } = found.record;
    if (type !== "ReplyRecorded" || turn !== record.turn) continue;
    return reply.parts.some((/** @type {any} */ part) => part.type === "tool_call" && part.call_id === id) ? before : 0;
  }
  return 0;
}

/** Records that are part of a step. */
export const IN_STEP = new Set(["ApprovalRequested", "ToolStarted", "ToolSettled", "ToolInterrupted", "ResultSubmitted"]);

/** @param {Step} step */
function status(step) {
  if (step.state === "settled") {
    const words = toolOutcome(step.result);
    return { words, tone: (step.result.outcome ?? "done") === "done" ? "is-on" : "is-high" };
  }
  return {
    asked: { words: "not started", tone: "" },
    waiting: { words: "waits for an approval", tone: "is-raised" },
    approved: { words: "approved", tone: "is-on" },
    denied: { words: "denied", tone: "is-high" },
    left: { words: "no result", tone: "" },
    running: { words: "running", tone: "is-raised" }, interrupted: { words: "interrupted", tone: "is-high" },
  }[step.state];
}

/**
 * @param {Step} step
 * @param {{ unfolded: Set<string>, name: string, body: (step: Step) => (Node | null)[] }} how
 */
export function drawStep(step, { unfolded, name, body }) {
  const { words, tone } = status(step);
  const inside = el("div", { class: "step-body" });
  // An imported call was run elsewhere; only the time of the import is known.
  const seconds = step.started && step.ended && !step.isImported ? took(Math.max(0, step.ended - step.started)) : "";
  const box = el(
    "details",
    { class: "step", "data-tool": step.call.name },
    el(
      "summary",
      { class: "step-head" },
      icon("tool"),
      el("b", { class: "step-name" }, plain(step.call.name)),
      el("span", { class: "step-arguments", dir: "ltr" }, plain(argumentLine(step.call.arguments))),
      el("span", { class: `badge ${tone}` }, words),
      el("span", { class: "step-time" }, seconds),
      step.result ? el("span", { class: "step-result" }, plain(resultLine(step.result))) : null,
    ),
    inside,
  );
  const draw = () => inside.childElementCount || inside.append(.../** @type {Node[]} */ (body(step).filter(Boolean)));
  if (unfolded.has(name)) {
    box.open = true;
    draw();
  }
  box.addEventListener("toggle", () => {
    if (box.open) {
      unfolded.add(name);
      draw();
    } else unfolded.delete(name);
  });
  return box;
}

/** Arguments on one line; the model may have written invalid JSON. @param {string} json */
export function argumentLine(json) {
  let text = json;
  try {
    const value = JSON.parse(json);
    if (value && typeof value === "object" && !Array.isArray(value)) {
      text = Object.entries(value).map(([name, one]) => `${name}: ${typeof one === "string" ? one : JSON.stringify(one)}`).join(", ");
    }
  } catch {
    // Shown as it is.
  }
  return oneLine(text);
}

/** @param {any} result */
function resultLine(result) {
  const text = result.parts.map((/** @type {any} */ part) => part.text ?? part.head ?? part.name ?? part.media_type ?? "").join(" ");
  return oneLine(text) || "(nothing)";
}

/** @param {string} text */
function oneLine(text) {
  const line = text.slice(0, 4 * LINE_CHARS).split(/\s+/).join(" ").trim();
  return line.length > LINE_CHARS ? `${line.slice(0, LINE_CHARS)}…` : line;
}
