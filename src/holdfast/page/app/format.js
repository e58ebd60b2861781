/** Formats of numbers, sizes and times. */

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockExact = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dayWithYear = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** @param {number} n */
export const count = (n) => whole.format(n);

/** @param {number} n @param {string} one @param {string} [many] */
export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** Format a large number in three digits. @param {number} n */
export function short(n) {
  if (n < 1_000) return String(n);
  if (n < 1_000_000) return `${trimmed(n / 1_000)}k`;
  return `${trimmed(n / 1_000_000)}M`;
}

/** @param {number} n */
export function bytes(n) {
  if (n < 1_024) return `${count(n)} B`;
  if (n < 1_048_576) return `${trimmed(n / 1_024)} KiB`;
  if (n < 1_073_741_824) return `${trimmed(n / 1_048_576)} MiB`;
  return `${trimmed(n / 1_073_741_824)} GiB`;
}

/** @param {number} n */
function trimmed(n) {
  return n >= 100 ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, "");
}

/** Format a time as time of day, or as date if not today. @param {number} at seconds since 1970 */
export function when(at) {
  const then = new Date(at * 1_000);
  const now = new Date();
  if (then.toDateString() === now.toDateString()) return clock.format(then);
  return (then.getFullYear() === now.getFullYear() ? day : dayWithYear).format(then);
}

/** @param {number} at */
export function moment(at) {
  const then = new Date(at * 1_000);
  return `${dayWithYear.format(then)}, ${clockExact.format(then)}`;
}

/** @param {number} at */
export function timeOfDay(at) {
  return clockExact.format(new Date(at * 1_000));
}

/** Format the time since a moment. @param {number} at @param {number} [now] */
export function ago(at, now = Date.now() / 1_000) {
  return `${lasting(Math.max(0, now - at))} ago`;
}

/** @param {number} seconds */
export function lasting(seconds) {
  if (seconds < 1) return "a moment";
  if (seconds < 90) return counted(Math.round(seconds), "second");
  if (seconds < 5_400) return counted(Math.round(seconds / 60), "minute");
  if (seconds < 129_600) return counted(Math.round(seconds / 3_600), "hour");
  return counted(Math.round(seconds / 86_400), "day");
}

/** Format the time since a moment in two or three characters. @param {number} at @param {number} [now] */
export function age(at, now = Date.now() / 1_000) {
  const seconds = Math.max(0, now - at);
  if (seconds < 60) return "now";
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`;
  if (seconds < 86_400 * 60) return `${Math.floor(seconds / 86_400)}d`;
  return `${Math.floor(seconds / (86_400 * 30))}mo`;
}

/** Format a short duration. @param {number} seconds */
export function took(seconds) {
  if (seconds > 0 && seconds < 0.0095) return `${(seconds * 1_000).toFixed(1)} ms`;
  if (seconds < 0.95) return `${Math.round(seconds * 1_000)} ms`;
  if (seconds < 59.5) return `${trimmed(seconds)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${trimmed(seconds / 3_600)} h`;
}

/** Format an amount of money, as short as possible without rounding it to zero. @param {number} usd */
export function money(usd) {
  if (usd === 0) return "$0";
  if (usd >= 1) return `$${usd.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return usd >= 0.0001 ? `$${usd.toFixed(usd >= 0.01 ? 2 : 4)}` : "<$0.0001";
}

/** @param {number} share between 0 and 1, or more */
export const percent = (share) => `${Math.round(share * 100)} %`;
