// The worker that has a model: everything that takes time happens here. Messages are `{ id, op, ... }`; answers are
// `{ id, result }`, `{ id, error }` and on the way `{ id, piece }` or `{ id, progress }`.
import { Engine, explained, hash } from "./engine.js";
import { file, forget, list } from "./files.js";

let engine;
/** What ends the work of a message. */
const stops = new Map();

/** A blob that is read where the engine stands: no copy of it is in memory. */
function blobSource(blob) {
  const reader = new FileReaderSync();
  return {
    size: blob.size,
    read(offset, into) {
      into.set(new Uint8Array(reader.readAsArrayBuffer(blob.slice(offset, offset + into.length))));
    },
  };
}

const OPERATIONS = {
  async load({ source, options, sha256, cache, module }, { signal, progress }) {
    let got = { blob: source, from: "file" };
    if (typeof source === "string") {
      const hasher = () => hash({ module });
      got = await file(source, { sha256, cache, signal, onProgress: progress, hasher });
    }
    try {
      engine = await Engine.load(blobSource(got.blob), options, { module });
    } catch (error) {
      // What cannot be read is not kept, or it would fail for ever.
      if (typeof source === "string" && error.name === "GgufError") {
        await forget(source).catch(() => {});
        error.message = `${source}: ${error.message}; it is no longer in the cache`;
      }
      throw error;
    }
    return { ...engine.info, from: got.from, note: got.note };
  },
  tokenize: ({ text, options }) => engine.tokenize(text, options),
  detokenize: ({ tokens }) => engine.detokenize(tokens),
  embed: ({ texts, options }, { stop }) => engine.embed(texts, options, stop()),
  generate: ({ input, options }, { stop, piece }) => engine.generate(input, options, stop(), piece),
  close: () => engine?.close(),
  list: () => list(),
  delete: ({ url }) => forget(url),
};

function described(error) {
  const { name, message, trapped } = explained(error);
  return { name, message: message ?? String(error), trapped };
}

self.onmessage = async ({ data: { id, op, ...rest } }) => {
  if (op === "abort") return stops.get(rest.of)?.();
  const abort = new AbortController();
  let stopped;
  stops.set(id, () => {
    abort.abort();
    stopped?.stop();
  });
  const context = {
    signal: abort.signal,
    progress: (progress) => self.postMessage({ id, progress }),
    piece: (piece) => self.postMessage({ id, piece }),
    stop() {
      stopped = engine.stop();
      if (abort.signal.aborted) stopped.stop();
      return stopped;
    },
  };
  try {
    self.postMessage({ id, result: await OPERATIONS[op](rest, context) });
  } catch (error) {
    self.postMessage({ id, error: described(error) });
  } finally {
    stops.delete(id);
    stopped?.free();
  }
};

// A panic in the middle of what is awaited reaches no promise.
for (const event of ["error", "unhandledrejection"]) {
  self.addEventListener(event, ({ error, reason }) => self.postMessage({ fatal: described(error ?? reason ?? new Error("unknown")) }));
}
