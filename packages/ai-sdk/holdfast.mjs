// @ts-check
/**
 * Middleware for the Vercel AI SDK: `wrapLanguageModel({ model, middleware: holdfast({ session }) })`.
 *
 * The model's provider has the gateway as its `baseURL`. The middleware names the session of each call, so that the
 * gateway need not recognise it by its messages, and reports rescues.
 *
 * @typedef {object} Rescue
 * @property {string} session Key of the session in the gateway.
 * @property {string} codes Codes of the recovery steps, separated by commas.
 * @property {string} notice What was done, as a sentence.
 *
 * @typedef {object} Options
 * @property {string | ((params: any) => string | undefined)} [session] The session, or a function of a call's
 *   parameters that returns it. `providerOptions.holdfast.session` of a call takes precedence.
 * @property {string} [key] A gateway key, for gateways that have keys.
 * @property {(rescue: Rescue) => void} [onRescue] Called for each answer that the gateway rescued.
 */

/** @param {Options} [options] */
export function holdfast(options = {}) {
  /** @param {any} result */
  const report = (result) => {
    const headers = result?.response?.headers ?? {};
    const codes = headers["x-holdfast-rescued"];
    if (codes && options.onRescue) {
      const session = headers["x-holdfast-session"] ?? "";
      options.onRescue({ session, codes, notice: headers["x-holdfast-notice"] ?? "" });
    }
    return result;
  };

  return {
    specificationVersion: /** @type {const} */ ("v4"),

    /** @param {{params: any}} call */
    async transformParams({ params }) {
      const { holdfast: own, ...others } = params.providerOptions ?? {};
      const named = own?.session ?? (typeof options.session === "function" ? options.session(params) : options.session);
      if (named === undefined && !options.key) return params;
      /** @type {Record<string, string>} */
      const headers = { ...params.headers };
      if (named !== undefined) headers["x-holdfast-session"] = String(named);
      if (options.key) headers["x-holdfast-key"] = options.key;
      return { ...params, providerOptions: others, headers };
    },

    /** @param {{doGenerate: () => PromiseLike<any>}} call */
    async wrapGenerate({ doGenerate }) {
      return report(await doGenerate());
    },

    /** @param {{doStream: () => PromiseLike<any>}} call */
    async wrapStream({ doStream }) {
      return report(await doStream());
    },
  };
}
