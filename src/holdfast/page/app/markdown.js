/**
 * Markdown of untrusted text as elements.
 *
 * The parser's tokens become elements one by one; its HTML is never used. Tags in the text stay text, links lead only to
 * web and mail addresses, and an image is a link to it: the page loads nothing from elsewhere.
 */

import MarkdownIt from "../vendor/markdown-it.js";
import { codeBlock } from "./code.js";
import { el } from "./dom.js";
import { plain } from "./plain.js";

const ADDRESS = /^(?:https?:|mailto:)/i;
/** Elements of tokens that open and close, by the token's tag. Others become their content. */
const TAGS = new Set([
  "blockquote", "em", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "p", "s", "strong", "table", "tbody", "td", "th",
  "thead", "tr", "ul",
]);
const TABLE_BOX = { class: "table-box", tabindex: "0", role: "group", "aria-label": "Table" };
const BLOCKS = new Set(["blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "p", "td", "th"]);
/** The box of a task in a list. */
const TASK = /^\[([ xX])\] /;
/** Text whose first letter is written from right to left. The direction "auto" of a list ignores its items. */
const RIGHT_TO_LEFT = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
/** Style of a cell that the parser gives, as a class. */
const ALIGNED = /^text-align:(left|center|right)$/;

// Indented text is a log or an outline more often than code. A line break of a person is one.
const parser = new MarkdownIt({ html: false, linkify: true, breaks: true }).disable("code");

/**
 * @param {string} text
 * @returns {Node[]}
 */
export function markdown(text) {
  const box = el("div");
  build(box, parser.parse(text, {}));
  return [...box.childNodes];
}

/** @param {HTMLElement} root @param {any[]} tokens */
function build(root, tokens) {
  const open = [root];
  for (const token of tokens) {
    const top = open[open.length - 1];
    if (token.nesting === 1) {
      const made = opened(token);
      // A wide table scrolls by itself.
      top.append(token.tag === "table" ? el("div", TABLE_BOX, made) : made);
      open.push(made);
    } else if (token.nesting === -1) {
      const closed = open.length > 1 ? open.pop() : null;
      if (closed && /^[OU]L$/.test(closed.tagName) && RIGHT_TO_LEFT.test(closed.textContent ?? "")) closed.dir = "rtl";
    } else if (token.type === "inline") {
      const item = top.parentElement;
      const task = item?.tagName === "LI" && item.firstElementChild === top ? TASK.exec(token.content) : null;
      if (task) asTask(item, top, token.children[0], task);
      build(top, token.children ?? []);
    } else {
      top.append(...leaf(token));
    }
  }
}

/**
 * Show the box of a task as one.
 * @param {any} item @param {HTMLElement} text @param {any} first token @param {RegExpExecArray} task
 */
function asTask(item, text, first, [mark, sign]) {
  item.classList.add("is-task");
  first.content = first.content.slice(mark.length);
  const isDone = sign !== " ";
  text.append(el("input", { type: "checkbox", disabled: true, checked: isDone, "aria-label": isDone ? "done" : "open" }));
}

/** @param {any} token @returns {HTMLElement} */
function opened(token) {
  if (token.type === "link_open") return link(String(token.attrGet("href") ?? ""), []);
  // A tight list has paragraphs that are not shown as such.
  if (token.hidden || !TAGS.has(token.tag)) return el("span", { dir: "auto" });
  const start = token.tag === "ol" ? token.attrGet("start") : null;
  // Headings of a message are below those of the page.
  const tag = /^h[1-6]$/.test(token.tag) ? `h${Math.min(6, Number(token.tag[1]) + 3)}` : token.tag;
  const side = ALIGNED.exec(token.attrGet("style") ?? "")?.[1];
  return el(tag, { dir: BLOCKS.has(token.tag) ? "auto" : null, start, class: side ? `is-${side}` : null });
}

/** @param {any} token @returns {(Node | string)[]} */
function leaf(token) {
  switch (token.type) {
    case "text":
      return plain(token.content);
    case "softbreak":
    case "hardbreak":
      return [el("br")];
    case "code_inline":
      return [el("code", {}, plain(token.content))];
    case "fence":
    case "code_block":
      return [codeBlock(token.content.replace(/\n$/, ""), (token.info ?? "").trim().split(/\s/, 1)[0])];
    case "hr":
      return [el("hr")];
    case "image":
      return [link(String(token.attrGet("src") ?? ""), [`image: ${token.content || "without a description"}`])];
    default:
      return plain(token.content ?? "");
  }
}

/** @param {string} address @param {(Node | string)[]} content */
function link(address, content) {
  if (!ADDRESS.test(address)) return el("span", {}, content);
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow", title: address }, content);
}
