// The worker that has a model: everything that takes time happens here. Messages are `{ id, op, ... }`; answers are
// `{ id, result }`, `{ id, error }` and on the way `{ id, piece }` or `{ id, progress }`.
import { Engine, explained, hash, source } from "./engine.js";
import { file, forget, list } from "./files.js";

let engine;
/** What ends the work of a message. */
const stops = new Map();

/** A blob that is read where the engine stands: no copy of it is in memory. */
function blobSource(blob) {
  const reader = new FileReaderSync();
  const part = (offset, length) => blob.slice(offset, offset + length);
  const read = (offset, into) => into.set(new Uint8Array(reader.readAsArrayBuffer(part(offset, into.length))));
  return source(blob.size, read, async (offset, length) => new Uint8Array(await part(offset, length).arrayBuffer()));
}

const OPERATIONS = {
  async load({ source: from, options, sha256, cache, how }, { signal, progress }) {
    let got = { blob: from, from: "file" };
    if (typeof from === "string") {
      const hasher = () => hash(options, how);
      got = await file(from, { sha256, cache, signal, onProgress: progress, hasher });
    }
    try {
      engine = await Engine.load(blobSource(got.blob), options, how);
    } catch (error) {
      // What cannot be read is not kept, or it would fail for ever.
      if (typeof from === "string" && error.name === "GgufError") {
        await forget(from).catch(() => {});
        error.message = `${from}: ${error.message}; it is no longer in the cache`;
      }
      throw error;
    }
    return { ...engine.info, from: got.from, note: got.note };
  },
  tokenize: ({ text, options }) => engine.tokenize(text, options),
  detokenize: ({ tokens }) => engine.detokenize(tokens),
  embed: ({ texts, options }, { stop }) => engine.embed(texts, options, stop()),
  generate: ({ input, options }, { stop, piece }) => engine.generate(input, options, stop(), piece),
  memory: () => engine.memory(),
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
