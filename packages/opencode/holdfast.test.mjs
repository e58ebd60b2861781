import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { chat, programPath, run, startGateway } from "../testing/gateway.mjs";
import { Holdfast } from "./holdfast.mjs";

let gateway;
before(async () => (gateway = await startGateway()));
after(async () => await gateway.stop());

const provider = () => ({ options: { baseURL: `${gateway.url}/v1` } });

test("a request names its session, and the gateway keeps it under this name", async () => {
  const hooks = await Holdfast({}, { url: gateway.url });
  const output = { headers: {} };
  await hooks["chat.headers"]({ sessionID: "ses_1", agent: "build", model: {}, provider: provider() }, output);
  assert.deepEqual(output.headers, { "x-holdfast-session": "opencode-ses_1" });
  await chat(gateway.url, [{ role: "user", content: "remember harbour = Kiel" }], output.headers);
  assert.ok((await gateway.sessions()).includes("dropin:opencode-ses_1"));
});

test("other providers and requests for a title get no header", async () => {
  const hooks = await Holdfast({}, { url: gateway.url, key: "hf-1" });
  const headers = async (agent, address) => {
    const output = { headers: {} };
    await hooks["chat.headers"]({ sessionID: "s", agent, model: {}, provider: { options: { baseURL: address } } }, output);
    return output.headers;
  };
  assert.deepEqual(await headers("build", "https://api.example.com/v1"), {});
  assert.deepEqual(await headers("build", undefined), {});
  assert.deepEqual(await headers("title", `${gateway.url}/v1`), {});
  assert.equal((await headers("build", `${gateway.url}/v1`))["x-holdfast-key"], "hf-1");
});

test("opencode's compaction is off for a model behind the gateway only", async () => {
  const hooks = await Holdfast({}, { url: gateway.url, mcp: true });
  const behind = { model: "local/model-1", provider: { local: provider() }, compaction: { prune: true } };
  await hooks.config(behind);
  assert.deepEqual(behind.compaction, { prune: true, auto: false });
  assert.deepEqual(behind.mcp.holdfast.command, ["holdfast", "mcp"]);
  const other = { model: "anthropic/claude", provider: { local: provider() } };
  await (await Holdfast({}, { url: gateway.url })).config(other);
  assert.equal(other.compaction, undefined);
  const kept = { model: "local/model-1", provider: { local: provider() } };
  await (await Holdfast({}, { url: gateway.url, compaction: true })).config(kept);
  assert.equal(kept.compaction, undefined);
});

const opencode = programPath("opencode");
test("opencode itself loads the plugin and sends its exact session id", { skip: !opencode && "opencode is not installed" }, async () => {
  const home = join(gateway.folder, "home");
  const work = join(home, "work");
  mkdirSync(join(home, ".config/opencode"), { recursive: true });
  mkdirSync(work);
  const limit = { context: 16_000, output: 400 };
  const config = {
    autoupdate: false,
    share: "disabled",
    model: "local/model-1",
    small_model: "local/model-1",
    enabled_providers: ["local"],
    plugin: [[fileURLToPath(new URL("./holdfast.mjs", import.meta.url)), { url: gateway.url }]],
    provider: {
      local: {
        npm: "@ai-sdk/openai-compatible",
        options: { baseURL: `${gateway.url}/v1`, apiKey: "test-key" },
        models: { "model-1": { limit } },
      },
    },
  };
  writeFileSync(join(home, ".config/opencode/opencode.json"), JSON.stringify(config));
  const off = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"];
  const env = { HOME: home, ...Object.fromEntries(off.map((name) => [`OPENCODE_DISABLE_${name}`, "1"])) };
  const told = await run(opencode, ["run"], { cwd: work, env, input: "remember berth = 17" });
  assert.match(told, /I will remember that berth = 17/, told);
  const listed = JSON.parse(await run(opencode, ["session", "list", "--format", "json"], { cwd: work, env }));
  assert.ok((await gateway.sessions()).includes(`dropin:opencode-${listed[0].id}`));
});
