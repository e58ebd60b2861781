/**
 * DOM construction. Strings become text nodes only, never markup.
 */

const SVG = "http://www.w3.org/2000/svg";
/** Attributes that could execute a string or navigate; the page needs none of them. */
const FORBIDDEN = /^(on|srcdoc$|formaction$|style$)/i;

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an element.
 * @param {string} tag
 * @param {Record<string, any>} [given] attributes; `class`, `on` (listeners by event) and `set` (properties) are special
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function el(tag, given = {}, ...children) {
  return filled(document.createElement(tag), given, children);
}

/**
 * Make an element of a drawing.
 * @param {string} tag
 * @param {Record<string, any>} [given]
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function svg(tag, given = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), given, children);
}

/**
 * @param {any} node
 * @param {Record<string, any>} given
 * @param {(Child | Child[])[]} children
 */
function filled(node, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "set") {
      Object.assign(node, value);
    } else if (FORBIDDEN.test(name)) {
      throw new Error(`the attribute ${name} is forbidden`);
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...shown(children));
  return node;
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function shown(children) {
  return /** @type {(Node | string)[]} */ (
    children
      .flat()
      .filter((child) => child !== null && child !== undefined && child !== false)
      .map((child) => (child instanceof Node ? child : String(child)))
  );
}

/**
 * Replace all children.
 * @param {Element} node
 * @param {...(Child | Child[])} children
 */
export function fill(node, ...children) {
  node.replaceChildren(...shown(children));
}

/** Return a unique id. */
let lastId = 0;
export function freshId(prefix = "id") {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
