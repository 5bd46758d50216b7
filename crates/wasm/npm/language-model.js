// A model with the face of Chrome's `LanguageModel`. docs/browser.md has what it takes.
import { load, models } from "./candor.js";

const CREATE = ["initialPrompts", "signal", "monitor", "temperature", "topK", "expectedInputs", "expectedOutputs"];

const destroyed = () => new DOMException("the session is destroyed", "InvalidStateError");
const unsupported = (what) => new DOMException(what, "NotSupportedError");

function tooLong(what, requested, quota) {
  const error = new DOMException(`the ${what} has ${requested} tokens, the context holds ${quota}`, "QuotaExceededError");
  return Object.assign(error, { requested, quota });
}

function known(names, given) {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || names.includes(name)) continue;
    throw unsupported(`unknown option ${name}: expected one of ${names.join(", ")}`);
  }
}

/** The model of some sessions: loaded once, and freed with the last of them. */
class Shared {
  users = 0;
  hearers = new Set();
  #abort = new AbortController();
  #freed;

  /** `freed` hears that it is of no more use. */
  constructor(source, options, freed) {
    this.#freed = () => freed(this);
    const onProgress = (progress) => this.hearers.forEach((hear) => hear(progress));
    this.model = load(source, { ...options, signal: this.#abort.signal, onProgress });
    this.model.catch(this.#freed);
  }

  release() {
    this.users -= 1;
    if (this.users > 0) return;
    this.#freed();
    this.#abort.abort();
    this.model.then((model) => model.close(), () => {});
  }
}

/** What a promise gives, unless a signal aborts before. */
function unless(signal, promise) {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal?.aborted) return abort();
    signal?.addEventListener("abort", abort);
    promise.then(resolve, reject).finally(() => signal?.removeEventListener("abort", abort));
  });
}

/** Messages as a chat template takes them. */
function messages(input) {
  const list = typeof input === "string" ? [{ role: "user", content: input }] : input;
  return list.map(({ role, content, prefix }) => {
    if (prefix) throw unsupported("prefix: an answer cannot be begun");
    if (typeof content === "string") return { role, content };
    const texts = content.map(({ type, value }) => {
      if (type !== "text") throw unsupported(`type ${type}: expected text`);
      return value;
    });
    return { role, content: texts.join("") };
  });
}

class Session extends EventTarget {
  /** Tokens of the conversation. */
  contextUsage = 0;
  oncontextoverflow = null;
  #shared;
  #model;
  #messages;
  /** How many of the messages are never left out. */
  #kept;
  #options;
  #last = Promise.resolve();
  #end = new AbortController();

