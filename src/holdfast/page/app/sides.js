/** Two panes side by side; on a narrow screen one at a time, with a switch. */

import { el } from "./dom.js";

/**
 * @param {...{ name: string, node: any }} panes
 * @returns {HTMLElement}
 */
export function sides(...panes) {
  const box = el("div", { class: "sides", "data-side": "0" });
  const buttons = panes.map(({ name }, place) => el(
    "button",
    { type: "button", class: "side-button", "aria-pressed": String(place === 0), on: { click: () => show(place) } },
    name,
  ));
  const show = (/** @type {number} */ place) => {
    box.dataset.side = String(place);
    buttons.forEach((button, each) => button.setAttribute("aria-pressed", String(each === place)));
  };
  box.append(
    el("div", { class: "side-switch", role: "group", "aria-label": "Pane" }, buttons),
    ...panes.map(({ node }, place) => el("div", { class: "side", "data-place": String(place) }, node)),
  );
  return box;
}
