/** Icons: line drawings in the text colour. */

import { svg } from "./dom.js";

const PATHS = {
  back: "M15 5l-7 7 7 7",
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l4.5 4.5",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  attach: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7L9.4 17a1.6 1.6 0 0 1-2.3-2.3L14.5 7.3",
  pin: "M9 4h6l-1 6 3 3v2H7v-2l3-3-1-6zM12 15v5",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
  auto: "M12 3.5a8.5 8.5 0 1 0 0 17zM12 3.5a8.5 8.5 0 0 1 0 17",
  health: "M3 12h4l2.5-7 5 14 2.5-7h4",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.1-1.5 2.4M12 17.5h.01",
  close: "M6 6l12 12M18 6L6 18",
  squeeze: "M5 4h14M5 20h14M12 7v4M9.5 9.5L12 12l2.5-2.5M12 17v-4M9.5 14.5L12 12l2.5 2.5",
  undo: "M9 7L4.5 11.5 9 16M5 11.5h9a5 5 0 0 1 0 10h-2",
  fork: "M6 4v4a6 6 0 0 0 6 6 6 6 0 0 0 6-6V4M12 14v6",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  sessions: "M4 6h16M4 12h16M4 18h10",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15zM10.5 20.5h3",
  tool: "M14.5 6.5a4 4 0 0 1 5-2l-2.7 2.7 2 2 2.7-2.7a4 4 0 0 1-5.5 5L8.5 19a2 2 0 0 1-3-3l7.5-7.5a4 4 0 0 1 1.5-2z",
  copy: "M9 9h10v10H9zM5 15V5h10",
  down: "M6 10l6 6 6-6",
  hide: "M4 4l16 16M10 6.2A9 9 0 0 1 12 6c5 0 8 4 9 6a14 14 0 0 1-2.6 3.4M6.5 8A14 14 0 0 0 3 12c1 2 4 6 9 6a9 9 0 0 0 3.6-.8M10 10a3 3 0 0 0 4 4",
  filter: "M4 6h16M7 12h10M10 18h4",
  home: "M4 11l8-7 8 7v9h-5v-6h-6v6H4z",
  clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4l3 2",
  settings: "M5 8h8M17 8h2M5 16h2M11 16h8M15 6v4M9 14v4",
  tag: "M4 4h8l8 8-8 8-8-8zM8.5 8.5h.01",
  edit: "M5 19l1-4L16.5 4.5l3 3L9 18zM14 7l3 3",
  again: "M19 12a7 7 0 1 1-2.2-5.1M17 3v4h-4",
  check: "M5 12l5 5 9-10",
  diff: "M12 4v8M8 8h8M8 18h8",
};

/** @param {keyof typeof PATHS} name */
export function icon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: PATHS[name] }),
  );
}
