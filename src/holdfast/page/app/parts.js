/** Rendering of message parts and records, for the timeline and the model view. */

import { drawAttachment } from "./attachments.js";
import { el } from "./dom.js";
import { count, money, short, timeOfDay, moment } from "./format.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";
import { folded } from "./prose.js";
import { spoken, toolOutcome } from "./record_text.js";
import { toSession } from "./router.js";
import { drawStep } from "./steps.js";

/**
 * State of a list's rows: unfolded texts by name, the record of a part, if known, and the tool steps of a reply.
 * @typedef {{ unfolded: Set<string>, place?: import("./attachments.js").Place, steps?: Map<string, import("./steps.js").Step>,
 * stepButtons?: (seq: number) => Node | null }} Memory
 */

/**
 * Draw the parts of a message.
 * @param {any[]} parts
 * @param {Memory} memory
 * @param {string} name key of these parts in the memory
 * @returns {Node[]}
 */
export function drawParts(parts, memory, name) {
  const drawn = parts.map((part, place) => drawPart(part, memory, `${name}.${place}`));
  return drawn.length ? drawn : [el("p", { class: "faint" }, "(nothing)")];
}

/** @param {any} part @param {Memory} memory @param {string} name @returns {Node} */
function drawPart(part, memory, name) {
  const { unfolded } = memory;
  switch (part.type) {
    case "text":
      return folded(part.text, { unfolded, name });
    case "large_text":
      return el(
        "div",
        {},
        folded(`${part.head}…`, { unfolded, name }),
        drawAttachment(part, memory.place ?? null),
      );
    case "media":
      return drawAttachment(part, memory.place ?? null);
    case "tool_call":
      if (memory.steps?.has(part.call_id)) {
        const body = (/** @type {import("./steps.js").Step} */ step) => stepBody(step, memory, name);
        return drawStep(/** @type {any} */ (memory.steps.get(part.call_id)), { unfolded, name: `${name}.step`, body });
      }
      return el(
        "div",
        { class: "call" },
        el("p", { class: "call-name" }, icon("tool"), "calls ", el("b", {}, plain(part.name))),
        folded(pretty(part.arguments), { isCode: true, unfolded, name }),
      );
    case "tool_result":
      return drawResult(part, memory, name);
    case "reasoning":
      return el(
        "details",
        { class: "thinking" },
        el("summary", {}, "Thinking"),
        part.text ? folded(part.text, { unfolded, name }) : el(
          "p",
          { class: "faint" },
          "Hidden by the provider.",
        ),
      );
    default:
      return el("p", { class: "faint" }, plain(String(part.type)));
  }
}

/** @param {import("./steps.js").Step} step @param {Memory} memory @param {string} name */
function stepBody(step, memory, name) {
  const place = memory.place && step.seq ? { ...memory.place, seq: step.seq } : memory.place;
  return [
    el("h4", {}, "Arguments"),
    folded(pretty(step.call.arguments), { isCode: true, unfolded: memory.unfolded, name }),
    step.result
      ? el("h4", {}, `Result, record ${count(step.seq)}`, memory.stepButtons?.(step.seq) ?? null)
      : el("p", { class: "faint" }, "No result yet."),
    step.result ? drawResult(step.result, { ...memory, place }, `${name}.result`) : null,
  ];
}

/** @param {any} result @param {Memory} memory @param {string} name */
export function drawResult(result, memory, name) {
  const inner = result.parts.map((/** @type {any} */ part, /** @type {number} */ place) =>
    part.type === "text" ? folded(
      part.text,
      { isCode: true, unfolded: memory.unfolded, name: `${name}.${place}` },
    ) : drawPart(part, memory, `${name}.${place}`),
  );
  return el("div", { class: "result" }, inner.length ? inner : el("p", { class: "faint" }, "(nothing)"));
}

/** Format arguments; the model may have written invalid JSON. @param {string} json */
function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

