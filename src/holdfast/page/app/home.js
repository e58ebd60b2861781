/** Home: sessions, messages, tokens and cost over time, rescues by cause, faults by model, learned limits, storage. */

import { get, send } from "./api.js";
import { barChart } from "./bars.js";
import { attempt, confirmed, sentenceOf } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { ago, bytes, count, counted, moment, money, short } from "./format.js";
import { icon } from "./icons.js";
import { importSession } from "./files.js";
import { newSession } from "./new_session.js";
import { plain } from "./plain.js";
import { toSession } from "./router.js";
import { middle } from "./session_row.js";
import { bones } from "./skeleton.js";

/** Milliseconds between two polls while the page is visible. */
const POLL_MS = 15_000;
const DAYS = 31;
/** Sessions listed as active. */
const ACTIVE_MAX = 8;

/** @type {Record<string, string>} */
const PARTS = { records: "Records", blobs: "Attachments and large texts", archive: "Archive", other: "Keys, locks and other files" };

export class HomeView {
  /** @param {import("./sessions_model.js").SessionsModel} sessions */
  constructor(sessions) {
    this._sessions = sessions;
    this._stop = new AbortController();
    this._active = el("div", {});
    this._body = el("div", { class: "home-body" }, bones("Loading the overview…", 12));
    this._status = el("p", { class: "faint", role: "status", "aria-live": "polite" });
    this.node = el(
      "section",
      { class: "page", "aria-label": "Overview" },
      el(
        "div",
        { class: "page-wide" },
        el(
          "header",
          { class: "page-head" },
          el("a", { class: "quiet icon-button only-narrow", href: "#/", "aria-label": "All sessions" }, icon("back")),
          el("h1", { tabindex: "-1" }, "Overview"),
          this._status,
          el(
            "span",
            { class: "page-buttons" },
            el("button", { type: "button", class: "button", on: { click: () => importSession() } }, icon("upload"), "Import"),
            el("button", { type: "button", class: "button is-main", on: { click: () => newSession() } }, icon("plus"), "New session"),
          ),
        ),
        this._body,
      ),
    );
    this._timer = setInterval(() => this._poll(), POLL_MS);
    sessions.addEventListener("change", () => this._showActive(), { signal: this._stop.signal });
    this._poll();
  }

  close() {
    this._stop.abort();
    clearInterval(this._timer);
  }

  async _poll() {
    if (document.hidden) return;
    const { signal } = this._stop;
    try {
      const [overview, usage, models] = await Promise.all([
        get("/api/overview", {}, signal),
        get("/api/usage", { periods: DAYS }, signal),
        // Only the operator may see them.
        get("/api/models", {}, signal).then((found) => found.models, () => null),
      ]);
      this._status.textContent = "";
      const now = JSON.stringify([overview, usage, models]);
      if (now === this._known) return;
      this._known = now;
      this._show(overview, usage, models);
    } catch (error) {
      if (!signal.aborted) this._status.textContent = sentenceOf(error);
    }
  }

