// Uses the package in headless Firefox, on the processor with each module, with one thread and two. The page runs the checks by
// itself and sends what came of them.
//
// usage: node firefox.test.mjs PACKAGE FOLDER
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { built, run } from "./checks.mjs";
import { Server } from "./server.mjs";

const PATIENCE = 300_000;
const [pack, folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node firefox.test.mjs PACKAGE FOLDER");
  process.exit(2);
}
const expected = JSON.parse(await readFile(join(folder, "expected.json"), "utf8"));
await copyFile(join(pack, "candor-tiny.gguf"), join(folder, "tiny.gguf"));
const { modules, threads: counts, plain } = await built(pack);

/** What a page finds for each question `[source, options, prompt, count]`: the greedy tokens, or what went wrong. */
async function answers(questions, plain) {
  const { load } = await import("/package/candor.js");
  const found = [];
  for (const [source, options, prompt, count] of questions) {
    try {
      const model = await load(source, { ...plain, ...options });
      const greedy = { temperature: 0, maxTokens: count };
      const messages = [{ role: "user", content: prompt }];
      const answer = Array.isArray(prompt) ? model.complete(prompt, greedy) : model.chat(messages, greedy);
      const tokens = [];
      for await (const { token } of answer) if (token !== null) tokens.push(token);
      await model.close();
      found.push({ tokens, info: model.info });
    } catch ({ name, message }) {
      found.push({ name, message });
    }
  }
  return found;
}

/** Asks in a fresh Firefox. */
async function ask(questions) {
  const server = await Server.start({ package: pack }, folder);
  const profile = await mkdtemp(join(tmpdir(), "firefox-test-"));
  const found = server.found();
  server.script = `const found = await (${answers})(${JSON.stringify(questions)}, ${JSON.stringify(plain)});
    await fetch("/found", { method: "POST", body: JSON.stringify(found) });`;
  const flags = ["--headless", "--no-remote", "--profile", profile, `${server.origin}/asked`];
  const firefox = spawn(process.env.FIREFOX ?? "firefox-esr", flags, { stdio: "ignore" });
  let timer;
  try {
    const ended = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("Firefox does not answer")), PATIENCE);
      firefox.once("error", reject).once("exit", (code) => reject(new Error(`Firefox ended with ${code}`)));
    });
    return JSON.parse(await Promise.race([found, ended]));
  } finally {
    clearTimeout(timer);
    firefox.kill("SIGKILL");
    server.stop();
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

const WAYS = modules.flatMap((module) => counts.map((threads) => ({ device: "cpu", module, threads })));
const { message, tokens: wanted } = expected.builtin;

const CHECKS = {
  async "the built-in model says on each module, with one thread and two, what it says natively"() {
    const found = await ask(WAYS.map((options) => ["builtin", options, message, wanted.length]));
    for (const [at, options] of WAYS.entries()) {
      assert.deepEqual(found[at].tokens, wanted, `${JSON.stringify(options)}: ${found[at].message}`);
      const { module, threads } = found[at].info;
      assert.deepEqual({ module, threads }, { module: options.module, threads: options.threads });
    }
  },

  async "models of other architectures say what they say natively"() {
    const models = Object.entries(expected.models);
    const questions = models.flatMap(([name, { prompt, tokens }]) =>
      counts.map((threads) => [`/files/${name}.gguf`, { device: "cpu", threads }, prompt, tokens.length]));
    const found = await ask(questions);
    for (const [at, [source, options]] of questions.entries()) {
      const right = models[Math.floor(at / counts.length)][1].tokens;
      assert.deepEqual(found[at].tokens, right, `${source} ${JSON.stringify(options)}: ${found[at].message}`);
    }
    return models.length ? `${models.length} models` : "skipped: no fixtures";
  },

  async "files that are none, and downloads that break off, are as in Chromium"() {
    const [missing, html, dropped, kept] = await ask([
      ["/files/nowhere.gguf", {}, message, 1],
      ["/html/tiny.gguf", {}, message, 1],
      ["/drop/tiny.gguf", {}, message, wanted.length],
      ["/drop/tiny.gguf", {}, message, wanted.length],
    ]);
    assert.match(missing.message, /the server answers 404/);
    assert.match(html.message, /the server answers text\/html, and no GGUF file/);
    assert.deepEqual(dropped.tokens, wanted, dropped.message);
    assert.equal(dropped.info.from, "network");
    assert.equal(kept.info.from, "cache");
  },
};

process.exitCode = (await run(CHECKS, (check) => check())) ? 1 : 0;
