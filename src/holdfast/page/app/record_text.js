/** Descriptions of records. The sentences are those of `record_text.py`, which the command line uses; a test compares them. */

import { bytes, count, counted } from "./format.js";
import { FAULTS, RESULTS, RUNGS, TOOL_OUTCOMES, TRIGGERS } from "./tables.js";

/** @typedef {{ seq: number, at: number, record: any }} Logged */

/** @param {any} payload */
function payloadBytes(payload) {
  if (payload.blob) return payload.blob.size_bytes;
  return payload.content ? atob(payload.content).length : new TextEncoder().encode(payload.text ?? "").length;
}

/** @type {Record<string, (record: any) => string>} */
const SENTENCES = {
  InputAdmitted: (r) => `you: ${inWords(r.parts)}`,
  MessageAppended: (r) => `appended, ${r.role}: ${inWords(r.parts)}`,
  PayloadStored: (r) => `payload ${r.payload.tag} stored: ${count(payloadBytes(r.payload))} bytes`,
  MessagesRetracted: (r) => `messages after record ${r.after} are ${r.is_branch
    ? "edited or answered again: they become a branch of their own"
    : "retracted: they leave the view, and the log keeps them"}`,
  BranchSwitched: (r) => `the conversation continues from record ${r.after}, the end of another branch`,
  SessionLinked: (r) => `the tool ${r.tool} runs the session ${r.session}`,
  SessionLabelled: (r) => {
    const title = r.title ? `title "${r.title}"` : "no title of its own";
    const tags = r.tags?.length ? `, tags ${r.tags.join(", ")}` : "";
    return `labels: ${title}${tags}${Object.entries(r.metadata ?? {}).map(([name, value]) => `, ${name}=${value}`).join("")}`;
  },
  ReplyRecorded: (r) => `answer: ${inWords(r.reply.parts)}`,
  NoticePosted: (r) => `notice: ${r.sentence}`,
  WindowWarned: (r) => `notice: ${r.sentence}`,
  TurnStarted: (r) => `turn ${r.turn} starts`,
  TurnEnded: (r) => {
    if (r.outcome === "answered") return `turn ${r.turn} ends: answered${paidFor(r.cost_usd)}`;
    return `turn ${r.turn} ends: ${r.outcome} (${r.code ?? ""}). ${r.sentence ?? ""}`;
  },
  AttemptStarted: (r) => `attempt ${r.attempt}: asking ${r.model}, about ${count(r.tokens_estimated ?? 0)} tokens`,
  AttemptFailed: (r) => {
    const status = r.refusal.status == null ? "" : ` (status ${r.refusal.status})`;
    const said = r.fault.said ? `: "${r.fault.said}"` : "";
    return `attempt ${r.attempt} failed: ${FAULTS[r.fault.kind]}${status}${said}`;
  },
  AttemptAbandoned: (r) => `attempt ${r.attempt} was abandoned: ${ABANDONED[r.reason] ?? r.reason}`,
  ToolStarted: (r) =>
    r.reply ? `a client is to run tool ${r.name} (intent of ${r.call_id})` : `tool ${r.name} is about to run (intent of ${r.call_id})`,
  ToolInterrupted: (r) => `the process stopped while ${r.call_id} ran; it may run again`,
  ToolSettled: (r) => `tool result, ${toolOutcome(r.result)} (receipt of ${r.result.call_id}): ${inWords(r.result.parts)}`,
  OutputRefused: () => "the answer is not of the requested type; the model is shown why",
  ApprovalRequested: (r) => `tool ${r.name} waits for an approval: ${excerpt(r.arguments)}`,
  ApprovalAnswered: (r) => `the call of request ${r.request} is ${r.is_approved ? "approved" : "denied"}${r.note ? `: ${excerpt(r.note)}` : ""}`,
  RungStarted: (r) => {
    const waits = r.rung === "back_off" ? ` ${(r.seconds ?? 0).toFixed(1)} s` : "";
    return `${r.kind == null ? "a compaction was requested" : FAULTS[r.kind]}; ${RUNGS[r.rung]}${waits}`;
  },
  RungFinished: (r) => `${RUNGS[r.rung]}: ${RESULTS[r.result]}`,
  CompactionApplied: (r) =>
    `compaction: a ${r.kind ?? "digest"} replaces everything before message ${r.boundary}; ` +
    `${count(r.tokens_before)} tokens became ${count(r.tokens_after)}${paidAndSaved(r)}`,
  GenerationStarted: (r) =>
    `generation ${r.generation ?? 2} starts: of all before, the view has only message ${r.boundary} and a digest; ` +
    `${count(r.tokens_before)} tokens became ${count(r.tokens_after)}`,
  SummaryRefused: (r) =>
    `the summary by ${r.model}${r.is_riding ? ", requested with the cached conversation," : ""} is rejected: ${r.why}`,
  PieceSummarised: (r) =>
    `${r.model} ${r.is_merged || r.level ? "merged its summaries of" : "summarised"} everything up to record ${r.until}${paidFor(r.cost_usd)}` +
    (r.is_riding ? ", with the cached conversation" : ""),
  ReasoningDropped: (r) => `the model's reasoning before record ${r.before} is no longer sent`,
  ParameterDropped: (r) => `the parameter ${r.parameter} is left out or renamed: the model refuses it`,
  EffortChanged: (r) => `reasoning effort is ${r.effort ?? "the default"} from here on`,
  OutputClamped: (r) => `the answer is limited to ${count(r.output_tokens_max)} tokens`,
  OutputMasked: (r) => `tool output before record ${r.before} is masked, one line each`,
  PartReplaced: (r) => `a part of record ${r.seq} is replaced by '${excerpt(partInWords(r.shown))}': ${r.why}`,
  DamageSetAside: (r) => `this record is damaged: ${r.why}${r.kept ? ` (its bytes are kept as ${r.kept})` : ""}`,
  AnswerLinked: (r) => `link to an answer that its client can continue from: message ${r.count} of ${r.session}`,
  ClientCompacted: () => "a client compacted its own history",
  ClientResumed: (r) => `a client continued after its own compaction, with a request of ${count(r.wire_bytes)} bytes`,
  UsageRecorded: (r) => {
    const { requests = 0, limited = 0, input_tokens: read = 0, output_tokens: wrote = 0, usd = 0 } = r.totals;
    const rejected = limited ? `, ${count(limited)} rejected by a limit` : "";
    return `usage of ${r.model || "no model"}: ${count(requests)} requests${rejected}, ${count(read + wrote)} tokens, $${usd.toFixed(4)}`;
  },
  UsageTotalled: (r) => `usage up to record ${count(r.until)} totalled`,
  SegmentSealed: (r) => `records ${r.first} to ${r.last} moved into the archive: ${count(r.size)} bytes`,
  SessionConfigured: (r) => {
    const system = r.system == null ? "no system text of its own" : `a system text of ${count(r.system.length)} characters`;
    const tools = r.tools?.length ? `, tools run by a client: ${r.tools.map((/** @type {any} */ one) => one.name).join(", ")}` : "";
    const own = r.tool_names == null ? "" : `, tools of the process: ${r.tool_names.join(", ") || "none"}`;
    const settings = r.settings == null ? "" : `, ${JSON.stringify(r.settings)}`;
    return `settings: model ${r.model || "of the process"}, ${system}${tools}${own}${settings}`;
  },
  CancelRequested: (r) => `cancel of turn ${r.turn} requested`,
  CompactionRequested: (r) => `compaction requested (${TRIGGERS[r.trigger ?? "person"]})${r.focus ? `, keeping: ${r.focus}` : ""}`,
  CompactionUndone: (r) => {
    const start = r.restored ? `message ${r.restored.boundary}` : "the beginning";
    return `the compaction in record ${r.undone} was undone; the view starts at ${start} again`;
  },
  CompactionSettled: (r) =>
    `compaction requested in record ${r.request}: ${r.outcome.replaceAll("_", " ")}${r.why ? ` (${r.why})` : ""}`,
  MessageExcluded: (r) => {
    const what = r.place === undefined || r.place === null ? `record ${r.excluded}` : `part ${r.place + 1} of record ${r.excluded}`;
    return r.is_excluded === false ? `${what} is shown again` : `${what} is left out: ${r.why || "by request"}`;
  },
  MessagePinned: (r) => `message ${r.pinned} is ${r.is_pinned === false ? "no longer pinned" : "pinned"}`,
  ResultSubmitted: (r) => `a client submits the result of ${r.result.call_id}: ${inWords(r.result.parts)}`,
  LimitsLearned: (r) => `limits of ${r.issuer} ${Object.keys(r.learned).length ? "learned from calls" : "forgotten"}`,
};

