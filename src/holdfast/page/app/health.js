/** Health page: active and queued sessions, lease holders, learned limits, recent faults, doctor checks. */

import { get, send } from "./api.js";
import { attempt, confirmed, sentenceOf } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { ago, count, counted, lasting, moment } from "./format.js";
import { learned } from "./home.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";
import { toSession } from "./router.js";

/** Milliseconds between two polls while the page is visible. */
const POLL_MS = 5_000;
export class HealthView {
  constructor() {
    this._stop = new AbortController();
    this._body = el("div", { class: "page-wide" });
    this._status = el("p", { class: "faint", role: "status", "aria-live": "polite" });
    this._check = el(
      "button",
      { type: "button", class: "button", on: { click: () => this._runDoctor() } },
      "Run the doctor",
    );
    this.node = el(
      "section",
      { class: "page", "aria-label": "Nodes and health" },
      el(
        "div",
        { class: "page-wide" },
        el(
          "header",
          { class: "page-head" },
          el("a", { class: "quiet icon-button only-narrow", href: "#/", "aria-label": "All sessions" }, icon("back")),
          el("h1", { tabindex: "-1" }, "Nodes and health"),
          this._status,
          this._check,
        ),
        this._body,
      ),
    );
    this._timer = setInterval(() => this._poll(), POLL_MS);
    this._poll();
  }

  close() {
    this._stop.abort();
    clearInterval(this._timer);
  }

  async _poll() {
    if (document.hidden) return;
    try {
      const health = await get("/api/health", {}, this._stop.signal);
      // Only the operator may see them.
      const models = health.is_operator ? (await get("/api/models", {}, this._stop.signal)).models : null;
      this._show(health, models);
    } catch (error) {
      if (!this._stop.signal.aborted) this._status.textContent = sentenceOf(error);
    }
  }

  async _runDoctor() {
    this._check.disabled = true;
    this._status.textContent = "The doctor is checking the store…";
    try {
      await send("POST", "/api/health/check", {});
      this._status.textContent = "";
      await this._poll();
    } catch (error) {
      this._status.textContent = sentenceOf(error);
    }
    this._check.disabled = false;
  }

  /** @param {string} model */
  async _forget(model) {
    const sentence = `Everything that was learned about ${model} is dropped. The next calls learn it again.`;
    if (!(await confirmed("Forget learned limits", sentence, "Forget"))) return;
    await attempt(() => send("DELETE", `/api/models/${encodeURIComponent(model)}`));
    await this._poll();
  }

  /** @param {any} health @param {any[] | null} models */
  _show(health, models) {
    this._check.hidden = !health.is_operator;
    if (health.is_checking) this._status.textContent = "The doctor is checking the store…";
    // Redraw only on change, so that a reader is not disturbed.
    const now = JSON.stringify([health, models]);
    if (now === this._known) return;
    this._known = now;
    fill(
      this._body,
      figures(health),
      el(
        "div",
        { class: "cards" },
        queues(health),
        health.is_operator ? nodes(health.nodes) : null,
        health.is_operator ? doctor(health.check) : null,
        faults(health.faults),
      ),
      models ? learned(models, (model) => this._forget(model)) : null,
    );
  }
}

/** @param {string} title @param {...(Node | string | null)} children */
function card(title, ...children) {
  return el(
    "section",
    { class: "card", "aria-label": title },
    el("header", { class: "card-head" }, el("h2", {}, title)),
    children,
  );
}

/** @param {any} health */
function figures(health) {
  /** @type {[number, string][]} */
  const all = [
    [health.working.length, "sessions active here"],
    [health.owing_count, "sessions with pending work"],
    [health.requests, "requests in flight"],
    [health.streams, "open streams"],
    [health.faults.length, "recent faults"],
  ];
  return el(
    "section",
    { class: "card", "aria-label": "At a glance" },
    el(
      "div",
      { class: "figures" },
      all.map(([number, words]) => el("p", { class: "figure" }, el("b", {}, count(number)), el("span", {}, words))),
    ),
    el("p", { class: "faint" }, "Models: ", plain(health.models.join(", "))),
  );
}

