/** Versions of a conversation: edit a message, answer again, and switch between branches. */

import { at, get, send } from "./api.js";
import { openDialog, sentenceOf, toast } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { count } from "./format.js";
import { plain } from "./plain.js";

/**
 * Edit a message: the new text takes its place, and the old conversation from there on becomes a branch.
 * @param {import("./session_model.js").SessionModel} model
 * @param {number} seq of the message
 */
export function editMessage(model, seq) {
  const parts = model.record(seq)?.record.parts ?? [];
  const text = parts.filter((/** @type {any} */ part) => part.type === "text").map((/** @type {any} */ part) => part.text).join("\n\n");
  const hasMore = parts.some((/** @type {any} */ part) => part.type !== "text");
  return openDialog("Edit this message", (close) => {
    const id = freshId("edited");
    const why = el("p", { class: "problem", role: "alert" });
    const box = el("textarea", { id, class: "field", rows: "6", autofocus: true, required: true, set: { value: text } });
    const button = el("button", { class: "button is-main" }, "Send the edited message");
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        await send("POST", at(model.key, "/messages"), { text: box.value, replaces: seq, mode: "post" });
        close();
      } catch (error) {
        fill(why, sentenceOf(error));
        button.disabled = false;
      }
    };
    return [
      el(
        "form",
        { class: "form", on: { submit } },
        el("label", { for: id }, "Message"),
        box,
        el("p", { class: "faint" }, `The model answers from here on again. The old version stays as a branch.${hasMore ? " Attachments are not sent again." : ""}`),
        why,
        el("footer", { class: "dialog-foot" }, button),
      ),
    ];
  }, { wide: true });
}

/** Answer the newest message again. @param {import("./session_model.js").SessionModel} model */
export async function answerAgain(model) {
  await send("POST", at(model.key, "/regenerate"), {});
  toast("The newest message is answered again. The old answer stays as a branch.");
}

/** List the branches, and switch to one. @param {import("./session_model.js").SessionModel} model */
export async function showBranches(model) {
  const { branches } = await get(at(model.key, "/branches"));
  const others = branches.filter((/** @type {any} */ one) => !one.is_current);
  if (!others.length) {
    toast("This session has one version. Edit a message, or answer one again, to make another.");
    return undefined;
  }
  return openDialog("Branches", (close) => {
    const why = el("p", { class: "problem", role: "alert" });
    const choose = async (/** @type {number} */ head) => {
      try {
        await send("POST", at(model.key, "/switch"), { head });
        toast("Switched. The version before is a branch now.");
        await model.refresh();
        close();
      } catch (error) {
        fill(why, sentenceOf(error));
      }
    };
    return [
      el("p", {}, "Versions that an edit or another answer has left. The model sees one of them at a time."),
      el("ul", { class: "branches" }, branches.map((/** @type {any} */ one) => el(
        "li",
        {},
        el(
          "span",
          { class: "branch-text" },
          el("b", { dir: "auto" }, plain(one.text || "(nothing)")),
          el("span", { class: "faint" }, one.is_current ? "the current version" : `up to record ${count(one.head)}, left at record ${count(one.since)}`),
        ),
        one.is_current
          ? el("span", { class: "badge is-on" }, "current")
          : el("button", { type: "button", class: "button", on: { click: () => choose(one.head) } }, "Switch"),
      ))),
      why,
    ];
  }, { wide: true });
}
