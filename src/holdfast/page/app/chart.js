/**
 * Chart of the three budgets over time: three lanes on one axis, with marks for events above.
 *
 * The axis counts records, not hours, so idle time takes no space. Each lane is scaled to its limit.
 */

import { el, fill, svg } from "./dom.js";
import { moment, when } from "./format.js";
import { WARNINGS } from "./gauge.js";

/** Lane heights in pixels. Tokens are the largest, because they usually reach their limit first. */
const LANES = [130, 52, 52];
const GAP = 36;
const MARKS = 34;
const LEFT = 8;
const RIGHT = 72;
const AXIS = 24;
/** Shapes of marks, so that colour is not the only distinction. @type {Record<string, { d: string, words: string }>} */
export const MARK_KINDS = {
  compaction: { d: "M-5-4h10l-5 9z", words: "compaction" },
  roll_over: { d: "M-5-5h10v10h-10z", words: "new generation" },
  undo: { d: "M5-4h-10l5 9z", words: "undone" },
  warning: { d: "M0-6l6 11h-12z", words: "warning" },
  fault: { d: "M-4-4l8 8M4-4l-8 8", words: "fault" },
  rung: { d: "M-3-6v12M3-6v12M-3-2h6M-3 2h6", words: "rung of the ladder" },
  change: { d: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0", words: "part replaced or masked" },
  damage: { d: "M0-6l6 6-6 6-6-6z", words: "damage quarantined" },
};
/** Pixels within which marks are merged. */
const MARK_WIDTH = 14;

/** @typedef {{ seq: number, at: number, values: (number | null)[] }} Point */
/** @typedef {{ seq: number, at: number, kind: string, words: string, more?: number }} Mark */
/** @typedef {{ name: string, most: number | null, say: (n: number) => string }} Lane */

/**
 * @param {{ lanes: Lane[], points: Point[], marks: Mark[], width: number, open: (seq: number) => void }} given
 * @returns {SVGElement}
 */
export function drawChart({ lanes, points, marks, width, open }) {
  const height = topOf(lanes.length) + AXIS;
  const first = Math.min(points[0]?.seq ?? 1, marks[0]?.seq ?? Infinity);
  const last = Math.max(points.at(-1)?.seq ?? 1, marks.at(-1)?.seq ?? 0, first + 1);
  const x = (/** @type {number} */ seq) => LEFT + ((seq - first) / (last - first)) * (width - LEFT - RIGHT);
  const drawn = lanes.map((lane, place) => drawLane(lane, place, points, x, width));
  return svg(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "group",
      "aria-label": "The three budgets over time",
    },
    drawn,
    mergeMarks(marks, x).map((mark) => drawMark(mark, x(mark.seq), height - AXIS, open)),
    drawAxis(points, x, height, width),
  );
}

/** @param {number} place */
function topOf(place) {
  return MARKS + LANES.slice(0, place).reduce((sum, lane) => sum + lane + GAP, 0);
}

/**
 * @param {Lane} lane
 * @param {number} place
 * @param {Point[]} points
 * @param {(seq: number) => number} x
 * @param {number} width
 */
function drawLane(lane, place, points, x, width) {
  const lowest = topOf(place + 1) - GAP / 2;
  const high = LANES[place];
  const top = lowest - high;
  const known = points.filter((point) => point.values[place] !== null);
  const highest = Math.max(1, ...known.map((point) => Number(point.values[place])));
  const most = lane.most ?? highest;
  // The scale ends at the limit, or at the maximum if that is higher.
  const scale = Math.max(most, highest);
  const y = (/** @type {number} */ value) => lowest - (value / scale) * high;
  const line = known.map(
    (point, index) => `${index ? "L" : "M"}${x(point.seq).toFixed(1)} ${y(Number(point.values[place])).toFixed(1)}`
  ).join("");
  const newest = known.at(-1);
  const right = width - RIGHT;
  const area = known.length ? `${line}L${x(known[known.length - 1].seq).toFixed(1)} ${lowest}L${x(known[0].seq).toFixed(1)} ${lowest}Z` : "";
  const limits = lane.most ? [...WARNINGS, 1].map(
    (share) => svg(
      "line",
      { class: share === 1 ? "limit" : "limit is-soft", x1: LEFT, x2: right, y1: y(most * share), y2: y(most * share) },
    )
  ) : [];
  const current = newest ? lane.say(Number(newest.values[place])) : "unknown";
  const label = `${lane.name}: now ${current}${lane.most ? ` of ${lane.say(lane.most)}` : ", limit unknown"}, maximum ${lane.say(highest)}`;
  return svg(
    "g",
    { role: "img", "aria-label": label },
    svg("line", { class: "base", x1: LEFT, x2: right, y1: lowest, y2: lowest }),
    limits,
    svg("path", { class: "area", d: area }),
    svg("path", { class: "trace", d: line }),
    newest ? svg("circle", { class: "now", cx: x(newest.seq), cy: y(Number(newest.values[place])), r: 3.5 }) : null,
    svg("text", { class: "lane-name", x: LEFT, y: top - 6 }, lane.name),
    svg(
      "text",
      {
        class: "lane-now",
        x: right + 10,
        y: newest ? clamped(y(Number(newest.values[place])) + 4, top + 10, lowest) : lowest,
      },
      current,
    ),
    lane.most ? svg(
      "text",
      { class: "lane-limit", x: right, y: y(most) - 6, "text-anchor": "end" },
      `limit ${lane.say(lane.most)}`,
    ) : null,
  );
}

