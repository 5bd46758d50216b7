// A thread of a module whose memory is shared: it waits for work, for ever.

// Bun and Deno have `self` as well, but their threads are Node's.
const node = typeof process !== "undefined" && process.versions?.node ? await import("node:worker_threads") : undefined;
const port = node?.parentPort ?? self;

async function begin({ folder, module, memory }) {
  const wasm = await import(new URL("candor.js", folder).href);
  wasm.initSync({ module, memory });
  wasm.enlist();
  port.postMessage("ready");
  try {
    wasm.work();
  } catch (error) {
    fail(`the engine stopped: ${wasm.panicked() ?? error.message}`);
  }
}

/** The thread that hands out the work waits for this one and hears nothing. */
function fail(message) {
  if (!node) return new BroadcastChannel(self.name).postMessage({ name: "Error", message });
  console.error(`error: ${message}`);
  process.kill(process.pid);
}

if (node) port.once("message", begin);
else self.onmessage = ({ data }) => begin(data);
