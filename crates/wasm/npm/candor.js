// GGUF language models in a browser or in Node: the package's face. docs/browser.md explains it, candor.d.ts has the types.

const IN_NODE = typeof process !== "undefined" && Boolean(process.versions?.node) && typeof document === "undefined";
const BUILTIN = new URL("./candor-tiny.gguf", import.meta.url);

/** A worker, and who waits for its answers. */
class Remote {
  #name = `candor-${Math.random().toString(36).slice(2)}`;
  #worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: this.#name });
  /** Where a thread of the worker says that it has stopped. */
  #threads = new BroadcastChannel(this.#name);
  #waiting = new Map();
  #next = 1;

  constructor() {
    this.#threads.onmessage = ({ data }) => this.#fail(data);
    this.#worker.onmessage = ({ data }) => (data.fatal ? this.#fail(data.fatal) : this.#take(data));
    this.#worker.onerror = (event) => {
      event.preventDefault?.();
      this.#fail({ name: "Error", message: `the worker does not start or has stopped: ${event.message ?? "see the console"}` });
    };
  }

  /** Has the worker do something; `hear` gets what comes on the way. */
  ask(op, rest, { signal, hear } = {}) {
    if (this.failed) return Promise.reject(this.failed);
    if (signal?.aborted) return Promise.reject(signal.reason);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const abort = () => this.#worker.postMessage({ op: "abort", of: id });
      const done = (settle) => (value) => {
        signal?.removeEventListener("abort", abort);
        settle(value);
      };
      this.#waiting.set(id, { resolve: done(resolve), reject: done(reject), hear, signal });
      signal?.addEventListener("abort", abort);
      this.#worker.postMessage({ id, op, ...rest });
    });
  }

  end(reason = { name: "Error", message: "the model is closed" }) {
    this.#fail(reason);
  }

  #take({ id, result, error, ...heard }) {
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    if ("piece" in heard || "progress" in heard) return waiting.hear?.(heard.piece ?? heard.progress);
    this.#waiting.delete(id);
    if (waiting.signal?.aborted) waiting.reject(waiting.signal.reason);
    else if (error) waiting.reject(made(error));
    else waiting.resolve(result);
    if (error?.trapped) this.#fail(error);
  }

  #fail(error) {
    this.failed ??= error instanceof Error ? error : made(error);
    this.#worker.terminate();
    this.#threads.close();
    for (const { reject } of this.#waiting.values()) reject(this.failed);
    this.#waiting.clear();
  }
}

function made({ name, message }) {
  return name === "AbortError" ? new DOMException(message, name) : Object.assign(new Error(message), { name: name ?? "Error" });
}

/** The engine in this very thread: Node. */
class Local {
  static async load(source, options, how) {
    const [{ Engine, source: sourceOf }, fs, url] = await Promise.all([import("./engine.js"), import("node:fs"), import("node:url")]);
    const isFile = source instanceof URL || source.startsWith("file:");
    if (!isFile && /^[a-z]+:\/\//.test(source)) throw new Error(`${source}: download the file first, and load it by its path`);
    const file = fs.openSync(isFile ? url.fileURLToPath(source) : source, "r");
    const local = new Local();
    local.close = () => fs.closeSync(file);
    const read = (offset, into) => {
      for (let done = 0; done < into.length; ) {
        const got = fs.readSync(file, into, done, into.length - done, offset + done);
        if (got === 0) throw new Error("the file ends before its data does");
        done += got;
      }
    };
    const fetched = (offset, length) =>
      new Promise((resolve, reject) => {
        const settle = (error, got, bytes) => (got === length ? resolve(bytes) : reject(error));
        fs.read(file, new Uint8Array(length), 0, length, offset, settle);
      });
    const bytes = (address) => fs.promises.readFile(address);
    try {
      local.engine = await Engine.load(sourceOf(fs.fstatSync(file).size, read, fetched), { ...options, device: "cpu" }, { ...how, bytes });
    } catch (error) {
      local.close();
      throw error;
    }
    return local;
  }

  async ask(op, { text, tokens, texts, input, options }, { signal, hear } = {}) {
    signal?.throwIfAborted();
    const { engine } = this;
    const stop = engine.stop();
    const abort = () => stop.stop();
    signal?.addEventListener("abort", abort);
    try {
      if (op === "tokenize") return await engine.tokenize(text, options);
      if (op === "detokenize") return await engine.detokenize(tokens);
      if (op === "embed") return await engine.embed(texts, options, stop);
      if (op === "memory") return await engine.memory();
      if (op === "generate") return await engine.generate(input, options, stop, hear);
      return await engine.close();
    } finally {
      signal?.removeEventListener("abort", abort);
      signal?.throwIfAborted();
    }
  }

  end() {
    this.close();
  }
}

/** Text that a model is writing: pieces as they come. */
class Answer {
  /** Why it ended; nothing while it goes on. */
  stopReason;
  /** How long it took. */
  timings;
  #pieces = [];
  #wake;
  #ended = false;
  #error;
  #abort = new AbortController();

