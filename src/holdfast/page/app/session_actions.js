/** Actions on a session: compact with a preview, undo, cancel, other versions, fork, export, delete. */

import { request, at, send } from "./api.js";
import { answerAgain, showBranches } from "./branches.js";
import { askLine, attempt, confirmed, openDialog, sentenceOf, toast } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { save } from "./files.js";
import { count, counted, percent } from "./format.js";
import { icon } from "./icons.js";
import { editSession } from "./new_session.js";
import { folded } from "./prose.js";
import { go, toSession } from "./router.js";

/** @typedef {ReturnType<typeof sessionActions>} SessionActions */

/** @param {import("./session_model.js").SessionModel} model */
export function sessionActions(model) {
  const { key } = model;
  return {
    settings: () => attempt(() => editSession(model)),
    compact: () => compactDialog(model),
    undo: () => attempt(() => undo(model)),
    cancel: () =>
      attempt(async () => {
        await send("POST", at(key, "/cancel"), {});
        toast("Cancelling all open turns. Completed steps are not undone.");
      }),
    answerAgain: () => attempt(() => answerAgain(model)),
    branches: () => attempt(() => showBranches(model)),
    /** @param {number} [seq] the last record of the fork */
    fork: (seq) => forkDialog(model, seq),
    export: () => attempt(() => download(key)),
    remove: () => attempt(() => remove(model)),
  };
}

/** @param {SessionActions} actions */
export function sessionMenu(actions) {
  /** @type {[string, Parameters<typeof icon>[0], () => void, string][]} */
  const choices = [
    ["Compact…", "squeeze", actions.compact, "c"],
    ["Undo the compaction", "undo", actions.undo, "u"],
    ["Cancel open turns", "stop", actions.cancel, "x"],
    ["Settings…", "settings", actions.settings, "e"],
    ["Answer again", "again", actions.answerAgain, "r"],
    ["Branches…", "diff", actions.branches, "b"],
    ["Fork…", "fork", () => actions.fork(), ""],
    ["Export", "download", actions.export, ""],
    ["Delete…", "trash", actions.remove, ""],
  ];
  const menu = el("div", { class: "menu-list", role: "menu", popover: "auto", id: freshId("menu") });
  const button = el(
    "button",
    {
      type: "button",
      class: "button icon-button menu-button",
      "aria-label": "Actions",
      "aria-haspopup": "menu",
      "aria-expanded": "false",
      popovertarget: menu.id,
    },
    icon("more"),
  );
  for (const [words, picture, act, shortcut] of choices) {
    const run = () => {
      menu.hidePopover();
      act();
    };
    menu.append(
      el(
        "button",
        {
          type: "button",
          role: "menuitem",
          class: "menu-choice",
          "data-act": words,
          tabindex: "-1",
          on: { click: run },
        },
        icon(picture),
        words,
        shortcut ? el("kbd", {}, shortcut) : null,
      )
    );
  }
  menu.addEventListener("toggle", (/** @type {any} */ event) => {
    const isOpen = event.newState === "open";
    button.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen) return;
    const place = button.getBoundingClientRect();
    menu.style.insetBlockStart = `${place.bottom + 6}px`;
    menu.style.insetInlineEnd = `${document.documentElement.clientWidth - place.right}px`;
    menu.querySelector("button")?.focus();
  });
  menu.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...menu.querySelectorAll("button")];
    const here = all.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    all[(here + step + all.length) % all.length].focus();
  });
  return el("div", { class: "menu" }, button, menu);
}

/** @param {import("./session_model.js").SessionModel} model */
async function undo(model) {
  const compaction = model.detail?.compaction;
  if (!compaction) {
    toast("No compaction to undo.");
    return;
  }
  const { is_undone: isUndone } = await send("POST", at(model.key, "/undo"), { compaction });
  toast(isUndone ? "Undone: the earlier view is restored." : "No compaction to undo.");
}

