/** Export of several sessions as one zip file. */

import { downloadZip } from "../vendor/client-zip.js";
import { at, request } from "./api.js";

/** @param {string[]} keys @returns {Promise<Blob>} */
export function zipped(keys) {
  return downloadZip(files(keys)).blob();
}

/** @param {string[]} keys */
async function* files(keys) {
  /** @type {Map<string, number>} */
  const used = new Map();
  for (const key of keys) {
    const response = await request(at(key, "/export"));
    const name = key.replace(/[^\p{L}\p{N}.@_-]+/gu, "_");
    const times = used.get(name) ?? 0;
    used.set(name, times + 1);
    yield { name: `${name}${times ? `-${times + 1}` : ""}.jsonl`, input: response };
  }
}
