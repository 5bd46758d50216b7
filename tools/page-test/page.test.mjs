// Opens the pages that the crate's test wrote and looks at them as a reader would.
//
// usage: node page.test.mjs FOLDER [PICTURES]
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Browser } from "./browser.mjs";

const SIZES = [
  { name: "wide", width: 1440, height: 1000 },
  { name: "medium", width: 900, height: 1000 },
  { name: "narrow", width: 400, height: 860 },
];
const PAGES = ["faulty", "deep", "values", "hostile", "partial", "long"];
const [folder, pictures] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node page.test.mjs FOLDER [PICTURES]");
  process.exit(2);
}
const url = (name) => pathToFileURL(resolve(folder, `${name}.html`)).href;
const expected = async (name) => JSON.parse(await readFile(join(folder, `${name}.json`), "utf8"));
const text = (selector) => `document.querySelector(${JSON.stringify(selector)})?.innerText ?? ""`;
const flat = (words) => words.replace(/\s+/g, " ").trim().toLowerCase();
const cellOf = (key) => `[data-key="${key}"]`;

const CHECKS = {
  async "a click on the first wrong cell shows it, and the findings are above"(browser) {
    const want = await expected("faulty");
    const tab = await browser.tab({ ...SIZES[0], scheme: "light" });
    await tab.open(url("faulty"));
    const [name, layer] = want.first_wrong.split("-");
    const other = "ffn_norm-1";
    await tab.click(cellOf(other));
    assert.equal(flat(await tab.value(text("#panel-title"))), "ffn_norm layer 1");
    assert.equal(await tab.value(text("#panel-status")), "right");
    await tab.click(`.cell.first`);
    assert.equal(flat(await tab.value(text("#panel-title"))), flat(`${name} layer ${layer}`));
    assert.equal(await tab.value(text("#panel-status")), "wrong");
    assert.equal(await tab.value(`document.querySelectorAll('[aria-selected="true"]').length`), 1);
    const story = flat(await tab.value(text("#story")));
    assert.ok(want.findings.length > 0);
    for (const { fault, cause, remedy } of want.findings) {
      for (const words of [fault, cause, remedy]) assert.ok(story.includes(flat(words)), `findings lack: ${words}`);
    }
    const panel = flat(await tab.value(text("#panel")));
    for (const words of ["histogram", "residual by token", "residual by head", "cosine", "suspect", "expected", "rms"]) {
      assert.ok(panel.includes(words), `the panel lacks: ${words}`);
    }
    assert.ok((await tab.value(`document.querySelectorAll("#panel svg rect").length`)) > 40);
    return tab;
  },

  async "a healthy run is said to be healthy"(browser) {
    const tab = await browser.tab({ ...SIZES[0], scheme: "light" });
    await tab.open(url("deep"));
    assert.ok(flat(await tab.value(text("#verdict"))).includes("every value follows"));
    assert.equal(await tab.value(`document.querySelectorAll(".cell.first, .cell.wrong, .finding").length`), 0);
    return tab;
  },

  async "the address can name a value"(browser) {
    const tab = await browser.tab({ ...SIZES[0], scheme: "light" });
    await tab.open(`${url("faulty")}#l_out-3`);
    assert.equal(flat(await tab.value(text("#panel-title"))), "l_out layer 3");
    return tab;
  },

  async "on a narrow window a value opens in sight, and there is a way back"(browser) {
    const tab = await browser.tab({ ...SIZES[2], scheme: "light" });
    await tab.open(url("faulty"));
    const inSight = (selector) => tab.value(`(() => {
      const box = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect();
      return box.top >= 0 && box.top < window.innerHeight;
    })()`);
    await tab.click(cellOf("Kcur-2"));
    assert.ok(await inSight("#panel-title"), "the panel is out of sight");
    await tab.click(".back");
    assert.ok(await inSight(cellOf("Kcur-2")), "the cell is out of sight");
    assert.equal(await tab.value("document.activeElement.dataset.key"), "Kcur-2");
    return tab;
  },

  async "a row is chosen from the list"(browser) {
    const tab = await browser.tab({ ...SIZES[0], scheme: "light" });
    await tab.open(url("faulty"));
    const rows = await tab.value(`document.querySelectorAll("#row option").length`);
    assert.ok(rows > 2, `${rows} rows`);
    const before = await tab.value(text("#values tbody"));
    const marked = await tab.value(`(() => {
      const select = document.getElementById("row");
      select.value = select.options[0].value === select.value ? select.options[1].value : select.options[0].value;
      select.dispatchEvent(new Event("change"));
      return document.getElementById("row").value === select.value;
    })()`);
    assert.ok(marked, "the list forgets what was chosen");
    assert.notEqual(await tab.value(text("#values tbody")), before);
    return tab;
  },

  async "the keyboard reaches every cell"(browser) {
    const tab = await browser.tab({ ...SIZES[0], scheme: "dark" });
    await tab.open(url("faulty"));
    const tabbable = await tab.value(`document.querySelectorAll('.cell[tabindex="0"]').length`);
    assert.equal(tabbable, 1, "one cell is in the order of tabs");
    await tab.value(`document.querySelector('.cell[tabindex="0"]').focus()`);
    await tab.key("ArrowRight");
    await tab.key("ArrowDown");
    const focused = await tab.value("document.activeElement.dataset.key");
    assert.equal(focused, "Kcur-1");
    await tab.key("Enter");
    assert.equal(flat(await tab.value(text("#panel-title"))), "kcur layer 1");
    for (let step = 0; step < 40; step += 1) await tab.key("ArrowUp");
    assert.equal(await tab.value("document.activeElement.dataset.key"), "inp_embd");
    await tab.key("ArrowDown");
    assert.equal(await tab.value("document.activeElement.dataset.key"), "attn_norm-1", "the column is remembered");
    return tab;
  },

  async "a run without a suspect has no words of judgement"(browser) {
    const tab = await browser.tab({ ...SIZES[0], scheme: "light" });
    await tab.open(url("values"));
    assert.equal(await tab.value(`document.getElementById("story").hidden`), true);
    const page = flat(await tab.value("document.body.innerText"));
    for (const word of ["wrong", "right", "suspicious", "suspect", "residual by", "expected", "gate"]) {
      assert.ok(!new RegExp(`\\b${word}\\b`).test(page), `it says ${word}`);
    }
    assert.ok(page.includes("root mean square by token"));
    return tab;
  },

  async "names and prompts from files stay text"(browser) {
    const tab = await browser.tab({ ...SIZES[0], scheme: "light" });
    await tab.open(url("hostile"));
    await tab.click(".cell.first");
    const page = await tab.value("document.body.innerText");
    assert.ok(page.includes(`<img src=x onerror="window.__broken=1">`), "shown as text");
    assert.equal(await tab.value("window.__broken === undefined && document.images.length === 0"), true);
    return tab;
  },

  async "scripts that are not the page's own do not run"(browser) {
    const tab = await browser.tab({ ...SIZES[0], scheme: "light" });
    await tab.open(url("values"));
    await tab.value(`(() => {
      const script = document.createElement("script");
      script.textContent = "window.__broken = 1";
      document.body.append(script);
    })()`);
    assert.equal(await tab.value("window.__broken"), undefined);
    assert.ok(tab.complaints.some((line) => line.includes("Content Security Policy")), "nothing was blocked");
    tab.complaints.length = 0;
    return tab;
  },

  async "nothing is wider than the window, and every page draws"(browser) {
    let last;
    for (const name of PAGES) {
      for (const size of SIZES) {
        const tab = await browser.tab({ ...size, scheme: "light" });
        await tab.open(url(name));
        const [width, inner] = await tab.value("[document.documentElement.scrollWidth, window.innerWidth]");
        assert.ok(width <= inner && inner === size.width, `${name}, ${size.name}: ${width} in ${inner} of ${size.width}`);
        assert.ok((await tab.value(`document.querySelectorAll("#panel svg").length`)) > 0, `${name}: no chart`);
        assert.deepEqual(tab.complaints, [], name);
        last = tab;
      }
    }
    return last;
  },
};

async function takePictures(browser) {
  await mkdir(pictures, { recursive: true });
  for (const name of PAGES) {
    for (const size of SIZES) {
      for (const scheme of ["light", "dark"]) {
        const tab = await browser.tab({ ...size, scheme });
        await tab.open(url(name));
        await tab.picture(join(pictures, `${name}-${size.name}-${scheme}.png`), true);
      }
    }
  }
}

const browser = await Browser.start(process.env.CHROMIUM ?? "chromium");
let failures = 0;
try {
  for (const [name, check] of Object.entries(CHECKS)) {
    try {
      const tab = await check(browser);
      assert.deepEqual(tab.complaints, []);
      console.log(`ok      ${name}`);
    } catch (error) {
      failures += 1;
      console.log(`FAILED  ${name}\n        ${error.message}`);
    }
  }
  if (pictures) await takePictures(browser);
} finally {
  await browser.stop();
}
process.exitCode = failures ? 1 : 0;
