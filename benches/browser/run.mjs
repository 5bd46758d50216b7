#!/usr/bin/env node
// Times this package beside wllama in one headless Chromium, in turn, and prints a Markdown page of medians and ratios.
//
// usage: run.mjs PACKAGE MODEL.gguf [--programs relaxed-simd,simd128,wllama-2.2.1,wllama-3.8.1] [--rounds 5]
//                     [--prompt 512] [--tokens 32] [--threads 1] [--never IDS] [--out PAGE.md]
//
// PACKAGE is what `cargo xtask browser` makes. wllama comes from npm, into the folder that CANDOR_PEERS names, by default
// candor-peers in the user's cache. CHROMIUM names another program than `chromium`.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, homedir } from "node:os";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { Browser } from "../../tools/page-test/browser.mjs";
import { serve } from "./serve.mjs";

const USAGE = "usage: run.mjs PACKAGE MODEL.gguf [--programs A,B] [--rounds N] [--prompt N] [--tokens N] [--threads N] [--never IDS] [--out PAGE.md]";
const MODULES = ["relaxed-simd", "simd128"];
/** Milliseconds for one load or answer. */
const PATIENCE = 1_200_000;

const { values: options, positionals: [packageFolder, model] } = parseArgs({
  allowPositionals: true,
  options: {
    programs: { type: "string", default: "relaxed-simd,simd128,wllama-2.2.1" },
    rounds: { type: "string", default: "5" },
    prompt: { type: "string", default: "512" },
    tokens: { type: "string", default: "32" },
    threads: { type: "string", default: "1" },
    never: { type: "string", default: "" },
    out: { type: "string" },
  },
});
if (!model) {
  console.error(USAGE);
  process.exit(2);
}
const programs = options.programs.split(",");
const [rounds, prompt, tokens, threads] = ["rounds", "prompt", "tokens", "threads"].map((name) => Number(options[name]));
/** Ids that this package may not choose, as those that end a text: wllama does not end there. */
const never = options.never ? options.never.split(",").map(Number) : [];
const peers = programs.filter((name) => !MODULES.includes(name));

/** The folder of a version of wllama, fetched once. */
function fetched(name) {
  const version = /^wllama-(\d+\.\d+\.\d+)$/.exec(name)?.[1];
  if (!version) throw new Error(`${name}: not one of ${MODULES.join(", ")}, wllama-VERSION`);
  const cache = process.env.CANDOR_PEERS ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "candor-peers");
  const folder = join(cache, name);
  if (!existsSync(join(folder, "package"))) {
    mkdirSync(folder, { recursive: true });
    const packed = execFileSync("npm", ["pack", "--silent", `@wllama/wllama@${version}`], { cwd: folder, encoding: "utf8" }).trim();
    execFileSync("tar", ["xzf", packed], { cwd: folder });
  }
  return join(folder, "package", "esm");
}

const folders = { candor: resolve(packageFolder), ...Object.fromEntries(peers.map((name) => [name, fetched(name)])) };

const { server, origin } = await serve(folders, model);

/** In the page: seconds of loading, of the prompt up to the first token, and of the tokens after it. */
async function candor({ module, numbers, never, tokens, threads, context }) {
  const { load } = await import("/candor/candor.js");
  const begun = performance.now();
  const model = await load("/model.gguf", { device: "cpu", module, threads, context, cache: false });
  const loaded = performance.now();
  const ids = numbers.map((number) => number % model.info.vocabulary);
  let first, count = 0;
  for await (const { token } of model.complete(ids, { temperature: 0, maxTokens: tokens + 1, logitBias: never.map((id) => [id, false]) })) {
    if (token === null) continue;
    first ??= performance.now();
    count += 1;
  }
  const ended = performance.now();
  const text = await model.detokenize(ids);
  await model.close();
  return { load: loaded - begun, prompt: first - loaded, decode: ended - first, read: ids.length, count: count - 1, text };
}

/** The same with wllama 2, whose calls take ids. */
async function wllama2({ name, numbers, tokens, threads, context }) {
  const { Wllama } = await import(`/${name}/index.js`);
  const paths = { "single-thread/wllama.wasm": `/${name}/single-thread/wllama.wasm`, "multi-thread/wllama.wasm": `/${name}/multi-thread/wllama.wasm` };
  const wllama = new Wllama(paths, { suppressNativeLog: true });
  const begun = performance.now();
  const file = await (await fetch("/model.gguf")).blob();
  await wllama.loadModel([file], { n_ctx: context, n_threads: threads });
  const loaded = performance.now();
  const ids = numbers.map((number) => number % wllama.getLoadedContextInfo().n_vocab);
  await wllama.samplingInit({ temp: 0 }, ids);
  await wllama.decode(ids, {});
  let { token } = await wllama.samplingSample();
  const first = performance.now();
  for (let step = 0; step < tokens; step += 1) {
    await wllama.samplingAccept([token]);
    await wllama.decode([token], {});
    ({ token } = await wllama.samplingSample());
  }
  const ended = performance.now();
  await wllama.exit();
  return { load: loaded - begun, prompt: first - loaded, decode: ended - first, read: ids.length, count: tokens };
}

