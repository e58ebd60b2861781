/** Blocks of code: syntax colours by a parser's tokens, the name of the language, and a button that copies. */

import hljs from "../vendor/highlight/core.js";
import bash from "../vendor/highlight/bash.js";
import c from "../vendor/highlight/c.js";
import cpp from "../vendor/highlight/cpp.js";
import css from "../vendor/highlight/css.js";
import diff from "../vendor/highlight/diff.js";
import go from "../vendor/highlight/go.js";
import ini from "../vendor/highlight/ini.js";
import java from "../vendor/highlight/java.js";
import javascript from "../vendor/highlight/javascript.js";
import json from "../vendor/highlight/json.js";
import makefile from "../vendor/highlight/makefile.js";
import markdown from "../vendor/highlight/markdown.js";
import python from "../vendor/highlight/python.js";
import rust from "../vendor/highlight/rust.js";
import shell from "../vendor/highlight/shell.js";
import sql from "../vendor/highlight/sql.js";
import typescript from "../vendor/highlight/typescript.js";
import xml from "../vendor/highlight/xml.js";
import yaml from "../vendor/highlight/yaml.js";
import { el } from "./dom.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";

const LANGUAGES = {
  bash, c, cpp, css, diff, go, ini, java, javascript, json, makefile, markdown, python, rust, shell, sql, typescript, xml,
  yaml,
};
for (const [name, grammar] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, grammar);
/** Longer code is shown without colours: a grammar may take long for it. */
const COLOURED_CHARS_MAX = 30_000;
const COPIED_MILLISECONDS = 1_500;

/**
 * @param {string} text
 * @param {string} language as the text names it; "" if it does not
 */
export function codeBlock(text, language) {
  const code = el("code", {}, coloured(text, language));
  return el(
    "div",
    { class: "code-block" },
    el(
      "div",
      { class: "code-head" },
      el("span", {}, plain(language.slice(0, 30))),
      copyButton(text),
    ),
    el("pre", { class: "code", dir: "ltr", tabindex: "0" }, code),
  );
}

/** @param {string} text @param {string} language @returns {(Node | string)[]} */
function coloured(text, language) {
  if (text.length > COLOURED_CHARS_MAX || !hljs.getLanguage(language)) return plain(text);
  const root = hljs.highlight(text, { language, ignoreIllegals: true })._emitter?.rootNode;
  return root ? root.children.flatMap(spans) : plain(text);
}

/** @param {any} node @returns {(Node | string)[]} */
function spans(node) {
  if (typeof node === "string") return plain(node);
  const kind = String(node.scope ?? "").split(".", 1)[0].replace(/[^\w-]/g, "");
  return [el("span", { class: kind ? `hl-${kind}` : null }, node.children.flatMap(spans))];
}

/** @param {string} text */
function copyButton(text) {
  const button = el("button", { type: "button", class: "quiet copy-button", "aria-label": "Copy this code" }, icon("copy"), "Copy");
  button.addEventListener("click", async () => {
    const said = await copied(text) ? "Copied" : "Not copied";
    button.lastChild.textContent = said;
    setTimeout(() => { button.lastChild.textContent = "Copy"; }, COPIED_MILLISECONDS);
  });
  return button;
}

/** Copy a text; a page without TLS on another host has no clipboard. @param {string} text */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