  constructor(backend, input, { signal, onPrompt, ...options }) {
    const stop = () => this.#abort.abort(signal.reason);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    const hear = (at) => {
      if ("done" in at) return onPrompt?.(at);
      this.#pieces.push(at);
      this.#wake?.();
    };
    const asked = backend.ask("generate", { input, options }, { signal: this.#abort.signal, hear });
    const done = asked.then(({ reason, ...timings }) => Object.assign(this, { stopReason: reason, timings }));
    done.catch((error) => (this.#error = error)).finally(() => {
      signal?.removeEventListener("abort", stop);
      this.#ended = true;
      this.#wake?.();
    });
  }

  async next() {
    while (!this.#pieces.length && !this.#ended) {
      await new Promise((resolve) => (this.#wake = resolve));
    }
    if (this.#pieces.length && !this.#abort.signal.aborted) return { done: false, value: this.#pieces.shift() };
    if (this.#error) throw this.#error;
    return { done: true, value: undefined };
  }

  /** Ends it early; a loop over the pieces that is left does so. */
  async return() {
    this.#abort.abort();
    while (!this.#ended) await new Promise((resolve) => (this.#wake = resolve));
    [this.#error, this.#pieces] = [undefined, []];
    this.stopReason ??= "aborted";
    return { done: true, value: undefined };
  }

  /** All that is left of it as one text. */
  async text() {
    let text = "";
    for await (const piece of this) text += piece.text;
    return text;
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

class Model {
  #backend;

  constructor(backend, info) {
    this.#backend = backend;
    this.info = Object.freeze(info);
  }

  chat(messages, options = {}) {
    return new Answer(this.#backend, { messages }, options);
  }

  complete(prompt, options = {}) {
    return new Answer(this.#backend, { prompt }, options);
  }

  tokenize(text, options = {}) {
    return this.#backend.ask("tokenize", { text, options });
  }

  detokenize(tokens) {
    return this.#backend.ask("detokenize", { tokens });
  }

  async embed(text, { signal, ...options } = {}) {
    // Of one text, which may be given by its ids; or of a list of such.
    const isOne = typeof text === "string" || typeof text[0] === "number";
    const vectors = await this.#backend.ask("embed", { texts: isOne ? [text] : text, options }, { signal });
    return isOne ? vectors[0] : vectors;
  }

  memory() {
    return this.#backend.ask("memory", {});
  }

  async close() {
    try {
      await this.#backend.ask("close", {});
    } catch {
      // It has stopped already.
    }
    this.#backend.end();
  }
}

export async function load(source, { signal, onProgress, sha256, cache, module, threads, ...options } = {}) {
  const how = { module, threads };
  if (source === "builtin") source = IN_NODE ? BUILTIN : BUILTIN.href;
  if (IN_NODE) {
    const local = await Local.load(source, options, how);
    return new Model(local, local.engine.info);
  }
  if (source instanceof URL) source = source.href;
  if (typeof source === "string") source = new URL(source, document.baseURI).href;
  const remote = new Remote();
  // A download ends in order. What else is under way can't look up, and goes with its worker.
  const abort = () => setTimeout(() => remote.end(signal.reason), 200);
  signal?.addEventListener("abort", abort);
  try {
    const info = await remote.ask("load", { source, options, sha256, cache, how }, { signal, hear: onProgress });
    return new Model(remote, info);
  } catch (error) {
    remote.end();
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

/** Asks a worker that has no model. */
async function ask(op, rest) {
  const remote = new Remote();
  try {
    return await remote.ask(op, rest);
  } finally {
    remote.end();
  }
}

/** The files that were downloaded. */
export const models = {
  list: () => ask("list", {}),
  delete: (url) => ask("delete", { url: new URL(url, document.baseURI).href }),
};