/** The same with wllama 3, whose calls take text: what ids say is read as other ids, and it tells how many. */
async function wllama3({ name, text, tokens, threads, context }) {
  const { Wllama } = await import(`/${name}/index.js`);
  const wllama = new Wllama({ default: `/${name}/wasm/wllama.wasm` }, { suppressNativeLog: true });
  const begun = performance.now();
  const file = await (await fetch("/model.gguf")).blob();
  await wllama.loadModel([file], { n_ctx: context, n_threads: threads, n_gpu_layers: 0 });
  const loaded = performance.now();
  let first, timings, count = 0;
  const stream = await wllama.createCompletion({ prompt: text, max_tokens: tokens + 1, temperature: 0, ignore_eos: true, timings_per_token: true, stream: true });
  for await (const chunk of stream) {
    timings = chunk.timings ?? timings;
    if (!chunk.choices?.[0]) continue;
    first ??= performance.now();
    count += 1;
  }
  const ended = performance.now();
  await wllama.exit();
  const { prompt_n: read, predicted_n } = timings ?? {};
  return { load: loaded - begun, prompt: first - loaded, decode: ended - first, read, count: (predicted_n ?? count) - 1 };
}

const browser = await Browser.start(process.env.CHROMIUM ?? "chromium", ["--disable-gpu"], PATIENCE);
const { product } = await browser.send("Browser.getVersion");
const found = Object.fromEntries(programs.map((name) => [name, []]));
let text = "";
try {
  for (let round = 1; round <= rounds; round += 1) {
    for (const name of programs) {
      // Ids that only look random, other ones in each round.
      const numbers = Array.from({ length: prompt }, (_, index) => (index + 1) * 7919 * round);
      const asked = { name, module: name, numbers, never, text, tokens, threads, context: Math.ceil(1.5 * prompt) + tokens };
      const measure = MODULES.includes(name) ? candor : name.startsWith("wllama-2") ? wllama2 : wllama3;
      const tab = await browser.tab({ width: 800, height: 600, scheme: "light" });
      await tab.open(`${origin}/`);
      const expression = `(${measure})(${JSON.stringify(asked)})`;
      const result = await tab.value(expression).catch((error) => {
        throw new Error(`${name}: ${error.message.replace(expression, "in the page")}`);
      });
      await tab.send("Page.close");
      text = result.text ?? text;
      if (result.count < tokens) throw new Error(`${name}: the model ended its text after ${result.count} tokens: exclude its end with --never`);
      const figures = { load: result.load / 1000, prompt: (result.read * 1000) / result.prompt, decode: (result.count * 1000) / result.decode };
      found[name].push(figures);
      console.error(`round ${round}, ${name}: loaded in ${figures.load.toFixed(1)} s, prompt of ${result.read} ${figures.prompt.toFixed(1)} t/s, decode ${figures.decode.toFixed(1)} t/s`);
    }
  }
} finally {
  await browser.stop();
  server.close();
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const column = (name, figure) => found[name].map((figures) => figures[figure].toFixed(1)).join(", ");
const ratio = (name, peer, figure) => median(found[name].map((figures, round) => figures[figure] / found[peer][round][figure])).toFixed(2);
const processor = /model name\s*: (.*)/.exec(existsSync("/proc/cpuinfo") ? readFileSync("/proc/cpuinfo", "utf8") : "")?.[1] ?? cpus()[0].model;
const lines = [
  `${basename(model)} in ${product}, ${threads} ${threads === 1 ? "thread" : "threads"}, on ${cpus().length} x ${processor}; a prompt of ${prompt} ids, then ${tokens} tokens; ${rounds} rounds in turn.`,
  "", `| | load, s | prompt, t/s | decode, t/s |`, `| --- | --- | --- | --- |`,
  ...programs.map((name) => `| ${name} | ${column(name, "load")} | ${column(name, "prompt")} | ${column(name, "decode")} |`),
];
for (const peer of peers) {
  lines.push("", `| median ratio to ${peer} | prompt | decode | time of loading |`, "| --- | --- | --- | --- |");
  for (const name of programs.filter((name) => MODULES.includes(name))) {
    lines.push(`| ${name} | ${ratio(name, peer, "prompt")} | ${ratio(name, peer, "decode")} | ${ratio(name, peer, "load")} |`);
  }
}
console.log(lines.join("\n"));
if (options.out) writeFileSync(options.out, `${lines.join("\n")}\n`);
