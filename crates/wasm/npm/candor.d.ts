/** A message of a conversation. Other fields reach the model's chat template as they are. */
export interface Message {
  role: "system" | "user" | "assistant" | (string & {});
  content: string;
  [field: string]: unknown;
}

export interface Progress {
  /** Bytes that are there. */
  loaded: number;
  /** Bytes of the file, where the server says. */
  total?: number;
}

export interface LoadOptions {
  /**
   * Where to run. `auto` takes a GPU that was found to compute rightly, unless the processor was found to be faster; else the
   * processor. Node has the processor alone.
   */
  device?: "auto" | "gpu" | "cpu";
  /** Positions of a session. Without it the length that the model was trained on, at most 4096. */
  context?: number;
  /**
   * Most bytes of weights, caches and values in flight. Layers beyond it are read from the file for each token, while the one
   * before them computes.
   */
  memory?: number;
  /** Ends the loading; the promise is rejected with its reason. What was downloaded stays, and the next load goes on from there. */
  signal?: AbortSignal;
  /** Hears of the download. */
  onProgress?: (progress: Progress) => void;
  /** `false` neither looks for the file in the origin's private files nor keeps it there. */
  cache?: boolean;
  /** The file's SHA-256 in hexadecimal digits. A download that has another is refused. */
  sha256?: string;
  /** LoRA adapters. */
  adapters?: Lora[];
  /** The module to take; by default the fastest that the browser knows. */
  module?: "relaxed-simd" | "simd128";
  /** Threads of the processor; by default as many as it has, and one where the page is not cross-origin isolated. */
  threads?: number;
  /** Whether `auto` and `gpu` may take a GPU that is emulated. */
  software?: boolean;
}

/** A file that is read: `"builtin"`, the small chat model of the package; an address, or in Node a path; a `File` or `Blob`. */
export type Source = "builtin" | (string & {}) | URL | Blob;

export interface Lora {
  /** A GGUF file as llama.cpp's `convert_lora_to_gguf.py` writes it. */
  source: Source;
  /** 1 without it: as the adapter was trained. */
  scale?: number;
}

export interface GenerateOptions {
  /** Ends it; the loop throws its reason. */
  signal?: AbortSignal;
  /** Most tokens; without it until the model ends its text or the context is full. */
  maxTokens?: number;
  /** Texts that end it; they are no part of it. */
  stop?: string[];
  /** 0 takes the likeliest token each time. 0.8 without it. */
  temperature?: number;
  /** With it and the same options the same text comes again. */
  seed?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  typicalP?: number;
  repeatPenalty?: number;
  repeatLastN?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  /** What is added to logits, by ids; `false` excludes one. */
  logitBias?: [id: number, bias: number | false][];
  /** How many of the likeliest tokens each piece names beside its own; 0 names its own alone. */
  logprobs?: number;
  /** Hears how far the reading of the prompt is, in tokens. */
  onPrompt?: (progress: { done: number; total: number }) => void;
}

export interface Piece {
  /** Text that is now complete, perhaps empty. */
  text: string;
  /** The token; `null` for a rest of text at the end. */
  token: number | null;
  /** How likely the token was, where the option asks. */
  logprobs?: Likely & { top_logprobs: Likely[] };
}

/** A token as the model had it before any sampling, with OpenAI's names. */
export interface Likely {
  id: number;
  token: string;
  /** The natural logarithm of its probability. */
  logprob: number;
  bytes: number[];
}

/** Text on its way: `for await (const { text } of answer)`. A loop that is left ends it. */
export interface Answer extends AsyncIterableIterator<Piece> {
  /** All that is left of it. */
  text(): Promise<string>;
  /** Why it ended; `undefined` while it goes on. */
  readonly stopReason?: "end" | "maxTokens" | "stop" | "contextFull" | "aborted";
  readonly timings?: {
    /** Tokens of the prompt that had to be computed. */
    promptTokens: number;
    /** Tokens of the prompt that were known from before. */
    cachedTokens: number;
    promptMs: number;
    tokens: number;
    decodeMs: number;
    /** The seed that was in use. */
    seed: number;
    /** Bytes of the file that were read for it: 0 where all layers stay. */
    readBytes: number;
    /** Milliseconds in which the engine waited for them. */
    waitMs: number;
  };
}

export interface Info {
  /** Where it runs, for people to read. */
  label: string;
  device: "gpu" | "cpu";
  /** Whether the GPU was held against the formulas, and was right. */
  verified: boolean;
  /** Why the processor was taken, or how the model was placed; `null` where there was nothing to decide. */
  reason: string | null;
  /**
   * Milliseconds of a token on both devices, and the one that was taken: where `auto` compared them, now or at an earlier visit. The
   * processor's are estimated from one layer.
   */
  timed?: { device: "gpu" | "cpu"; gpu: number; cpu: number };
  /** The module that runs. */
  module: "relaxed-simd" | "simd128";
  /** Threads of the processor that compute; 1 where a GPU does. */
  threads: number;
  architecture: string | null;
  name: string | null;
  /** Positions of a session. */
  context: number;
  trainedContext: number;
  vocabulary: number;
  /** Numbers of a vector. */
  width: number;
  layers: number;
  /** Whether it makes vectors alone, and no text. */
  embeddingsOnly: boolean;
  /** Whether it has a chat template. */
  chatTemplate: boolean;
  /** Where the file came from, in a browser. */
  from?: "cache" | "network" | "memory" | "file";
  /** What the user may want to know of that, such as that there was no room to keep it. */
  note?: string;
}