  constructor(shared, model, messages, kept, options, contextUsage) {
    super();
    [this.#shared, this.#model, this.#messages, this.#kept, this.#options] = [shared, model, messages, kept, options];
    [this.temperature, this.topK, this.contextUsage] = [options.temperature, options.topK, contextUsage];
  }

  get contextWindow() {
    return this.#model.info.context;
  }

  /** Chrome's older names. */
  get inputUsage() {
    return this.contextUsage;
  }

  get inputQuota() {
    return this.contextWindow;
  }

  measureInputUsage(input, options) {
    return this.measureContextUsage(input, options);
  }

  async measureContextUsage(input, { signal } = {}) {
    this.#check(signal);
    const before = await count(this.#model, this.#messages);
    return (await count(this.#model, [...this.#messages, ...messages(input)])) - before;
  }

  async prompt(input, options) {
    let text = "";
    for await (const piece of this.#answer(input, options)) text += piece;
    return text;
  }

  promptStreaming(input, options) {
    const answer = this.#answer(input, options);
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await answer.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await answer.return();
      },
    }, { highWaterMark: 0 });
  }

  /** Adds messages to the conversation. */
  async append(input, { signal } = {}) {
    const done = await this.#turn(signal);
    try {
      [this.#messages, this.contextUsage] = await this.#fitted(messages(input));
    } finally {
      done();
    }
  }

  async clone({ signal } = {}) {
    this.#check(signal);
    this.#shared.users += 1;
    return new Session(this.#shared, this.#model, this.#messages, this.#kept, this.#options, this.contextUsage);
  }

  destroy() {
    if (this.#end.signal.aborted) return;
    this.#end.abort(new DOMException("the session was destroyed", "AbortError"));
    this.#shared.release();
  }

  #check(signal) {
    if (this.#end.signal.aborted) throw destroyed();
    signal?.throwIfAborted();
  }

  /** Waits until what was asked before is done; gives what says so of this. */
  async #turn(signal) {
    this.#check(signal);
    const before = this.#last;
    let done;
    this.#last = new Promise((resolve) => (done = resolve));
    try {
      await unless(signal, unless(this.#end.signal, before));
    } catch (error) {
      before.then(done);
      throw error;
    }
    return done;
  }

  /** The conversation with more, and its tokens. The oldest are left out where it is too long. */
  async #fitted(more) {
    const [kept, old] = [this.#messages.slice(0, this.#kept), this.#messages.slice(this.#kept)];
    for (let overflown = false; ; overflown = true) {
      const all = [...kept, ...old, ...more];
      const tokens = await count(this.#model, all);
      if (overflown && tokens < this.contextWindow) {
        const event = new Event("contextoverflow");
        this.oncontextoverflow?.(event);
        this.dispatchEvent(event);
      }
      if (tokens < this.contextWindow) return [all, tokens];
      if (!old.length) {
        throw tooLong("conversation", tokens, this.contextWindow);
      }
      // A message, and what answers it.
      do old.shift();
      while (old.length && old[0].role !== "user");
    }
  }

  async *#answer(input, { signal, ...rest } = {}) {
    known(["signal"], rest);
    const done = await this.#turn(signal);
    const abort = new AbortController();
    const ends = [this.#end.signal, signal].filter(Boolean);
    const stops = ends.map((end) => () => abort.abort(end.reason));
    ends.forEach((end, i) => end.addEventListener("abort", stops[i]));
    try {
      const [asked] = await this.#fitted(messages(input));
      this.#check(signal);
      const answer = this.#model.chat(asked, { ...this.#options, signal: abort.signal });
      let content = "";
      for await (const { text } of answer) {
        content += text;
        if (text) yield text;
      }
      this.#messages = [...asked, { role: "assistant", content }];
      const { promptTokens, cachedTokens, tokens } = answer.timings;
      this.contextUsage = promptTokens + cachedTokens + tokens;
    } finally {
      ends.forEach((end, i) => end.removeEventListener("abort", stops[i]));
      done();
    }
  }
}

/**
 * Tokens of a conversation by the model's template; of its texts where the template takes no such conversation, as one without a
 * question.
 */
async function count(model, messages) {
  if (!messages.length) return 0;
  try {
    return (await model.tokenize(messages)).length;
  } catch {
    const texts = await Promise.all(messages.map(({ content }) => model.tokenize(content)));
    return texts.reduce((sum, ids) => sum + ids.length, 0);
  }
}

/** Chrome's `LanguageModel` for a model: `source` and `options` are those of `load`. */
export function languageModel(source = "builtin", options = {}) {
  let shared;
  return {
    async availability() {
      const isAddress = typeof source === "string" && source !== "builtin" && typeof document !== "undefined";
      if (!isAddress) return "available";
      const { href } = new URL(source, document.baseURI);
      return (await models.list()).some(({ url, complete }) => complete && url === href) ? "available" : "downloadable";
    },

    async create(asked = {}) {
      known(CREATE, asked);
      const { initialPrompts = [], signal, monitor, temperature, topK } = asked;
      const other = [asked.expectedInputs, asked.expectedOutputs].flat().find((one) => one && one.type !== "text");
      if (other) throw unsupported(`type ${other.type}: expected text`);
      signal?.throwIfAborted();
      const first = messages(initialPrompts);
      const target = new EventTarget();
      const say = (loaded) => {
        const event = Object.assign(new Event("downloadprogress"), { loaded, total: 1, lengthComputable: true });
        target.ondownloadprogress?.(event);
        target.dispatchEvent(event);
      };
      const hear = ({ loaded, total }) => total && loaded < total && say(loaded / total);
      monitor?.(target);
      shared ??= new Shared(source, options, (one) => (shared = shared === one ? undefined : shared));
      const used = shared;
      used.users += 1;
      used.hearers.add(hear);
      try {
        say(0);
        const model = await unless(signal, used.model);
        const usage = await unless(signal, count(model, first));
        if (usage >= model.info.context) {
          throw tooLong("beginning", usage, model.info.context);
        }
        say(1);
        return new Session(used, model, first, first.length, { temperature, topK }, usage);
      } catch (error) {
        used.release();
        throw error;
      } finally {
        used.hearers.delete(hear);
      }
    },
  };
}
