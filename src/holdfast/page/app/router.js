/** Hash router: every view has an address, and the back button works. */

/** @typedef {{ view: string, key: string, tab: string, rest: string }} Place */

/** @returns {Place} */
export function place() {
  const [view = "", ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (view === "s") return { view: "session", key: parts[0] ?? "", tab: parts[1] || "timeline", rest: parts[2] ?? "" };
  if (view === "search") return { view: "search", key: "", tab: "", rest: parts[0] ?? "" };
  const names = { health: "health", home: "overview" };
  return { view: names[/** @type {keyof typeof names} */ (view)] ?? "home", key: "", tab: "", rest: "" };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a session or of a part of it. @param {string} key @param {...(string | number)} parts */
export function toSession(key, ...parts) {
  return `#/s/${[key, ...parts].map((part) => encodeURIComponent(String(part))).join("/")}`;
}

/** @param {string} query */
export const toSearch = (query) => `#/search/${encodeURIComponent(query)}`;

/** @param {string} address */
export function go(address) {
  location.hash = address;
}

/** @param {() => void} listener */
export function onPlace(listener) {
  window.addEventListener("hashchange", listener);
}
