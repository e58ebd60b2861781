/** Actions on several sessions: export, tags, delete. */

import { at, request, send } from "./api.js";
import { confirmed, openDialog, sentenceOf, toast } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { save } from "./files.js";
import { counted } from "./format.js";
import { plain } from "./plain.js";
import { zipped } from "./zip.js";

/** Export sessions into one file. @param {string[]} keys */
export async function exportAll(keys) {
  toast(`Exporting ${counted(keys.length, "session")}…`);
  try {
    if (keys.length === 1) save(await (await request(at(keys[0], "/export"))).blob(), `${keys[0]}.jsonl`);
    else save(await zipped(keys), "sessions.zip");
  } catch (error) {
    toast(`Not exported: ${sentenceOf(error)}`, "problem");
  }
}

/**
 * Delete sessions, after a confirmation.
 * @param {any[]} sessions
 * @returns {Promise<string[]>} the keys of those that are gone
 */
export async function removeAll(sessions) {
  const records = sessions.reduce((sum, one) => sum + (one.records ?? 0), 0);
  const sentence = `This deletes ${counted(sessions.length, "session")} with ${counted(records, "record")} and their attachments permanently. It cannot be undone; export them first if you may need them.`;
  if (!(await confirmed(`Delete ${counted(sessions.length, "session")}?`, sentence, "Delete permanently"))) return [];
  const gone = await forEach(sessions, (one) => send("DELETE", at(one.key)), "deleted");
  toast(`${counted(gone.length, "session")} deleted.`);
  return gone;
}

/**
 * Ask for tags to add and to remove, and set them.
 * @param {any[]} sessions
 * @param {string[]} known tags of other sessions, which are offered
 * @returns {Promise<void>}
 */
export function tagAll(sessions, known) {
  const had = [...new Set(sessions.flatMap((one) => one.tags ?? []))].sort();
  return openDialog(`Tag ${counted(sessions.length, "session")}`, (close) => {
    const [id, listId] = [freshId("tags"), freshId("known")];
    const why = el("p", { class: "problem", role: "alert" });
    const added = el("input", { id, class: "field", type: "text", list: listId, autocomplete: "off", autofocus: true });
    const kept = had.map((tag) => /** @type {[string, any]} */ ([tag, el("input", { type: "checkbox", set: { checked: true } })]));
    const button = el("button", { class: "button is-main" }, "Save");
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      button.disabled = true;
      const add = added.value.split(",").map((/** @type {string} */ one) => one.trim()).filter(Boolean);
      const dropped = new Set(kept.filter(([, box]) => !box.checked).map(([tag]) => tag));
      const done = await forEach(sessions, (one) => {
        const before = one.tags ?? [];
        const tags = [...new Set([...before.filter((/** @type {string} */ tag) => !dropped.has(tag)), ...add])].sort();
        return String(tags) === String(before) ? Promise.resolve() : send("PUT", at(one.key, "/labels"), { tags });
      }, "tagged", why);
      button.disabled = false;
      if (done.length < sessions.length) return;
      toast(`Tags of ${counted(done.length, "session")} saved.`);
      close();
    };
    return [
      el(
        "form",
        { class: "form", on: { submit } },
        el("label", { for: id }, "Add tags"),
        added,
        el("datalist", { id: listId }, known.map((tag) => el("option", { value: tag }))),
        el("p", { class: "faint" }, "Several are separated by commas."),
        had.length
          ? el("fieldset", { class: "tags-kept" }, el("legend", {}, "Tags now; clear one to remove it"), kept.map(([tag, box]) =>
            el("label", { class: "search-check" }, box, el("span", {}, plain(tag), howMany(sessions, tag)))))
          : null,
        why,
        el("footer", { class: "dialog-foot" }, button),
      ),
    ];
  });
}

/** @param {any[]} sessions @param {string} tag */
function howMany(sessions, tag) {
  const all = sessions.filter((one) => one.tags?.includes(tag)).length;
  return all === sessions.length ? null : el("span", { class: "faint" }, ` on ${all} of ${sessions.length}`);
}

/**
 * Act on sessions one by one. A failure is told and does not stop the others.
 * @param {any[]} sessions
 * @param {(one: any) => Promise<any>} act
 * @param {string} done past participle of the action
 * @param {Element} [why] place of the last problem; default: a toast
 */
async function forEach(sessions, act, done, why) {
  const keys = [];
  for (const one of sessions) {
    try {
      await act(one);
      keys.push(one.key);
    } catch (error) {
      const sentence = `${one.key} was not ${done}: ${sentenceOf(error)}`;
      if (why) fill(why, sentence);
      else toast(sentence, "problem");
    }
  }
  return keys;
}