  /** @param {any} overview @param {any} usage @param {any[] | null} models */
  _show(overview, usage, models) {
    const days = daysOf(usage.rows);
    const today = days.at(-1);
    fill(
      this._body,
      figures(overview, today),
      el(
        "div",
        { class: "cards" },
        card("Tokens by day", totals(days, ["input", "output"]), barChart(days, [{ name: "read", of: (day) => day.input, tone: "accent" }, { name: "written", of: (day) => day.output, tone: "amber" }], short)),
        card("Cost by day", money(days.reduce((sum, day) => sum + day.usd, 0)), barChart(days, [{ name: "US dollars", of: (day) => day.usd, tone: "accent" }], exactMoney)),
        savings(days),
        card("Messages by day", counted(days.reduce((sum, day) => sum + day.requests, 0), "request"), barChart(days, [{ name: "requests", of: (day) => day.requests, tone: "accent" }], count)),
        card("Active sessions", `${count(overview.pending)} with pending work`, this._active),
        card("Rescues by cause", since(overview), tally(overview.rescues, "No turn needed a rescue.")),
        card("Faults by model", since(overview), tally(overview.faults, "No provider has failed.")),
        overview.storage ? card("Storage", bytes(overview.storage.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.size_bytes, 0)), storage(overview.storage)) : null,
        models ? learned(models, (model) => this._forget(model)) : null,
      ),
    );
    this._showActive();
  }

  _showActive() {
    const active = this._sessions.newest().filter((one) => one.state !== undefined && one.state !== "rest").slice(0, ACTIVE_MAX);
    const shown = active.length ? active : this._sessions.newest().slice(0, ACTIVE_MAX / 2);
    if (!this._sessions.isKnown) return;
    fill(
      this._active,
      active.length || !shown.length ? null : el("p", { class: "faint" }, "All sessions are idle. Last used:"),
      shown.length
        ? el("ul", { class: "active" }, shown.map((one) => el(
          "li",
          {},
          el(
            "a",
            { href: toSession(one.key) },
            el("span", { class: "active-title", dir: "auto" }, plain(one.title || one.key)),
            middle(one.key, "active-key"),
            el("span", { class: active.length ? "rail-says" : "faint" }, active.length ? one.says : ago(one.updated_at)),
          ),
        )))
        : el("p", { class: "faint" }, "No sessions yet. Start one, import one, or point an agent at this gateway."),
    );
  }

  /** @param {string} model */
  async _forget(model) {
    const sentence = `Everything that was learned about ${model} is dropped. The next calls learn it again.`;
    if (!(await confirmed("Forget learned limits", sentence, "Forget"))) return;
    await attempt(() => send("DELETE", `/api/models/${encodeURIComponent(model)}`));
    await this._poll();
  }
}

/** @param {string} title @param {string | null} aside @param {...(Node | null)} children */
function card(title, aside, ...children) {
  return el(
    "section",
    { class: "card", "aria-label": title },
    el("header", { class: "card-head" }, el("h2", {}, title), aside ? el("span", { class: "faint" }, aside) : null),
    children,
  );
}

/** @param {any} overview @param {any} today */
function figures(overview, today) {
  const turns = overview.answered + overview.failed + overview.cancelled;
  const rescued = overview.rescues.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.count, 0);
  /** @type {[string, string][]} */
  const all = [
    [count(overview.sessions), "sessions"],
    [count(overview.used_today), "used in a day"],
    [count(overview.working), "working now"],
    [count(today?.requests ?? 0), "requests today"],
    [short((today?.input ?? 0) + (today?.output ?? 0)), "tokens today"],
    [money(today?.usd ?? 0), "cost today"],
    [turns ? `${count(overview.answered)} / ${count(turns)}` : "–", "turns answered"],
    [count(rescued), "turns rescued"],
  ];
  return el(
    "section",
    { class: "card", "aria-label": "At a glance" },
    el("div", { class: "figures is-eight" }, all.map(([said, words]) => el("p", { class: "figure" }, el("b", {}, said), el("span", {}, words)))),
  );
}

/** An axis needs more digits than a sum. @param {number} usd */
const exactMoney = (usd) => (usd > 0 && usd < 1 ? `$${usd.toFixed(3)}` : money(usd));

/** @param {any} overview */
const since = (overview) => `since ${moment(overview.since)}`;

/** @param {any[]} days @param {string[]} names */
const totals = (days, names) => `${short(days.reduce((sum, day) => sum + names.reduce((all, name) => all + day[name], 0), 0))} tokens`;

const NO_USAGE = { input: 0, output: 0, usd: 0, requests: 0, saved: 0, rescues: 0, changed: 0, refused: 0 };

