// @ts-check
/**
 * pi extension: requests to a Holdfast gateway name their session, pi's own compaction is off behind it, and the model
 * gets a tool that searches everything that was said in earlier sessions.
 *
 * Settings are environment variables: HOLDFAST_URL (http://127.0.0.1:8712), HOLDFAST_KEY (a gateway key, if there are
 * any), HOLDFAST_PI_COMPACTION=1 keeps pi's own compaction.
 */

const HITS_MAX = 10;

/** @param {any} pi */
export default function holdfast(pi) {
  const url = new URL(process.env.HOLDFAST_URL ?? "http://127.0.0.1:8712");
  const key = process.env.HOLDFAST_KEY ?? "";

  /** @param {any} ctx */
  const isGateway = (ctx) => {
    try {
      return new URL(ctx.model?.baseUrl).origin === url.origin;
    } catch {
      return false;
    }
  };

  pi.on("before_provider_headers", (/** @type {any} */ event, /** @type {any} */ ctx) => {
    if (!isGateway(ctx)) return;
    event.headers["x-holdfast-session"] = `pi-${ctx.sessionManager.getSessionId()}`;
    if (key) event.headers["x-holdfast-key"] = key;
  });

  // The gateway makes every request fit. A person's own /compact stays pi's.
  pi.on("session_before_compact", (/** @type {any} */ event, /** @type {any} */ ctx) => {
    if (isGateway(ctx) && event.reason !== "manual" && !process.env.HOLDFAST_PI_COMPACTION) return { cancel: true };
  });

  pi.registerTool({
    name: "search_sessions",
    label: "Search sessions",
    description: "Search everything that was said or done in earlier sessions, also what was compacted away.",
    parameters: {
      type: "object",
      properties: { query: { type: "string", description: "A few words, or a path, name or id as it was written." } },
      required: ["query"],
    },
    /**
     * @param {string} _id
     * @param {{query: string}} given
     * @param {AbortSignal} [signal]
     */
    async execute(_id, given, signal) {
      const address = new URL("/api/search", url);
      address.searchParams.set("query", given.query);
      address.searchParams.set("limit", String(HITS_MAX));
      const headers = key ? { authorization: `Bearer ${key}` } : undefined;
      const answer = await fetch(address, { headers, signal });
      if (!answer.ok) throw new Error(`the gateway at ${url.origin} answered ${answer.status}: ${await answer.text()}`);
      /** @type {{hits: {session: string, seq: number, excerpt: string}[]}} */
      const found = await answer.json();
      const lines = found.hits.map((hit) => `${hit.session} [#${hit.seq}] ${hit.excerpt}`);
      const text = lines.join("\n\n") || `nothing found for ${JSON.stringify(given.query)}`;
      return { content: [{ type: "text", text }], details: { hits: found.hits.length } };
    },
  });
}
