// Runs the engine on WebGPU in headless Chromium, whose emulation of a GPU needs none.
//
// usage: node web.test.mjs FOLDER
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { Browser } from "../page-test/browser.mjs";

const FLAGS = [
  "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan", "--use-vulkan=swiftshader",
];
const PATIENCE = 300_000;
const [folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node web.test.mjs FOLDER");
  process.exit(2);
}
const TYPES = { ".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html" };
const PAGE = `<!doctype html><script type="module">
  import init, * as candor from "./candor_web_test.js";
  window.ready = init({ module_or_path: "./candor_web_test_bg.wasm" }).then(() => candor);
</script>`;

const expected = JSON.parse(await readFile(join(folder, "expected.json"), "utf8"));

const CHECKS = {
  async "20 tokens are decoded, equal to those of this machine's GPU and processor"(call) {
    const tokens = await call(`tokens(20)`, "[...result]");
    assert.equal(expected.gpu.length, 20);
    assert.deepEqual(tokens, expected.gpu);
    assert.deepEqual(tokens, expected.cpu);
  },

  async "a model that is divided says the same"(call) {
    assert.deepEqual(await call(`divided(20)`, "[...result]"), expected.gpu);
  },

  async "a session is saved and goes on"(call) {
    assert.deepEqual(await call(`saved(8, 12)`, "[...result]"), expected.gpu);
  },

  async "named values are those of the formulas, in their order"(call) {
    const [got, wanted, most] = await call(`observed()`, "[...result]");
    assert.ok(got === wanted && got > 50, `${got} of ${wanted}`);
    assert.ok(most < 1e-3, `differ by ${most}`);
  },

  async "a shader that does not compile names its error"(call) {
    const error = await call(`broken()`);
    assert.match(error, /RmsNorm[^]*wrong/);
  },

  async "memory that the browser refuses is an error of loading"(call) {
    // The errors of these scopes are the browser's to tell; it is asked to tell one.
    const error = await call(`refused()`, "result", `
      const pop = GPUDevice.prototype.popErrorScope;
      let scopes = 0;
      GPUDevice.prototype.popErrorScope = function () {
        const popped = pop.call(this);
        scopes += 1;
        return scopes === 7 ? popped.then(() => new GPUOutOfMemoryError("planted")) : popped;
      };`);
    assert.match(error, /out of memory: a buffer of \d+ bytes/);
  },

  async "a call that does not wait says so"(call) {
    assert.match(await call(`unawaited()`), /does not wait/);
  },

  async "a cache on the GPU takes no memory of the page"(call) {
    const grown = await call(`grown(65536)`);
    assert.ok(grown < 8 << 20, `${grown} bytes`);
  },
};

const server = createServer(async ({ url }, answer) => {
  const name = url === "/" ? "index.html" : url;
  const body = url === "/" ? PAGE : await readFile(join(folder, url)).catch(() => undefined);
  answer.writeHead(body === undefined ? 404 : 200, { "content-type": TYPES[extname(name)] ?? "text/plain" });
  answer.end(body);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const browser = await Browser.start(process.env.CHROMIUM ?? "chromium", FLAGS, PATIENCE);
let failures = 0;
try {
  for (const [name, check] of Object.entries(CHECKS)) {
    const begun = Date.now();
    try {
      const tab = await browser.tab({ width: 800, height: 600, scheme: "light" });
      await tab.open(`http://127.0.0.1:${server.address().port}/`);
      await check((expression, then = "result", before = "") =>
        tab.value(`window.ready.then((candor) => { ${before}; return candor.${expression}; }).then((result) => ${then})`));
      console.log(`ok      ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failures += 1;
      console.log(`FAILED  ${name}\n        ${error.message}`);
    }
  }
} finally {
  await browser.stop();
  server.close();
}
process.exitCode = failures ? 1 : 0;
