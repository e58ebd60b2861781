// @ts-check
/**
 * opencode plugin: requests to a Holdfast gateway name their session, and opencode's own compaction is off behind it.
 *
 * opencode calls every export of a plugin file, so there is only this one.
 *
 * @typedef {object} Options
 * @property {string} [url] Address of the gateway. Default: HOLDFAST_URL, else http://127.0.0.1:8712.
 * @property {string} [key] A gateway key, for gateways that have keys. Default: HOLDFAST_KEY.
 * @property {boolean} [compaction] true keeps opencode's own compaction.
 * @property {boolean} [mcp] true adds `holdfast mcp`, with which the model searches earlier sessions.
 */

/** Agents of opencode whose requests are not the conversation. */
const SIDE_AGENTS = new Set(["title", "summary"]);

/**
 * @param {unknown} _input
 * @param {Options} [options]
 */
export const Holdfast = async (_input, options = {}) => {
  const url = new URL(options.url ?? process.env.HOLDFAST_URL ?? "http://127.0.0.1:8712");
  const key = options.key ?? process.env.HOLDFAST_KEY ?? "";

  /** @param {unknown} address */
  const isGateway = (address) => {
    try {
      return typeof address === "string" && new URL(address).origin === url.origin;
    } catch {
      return false;
    }
  };

  return {
    /** @param {any} config */
    async config(config) {
      const provider = String(config.model ?? "").split("/")[0];
      const address = config.provider?.[provider]?.options?.baseURL;
      if (isGateway(address) && !options.compaction) {
        config.compaction = { ...config.compaction, auto: false };
      }
      if (options.mcp) {
        config.mcp = { ...config.mcp, holdfast: { type: "local", command: ["holdfast", "mcp"], enabled: true } };
      }
    },

    /**
     * @param {{sessionID: string, agent: unknown, model: any, provider: any}} input
     * @param {{headers: Record<string, string>}} output
     */
    async "chat.headers"(input, output) {
      const agent = typeof input.agent === "string" ? input.agent : String(/** @type {any} */ (input.agent)?.name ?? "");
      const address = input.provider?.options?.baseURL ?? input.provider?.info?.options?.baseURL ?? input.model?.api?.url;
      if (!isGateway(address) || SIDE_AGENTS.has(agent)) return;
      output.headers["x-holdfast-session"] = `opencode-${input.sessionID}`;
      if (key) output.headers["x-holdfast-key"] = key;
    },
  };
};
