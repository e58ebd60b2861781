/**
 * The three budgets over time as three lanes above one axis, and above them what happened.
 *
 * The axis counts records, not hours: a session that slept for a week has no empty week in it. Each lane is a share of
 * its limit, so that all three are read alike.
 */

import { el, fill, svg } from "./dom.js";
import { moment, when } from "./format.js";
import { WARNINGS } from "./gauge.js";

/** Pixels of a lane. Tokens are what fills up first nearly always, so they have the most room. */
const LANES = [130, 52, 52];
const GAP = 36;
const MARKS = 34;
const LEFT = 8;
const RIGHT = 64;
const AXIS = 24;
/** Shapes of what happened, so that colour alone tells nothing. @type {Record<string, { d: string, words: string }>} */
export const MARK_KINDS = {
  compaction: { d: "M-5-4h10l-5 9z", words: "compaction" },
  roll_over: { d: "M-5-5h10v10h-10z", words: "new generation" },
  undo: { d: "M5-4h-10l5 9z", words: "undone" },
  warning: { d: "M0-6l6 11h-12z", words: "warning" },
  fault: { d: "M-4-4l8 8M4-4l-8 8", words: "fault" },
  rung: { d: "M-3-6v12M3-6v12M-3-2h6M-3 2h6", words: "rung of the ladder" },
  change: { d: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0", words: "something shown smaller" },
  damage: { d: "M0-6l6 6-6 6-6-6z", words: "damage set aside" },
};
/** Pixels within which marks of one kind are drawn as one. */
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
    gathered(marks, x).map((mark) => drawMark(mark, x(mark.seq), height - AXIS, open)),
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
  // A lane ends at its limit, or higher where that was exceeded.
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
  const said = newest ? lane.say(Number(newest.values[place])) : "nothing yet";
  const spoken = `${lane.name}: now ${said}${lane.most ? ` of ${lane.say(lane.most)}` : ", no limit is known"}, at most ${lane.say(highest)}`;
  return svg(
    "g",
    { role: "img", "aria-label": spoken },
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
      said,
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
 * Marks that would lie on top of each other become one that says how many it stands for.
 * @param {Mark[]} marks
 * @param {(seq: number) => number} x
 */
function gathered(marks, x) {
  /** @type {Map<string, Mark>} */
  const kept = new Map();
  for (const mark of marks) {
    if (!(mark.kind in MARK_KINDS)) continue;
    const place = `${Math.round(x(mark.seq) / MARK_WIDTH)}`;
    const before = kept.get(place);
    // What changed the view most is the one that is shown.
    const isHeavier = !before || WEIGHTS.indexOf(mark.kind) < WEIGHTS.indexOf(before.kind);
    kept.set(place, { ...(isHeavier ? mark : before), more: (before?.more ?? -1) + 1 });
  }
  return [...kept.values()];
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

/** Pixels that the label of a tick takes. */
const TICK_WIDTH = 110;

/** @param {Point[]} points @param {(seq: number) => number} x @param {number} height @param {number} width */
function drawAxis(points, x, height, width) {
  /** @type {Point[]} */
  const ticks = [];
  for (const point of points) {
    const before = ticks.at(-1);
    const isClear = !before || x(point.seq) - x(before.seq) > TICK_WIDTH;
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

/** What the shapes mean. @param {Set<string>} kinds that are in the chart */
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
