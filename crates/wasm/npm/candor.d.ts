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
  /** Where to run. `auto` takes a GPU that was found to compute rightly, else the processor. Node has the processor alone. */
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
  /** The module to take; by default the fastest that the browser knows. */
  module?: "relaxed-simd" | "simd128";
  /** Threads of the processor; by default as many as it has, and one where the page is not cross-origin isolated. */
  threads?: number;
  /** Whether `auto` and `gpu` may take a GPU that is emulated. */
  software?: boolean;
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
  /** Hears how far the reading of the prompt is, in tokens. */
  onPrompt?: (progress: { done: number; total: number }) => void;
}

export interface Piece {
  /** Text that is now complete, perhaps empty. */
  text: string;
  /** The token; `null` for a rest of text at the end. */
  token: number | null;
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
  /** The ids of a text; as a `prompt` with the tokens that the file puts around one, and special tokens recognised. */
  tokenize(text: string, options?: { prompt?: boolean }): Promise<number[]>;
  detokenize(tokens: ArrayLike<number>): Promise<string>;
  /** The vector of a text, or of each of a list; a text may be given by its ids. */
  embed(text: string | number[], options?: EmbedOptions): Promise<Float32Array>;
  embed(texts: (string | number[])[], options?: EmbedOptions): Promise<Float32Array[]>;
  /** Bytes that it takes now: of the module's memory, which never shrinks, and of a GPU's buffers. */
  memory(): Promise<{ module: number; gpu: number }>;
  /** Frees the model, after what is under way. */
  close(): Promise<void>;
}

export interface EmbedOptions {
  signal?: AbortSignal;
  /** How tokens' vectors become the text's; without it as the file says. */
  pooling?: "mean" | "cls" | "last";
}

/**
 * Loads a model.
 * @param source `"builtin"`, the small chat model of the package; the address of a GGUF file, or in Node its path; a `File` or `Blob`.
 */
export function load(source: "builtin" | string | URL | Blob, options?: LoadOptions): Promise<Model>;

/** The files that were downloaded. */
export const models: {
  list(): Promise<{ url: string; bytes: number; complete: boolean }[]>;
  /** Deletes one; whether it was there. */
  delete(url: string): Promise<boolean>;
};
