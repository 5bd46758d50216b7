import type { Model } from "./candor.js";

export interface ChatMessage {
  role: "system" | "user" | "assistant" | (string & {});
  content: string | { type: "text"; text: string }[];
  [field: string]: unknown;
}

/** A field that is not here is refused by name. */
export interface ChatRequest {
  messages: ChatMessage[];
  /** Comes back as it is; there is one model. */
  model?: string;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  temperature?: number | null;
  top_p?: number | null;
  top_k?: number | null;
  min_p?: number | null;
  repeat_penalty?: number | null;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  /** What is added to logits, by ids. */
  logit_bias?: Record<string, number> | null;
  seed?: number | null;
  stop?: string | string[] | null;
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  n?: 1 | null;
}

export interface TokenLogprob {
  token: string;
  logprob: number;
  bytes: number[];
}

export interface Logprobs {
  content: (TokenLogprob & { top_logprobs: TokenLogprob[] })[];
  refusal: null;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  /** Tokens of the prompt that were not computed again. */
  prompt_tokens_details: { cached_tokens: number };
}

export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  created: number;
  model: string | null;
  choices: {
    index: 0;
    message: { role: "assistant"; content: string; refusal: null };
    logprobs: Logprobs | null;
    finish_reason: "stop" | "length";
  }[];
  usage: Usage;
}

export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string | null;
  choices: {
    index: 0;
    delta: { role?: "assistant"; content?: string };
    logprobs: Logprobs | null;
    finish_reason: "stop" | "length" | null;
  }[];
  /** With `stream_options.include_usage`: `null` in each chunk but the last. */
  usage?: Usage | null;
}

export interface Options {
  signal?: AbortSignal;
}

export interface OpenAI {
  chat: {
    completions: {
      create(request: ChatRequest & { stream: true }, options?: Options): Promise<AsyncGenerator<ChatCompletionChunk>>;
      create(request: ChatRequest & { stream?: false | null }, options?: Options): Promise<ChatCompletion>;
    };
  };
}

/** Gives a model the face of OpenAI's client. */
export function openai(model: Pick<Model, "chat" | "info">): OpenAI;