/** @param {any} health */
function queues(health) {
  const links = (/** @type {string[]} */ keys) => el(
    "ul",
    { class: "links" },
    keys.map((key) => el("li", {}, linked(key))),
  );
  const waiting = health.owing.filter((/** @type {string} */ key) => !health.working.includes(key));
  return card(
    "Queues",
    el("h3", {}, "Active"),
    health.working.length ? links(health.working) : el("p", { class: "faint" }, "No session is working."),
    el("h3", {}, "Queued"),
    waiting.length ? links(waiting) : el("p", { class: "faint" }, "No session waits for a process."),
  );
}

/**
 * The operator sees store keys; sessions of other tenants cannot be opened here.
 * @param {string} key
 * @param {number} [turn]
 */
function linked(key, turn) {
  if (key.startsWith("@")) return el("span", {}, plain(key));
  return el("a", { href: turn ? toSession(key, "timeline", turn) : toSession(key) }, plain(key));
}

/** @param {any[] | null} all */
function nodes(all) {
  if (!all) return card("Nodes", el("p", { class: "faint" }, "A store in memory has no other nodes."));
  if (!all.length) return card("Nodes", el("p", { class: "faint" }, "No process holds a session right now."));
  return card(
    "Nodes",
    table(
      ["Lease holder", "State", "Sessions"],
      all.map(
        (node) => [
          plain(node.owner),
          el("span", { class: `badge ${node.is_alive ? "is-on" : "is-high"}` }, node.is_alive ? "alive" : "gone"),
          count(node.sessions),
        ]
      ),
    ),
  );
}

/** @param {any} found */
function doctor(found) {
  if (!found) return card("Doctor", el("p", { class: "faint" }, "Not run since this gateway started."));
  const isWell = !found.findings.length;
  return card(
    "Doctor",
    el(
      "p",
      {},
      el(
        "span",
        { class: `badge ${isWell ? "is-on" : "is-high"}` },
        isWell ? "healthy" : counted(found.findings.length + found.more, "finding"),
      ),
    ),
    el(
      "p",
      { class: "faint", title: moment(found.at) },
      `Checked ${counted(found.sessions, "session")} ${ago(found.at)}, in ${lasting(found.seconds)}.`,
    ),
    isWell ? null : el(
      "ul",
      { class: "findings" },
      found.findings.map((/** @type {any} */ one) => el("li", { dir: "auto" }, plain(findingInWords(one)))),
    ),
    found.more ? el("p", { class: "faint" }, `And ${count(found.more)} more: run \`holdfast doctor\`.`) : null,
    found.notes.length ? el(
      "ul",
      { class: "findings faint" },
      found.notes.map((/** @type {string} */ note) => el("li", {}, plain(note))),
    ) : null,
  );
}

/** @param {any} finding */
function findingInWords({ session, seq, what, remedy }) {
  const where = session ? `${session}${seq ? `, record ${count(seq)}` : ""}: ` : "";
  return `${where}${what}${remedy ? ` With --fix: ${remedy}` : ""}`;
}

/** @param {any[]} all */
function faults(all) {
  if (!all.length) return card(
    "Recent faults",
    el("p", { class: "faint" }, "No provider has failed since this gateway started."),
  );
  return card(
    "Recent faults",
    table(
      ["Time", "Session", "Fault"],
      all.slice(0, 50).map(
        (one) => [
          el("time", { title: moment(one.at) }, ago(one.at)),
          linked(one.session, one.turn),
          `${one.words}${one.status ? ` (${one.status})` : ""}`,
        ]
      ),
      2,
    ),
  );
}

/** @param {string[]} heads @param {any[][]} rows @param {number} [words] the column that holds sentences */
function table(heads, rows, words = -1) {
  return el(
    "div",
    { class: "table-scroll" },
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          heads.map((head, place) => el("th", { scope: "col", class: place === words ? "is-words" : null }, head)),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map(
          (row) => el(
            "tr",
            {},
            row.map(
              (cell, place) => (
                place ? el(
                  "td",
                  { class: place === words ? "is-words" : null },
                  cell,
                ) : el("th", { scope: "row" }, cell)
              )
            ),
          )
        ),
      ),
    ),
  );
}
