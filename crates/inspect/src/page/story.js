// What was found, in plain words, above the map.
const HEADLINES = {
  healthy: "Every value follows from its own inputs.",
  harmless: "There are differences, and none of them can change the text.",
  faulty: "The engine computes something wrong, and it is a known fault.",
  unknown: "The engine computes something wrong, and no known fault explains all of it.",
};
const CONFIDENCE = {
  high: "Sure: only this fault, or its exact twins, reproduces the values to rounding.",
  medium: "Fairly sure: this fault reproduces the values, but so do others.",
  low: "Not sure: there are few values to judge by, or another fault is nearly as close.",
};
const ROUNDING = {
  exact: "activations are not rounded",
  ggml: "activations rounded as llama.cpp's CPU code does",
  searched: "activations rounded as Candor's CPU code does",
  unknown: "activations rounded in a way that is not known",
};

function facts() {
  const list = document.getElementById("facts");
  const add = (term, text) => text && list.append(el("div", {}, el("dt", {}, term), el("dd", {}, text)));
  add(verdict ? "Suspect" : "Engine", data.engine);
  add("Ran on", data.backend);
  add("Model", data.model);
  add("SHA-256", data.sha256 && el("code", { title: data.sha256 }, data.sha256.slice(0, 16) + (data.sha256.length > 16 ? "…" : "")));
  const decoded = data.tokens.count - data.tokens.prompt;
  add("Tokens", `${data.tokens.prompt} of the prompt${decoded ? `, ${decoded} decoded` : ""}`);
  add("Prompt", data.prompt && el("q", {}, data.prompt));
}

/** Buttons that open values: "Qcur: layers 0–5". */
function placeLinks(keys) {
  const groups = new Map();
  for (const key of keys) {
    const { name, layer } = layerOf(key);
    if (!groups.has(name)) groups.set(name, { first: key, layers: [] });
    if (layer !== null) groups.get(name).layers.push(layer);
  }
  const link = ([name, { first, layers }]) =>
    el("li", {}, el("button", { type: "button", class: "link", onclick: () => open(first, { reveal: true }) },
      el("code", {}, name), layers.length ? ` ${ranges(layers)}` : ""));
  return el("ul", { class: "places" }, [...groups].map(link));
}

/** "layers 0–3, 5". */
function ranges(layers) {
  const runs = [];
  for (const layer of layers) {
    const last = runs.at(-1);
    if (last && layer === last[1] + 1) last[1] = layer;
    else runs.push([layer, layer]);
  }
  const words = runs.map(([from, to]) => (from === to ? String(from) : `${from}–${to}`)).join(", ");
  return `${layers.length === 1 ? "layer" : "layers"} ${words}`;
}

function finding(found, index) {
  const harmless = found.harm === "harmless";
  const rows = [
    ["What to do", sentence(found.remedy)],
    ["Where", placeLinks(found.places)],
    ["How sure", CONFIDENCE[found.confidence]],
    found.twins.length && ["Twins", ["These give the same values here and cannot be told apart from it: ",
      ...found.twins.flatMap((twin, at) => [at ? ", " : "", el("code", {}, twin)]), "."]],
    ["Evidence", evidence(found)],
    ["Seen in", found.source],
  ].filter(Boolean);
  return el("article", { class: harmless ? "finding harmless" : "finding" },
    el("p", { class: "finding-name" },
      el("span", {}, `Finding ${index + 1}`), " · ", el("code", {}, found.fault), ` · catalogue entry ${found.entry}`,
      harmless ? el("span", { class: "badge right" }, "cannot change the text") : ""),
    el("h3", {}, sentence(found.cause)),
    el("dl", {}, rows.map(([term, text]) => el("div", {}, el("dt", {}, term), el("dd", {}, text)))));
}

/** Bars that compare what explains the values with what does not. */
function evidence(found) {
  const rows = [["this fault", found.residual, "right"], ["no fault", found.healthy, "wrong"]];
  if (found.rival) rows.push([`runner-up: ${found.rival.name}`, found.rival.residual, "other"]);
  const lengths = rows.map(([, x]) => x).filter((x) => x > 0);
  const low = Math.min(1e-8, ...lengths), high = Math.max(2, ...lengths);
  return el("div", { class: "evidence" }, rows.map(([name, x, kind]) => {
    const fill = el("span", { class: `fill ${kind}` });
    fill.style.width = `${Math.max(share(x, low, high) * 100, 1)}%`;
    return el("div", { class: "evidence-row" }, el("span", { class: "evidence-name" }, name),
      el("span", { class: "track", "aria-hidden": "true" }, fill), el("span", { class: "figure" }, residual(x)));
  }), el("p", { class: "note" }, "How far each explanation is from the suspect's values, on a log scale; shorter is closer."));
}

function sentence(text) {
  const first = text.slice(0, 1).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : first + ".";
}

function counts() {
  const tally = { right: 0, suspicious: 0, wrong: 0, unreadable: 0 };
  for (const place of data.places) if (place.check) tally[place.check.status] += 1;
  const unchecked = data.places.filter((place) => !place.check).length;
  const shown = Object.entries(tally).filter(([status, n]) => n || status === "right" || status === "wrong");
  const list = el("ul", { class: "counts" }, shown.map(([status, n]) =>
    el("li", {}, el("span", { class: `swatch ${status}`, "aria-hidden": "true" }), el("b", {}, count(n)), ` ${STATUS[status]}`)));
  if (unchecked) list.append(el("li", {}, el("span", { class: "swatch none" }), el("b", {}, count(unchecked)), " not comparable"));
  return list;
}

function details(title, items) {
  return items.length ? el("section", { class: "aside" }, el("h3", {}, title), el("ul", {}, items.map((item) => el("li", {}, item)))) : "";
}

function story() {
  if (!verdict) return;
  const section = document.getElementById("story");
  section.hidden = false;
  const first = verdict.first_wrong;
  const rounding = ROUNDING[verdict.rounding] ?? `activations rounded to 8 bits in blocks of ${verdict.rounding.blocks}`;
  const opener = (key) => el("button", { type: "button", class: "link", onclick: () => open(key, { reveal: true }) }, spoken(key));
  const unexplained = Object.entries(verdict.unexplained).slice(0, 24);
  const more = Object.keys(verdict.unexplained).length - unexplained.length;
  const unplaced = verdict.unplaced.map((key) => el("code", {}, key));
  const left = verdict.unplaced_count - unplaced.length;
  section.append(
    el("div", { class: `verdict ${verdict.outcome}` },
      el("h2", { id: "verdict" }, HEADLINES[verdict.outcome]),
      first ? el("p", {}, "The first value that does not follow from the suspect's own inputs is ", opener(first), ".") : "",
      counts(),
      el("p", { class: "note" }, `Compared with ${verdict.oracle}; ${rounding}.`)),
    ...verdict.findings.map(finding),
    details("Not explained by any known fault", [
      ...unexplained.map(([key, lines]) => [opener(key), lines.length ? `: ${lines.join("; ")}` : ": nothing more can be said of it"]),
      more > 0 ? `and ${several(more, "more value")}` : null].filter(Boolean)),
    details("What would decide more", verdict.advice.map(sentence)),
    details("Values that the model has no name for", unplaced.length
      ? [[...unplaced.flatMap((name, at) => [at ? ", " : "", name]), left > 0 ? ` and ${count(left)} more` : ""]] : []));
}