/** Characters of a replacement part in a sentence, as long as a line of a terminal. */
const EXCERPT_CHARS = 100;

/** Reasons for an abandoned attempt. @type {Record<string, string>} */
const ABANDONED = {
  interrupted: "the process stopped",
  cancelled: "it was cancelled",
  store_full: "the disk was full",
};

/** Format an amount of money, as short as possible without rounding it to zero. @param {number} usd */
function money(usd) {
  if (usd >= 1 || usd === 0) return `$${usd.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return usd >= 0.0001 ? `$${usd.toFixed(4)}` : "less than $0.0001";
}

/** @param {number | null | undefined} usd null or undefined if no price is known */
const paidFor = (usd) => (usd == null ? "" : `, for ${money(usd)}`);

/** Cost and savings of a compaction: fewer tokens are not always cheaper. @param {any} record */
function paidAndSaved({ cost_usd: cost, saves_usd: saves }) {
  if (cost == null) return "";
  return `${paidFor(cost)}${saves == null ? "" : `; each further request costs about ${money(saves)} less`}`;
}

/** Return the description of a record. @param {any} record */
export function spoken(record) {
  const sentence = SENTENCES[record.type];
  return sentence ? sentence(record) : `${record.type}: unknown record type; reload the page`;
}

/** @param {any} result */
export function toolOutcome(result) {
  return TOOL_OUTCOMES[result.outcome ?? "done"];
}

/** @param {string} kind */
export const faultInWords = (kind) => FAULTS[kind] ?? kind;
/** @param {string} rung */
export const rungInWords = (rung) => RUNGS[rung] ?? rung;

/** @param {any[]} parts @returns {string} */
export function inWords(parts) {
  return parts.map(partInWords).join("\n") || "(nothing)";
}

/** The beginning of a text, on one line. @param {string} text */
function excerpt(text) {
  const characters = [...text.trim().split(/\s+/).join(" ")];
  return characters.length <= EXCERPT_CHARS ? characters.join("") : `${characters.slice(0, EXCERPT_CHARS).join("")}…`;
}

/** @param {any} part @returns {string} */
function partInWords(part) {
  switch (part.type) {
    case "text":
      return part.text;
    case "large_text":
      return `${part.head}…\n[text ${part.name || part.blob.sha256.slice(0, 12)}, ${count(part.blob.size_bytes)} bytes in all]`;
    case "media":
      return `[${part.media_type} ${part.name || part.blob.sha256.slice(0, 12)}, ${count(part.blob.size_bytes)} bytes]`;
    case "tool_call":
      return `[calls ${part.name} ${part.arguments}]`;
    case "tool_result":
      return `[result, ${toolOutcome(part)}: ${inWords(part.parts)}]`;
    case "reasoning":
      return `[thinks: ${part.text || "hidden"}]`;
    default:
      return `[${part.type}]`;
  }
}

/** Describe an attachment. @param {any} part */
export function mediaInWords(part) {
  const name = part.name || (part.type === "media" ? part.media_type : "text");
  const pixels = part.width_pixels ? `, ${count(part.width_pixels)} × ${count(part.height_pixels)} pixels` : "";
  return `${name}, ${bytes(part.blob.size_bytes)}${pixels}`;
}

/** Describe the activity of a session. @param {any} detail of the session */
export function stateInWords(detail) {
  const queued = detail.waiting?.length ? `; ${counted(detail.waiting.length, "message")} queued` : "";
  const doing = {
    rest: detail.unanswered ? "about to continue" : "idle",
    ready: detail.approvals?.length ? "waiting for an approval" : "choosing the next step",
    model: "the model is answering",
    tools: detail.calls?.length ? "waiting for a client's tool" : "tools are running",
    rung: "recovering or compacting",
    waiting: "queued",
    working: "working",
  }[/** @type {string} */ (detail.in_flight)];
  return `${doing ?? detail.in_flight}${queued}`;
}
