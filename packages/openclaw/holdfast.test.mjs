import assert from "node:assert/strict";
import { createServer } from "node:http";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { programPath, run, startGateway } from "../testing/gateway.mjs";
import register, { Gateway, GatewayError, contextEngine } from "./holdfast.mjs";

let gateway;
before(async () => (gateway = await startGateway({ window: 6_000 })));
after(async () => await gateway.stop());

const user = (text) => ({ role: "user", content: [{ type: "text", text }], timestamp: 1 });
const answer = (...content) => ({ role: "assistant", content, api: "openai-completions", provider: "local", model: "m" });
const text = (value) => ({ type: "text", text: value });
const texts = (messages) => messages.flatMap((one) => one.content.map((block) => block.text ?? block.name));

test("a committed turn comes back with its calls and results, and a retry is a duplicate", async () => {
  const engine = contextEngine(new Gateway({ url: gateway.url }));
  const call = { type: "toolCall", id: "call-1", name: "depth", arguments: { place: "Kiel" } };
  const result = { role: "toolResult", toolCallId: "call-1", toolName: "depth", content: [text("12 fathoms")], isError: true };
  const messages = [user("How deep is it?"), answer(text("Let me look."), call), result, answer(text("12 fathoms."))];
  const turn = { advancementKey: "turn-1", sessionId: "s-1", messages };
  assert.deepEqual(await engine.assemble({ sessionId: "s-1", messages: [], tokenBudget: 5_000 }), {
    messages: [],
    estimatedTokens: 1,
  });
  assert.deepEqual(await engine.commitTurn(turn), { status: "committed" });
  assert.deepEqual(await engine.commitTurn(turn), { status: "duplicate" });
  const assembled = await engine.assemble({ sessionId: "s-1", messages, tokenBudget: 5_000 });
  const shape = assembled.messages.map(({ role, content, toolCallId, toolName, isError, stopReason, model }) =>
    JSON.parse(JSON.stringify({ role, content, toolCallId, toolName, isError, stopReason, model })),
  );
  assert.deepEqual(shape, [
    { role: "user", content: [text("How deep is it?")] },
    { role: "assistant", content: [text("Let me look."), call], stopReason: "toolUse", model: "m" },
    { role: "toolResult", toolCallId: "call-1", toolName: "depth", content: [text("12 fathoms")], isError: true },
    { role: "assistant", content: [text("12 fathoms.")], stopReason: "stop", model: "m" },
  ]);
  assert.ok(assembled.estimatedTokens > 10);
});

test("a session that outgrows the budget is shown within it, newest messages whole", async () => {
  const engine = contextEngine(new Gateway({ url: gateway.url }));
  for (let number = 0; number < 12; number++) {
    const filler = "The tide is high. ".repeat(100);
    const messages = [user(`remember key${number} = value${number}. ${filler}`), answer(text("ok"))];
    await engine.commitTurn({ advancementKey: `turn-${number}`, sessionId: "s-2", messages });
  }
  const assembled = await engine.assemble({ sessionId: "s-2", messages: [], tokenBudget: 2_500 });
  assert.ok(assembled.estimatedTokens <= 2_500, String(assembled.estimatedTokens));
  const shown = texts(assembled.messages);
  assert.match(shown[0], /^<earlier-conversation>/);
  const known = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].filter((number) => shown[0].includes(`value${number}`));
  assert.ok(known.length >= 5, `known of ten: ${known}`);
  assert.match(shown[1], /^remember key\d+/);
  assert.match(shown.at(-2), /^remember key11 = value11/);
  assert.ok(shown.length > 4);
  // A budget below the newest message is an error that says so.
  await assert.rejects(engine.assemble({ sessionId: "s-2", messages: [], tokenBudget: 50 }), /raise it/);
  const again = await engine.compact({ sessionId: "s-2" });
  assert.deepEqual([again.ok, again.compacted], [true, false]);
  const none = await engine.compact({ sessionId: "s-none" });
  assert.deepEqual(none, { ok: true, compacted: false, reason: "no turn is committed yet" });
});

