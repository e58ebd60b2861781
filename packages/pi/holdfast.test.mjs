import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { chat, programPath, run, startGateway } from "../testing/gateway.mjs";
import holdfast from "./holdfast.mjs";

let gateway;
before(async () => (gateway = await startGateway()));
after(async () => await gateway.stop());

/** A host that keeps what an extension registers. */
function loaded(settings = {}) {
  const before = { ...process.env };
  Object.assign(process.env, { HOLDFAST_URL: gateway.url, ...settings });
  const host = { handlers: {}, tools: {} };
  host.on = (name, handler) => (host.handlers[name] = handler);
  host.registerTool = (tool) => (host.tools[tool.name] = tool);
  holdfast(host);
  process.env = before;
  return host;
}

const context = (baseUrl) => ({ model: { baseUrl }, sessionManager: { getSessionId: () => "11-22" } });

test("a request to the gateway names its session, and another one does not", async () => {
  const host = loaded({ HOLDFAST_KEY: "hf-1" });
  const event = { headers: {} };
  host.handlers.before_provider_headers(event, context("https://api.example.com"));
  assert.deepEqual(event.headers, {});
  host.handlers.before_provider_headers(event, context(`${gateway.url}/v1`));
  assert.deepEqual(event.headers, { "x-holdfast-session": "pi-11-22", "x-holdfast-key": "hf-1" });
});

test("automatic compactions are cancelled behind the gateway, a person's own is not", () => {
  const compact = loaded().handlers.session_before_compact;
  const behind = context(`${gateway.url}/v1`);
  assert.deepEqual(compact({ reason: "threshold" }, behind), { cancel: true });
  assert.deepEqual(compact({ reason: "overflow" }, behind), { cancel: true });
  assert.equal(compact({ reason: "manual" }, behind), undefined);
  assert.equal(compact({ reason: "threshold" }, context("https://api.example.com")), undefined);
});

test("the model searches earlier sessions", async () => {
  const tool = loaded().tools.search_sessions;
  await chat(gateway.url, [{ role: "user", content: "remember quay = 4711" }], { "x-holdfast-session": "pi-old" });
  const found = await tool.execute("call-1", { query: "quay" });
  assert.match(found.content[0].text, /^dropin:pi-old \[#\d+\] .*4711/s);
  const none = await tool.execute("call-2", { query: "zebra" });
  assert.equal(none.content[0].text, 'nothing found for "zebra"');
});

const pi = programPath("pi");
test("pi itself loads the extension and sends its exact session id", { skip: !pi && "pi is not installed" }, async () => {
  const home = join(gateway.folder, "home");
  const work = join(home, "work");
  mkdirSync(join(home, ".pi/agent"), { recursive: true });
  mkdirSync(work);
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const model = { id: "model-1", contextWindow: 16_000, maxTokens: 400, input: ["text"], reasoning: false, cost };
  const local = { baseUrl: `${gateway.url}/v1`, apiKey: "test-key", api: "openai-completions", models: [model] };
  writeFileSync(join(home, ".pi/agent/models.json"), JSON.stringify({ providers: { local } }));
  const extension = fileURLToPath(new URL("./holdfast.mjs", import.meta.url));
  const env = { HOME: home, HOLDFAST_URL: gateway.url, PI_OFFLINE: "1", PI_SKIP_VERSION_CHECK: "1", PI_TELEMETRY: "0" };
  const words = ["-e", extension, "-p", "--provider", "local", "--model", "model-1"];
  const told = await run(pi, words, { cwd: work, env, input: "remember berth = 17" });
  assert.match(told, /I will remember that berth = 17/, told);
  const [folder] = readdirSync(join(home, ".pi/agent/sessions"));
  const [file] = readdirSync(join(home, ".pi/agent/sessions", folder));
  const header = JSON.parse(readFileSync(join(home, ".pi/agent/sessions", folder, file), "utf8").split("\n")[0]);
  assert.ok((await gateway.sessions()).includes(`dropin:pi-${header.id}`));
});
