// A loaded model: which module runs it, and what is asked of it, one piece of work after the other. The same in a worker and in
// Node.

/** A module with one relaxed instruction: valid where the engine knows them. */
const RELAXED = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11,
]);
const SIMD = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11]);

const IN_NODE = typeof process !== "undefined" && Boolean(process.versions?.node);

/** The vector instructions of this browser. */
function flavour() {
  if (WebAssembly.validate(RELAXED)) return "relaxed-simd";
  if (WebAssembly.validate(SIMD)) return "simd128";
  throw new Error("candor needs WebAssembly with SIMD: Chrome 91, Firefox 89, Safari 16.4, Node 20 or later");
}

/** Threads that the processor may have, and why they are one. */
async function cores() {
  if (IN_NODE) return { threads: (await import("node:os")).availableParallelism() };
  if (!globalThis.crossOriginIsolated) return { threads: 1, why: "one thread: the page is not cross-origin isolated" };
  return { threads: navigator.hardwareConcurrency ?? 1 };
}

/** Names of the sampler's settings, as the engine writes them: topK is top_k. */
function sampling(options) {
  const named = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(named.map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]));
}

const started = new Map();
/** The module that was started last. */
let wasm;

/** What is at an address, compiled while it arrives if the server calls it WebAssembly. */
async function compiled(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: the server answers ${answer.status}`);
  const isNamed = answer.headers.get("content-type")?.startsWith("application/wasm");
  return isNamed ? WebAssembly.compileStreaming(answer) : WebAssembly.compile(await answer.arrayBuffer());
}

/** A module by its folder. `bytes(address)` gives what it is compiled from, where it is not fetched. */
async function start(name, bytes) {
  if (!started.has(name)) {
    const folder = new URL(`./${name}/`, import.meta.url).href;
    const address = new URL("candor_bg.wasm", folder);
    const begun = async () => {
      const compiling = bytes ? bytes(address).then(WebAssembly.compile) : compiled(address);
      const [glue, module] = await Promise.all([import(new URL("candor.js", folder).href), compiling]);
      const { memory } = await glue.default({ module_or_path: module });
      return { glue, folder, module, memory };
    };
    started.set(name, begun());
    started.get(name).catch(() => started.delete(name));
  }
  const module = await started.get(name);
  wasm = module.glue;
  return module;
}

/** Has as many threads wait for work. They stay, and the next model takes them. */
async function gather(count, { glue, folder, module, memory }) {
  const { Worker } = IN_NODE ? await import("node:worker_threads") : globalThis;
  const missing = Array.from({ length: Math.max(0, count - glue.waiting()) }, () => {
    const thread = new Worker(new URL("./thread.js", import.meta.url), { type: "module", name: globalThis.name });
    return new Promise((resolve, reject) => {
      const failed = (event) => reject(new Error(`a thread does not start: ${event.message ?? "see the console"}`));
      if (IN_NODE) thread.once("message", resolve).once("error", failed);
      else Object.assign(thread, { onmessage: resolve, onerror: failed });
      thread.postMessage({ folder, module, memory });
    }).then(() => thread.unref?.());
  });
  await Promise.all(missing);
}

/**
 * A file for the engine. `read(offset, into)` fills at once; `fetched(offset, length)` promises bytes, which come while the engine
 * computes.
 */
export function source(size, read, fetched) {
  let pieces = [];
  return {
    size,
    read(offset, into) {
      const has = ({ bytes, start }) => bytes && offset >= start && offset + into.length <= start + bytes.length;
      const piece = pieces.find(has);
      if (!piece) return read(offset, into);
      piece.used = true;
      into.set(piece.bytes.subarray(offset - piece.start, offset - piece.start + into.length));
    },
    async expect(start, length) {
      const piece = { start };
      pieces = [...pieces.filter(({ used }) => !used), piece];
      // What cannot be had is read once more where it is used, and says why.
      piece.bytes = await fetched(start, length).catch(() => undefined);
    },
  };
}

/** What a panic said, where an error is one: the instance is of no use after it. */
export function explained(error) {
  if (!(error instanceof WebAssembly.RuntimeError)) return error;
  return Object.assign(new Error(`the engine stopped: ${wasm?.panicked() ?? error.message}`), { trapped: true });
}

/** What the browser says of a GPU that may be taken; nothing where there is no such. */
async function gpu(software) {
  const adapter = await globalThis.navigator?.gpu?.requestAdapter();
  return adapter && (software || !adapter.info?.isFallbackAdapter) ? (adapter.info ?? {}) : undefined;
}

/** More threads than any processor has: a mistake. */
const MOST_THREADS = 256;

/** The module to try first, and how many threads the processor has; `why`, if one. A GPU is used from one thread alone. */
async function choice({ device = "auto", software }, { module = flavour(), threads }) {
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= MOST_THREADS)) {
    throw new RangeError(`threads: expected 1 to ${MOST_THREADS}, got ${threads}`);
  }
  const most = threads ? { threads } : await cores();
  const isAlone = most.threads === 1 || typeof SharedArrayBuffer === "undefined";
  if (isAlone) return { ...most, name: module, last: true };
  const onGpu = device === "gpu" || (device === "auto" && (await gpu(software)) !== undefined);
  return { ...most, name: onGpu ? module : `${module}-threads`, last: device !== "auto" || !onGpu };
}

/** What was chosen, or one thread: some phones do not give the 4 GiB of addresses that threads share. */
async function startable(chosen, { bytes }) {
  try {
    await start(chosen.name, bytes);
    return chosen;
  } catch (error) {
    if (!(error instanceof RangeError) || !chosen.name.endsWith("-threads")) throw error;
    const why = "one thread: the browser refuses the memory that threads share";
    return { ...chosen, name: chosen.name.replace("-threads", ""), threads: 1, why };
  }
}

/** By how much the processor must be ahead at a token to be taken instead of a GPU, which is far ahead at prompts. */
const AHEAD = 1.25;

/** What both devices' times are remembered under: nothing where there is no choice, or layers have to pass. */
async function subject({ size }, { device = "auto", memory, software }, { module = flavour(), threads, devices }) {
  if (!devices || device !== "auto" || memory !== undefined) return undefined;
  const info = await gpu(software);
  if (!info) return undefined;
  const { vendor, architecture, device: name, description } = info;
  return [vendor, architecture, name, description, module, threads ?? (await cores()).threads, size].join("|");
}

/** A SHA-256 that grows: `update(bytes)`, `hex()`. */
export async function hash(options, how) {
  const { name } = await startable(await choice(options, how), how);
  const { glue } = await start(name);
  return new glue.Hash();
}

/** What a file's model takes and what holds it. `options.gpu` is the largest buffer of a GPU that may be taken. */
export async function fit(source, options, { module = flavour(), bytes } = {}) {
  const { glue } = await start(module, bytes);
  try {
    return JSON.parse(glue.fit(source, JSON.stringify(options)));
  } catch (error) {
    throw explained(error);
  }
}

export class Engine {
  #wasm;
  #engine;
  #turns = new MessageChannel();
  #resume = [];
  #last = Promise.resolve();

  /**
   * Loads a model. Where `auto` may choose, both devices are timed once, and the faster one has it.
   * @param source `{ size, read(offset, into) }`
   * @param adapters such sources, which `options.adapters` names in the same order
   */
  static async load(source, adapters, options, how = {}) {
    const onProcessor = () => Engine.#load(source, adapters, { ...options, device: "cpu" }, how);
    const about = await subject(source, options, how);
    let timed = about && (await how.devices.recall(about));
    let engine = timed?.device === "cpu" ? await onProcessor() : await Engine.#load(source, adapters, options, how);
    if (about && !timed && engine.info.device === "gpu") {
      timed = await engine.#timed(source, options, how);
      if (timed) await how.devices.keep(about, timed);
      if (timed?.device === "cpu") {
        await engine.close();
        engine = await onProcessor();
      }
    }
    if (!timed) return engine;
    engine.info.timed = timed;
    if (timed.device === "cpu") {
      const [cpu, gpu] = [timed.cpu, timed.gpu].map((time) => time.toFixed(1));
      const reason = `the processor is faster: ${cpu} ms for a token, the GPU ${gpu} ms`;
      engine.info.reason = [reason, engine.info.reason].filter(Boolean).join("; ");
    }
    return engine;
  }

  /** Times a token on this model's GPU, and on the processor with one of its layers; nothing where the processor can't have it. */
  async #timed(source, { software, ...options }, how) {
    const clock = () => performance.now();
    const { cpu: processor } = JSON.parse(this.#wasm.fit(source, JSON.stringify({ context: options.context })));
    if (!processor.fits || this.info.embeddingsOnly) return undefined;
    try {
      const gpu = await this.#queue((engine) => engine.tokenMs(clock));
      const { name, threads } = await startable(await choice({ device: "cpu" }, how), how);
      const module = await start(name, how.bytes);
      if (name.endsWith("-threads")) await gather(threads - 1, module);
      const asked = JSON.stringify({ ...options, device: "cpu", threads });
      const cpu = await module.glue.processorTokenMs(source, asked, clock);
      return { device: cpu * AHEAD < gpu ? "cpu" : "gpu", gpu, cpu };
    } catch {
      // A model that does not run layer by layer stays on the GPU, which has been verified.
      return undefined;
    } finally {
      wasm = this.#wasm;
    }
  }

  /** Loads it where the options say, or where it can be. */
  static async #load(source, adapters, options, how) {
    const chosen = await choice(options, how);
    const { name, threads, why } = await startable(chosen, how);
    const first = await Engine.#begin(source, adapters, options, { ...how, name, threads });
    if (first.info.device === "gpu") return first;
    if (chosen.last) {
      first.info.reason ??= why ?? null;
      return first;
    }
    // The GPU is out: the processor has another module for several threads.
    const shared = await startable({ name: `${name}-threads`, threads }, how);
    if (shared.why) {
      first.info.reason = [first.info.reason, shared.why].filter(Boolean).join("; ");
      return first;
    }
    await first.close();
    const second = await Engine.#begin(source, adapters, { ...options, device: "cpu" }, { ...how, ...shared });
    second.info.reason = first.info.reason;
    return second;
  }

  static async #begin(source, adapters, { software, ...options }, { name, threads, bytes }) {
    const engine = new Engine();
    const isShared = name.endsWith("-threads");
    const module = await start(name, bytes);
    if (isShared) await gather(threads - 1, module);
    engine.#wasm = module.glue;
    engine.#turns.port1.onmessage = () => engine.#resume.shift()?.();
    engine.#turns.port1.unref?.();
    const asked = isShared ? { ...options, threads } : { ...options, software };
    try {
      engine.#engine = await module.glue.Engine.load(source, adapters, JSON.stringify(asked));
    } catch (error) {
      throw explained(error);
    }
    const info = JSON.parse(engine.#engine.info());
    engine.info = { ...info, module: name.replace("-threads", ""), threads: isShared ? threads : 1 };
    return engine;
  }

  /** Lets messages arrive that wait for this thread. A timer would take 4 ms. Node takes up to 1000 messages before it looks at timers. */
  #turn() {
    if (IN_NODE) return new Promise(setImmediate);
    return new Promise((resolve) => {
      this.#resume.push(resolve);
      this.#turns.port2.postMessage(0);
    });
  }

  /** Work is done in the order in which it is asked for. */
  #queue(work) {
    const done = this.#last.then(async () => {
      if (!this.#engine) throw new Error("the model is closed");
      try {
        return await work(this.#engine);
      } catch (error) {
        throw explained(error);
      }
    });
    this.#last = done.catch(() => {});
    return done;
  }

  stop() {
    return new this.#wasm.Stop();
  }

  /** The ids of a text, or of a conversation. */
  tokenize(text, { prompt = false } = {}) {
    const ids = (engine) => (typeof text === "string" ? engine.tokenize(text, prompt) : this.#ids({ messages: text }));
    return this.#queue((engine) => [...ids(engine)]);
  }

  detokenize(tokens) {
    return this.#queue((engine) => engine.detokenize(Uint32Array.from(tokens)));
  }

  /** The ids of a conversation or of a text, or the ids that were given. */
  #ids({ messages, prompt }) {
    if (messages) return this.#engine.conversation(JSON.stringify(messages));
    return typeof prompt === "string" ? this.#engine.tokenize(prompt, true) : Uint32Array.from(prompt);
  }

  /** The vectors of texts, each a `Float32Array`. */
  embed(texts, { pooling = "" }, stop) {
    return this.#queue(async (engine) => {
      const vectors = [];
      for (const text of texts) {
        if (stop.stopped) break;
        vectors.push(await engine.embed(this.#ids({ prompt: text }), pooling));
        await this.#turn();
      }
      return vectors;
    });
  }

  /** Continues `{ messages }` or `{ prompt }`; `hear` gets the pieces, and how far the prompt is. */
  generate(input, { maxTokens, stop: texts, logprobs, ...rest }, stop, hear) {
    return this.#queue(async (engine) => {
      const options = JSON.stringify({ maxTokens, stop: texts, logprobs, sampling: sampling(rest) });
      const turn = (at) => {
        if ("logprobs" in at) at = { ...at, logprobs: at.logprobs && JSON.parse(at.logprobs) };
        hear(at);
        return this.#turn();
      };
      return JSON.parse(await engine.generate(this.#ids(input), options, stop, turn));
    });
  }

  memory() {
    return this.#queue((engine) => JSON.parse(engine.memory()));
  }

  /** The logits after a prompt. */
  logits(input, stop) {
    return this.#queue((engine) => engine.logits(this.#ids(input), stop, () => this.#turn()));
  }

  /** The named values of a pass over a prompt. */
  trace(input, options) {
    return this.#queue(async (engine) => JSON.parse(await engine.trace(this.#ids(input), JSON.stringify(options))));
  }

  /** What verifying the GPU finds. */
  verify() {
    return this.#queue(async (engine) => JSON.parse(await engine.verify()));
  }

  saveSession() {
    return this.#queue((engine) => engine.saveSession());
  }

  loadSession(bytes) {
    return this.#queue((engine) => [...engine.loadSession(bytes)]);
  }

  /** Frees the model's memory, after what is under way. */
  close() {
    return this.#queue((engine) => {
      this.#engine = undefined;
      engine.free();
      this.#turns.port1.close();
    });
  }
}

/**
 * What is asked of a loaded model, by name: the same of a worker and in Node. `stop()` makes what ends the work, `piece` hears what
 * comes on the way.
 */
export const WORK = {
  tokenize: (engine, { text, options }) => engine.tokenize(text, options),
  detokenize: (engine, { tokens }) => engine.detokenize(tokens),
  embed: (engine, { texts, options }, { stop }) => engine.embed(texts, options, stop()),
  generate: (engine, { input, options }, { stop, piece }) => engine.generate(input, options, stop(), piece),
  logits: (engine, { input }, { stop }) => engine.logits(input, stop()),
  trace: (engine, { input, options }) => engine.trace(input, options),
  verify: (engine) => engine.verify(),
  saveSession: (engine) => engine.saveSession(),
  loadSession: (engine, { bytes }) => engine.loadSession(bytes),
  memory: (engine) => engine.memory(),
  close: (engine) => engine?.close(),
};
