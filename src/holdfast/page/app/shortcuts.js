/** Keyboard shortcuts, active outside of text fields. */

import { openDialog } from "./dialogs.js";
import { el } from "./dom.js";

/** @typedef {{ keys: string, words: string, act: () => void }} Shortcut */

/** Keys of lists and fields, for the help dialog. */
const IN_LISTS = [
  ["↑ ↓ Home End", "move through a list or the timeline"],
  ["Enter", "open the selected row; in the message box: send"],
  ["Shift Enter", "new line in the message box"],
  ["Esc", "leave a field or a dialog"],
];

/** @param {Shortcut[]} shortcuts */
export function listen(shortcuts) {
  const all = [...shortcuts, { keys: "?", words: "this list", act: () => help(all) }];
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (target.closest("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
    const found = all.find((one) => one.keys.split(" ").includes(event.key));
    if (!found) return;
    event.preventDefault();
    found.act();
  });
  return () => help(all);
}

/** @param {Shortcut[]} shortcuts */
function help(shortcuts) {
  const rows = [...shortcuts.map(({ keys, words }) => [keys, words]), ...IN_LISTS];
  return openDialog("Keyboard shortcuts", () => [
    el(
      "dl",
      { class: "keys" },
      rows.map(
        ([keys, words]) => el(
          "div",
          {},
          el("dt", {}, keys.split(" ").map((key) => el("kbd", {}, key))),
          el("dd", {}, words),
        )
      ),
    ),
  ]);
}
