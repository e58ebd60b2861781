/** The gateway's API: requests with the key of whoever looks on, and problems in the gateway's own words. */

const KEY = "holdfast-key";

/** What the gateway, or the way to it, answered instead. */
export class Problem extends Error {
  /** @param {number} status 0 where nothing answered @param {string} code @param {string} detail */
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }

  /** Whether the same request may be answered later. */
  get isPassing() {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

/** The key of whoever looks on, kept for this tab alone and until it is closed. */
export const gatewayKey = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  /** @param {string} key */
  set: (key) => (key ? sessionStorage.setItem(KEY, key) : sessionStorage.removeItem(KEY)),
};

/** @type {Set<() => void>} */
const unauthorized = new Set();

/** Be told when the gateway asks for a key. @param {() => void} listener */
export function onUnauthorized(listener) {
  unauthorized.add(listener);
}

/** @param {string} path @param {RequestInit} [init] @returns {Promise<Response>} */
export async function ask(path, init = {}) {
  const headers = new Headers(init.headers);
  if (gatewayKey.get()) headers.set("authorization", `Bearer ${gatewayKey.get()}`);
  let response;
  try {
    response = await fetch(path, { ...init, headers, credentials: "omit", cache: "no-store", redirect: "error" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem(0, "unreachable", "the gateway cannot be reached; it is asked again as soon as it is back");
  }
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401) for (const listener of unauthorized) listener();
  throw problem;
}

/** @param {Response} response */
async function problemOf(response) {
  try {
    const told = await response.json();
    return new Problem(response.status, String(told.code ?? ""), String(told.detail ?? response.statusText));
  } catch {
    return new Problem(response.status, "", `the gateway answered with the status ${response.status}`);
  }
}

/**
 * @param {string} path
 * @param {Record<string, string | number | boolean | undefined>} [query]
 * @param {AbortSignal} [signal]
 */
export async function get(path, query = {}, signal) {
  return (await ask(path + queryOf(query), { signal })).json();
}

/** @param {string} method @param {string} path @param {object} [body] */
export async function tell(method, path, body) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body), headers: JSON_TYPE };
  const response = await ask(path, init);
  return response.status === 204 ? null : response.json();
}

const JSON_TYPE = { "content-type": "application/json" };

/** @param {Record<string, string | number | boolean | undefined>} query */
export function queryOf(query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

/** The address of a session, or of something below it. @param {string} key @param {string} [below] */
export function at(key, below = "") {
  return `/api/sessions/${encodeURIComponent(key)}${below}`;
}
