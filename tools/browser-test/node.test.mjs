// Uses the package in Node, on the processor.
//
// usage: node node.test.mjs PACKAGE FOLDER
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { run } from "./checks.mjs";

const [pack, folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node node.test.mjs PACKAGE FOLDER");
  process.exit(2);
}
const expected = JSON.parse(await readFile(join(folder, "expected.json"), "utf8"));
const candor = await import(pathToFileURL(join(pack, "candor.js")).href);
// What is built fast has no module for threads.
const THREADS = existsSync(join(pack, "simd128-threads")) ? [1, 2] : [1];
const load = (source, options) => candor.load(source, { threads: THREADS.at(-1), module: "simd128", ...options });

async function tokens(answer) {
  const all = [];
  for await (const { token } of answer) if (token !== null) all.push(token);
  return all;
}

const greedy = (count, more = {}) => ({ temperature: 0, maxTokens: count, ...more });

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

  async "two models at once have threads of their own"() {
    const { message, tokens: wanted } = expected.builtin;
    const models = [await load("builtin"), await load("builtin")];
    const said = models.map((model) => tokens(model.chat([{ role: "user", content: message }], greedy(wanted.length))));
    assert.deepEqual(await Promise.all(said), [wanted, wanted]);
    await Promise.all(models.map((model) => model.close()));
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

  async "files that are none are named"() {
    const broken = join(folder, "broken.gguf");
    await writeFile(broken, "no model");
    await assert.rejects(load(broken), { name: "GgufError" });
    await assert.rejects(load(join(folder, "nowhere.gguf")), /ENOENT/);
    await assert.rejects(load("https://example.org/model.gguf"), /download the file first/);
  },
};

process.exitCode = (await run(CHECKS, (check) => check())) ? 1 : 0;
