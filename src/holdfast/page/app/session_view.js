/** Session page: header with state and budgets, tabs, and the composer. */

import { sentenceOf } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { counted, money } from "./format.js";
import { budgetsOf, gauge } from "./gauge.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";
import { go, toSession } from "./router.js";
import { SessionModel } from "./session_model.js";
import { sessionMenu, sessionActions } from "./session_actions.js";
import { ApprovalsPanel } from "./approvals.js";
import { editMessage } from "./branches.js";
import { Composer } from "./composer.js";
import { Timeline } from "./timeline.js";
import { TurnTab } from "./turn.js";
import { ViewTab } from "./view.js";
import { BudgetsTab } from "./budgets.js";
import { NoticesTab } from "./notices.js";
import { CompactionTab } from "./compaction.js";
import { stateInWords } from "./record_text.js";
import { middle } from "./session_row.js";
import { bone } from "./skeleton.js";

/** @type {Record<string, string>} */
const TABS = { timeline: "Timeline", view: "Model view", budgets: "Budgets and costs", notices: "Notices" };
/** The part of a tab's name that a phone has no room for. */
const ONLY_WIDE = / and .*/;

/** Views that open from a tab, with the tab they belong to. @type {Map<string, string>} */
const DETAILS = new Map([["compaction", "view"], ["turn", "timeline"]]);

