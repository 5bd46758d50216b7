#!/usr/bin/env node
// What a large model does to a page, in headless Chromium: how soon a prompt of 4,000 ids ends when a signal says so, the longest task
// on the page's thread, and the module's memory when the weights are on an emulated GPU. With --memory, what a model says whose layers
// pass, on the processor and on that GPU, and how fast.
//
// usage: large.mjs PACKAGE MODEL.gguf [--memory BYTES [--tokens 4] [--devices cpu,gpu]]
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { Browser } from "../../tools/page-test/browser.mjs";
import { serve } from "./serve.mjs";

const FLAGS = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan", "--use-vulkan=swiftshader"];
const PATIENCE = 1_800_000;
/** Seconds after the beginning of a prompt at which the signal comes: in the first chunks, and later. */
const MOMENTS = [0.05, 0.5, 1, 2, 4, 8, 12];

const { values: options, positionals: [packageFolder, model] } = parseArgs({
  allowPositionals: true,
  options: { memory: { type: "string" }, tokens: { type: "string", default: "4" }, devices: { type: "string", default: "cpu,gpu" } },
});
if (!model) {
  console.error("usage: large.mjs PACKAGE MODEL.gguf [--memory BYTES [--tokens 4] [--devices cpu,gpu]]");
  process.exit(2);
}
const { server, origin } = await serve({ candor: resolve(packageFolder) }, model);
const browser = await Browser.start(process.env.CHROMIUM ?? "chromium", FLAGS, PATIENCE);

/** In the page, from now on: the longest time in which its thread heard no timer of 1 ms. */
function watch() {
  let last = performance.now();
  window.longest = 0;
  setInterval(() => {
    window.longest = Math.max(window.longest, performance.now() - last);
    last = performance.now();
  }, 1);
  // A timer is at most a few milliseconds late of its own.
  new PerformanceObserver((list) => (window.tasks ??= []).push(...list.getEntries().map(({ duration }) => duration))).observe({ entryTypes: ["longtask"] });
}

async function aborted(moments) {
  const { load } = await import("/candor/candor.js");
  const model = await load("/model.gguf", { device: "cpu", threads: 1, context: 4200, cache: false });
  const ids = Array.from({ length: 4000 }, (_, index) => ((index + 1) * 7919) % model.info.vocabulary);
  const found = [];
  for (const moment of moments) {
    const abort = new AbortController();
    let begun;
    setTimeout(() => {
      begun = performance.now();
      abort.abort();
    }, moment * 1000);
    // Another first id each time: nothing of the session is known.
    const error = await model.complete([1 + found.length, ...ids.slice(1)], { signal: abort.signal }).text().catch((error) => error.name);
    found.push({ moment, error, took: performance.now() - begun });
  }
  await model.close();
  return { found, tasks: window.tasks ?? [], longest: window.longest };
}

async function loaded() {
  const { load } = await import("/candor/candor.js");
  const begun = performance.now();
  const model = await load("/model.gguf", { device: "gpu", software: true, context: 512, cache: false });
  const seconds = (performance.now() - begun) / 1000;
  const memory = await model.memory();
  const { label, verified } = model.info;
  await model.close();
  return { label, verified, seconds, memory, tasks: window.tasks ?? [] };
}

async function passing(options, tokens) {
  const { load } = await import("/candor/candor.js");
  const model = await load("/model.gguf", { context: 64, ...options });
  const found = [];
  const answer = model.complete([1, 300, 4000, 77, 9], { temperature: 0, maxTokens: tokens });
  for await (const { token } of answer) if (token !== null) found.push(token);
  const { timings } = answer;
  const memory = await model.memory();
  const { label, reason } = model.info;
  await model.close();
  return { label, reason, found, timings, memory };
}

async function page(f, ...args) {
  const tab = await browser.tab({ width: 800, height: 600, scheme: "light" });
  await tab.open(`${origin}/`);
  await tab.value(`(${watch})()`);
  const value = await tab.value(`(${f})(...${JSON.stringify(args)})`);
  await tab.send("Page.close");
  return value;
}

/** A prompt that is ended, and what loading for a GPU takes. */
async function whole() {
  const { found, tasks, longest } = await page(aborted, MOMENTS);
  for (const { moment, error, took } of found) console.log(`a signal after ${moment} s: ${error} ${took.toFixed(0)} ms later`);
  console.log(`tasks of the page's thread over 50 ms: ${tasks.length}; its timers were heard every ${longest.toFixed(0)} ms or sooner`);
  const gpu = await page(loaded);
  console.log(`${gpu.label}, ${gpu.verified ? "verified" : "not verified"}, loaded in ${gpu.seconds.toFixed(0)} s`);
  console.log(`memory of the module ${(gpu.memory.module / 1e6).toFixed(0)} MB, of the GPU's buffers ${(gpu.memory.gpu / 1e6).toFixed(0)} MB; tasks over 50 ms: ${gpu.tasks.length}`);
}

/** Layers that pass. */
async function streamed() {
  for (const device of options.devices.split(",")) {
    const asked = { device, software: true, threads: 1, memory: Number(options.memory) };
    const { label, reason, found, timings, memory } = await page(passing, asked, Number(options.tokens));
    const passes = timings.tokens + 1;
    console.log(`${label}: ${reason}`);
    console.log(`tokens ${found.join(" ")}; ${((1000 * timings.tokens) / timings.decodeMs).toFixed(2)} t/s; read ${(timings.readBytes / passes / 1e9).toFixed(2)} GB for the prompt and each token, ` +
      `waited ${((100 * timings.waitMs) / (timings.promptMs + timings.decodeMs)).toFixed(0)} %; module ${(memory.module / 1e6).toFixed(0)} MB, buffers ${(memory.gpu / 1e6).toFixed(0)} MB`);
  }
}

try {
  await (options.memory ? streamed() : whole());
} finally {
  await browser.stop();
  server.close();
}
