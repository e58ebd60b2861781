// @ts-check
/** A gateway with the simulated model behind it, as processes of their own, for the tests of all packages. */

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

/** The program: `holdfast` on the PATH, or the words in PACKAGES_COMMAND as a JSON list. */
const COMMAND = JSON.parse(process.env.PACKAGES_COMMAND ?? '["holdfast"]');

/**
 * @param {string[]} words
 * @param {Record<string, string>} [variables]
 * @returns {Promise<{url: string, stop: () => Promise<void>}>}
 */
async function serve(words, variables = {}) {
  const [program, ...first] = COMMAND;
  // Settings of the developer's own shell are not those of the test.
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
  const child = spawn(program, [...first, ...words], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...Object.fromEntries(inherited), ...variables },
  });
  let errors = "";
  child.stderr.on("data", (piece) => (errors = (errors + piece).slice(-2_000)));
  const ended = new Promise((resolve) => child.once("exit", resolve));
  for await (const line of createInterface({ input: child.stdout })) {
    const url = line.match(/http:\/\/127\.0\.0\.1:\d+/)?.[0];
    if (!url) continue;
    child.stdout.resume();
    const stop = async () => {
      child.kill();
      await ended;
    };
    return { url, stop };
  }
  throw new Error(`${words[0]} ended with ${await ended} before it was ready: ${errors}`);
}

/**
 * Start a gateway; `window` is that of its model.
 * @param {{window?: number}} [options]
 */
export async function startGateway(options = {}) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-packages-"));
  const window = String(options.window ?? 16_000);
  const model = await serve(["sim", "--window", window, "--output", "400"]);
  const set = [
    `upstream.openai_base_url=${model.url}/v1`,
    `upstream.anthropic_base_url=${model.url}`,
    "gateway.port=0",
  ];
  const words = ["serve", "--store", join(folder, "store.db"), ...set.flatMap((one) => ["--set", one])];
  const gateway = await serve(words, { HOME: folder }).catch(async (error) => {
    await model.stop();
    throw error;
  });
  return {
    folder,
    url: gateway.url,
    model: model.url,
    async stop() {
      await gateway.stop();
      await model.stop();
      rmSync(folder, { recursive: true, force: true });
    },
    /** @param {string} path */
    async get(path) {
      const answer = await fetch(gateway.url + path);
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return await answer.json();
    },
    /** Return the keys of sessions. */
    async sessions() {
      const found = await this.get("/api/sessions?limit=100");
      return found.sessions.map((/** @type {{key: string}} */ one) => one.key);
    },
  };
}

/**
 * Send chat messages to a gateway, and return the answer.
 * @param {string} url
 * @param {{role: string, content: string}[]} messages
 * @param {Record<string, string>} [headers]
 */
export async function chat(url, messages, headers = {}) {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer test-key", ...headers },
    body: JSON.stringify({ model: "model-1", messages }),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(JSON.stringify(body));
  return { text: body.choices[0].message.content, headers: answer.headers };
}

/**
 * Return the path of a program, or "".
 * @param {string} name
 */
export function programPath(name) {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path)) ?? "";
}

/**
 * Run a program to its end with its message on standard input, and return its output.
 * @param {string} path
 * @param {string[]} words
 * @param {{cwd: string, env: Record<string, string>, input?: string}} options
 * @returns {Promise<string>}
 */
export async function run(path, words, options) {
  const env = { PATH: process.env.PATH ?? "", TERM: "dumb", LANG: "C.UTF-8", ...options.env };
  const child = spawn(path, words, { cwd: options.cwd, env, stdio: ["pipe", "pipe", "pipe"], timeout: 180_000 });
  let output = "";
  child.stdout.on("data", (piece) => (output += piece));
  child.stderr.on("data", (piece) => (output += piece));
  child.stdin.end(options.input ?? "");
  await new Promise((resolve) => child.once("close", resolve));
  return output;
}