test("heartbeats are stored with their mark, once, and an answer alone is not", async () => {
  const engine = contextEngine(new Gateway({ url: gateway.url }));
  const turn = { advancementKey: "beat-1", sessionId: "s-3", messages: [user("HEARTBEAT"), answer(text("ok"))] };
  assert.deepEqual(await engine.commitTurn({ ...turn, isHeartbeat: true }), { status: "committed" });
  assert.deepEqual(await engine.commitTurn({ ...turn, isHeartbeat: true }), { status: "duplicate" });
  const alone = { advancementKey: "beat-2", sessionId: "s-3", messages: [answer(text("still here"))] };
  assert.deepEqual(await engine.commitTurn({ ...alone, isHeartbeat: true }), { status: "committed" });
  const { records } = await gateway.get("/api/sessions/openclaw%3As-3/records");
  const kept = records.map(({ record }) => [record.role, Boolean(record.is_heartbeat)]);
  assert.deepEqual(kept, [["user", true], ["assistant", false]]);
});

test("a gateway is asked for a budget, and an error of it is the host's", async () => {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    const isBroken = request.url.includes("broken");
    response.writeHead(isBroken ? 503 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify({ messages: [{ role: "user", parts: [text("the past")] }], tokens_estimated: 3 }));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const engine = contextEngine(new Gateway({ url: `http://127.0.0.1:${server.address().port}` }));
  const assembled = await engine.assemble({ sessionId: "s-4", messages: [], tokenBudget: 900.5 });
  assert.deepEqual(asked, ["/api/sessions/openclaw%3As-4/context?max_tokens=900"]);
  assert.deepEqual([texts(assembled.messages), assembled.estimatedTokens], [["the past"], 3]);
  await assert.rejects(engine.assemble({ sessionId: "broken", messages: [], tokenBudget: 9 }), GatewayError);
  server.close();
});

test("the plugin registers one engine with the settings of its entry", () => {
  const engines = {};
  const registerContextEngine = (id, make) => (engines[id] = make());
  register({ registerContextEngine, pluginConfig: { url: gateway.url } });
  assert.equal(engines.holdfast.info.ownsCompaction, true);
});

const openclaw = programPath("openclaw");
const isAsked = process.env.PACKAGES_SLOW_HOSTS === "1";
const skip = (!openclaw && "openclaw is not installed") || (!isAsked && "minutes; PACKAGES_SLOW_HOSTS=1 runs it");
test("OpenClaw itself loads the engine, commits its turns and asks with them", { skip }, async () => {
  await gateway.stop();
  // Its system text and tools alone take 17,000 tokens.
  gateway = await startGateway({ window: 60_000 });
  const home = join(gateway.folder, "home");
  mkdirSync(join(home, ".openclaw"), { recursive: true });
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const model = { id: "model-1", name: "model-1", reasoning: false, input: ["text"], cost, contextWindow: 200_000, maxTokens: 400 };
  const config = {
    models: {
      mode: "replace",
      providers: {
        local: { baseUrl: `${gateway.model}/v1`, apiKey: "test-key", api: "openai-completions", models: [model] },
      },
    },
    agents: { defaults: { model: { primary: "local/model-1" }, workspace: join(home, "work") } },
    plugins: {
      load: { paths: [dirname(fileURLToPath(import.meta.url))] },
      slots: { contextEngine: "holdfast" },
      entries: { holdfast: { enabled: true, config: { url: gateway.url } } },
    },
  };
  writeFileSync(join(home, ".openclaw/openclaw.json"), JSON.stringify(config));
  const env = { HOME: home, OPENCLAW_DISABLE_TELEMETRY: "1", OPENCLAW_SKIP_UPDATE_CHECK: "1" };
  const say = async (text) => {
    const words = ["agent", "--local", "--agent", "main", "--session-id", "t1", "--message", text];
    return await run(openclaw, words, { cwd: home, env });
  };
  const told = await say("remember berth = 17");
  assert.match(told, /I will remember that berth = 17/, told);
  const found = await gateway.get("/api/search?query=berth");
  assert.ok(found.hits.some((hit) => hit.session === "openclaw:t1"), told);
  assert.match(await say("what is berth?"), /berth = 17/);
  const { records } = await gateway.get("/api/sessions/openclaw%3At1/records");
  assert.match(JSON.stringify(records), /what is berth/);
});
