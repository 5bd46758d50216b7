// Uses the package in headless Chromium: on the processor with each module that it has, and on WebGPU, which is emulated. FAULTS is
// a package whose shaders can be spoilt.
//
// usage: node browser.test.mjs PACKAGE FOLDER FAULTS
import assert from "node:assert/strict";
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Browser } from "../page-test/browser.mjs";
import { built, run } from "./checks.mjs";
import { Server } from "./server.mjs";

const FLAGS = [
  "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan", "--use-vulkan=swiftshader",
  // A page whose GPU was lost may ask for it again.
  "--disable-domain-blocking-for-3d-apis", "--disable-gpu-process-crash-limit",
];
const PATIENCE = 300_000;
/** Kernels and shaders round differently: a logit differs by as much at most. */
const NEAR = 0.001;
const [pack, folder, faults] = process.argv.slice(2);
if (!faults) {
  console.error("usage: node browser.test.mjs PACKAGE FOLDER FAULTS");
  process.exit(2);
}
const expected = JSON.parse(await readFile(join(folder, "expected.json"), "utf8"));
for (const name of ["tiny", "other"]) await copyFile(join(pack, "candor-tiny.gguf"), join(folder, `${name}.gguf`));
const { modules, threads: counts, plain } = await built(pack);

const server = await Server.start({ package: pack, faults }, folder);
const browser = await Browser.start(process.env.CHROMIUM ?? "chromium", FLAGS, PATIENCE);

/** What the page has: the package, and short words for what the checks do. */
async function prepare(name, plain) {
  const { load: loads, models, fit } = await import(`/${name}/candor.js`);
  const chrome = await import(`/${name}/language-model.js`);
  const load = (source, options) => loads(source, { ...plain, ...options });
  const languageModel = (source, options) => chrome.languageModel(source, { ...plain, ...options });
  const failure = (error) => ({ name: error.name, message: error.message });
  window.candor = { load, models, fit, languageModel };
  window.tokens = async (answer) => {
    const all = [];
    for await (const { token } of answer) if (token !== null) all.push(token);
    return all;
  };
  window.greedy = (count) => ({ temperature: 0, maxTokens: count });
  /** What came of loading; the model is closed. */
  window.loaded = async (source, options) => {
    try {
      const model = await load(source, options);
      await model.close();
      return model.info;
    } catch (error) {
      return failure(error);
    }
  };
  window.said = async (source, options, prompt, count) => {
    const model = await load(source, options);
    try {
      const answer = Array.isArray(prompt) ? model.complete(prompt, greedy(count)) : model.chat([{ role: "user", content: prompt }], greedy(count));
      return { tokens: await tokens(answer), info: model.info, timings: answer.timings };
    } finally {
      await model.close();
    }
  };
}

/** Calls functions in a fresh page. */
async function page(name = "package", path = "/") {
  const tab = await browser.tab({ width: 800, height: 600, scheme: "light" });
  await tab.open(server.origin + path);
  const call = (f, ...args) => {
    const expression = `(${f})(...${JSON.stringify(args)})`;
    return tab.value(expression).catch((error) => {
      throw new Error(error.message.replace(expression, "in the page"));
    });
  };
  await call(prepare, name, plain);
  return { call, tab };
}

const of = (path) => server.requests.filter(({ url }) => url === path);
const { message, tokens: wanted } = expected.builtin;
/** The processor with each module, and with one thread and two. */
const ON_CPU = modules.flatMap((module) => counts.map((threads) => ({ device: "cpu", module, threads })));
const WAYS = [...ON_CPU, { device: "gpu", software: true }];
/** Why a check is left out where the package is not whole. */
const oneThread = counts.length === 1 && "skipped: no module for threads";
const oneModule = modules.length === 1 && "skipped: not the module that this browser takes";
const partly = modules.length === 1 && "skipped: takes minutes, or has a limit of time: for the whole package";
/** An emulated GPU takes minutes: what it does as the processor does is tried with the whole package alone. */
const SOME = partly ? ON_CPU : WAYS;
const { computed } = expected;
const said = (...args) => window.said(...args);
const loaded = (...args) => window.loaded(...args);

