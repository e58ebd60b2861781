import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { startGateway } from "../testing/gateway.mjs";
import { holdfast } from "./holdfast.mjs";

let gateway;
before(async () => (gateway = await startGateway({ window: 4_000 })));
after(async () => await gateway.stop());

test("a call gets the headers of its session, and keeps its own", async () => {
  const middleware = holdfast({ session: (params) => params.user, key: "hf-1" });
  const given = { user: "chat-1", headers: { "x-own": "1" }, providerOptions: { openai: { store: false } } };
  const params = await middleware.transformParams({ params: given });
  assert.deepEqual(params.headers, { "x-own": "1", "x-holdfast-session": "chat-1", "x-holdfast-key": "hf-1" });
  assert.deepEqual(params.providerOptions, { openai: { store: false } });
  const named = { params: { providerOptions: { holdfast: { session: "chat-2" } } } };
  const chosen = await holdfast({ session: "chat-1" }).transformParams(named);
  assert.deepEqual(chosen, { providerOptions: {}, headers: { "x-holdfast-session": "chat-2" } });
  const untouched = { prompt: [] };
  assert.equal(await holdfast().transformParams({ params: untouched }), untouched);
});

/** The SDK from the folder in PACKAGES_NODE_MODULES, or from here. */
async function sdk() {
  try {
    const require = createRequire(`${process.env.PACKAGES_NODE_MODULES ?? "."}/index.js`);
    const load = async (name) => await import(pathToFileURL(require.resolve(name)).href);
    return { ai: await load("ai"), provider: await load("@ai-sdk/openai-compatible") };
  } catch {
    return undefined;
  }
}

const found = await sdk();
const skip = !found && "the packages ai and @ai-sdk/openai-compatible are not installed";
test("the SDK itself keeps a conversation beyond the window, in one session", { skip }, async () => {
  const { generateText, streamText, wrapLanguageModel } = found.ai;
  const create = found.provider.createOpenAICompatible;
  const rescues = [];
  const model = wrapLanguageModel({
    model: create({ name: "local", baseURL: `${gateway.url}/v1`, apiKey: "test-key" })("model-1"),
    middleware: holdfast({ session: "ai-1", onRescue: (rescue) => rescues.push(rescue) }),
  });
  const messages = [];
  for (let number = 0; number < 8; number++) {
    const content = `remember key${number} = value${number}. ${"The tide is high. ".repeat(200)}`;
    messages.push({ role: "user", content });
    const answer = await generateText({ model, messages, maxOutputTokens: 200 });
    messages.push({ role: "assistant", content: answer.text });
  }
  messages.push({ role: "user", content: "what is key0?" });
  const stream = streamText({ model, messages, maxOutputTokens: 200 });
  let told = "";
  for await (const piece of stream.textStream) told += piece;
  assert.match(told, /key0 = value0/);
  assert.ok(rescues.length >= 1);
  assert.equal(rescues[0].session, "dropin:ai-1");
  assert.ok(rescues[0].codes && rescues[0].notice);
  assert.deepEqual(await gateway.sessions(), ["dropin:ai-1"]);
});
