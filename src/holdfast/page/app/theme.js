/** Colour theme: light, dark, or the system's. */

import { el, fill } from "./dom.js";
import { icon } from "./icons.js";

const KEY = "holdfast-theme";
/** @typedef {"auto" | "light" | "dark"} Theme */
/** @type {Theme[]} */
const ORDER = ["auto", "light", "dark"];
const PICTURES = /** @type {const} */ ({ auto: "auto", light: "sun", dark: "moon" });
const WORDS = { auto: "system", light: "light", dark: "dark" };

/** @returns {Theme} */
function storedTheme() {
  const found = localStorage.getItem(KEY);
  return ORDER.find((one) => one === found) ?? "auto";
}

/** @param {Theme} theme */
function apply(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** Make the theme switch, and apply the stored theme. */
export function themeSwitch() {
  const button = el("button", { type: "button", class: "quiet icon-button" });
  const show = () => {
    const theme = storedTheme();
    apply(theme);
    fill(button, icon(PICTURES[theme]));
    button.setAttribute("aria-label", `Colours: ${WORDS[theme]}. Change`);
    button.title = `Colours: ${WORDS[theme]}`;
  };
  button.addEventListener("click", () => {
    localStorage.setItem(KEY, ORDER[(ORDER.indexOf(storedTheme()) + 1) % ORDER.length]);
    show();
  });
  show();
  return button;
}
