// Headless Chromium over its debugging pipe: no package, no port, no profile left behind.
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
];

export class Browser {
  #next = 1;
  #waiting = new Map();
  #listeners = new Set();

  /** With flags of its own, and as many milliseconds for an answer. */
  static async start(program, flags = ["--disable-gpu"], patience = 60_000) {
    const browser = new Browser();
    browser.patience = patience;
    browser.profile = await mkdtemp(join(tmpdir(), "page-test-"));
    browser.process = spawn(program, [...FLAGS, ...flags, `--user-data-dir=${browser.profile}`, "about:blank"],
      { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    browser.process.once("error", (error) => browser.#fail(error));
    browser.process.once("exit", (code) => browser.#fail(new Error(`${program}: ended with ${code}`)));
    browser.#listen();
    return browser;
  }

  /** A fresh tab of this width, in light or dark. */
  async tab({ width, height, scheme }) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab(this, sessionId);
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await tab.send(`${domain}.enable`);
    await tab.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
    await tab.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    return tab;
  }

  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    await this.send("Browser.close").catch(() => {});
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 5000))]);
    this.process.kill("SIGKILL");
    await rm(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer`)), this.patience);
      this.#waiting.set(id, { resolve, reject, timer });
    });
  }

  on(listener) {
    this.#listeners.add(listener);
  }

  #listen() {
    let rest = Buffer.alloc(0);
    this.process.stdio[4].on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        this.#take(JSON.parse(rest.subarray(0, end).toString()));
        rest = rest.subarray(end + 1);
      }
    });
  }

  #take(message) {
    const waiting = this.#waiting.get(message.id);
    if (!waiting) {
      for (const listener of this.#listeners) listener(message);
      return;
    }
    this.#waiting.delete(message.id);
    clearTimeout(waiting.timer);
    if (message.error) waiting.reject(new Error(message.error.message));
    else waiting.resolve(message.result);
  }

  #fail(error) {
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(error);
    }
    this.#waiting.clear();
  }
}

class Tab {
  /** What the page complained of: exceptions, console errors, blocked or needless requests, dialogs. */
  complaints = [];

  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    browser.on(({ sessionId, method, params }) => {
      if (sessionId === session) this.#notice(method, params);
    });
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  async open(url) {
    const loaded = new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${url}: does not load`)), this.browser.patience);
      this.loaded = () => resolve(clearTimeout(timer));
    });
    this.url = url;
    await this.send("Page.navigate", { url });
    await loaded;
  }

  /** The value of an expression in the page. */
  async value(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** A click with the mouse in the middle of an element. */
  async click(selector) {
    const [x, y] = await this.value(`(() => {
      const node = document.querySelector(${JSON.stringify(selector)});
      node.scrollIntoView({ block: "center", inline: "center" });
      const box = node.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + box.height / 2];
    })()`);
    for (const type of ["mousePressed", "mouseReleased"]) {
      await this.send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
    }
  }

  async key(key, code = key, text = undefined) {
    const windowsVirtualKeyCode = { Tab: 9, Enter: 13, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40 }[key];
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, code, text, windowsVirtualKeyCode });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key, code, windowsVirtualKeyCode });
  }

  /** A picture of the whole page, or of what is in sight. */
  async picture(path, whole) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole });
    await writeFile(path, Buffer.from(data, "base64"));
  }

  #notice(method, params) {
    if (method === "Page.loadEventFired") this.loaded?.();
    if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.level === "error") this.complaints.push(params.entry.text);
    if (method === "Page.javascriptDialogOpening") this.complaints.push(`dialog: ${params.message}`);
    if (method === "Network.requestWillBeSent" && params.request.url !== this.url.split("#")[0]) this.complaints.push(`request: ${params.request.url}`);
  }
}
