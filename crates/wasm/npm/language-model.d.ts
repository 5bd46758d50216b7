import type { LoadOptions, Source } from "./candor.js";

export type Content = string | { type: "text"; value: string }[];

export interface Message {
  role: "system" | "user" | "assistant";
  content: Content;
}

export interface CreateOptions {
  /** What every conversation begins with; it is never left out. */
  initialPrompts?: Message[];
  /** Ends the loading. */
  signal?: AbortSignal;
  /** Gets what fires `downloadprogress`, with `loaded` from 0 to 1. */
  monitor?: (monitor: EventTarget) => void;
  temperature?: number;
  topK?: number;
  expectedInputs?: { type: "text"; languages?: string[] }[];
  expectedOutputs?: { type: "text"; languages?: string[] }[];
}

export interface PromptOptions {
  signal?: AbortSignal;
}

/** A conversation. Fires `contextoverflow` when its oldest messages were left out. */
export interface LanguageModelSession extends EventTarget {
  prompt(input: string | Message[], options?: PromptOptions): Promise<string>;
  promptStreaming(input: string | Message[], options?: PromptOptions): ReadableStream<string>;
  /** Adds messages without an answer. */
  append(input: string | Message[], options?: PromptOptions): Promise<void>;
  /** How many tokens an input would add. */
  measureContextUsage(input: string | Message[], options?: PromptOptions): Promise<number>;
  /** Tokens of the conversation. */
  readonly contextUsage: number;
  /** Most tokens of it. */
  readonly contextWindow: number;
  readonly temperature?: number;
  readonly topK?: number;
  oncontextoverflow: ((event: Event) => void) | null;
  /** A conversation that goes its own way from here. */
  clone(options?: PromptOptions): Promise<LanguageModelSession>;
  /** Ends it, and what is under way. The model is freed with its last conversation. */
  destroy(): void;
  /** Chrome's older names of `measureContextUsage`, `contextUsage` and `contextWindow`. */
  measureInputUsage(input: string | Message[], options?: PromptOptions): Promise<number>;
  readonly inputUsage: number;
  readonly inputQuota: number;
}

export interface LanguageModelStatic {
  availability(): Promise<"available" | "downloadable">;
  create(options?: CreateOptions): Promise<LanguageModelSession>;
}

/** Chrome's `LanguageModel` for a model: what it takes is what `load` takes. */
export function languageModel(source?: Source, options?: Omit<LoadOptions, "signal" | "onProgress">): LanguageModelStatic;
