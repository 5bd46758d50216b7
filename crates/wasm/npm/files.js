// Model files by address: downloaded into the origin's private file system, whole or not at all. A download that breaks off goes on
// where it stopped. One that does not fit goes on in memory.

const FOLDER = "candor-models";
const MAGIC = "GGUF";
/** Attempts without a byte between them. */
const ATTEMPTS = 5;
const PAUSE = 500;
/** Bytes of a download in memory that stay as they came: a blob copies them twice, which takes longer than to download them nearby. */
const KEPT = 2 ** 30;
/** Bytes beyond those that become a blob, which the browser may put on disk. */
const BLOB = 8 << 20;

const hint = (address, text) => new Error(`${address}: ${text}`);
const noModel = (address, headers) => {
  const type = headers.get("content-type") ?? "something else";
  return hint(address, `the server answers ${type}, and no GGUF file: is this the address of the file itself?`);
};
const isFull = (error) => error?.name === "QuotaExceededError";
const isAbort = (error) => error?.name === "AbortError";
/** What another attempt does not mend. */
const final = (error) => Object.assign(error, { final: true });

async function folder() {
  const root = await navigator.storage.getDirectory();
  return root.getDirectoryHandle(FOLDER, { create: true });
}

/** The file's name in the folder: nothing of an address is unfit for a name then. */
async function nameOf(address) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(address)));
  return [...digest.slice(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function existing(files, name) {
  return files.getFileHandle(name).catch((error) => {
    if (error.name === "NotFoundError") return undefined;
    throw error;
  });
}

async function readNote(files, name) {
  const handle = await existing(files, name);
  if (!handle) return undefined;
  try {
    return JSON.parse(await (await handle.getFile()).text());
  } catch {
    return undefined;
  }
}

/** Replaces a small file; one that is cut off is no JSON, and counts for nothing. */
async function writeNote(files, name, note) {
  const handle = await files.getFileHandle(name, { create: true });
  const open = await handle.createSyncAccessHandle();
  try {
    open.truncate(0);
    open.write(new TextEncoder().encode(JSON.stringify(note)));
    open.flush();
  } finally {
    open.close();
  }
}

const remove = (files, name) => files.removeEntry(name).catch(() => {});

/** Where devices' times are. */
const TIMES = "times.json";
/** Drivers, browsers and this package get faster: then they are found out once more. */
const THIRTY_DAYS = 30 * 24 * 3600 * 1000;

/** What was found out of devices, and where. What cannot be kept is found out at the next visit. */
export const devices = {
  async recall(subject) {
    const times = await folder().then((files) => readNote(files, TIMES)).catch(() => undefined);
    const { since, ...timed } = times?.[subject] ?? {};
    return Date.now() - since < THIRTY_DAYS ? timed : undefined;
  },
  async keep(subject, timed) {
    try {
      const files = await folder();
      await writeNote(files, TIMES, { ...(await readNote(files, TIMES)), [subject]: { ...timed, since: Date.now() } });
    } catch {
      // No room, another tab writes, or a private window.
    }
  },
};

/** The files that are there: `{ url, bytes }`, with `complete: false` where a download broke off. */
export async function list() {
  const files = await folder();
  const found = [];
  for await (const name of files.keys()) {
    if (!name.endsWith(".json")) continue;
    const [note, whole] = [await readNote(files, name), name.replace(".json", ".gguf")];
    const handle = note && ((await existing(files, whole)) ?? (await existing(files, name.replace(".json", ".part"))));
    if (handle) found.push({ url: note.url, bytes: (await handle.getFile()).size, complete: handle.name === whole });
  }
  return found;
}

/** Deletes the file of an address; whether there was one. */
export async function forget(url) {
  const files = await folder();
  const name = await nameOf(new URL(url, location.href).href);
  const there = Boolean((await existing(files, `${name}.gguf`)) ?? (await existing(files, `${name}.part`)));
  for (const end of [".gguf", ".part", ".json"]) await remove(files, name + end);
  return there;
}

/**
 * The file of an address: `{ blob, from, note }`, `from` being "cache", "network" or "memory", and `note` what the user may want
 * to know. From memory it may have `pieces` instead of the blob.
 */
export async function file(url, { sha256, cache = true, signal, onProgress = () => {}, hasher }) {
  const address = new URL(url, globalThis.location?.href).href;
  const download = { address, sha256: sha256?.toLowerCase(), signal, onProgress, hasher };
  if (!cache) return inMemory(download, "");
  let files;
  try {
    files = await folder();
  } catch (error) {
    return inMemory(download, `this page has no private files (${error.message})`);
  }
  const name = await nameOf(address);
  // Another tab may be at it: then its file is there afterwards.
  return navigator.locks.request(`${FOLDER}/${name}`, { signal }, async () => {
    const blob = await whole(files, name, download.sha256);
    if (blob) return { blob, from: "cache" };
    await remove(files, `${name}.gguf`);
    return onDisk(download, files, name);
  });
}

/** The file of that name, if it is there as it should be. */
async function whole(files, name, sha256) {
  const blob = await (await existing(files, `${name}.gguf`))?.getFile();
  const note = blob && (await readNote(files, `${name}.json`));
  return note && note.bytes === blob.size && (!sha256 || note.sha256 === sha256) ? blob : undefined;
}

/** The file of an address, if it was downloaded. */
export async function kept(address) {
  try {
    return await whole(await folder(), await nameOf(address));
  } catch {
    return undefined;
  }
}

/** What is asked for of a file's beginning at first: most directories take less. */
const HEAD = 1 << 20;

/**
 * What `look(source)` makes of a file, of which no more is asked for than it reads. The source has the beginning alone: where `look`
 * reads beyond that, more is fetched, and it looks again.
 */
export async function beginning(address, look, signal) {
  let [head, size, wanted] = [new Uint8Array(0), undefined, HEAD];
  for (;;) {
    const more = await piece(address, head.length, wanted, signal);
    if (size !== undefined && more.size !== size) throw hint(address, "the file has changed meanwhile");
    head = new Uint8Array(await new Blob([head, more.bytes]).arrayBuffer());
    size = more.size;
    let missing;
    const read = (offset, into) => {
      if (offset + into.length > head.length) {
        missing = offset + into.length;
        throw new Error("not there yet");
      }
      into.set(head.subarray(offset, offset + into.length));
    };
    try {
      return await look({ size, read });
    } catch (error) {
      if (missing === undefined || head.length >= Math.min(missing, size)) throw error;
      wanted = missing;
    }
  }
}

/** A file's bytes from one place to another, or to its end, and how long it is. */
async function piece(address, from, to, signal) {
  const response = await fetch(address, { headers: { range: `bytes=${from}-${to - 1}` }, signal, cache: "no-store" });
  if (!response.ok) throw hint(address, `the server answers ${response.status} ${response.statusText}`.trim());
  const isPart = response.status === 206;
  const length = (headers) => (headers.get("content-encoding") ? undefined : (headers.get("content-length") ?? undefined));
  let size = isPart ? /\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1] : length(response.headers);
  // Another origin may keep the range to itself, but not how long a whole answer is.
  if (isPart && size === undefined) size = length((await fetch(address, { method: "HEAD", signal })).headers);
  const [chunks, reader] = [[], response.body.getReader()];
  let [at, skip] = [isPart ? from : 0, isPart ? 0 : from];
  while (at < to) {
    const { done, value } = await reader.read();
    if (done) break;
    at += value.length;
    chunks.push(value.subarray(Math.min(skip, value.length)));
    skip -= Math.min(skip, value.length);
  }
  // A server without ranges would send the rest.
  await reader.cancel();
  const bytes = new Blob(chunks);
  if (from === 0 && (await bytes.slice(0, MAGIC.length).text()) !== MAGIC) throw noModel(address, response.headers);
  if (size === undefined) throw hint(address, "the server does not say how long the file is");
  return { bytes, size: Number(size) };
}

/** Into the folder. */
async function onDisk(download, files, name) {
  const [part, noted] = [`${name}.part`, `${name}.json`];
  const handle = await files.getFileHandle(part, { create: true });
  let note = await readNote(files, noted);
  const open = await handle.createSyncAccessHandle();
  let rest;
  const target = {
    /** How much is there, of what version of the file. */
    held: () => (note?.bytes === undefined ? 0 : target.length()),
    version: () => note,
    async restart(version) {
      open.truncate(0);
      rest = undefined;
      note = { url: download.address, ...version };
      try {
        await writeNote(files, noted, note);
      } catch (error) {
        if (!isFull(error)) throw error;
        rest = new Pieces();
      }
    },
    write(chunk, at) {
      if (!rest) {
        try {
          const written = open.write(chunk, { at });
          if (written === chunk.length) return;
          throw new DOMException("a write was cut short", "QuotaExceededError");
        } catch (error) {
          if (!isFull(error)) throw error;
          open.truncate(at);
          rest = new Pieces();
        }
      }
      rest.push(chunk);
    },
    length: () => open.getSize() + (rest?.bytes ?? 0),
    read: (into, at) => open.read(into, { at }),
  };
  try {
    await fill(download, target);
    open.flush();
    if (!rest) await check(download, target);
  } catch (error) {
    if (error.spoilt) open.truncate(0);
    throw error;
  } finally {
    open.close();
  }
  if (rest) {
    const blob = new Blob([await handle.getFile(), ...rest.parts()]);
    await checkBlob(download, blob);
    return { blob, from: "memory", note: "the browser gives this page no more storage: the next visit downloads the rest again" };
  }
  await writeNote(files, noted, { ...note, sha256: download.sha256 });
  await rename(files, handle, `${name}.gguf`);
  return { blob: await (await files.getFileHandle(`${name}.gguf`)).getFile(), from: "network" };
}

/** Gives a file its name at once. */
async function rename(files, handle, name) {
  if (handle.move) return handle.move(name);
  throw hint(name, "this browser cannot rename private files; load with `cache: false`");
}

/** Without the folder. */
async function inMemory(download, why) {
  const pieces = new Pieces();
  let version;
  await fill(download, {
    held: () => pieces.bytes,
    version: () => version,
    restart(fresh) {
      pieces.clear();
      version = fresh;
    },
    write: (chunk) => pieces.push(chunk),
    length: () => pieces.bytes,
  });
  await checkPieces(download, pieces);
  return { pieces, from: "memory", note: why && `${why}: the next visit downloads the file again` };
}

/** Bytes of a download in memory, in the order in which they come. */
class Pieces {
  bytes = 0;
  /** `{ start, bytes }`, after them `{ start, blob }`. */
  #parts = [];
  #chunks = [];
  #waiting = 0;

  push(chunk) {
    this.bytes += chunk.length;
    if (this.bytes <= KEPT) {
      this.#parts.push({ start: this.bytes - chunk.length, bytes: chunk });
      return;
    }
    this.#chunks.push(chunk);
    this.#waiting += chunk.length;
    if (this.#waiting >= BLOB) this.#pack();
  }

  #pack() {
    if (this.#waiting) this.#parts.push({ start: this.bytes - this.#waiting, blob: new Blob(this.#chunks) });
    [this.#chunks, this.#waiting] = [[], 0];
  }

  /** What a blob of all is made of. */
  parts() {
    this.#pack();
    return this.#parts.map(({ bytes, blob }) => bytes ?? blob);
  }

  /** Fills `into` from `offset` on. */
  read(offset, into) {
    this.#pack();
    if (offset + into.length > this.bytes) throw new Error(`the file ends at ${this.bytes}`);
    let [low, high] = [0, this.#parts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#parts[middle].start <= offset) low = middle;
      else high = middle;
    }
    for (let at = 0; at < into.length; low++) {
      const { start, bytes, blob } = this.#parts[low];
      const [from, to] = [offset + at - start, offset + into.length - start];
      const part = bytes ? bytes.subarray(from, to) : new Uint8Array(new FileReaderSync().readAsArrayBuffer(blob.slice(from, to)));
      into.set(part, at);
      at += part.length;
    }
  }

  clear() {
    [this.#parts, this.#chunks, this.#waiting, this.bytes] = [[], [], 0, 0];
  }
}

/** Downloads until all is there, and goes on after what breaks off. */
async function fill(download, target) {
  let failures = 0;
  for (;;) {
    const before = target.length();
    try {
      return await once(download, target);
    } catch (error) {
      if (isAbort(error) || error.final || download.signal?.aborted) throw error;
      failures = target.length() > before ? 1 : failures + 1;
      if (failures >= ATTEMPTS) throw hint(download.address, `the download failed ${ATTEMPTS} times: ${error.message}`);
      await new Promise((resolve) => setTimeout(resolve, PAUSE * failures));
      download.signal?.throwIfAborted();
    }
  }
}

/** A validator that a server may be asked by: a strong tag, or the date. */
function versionOf(headers, bytes) {
  const tag = headers.get("etag");
  return { bytes, etag: tag && !tag.startsWith("W/") ? tag : undefined, date: headers.get("last-modified") ?? undefined };
}

/** One request, from what is held on. */
async function once({ address, signal, onProgress }, target) {
  const version = target.version();
  const held = target.held() < MAGIC.length ? 0 : target.held();
  if (held > 0 && held === version?.bytes) return;
  const validator = version?.etag ?? version?.date;
  const headers = {};
  if (held > 0 && version?.bytes && held < version.bytes && validator) {
    headers.range = `bytes=${held}-`;
    // Another origin would be asked for permission to see it. What it answers is compared below.
    if (new URL(address).origin === location.origin) headers["if-range"] = validator;
  }
  const response = await fetch(address, { headers, signal, cache: "no-store" });
  let at = 0;
  if (response.status === 206) {
    const [, from, total] = /bytes (\d+)-\d+\/(\d+)/.exec(response.headers.get("content-range") ?? "") ?? [];
    const other = versionOf(response.headers, version.bytes);
    const changed = (other.etag ?? version.etag) !== version.etag || Number(total ?? version.bytes) !== version.bytes;
    if (changed || (from !== undefined && Number(from) !== held)) {
      await response.body?.cancel();
      await target.restart({});
      throw hint(address, "the file has changed meanwhile");
    }
    at = held;
  } else if (response.status === 416) {
    await target.restart({});
    throw hint(address, "the file is shorter than it was");
  } else if (!response.ok) {
    const error = hint(address, `the server answers ${response.status} ${response.statusText}`.trim());
    throw response.status >= 500 || response.status === 429 ? error : final(error);
  } else {
    const encoded = response.headers.get("content-encoding");
    const length = response.headers.get("content-length");
    await target.restart(versionOf(response.headers, encoded || length === null ? undefined : Number(length)));
  }
  const total = target.version()?.bytes;
  const reader = response.body.getReader();
  let head = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at === head.length && at < MAGIC.length) {
      head += String.fromCharCode(...value.subarray(0, MAGIC.length - head.length));
      if (!MAGIC.startsWith(head)) {
        await reader.cancel();
        await target.restart({});
        throw final(noModel(address, response.headers));
      }
    }
    target.write(value, at);
    at += value.length;
    onProgress({ loaded: at, total });
  }
  if (total !== undefined && at !== total) throw hint(address, `the connection ended after ${at} of ${total} bytes`);
  if (at === 0) throw final(hint(address, "the server answers an empty file"));
}

const PIECE = 1 << 20;

/** The hash of a file on disk, where one is asked for. */
async function check(download, target) {
  if (!download.sha256) return;
  const hash = await download.hasher();
  const into = new Uint8Array(PIECE);
  for (let at = 0; at < target.length(); ) {
    const read = target.read(into, at);
    hash.update(into.subarray(0, read));
    at += read;
  }
  compare(download, hash.hex());
}

async function checkPieces(download, pieces) {
  if (!download.sha256) return;
  const hash = await download.hasher();
  for (let at = 0; at < pieces.bytes; at += PIECE) {
    const into = new Uint8Array(Math.min(PIECE, pieces.bytes - at));
    pieces.read(at, into);
    hash.update(into);
  }
  compare(download, hash.hex());
}

async function checkBlob(download, blob) {
  if (!download.sha256) return;
  const hash = await download.hasher();
  for (let at = 0; at < blob.size; at += PIECE) {
    hash.update(new Uint8Array(await blob.slice(at, at + PIECE).arrayBuffer()));
  }
  compare(download, hash.hex());
}

function compare({ address, sha256 }, found) {
  if (found !== sha256) {
    throw Object.assign(hint(address, `the file's SHA-256 is ${found}, expected ${sha256}`), { spoilt: true });
  }
}
