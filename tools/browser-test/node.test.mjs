// Uses the package in Node, on the processor.
//
// usage: node node.test.mjs PACKAGE FOLDER
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { run } from "./checks.mjs";

const [pack, folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node node.test.mjs PACKAGE FOLDER");
  process.exit(2);
}
const expected = JSON.parse(await readFile(join(folder, "expected.json"), "utf8"));
const part = (name) => import(pathToFileURL(join(pack, name)).href);
const candor = await part("candor.js");
const { fit } = candor;
const { openai } = await part("openai.js");
const { languageModel } = await part("language-model.js");
const { computed } = expected;
/** Kernels round differently: what the native engine and this one compute of a logit differs by as much at most. */
const NEAR = 0.001;
// What is built fast has no module for threads.
const THREADS = existsSync(join(pack, "simd128-threads")) ? [1, 2] : [1];
const plain = { threads: THREADS.at(-1), module: "simd128" };
const load = (source, options) => candor.load(source, { ...plain, ...options });

async function tokens(answer) {
  const all = [];
  for await (const { token } of answer) if (token !== null) all.push(token);
  return all;
}

const greedy = (count, more = {}) => ({ temperature: 0, maxTokens: count, ...more });

function near(got, wanted, what) {
  assert.equal(got.length, wanted.length, what);
  const most = Math.max(...wanted.map((x, i) => Math.abs(x - got[i])));
  if (process.env.MEASURE) console.log(`        ${what}: ${most}`);
  assert.ok(most < NEAR, `${what}: differs by ${most}`);
}

/** The fields of an object by their types: what a shape is. */
const shape = (value) =>
  value === null ? "null" : Array.isArray(value) ? value.slice(0, 1).map(shape) :
    typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([name, value]) => [name, shape(value)])) : typeof value;

