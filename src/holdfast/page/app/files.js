/** File downloads, and the dialog that imports a session. */

import { request, queryOf } from "./api.js";
import { openDialog, sentenceOf, toast, withCommands } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { counted } from "./format.js";
import { go, toSession } from "./router.js";

/** Milliseconds until an object URL is revoked; the browser has started the download by then. */
const REVOKE_MS = 60_000;
const HINT = "Written by Export in a session's menu or by `holdfast export`. For transcripts of other agents use `holdfast import`.";

/** Download bytes as a file. @param {Blob} content @param {string} name */
export function save(content, name) {
  // A generic type, so that no browser opens the file.
  const address = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  el("a", { href: address, download: name.replace(/[^\p{L}\p{N}.@_-]+/gu, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(address), REVOKE_MS);
}

/** Open the dialog that imports an exported session. */
export function importSession() {
  const stop = new AbortController();
  return openDialog("Import a session", (close) => importForm(close, stop.signal)).finally(() => stop.abort());
}

/** @param {(answer?: any) => void} close @param {AbortSignal} signal */
function importForm(close, signal) {
  const [file, key] = [freshId("file"), freshId("key")];
  const chosen = el("input", { id: file, class: "field", type: "file", accept: ".jsonl", required: true, autofocus: true });
  const keyField = el("input", { id: key, class: "field", type: "text", autocomplete: "off", spellcheck: "false" });
  const status = el("p", { class: "faint", role: "status" });
  const problem = el("p", { class: "problem", role: "alert" });
  const button = el("button", { class: "button is-main" }, "Import");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    fill(problem);
    fill(status, "Uploading. The session is created after the whole file is received and verified…");
    try {
      const address = `/api/import${queryOf({ key: keyField.value.trim() })}`;
      const made = await (await request(address, { method: "POST", body: chosen.files[0], signal })).json();
      close();
      toast(`Imported ${made.key} with ${counted(made.records, "record")}.`);
      go(toSession(made.key));
    } catch (error) {
      if (signal.aborted) return;
      fill(status);
      fill(problem, `${sentenceOf(error)}. Nothing was imported.`);
      button.disabled = false;
    }
  };
  return [
    el(
      "form",
      { class: "form", on: { submit } },
      el("label", { for: file }, "Exported file"),
      chosen,
      el("p", { class: "faint" }, withCommands(HINT)),
      el("label", { for: key }, "Key (default: the original key)"),
      keyField,
      status,
      problem,
      el("footer", { class: "dialog-foot" }, button),
    ),
  ];
}
