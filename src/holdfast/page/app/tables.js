/** Texts for values in records, generated from the tables that the command line uses. */

// generated: words, by `make docs`

/** @type {Record<string, string>} */
export const FAULTS = {
  token_overflow: "the conversation exceeds the model's window",
  wire_overflow: "the request has more bytes than the provider accepts",
  media_overflow: "the provider does not accept an image",
  rate_limit: "the provider limits the request rate",
  quota: "the provider's quota or credit is used up",
  overloaded: "the provider is overloaded",
  transient: "the provider could not be reached or failed",
  stream_stall: "the provider went silent",
  auth: "the provider does not accept the key",
  model_not_found: "the provider does not know the model",
  bad_request_reasoning: "the model does not accept the reasoning setting",
  tool_pairing: "the provider rejects the conversation so far",
  content_policy: "the provider's content filter rejected the request",
  empty_response: "the model's answer was empty",
  bad_request: "the provider rejected the request",
};
/** @type {Record<string, string>} */
export const RUNGS = {
  back_off: "waiting",
  try_again: "retrying",
  next_model: "trying the next model",
  next_summariser: "asking the next model for a summary",
  clamp_output: "asking for a shorter answer",
  repair_pairs: "pairing tool calls with their results",
  drop_reasoning: "leaving out the model's earlier reasoning",
  change_effort: "changing the reasoning effort",
  drop_parameter: "leaving out a refused parameter",
  mask: "masking old tool output, one line each",
  summarise: "summarising old messages",
  summarise_less: "summarising old messages, each truncated",
  summarise_pieces: "summarising old messages, piece by piece",
  digest: "building a digest of old messages",
  keep_newest: "keeping only the newest message, and a digest of the rest",
  shrink_image: "shrinking the image that is too large",
  replace_largest: "replacing the largest part by a placeholder",
  leave_out_unanswered: "leaving out messages that were not answered",
  leave_out_new: "leaving out what the model has not read yet",
  take_back: "taking back what was left out in vain",
  send_anyway: "sending it anyway: the estimate may be wrong",
  roll_over: "starting a new generation with the newest message, and a digest of all before",
};
/** @type {Record<string, string>} */
export const TOOL_OUTCOMES = {
  done: "done",
  failed: "failed",
  timed_out: "timed out",
  cancelled: "cancelled",
  unknown: "outcome unknown, and not repeated",
  denied: "denied by a person, and not run",
};
/** @type {Record<string, string>} */
export const RESULTS = {
  changed: "done",
  unchanged: "nothing to change",
  interrupted: "interrupted; nothing changed",
};
/** @type {Record<string, string>} */
export const TRIGGERS = {
  person: "by a person",
  ahead: "ahead of need",
  debt: "to replace a digest",
};

// end of generated: words
