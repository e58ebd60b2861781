/** Entry point: the shell around the views, routing, keyboard shortcuts and the connection status. */

import { gatewayKey, get, onUnauthorized } from "./api.js";
import { askLine, toastPlace } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { importSession } from "./files.js";
import { HealthView } from "./health.js";
import { HomeView } from "./home.js";
import { icon } from "./icons.js";
import { newSession } from "./new_session.js";
import { Rail } from "./rail.js";
import { go, onPlace, place } from "./router.js";
import { SearchView } from "./search.js";
import { SessionView } from "./session_view.js";
import { SessionsModel } from "./sessions_model.js";
import { listen } from "./shortcuts.js";
import { themeSwitch } from "./theme.js";

/** @type {Record<import("./feed.js").FeedState, string>} */
const CONNECTION = {
  live: "Live",
  connecting: "Connecting…",
  waiting: "Gateway unreachable; reconnecting",
  hidden: "Paused",
  refused: "Access denied",
};

/** @type {Record<string, string>} */
const NAMES = { health: "Nodes and health", search: "Search", home: "Overview", overview: "Overview" };

class Shell {
  constructor() {
    this._sessions = new SessionsModel();
    this._rail = new Rail(this._sessions);
    this._main = el("main", { class: "main", id: "main", tabindex: "-1" });
    this._connection = el("p", { class: "connection", role: "status", "aria-live": "polite" });
    /**
     * @type {{ node: Node, close: () => void, show?: (place: import("./router.js").Place) => void, key?: string,
     * view?: string } | null}
     */
    this._view = null;
    this._isAsking = false;
    // The focus stays when the view changes; screen readers announce the new one.
    this._where = el("p", { class: "hidden", role: "status", "aria-live": "polite" });
    const help = listen(this._shortcuts());
    this.node = el(
      "div",
      { class: "shell" },
      el(
        "a",
        { class: "skip", href: "#main", on: { click: (/** @type {Event} */ event) => this._skip(event) } },
        "Skip to the session",
      ),
      el(
        "header",
        { class: "top" },
        el(
          "a",
          { class: "brand", href: "#/" },
          el("img", { src: "/icon.svg", alt: "", width: "26", height: "26" }),
          "Holdfast",
        ),
        this._connection,
        el(
          "nav",
          { class: "top-nav", "aria-label": "Page" },
          el(
            "a",
            { class: "quiet icon-button", href: "#/home", "aria-label": "Overview", title: "Overview (o)" },
            icon("home"),
          ),
          el(
            "a",
            {
              class: "quiet icon-button",
              href: "#/health",
              "aria-label": "Nodes and health",
              title: "Nodes and health (h)",
            },
            icon("health"),
          ),
          themeSwitch(),
          el(
            "button",
            {
              type: "button",
              class: "quiet icon-button",
              "aria-label": "Keyboard shortcuts",
              title: "Keyboard shortcuts (?)",
              on: { click: help },
            },
            icon("help"),
          ),
        ),
      ),
      this._rail.node,
      this._main,
      this._where,
      toastPlace(),
    );
    this._sessions.addEventListener("state", () => this._showConnection());
    onUnauthorized(() => this._askKey());
    onPlace(() => this._show());
  }

  open() {
    this._sessions.open();
    this._showConnection();
    this._show();
  }

  _shortcuts() {
    const session = () => (this._view instanceof SessionView ? this._view : null);
    return [
      { keys: "/", words: "search", act: () => this._rail.search.focus() },
      { keys: "j", words: "next session", act: () => this._rail.step(1) },
      { keys: "k", words: "previous session", act: () => this._rail.step(-1) },
      { keys: "n", words: "new session", act: () => newSession() },
      { keys: "i", words: "import a session", act: () => importSession() },
      { keys: "m", words: "write a message", act: () => session()?.composer.box.focus() },
      { keys: "1", words: "timeline", act: () => session()?.goTo("timeline") },
      { keys: "2", words: "model view", act: () => session()?.goTo("view") },
      { keys: "3", words: "budgets and costs", act: () => session()?.goTo("budgets") },
      { keys: "4", words: "notices", act: () => session()?.goTo("notices") },
      { keys: "c", words: "compact, with a preview", act: () => session()?.actions.compact() },
      { keys: "u", words: "undo the compaction", act: () => session()?.actions.undo() },
      { keys: "e", words: "model and system text", act: () => session()?.actions.settings() },
      { keys: "f", words: "filter and order the sessions", act: () => this._rail.filter.open() },
      { keys: "s", words: "the list of sessions: Space selects, t tags, Delete deletes", act: () => this._rail.focusList() },
      { keys: "a", words: "answer the oldest approval request", act: () => session()?.approvals.focus() },
      { keys: "r", words: "answer the newest message again", act: () => session()?.actions.answerAgain() },
      { keys: "b", words: "branches", act: () => session()?.actions.branches() },
      { keys: "x", words: "cancel open turns", act: () => session()?.actions.cancel() },
      { keys: "h", words: "nodes and health", act: () => go("#/health") },
      { keys: "o", words: "overview", act: () => go("#/home") },
      { keys: "g", words: "all sessions", act: () => go("#/") },
    ];
  }

  /** @param {Event} event */
  _skip(event) {
    event.preventDefault();
    this._main.focus();
  }

  _show() {
    const where = place();
    this.node.dataset.view = where.view;
    if (where.view === "session" && !(this._view instanceof SessionView && this._view.key === where.key)) {
      this._put(new SessionView(where.key, this._sessions));
    } else if (where.view === "health" && !(this._view instanceof HealthView)) {
      this._put(new HealthView());
    } else if (where.view === "search" && !(this._view instanceof SearchView)) {
      this._put(new SearchView(this._sessions));
    } else if ((where.view === "home" || where.view === "overview") && !(this._view instanceof HomeView)) {
      this._put(new HomeView(this._sessions));
    }
    this._view?.show?.(where);
    this._rail.mark(where.view === "session" ? where.key : "");
    this._where.textContent = where.key ? `Session ${where.key}` : (NAMES[where.view] ?? "");
    document.title = where.key ? `${where.key} · Holdfast` : "Holdfast";
  }

  /** @param {any} view */
  _put(view) {
    this._view?.close();
    this._view = view;
    fill(this._main, view?.node);
  }

  _showConnection() {
    const { state } = this._sessions;
    fill(this._connection, el("span", { class: `dot is-${state}` }), el("span", {}, CONNECTION[state]));
    this._connection.dataset.state = state;
  }

  /** Ask for a gateway key, once, and reconnect with it. */
  async _askKey() {
    if (this._isAsking) return;
    this._isAsking = true;
    const hint = "This gateway requires a key; its operator creates one with `holdfast keys add NAME`. This tab stores it until you close it.";
    await askLine("Enter a gateway key", {
      label: "Gateway key",
      hint,
      verb: "Continue",
      type: "password",
      closable: false,
    }, async (key) => {
      gatewayKey.set(key);
      await get("/api/sessions", { limit: 1 });
    });
    this._isAsking = false;
    this._sessions.again();
    this._put(null);
    this._show();
  }
}

const shell = new Shell();
document.getElementById("app")?.replaceChildren(shell.node);
shell.open();
