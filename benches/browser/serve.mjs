// Serves folders, a model by ranges, and an empty page that is isolated.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";

const TYPES = { ".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html" };
// With these a page may share memory among threads.
const ISOLATED = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };

/** `folders` by the first part of their address; `model` is `/model.gguf`. */
export async function serve(folders, model) {
  const server = createServer((request, answer) => {
    const [, first, ...rest] = new URL(request.url, "http://x").pathname.split("/");
    if (first === "") return answer.writeHead(200, { "content-type": "text/html", ...ISOLATED }).end("<!doctype html><title>bench</title>");
    const path = first === "model.gguf" ? model : folders[first] && join(folders[first], ...rest);
    if (!path || !existsSync(path)) return answer.writeHead(404, ISOLATED).end();
    const { size } = statSync(path);
    const [, from, to] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? "") ?? [];
    const [start, end] = [Number(from ?? 0), to ? Math.min(Number(to), size - 1) : size - 1];
    answer.writeHead(from === undefined ? 200 : 206, {
      "content-type": TYPES[extname(path)] ?? "application/octet-stream", "content-length": end - start + 1, "accept-ranges": "bytes", etag: `"${size}"`,
      ...(from !== undefined && { "content-range": `bytes ${start}-${end}/${size}` }), ...ISOLATED,
    });
    createReadStream(path, { start, end }).pipe(answer);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { server, origin: `http://127.0.0.1:${server.address().port}` };
}
