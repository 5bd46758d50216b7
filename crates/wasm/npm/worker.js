// The worker that has a model: everything that takes time happens here. Messages are `{ id, op, ... }`; answers are
// `{ id, result }`, `{ id, error }` and on the way `{ id, piece }` or `{ id, progress }`.
import { Engine, explained, fit, hash, source, WORK } from "./engine.js";
import { beginning, devices, file, forget, kept, list } from "./files.js";

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

/** The same of what was downloaded, be it a blob or pieces in memory. */
function sourceOf({ blob, pieces }) {
  if (!pieces) return blobSource(blob);
  const fetched = async (offset, length) => {
    const into = new Uint8Array(length);
    pieces.read(offset, into);
    return into;
  };
  return source(pieces.bytes, (offset, into) => pieces.read(offset, into), fetched);
}

/** Most bytes of a buffer of the GPU that a model may be loaded on; nothing where there is no such. */
async function largestBuffer({ device, software }) {
  const adapter = device === "cpu" ? undefined : await navigator.gpu?.requestAdapter();
  if (!adapter || (!software && (adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter))) return undefined;
  return Math.min(adapter.limits.maxBufferSize, adapter.limits.maxStorageBufferBindingSize);
}

const OPERATIONS = {
  async load({ source, options, sha256, cache, how }, { signal, progress }) {
    const hasher = () => hash(options, how);
    const got = async (source, sha256, onProgress) =>
      typeof source === "string" ? file(source, { sha256, cache, signal, onProgress, hasher }) : { blob: source, from: "file" };
    const model = await got(source, sha256, progress);
    const adapters = [];
    for (const { source } of options.adapters) adapters.push(sourceOf(await got(source)));
    const named = options.adapters.map(({ source, ...rest }) => ({ name: source.name ?? String(source), ...rest }));
    try {
      engine = await Engine.load(sourceOf(model), adapters, { ...options, adapters: named }, { ...how, devices });
    } catch (error) {
      // What cannot be read is not kept, or it would fail for ever.
      const spoilt = [source, ...options.adapters.map(({ source }) => source)][error.file];
      if (typeof spoilt === "string") {
        await forget(spoilt).catch(() => {});
        error.message = `${spoilt}: ${error.message}; it is no longer in the cache`;
      }
      throw error;
    }
    return { ...engine.info, from: model.from, note: model.note };
  },
  async fit({ source, options: { device, software, ...options } }, { signal }) {
    const gpu = await largestBuffer({ device, software });
    const look = (source) => fit(source, { ...options, gpu });
    if (typeof source !== "string") return look(blobSource(source));
    const blob = await kept(source);
    return blob ? look(blobSource(blob)) : beginning(source, look, signal);
  },
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
    const result = OPERATIONS[op] ? await OPERATIONS[op](rest, context) : await WORK[op](engine, rest, context);
    self.postMessage({ id, result });
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
