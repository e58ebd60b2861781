/**
 * Attachments of a message: a thumbnail for images, the full image on click, and a download button.
 *
 * The bytes are fetched with the user's key, so there is no plain image address. Only content that the gateway sniffed as
 * an image is shown; everything else is a download, never opened.
 */

import { request, at } from "./api.js";
import { attempt, openDialog } from "./dialogs.js";
import { el } from "./dom.js";
import { save } from "./files.js";
import { icon } from "./icons.js";
import { plain } from "./plain.js";
import { mediaInWords } from "./record_text.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** Limit of thumbnails that load automatically: a photograph, not a large scan. */
const BYTES_MAX = 8 * 2 ** 20;
/** Decoding so many pixels takes 160 MB, whatever the size of the file. */
const PIXELS_MAX = 40_000_000;
/** Bytes of cached images, so that scrolling back fetches none again. */
const CACHE_BYTES_MAX = 32 * 2 ** 20;

/** @type {Map<string, { size: number, content: Promise<Blob> }>} by SHA-256, the newest last */
const cache = new Map();

/** @typedef {{ key: string, seq: number }} Place the session and record of an attachment */

/** Draw an attachment. @param {any} part @param {Place | null} place null if unknown: then only its description */
export function drawAttachment(part, place) {
  const words = el("span", {}, plain(mediaInWords(part)));
  if (!place) return el("p", { class: "chip" }, icon("attach"), words);
  const name = part.name || `${part.blob.sha256.slice(0, 12)}.${part.media_type?.split("/")[1] ?? "txt"}`;
  const label = `Save ${name}`;
  const saving = () => attempt(async () => save(await fetched(part, place), name));
  return el(
    "figure",
    { class: "attached" },
    isPicture(part) ? thumbnail(part, place, name) : null,
    el(
      "figcaption",
      { class: "chip" },
      icon("attach"),
      words,
      el(
        "button",
        { type: "button", class: "quiet icon-button", "aria-label": label, title: label, on: { click: saving } },
        icon("download"),
      ),
    ),
  );
}

/** @param {any} part */
function isPicture(part) {
  const pixels = (part.width_pixels ?? 0) * (part.height_pixels ?? 0);
  return PICTURES.has(part.media_type) && part.blob.size_bytes <= BYTES_MAX && pixels <= PIXELS_MAX;
}

/** @param {any} part @param {Place} place @param {string} name */
function thumbnail(part, place, name) {
  const open = () => openDialog(name, () => [el("div", { class: "picture" }, image(part, place, name))], { wide: true });
  return el(
    "button",
    { type: "button", class: "thumb", "aria-label": `Show ${name}`, "data-opens": "picture", on: { click: open } },
    image(part, place, ""),
  );
}

/** @param {any} part @param {Place} place @param {string} words alternative text */
function image(part, place, words) {
  const drawn = el("img", { alt: words, decoding: "async" });
  const failed = () => drawn.replaceWith(el("span", { class: "faint" }, "It cannot be shown."));
  drawn.addEventListener("error", failed);
  cachedContent(part, place).then((content) => {
    if (!PICTURES.has(content.type)) return failed();
    const address = URL.createObjectURL(content);
    for (const end of ["load", "error"]) drawn.addEventListener(end, () => URL.revokeObjectURL(address));
    drawn.src = address;
  }, failed);
  return drawn;
}

/** @param {any} part @param {Place} place @returns {Promise<Blob>} */
function cachedContent(part, place) {
  const { sha256, size_bytes: size } = part.blob;
  const content = cache.get(sha256)?.content ?? fetched(part, place);
  cache.delete(sha256);
  cache.set(sha256, { size, content });
  // A failed fetch is retried at the next draw.
  content.catch(() => cache.delete(sha256));
  let sum = [...cache.values()].reduce((all, one) => all + one.size, 0);
  for (const [oldest, one] of cache) {
    if (sum <= CACHE_BYTES_MAX) break;
    cache.delete(oldest);
    sum -= one.size;
  }
  return content;
}

/** @param {any} part @param {Place} place @returns {Promise<Blob>} */
async function fetched(part, { key, seq }) {
  const response = await request(at(key, `/records/${seq}/attachments/${part.blob.sha256}`));
  return response.blob();
}
