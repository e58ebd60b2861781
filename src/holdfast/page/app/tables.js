/** Texts for values in records, generated from the tables that the command line uses. */

// generated: words, by `make docs`

/** @type {Record<string, string>} */
export const FAULTS = {
  token_overflow: "the conversation exceeds the model's window",
  wire_overflow: "the request has more bytes than the provider takes",
  media_overflow: "the provider does not take an image",
  rate_limit: "the provider limits how often it is asked",
  quota: "the provider's quota or credit is used up",
  overloaded: "the provider is overloaded",
  transient: "the provider could not be reached or failed",
  stream_stall: "the provider went silent",
  auth: "the provider does not accept the key",
  model_not_found: "the provider does not know the model",
  bad_request_reasoning: "the model does not take the reasoning setting",
  tool_pairing: "the provider refuses to read the conversation so far",
  content_policy: "the provider's content filter refused",
  empty_response: "the model answered nothing",
  bad_request: "the provider refused the request",
};
/** @type {Record<string, string>} */
export const RUNGS = {
  back_off: "waiting",
  try_again: "trying again",
  next_model: "trying the next model",
  next_summariser: "asking the next model for a summary",
  clamp_output: "asking for a shorter answer",
  drop_reasoning: "sending none of the model's earlier thinking back",
  change_effort: "asking for another amount of thinking",
  mask: "showing old tool output by a line each",
  summarise: "summarising what is old",
  summarise_less: "summarising what is old, with less of each message",
  summarise_pieces: "summarising what is old, piece by piece",
  digest: "making a digest of what is old",
  keep_newest: "keeping only the newest message, and a digest of the rest",
  shrink_image: "showing the image that is too large smaller",
  replace_largest: "showing the largest part by a line that says what it was",
  send_anyway: "sending it anyway: the estimate may be wrong",
  roll_over: "beginning a new generation with the newest message, and a digest of all before",
};
/** @type {Record<string, string>} */
export const TOOL_OUTCOMES = {
  done: "done",
  failed: "failed",
  timed_out: "ran out of time",
  cancelled: "cancelled",
  unknown: "outcome unknown, and not repeated",
};
/** @type {Record<string, string>} */
export const RESULTS = {
  changed: "done",
  unchanged: "there was nothing to change",
  interrupted: "interrupted half-way; nothing changed",
};
/** @type {Record<string, string>} */
export const TRIGGERS = {
  person: "by a person",
  ahead: "ahead of need",
  debt: "to replace a digest",
};

// end of generated: words