export class SessionView {
  /** @param {string} key @param {import("./sessions_model.js").SessionsModel} sessions */
  constructor(key, sessions) {
    this.key = key;
    this._sessions = sessions;
    this.model = new SessionModel(key);
    this.actions = sessionActions(this.model);
    this._stop = new AbortController();
    this._head = el("div", { class: "session-state" });
    this._gauges = el("div", { class: "gauges" });
    this._tabs = el("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the session" });
    this._panel = el("div", { class: "panel", role: "tabpanel", tabindex: "-1" });
    this._tools = el("div", { class: "tab-tools" });
    /** @type {{ node: Node, close: () => void, show?: (what: any) => void, tools?: Node } | null} */
    this._tab = null;
    this.approvals = new ApprovalsPanel(this.model);
    this.composer = new Composer(this.model, { onSent: () => this._sent() });
    this.node = el(
      "section",
      { class: "session", "aria-label": `Session ${key}` },
      el(
        "header",
        { class: "session-head" },
        el("a", { class: "quiet icon-button only-narrow", href: "#/", "aria-label": "All sessions" }, icon("back")),
        el("div", { class: "session-title" }, el("h1", { tabindex: "-1", "aria-label": key }, middle(key, "session-key")), this._head),
        this._gauges,
        sessionMenu(this.actions),
      ),
      el("div", { class: "tab-bar" }, this._tabs, this._tools),
      this._panel,
      this.approvals.node,
      this.composer.node,
    );
    for (const name of ["detail", "view", "state", "approvals"]) this.model.addEventListener(
      name,
      () => this._showHead(),
      { signal: this._stop.signal },
    );
    sessions.addEventListener("change", () => this._showHead(), { signal: this._stop.signal });
    this.model.addEventListener("gone", () => this._gone(), { signal: this._stop.signal });
    this.composer.takeFiles(this.node, this._stop.signal);
    this._showHead();
    this._open();
  }

  async _open() {
    try {
      await this.model.open();
    } catch (error) {
      if (this._stop.signal.aborted) return;
      this._isLost = true;
      fill(this._head);
      fill(this._gauges);
      fill(this._panel, el("p", { class: "empty", role: "alert" }, sentenceOf(error)));
    }
  }

  close() {
    this._stop.abort();
    this._tab?.close();
    this.approvals.close();
    this.model.close();
  }

  /** Show the tab of an address. @param {import("./router.js").Place} place */
  show(place) {
    const name = DETAILS.has(place.tab) || place.tab in TABS ? place.tab : "timeline";
    const isSame = this._shown === name && !DETAILS.has(name);
    this._shown = name;
    this.node.dataset.tab = name;
    this._showTabs(name);
    this._panel.setAttribute("aria-label", TABS[name] ?? (name === "turn" ? "Turn" : "Compaction"));
    if (!isSame) {
      this._tab?.close();
      this._tab = this._make(name, Number(place.rest));
      fill(this._panel, this._tab.node);
      fill(this._tools, this._tab.tools);
    }
    if (name === "view") this._tab?.show?.(place.rest);
    if (place.rest && name === "timeline") this._whenKnown(() => this._tab?.show?.(Number(place.rest)));
    this.composer.node.hidden = name !== "timeline";
  }

  /** @param {string} tab */
  goTo(tab) {
    go(toSession(this.key, tab));
  }

  /** @param {() => void} act */
  _whenKnown(act) {
    if (this.model.detail) act();
    else this.model.addEventListener("detail", act, { once: true, signal: this._stop.signal });
  }

  /** @param {string} name @param {number} seq */
  _make(name, seq) {
    if (name === "view") return new ViewTab(this.model, this.actions);
    if (name === "budgets") return new BudgetsTab(this.model);
    if (name === "notices") return new NoticesTab(this.model);
    if (name === "turn") return new TurnTab(this.model, seq);
    if (name === "compaction") return new CompactionTab(this.model, seq, this.actions);
    return new Timeline(this.model, {
      openCompaction: (at) => go(toSession(this.key, "compaction", at)),
      fork: (at) => this.actions.fork(at),
      edit: (at) => editMessage(this.model, at),
    });
  }

  /** @param {string} shown */
  _showTabs(shown) {
    const entries = Object.entries(TABS);
    fill(
      this._tabs,
      entries.map(([name, words]) =>
        el(
          "a",
          {
            class: "tab",
            role: "tab",
            href: toSession(this.key, name),
            "aria-selected": String(name === (DETAILS.get(shown) ?? shown)),
            tabindex: name === (DETAILS.get(shown) ?? shown) ? "0" : "-1",
          },
          words.replace(ONLY_WIDE, ""),
          el("span", { class: "only-wide" }, ONLY_WIDE.exec(words)?.[0] ?? ""),
        ),
      ),
    );
    this._tabs.onkeydown = (/** @type {KeyboardEvent} */ event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const names = Object.keys(TABS);
      const here = DETAILS.get(this._shown ?? "") ?? this._shown ?? "";
      const to = (names.indexOf(here) + step + names.length) % names.length;
      // An address change redraws the tabs; then the selected one gets the focus.
      this._isOnTabs = true;
      go(toSession(this.key, names[to]));
    };
    if (this._isOnTabs) this._tabs.querySelector('[aria-selected="true"]')?.focus();
    this._isOnTabs = false;
  }

  _showHead() {
    const { view } = this.model;
    // Until its state is read, the list of sessions knows most of it.
    const listed = this._sessions.get(this.key);
    const detail = this.model.detail ?? (listed ? { ...listed, in_flight: listed.state, waiting: [] } : null);
    if (!detail) {
      if (!this._isLost) fill(this._head, bone());
      return;
    }
    const isAway = this.model.state === "waiting" || this.model.state === "refused";
    fill(
      this._head,
      el("span", { class: `state state-${detail.in_flight}`, "data-state": detail.in_flight }, stateInWords({ ...detail, approvals: this.model.approvals })),
      el("span", { class: "faint" }, counted(detail.records, "record")),
      detail.model || listed?.model ? el("span", { class: "faint session-model", title: detail.model || listed.model }, plain(detail.model || listed.model)) : null,
      listed?.cost_usd ? el("span", { class: "faint" }, money(listed.cost_usd)) : null,
      isAway ? el("span", { class: "state is-away" }, "disconnected; reconnecting") : null,
    );
    if (view) fill(this._gauges, budgetsOf(view, listed?.gauge).map(gauge));
    else fill(this._gauges, bone(), bone(), bone());
    this.composer.show();
  }

  _sent() {
    if (this._tab instanceof Timeline) this._tab.list.scrollToEnd();
  }

  _gone() {
    this.composer.node.hidden = true;
    fill(
      this._panel,
      el("p", { class: "empty" }, "This session was deleted, or belongs to another key."),
    );
  }
}
