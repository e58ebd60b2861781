/** Waterfall of a turn: queue time, attempts, backoffs, rungs and tools on one time axis, with tokens and cost. */

import { at, get } from "./api.js";
import { sentenceOf } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { count, counted, moment, money, short, took } from "./format.js";
import { plain } from "./plain.js";
import { faultInWords, rungInWords, spoken, toolOutcome } from "./record_text.js";
import { toSession } from "./router.js";
import { bones } from "./skeleton.js";

const PAGE = 500;
/** Records of a turn that are read; a longer turn is shown up to here. */
const RECORDS_MAX = 5_000;
const QUEUED = "queued";

/**
 * @typedef {object} Fall
 * @property {number} seq
 * @property {"attempt" | "wait" | "rung" | "tool"} kind
 * @property {string} name
 * @property {string} [about]
 * @property {number} from
 * @property {number} to 0: not ended
 * @property {boolean} [isFailed]
 * @property {string} [said]
 * @property {any} [usage]
 * @property {number | null} [usd]
 */

export class TurnTab {
  /** @param {import("./session_model.js").SessionModel} model @param {number} turn */
  constructor(model, turn) {
    this._model = model;
    this._turn = turn;
    this._stop = new AbortController();
    this._body = el("div", { class: "page-wide" }, bones("Loading the turn…"));
    this.node = el(
      "div",
      { class: "pane-scroll", tabindex: "0", role: "region", "aria-label": `Turn ${turn}` },
      this._body,
    );
    model.addEventListener("record", (event) => {
      if (/** @type {CustomEvent} */ (event).detail.record.turn === turn) this._read();
    }, { signal: this._stop.signal });
    this._read();
  }

  close() {
    this._stop.abort();
  }

  async _read() {
    try {
      const { records, isWhole } = await recordsOf(this._model.key, this._turn, this._stop.signal);
      this._draw(records, isWhole);
    } catch (error) {
      if (!this._stop.signal.aborted) fill(this._body, el("p", { class: "empty", role: "alert" }, sentenceOf(error)));
    }
  }

  /** @param {import("./record_text.js").Logged[]} records @param {boolean} isWhole */
  _draw(records, isWhole) {
    if (records[0]?.record.type !== "InputAdmitted" && records[0]?.record.type !== "MessageAppended") {
      fill(this._body, el("p", { class: "empty" }, `Record ${count(this._turn)} is not the message of a turn.`));
      return;
    }
    const falls = fallsOf(records);
    const first = records[0]?.at ?? 0;
    const ended = records.find(({ record }) => record.type === "TurnEnded");
    const last = Math.max(ended?.at ?? 0, ...falls.map((fall) => fall.to || Date.now() / 1_000), first + 0.001);
    fill(
      this._body,
      el(
        "section",
        { class: "card", "aria-label": "The turn at a glance" },
        el(
          "header",
          { class: "card-head" },
          el("h2", {}, `Turn ${count(this._turn)}`),
          el("span", { class: "faint", title: moment(first) }, `began ${moment(first)}`),
          el("a", { class: "button", href: toSession(this._model.key, "timeline", this._turn) }, "In the timeline"),
        ),
        figures(falls, ended?.record, last - first),
        ended && ended.record.outcome !== "answered" ? el("p", { class: "problem" }, plain(spoken(ended.record))) : null,
        isWhole ? null : el("p", { class: "faint" }, `The turn is long: its first ${counted(records.length, "record")} are shown.`),
      ),
      el(
        "section",
        { class: "card", "aria-label": "Waterfall" },
        el(
          "div",
          { class: "falls", role: "list" },
          el(
            "div",
            { class: "falls-head", "aria-hidden": "true" },
            el("span", {}),
            el("span", { class: "fall-axis" }, [0, 0.25, 0.5, 0.75, 1].map((share) => el("span", {}, took((last - first) * share)))),
            el("span", {}),
          ),
          falls.map((fall) => this._drawFall(fall, first, last)),
        ),
      ),
    );
  }

  /** @param {Fall} fall @param {number} first @param {number} last */
  _drawFall(fall, first, last) {
    const bar = el("span", { class: "fall-bar" });
    const to = fall.to || last;
    const share = (/** @type {number} */ time) => Math.max(0, Math.min(100, ((time - first) / (last - first)) * 100));
    bar.style.insetInlineStart = `${share(fall.from)}%`;
    bar.style.inlineSize = `${Math.max(0, share(to) - share(fall.from))}%`;
    const lasts = took(Math.max(0, to - fall.from));
    const said = [fall.said, fall.usage ? tokens(fall.usage) : null, fall.usd ? money(fall.usd) : null, fall.to ? lasts : `${lasts}, running`].filter(Boolean).join(" · ");
    const state = fall.isFailed ? " is-failed" : fall.to ? "" : " is-open";
    return el(
      "a",
      { class: `fall is-${fall.kind}${state}`, role: "listitem", href: toSession(this._model.key, "timeline", fall.seq), title: `${fall.name}: ${said}` },
      el("span", { class: "fall-name" }, plain(fall.name), fall.about ? [" ", el("small", {}, plain(fall.about))] : null),
      el("span", { class: "fall-lane", "aria-hidden": "true" }, bar),
      el("span", { class: "fall-said" }, plain(said)),
    );
  }
}

