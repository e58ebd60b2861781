/** Bar chart by day: one stacked bar a day, with the value of each on hover and for screen readers. */

import { el, svg } from "./dom.js";

const [WIDTH, HEIGHT, BOTTOM, LEFT] = [440, 132, 18, 44];

/**
 * @typedef {{ name: string, of: (day: any) => number, tone: "accent" | "amber" }} Series
 */

/** @param {any[]} days with `name` @param {Series[]} series @param {(value: number) => string} say */
export function barChart(days, series, say) {
  const sums = days.map((day) => series.reduce((sum, one) => sum + one.of(day), 0));
  const most = niceMost(Math.max(...sums));
  if (!sums.some(Boolean)) return el("p", { class: "faint" }, "Nothing in the last 31 days.");
  const width = (WIDTH - LEFT) / days.length;
  const y = (/** @type {number} */ value) => HEIGHT - BOTTOM - (value / most) * (HEIGHT - BOTTOM - 8);
  const words = `${series.map((one) => one.name).join(" and ")} by day: highest ${say(Math.max(...sums))}, today ${say(sums.at(-1) ?? 0)}`;
  return el(
    "div",
    { class: "bars" },
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words },
      [0.5, 1].map((share) => [
        svg("line", { class: "bar-line", x1: LEFT, x2: WIDTH, y1: y(most * share), y2: y(most * share) }),
        svg("text", { class: "bar-text", x: LEFT - 6, y: y(most * share) + 4, "text-anchor": "end" }, say(most * share)),
      ]).flat(),
      svg("line", { class: "bar-line", x1: LEFT, x2: WIDTH, y1: y(0), y2: y(0) }),
      days.map((day, place) => {
        let below = 0;
        const x = LEFT + place * width;
        return svg(
          "g",
          { class: "bar-day" },
          svg("title", {}, `${day.name}: ${series.map((one) => `${say(one.of(day))} ${one.name}`).join(", ")}`),
          svg("rect", { class: "bar-hit", x, y: 0, width, height: HEIGHT - BOTTOM }),
          series.map((one) => {
            const value = one.of(day);
            below += value;
            return value ? svg("rect", { class: `bar is-${one.tone}`, x: x + width * 0.12, y: y(below), width: width * 0.76, height: Math.max(1, y(below - value) - y(below)), rx: 1.5 }) : null;
          }),
        );
      }),
      [0, Math.floor(days.length / 2), days.length - 1].map((place, index) => svg(
        "text",
        { class: "bar-text", x: LEFT + (place + [0, 0.5, 1][index]) * width, y: HEIGHT - 4, "text-anchor": ["start", "middle", "end"][index] },
        days[place].name.slice(5),
      )),
    ),
    series.length > 1 ? el("p", { class: "bar-legend" }, series.map((one) => el("span", {}, el("i", { class: `is-${one.tone}` }), one.name))) : null,
  );
}

/** The next round number. @param {number} value */
function niceMost(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= value) ?? value;
}