/** All fixtures, loaded in these ways. */
async function architectures(ways) {
  const { call } = await page();
  const names = Object.keys(expected.models);
  for (const name of names) {
    const { prompt, tokens: right } = expected.models[name];
    for (const options of ways) {
      const begun = Date.now();
      const { tokens } = await call(said, `/files/${name}.gguf`, options, prompt, right.length);
      assert.deepEqual(tokens, right, `${name} ${JSON.stringify(options)}`);
      if (process.env.TIMES) console.log(`        ${name} ${options.device}: ${((Date.now() - begun) / 1000).toFixed(1)} s`);
    }
  }
  return names.length ? `${names.length} models` : "skipped: no fixtures";
}

const CHECKS = {
  async "the built-in model says on each module, with one thread and two, and on WebGPU what it says natively"() {
    const { call } = await page();
    for (const options of WAYS) {
      const { tokens, info } = await call(said, "builtin", options, message, wanted.length);
      assert.deepEqual(tokens, wanted, JSON.stringify(options));
      assert.equal(info.module, options.module ?? modules.at(-1));
      assert.equal(info.device, options.device);
      assert.equal(info.threads, options.threads ?? 1);
      assert.equal(info.verified, options.device === "gpu", "a GPU is verified");
      const label = `^cpu, ${info.module} kernels, ${options.threads} threads`;
      assert.match(info.label, new RegExp(options.device === "gpu" ? "^gpu, " : label));
    }
  },

  async "the processor has all its threads, and one where memory can't be shared"() {
    if (oneThread) return oneThread;
    const { call } = await page();
    const all = await call(() => navigator.hardwareConcurrency);
    assert.equal((await call(loaded, "builtin", {})).threads, all);
    const alone = await page("package", "/alone");
    const info = await alone.call(loaded, "builtin", {});
    assert.equal(info.threads, 1);
    assert.match(info.reason, /one thread: the page is not cross-origin isolated/);
  },

  async "models of other architectures say on both modules, with one thread and two, what they say natively"() {
    return architectures(ON_CPU);
  },

  async "models of other architectures say on WebGPU what they say natively"() {
    if (partly) return partly;
    return architectures([{ device: "gpu", software: true }]);
  },

  async "an encoder's vector is that of the native engine"() {
    if (!expected.embedding) return "skipped: no fixtures";
    const { name, prompt, vector } = expected.embedding;
    const { call } = await page();
    for (const options of SOME) {
      const got = await call(async (source, options, prompt) => {
        const model = await candor.load(source, options);
        const [one, [two]] = [await model.embed(prompt, { pooling: "mean" }), await model.embed([prompt], { pooling: "mean" })];
        await model.close();
        return one.every((x, i) => x === two[i]) && [...one];
      }, `/files/${name}.gguf`, options, prompt);
      assert.equal(got.length, vector.length);
      const most = Math.max(...got.map((x, i) => Math.abs(x - vector[i])));
      assert.ok(most < 1e-4, `${JSON.stringify(options)}: differs by ${most}`);
    }
  },

  async "logits and probabilities are those of the native engine, on the GPU too"() {
    const { call } = await page();
    for (const options of WAYS) {
      const { logits, likely } = await call(async (options, prompt, count) => {
        const model = await candor.load("builtin", options);
        const logits = [...(await model.logits(prompt))];
        const likely = [];
        for await (const { logprobs } of model.complete(prompt, { ...greedy(count), logprobs: 2 })) if (logprobs) likely.push(logprobs);
        await model.close();
        return { logits, likely };
      }, options, computed.prompt, computed.logprobs.length);
      // The processor rounds what it multiplies with to 8 bits, the emulated GPU does not.
      const right = options.device === "gpu" ? computed.exact : computed.logits;
      const most = Math.max(...right.map((x, i) => Math.abs(x - logits[i])));
      if (process.env.TIMES) console.log(`        ${JSON.stringify(options)}: ${most}`);
      assert.ok(logits.length === right.length && most < NEAR, `${JSON.stringify(options)}: a logit differs by ${most}`);
      const [{ id, logprob }] = likely;
      const first = right[id] - Math.log(right.reduce((sum, logit) => sum + Math.exp(logit), 0));
      assert.ok(Math.abs(logprob - first) < NEAR, `${JSON.stringify(options)}: ${logprob}, natively ${first}`);
      assert.equal(likely.length, computed.logprobs.length);
      // Two tokens may be as likely for one and the other.
      if (options.device === "gpu") continue;
      computed.logprobs.forEach(({ id, logprob, top }, i) => {
        const got = [likely[i].id, likely[i].top_logprobs[0].id];
        assert.deepEqual(got, [id, top[0].id]);
        assert.ok(Math.abs(likely[i].logprob - logprob) < NEAR, `${likely[i].logprob}, natively ${logprob}`);
      });
    }
  },

  async "a session goes from the native engine to the GPU and from there to the processor"() {
    if (partly) return partly;
    await writeFile(join(folder, "session.gguf"), await readFile(join(folder, "session.bin")));
    const { saved, text, tokens: right } = computed.session;
    const { call } = await page();
    const got = await call(async (text, count) => {
      const native = new Uint8Array(await (await fetch("/files/session.gguf")).arrayBuffer());
      let bytes = native;
      const answers = [];
      for (const options of [{ device: "gpu", software: true }, { device: "cpu" }]) {
        const model = await candor.load("builtin", options);
        const ids = await model.loadSession(bytes);
        bytes = await model.saveSession();
        const same = bytes.length === native.length && bytes.every((byte, i) => byte === native[i]);
        const answer = model.complete(text, greedy(count));
        answers.push({ ids, same, tokens: await tokens(answer), computed: answer.timings.promptTokens });
        await model.close();
      }
      return answers;
    }, text, right.length);
    // What a device was given it gives back to the bit. The GPU's own tokens may be others where two are as likely.
    for (const { ids, same, computed } of got) assert.deepEqual({ ids, same, computed }, { ids: saved, same: true, computed: 1 });
    assert.equal(got[0].tokens.length, right.length);
    assert.deepEqual(got[1].tokens, right);
  },

  async "verifying a GPU names its operations"() {
    if (partly) return partly;
    const { call } = await page();
    const { ok, operations, failure, tokens: said } = await call(async (message, count) => {
      const model = await candor.load("builtin", { device: "gpu", software: true });
      const verified = await model.verify();
      const answer = await tokens(model.chat([{ role: "user", content: message }], greedy(count)));
      await model.close();
      return { ...verified, tokens: answer };
    }, message, wanted.length);
    assert.deepEqual([ok, failure, said], [true, null, wanted]);
    const names = operations.map(({ operation }) => operation);
    for (const name of ["embed", "rms_norm", "rope"]) assert.ok(names.includes(name), names.join(", "));
    assert.ok(operations.some(({ format }) => format !== null));
    for (const { operation, calls, elements, error, bound } of operations) {
      assert.ok(calls > 0 && elements > 0 && error <= bound, `${operation}: ${error}, at most ${bound}`);
    }
  },

  async "an adapter is an address or a File, and is kept"() {
    const { call } = await page();
    const [{ scale, tokens: right }] = computed.lora;
    assert.equal(scale, 1);
    const got = await call(async (prompt, count) => {
      const file = new File([await (await fetch("/files/lora.gguf")).blob()], "lora.gguf");
      const all = [];
      for (const source of ["/files/lora.gguf?adapter", file]) {
        const model = await candor.load("builtin", { device: "cpu", adapters: [{ source, scale: 1 }] });
        all.push(await tokens(model.complete(prompt, greedy(count))));
        await model.close();
      }
      return all;
    }, computed.prompt, right.length);
    assert.deepEqual(got, [right, right]);
    const wrong = (source) => call(loaded, "/files/tiny.gguf", { device: "cpu", adapters: [{ source }] });
    assert.match((await wrong("/files/nowhere.gguf?adapter")).message, /nowhere.gguf.adapter: the server answers 404/);
    assert.match((await wrong("/files/tiny.gguf")).message, /tiny.gguf: .*expected "adapter"/);
    assert.match((await wrong("/corrupt/lora.gguf")).message, /\/corrupt\/lora.gguf: .*no longer in the cache/);
    const urls = await call(async () => (await candor.models.list()).map(({ url }) => url));
    assert.ok(urls.some((url) => url.endsWith("/files/tiny.gguf")), "the model is still there");
    assert.ok(!urls.some((url) => url.endsWith("/corrupt/lora.gguf")));
  },

  async "fit asks for a file's beginning alone, and for nothing of a file that is there"() {
    if (oneModule) return oneModule;
    const { call } = await page();
    const fit = (path, options) => call((path, options) => candor.fit(path, options), path, options);
    const { bytes, cpu, gpu, context, reason } = await fit("/files/tiny.gguf?fit", {});
    assert.deepEqual([bytes, cpu.fits, gpu, context], [computed.bytes, true, null, Math.min(4096, cpu.longestContext)]);
    assert.match(reason, /^a context of \d+ tokens takes [^;]*$/);
    const asked = () => of("/files/tiny.gguf?fit").map(({ range, status }) => [range, status]);
    assert.deepEqual(asked(), [["bytes=0-1048575", 206]]);
    const { gpu: emulated, reason: both } = await fit("/files/tiny.gguf?fit", { software: true });
    assert.ok(emulated.fits && emulated.largestBuffer >= 128 << 20, JSON.stringify(emulated));
    assert.match(both, /; the GPU's buffers hold up to \d+ tokens/);
    assert.equal((await fit("/plain/tiny.gguf?fit", {})).bytes, bytes, "a server without ranges");
    const file = await call(async () => candor.fit(new File([await (await fetch("/files/tiny.gguf")).blob()], "tiny.gguf")));
    assert.equal(file.bytes, bytes);
    await call(loaded, "/files/tiny.gguf?kept-fit", { device: "cpu" });
    assert.equal((await fit("/files/tiny.gguf?kept-fit", {})).bytes, bytes);
    assert.equal(of("/files/tiny.gguf?kept-fit").length, 1, "it is there");
    const failure = (path) => call((path) => candor.fit(path).catch(({ message }) => message), path);
    assert.match(await failure("/files/nowhere.gguf?fit"), /the server answers 404/);
    assert.match(await failure("/html/tiny.gguf?fit"), /the server answers text\/html, and no GGUF file/);
  },

  async "LanguageModel says how far the download is, and whether there is one"() {
    const { call } = await page();
    const { before, after, progress, text, streamed } = await call(async (message) => {
      const LanguageModel = candor.languageModel("/files/tiny.gguf?chrome", { device: "cpu" });
      const before = await LanguageModel.availability();
      const progress = [];
      const monitor = (m) => m.addEventListener("downloadprogress", ({ loaded }) => progress.push(loaded));
      const session = await LanguageModel.create({ monitor, temperature: 0, topK: 1 });
      const branch = await session.clone();
      const text = await session.prompt(message);
      let streamed = "";
      const reader = branch.promptStreaming(message).getReader();
      for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) streamed += value;
      session.destroy();
      branch.destroy();
      return { before, after: await LanguageModel.availability(), progress, text, streamed };
    }, message);
    assert.deepEqual([before, after], ["downloadable", "available"]);
    assert.ok(progress.length > 2 && progress[0] === 0 && progress.at(-1) === 1, JSON.stringify(progress));
    assert.ok(progress.every((loaded, i) => i === 0 || loaded > progress[i - 1]), JSON.stringify(progress));
    assert.ok(text.startsWith(expected.builtin.text), text);
    assert.equal(streamed, text);
  },

  async "layers that do not fit are read for each step, and the answer is the same"() {
    const { call } = await page();
    for (const way of SOME) {
      const options = { ...way, memory: 4_200_000, context: 64 };
      const { tokens, info, timings } = await call(said, "builtin", options, message, wanted.length);
      assert.deepEqual(tokens, wanted, JSON.stringify(options));
      assert.match(info.reason, /^\d of 6 layers stay in 4 MB; .* are read for each step/);
      assert.ok(timings.readBytes > 1e6 * timings.tokens, `${timings.readBytes} bytes`);
    }
  },

  async "twenty models one after the other leave nothing behind"() {
    if (partly) return partly;
    const { call } = await page();
    const grown = await call(async (message, count) => {
      const size = async () => (await performance.measureUserAgentSpecificMemory()).bytes;
      let before;
      for (let round = 0; round < 20; round++) {
        // The first ones fill caches.
        if (round === 3) before = await size();
        await said("builtin", { device: "cpu" }, message, count);
      }
      return (await size()) - before;
    }, message, wanted.length);
    assert.ok(grown < 2e6, `${grown} bytes more after 17 loads`);
  },

  async "a File is read where it is"() {
    const { call } = await page();
    const { tokens, info } = await call(async (message, count) => {
      const file = new File([await (await fetch("/files/tiny.gguf")).blob()], "tiny.gguf");
      return said(file, { device: "cpu" }, message, count);
    }, message, wanted.length);
    assert.deepEqual(tokens, wanted);
    assert.equal(info.from, "file");
  },

  async "a signal ends a long prompt within 300 ms, and the next answer is right"() {
    if (partly) return partly;
    const { call } = await page();
    for (const options of [{ device: "cpu" }, { device: "gpu", software: true }]) {
      const { error, took, chunk, computed, tokens } = await call(async (options, message, count) => {
        const model = await candor.load("builtin", { ...options, context: 4200 });
        const [abort, prompt] = [new AbortController(), Array.from({ length: 4000 }, (_, i) => 5 + (i % 400))];
        let [begun, computed, last, chunk] = [0, 0, 0, 0];
        const onPrompt = ({ done }) => {
          const now = performance.now();
          [chunk, last, computed] = [last && Math.max(chunk, now - last), now, done];
          if (!begun && done > 100) {
            begun = performance.now();
            abort.abort();
          }
        };
        const error = await model.complete(prompt, { signal: abort.signal, onPrompt }).text().catch((error) => error.name);
        const took = performance.now() - begun;
        const answer = model.chat([{ role: "user", content: message }], greedy(count));
        const right = await tokens(answer);
        await model.close();
        return { error, took, chunk, computed, tokens: right };
      }, options, message, wanted.length);
      assert.equal(error, "AbortError");
      // The emulation is so slow that the fewest tokens of a chunk take longer.
      const limit = 300 + (options.device === "gpu" ? chunk : 0);
      assert.ok(took < limit, `${JSON.stringify(options)}: ${took} ms, at most ${limit}`);
      assert.ok(computed < 3000, `${computed} tokens were computed`);
      assert.deepEqual(tokens, wanted);
    }
  },

  async "the page goes on while a model computes"() {
    if (partly) return partly;
    const { call } = await page();
    const longest = await call(async () => {
      const model = await candor.load("builtin", { device: "cpu" });
      let [longest, last] = [0, performance.now()];
      const timer = setInterval(() => {
        longest = Math.max(longest, performance.now() - last);
        last = performance.now();
      }, 5);
      await model.complete("Once upon a time", greedy(150)).text();
      clearInterval(timer);
      await model.close();
      return longest;
    });
    assert.ok(longest < 100, `nothing else for ${longest} ms`);
  },

  async "a file is kept, and read without the network"() {
    const path = "/files/tiny.gguf?kept";
    const { call } = await page();
    const first = await call(said, path, { device: "cpu" }, message, wanted.length);
    assert.equal(first.info.from, "network");
    server.offline = true;
    try {
      const again = await page();
      const second = await again.call(said, path, { device: "cpu" }, message, wanted.length);
      assert.equal(second.info.from, "cache");
      assert.deepEqual([first.tokens, second.tokens], [wanted, wanted]);
      const [listed, gone, left] = await again.call(async (path) => {
        const url = new URL(path, location.href).href;
        const listed = (await candor.models.list()).find((file) => file.url === url);
        return [listed, await candor.models.delete(path), (await candor.models.list()).some((file) => file.url === url)];
      }, path);
      assert.equal(listed.complete && listed.bytes > 1e6 && gone && !left, true);
      assert.match((await again.call(loaded, path, {})).message, /failed 5 times/);
    } finally {
      server.offline = false;
    }
    assert.equal(of(path).length, 1);
  },

  async "a download that breaks off goes on where it stopped"() {
    const path = "/drop/tiny.gguf";
    const { call } = await page();
    const { tokens } = await call(said, path, { device: "cpu" }, message, wanted.length);
    assert.deepEqual(tokens, wanted);
    const [first, second] = of(path);
    assert.equal(first.range, undefined);
    assert.match(second.range, /^bytes=[1-9]\d{5,}-$/);
    assert.deepEqual([of(path).length, second.status], [2, 206]);
  },

  async "a signal ends a download, and the next goes on from there"() {
    const path = "/slow/tiny.gguf";
    const { call } = await page();
    const error = await call(async (path) => {
      const abort = new AbortController();
      const onProgress = ({ loaded }) => loaded > 1e6 && abort.abort();
      return loaded(path, { signal: abort.signal, onProgress });
    }, path);
    assert.equal(error.name, "AbortError");
    const [listed] = await call(async () => (await candor.models.list()).filter(({ url }) => url.includes("/slow/")));
    assert.ok(!listed.complete && listed.bytes > 1e6, JSON.stringify(listed));
  },

  async "a server without ranges is asked again"() {
    const path = "/plain/tiny.gguf";
    const { call } = await page();
    const { tokens } = await call(said, path, { device: "cpu" }, message, wanted.length);
    assert.deepEqual(tokens, wanted);
    assert.deepEqual(of(path).map(({ range, status }) => [range, status]), [[undefined, 200], [undefined, 200]]);
  },

  async "a file that changed meanwhile begins from its start"() {
    const path = "/changed/tiny.gguf";
    const { call } = await page();
    const { tokens } = await call(said, path, { device: "cpu" }, message, wanted.length);
    assert.deepEqual(tokens, wanted);
    assert.match(of(path)[1].range, /^bytes=[1-9]/);
    assert.equal(of(path)[1].status, 200);
  },

  async "what is no model says what it is, and is not kept"() {
    const { call } = await page();
    for (const [path, pattern] of [
      ["/files/nowhere.gguf", /the server answers 404/],
      ["/html/tiny.gguf", /the server answers text\/html, and no GGUF file/],
      ["/corrupt/tiny.gguf", /no longer in the cache/],
    ]) {
      assert.match((await call(loaded, path, {})).message, pattern);
      assert.equal(of(path).length, 1, `${path} is asked for once`);
    }
    const kept = await call(async () => (await candor.models.list()).filter(({ complete, url }) => complete && /html|corrupt|nowhere/.test(url)));
    assert.deepEqual(kept, []);
  },

  async "a hash is held against the file"() {
    const path = "/files/other.gguf?hash";
    const { call } = await page();
    const wrong = await call(loaded, path, { sha256: "00".repeat(32) });
    assert.match(wrong.message, /SHA-256 is [0-9a-f]{64}, expected 0{64}/);
    const [right] = /[0-9a-f]{64}/.exec(wrong.message);
    assert.equal((await call(loaded, path, { sha256: right.toUpperCase() })).from, "network");
    assert.equal((await call(loaded, path, { sha256: right })).from, "cache");
    assert.equal((await call(loaded, path, { sha256: right, cache: false })).from, "memory");
  },

  async "two tabs that want the same file at once fetch it once"() {
    const path = "/files/other.gguf?tabs";
    const tabs = [await page(), await page()];
    const found = await Promise.all(tabs.map(({ call }) => call(said, path, { device: "cpu" }, message, wanted.length)));
    for (const { tokens } of found) assert.deepEqual(tokens, wanted);
    assert.deepEqual(found.map(({ info }) => info.from).sort(), ["cache", "network"]);
    assert.equal(of(path).length, 1);
  },

  async "a file that does not fit is used from memory in each tab, and that is said; with more room it is kept"() {
    const path = "/files/other.gguf?quota";
    const tabs = [await page(), await page()];
    const [{ call, tab }] = tabs;
    const { usage } = await call(() => navigator.storage.estimate());
    await tab.send("Storage.overrideQuotaForOrigin", { origin: server.origin, quotaSize: usage + (1 << 20) });
    try {
      const found = await Promise.all(tabs.map(({ call }) => call(said, path, { device: "cpu" }, message, wanted.length)));
      for (const { tokens, info } of found) {
        assert.deepEqual(tokens, wanted);
        assert.equal(info.from, "memory");
        assert.match(info.note, /no more storage/);
      }
    } finally {
      await tab.send("Storage.overrideQuotaForOrigin", { origin: server.origin });
    }
    const later = [await call(loaded, path, { device: "cpu" }), await call(loaded, path, { device: "cpu" })];
    assert.deepEqual(later.map(({ from }) => from), ["network", "cache"]);
  },

  async "a GPU that is lost while it answers is named, and the next one works"() {
    const { call } = await page();
    const running = call(async () => {
      let model;
      try {
        model = await candor.load("builtin", { device: "gpu", software: true });
        for await (const piece of model.complete("Once upon a time", greedy(2000))) window.began = Boolean(piece);
        return "it came to its end";
      } catch ({ message }) {
        window.began = true;
        return message;
      } finally {
        await model?.close();
      }
    });
    await call(() => new Promise((resolve) => {
      const look = () => (window.began ? resolve() : setTimeout(look, 20));
      look();
    }));
    await browser.send("Browser.crashGpuProcess");
    assert.match(await running, /^gpu .*: the device was lost/);
    const { tokens, info } = await call(said, "builtin", { device: "gpu", software: true }, message, wanted.length);
    assert.deepEqual([tokens, info.device], [wanted, "gpu"]);
  },

  async "a GPU that computes wrongly is named, and the processor answers"() {
    const { call } = await page("faults");
    const edits = [["Rope", "step[id.y + 1u].y", "step[1u].y"]];
    const { tokens, info } = await call(said, "builtin", { software: true, edits }, message, wanted.length);
    assert.deepEqual(tokens, wanted);
    assert.deepEqual([info.device, info.verified], ["cpu", false]);
    assert.match(info.reason, /computes wrongly: rope: error/);
    const refused = await call(loaded, "builtin", { device: "gpu", software: true, edits });
    assert.match(refused.message, /computes wrongly: rope/);
  },

  async "auto takes the faster device, says both times, and knows it at the next visit"() {
    // Each time in a page of its own: what it knows comes from an earlier one.
    const ask = async (options) => (await page("faults")).call(loaded, "builtin", { software: true, ...options });
    const forget = async (tab) =>
      tab.call(async () => {
        const files = await (await navigator.storage.getDirectory()).getDirectoryHandle("candor-models", { create: true });
        await files.removeEntry("times.json").catch(() => {});
      });
    await forget(await page());
    const first = await ask({});
    assert.equal(first.device, "cpu", `an emulated GPU is slower: ${JSON.stringify(first.timed)}`);
    assert.ok(first.timed.gpu > first.timed.cpu, JSON.stringify(first.timed));
    assert.match(first.reason, /the processor is faster: [0-9.]+ ms for a token, the GPU [0-9.]+ ms/);
    assert.deepEqual((await ask({ slower: 1e6 })).timed, first.timed, "it is remembered");
    await forget(await page());
    const slow = await ask({ slower: 1e6 });
    assert.deepEqual([slow.device, slow.timed.device], ["gpu", "gpu"]);
    const again = await ask({});
    assert.deepEqual([again.device, again.timed], ["gpu", slow.timed]);
    await forget(await page());
    return `processor ${first.timed.cpu.toFixed(2)} ms, GPU ${first.timed.gpu.toFixed(1)} ms`;
  },

  async "a shader that does not compile is named, and the processor answers"() {
    const { call } = await page("faults");
    const edits = [["RmsNorm", "fn main(", "fn main(wrong "]];
    const { tokens, info } = await call(said, "builtin", { software: true, edits }, message, wanted.length);
    assert.deepEqual(tokens, wanted);
    assert.equal(info.device, "cpu");
    assert.match(info.reason, /could not be verified[^]*RmsNorm/);
  },

  async "an engine that dies says why, or a thread of it, and the next one works"() {
    const { call } = await page("faults");
    for (const threads of counts) {
      const died = await call(loaded, "builtin", { device: "cpu", panic: "planted", threads });
      assert.match(died.message, /the engine stopped: [^]*planted/, `${threads} threads`);
    }
    const { tokens } = await call(said, "builtin", { device: "cpu" }, message, wanted.length);
    assert.deepEqual(tokens, wanted);
  },

  async "the example's page answers"() {
    if (oneModule) return oneModule;
    const tab = await browser.tab({ width: 800, height: 600, scheme: "light" });
    await tab.open(`${server.origin}/package/examples/chat.html`);
    const until = (condition) => tab.value(`new Promise((resolve) => {
      const look = () => (${condition} ? resolve() : setTimeout(look, 50));
      look();
    })`);
    await tab.click("#choose button");
    await until(`!document.getElementById("words").disabled`);
    await tab.value(`document.getElementById("words").value = "Hello!"`);
    await tab.click("#send");
    await until(`/tokens a second/.test(document.getElementById("state").textContent)`);
    const [asked, answered] = await tab.value(`[...document.querySelectorAll("#talk p")].map((p) => p.textContent)`);
    assert.equal(asked, "Hello!");
    assert.ok(answered.length > 3, answered);
  },

  async "without a GPU the processor answers, and one that is asked for is missed"() {
    const { call } = await page();
    assert.equal((await call(loaded, "builtin", {})).device, "cpu", "an emulation is not taken unasked");
    assert.match((await call(loaded, "builtin", { device: "gpu" })).message, /device gpu: this machine has none/);
  },
};

let failures = 1;
try {
  failures = await run(CHECKS, (check) => check());
} finally {
  await browser.stop();
  server.stop();
}
process.exitCode = failures ? 1 : 0;
