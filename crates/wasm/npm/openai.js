// A model with the face of OpenAI's client: `chat.completions.create`. docs/browser.md has what it takes.

/** What each field of a request becomes; what is not here is refused. */
const OPTIONS = {
  max_tokens: "maxTokens",
  max_completion_tokens: "maxTokens",
  temperature: "temperature",
  top_p: "topP",
  seed: "seed",
  presence_penalty: "presencePenalty",
  frequency_penalty: "frequencyPenalty",
  // Of other servers for such models.
  top_k: "topK",
  min_p: "minP",
  repeat_penalty: "repeatPenalty",
};
const FIELDS = [
  "model", "messages", "stream", "stream_options", "stop", "logprobs", "top_logprobs", "n", "logit_bias", ...Object.keys(OPTIONS),
];
const REASONS = { end: "stop", stop: "stop", maxTokens: "length", contextFull: "length" };

function refuse(what, got, expected) {
  throw Object.assign(new TypeError(`${what}: expected ${expected}, got ${JSON.stringify(got)}`), { param: what });
}

function known(fields, given, within = "") {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || fields.includes(name)) continue;
    const error = new TypeError(`unknown field ${within}${name}: expected one of ${fields.join(", ")}`);
    throw Object.assign(error, { param: within + name });
  }
}

/** A message whose content is a text: parts of texts become one. */
function plain(message, number) {
  if (!Array.isArray(message.content)) return message;
  const texts = message.content.map((part, index) => {
    if (part.type !== "text") refuse(`messages[${number}].content[${index}].type`, part.type, '"text"');
    return part.text;
  });
  return { ...message, content: texts.join("") };
}

/** The options of `chat` for a request. */
function asked({ n, stop, stream_options, logprobs, top_logprobs, logit_bias, ...request }) {
  if (n != null && n !== 1) refuse("n", n, "1");
  known(["include_usage"], stream_options ?? {}, "stream_options.");
  if (!logprobs && top_logprobs != null) refuse("logprobs", logprobs ?? null, "true where there is top_logprobs");
  const options = { stop: stop == null ? undefined : [stop].flat() };
  if (logprobs) options.logprobs = top_logprobs ?? 0;
  if (logit_bias != null) options.logitBias = Object.entries(logit_bias).map(([id, bias]) => [Number(id), bias]);
  for (const [name, option] of Object.entries(OPTIONS)) {
    if (request[name] != null) options[option] = request[name];
  }
  return options;
}

/** A token with its probability, by OpenAI's fields alone. */
const likely = ({ token, logprob, bytes, top_logprobs }) => ({
  token,
  logprob,
  bytes,
  ...(top_logprobs && { top_logprobs: top_logprobs.map(likely) }),
});

const content = (pieces) => ({
  content: pieces.filter(({ logprobs }) => logprobs).map(({ logprobs }) => likely(logprobs)),
  refusal: null,
});

function usage({ promptTokens, cachedTokens, tokens }) {
  const prompt = promptTokens + cachedTokens;
  return {
    prompt_tokens: prompt,
    completion_tokens: tokens,
    total_tokens: prompt + tokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

/** The chunks of an answer. What is left of a loop ends the answer. */
async function* chunks(answer, head, { logprobs, stream_options }) {
  const chunk = (delta, more, finish_reason = null) => ({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, logprobs: more, finish_reason }],
    ...(stream_options?.include_usage && { usage: null }),
  });
  yield chunk({ role: "assistant", content: "" }, null);
  for await (const piece of answer) {
    const more = logprobs && piece.logprobs ? content([piece]) : null;
    if (piece.text || more) yield chunk({ content: piece.text }, more);
  }
  yield chunk({}, null, REASONS[answer.stopReason]);
  if (stream_options?.include_usage) {
    yield { ...head, object: "chat.completion.chunk", choices: [], usage: usage(answer.timings) };
  }
}

async function whole(answer, head, { logprobs }) {
  const pieces = [];
  for await (const piece of answer) pieces.push(piece);
  const message = { role: "assistant", content: pieces.map(({ text }) => text).join(""), refusal: null };
  const finish_reason = REASONS[answer.stopReason];
  return {
    ...head,
    object: "chat.completion",
    choices: [{ index: 0, message, logprobs: logprobs ? content(pieces) : null, finish_reason }],
    usage: usage(answer.timings),
  };
}

/** Gives a model the face of OpenAI's client. */
export function openai(model) {
  const create = async (request, { signal } = {}) => {
    known(FIELDS, request);
    if (!Array.isArray(request.messages)) refuse("messages", request.messages, "a list of messages");
    const head = {
      id: `chatcmpl-${crypto.randomUUID()}`,
      created: Math.floor(Date.now() / 1000),
      model: request.model ?? model.info.name ?? model.info.architecture,
    };
    const answer = model.chat(request.messages.map(plain), { ...asked(request), signal });
    return request.stream ? chunks(answer, head, request) : whole(answer, head, request);
  };
  return { chat: { completions: { create } } };
}