/** @param {import("./session_model.js").SessionModel} model */
function compactDialog(model) {
  return openDialog(
    "Compact this session",
    (close) => {
      const id = freshId("focus");
      const focus = el(
        "textarea",
        {
          id,
          class: "field",
          rows: "2",
          maxlength: "4000",
          placeholder: "For instance: the decisions about the schema, and all file paths",
          autofocus: true,
        },
      );
      const shown = el("div", { class: "preview", "aria-live": "polite" });
      const look = el("button", { type: "button", class: "button" }, "Preview");
      const act = el("button", { type: "button", class: "button is-main" }, "Compact");
      look.addEventListener("click", () => preview(model, focus.value, shown, look));
      act.addEventListener("click", async () => {
        act.disabled = look.disabled = true;
        fill(shown, el("p", { class: "faint" }, "Started. You can close this dialog: the compaction continues."));
        try {
          const { outcome, why } = await send("POST", at(model.key, "/compact"), { focus: focus.value });
          toast(`Compaction: ${outcome.replaceAll("_", " ")}${why ? ` (${why})` : ""}.`);
          close();
        } catch (error) {
          fill(shown, el("p", { class: "problem", role: "alert" }, sentenceOf(error)));
          act.disabled = look.disabled = false;
        }
      });
      return [
        el(
          "p",
          {},
          "A summary will replace old messages in the view. Nothing is lost: the originals stay readable, and you can undo it.",
        ),
        el(
          "div",
          { class: "form" },
          el("label", { for: id }, "What should the summary keep in particular? (optional)"),
          focus,
        ),
        shown,
        el("footer", { class: "dialog-foot" }, look, act),
      ];
    },
    { wide: true },
  );
}

/**
 * @param {import("./session_model.js").SessionModel} model
 * @param {string} focus
 * @param {Element} shown
 * @param {HTMLButtonElement} button
 */
async function preview(model, focus, shown, button) {
  button.disabled = true;
  fill(shown, el("p", { class: "faint" }, "Loading…"));
  try {
    const { would } = await send("POST", at(model.key, "/compact/preview"), { focus });
    fill(
      shown,
      ...(would ? previewed(would) : [el("p", {}, "Nothing to compact: everything in the view must stay.")]),
    );
  } catch (error) {
    fill(shown, el("p", { class: "problem", role: "alert" }, sentenceOf(error)));
  }
  button.disabled = false;
}

/** @param {any} would */
function previewed(would) {
  const saved = would.tokens_before ? 1 - would.tokens_after / would.tokens_before : 0;
  return [
    el(
      "dl",
      { class: "facts" },
      fact(
        "Would leave the view",
        `${counted(would.messages, "message")} of ${counted(would.turns, "turn")}, records ${count(would.first_seq)} to ${count(would.last_seq)}`,
      ),
      fact(
        "Would stay verbatim",
        `${counted(would.messages_kept, "message")}${would.pins.length ? `, and ${counted(would.pins.length, "pinned one")}` : ""}`,
      ),
      fact(
        "Tokens",
        `${count(would.tokens_before)} would become ${count(would.tokens_after)} (${percent(saved)} less)`,
      ),
    ),
    el(
      "h3",
      {},
      would.summary ? `The summary, by ${would.model}` : "The digest, without a model",
    ),
    el("div", { class: "quoted" }, folded(would.summary || would.digest)),
  ];
}

/** @param {string} name @param {string} text */
export function fact(name, text) {
  return el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, text));
}

/** @param {import("./session_model.js").SessionModel} model @param {number} [seq] */
function forkDialog(model, seq) {
  const hint = seq ? `Copies the records up to ${count(seq)}, before the selected message.` : "Copies all records. Open turns are not continued in the fork.";
  return askLine("Fork this session", {
    label: "Key of the new session",
    hint,
    verb: "Fork",
    value: `${model.key}-fork`,
  }, async (into) => {
    const made = await send("POST", at(model.key, "/fork"), seq ? { into, at: seq } : { into });
    toast(`Created ${made.key} with ${counted(made.records, "record")}.`);
    go(toSession(made.key));
  });
}

/** @param {string} key */
async function download(key) {
  const response = await request(at(key, "/export"));
  save(await response.blob(), `${key}.jsonl`);
  toast("Exported the records and their blobs.");
}

/** @param {import("./session_model.js").SessionModel} model */
async function remove(model) {
  const sentence = `This deletes all ${counted(model.count, "record")} of ${model.key} and its attachments permanently. It cannot be undone; export the session first if you may need it.`;
  if (!(await confirmed("Delete this session?", sentence, "Delete permanently"))) return;
  await send("DELETE", at(model.key));
  toast(`${model.key} was deleted.`);
  go("#/");
}