/** Kinds of rows: a message, a change of the view, or a step. */
/** @type {Record<string, { tone: string, who?: string }>} */
const TONES = {
  InputAdmitted: { tone: "input", who: "You" },
  ReplyRecorded: { tone: "reply", who: "Model" },
  ToolSettled: { tone: "tool", who: "Tool" },
  ResultSubmitted: { tone: "tool", who: "Client" },
  MessageAppended: { tone: "input" },
  MessagesRetracted: { tone: "turning" },
  CompactionApplied: { tone: "turning" },
  GenerationStarted: { tone: "turning" },
  CompactionUndone: { tone: "turning" },
  NoticePosted: { tone: "notice" },
  WindowWarned: { tone: "warning" },
  AttemptFailed: { tone: "fault" },
  SummaryRefused: { tone: "fault" },
  DamageSetAside: { tone: "fault" },
  RungStarted: { tone: "rung" },
  PartReplaced: { tone: "rung" },
  MessageExcluded: { tone: "rung" },
};

/** @param {any} record */
export function toneOf(record) {
  if (record.type === "TurnEnded" && record.outcome === "failed") return "fault";
  // A rung without a fault is part of a compaction, whose outcome has its own record.
  if (record.type === "RungStarted" && record.kind == null) return "step";
  return TONES[record.type]?.tone ?? "step";
}

/**
 * @typedef {object} RowActions
 * @property {string} key of the session
 * @property {(seq: number) => boolean} isPinned
 * @property {(seq: number, isPinned: boolean) => void} pin
 * @property {(seq: number) => boolean} isExcluded
 * @property {(seq: number, isExcluded: boolean) => void} exclude
 * @property {(seq: number) => void} openCompaction
 * @property {(seq: number) => void} fork
 * @property {(seq: number) => void} [edit] send another message in the place of this one
 * @property {(logged: import("./record_text.js").Logged) => boolean} isInView
 * @property {boolean} [isReadOnly] draw no buttons
 * @property {string} [note] badge beside the name
 * @property {boolean} [isLine] draw one line: the content is shown elsewhere
 */

/**
 * Draw a record as a row of the timeline.
 * @param {import("./record_text.js").Logged} logged
 * @param {Memory} memory
 * @param {RowActions} actions
 */
export function drawRecord(logged, memory, actions) {
  const { record, seq, at } = logged;
  const tone = toneOf(record);
  const who = TONES[record.type]?.who;
  const time = el(
    "time",
    { class: "row-time", datetime: new Date(at * 1_000).toISOString(), title: moment(at) },
    timeOfDay(at),
  );
  const number = el("span", { class: "row-seq", title: `record ${seq}` }, `#${seq}`);
  if (!who || actions.isLine) {
    return el(
      "div",
      { class: `row row-line tone-${tone}` },
      number,
      el("div", { class: "row-say" }, sentence(record, memory, seq), opener(record, seq, actions)),
      time,
    );
  }
  const name = record.type === "ReplyRecorded" ? record.reply.model : who;
  const head = el(
    "header",
    { class: "row-head" },
    el("b", { class: "row-who" }, plain(name)),
    aside(record, actions),
    actions.note ? el("span", { class: "badge" }, actions.note) : null,
    number,
    time,
    buttons(record, seq, actions),
  );
  const isOut = !actions.isInView(logged);
  const stepButtons = (/** @type {number} */ at) => el("span", { class: "row-buttons" }, excluder(at, actions));
  const more = actions.isReadOnly ? {} : { stepButtons };
  return el(
    "div",
    { class: `row row-card tone-${tone}${isOut ? " is-out" : ""}` },
    head,
    el("div", { class: "row-body" }, body(record, { ...memory, ...more, place: { key: actions.key, seq } }, seq)),
  );
}

/** @param {any} record @param {Memory} memory @param {number} seq */
function body(record, memory, seq) {
  if (record.type === "ReplyRecorded") return drawParts(record.reply.parts, memory, String(seq));
  if (record.result) return drawResult(record.result, memory, String(seq));
  return drawParts(record.parts, memory, String(seq));
}

