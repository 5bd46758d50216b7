// Serves the package and model files, well and badly.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { Readable } from "node:stream";

const TYPES = { ".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html", ".json": "application/json" };
// The strictest policy that the package works with.
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'";
// With these a page may share memory among threads.
const ISOLATED = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const PAGE = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>candor</title>`;

/** How a file is served, by the first folder of its address. `tries` counts the requests of an address. */
const WAYS = {
  files: (request) => whole(request),
  // Breaks off at 60 % the first time.
  drop: (request) => whole({ ...request, breaks: request.tries === 1 }),
  // Knows no ranges, and breaks off the first time.
  plain: (request) => whole({ ...request, range: undefined, ranges: false, breaks: request.tries === 1 }),
  // Another file from the second time on.
  changed: (request) =>
    whole({ ...request, breaks: request.tries === 1, etag: `"version ${request.tries === 1 ? 1 : 2}"`,
      body: request.tries === 1 ? Buffer.concat([request.body, Buffer.alloc(1000)]) : request.body }),
  // Half of it each second.
  slow: (request) => whole({ ...request, slow: true }),
  html: ({ answer }) => answer.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>Sign in first"),
  corrupt: (request) => whole({ ...request, body: Buffer.concat([request.body.subarray(0, 64), Buffer.alloc(4096, 255)]) }),
};

function whole({ answer, body, range, condition, etag = `"only"`, ranges = true, breaks, slow }) {
  const [, first, last] = /bytes=(\d+)-(\d*)/.exec(range ?? "") ?? [];
  const partial = first !== undefined && (condition === undefined || condition === etag);
  const [from, end] = [partial ? Number(first) : 0, partial && last ? Math.min(Number(last) + 1, body.length) : body.length];
  const headers = { "content-type": "application/octet-stream", "content-length": end - from };
  if (ranges) Object.assign(headers, { etag, "accept-ranges": "bytes" });
  if (partial) headers["content-range"] = `bytes ${from}-${end - 1}/${body.length}`;
  answer.writeHead(partial ? 206 : 200, headers);
  if (!breaks && !slow) return answer.end(body.subarray(from, end));
  const until = Math.floor(body.length * (slow ? 0.5 : 0.6));
  answer.write(body.subarray(from, until));
  if (breaks) setTimeout(() => answer.destroy(), 200);
}

export class Server {
  /** Every request for a file: address, range, and status. */
  requests = [];
  /** Whether nothing is answered but the package. */
  offline = false;
  /** What the page `/asked` runs, which sends what it finds to `/found`. */
  script = "";
  #tries = new Map();
  #found;

  /** Serves the folders of packages by their names, and the files of a folder. */
  static async start(packages, folder) {
    const server = new Server();
    server.http = createServer((request, answer) => server.#answer(request, answer, packages, folder));
    await new Promise((resolve) => server.http.listen(0, "127.0.0.1", resolve));
    server.origin = `http://127.0.0.1:${server.http.address().port}`;
    return server;
  }

  /** What the page `/asked` finds. */
  found() {
    return new Promise((resolve) => (this.#found = resolve));
  }

  stop() {
    this.http.closeAllConnections();
    this.http.close();
  }

  async #answer(request, answer, packages, folder) {
    const { url, headers } = request;
    const [, way, ...rest] = new URL(url, "http://x").pathname.split("/");
    if (["", "alone", "asked"].includes(way)) {
      const headers = { "content-type": "text/html", "content-security-policy": POLICY, ...(way !== "alone" && ISOLATED) };
      return answer.writeHead(200, headers).end(way === "asked" ? `${PAGE}<script type="module" src="/script.js"></script>` : PAGE);
    }
    if (way === "script.js") return answer.writeHead(200, { "content-type": TYPES[".js"], ...ISOLATED }).end(this.script);
    if (way === "found") {
      this.#found(await new Response(Readable.toWeb(request)).text());
      return answer.writeHead(204).end();
    }
    if (way in packages) return send(answer, join(packages[way], ...rest));
    if (!(way in WAYS)) return answer.writeHead(404).end("not here");
    if (this.offline) return answer.destroy();
    const tries = (this.#tries.get(url) ?? 0) + 1;
    this.#tries.set(url, tries);
    const body = await readFile(join(folder, rest.at(-1))).catch(() => undefined);
    answer.once("close", () => this.requests.push({ url, range: headers.range, status: answer.statusCode }));
    if (!body) return answer.writeHead(404).end("not here");
    WAYS[way]({ answer, body, tries, range: headers.range, condition: headers["if-range"] });
  }
}

async function send(answer, path) {
  const body = await readFile(path).catch(() => undefined);
  const headers = { "content-type": TYPES[extname(path)] ?? "application/octet-stream", ...ISOLATED };
  // A worker has a policy of its own, or none. The example's page has its script within.
  if (extname(path) === ".js") headers["content-security-policy"] = POLICY;
  answer.writeHead(body ? 200 : 404, headers).end(body);
}
