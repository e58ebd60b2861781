/** Client of the gateway's API: requests with the user's key, and problem responses as errors. */

const KEY = "holdfast-key";

/** An error response of the gateway, or a network error. */
export class Problem extends Error {
  /** @param {number} status 0 for a network error @param {string} code @param {string} detail */
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }

  /** True if a retry may succeed. */
  get isTransient() {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

/** The user's key, stored for this tab until it is closed. */
export const gatewayKey = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  /** @param {string} key */
  set: (key) => (key ? sessionStorage.setItem(KEY, key) : sessionStorage.removeItem(KEY)),
};

/** @type {Set<() => void>} */
const unauthorized = new Set();

/** Register a listener for 401 responses. @param {() => void} listener */
export function onUnauthorized(listener) {
  unauthorized.add(listener);
}

/** @param {string} path @param {RequestInit} [init] @returns {Promise<Response>} */
export async function request(path, init = {}) {
  const headers = new Headers(init.headers);
  if (gatewayKey.get()) headers.set("authorization", `Bearer ${gatewayKey.get()}`);
  let response;
  try {
    response = await fetch(path, { ...init, headers, credentials: "omit", cache: "no-store", redirect: "error" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem(0, "unreachable", "the gateway is unreachable; the page retries");
  }
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401) for (const listener of unauthorized) listener();
  throw problem;
}

/** @param {Response} response */
async function problemOf(response) {
  try {
    const problem = await response.json();
    return new Problem(response.status, String(problem.code ?? ""), String(problem.detail ?? response.statusText));
  } catch {
    return new Problem(response.status, "", `the gateway returned status ${response.status}`);
  }
}

/**
 * @param {string} path
 * @param {Record<string, string | number | boolean | undefined>} [query]
 * @param {AbortSignal} [signal]
 */
export async function get(path, query = {}, signal) {
  return (await request(path + queryOf(query), { signal })).json();
}

/** @param {string} method @param {string} path @param {object} [body] */
export async function send(method, path, body) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body), headers: JSON_TYPE };
  const response = await request(path, init);
  return response.status === 204 ? null : response.json();
}

const JSON_TYPE = { "content-type": "application/json" };

/** @param {Record<string, string | number | boolean | undefined>} query */
export function queryOf(query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

/** The API address of a session or of a resource below it. @param {string} key @param {string} [below] */
export function at(key, below = "") {
  return `/api/sessions/${encodeURIComponent(key)}${below}`;
}