/** @param {any} record @param {Memory} memory @param {number} seq */
function sentence(record, memory, seq) {
  const said = record.result ? `tool result, ${toolOutcome(record.result)} (receipt of ${record.result.call_id})` : spoken(record);
  const text = said.replace(/^notice: /, "");
  return folded(text.slice(0, 1).toUpperCase() + text.slice(1), { unfolded: memory.unfolded, name: String(seq) });
}

/** @param {any} record @param {RowActions} actions */
function aside(record, actions) {
  if (record.type === "ReplyRecorded" && record.reply.usage) {
    const { input_tokens: read = 0, output_tokens: wrote = 0, cached_input_tokens: cached = 0 } = record.reply.usage;
    const usage = `read ${count(read)} tokens${cached ? `, ${count(cached)} of them cached` : ""}, wrote ${count(wrote)}`;
    const said = `${short(read)} in, ${short(wrote)} out${record.cost_usd ? ` · ${money(record.cost_usd)}` : ""}`;
    if (actions.isReadOnly || !record.turn) return el("span", { class: "row-aside", title: usage }, said);
    const title = `${usage}. Open the waterfall of this turn`;
    return el("a", { class: "row-link", title, href: toSession(actions.key, "turn", record.turn) }, said);
  }
  if (record.result) return el(
    "span",
    { class: "row-aside" },
    `${record.result.call_id}: ${toolOutcome(record.result)}`,
  );
  return null;
}

/** @param {any} record @param {number} seq @param {RowActions} actions */
function opener(record, seq, actions) {
  if (record.type !== "CompactionApplied" && record.type !== "GenerationStarted") return null;
  if (actions.isReadOnly) return null;
  return el(
    "button",
    { type: "button", class: "quiet", "data-opens": "compaction", on: { click: () => actions.openCompaction(seq) } },
    "Summary and originals",
  );
}

/** @param {any} record @param {number} seq @param {RowActions} actions */
function buttons(record, seq, actions) {
  if (actions.isReadOnly) return null;
  if (record.type === "ReplyRecorded" || record.type === "ToolSettled") {
    return el("span", { class: "row-buttons" }, excluder(seq, actions));
  }
  if (record.type !== "InputAdmitted") return null;
  return el(
    "span",
    { class: "row-buttons" },
    pinner(seq, actions),
    actions.edit
      ? el(
        "button",
        {
          type: "button",
          class: "quiet icon-button",
          "aria-label": "Edit this message",
          title: "Edit this message",
          on: { click: () => actions.edit?.(seq) },
        },
        icon("edit"),
      )
      : null,
    el(
      "button",
      {
        type: "button",
        class: "quiet icon-button",
        "aria-label": "Fork the session before this message",
        title: "Fork the session before this message",
        on: { click: () => actions.fork(seq - 1) },
      },
      icon("fork"),
    ),
    excluder(seq, actions),
  );
}

/** @param {number} seq @param {RowActions} actions */
export function pinner(seq, actions) {
  const isPinned = actions.isPinned(seq);
  const label = isPinned ? "Pinned: stays in the view. Unpin" : "Pin: keep this message in the view";
  return el(
    "button",
    {
      type: "button",
      class: `quiet icon-button${isPinned ? " is-on" : ""}`,
      "aria-pressed": String(isPinned),
      "aria-label": label,
      title: label,
      on: { click: () => actions.pin(seq, !isPinned) },
    },
    icon("pin"),
  );
}

/** @param {number} seq @param {RowActions} actions */
export function excluder(seq, actions) {
  const isExcluded = actions.isExcluded(seq);
  const label = isExcluded ? "Left out of the view. Show it to the model again" : "Leave this out of the view";
  return el(
    "button",
    {
      type: "button",
      class: `quiet icon-button${isExcluded ? " is-on" : ""}`,
      "aria-pressed": String(isExcluded),
      "aria-label": label,
      title: label,
      on: { click: () => actions.exclude(seq, !isExcluded) },
    },
    icon("hide"),
  );
}
