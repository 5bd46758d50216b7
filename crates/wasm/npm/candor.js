// GGUF language models in a browser or in Node: the package's face. docs/browser.md explains it, candor.d.ts has the types.

const IN_NODE = typeof process !== "undefined" && Boolean(process.versions?.node) && typeof document === "undefined";
const BUILTIN = new URL("./candor-tiny.gguf", import.meta.url);
const ADDRESS = /^[a-z]+:\/\//;

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

/** A file of Node, to be read in pieces: a source with `close()`. */
async function opened(from) {
  const [{ source }, fs, url] = await Promise.all([import("./engine.js"), import("node:fs"), import("node:url")]);
  const isFile = from instanceof URL || from.startsWith("file:");
  if (!isFile && ADDRESS.test(from)) throw new Error(`${from}: download the file first, and give its path`);
  const file = fs.openSync(isFile ? url.fileURLToPath(from) : from, "r");
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
  return { ...source(fs.fstatSync(file).size, read, fetched), close: () => fs.closeSync(file) };
}

/** How a module is started in Node. */
async function inNode(how) {
  const { readFile } = await import("node:fs/promises");
  return { ...how, bytes: (address) => readFile(address) };
}

/** The engine in this very thread: Node. */
class Local {
  #files = [];
  #work;

  static async load(source, options, how) {
    const { Engine, WORK } = await import("./engine.js");
    const local = new Local();
    local.#work = WORK;
    try {
      for (const of of [source, ...options.adapters.map(({ source }) => source)]) local.#files.push(await opened(of));
      const adapters = options.adapters.map(({ source, ...rest }) => ({ name: String(source), ...rest }));
      const [model, ...files] = local.#files;
      local.engine = await Engine.load(model, files, { ...options, adapters, device: "cpu" }, await inNode(how));
    } catch (error) {
      local.end();
      throw error;
    }
    return local;
  }

  async ask(op, rest, { signal, hear } = {}) {
    signal?.throwIfAborted();
    let stopped;
    const stop = () => (stopped = this.engine.stop());
    const abort = () => stopped?.stop();
    signal?.addEventListener("abort", abort);
    try {
      return await this.#work[op](this.engine, rest, { stop, piece: hear });
    } finally {
      signal?.removeEventListener("abort", abort);
      stopped?.free();
      signal?.throwIfAborted();
    }
  }

  end() {
    for (const file of this.#files.splice(0)) file.close();
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

  verify() {
    return this.#backend.ask("verify", {});
  }

  trace(prompt, options = {}) {
    return this.#backend.ask("trace", { input: { prompt }, options });
  }

  logits(prompt, { signal } = {}) {
    return this.#backend.ask("logits", { input: { prompt } }, { signal });
  }

  saveSession() {
    return this.#backend.ask("saveSession", {});
  }

  async loadSession(bytes) {
    if (bytes instanceof Blob) bytes = new Uint8Array(await bytes.arrayBuffer());
    return this.#backend.ask("loadSession", { bytes });
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

/** What a source is to a worker, and to Node. */
function located(source) {
  if (source === "builtin") source = BUILTIN;
  if (IN_NODE) return source;
  if (source instanceof URL) return source.href;
  return typeof source === "string" ? new URL(source, document.baseURI).href : source;
}

export async function load(source, { signal, onProgress, sha256, cache, module, threads, adapters = [], ...options } = {}) {
  const how = { module, threads };
  source = located(source);
  options.adapters = adapters.map(({ source, ...rest }) => ({ source: located(source), ...rest }));
  if (IN_NODE) {
    const local = await Local.load(source, options, how);
    return new Model(local, local.engine.info);
  }
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

/** What a model takes and what holds it, from the beginning of its file. */
export async function fit(source, { signal, ...options } = {}) {
  source = located(source);
  if (!IN_NODE) return ask("fit", { source, options }, { signal });
  const [engine, { device, software, ...rest }] = [await import("./engine.js"), options];
  const look = async (source) => engine.fit(source, rest, await inNode());
  if (ADDRESS.test(source) && !String(source).startsWith("file:")) {
    return (await import("./files.js")).beginning(source, look, signal);
  }
  const file = await opened(source);
  try {
    return await look(file);
  } finally {
    file.close();
  }
}

/** Asks a worker that has no model. */
async function ask(op, rest, how) {
  const remote = new Remote();
  try {
    return await remote.ask(op, rest, how);
  } finally {
    remote.end();
  }
}

/** The files that were downloaded. */
export const models = {
  list: () => ask("list", {}),
  delete: (url) => ask("delete", { url: new URL(url, document.baseURI).href }),
};
