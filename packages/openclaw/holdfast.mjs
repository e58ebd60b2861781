// @ts-check
/**
 * OpenClaw context engine: turns are stored in a Holdfast gateway, and the gateway returns the messages that fit.
 *
 * A turn is appended once, whatever the host repeats: the gateway knows its key. A failure here is an error for the
 * host, which then continues with its own engine.
 *
 * @typedef {{role: string, content: any, [name: string]: any}} AgentMessage
 * @typedef {{type: string, [name: string]: any}} Part
 * @typedef {{url?: string, key?: string, seconds?: number}} Options
 */

const SECONDS = 60;
const MESSAGES_MAX = 1_000;

/** A gateway's native API. */
export class Gateway {
  /** @param {Options} [options] */
  constructor(options = {}) {
    this.url = new URL(options.url ?? process.env.HOLDFAST_URL ?? "http://127.0.0.1:8712");
    this.key = options.key ?? process.env.HOLDFAST_KEY ?? "";
    this.seconds = options.seconds ?? SECONDS;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {AbortSignal} [signal]
   */
  async request(method, path, body, signal) {
    /** @type {Record<string, string>} */
    const headers = { "content-type": "application/json" };
    if (this.key) headers.authorization = `Bearer ${this.key}`;
    const limit = AbortSignal.timeout(this.seconds * 1_000);
    const answer = await fetch(new URL(`/api${path}`, this.url), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    const text = await answer.text();
    if (!answer.ok) throw new GatewayError(answer.status, `${method} ${path}: ${answer.status} ${text.slice(0, 500)}`);
    return text ? JSON.parse(text) : {};
  }

  /**
   * Append messages without running a turn; false if they were appended before.
   * @param {string} session
   * @param {AgentMessage[]} messages
   * @param {string} clientId
   * @param {boolean} [isHeartbeat] No summary reads the messages.
   */
  async append(session, messages, clientId, isHeartbeat = false) {
    const found = messages.map(asGiven).filter((one) => one.parts.length);
    const given = isHeartbeat ? found.map((one) => (one.role === "user" ? { ...one, is_heartbeat: true } : one)) : found;
    // An answer belongs to the message before it: without one of its own, a heartbeat would extend another turn.
    if (!given.length || (isHeartbeat && given[0].role !== "user")) return true;
    if (given.length > MESSAGES_MAX) throw new Error(`a turn has ${given.length} messages; the gateway takes ${MESSAGES_MAX}`);
    const done = await this.request("POST", `/sessions/${encodeURIComponent(session)}/append`, {
      messages: given,
      client_id: clientId,
    });
    return Boolean(done.is_new);
  }

  /**
   * Return what the model should see, within a budget in tokens; without one, within its window.
   * @param {string} session
   * @param {number} [tokensMax]
   * @returns {Promise<{messages: any[], tokens: number}>}
   */
  async context(session, tokensMax) {
    const budget = tokensMax ? `?max_tokens=${Math.floor(tokensMax)}` : "";
    try {
      const found = await this.request("GET", `/sessions/${encodeURIComponent(session)}/context${budget}`);
      return { messages: found.messages, tokens: found.tokens_estimated };
    } catch (error) {
      // A session without a committed turn.
      if (error instanceof GatewayError && error.status === 404) return { messages: [], tokens: 0 };
      throw error;
    }
  }

  /**
   * @param {string} session
   * @param {string} [focus]
   * @param {AbortSignal} [signal]
   */
  async compact(session, focus, signal) {
    const path = `/sessions/${encodeURIComponent(session)}/compact`;
    return await this.request("POST", path, { focus: focus ?? "" }, signal);
  }
}

/** An error response of the gateway. */
export class GatewayError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** @param {any} content */
const textOf = (content) =>
  typeof content === "string"
    ? content
    : (content ?? []).map((/** @type {any} */ one) => one.text ?? `[${one.type ?? "content"}]`).join("\n");

/**
 * Return a message of the host in the gateway's form. Images stay with the host; a line takes their place.
 * @param {AgentMessage} message
 */
export function asGiven(message) {
  if (message.role === "toolResult") {
    const part = { type: "tool_result", call_id: message.toolCallId, text: textOf(message.content) };
    return { role: "tool", parts: [{ ...part, is_failure: Boolean(message.isError) }] };
  }
  const blocks = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content ?? [];
  /** @type {Part[]} */
  const parts = [];
  for (const block of blocks) {
    if (block.type === "text" && block.text) parts.push({ type: "text", text: block.text });
    else if (block.type === "toolCall") {
      const given = JSON.stringify(block.arguments ?? {});
      parts.push({ type: "tool_call", call_id: block.id, name: block.name, arguments: given });
    } else if (block.type === "image") parts.push({ type: "text", text: "[image]" });
  }
  return { role: message.role === "assistant" ? "assistant" : "user", parts };
}

/**
 * Return a message of the gateway in the host's form: results are messages of their own.
 * @param {any} message
 * @param {Map<string, string>} names Names of tools by call, filled here.
 * @param {Partial<AgentMessage>} answer Fields of an answer beside its content.
 * @returns {AgentMessage[]}
 */
export function asHost(message, names, answer) {
  const timestamp = Date.now();
  const results = message.parts.filter((/** @type {Part} */ part) => part.type === "tool_result");
  if (results.length) {
    return results.map((/** @type {Part} */ part) => ({
      role: "toolResult",
      toolCallId: part.call_id,
      toolName: names.get(part.call_id) ?? "",
      content: part.parts.map((/** @type {Part} */ one) => ({ type: "text", text: one.text ?? one.head ?? "[media]" })),
      isError: (part.outcome ?? "done") !== "done",
      timestamp,
    }));
  }
  /** @type {any[]} */
  const content = [];
  for (const part of message.parts) {
    if (part.type === "text") content.push({ type: "text", text: part.text });
    else if (part.type === "large_text") content.push({ type: "text", text: part.head });
    else if (part.type === "tool_call") {
      names.set(part.call_id, part.name);
      content.push({ type: "toolCall", id: part.call_id, name: part.name, arguments: parsed(part.arguments) });
    }
  }
  if (!content.length) return [];
  if (message.role !== "assistant") return [{ role: "user", content, timestamp }];
  const stopReason = content.some((one) => one.type === "toolCall") ? "toolUse" : "stop";
  return [{ ...answer, role: "assistant", content, stopReason, timestamp }];
}

/** @param {string} text */
function parsed(text) {
  try {
    const found = JSON.parse(text);
    return found && typeof found === "object" && !Array.isArray(found) ? found : { arguments: found };
  } catch {
    return { arguments: text };
  }
}

/** @param {any[]} messages */
const estimated = (messages) => Math.ceil(JSON.stringify(messages).length / 4);

/** @param {AgentMessage[]} messages */
function answerFields(messages) {
  const newest = messages.findLast((one) => one.role === "assistant");
  const none = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const usage = { ...none, totalTokens: 0, cost: { ...none, total: 0 } };
  return { api: newest?.api ?? "", provider: newest?.provider ?? "", model: newest?.model ?? "", usage };
}

/**
 * Return an engine over a gateway.
 * @param {Gateway} gateway
 */
export function contextEngine(gateway) {
  /** @param {{sessionId: string, sessionKey?: string}} params */
  const keyOf = (params) => `openclaw:${params.sessionId}`;
  return {
    info: {
      id: "holdfast",
      name: "Holdfast",
      version: "0.1.0",
      ownsCompaction: true,
      acceptedHostParams: ["sessionKey"],
      transcriptSemantics: {
        currentTurnFence: "before-current-turn-entry-v1",
        turnAdvancementIdempotency: "atomic-idempotent-v1",
      },
      hostRequirements: { "agent-run": { requiredCapabilities: ["assemble-before-prompt"] } },
    },

    /** Messages are stored with their turn, in `commitTurn`. */
    async ingest() {
      return { ingested: false };
    },

    /** @param {any} params */
    async commitTurn(params) {
      const isHeartbeat = Boolean(params.isHeartbeat);
      const isNew = await gateway.append(keyOf(params), params.messages, params.advancementKey, isHeartbeat);
      return { status: isNew ? "committed" : "duplicate" };
    },

    /** @param {any} params */
    async assemble(params) {
      const { messages, tokens } = await gateway.context(keyOf(params), params.tokenBudget);
      // Before the first commit, and for a session that is older than the engine, the host's own history is all there is.
      if (!messages.length) return { messages: params.messages, estimatedTokens: estimated(params.messages) };
      const names = new Map();
      const answer = answerFields(params.messages);
      return {
        messages: messages.flatMap((one) => asHost(one, names, answer)),
        estimatedTokens: tokens,
        systemPromptAddition: "Earlier messages may be summarised; [#n] cites the record of a fact.",
      };
    },

    /** @param {any} params */
    async compact(params) {
      try {
        const done = await gateway.compact(keyOf(params), params.customInstructions, params.abortSignal);
        return { ok: true, compacted: done.outcome === "applied", reason: done.why || done.outcome };
      } catch (error) {
        if (!(error instanceof GatewayError && error.status === 404)) throw error;
        return { ok: true, compacted: false, reason: "no turn is committed yet" };
      }
    },

    async dispose() {},
  };
}

/** @param {any} api */
export default function register(api) {
  const options = api.pluginConfig ?? {};
  api.registerContextEngine("holdfast", () => contextEngine(new Gateway(options)));
}
