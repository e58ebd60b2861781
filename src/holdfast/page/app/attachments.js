/**
 * What was attached to a message: a small picture where it is one, the whole of it on request, and a way to save it.
 *
 * The bytes are asked for with the key of whoever looks on, so they come by request and not by address. Only what the
 * gateway itself found to be a picture is drawn; everything else is saved, never opened.
 */

import { ask, at } from "./api.js";
import { attempt, openDialog } from "./dialogs.js";
import { el } from "./dom.js";
import { save } from "./files.js";
import { icon } from "./icons.js";
import { plain } from "./prose.js";
import { mediaInWords } from "./words.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** What is fetched and drawn without being asked for: a photograph, not a scan of a wall. */
const BYTES_MAX = 8 * 2 ** 20;
/** A picture of so many pixels takes 160 MB while it is drawn, however few bytes it has. */
const PIXELS_MAX = 40_000_000;
/** Bytes of pictures that are kept, so that scrolling back asks for none of them again. */
const KEPT_BYTES_MAX = 32 * 2 ** 20;

/** @type {Map<string, { size: number, content: Promise<Blob> }>} by SHA-256, the newest last */
const kept = new Map();

/** @typedef {{ key: string, seq: number }} Place the session and the record that names it */

/** Draw an attachment. @param {any} part @param {Place | null} place null where nobody knows it: then it is only told */
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

/** @param {any} part @param {Place} place @param {string} words what a screen reader says */
function image(part, place, words) {
  const drawn = el("img", { alt: words, decoding: "async" });
  const failed = () => drawn.replaceWith(el("span", { class: "faint" }, "It cannot be shown."));
  drawn.addEventListener("error", failed);
  keptContent(part, place).then((content) => {
    if (!PICTURES.has(content.type)) return failed();
    const address = URL.createObjectURL(content);
    for (const end of ["load", "error"]) drawn.addEventListener(end, () => URL.revokeObjectURL(address));
    drawn.src = address;
  }, failed);
  return drawn;
}

/** @param {any} part @param {Place} place @returns {Promise<Blob>} */
function keptContent(part, place) {
  const { sha256, size_bytes: size } = part.blob;
  const content = kept.get(sha256)?.content ?? fetched(part, place);
  kept.delete(sha256);
  kept.set(sha256, { size, content });
  // What failed is asked for again when it is next drawn.
  content.catch(() => kept.delete(sha256));
  let sum = [...kept.values()].reduce((all, one) => all + one.size, 0);
  for (const [oldest, one] of kept) {
    if (sum <= KEPT_BYTES_MAX) break;
    kept.delete(oldest);
    sum -= one.size;
  }
  return content;
}

/** @param {any} part @param {Place} place @returns {Promise<Blob>} */
async function fetched(part, { key, seq }) {
  const response = await ask(at(key, `/records/${seq}/attachments/${part.blob.sha256}`));
  return response.blob();
}