/** @param {number} value @param {number} low @param {number} high */
const clamped = (value, low, high) => Math.max(low, Math.min(high, value));

/**
 * Merge overlapping marks into one with a count.
 * @param {Mark[]} marks
 * @param {(seq: number) => number} x
 */
function mergeMarks(marks, x) {
  /** @type {Map<string, Mark>} */
  const merged = new Map();
  for (const mark of marks) {
    if (!(mark.kind in MARK_KINDS)) continue;
    const place = `${Math.round(x(mark.seq) / MARK_WIDTH)}`;
    const before = merged.get(place);
    // Show the kind that changed the view most.
    const isHeavier = !before || WEIGHTS.indexOf(mark.kind) < WEIGHTS.indexOf(before.kind);
    merged.set(place, { ...(isHeavier ? mark : before), more: (before?.more ?? -1) + 1 });
  }
  return [...merged.values()];
}

const WEIGHTS = Object.keys(MARK_KINDS);

/** @param {Mark} mark @param {number} place @param {number} bottom @param {(seq: number) => void} open */
function drawMark(mark, place, bottom, open) {
  const kind = MARK_KINDS[mark.kind] ?? MARK_KINDS.rung;
  const label = `${kind.words}, record ${mark.seq}, ${moment(mark.at)}: ${mark.words}${mark.more ? ` (and ${mark.more} more here)` : ""}`;
  const act = () => open(mark.seq);
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      act();
    }
  };
  return svg(
    "g",
    {
      class: `mark mark-${mark.kind}`,
      role: "button",
      tabindex: "0",
      "aria-label": label,
      on: { click: act, keydown: onKey },
    },
    svg("title", {}, label),
    svg("line", { class: "mark-line", x1: place, x2: place, y1: MARKS - 12, y2: bottom }),
    svg("rect", { class: "mark-hit", x: place - 9, y: 2, width: 18, height: 24 }),
    svg("path", { d: kind.d, transform: `translate(${place} 14)` }),
  );
}

/** Width of a tick label in pixels. */
const TICK_WIDTH = 110;

/** @param {Point[]} points @param {(seq: number) => number} x @param {number} height @param {number} width */
function drawAxis(points, x, height, width) {
  /** @type {Point[]} */
  const ticks = [];
  for (const point of points) {
    const before = ticks.at(-1);
    // The first label begins at its point; the others are centred on theirs.
    const room = ticks.length === 1 ? 1.5 * TICK_WIDTH : TICK_WIDTH;
    const isClear = !before || x(point.seq) - x(before.seq) > room;
    if (isClear && x(point.seq) < width - RIGHT - TICK_WIDTH / 2) ticks.push(point);
  }
  return svg(
    "g",
    { "aria-hidden": "true" },
    ticks.map(
      (point, index) => svg(
        "text",
        { class: "tick", x: x(point.seq), y: height - 6, "text-anchor": index ? "middle" : "start" },
        `#${point.seq} · ${when(point.at)}`,
      )
    ),
  );
}

/** Legend of the marks. @param {Set<string>} kinds in the chart */
export function legend(kinds) {
  const box = el("ul", { class: "legend" });
  fill(
    box,
    Object.entries(MARK_KINDS)
      .filter(([kind]) => kinds.has(kind))
      .map(
        ([kind, { d, words }]) => el(
          "li",
          {},
          svg(
            "svg",
            { viewBox: "-8 -8 16 16", width: 16, height: 16, class: `mark mark-${kind}`, "aria-hidden": "true" },
            svg("path", { d }),
          ),
          words,
        )
      ),
  );
  return box;
}
