/** Dialogs that create a session and change its settings: key, title, tags, model, system text and requests. */

import { at, get, send } from "./api.js";
import { openDialog, sentenceOf, toast } from "./dialogs.js";
import { el, fill, freshId } from "./dom.js";
import { plain } from "./plain.js";
import { go, toSession } from "./router.js";

/** Levels of reasoning effort. */
const EFFORTS = ["none", "low", "medium", "high"];

/** Open the dialog that creates a session. */
export function newSession() {
  return settingsDialog("New session", { verb: "Create", act: async (key, settings, labels) => {
    await send("PUT", at(key), settings);
    if (Object.keys(labels).length) await send("PUT", at(key, "/labels"), labels);
    go(toSession(key));
  } });
}

/** Open the dialog that changes the settings of a session. @param {import("./session_model.js").SessionModel} model */
export async function editSession(model) {
  if (!model.detail) await model.refresh();
  const { model: name, system, settings } = model.detail ?? {};
  const labels = await get(at(model.key, "/labels"));
  return settingsDialog("Settings of this session", {
    verb: "Save",
    key: model.key,
    model: name ?? "",
    system: system ?? "",
    labels,
    settings,
    act: async (key, settings, changed) => {
      if (Object.keys(changed).length) await send("PUT", at(key, "/labels"), changed);
      if (Object.keys(settings).length) await send("PUT", at(key), settings);
      toast("Saved. The settings apply from the next request on.");
      await model.refresh();
    },
  });
}

/**
 * @param {string} title
 * @param {{ verb: string, key?: string, model?: string, system?: string, labels?: any, settings?: any,
 * act: (key: string, settings: any, labels: any) => Promise<void> }} given
 */
function settingsDialog(title, given) {
  return openDialog(
    title,
    (close) => {
      const [keyId, modelId, systemId, titleId, tagsId] = ["key", "model", "system", "title", "tags"].map((name) => freshId(name));
      const { title: made = "", is_title_made: isMade = true, tags: had = [] } = given.labels ?? {};
      const title = el("input", { id: titleId, class: "field", type: "text", maxlength: "200", placeholder: isMade ? made || "Made from the first message" : "", value: isMade ? "" : made });
      const tags = el("input", { id: tagsId, class: "field", type: "text", placeholder: "Separated by commas", value: had.join(", ") });
      const why = el("p", { class: "problem", role: "alert" });
      const key = el("input", { id: keyId, class: "field", type: "text", autocomplete: "off", spellcheck: "false", required: true, autofocus: true });
      const models = el("select", { id: modelId, class: "field" });
      offerModels(models, given.model ?? "");
      const system = el("textarea", { id: systemId, class: "field", rows: "5", placeholder: "The gateway's own system text", set: { value: given.system ?? "" } });
      const requests = requestSettings(given.settings ?? {});
      const button = el("button", { class: "button is-main" }, given.verb);
      const submit = async (/** @type {Event} */ event) => {
        event.preventDefault();
        button.disabled = true;
        const settings = {
          // An omitted field stays unchanged.
          ...(models.value && models.value !== (given.model ?? "") ? { model: models.value } : {}),
          ...(system.value !== (given.system ?? "") ? { system: system.value } : {}),
          ...requests.changed(),
        };
        const now = [...new Set(tags.value.split(",").map((/** @type {string} */ one) => one.trim()).filter(Boolean))].sort();
        const labels = {
          ...(title.value.trim() !== (isMade ? "" : made) ? { title: title.value.trim() } : {}),
          ...(String(now) !== String(had) ? { tags: now } : {}),
        };
        try {
          await given.act(given.key ?? key.value.trim(), settings, labels);
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
          el("label", { for: titleId }, "Title"),
          title,
          el("label", { for: tagsId }, "Tags"),
          tags,
          el("label", { for: modelId }, "Model"),
          models,
          el("label", { for: systemId }, "System text"),
          system,
          el("p", { class: "faint" }, "Sent verbatim with every request, and never compacted."),
          requests.node,
          why,
          el("footer", { class: "dialog-foot" }, button),
        ),
      ];
    },
    { wide: given.key !== undefined },
  );
}

/** Fields of the settings of requests. Others that the session has stay as they are. @param {any} before */
function requestSettings(before) {
  const [temperatureId, tokensId, effortId] = ["temperature", "tokens", "effort"].map((name) => freshId(name));
  const number = (/** @type {string} */ id, /** @type {any} */ value, /** @type {any} */ range) =>
    el("input", { id, class: "field", type: "number", placeholder: "default", value: value ?? "", ...range });
  const temperature = number(temperatureId, before.temperature, { min: "0", max: "2", step: "any" });
  const tokens = number(tokensId, before.output_tokens_max, { min: "1", step: "1" });
  const effort = el(
    "select",
    { id: effortId, class: "field" },
    el("option", { value: "" }, "default"),
    EFFORTS.map((name) => el("option", { value: name, selected: name === before.effort }, name)),
  );
  const field = (/** @type {string} */ id, /** @type {string} */ words, /** @type {Node} */ node) => el("div", { class: "form" }, el("label", { for: id }, words), node);
  const changed = () => {
    const numeric = (/** @type {any} */ input) => (input.value === "" ? null : Number(input.value));
    const now = { temperature: numeric(temperature), output_tokens_max: numeric(tokens), effort: effort.value || null };
    const isSame = Object.entries(now).every(([name, value]) => value === (before[name] ?? null));
    const kept = Object.fromEntries(Object.entries({ ...before, ...now }).filter(([, value]) => value !== null));
    return isSame ? {} : { settings: kept };
  };
  const node = el(
    "div",
    { class: "settings-row" },
    field(temperatureId, "Temperature", temperature),
    field(tokensId, "Answer tokens, at most", tokens),
    field(effortId, "Reasoning effort", effort),
  );
  return { node, changed };
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