export interface Model {
  readonly info: Info;
  /** The answer to a conversation. */
  chat(messages: Message[], options?: GenerateOptions): Answer;
  /** What follows a text, or ids. */
  complete(prompt: string | ArrayLike<number>, options?: GenerateOptions): Answer;
  /**
   * The ids of a text; as a `prompt` with the tokens that the file puts around one, and special tokens recognised. Of messages,
   * the ids that `chat` reads.
   */
  tokenize(text: string | Message[], options?: { prompt?: boolean }): Promise<number[]>;
  detokenize(tokens: ArrayLike<number>): Promise<string>;
  /** The logits of the token that follows a text, or ids: one per id. */
  logits(prompt: string | ArrayLike<number>, options?: { signal?: AbortSignal }): Promise<Float32Array>;
  /** Holds the GPU against the formulas once more: the model's first layers and its head, every operation. */
  verify(): Promise<Verified>;
  /** The named values of a pass over a text, or ids, in their order. The session has the text afterwards. */
  trace(prompt: string | ArrayLike<number>, options?: TraceOptions): Promise<Traced[]>;
  /** The text so far with its keys and values, in the library's format: another visit goes on without computing them. */
  saveSession(): Promise<Uint8Array>;
  /** Takes back what `saveSession` gave, and gives its ids. Another model's is refused. */
  loadSession(bytes: Uint8Array | Blob): Promise<number[]>;
  /** The vector of a text, or of each of a list; a text may be given by its ids. */
  embed(text: string | number[], options?: EmbedOptions): Promise<Float32Array>;
  embed(texts: (string | number[])[], options?: EmbedOptions): Promise<Float32Array[]>;
  /** Bytes that it takes now: of the module's memory, which never shrinks, and of a GPU's buffers. */
  memory(): Promise<{ module: number; gpu: number }>;
  /** Frees the model, after what is under way. */
  close(): Promise<void>;
}

export interface Verified {
  ok: boolean;
  operations: Operation[];
  /** What was wrong first, for people to read. */
  failure: string | null;
}

/** A kind of operation. */
export interface Operation {
  operation: string;
  /** The weights' format; `null` where nothing is multiplied by a matrix. */
  format: string | null;
  calls: number;
  elements: number;
  /** The worst error; `null` where it is no number. */
  error: number | null;
  /** The largest that passes. */
  bound: number;
}

export interface TraceOptions {
  /** llama.cpp's names, of all layers or one: `Qcur`, `Qcur-3`. All without it. */
  names?: string[];
  /** How many of a value's first numbers are given; 8 without it. */
  limit?: number;
}

/** A value. Statistics are of its finite numbers. */
export interface Traced {
  name: string;
  layer: number | null;
  /** Rows, one per token, and their width. */
  shape: [rows: number, width: number];
  /** The first numbers; `null` stands for one that is not finite. */
  values: (number | null)[];
  min: number | null;
  max: number | null;
  mean: number;
  /** The root of the mean square. */
  rms: number;
  notFinite: number;
}

export interface EmbedOptions {
  signal?: AbortSignal;
  /** How tokens' vectors become the text's; without it as the file says. */
  pooling?: "mean" | "cls" | "last";
}

/** Loads a model. */
export function load(source: Source, options?: LoadOptions): Promise<Model>;

export interface FitOptions extends Pick<LoadOptions, "device" | "context" | "software" | "signal"> {}

/** What a model takes, and what holds it. Sizes are in bytes. */
export interface Fit {
  /** Of the file. */
  bytes: number;
  weights: number;
  /** Keys and values of a session of `context` positions. */
  cache: number;
  /** Values in flight. */
  buffers: number;
  /** Positions of a session: what was asked for, or what `load` takes. */
  context: number;
  trainedContext: number;
  cpu: Holds;
  /** `null` where there is no GPU that would be taken. A browser does not say how much memory one has. */
  gpu: (Holds & { largestBuffer: number }) | null;
  /** All of it as a sentence. */
  reason: string;
}

export interface Holds {
  /** Whether a session of `context` positions fits. */
  fits: boolean;
  /** The most positions that fit, up to the model's own; 0 where the weights alone are too large. */
  longestContext: number;
}

/** Says what a model takes and where it fits. Of the file only the beginning is read, by ranges over a network. */
export function fit(source: Source, options?: FitOptions): Promise<Fit>;

/** The files that were downloaded. */
export const models: {
  list(): Promise<{ url: string; bytes: number; complete: boolean }[]>;
  /** Deletes one; whether it was there. */
  delete(url: string): Promise<boolean>;
};