/** Cost with and without the changes of the proxy; null if it changed no request. @param {any[]} days */
function savings(days) {
  const sum = (/** @type {string} */ name) => days.reduce((all, day) => all + day[name], 0);
  const [saved, rescues] = [sum("saved"), sum("rescues")];
  if (!sum("changed") && !saved) return null;
  const signed = (/** @type {number} */ usd) => (usd < 0 ? `−${exactMoney(-usd)}` : exactMoney(usd));
  /** @type {[string, string][]} */
  const facts = [
    ["Cost with changes", exactMoney(sum("usd"))],
    ["Cost without, estimated", exactMoney(sum("usd") + saved)],
    ["Saved", signed(saved)],
    ["Requests changed", count(sum("changed"))],
    ["Rejected without Holdfast", count(sum("refused"))],
    ["Cost of those and of summaries", exactMoney(rescues)],
  ];
  return card(
    "Savings",
    `${signed(saved)} in ${DAYS} days`,
    el("dl", { class: "facts" }, facts.map(([name, said]) => el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, said)))),
  );
}

/** Usage by day, oldest first, with days without any. @param {any[]} rows */
function daysOf(rows) {
  const found = new Map();
  for (const { period, totals: one } of rows) {
    // Usage of long ago is by month.
    if (period.length !== 10) continue;
    const day = found.get(period) ?? { ...NO_USAGE };
    day.input += one.input_tokens ?? 0;
    day.output += one.output_tokens ?? 0;
    day.usd += one.usd ?? 0;
    day.requests += one.requests ?? 0;
    day.saved += one.saved?.usd ?? 0;
    day.rescues += one.saved?.rescue_usd ?? 0;
    day.changed += one.saved?.changed ?? 0;
    day.refused += one.saved?.refused ?? 0;
    found.set(period, day);
  }
  const today = Date.now();
  return Array.from({ length: DAYS }, (_, place) => {
    const name = new Date(today - (DAYS - 1 - place) * 86_400_000).toISOString().slice(0, 10);
    return { name, ...(found.get(name) ?? NO_USAGE) };
  });
}

/** @param {any[]} counts @param {string} none */
function tally(counts, none) {
  if (!counts.length) return el("p", { class: "faint" }, none);
  const most = Math.max(...counts.map((one) => one.count));
  return el(
    "ul",
    { class: "tally" },
    counts.slice(0, 10).map((one) => {
      const bar = el("span", { class: "tally-bar", "aria-hidden": "true" });
      bar.style.inlineSize = `${(one.count / most) * 100}%`;
      return el(
        "li",
        {},
        el("span", {}, one.model ? [el("b", {}, plain(one.model)), " "] : null, plain(one.words)),
        el("b", {}, count(one.count)),
        bar,
      );
    }),
  );
}

/** @param {any[]} parts */
function storage(parts) {
  return el(
    "dl",
    { class: "facts" },
    parts.map((one) => el("div", { class: "fact" }, el("dt", {}, PARTS[one.name] ?? one.name), el("dd", {}, `${bytes(one.size_bytes)} in ${counted(one.files, "file")}`))),
  );
}

/** @param {any[]} models @param {(model: string) => void} forget */
export function learned(models, forget) {
  if (!models.length) return card("Learned limits", null, el("p", { class: "faint" }, "No limits learned from calls yet."));
  return card(
    "Learned limits",
    null,
    el("ul", { class: "learned" }, models.map((one) => el(
      "li",
      {},
      el("b", {}, plain(one.model)),
      el(
        "ul",
        { class: "claims" },
        one.claims.length ? one.claims.map((/** @type {any} */ claim) => el("li", {}, plain(claim.words))) : el("li", { class: "faint" }, "no limits claimed"),
        one.accepted_tokens ? el("li", { class: "faint" }, `largest accepted request: ${short(one.accepted_tokens)} tokens`) : null,
      ),
      el("button", { type: "button", class: "button", "aria-label": `Forget ${one.model}`, on: { click: () => forget(one.model) } }, "Forget"),
    ))),
  );
}