/** @param {any} usage */
function tokens({ input_tokens: read = 0, output_tokens: wrote = 0, cached_input_tokens: cached = 0 }) {
  return `${short(read)} in${cached ? ` (${short(cached)} cached)` : ""}, ${short(wrote)} out`;
}

/** @param {Fall[]} falls @param {any} ended @param {number} seconds */
function figures(falls, ended, seconds) {
  const of = (/** @type {string} */ kind) => falls.filter((fall) => fall.kind === kind);
  const usd = falls.reduce((sum, { usd: one }) => sum + (one ?? 0), 0);
  const sum = (/** @type {string} */ name) => falls.reduce((all, { usage }) => all + (usage?.[name] ?? 0), 0);
  /** @type {[string, string][]} */
  const all = [
    [ended ? { answered: "answered", failed: "failed", cancelled: "cancelled" }[/** @type {string} */ (ended.outcome)] ?? ended.outcome : "open", "outcome"],
    [took(seconds), "from the message to the end"],
    [count(of("attempt").length), "attempts"],
    [count(of("tool").length), "tool calls"],
    [count(falls.filter((fall) => fall.kind === "rung" || (fall.kind === "wait" && fall.name !== QUEUED)).length), "recovery steps"],
    [`${short(sum("input_tokens"))} / ${short(sum("output_tokens"))}`, "tokens in / out"],
    [usd ? money(usd) : "–", "cost"],
  ];
  return el("div", { class: "figures is-small" }, all.map(([said, words]) => el("p", { class: "figure" }, el("b", {}, said), el("span", {}, words))));
}

/** @param {string} key @param {number} turn @param {AbortSignal} signal */
async function recordsOf(key, turn, signal) {
  /** @type {import("./record_text.js").Logged[]} */
  const found = [];
  let after = turn - 1;
  for (let read = 0; read < RECORDS_MAX; read += PAGE) {
    const page = await get(at(key, "/records"), { after, limit: PAGE }, signal);
    for (const logged of page.records) {
      if (logged.seq === turn || logged.record.turn === turn) found.push(logged);
      if (logged.record.type === "TurnEnded" && logged.record.turn === turn) return { records: found, isWhole: true };
    }
    if (page.next === null) return { records: found, isWhole: true };
    after = page.next;
  }
  return { records: found, isWhole: false };
}

/** @param {import("./record_text.js").Logged[]} records of one turn @returns {Fall[]} */
export function fallsOf(records) {
  /** @type {Fall[]} */
  const falls = [];
  /** @type {Map<string, Fall>} */
  const open = new Map();
  const begin = (/** @type {string} */ id, /** @type {Fall} */ fall) => {
    falls.push(fall);
    open.set(id, fall);
  };
  const end = (/** @type {string} */ id, /** @type {number} */ to, /** @type {Partial<Fall>} */ more = {}) => {
    const fall = open.get(id);
    open.delete(id);
    if (fall) Object.assign(fall, { to, ...more });
  };
  for (const { seq, at: time, record } of records) {
    switch (record.type) {
      case "InputAdmitted":
        begin("queue", { seq, kind: "wait", name: QUEUED, from: time, to: 0 });
        break;
      case "TurnStarted":
        end("queue", time);
        break;
      case "AttemptStarted":
        begin(`attempt ${record.attempt}`, { seq, kind: "attempt", name: record.model, about: `attempt ${record.attempt}`, from: time, to: 0 });
        break;
      case "ReplyRecorded":
        end(`attempt ${record.attempt}`, time, { usage: record.reply.usage, usd: record.cost_usd });
        break;
      case "AttemptFailed":
        end(`attempt ${record.attempt}`, time, { isFailed: true, said: faultInWords(record.fault.kind), usage: record.usage, usd: record.cost_usd });
        break;
      case "AttemptAbandoned":
        end(`attempt ${record.attempt}`, time, { isFailed: true, said: "abandoned" });
        break;
      case "ApprovalRequested":
        begin(`approval ${seq}`, { seq, kind: "wait", name: "waiting for an approval", about: record.name, from: time, to: 0 });
        break;
      case "ApprovalAnswered":
        end(`approval ${record.request}`, time, { said: record.is_approved ? "approved" : "denied" });
        break;
      case "ToolStarted":
        begin(`tool ${record.call_id}`, { seq, kind: "tool", name: record.name, about: record.reply ? "by the client" : "", from: time, to: 0 });
        break;
      case "ToolSettled":
        end(`tool ${record.result.call_id}`, time, { isFailed: (record.result.outcome ?? "done") !== "done", said: toolOutcome(record.result) });
        break;
      case "ToolInterrupted":
        end(`tool ${record.call_id}`, time, { isFailed: true, said: "interrupted" });
        break;
      case "RungStarted":
        begin("rung", { seq, kind: record.rung === "back_off" ? "wait" : "rung", name: rungInWords(record.rung), about: record.kind ? faultInWords(record.kind) : "", from: time, to: 0 });
        break;
      case "RungFinished":
        end("rung", time);
        break;
      case "TurnEnded":
        for (const id of open.keys()) end(id, time);
        break;
      default:
        break;
    }
  }
  return falls.filter((fall) => fall.name !== QUEUED || fall.to === 0 || fall.to - fall.from > 0.01);
}