const CHECKS = {
  async "the built-in model says what it says natively"() {
    const { message, tokens: wanted, text } = expected.builtin;
    for (const threads of THREADS) {
      const model = await load("builtin", { threads });
      assert.equal(model.info.module, "simd128");
      assert.match(model.info.label, new RegExp(`^cpu, simd128 kernels, ${threads} threads`));
      const messages = [{ role: "user", content: message }];
      assert.deepEqual(await tokens(model.chat(messages, greedy(wanted.length))), wanted);
      const answer = model.chat(messages, greedy(wanted.length));
      assert.equal(await answer.text(), text);
      assert.equal(answer.stopReason, "maxTokens");
      assert.equal(answer.timings.tokens, wanted.length);
      assert.equal(await model.detokenize(await model.tokenize("Once upon a time")), "Once upon a time");
      await model.close();
      await assert.rejects(model.tokenize("x"), /closed/);
    }
  },

  async "no number of threads is guessed"() {
    for (const threads of [0, 1.5, -2, 5000, "2"]) await assert.rejects(load("builtin", { threads }), { name: "RangeError", message: /expected 1 to 256/ });
  },

  async "one thread computes where the memory of several is refused"() {
    if (THREADS.length === 1) return;
    // A module that has started keeps its memory: another copy of the package has started none.
    const copy = await mkdtemp(join(folder, "refused-"));
    await cp(pack, copy, { recursive: true });
    const { Memory } = WebAssembly;
    WebAssembly.Memory = function (size) {
      if (size.shared) throw new RangeError("WebAssembly.Memory(): could not allocate memory");
      return new Memory(size);
    };
    try {
      const model = await (await import(pathToFileURL(join(copy, "candor.js")).href)).load("builtin", { threads: 2 });
      assert.equal(model.info.threads, 1);
      assert.match(model.info.reason, /^one thread: the browser refuses/);
      await model.close();
    } finally {
      WebAssembly.Memory = Memory;
      await rm(copy, { recursive: true });
    }
  },

  async "two models at once have threads of their own"() {
    const { message, tokens: wanted } = expected.builtin;
    const models = [await load("builtin"), await load("builtin")];
    const said = models.map((model) => tokens(model.chat([{ role: "user", content: message }], greedy(wanted.length))));
    assert.deepEqual(await Promise.all(said), [wanted, wanted]);
    await Promise.all(models.map((model) => model.close()));
  },

  async "layers that do not fit are read for each step, and the answer is the same"() {
    const { message, tokens: wanted } = expected.builtin;
    for (const threads of THREADS) {
      const model = await load("builtin", { threads, memory: 4_200_000, context: 64 });
      assert.match(model.info.reason, /^\d of 6 layers stay in 4 MB; .* are read for each step$/);
      const answer = model.chat([{ role: "user", content: message }], greedy(wanted.length));
      assert.deepEqual(await tokens(answer), wanted);
      const { readBytes, tokens: count } = answer.timings;
      assert.ok(readBytes > 1e6 * count, `${readBytes} bytes`);
      await model.close();
    }
    await assert.rejects(load("builtin", { memory: 1e6, context: 64 }), /memory: expected at least 4 MB, got 1 MB/);
  },

  async "memory does not grow from load to load"() {
    const sizes = [];
    for (let round = 0; round < 20; round++) {
      const model = await load("builtin");
      await model.complete("Once", greedy(5)).text();
      sizes.push((await model.memory()).module);
      await model.close();
    }
    assert.equal(sizes.at(-1), sizes[2], sizes.join());
  },

  async "an unknown option is named"() {
    const model = await load("builtin");
    await assert.rejects(load("builtin", { contxt: 5 }), /unknown field `contxt`, expected .*`context`/);
    await assert.rejects(model.complete("Once", { temprature: 0 }).text(), /unknown option temprature: expected one of .*temperature/);
    await assert.rejects(model.chat([{ role: "user", content: "Hi" }], { temperature: "hot" }).text(), /invalid type/);
    assert.equal(typeof (await model.complete("Once", greedy(3)).text()), "string", "the model still works");
    await model.close();
  },

  async "a signal ends a prompt, and the next answer is right"() {
    const { message, tokens: wanted } = expected.builtin;
    const model = await load("builtin");
    const abort = new AbortController();
    const onPrompt = ({ done }) => done > 0 && abort.abort();
    const prompt = new Array(400).fill(5);
    await assert.rejects(model.complete(prompt, { signal: abort.signal, onPrompt }).text(), { name: "AbortError" });
    assert.deepEqual(await tokens(model.chat([{ role: "user", content: message }], greedy(wanted.length))), wanted);
    await model.close();
  },

  async "a prompt of one chunk is shown and ended between layers"() {
    const { message, tokens: wanted } = expected.builtin;
    const { now } = Date;
    let time = now();
    // Whatever the engine does takes a second.
    Date.now = () => (time += 1000);
    try {
      for (const threads of THREADS) {
        // What does not fit is read for each chunk, which then has as many tokens as it may.
        const model = await load("builtin", { threads, memory: 4_200_000, context: 64 });
        const ids = await model.tokenize([{ role: "user", content: message }]);
        const seen = [];
        assert.deepEqual(await tokens(model.complete(ids, greedy(wanted.length, { onPrompt: ({ done }) => seen.push(done) }))), wanted);
        const after = (layers) => Math.floor(((ids.length - 1) * layers) / computed.layers);
        assert.deepEqual(seen, Array.from({ length: computed.layers }, (_, i) => after(i + 1)));

        const [abort, heard, prompt] = [new AbortController(), [], new Array(40).fill(5)];
        const onPrompt = ({ done }) => heard.push(done) === 2 && abort.abort();
        await assert.rejects(model.complete(prompt, greedy(5, { signal: abort.signal, onPrompt })).text(), { name: "AbortError" });
        assert.deepEqual(heard, [Math.floor(39 / computed.layers), Math.floor(78 / computed.layers)]);
        const answer = model.complete(prompt, greedy(1));
        await answer.text();
        assert.equal(answer.timings.cachedTokens, 0, "of the chunk nothing is left");
        assert.deepEqual(await tokens(model.complete(ids, greedy(wanted.length))), wanted);
        await model.close();
      }
    } finally {
      Date.now = now;
    }
  },

  async "timers are heard while a model answers"() {
    const model = await load("builtin");
    let [pieces, fired] = [0, undefined];
    for await (const _ of model.complete("Once upon a time", greedy(100))) {
      pieces += 1;
      if (pieces === 1) setTimeout(() => (fired = pieces));
    }
    assert.ok(fired < pieces, `after ${fired} of ${pieces} pieces`);
    await model.close();
  },

  async "a loop that is left ends the generation"() {
    const model = await load("builtin");
    const answer = model.complete("Once upon a time", greedy(200));
    for await (const _ of answer) break;
    assert.equal(answer.stopReason, "aborted");
    await model.close();
  },

  async "models of other architectures say what they say natively"() {
    for (const [name, { prompt, tokens: wanted }] of Object.entries(expected.models)) {
      for (const threads of THREADS) {
        const model = await load(join(folder, `${name}.gguf`), { threads });
        assert.deepEqual(await tokens(model.complete(prompt, greedy(wanted.length))), wanted, `${name}, ${threads} threads`);
        await model.close();
      }
    }
    return `${Object.keys(expected.models).length} models`;
  },

  async "each token is as likely as natively"() {
    const model = await load("builtin");
    const pieces = [];
    for await (const piece of model.complete(computed.prompt, greedy(computed.logprobs.length, { logprobs: 3 }))) pieces.push(piece);
    const got = pieces.filter(({ token }) => token !== null).map(({ logprobs }) => logprobs);
    assert.deepEqual(got.map(({ id }) => id), computed.logprobs.map(({ id }) => id));
    got.forEach(({ token, bytes, logprob, top_logprobs }, i) => {
      const wanted = computed.logprobs[i];
      assert.equal(token.trim(), wanted.token.trim());
      assert.equal(Buffer.from(bytes).toString(), token);
      near([logprob, ...top_logprobs.map(({ logprob }) => logprob)], [wanted.logprob, ...wanted.top.map(({ logprob }) => logprob)], token);
      assert.equal(top_logprobs[0].id, wanted.top[0].id);
    });
    const { value } = await model.complete(computed.prompt, greedy(1)).next();
    assert.equal(value.logprobs, undefined, "only where they are asked for");
    await model.close();
  },

  async "logits are those of the native engine"() {
    const model = await load("builtin");
    const logits = await model.logits(computed.prompt);
    assert.ok(logits instanceof Float32Array);
    near(logits, computed.logits, "a text");
    const ids = await model.tokenize(computed.prompt, { prompt: true });
    assert.deepEqual(await model.logits(ids), logits, "the same by its ids");
    await model.complete(computed.prompt, greedy(5)).text();
    assert.deepEqual(await model.logits(ids), logits, "after an answer, too");
    await assert.rejects(model.logits([]), /empty/);
    await assert.rejects(model.logits(new Array(5000).fill(5)), /5000/);
    await model.close();
  },

  async "a session of the native engine goes on here, and one of here in another model"() {
    const { saved, text, tokens: wanted } = computed.session;
    const file = await readFile(join(folder, "session.bin"));
    let bytes = new Uint8Array(file);
    for (const from of ["natively", "here"]) {
      const model = await load("builtin");
      assert.deepEqual(await model.loadSession(from === "here" ? new Blob([bytes]) : bytes), saved, from);
      const answer = model.complete(text, greedy(wanted.length));
      assert.deepEqual(await tokens(answer), wanted, from);
      assert.deepEqual([answer.timings.promptTokens, answer.timings.cachedTokens], [1, text.length - 1], from);
      await model.loadSession(bytes);
      bytes = await model.saveSession();
      assert.ok(bytes instanceof Uint8Array && bytes.length > 1000);
      await model.close();
    }
    const model = await load("builtin");
    await assert.rejects(model.loadSession(bytes.map((byte, i) => (i === 5000 ? byte ^ 1 : byte))), /damaged/);
    await assert.rejects(model.loadSession(new Uint8Array(100)), /expected a saved session/);
    await model.close();
    if (!expected.models.llama) return "another model: skipped, no fixtures";
    const other = await load(join(folder, "llama.gguf"));
    await assert.rejects(other.loadSession(bytes), /belongs to another model/);
    assert.equal(typeof (await other.complete([1, 2, 3], greedy(2)).text()), "string", "it still works");
    await other.close();
  },

  async "an adapter changes a model as natively"() {
    const plain = await load("builtin");
    for (const { scale, logits, tokens: wanted } of computed.lora) {
      const source = scale === 1 ? join(folder, "lora.gguf") : pathToFileURL(join(folder, "lora.gguf"));
      const model = await load("builtin", { adapters: [scale === 1 ? { source } : { source, scale }] });
      near(await model.logits(computed.prompt), logits, `scale ${scale}`);
      assert.deepEqual(await tokens(model.complete(computed.prompt, greedy(wanted.length))), wanted);
      assert.ok(Math.max(...logits.map((x, i) => Math.abs(x - computed.logits[i]))) > 100 * NEAR, "the adapter does something");
      await assert.rejects(plain.loadSession(await model.saveSession()), /adapter/);
      await model.close();
    }
    await plain.close();
    await assert.rejects(load("builtin", { adapters: [{ source: join(pack, "candor-tiny.gguf") }] }), /candor-tiny.gguf: .*expected "adapter"/);
    await assert.rejects(load("builtin", { adapters: [{ source: join(folder, "lora.gguf"), size: 1 }] }), /unknown field `size`/);
  },

  async "a file says what it takes before it is loaded"() {
    for (const source of ["builtin", join(pack, "candor-tiny.gguf"), pathToFileURL(join(pack, "candor-tiny.gguf"))]) {
      const { bytes, weights, cache, context, trainedContext, cpu, gpu, reason } = await fit(source, { context: 512 });
      assert.equal(bytes, computed.bytes);
      assert.ok(weights > 0.8 * bytes && weights < bytes, `${weights} of ${bytes}`);
      assert.deepEqual([context, cpu.fits, cpu.longestContext, gpu], [512, true, trainedContext, null]);
      assert.ok(cache > 0 && (await fit(source, { context: 1024 })).cache === 2 * cache, "keys and values grow with the context");
      assert.match(reason, /^a context of 512 tokens takes .* \(keys and values .*\), which the processor's memory holds with up to \d+ tokens$/);
    }
    await assert.rejects(fit("builtin", { contxt: 5 }), /unknown field `contxt`/);
    const { cpu, reason } = await fit("builtin", { context: 1 << 24 });
    assert.ok(!cpu.fits && cpu.longestContext > 0);
    assert.match(reason, /^on the processor a context of 16777216 tokens takes .* and there are .* free/);
  },

  async "a file of a server is asked for its beginning alone"() {
    const tiny = await readFile(join(pack, "candor-tiny.gguf"));
    // A text of 1.5 MB in the directory, and 40 MB behind all.
    const [key, text] = [Buffer.from("test.padding"), Buffer.alloc(3 << 19, 120)];
    const head = Buffer.from(tiny.subarray(0, 24));
    head.writeBigUInt64LE(head.readBigUInt64LE(16) + 1n, 16);
    const entry = Buffer.alloc(8 + key.length + 12);
    entry.writeUInt32LE(key.length, 0);
    key.copy(entry, 8);
    entry.writeUInt32LE(8, 8 + key.length);
    entry.writeUInt32LE(text.length, 12 + key.length);
    const [rest, end] = [tiny.subarray(24), Buffer.alloc(40 << 20)];
    const bodies = { short: Buffer.concat([tiny, end]), long: Buffer.concat([head, entry, text, rest, end]) };
    let [ranges, stopped] = [[], 0];
    const server = createServer(({ url, headers }, answer) => {
      const [, way, name] = url.split("/");
      const body = bodies[name];
      ranges.push(headers.range);
      const [, from, to] = (/bytes=(\d+)-(\d+)/.exec(headers.range) ?? []).map(Number);
      if (!body) return answer.writeHead(404).end();
      if (way === "ranges") return answer.writeHead(206, { "content-range": `bytes ${from}-${to}/${body.length}` }).end(body.subarray(from, to + 1));
      // All of it, which is more than anybody waits for.
      answer.once("close", () => (stopped += 1));
      answer.writeHead(200, { "content-length": body.length }).write(body.subarray(0, 5 << 19));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const origin = `http://127.0.0.1:${server.address().port}`;
    const signal = AbortSignal.timeout(20_000);
    try {
      const whole = await fit("builtin");
      const first = "bytes=0-1048575";
      for (const [name, asked] of [["short", [first]], ["long", [first, "bytes=1048576-2097151"]]]) {
        for (const way of ["ranges", "plain"]) {
          const got = await fit(new URL(`/${way}/${name}`, origin), { signal });
          assert.equal(got.bytes, bodies[name].length);
          assert.deepEqual({ ...got, bytes: whole.bytes }, whole, `${way} ${name}`);
          // A server without ranges gives more at once than it is asked for.
          assert.deepEqual(way === "ranges" ? ranges : ranges.length, way === "ranges" ? asked : asked.length);
          ranges = [];
        }
      }
      while (stopped < 3) await new Promise((resolve) => setTimeout(resolve, 10));
      await assert.rejects(fit(`${origin}/ranges/nowhere`), /the server answers 404/);
      await assert.rejects(fit(`${origin}/ranges/short`, { signal: AbortSignal.abort() }), { name: "AbortError" });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  },

  async "named values are those of the native engine"() {
    const model = await load("builtin");
    const { names, values: wanted } = computed.trace;
    const got = await model.trace(computed.prompt, { names, limit: 4 });
    assert.deepEqual(got.map(({ name, layer, shape }) => [name, layer, shape]), wanted.map(({ name, layer, shape }) => [name, layer, shape]));
    got.forEach(({ name, layer, values, rms, min, max, mean, notFinite }, i) => {
      near([rms, ...values].map((x) => x / rms), [wanted[i].rms, ...wanted[i].values].map((x) => x / wanted[i].rms), `${name}-${layer}`);
      assert.ok(min <= mean && mean <= max && notFinite === 0);
    });
    const one = await model.trace(computed.prompt, { names: ["Qcur-1"] });
    assert.deepEqual(one.map(({ name, layer, values }) => [name, layer, values.length]), [["Qcur", 1, 8]]);
    assert.ok((await model.trace([5, 6])).length > 10 * computed.layers, "all of them");
    await model.close();
  },

  async "the processor is not verified, and that is said"() {
    const model = await load("builtin");
    await assert.rejects(model.verify(), /GPUs alone are verified/);
    await model.close();
  },

  async "a model answers as OpenAI's client does"() {
    const model = await load("builtin");
    const { chat: { completions } } = openai(model);
    const { message, tokens: wanted, text } = expected.builtin;
    const request = { messages: [{ role: "user", content: [{ type: "text", text: message }] }], temperature: 0, max_tokens: wanted.length };
    const whole = await completions.create({ ...request, model: "mine", logprobs: true, top_logprobs: 2 });
    assert.deepEqual(shape(whole), {
      id: "string", created: "number", model: "string", object: "string",
      choices: [{
        index: "number", message: { role: "string", content: "string", refusal: "null" },
        logprobs: {
          content: [{ token: "string", logprob: "number", bytes: ["number"], top_logprobs: [{ token: "string", logprob: "number", bytes: ["number"] }] }],
          refusal: "null",
        },
        finish_reason: "string",
      }],
      usage: { prompt_tokens: "number", completion_tokens: "number", total_tokens: "number", prompt_tokens_details: { cached_tokens: "number" } },
    });
    const [{ message: said, logprobs, finish_reason }] = whole.choices;
    assert.deepEqual([said.content, finish_reason, whole.model], [text, "length", "mine"]);
    assert.equal(logprobs.content.length, wanted.length);
    const prompt = (await model.tokenize([{ role: "user", content: message }])).length;
    assert.deepEqual([whole.usage.prompt_tokens, whole.usage.completion_tokens], [prompt, wanted.length]);

    const chunks = [];
    for await (const chunk of await completions.create({ ...request, stream: true, stream_options: { include_usage: true } })) chunks.push(chunk);
    assert.equal(chunks.slice(0, -1).map(({ choices: [{ delta }] }) => delta.content ?? "").join(""), text);
    assert.deepEqual(chunks[0].choices, [{ index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }]);
    assert.deepEqual(chunks.at(-2).choices, [{ index: 0, delta: {}, logprobs: null, finish_reason: "length" }]);
    assert.deepEqual([chunks.at(-1).choices, chunks.at(-1).usage.total_tokens, chunks[1].usage], [[], prompt + wanted.length, null]);
    assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);

    let options;
    const spy = openai({ info: model.info, chat: (messages, given) => ((options = given), model.chat(messages, { maxTokens: 1 })) });
    const many = { max_completion_tokens: 7, temperature: 0.5, top_p: 0.9, top_k: 30, min_p: 0.1, repeat_penalty: 1.1, presence_penalty: 0.2,
      frequency_penalty: 0.3, seed: 5, stop: ["a", "b"], logprobs: true, top_logprobs: null, logit_bias: null, n: 1, stream: null, model: null };
    await spy.chat.completions.create({ messages: request.messages, ...many });
    assert.deepEqual(options, { maxTokens: 7, temperature: 0.5, topP: 0.9, topK: 30, minP: 0.1, repeatPenalty: 1.1, presencePenalty: 0.2,
      frequencyPenalty: 0.3, seed: 5, stop: ["a", "b"], logprobs: 0, signal: undefined });
    const stopped = await completions.create({ ...request, stop: text.slice(5, 9) });
    assert.deepEqual([stopped.choices[0].message.content, stopped.choices[0].finish_reason], [text.slice(0, 5), "stop"]);
    const biased = await completions.create({ ...request, max_tokens: 1, logit_bias: { [wanted[0]]: -100 }, logprobs: true });
    assert.notEqual(biased.choices[0].logprobs.content[0].token, logprobs.content[0].token);
    for await (const _ of await completions.create({ ...request, max_tokens: 1000, stream: true })) break;
    for (const [wrong, pattern] of [
      [{ tools: [] }, /unknown field tools: expected one of .*max_tokens/],
      [{ n: 2 }, /n: expected 1, got 2/],
      [{ top_logprobs: 2 }, /logprobs: expected true/],
      [{ stream_options: { usage: true } }, /unknown field stream_options.usage/],
      [{ messages: undefined }, /messages: expected a list/],
      [{ messages: [{ role: "user", content: [{ type: "image_url" }] }] }, /messages\[0\].content\[0\].type: expected "text", got "image_url"/],
    ]) await assert.rejects(completions.create({ ...request, ...wrong }), pattern);
    await assert.rejects(completions.create(request, { signal: AbortSignal.abort() }), { name: "AbortError" });
    await model.close();
  },

  async "a model has the face of Chrome's LanguageModel"() {
    const { message, text } = expected.builtin;
    const LanguageModel = languageModel("builtin", { context: 256, ...plain });
    assert.equal(await LanguageModel.availability(), "available");
    const progress = [];
    const monitor = (m) => m.addEventListener("downloadprogress", ({ loaded, total }) => progress.push([loaded, total]));
    const session = await LanguageModel.create({ monitor, temperature: 0, topK: 1 });
    assert.deepEqual(progress, [[0, 1], [1, 1]]);
    assert.deepEqual([session.contextUsage, session.contextWindow, session.inputQuota], [0, 256, 256]);
    const asked = await session.measureInputUsage(message);
    assert.equal(asked, await session.measureContextUsage([{ role: "user", content: [{ type: "text", value: message }] }]));
    const branch = await session.clone();
    const said = await session.prompt(message);
    assert.ok(said.startsWith(text), said);
    assert.ok(session.contextUsage > asked && session.contextUsage === session.inputUsage);
    assert.equal(branch.contextUsage, 0);

    let streamed = "";
    for await (const piece of branch.promptStreaming(message)) streamed += piece;
    assert.equal(streamed, said, "another conversation does not know of it");
    const model = await load("builtin", { context: 256 });
    const talk = [{ role: "user", content: message }, { role: "assistant", content: said }, { role: "user", content: "And then?" }];
    const then = await model.chat(talk, { temperature: 0 }).text();
    assert.equal(await session.prompt("And then?"), then, "it knows what was said");
    await branch.append([{ role: "user", content: "And then?" }, { role: "assistant", content: then }]);
    assert.ok(branch.contextUsage > 0);

    // The beginning stays, the oldest of the rest goes.
    const first = await LanguageModel.create({ initialPrompts: talk.slice(0, 2), temperature: 0, topK: 1 });
    assert.ok(first.contextUsage > 0);
    let overflows = 0;
    first.oncontextoverflow = () => (overflows += 1);
    for (let i = 0; i < 12 && !overflows; i++) await first.append([{ role: "user", content: message }, { role: "assistant", content: "Yes." }]);
    assert.equal(overflows, 1);
    assert.ok(first.contextUsage < 256);
    await assert.rejects(first.append("word ".repeat(400)), { name: "QuotaExceededError", quota: 256 });

    const abort = new AbortController();
    const reader = first.promptStreaming("Go on", { signal: abort.signal }).getReader();
    await reader.read();
    const before = first.contextUsage;
    abort.abort();
    await assert.rejects((async () => { while (!(await reader.read()).done); })(), { name: "AbortError" });
    assert.equal(first.contextUsage, before, "what was ended is not part of it");
    assert.equal(typeof (await first.prompt("Hello")), "string");
    await assert.rejects(first.prompt("Hi", { responseConstraint: {} }), { name: "NotSupportedError", message: /responseConstraint/ });
    await assert.rejects(LanguageModel.create({ tools: [] }), { name: "NotSupportedError", message: /tools/ });
    await assert.rejects(LanguageModel.create({ expectedInputs: [{ type: "image" }] }), { name: "NotSupportedError" });
    await assert.rejects(LanguageModel.create({ signal: AbortSignal.abort() }), { name: "AbortError" });

    const last = session.prompt("Go on");
    session.destroy();
    await assert.rejects(last, { name: "AbortError" });
    await assert.rejects(session.prompt("Hi"), { name: "InvalidStateError" });
    assert.equal(typeof (await branch.prompt("Hello")), "string", "the model is there for the others");
    branch.destroy();
    first.destroy();
    assert.equal(typeof (await (await LanguageModel.create({ temperature: 0 })).prompt("Hello")), "string", "and loaded again");
    await model.close();
  },

  async "the package exports what it lists"() {
    const { exports } = JSON.parse(await readFile(join(pack, "package.json"), "utf8"));
    for (const [name, target] of Object.entries(exports)) {
      for (const file of Object.values(typeof target === "string" ? { default: target } : target)) {
        assert.ok((await readFile(join(pack, file))).length, `${name}: ${file}`);
      }
    }
  },

  async "files that are none are named"() {
    const broken = join(folder, "broken.gguf");
    await writeFile(broken, "no model");
    await assert.rejects(load(broken), { name: "GgufError" });
    await assert.rejects(load(join(folder, "nowhere.gguf")), /ENOENT/);
    await assert.rejects(load("https://example.org/model.gguf"), /download the file first/);
  },
};

process.exitCode = (await run(CHECKS, (check) => check())) ? 1 : 0;
