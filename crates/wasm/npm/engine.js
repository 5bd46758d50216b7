// A loaded model: which module runs it, and what is asked of it, one piece of work after the other. The same in a worker and in
// Node.

/** A module with one relaxed instruction: valid where the engine knows them. */
const RELAXED = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11,
]);
const SIMD = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11]);

/** The folder of the module for this browser. */
export function flavour() {
  if (WebAssembly.validate(RELAXED)) return "relaxed-simd";
  if (WebAssembly.validate(SIMD)) return "simd128";
  throw new Error("candor needs WebAssembly with SIMD: Chrome 91, Firefox 89, Safari 16.4, Node 20 or later");
}

/** Names of the sampler's settings, as the engine writes them: topK is top_k. */
function sampling(options) {
  const named = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(named.map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]));
}

let running;
let wasm;

/** The module of this thread. `bytes(address)` gives what it is started from, where its address is not enough. */
function started({ module = flavour(), bytes } = {}) {
  running ??= (async () => {
    const folder = new URL(`./${module}/`, import.meta.url);
    wasm = await import(new URL("candor.js", folder).href);
    const address = new URL("candor_bg.wasm", folder);
    await wasm.default({ module_or_path: bytes ? await bytes(address) : address });
  })();
  return running;
}

/** What a panic said, where an error is one: the instance is of no use after it. */
export function explained(error) {
  if (!(error instanceof WebAssembly.RuntimeError)) return error;
  return Object.assign(new Error(`the engine stopped: ${wasm?.panicked() ?? error.message}`), { trapped: true });
}

/** A SHA-256 that grows: `update(bytes)`, `hex()`. */
export async function hash(start) {
  await started(start);
  return new wasm.Hash();
}

/** What a file's model takes and what holds it. `options.gpu` is the largest buffer of a GPU that may be taken. */
export async function fit(source, options, start) {
  await started(start);
  try {
    return JSON.parse(wasm.fit(source, JSON.stringify(options)));
  } catch (error) {
    throw explained(error);
  }
}

export class Engine {
  #engine;
  #turns = new MessageChannel();
  #resume = [];
  #last = Promise.resolve();

  /**
   * Loads a model.
   * @param source `{ size, read(offset, into) }`
   * @param adapters such sources, which `options.adapters` names in the same order
   */
  static async load(source, adapters, options, start) {
    const engine = new Engine();
    await started(start);
    engine.#turns.port1.onmessage = () => engine.#resume.shift()?.();
    engine.#turns.port1.unref?.();
    try {
      engine.#engine = await wasm.Engine.load(source, adapters, JSON.stringify(options));
    } catch (error) {
      throw explained(error);
    }
    engine.info = { ...JSON.parse(engine.#engine.info()), module: start?.module ?? flavour() };
    return engine;
  }

  /** Lets messages arrive that wait for this thread. A timer would take 4 ms. */
  #turn() {
    return new Promise((resolve) => {
      this.#resume.push(resolve);
      this.#turns.port1.ref?.();
      this.#turns.port2.postMessage(0);
    }).finally(() => this.#turns.port1.unref?.());
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
    return new wasm.Stop();
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
  close: (engine) => engine?.close(),
};
