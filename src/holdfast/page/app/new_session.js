/** Dialogs that create a session and change its settings: key, model and system text. */

import { at, get, send } from "./api.js";
import { openDialog, sentenceOf, toast } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { plain } from "./plain.js";
import { go, toSession } from "./router.js";

/** Open the dialog that creates a session. */
export function newSession() {
  return settingsDialog("New session", { verb: "Create", act: async (key, settings) => {
    await send("PUT", at(key), settings);
    go(toSession(key));
  } });
}

/** Open the dialog that changes the model and the system text of a session. @param {import("./session_model.js").SessionModel} model */
export function editSession(model) {
  const { model: name, system } = model.detail ?? {};
  return settingsDialog("Settings of this session", {
    verb: "Save",
    key: model.key,
    model: name ?? "",
    system: system ?? "",
    act: async (key, settings) => {
      await send("PUT", at(key), settings);
      toast("Saved. The settings apply from the next request on.");
      await model.refresh();
    },
  });
}

/**
 * @param {string} title
 * @param {{ verb: string, key?: string, model?: string, system?: string, act: (key: string, settings: any) => Promise<void> }} given
 */
function settingsDialog(title, given) {
  return openDialog(
    title,
    (close) => {
      const [keyId, modelId, systemId] = [freshId("key"), freshId("model"), freshId("system")];
      const why = el("p", { class: "problem", role: "alert" });
      const key = el("input", { id: keyId, class: "field", type: "text", autocomplete: "off", spellcheck: "false", required: true, autofocus: true });
      const models = el("select", { id: modelId, class: "field" });
      offerModels(models, given.model ?? "");
      const system = el("textarea", { id: systemId, class: "field", rows: "5", placeholder: "The gateway's own system text", set: { value: given.system ?? "" } });
      const button = el("button", { class: "button is-main" }, given.verb);
      const submit = async (/** @type {Event} */ event) => {
        event.preventDefault();
        button.disabled = true;
        const settings = {
          // An omitted field stays unchanged.
          ...(models.value && models.value !== (given.model ?? "") ? { model: models.value } : {}),
          ...(system.value !== (given.system ?? "") ? { system: system.value } : {}),
        };
        try {
          await given.act(given.key ?? key.value.trim(), settings);
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
          given.key === undefined
            ? [
              el("label", { for: keyId }, "Key"),
              key,
              el("p", { class: "faint" }, "Any name, such as telegram:42. The session exists from now on, even without a message."),
            ]
            : null,
          el("label", { for: modelId }, "Model"),
          models,
          el("label", { for: systemId }, "System text"),
          system,
          el("p", { class: "faint" }, "Sent verbatim with every request, and never compacted."),
          why,
          el("footer", { class: "dialog-foot" }, button),
        ),
      ];
    },
    { wide: given.key !== undefined },
  );
}

/** Fill the choice with the models that the gateway offers. @param {any} select @param {string} current */
async function offerModels(select, current) {
  const draw = (/** @type {string[]} */ names) => fill(
    select,
    current ? null : el("option", { value: "" }, "Default of the gateway"),
    [...new Set([...(current ? [current] : []), ...names])].map((name) => el("option", { value: name, selected: name === current }, plain(name))),
  );
  draw([]);
  try {
    draw((await get("/api/health")).models);
  } catch {
    // The gateway checks the name.
  }
}
