/** Files of whoever looks on: saved from the page, and chosen to be imported. */

import { ask, queryOf } from "./api.js";
import { openDialog, sentenceOf, toast, withCommands } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { counted } from "./format.js";
import { go, toSession } from "./router.js";

/** Milliseconds until the browser has surely taken a file that it was given. */
const TAKEN = 60_000;
const HINT = "As the menu of a session or `holdfast export` wrote it. Transcripts of other agents are for `holdfast import`.";

/** Have the browser save bytes as a file; it never opens them. @param {Blob} content @param {string} name */
export function save(content, name) {
  // Whatever it is, it is called nothing that a browser would show.
  const address = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  el("a", { href: address, download: name.replace(/[^\p{L}\p{N}.@_-]+/gu, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(address), TAKEN);
}

/** Ask for a file that was exported, and make a session of it. */
export function importSession() {
  const stop = new AbortController();
  return openDialog("Import a session", (close) => importForm(close, stop.signal)).finally(() => stop.abort());
}

/** @param {(answer?: any) => void} close @param {AbortSignal} signal */
function importForm(close, signal) {
  const [file, key] = [freshId("file"), freshId("key")];
  const chosen = el("input", { id: file, class: "field", type: "file", accept: ".jsonl", required: true, autofocus: true });
  const named = el("input", { id: key, class: "field", type: "text", autocomplete: "off", spellcheck: "false" });
  const said = el("p", { class: "faint", role: "status" });
  const why = el("p", { class: "problem", role: "alert" });
  const button = el("button", { class: "button is-main" }, "Import");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    fill(why);
    fill(said, "Sending the file. It becomes a session when all of it is here and found whole…");
    try {
      const address = `/api/import${queryOf({ key: named.value.trim() })}`;
      const made = await (await ask(address, { method: "POST", body: chosen.files[0], signal })).json();
      close();
      toast(`${made.key} was imported, with ${counted(made.records, "record")}.`);
      go(toSession(made.key));
    } catch (error) {
      if (signal.aborted) return;
      fill(said);
      fill(why, `${sentenceOf(error)}. Nothing was imported.`);
      button.disabled = false;
    }
  };
  return [
    el(
      "form",
      { class: "form", on: { submit } },
      el("label", { for: file }, "File that was exported"),
      chosen,
      el("p", { class: "faint" }, withCommands(HINT)),
      el("label", { for: key }, "Key (left empty: the one that it had)"),
      named,
      said,
      why,
      el("footer", { class: "dialog-foot" }, button),
    ),
  ];
}
