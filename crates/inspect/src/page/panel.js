// What is known of one value.
const OPERATIONS = {
  get_rows: "rows of a table, by token",
  rms_norm: "RMS norm",
  mul_mat: "matrix product",
  add: "sum",
  rope: "rotation by position",
  kq: "queries times keys",
  soft_max: "scale, mask and softmax",
  kqv: "values weighted by attention",
  silu: "activation",
  mul: "product element by element",
};

/** Whether the panel stands below the map rather than beside it. */
function isBelow() {
  const bottom = document.getElementById("map-section").getBoundingClientRect().bottom;
  return document.getElementById("panel").getBoundingClientRect().top >= bottom;
}

/** A map that does not fit beside the panel takes the whole width. */
function arrange() {
  const work = document.getElementById("work"), scroll = document.getElementById("map");
  work.classList.remove("deep");
  work.classList.toggle("deep", scroll.scrollWidth > scroll.clientWidth);
}

let opened = null;
let chosenRow = null;

/** Opens a value, at a reader's wish or to begin with; `reveal` brings its cell into sight too. */
function open(key, { reveal = false, user = true } = {}) {
  const node = cells.get(key);
  if (!node) return;
  if (opened) cells.get(opened)?.setAttribute("aria-selected", "false");
  opened = key;
  chosenRow = null;
  node.setAttribute("aria-selected", "true");
  reachable(node);
  draw();
  document.getElementById("announce").textContent = described(key, places.get(key));
  if (reveal) node.scrollIntoView({ block: "nearest", inline: "center" });
  // Where the panel stands below the map, it would open out of sight.
  if (user && isBelow()) document.getElementById("panel").scrollIntoView({ block: "start" });
}

/** Back from the panel to the map, where the panel stands below it. */
function back() {
  const node = cells.get(opened);
  document.getElementById("map-section").scrollIntoView({ block: "start" });
  node.scrollIntoView({ block: "nearest", inline: "center" });
  focusCell(node);
}

function draw() {
  const panel = document.getElementById("panel");
  const place = places.get(opened);
  const { name, layer } = layerOf(opened);
  const status = place?.check?.status;
  panel.replaceChildren(
    el("div", { class: "panel-head" },
      el("h2", { id: "panel-title" }, el("code", {}, name), layer === null ? "" : el("span", { class: "at" }, ` layer ${layer}`)),
      status ? el("span", { class: `badge ${status}`, id: "panel-status" }, STATUS[status]) : "",
      opened === verdict?.first_wrong ? el("span", { class: "badge first" }, "first wrong") : "",
      el("button", { type: "button", class: "link back", onclick: back }, "back to the map")));
  if (!place) {
    panel.append(el("p", { class: "note" }, "The trace does not hold this value."));
    return;
  }
  const facts = el("div", { class: "part facts-part" }), charts = el("div", { class: "part charts-part" });
  panel.append(el("p", { class: "note" }, origin(place)),
    el("div", { class: "panel-body" }, facts, charts, el("div", { class: "part values-part" }, values(place))));
  // Charts are drawn at the width that their place has by now.
  const room = (part) => Math.max(part.clientWidth, 200);
  if (place.check) facts.append(verdictPart(place, room(facts)));
  facts.append(statistics(place));
  charts.append(...chartsOf(place, room(charts)));
}

function chartsOf(place, width) {
  const what = place.check ? "Residual" : "Root mean square";
  const { count: all, prompt } = data.tokens;
  const parts = [];
  if (place.histogram) {
    parts.push(el("h3", {}, "Histogram"), key(place.want), histogramChart(place, width),
      el("p", { class: "note" }, "Counts on a log scale", place.histogram.open.some(Boolean) ? "; the outermost bins hold what lies further out." : "."));
  }
  parts.push(el("h3", {}, `${what} by token`), barChart(place, place.by_row, width, "token", prompt < all ? prompt : 0));
  if (place.by_row.group > 1) parts.push(el("p", { class: "note" }, `Each bar is the largest of ${place.by_row.group} tokens.`));
  if (place.by_head) parts.push(el("h3", {}, `${what} by head`), barChart(place, place.by_head, width, "head", 0));
  if (place.check) parts.push(el("p", { class: "note" }, "Dashed lines are the gates: right below the lower one, wrong above the upper one."));
  return parts.filter((part) => part !== "");
}

function origin(place) {
  const parts = [el("b", {}, place.operation), ` (${OPERATIONS[place.operation] ?? "operation"})`];
  if (place.weight) parts.push(" with ", el("code", {}, place.weight));
  const names = (keys) => keys.flatMap((key, at) => [at ? ", " : "", el("code", { class: "whole" }, key)]);
  if (place.inputs.length) parts.push(" of ", ...names(place.inputs));
  parts.push(". ");
  if (place.check) {
    parts.push("Computed again from ", ...(place.check.from.length ? ["the suspect's ", ...names(place.check.from)] : ["the token ids alone"]), ".");
  }
  return parts.flat();
}

function verdictPart(place, width) {
  const { residual: found, gate } = place.check;
  const broken = found.relative === null;
  const text = broken
    ? ["NaN or infinite elements stand where numbers are expected, or the other way round."]
    : [el("b", {}, `Residual ${residual(found.relative)}`), `; right up to ${number(gate.pass, 2)}, wrong from ${number(gate.wrong, 2)} on.`];
  return el("div", { class: "gates" }, el("p", {}, ...text), gateChart(place, width));
}

function key(want) {
  const item = (kind, text) => el("span", { class: "key-item" }, el("span", { class: `key-mark ${kind}`, "aria-hidden": "true" }), text);
  return want ? el("p", { class: "key" }, item("got", "suspect"), item("want", "expected")) : "";
}

function statistics(place) {
  const { got, want } = place;
  const rows = [["rms", "rms", "root mean square"], ["mean", "mean", ""], ["min", "min", ""], ["max", "max", ""],
    ["zeros", "zeros", "elements that are exactly 0"], ["nan", "NaN", ""], ["inf", "infinite", ""]];
  const counted = (field) => ["zeros", "nan", "inf"].includes(field);
  const finite = (side) => side.count > side.nan + side.inf;
  const show = (side, field) => (counted(field) ? count(side[field]) : finite(side) ? number(side[field]) : "–");
  const differs = (field) => want && counted(field) && got[field] !== want[field];
  const head = want ? el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, "suspect"), el("th", { scope: "col" }, "expected"))) : "";
  const body = rows.map(([field, name, title]) => el("tr", { class: differs(field) ? "differs" : undefined },
    el("th", { scope: "row", title: title || undefined }, name), el("td", {}, show(got, field)), want ? el("td", {}, show(want, field)) : ""));
  const found = place.check?.residual;
  const all = data.tokens.count * place.width;
  const ofAll = (n) => (n === all ? "all of them" : `of ${count(all)}${masked(place) ? ", without what is masked" : ""}`);
  const extra = found ? [
    ["cosine", number(found.cosine, 6), "1 is the same direction"],
    ["length ratio", number(found.ratio, 5), "suspect's over expected"],
    ["compared", several(found.elements, "element"), ofAll(found.elements)],
  ] : [["known", several(got.count, "element"), ofAll(got.count)]];
  const worst = differsAnywhere(place) ? worstPlace(place) : null;
  return el("div", { class: "statistics" },
    el("table", { class: "numbers" }, head, el("tbody", {}, body)),
    el("dl", { class: "facts-small" }, extra.map(([term, text, note]) => el("div", {}, el("dt", {}, term), el("dd", {}, text, el("span", { class: "aside-note" }, note)))),
      worst ? el("div", {}, el("dt", {}, "largest difference"), el("dd", {}, ...worst)) : ""));
}

/** Whether there is a largest difference to speak of. */
function differsAnywhere(place) {
  return Boolean(place.check && place.worst && place.check.residual.relative !== 0);
}

function worstPlace(place) {
  const [row, col, pair] = place.worst;
  const [got, want] = floats(pair);
  return [`${number(got)} for ${number(want)}`, el("span", { class: "aside-note" }, `${token(row)}, element ${col}${headOf(place, col)}`)];
}

/** Whether the causal mask hides a part of the value. */
function masked(place) {
  return place.operation === "kq";
}

/** Where an element is among heads. */
function headOf(place, col) {
  if (place.heads < 2) return "";
  const each = Math.floor(place.width / place.heads);
  return ` (head ${Math.floor(col / each)}, ${col % each})`;
}

/** Elements of a row, suspect's and expected side by side. */
function values(place) {
  const worst = differsAnywhere(place) ? place.worst[0] : null;
  const at = place.sample.findIndex((row) => row.row === (chosenRow ?? worst));
  const row = place.sample[Math.max(at, 0)];
  if (!row) return "";
  const part = (index) => (index < data.tokens.prompt ? "" : ", decoded");
  const select = el("select", { id: "row", onchange: (event) => {
    chosenRow = Number(event.target.value);
    document.getElementById("values").replaceWith(values(place));
    document.getElementById("row").focus();
  } }, place.sample.map(({ row: index }) => el("option", { value: index, selected: index === row.row },
    `${token(index)}${part(index)}${index === worst ? " (largest difference)" : ""}`)));
  const got = floats(row.got), want = row.want ? floats(row.want) : null;
  const cols = row.cols ?? Array.from(got, (_, index) => index);
  const scale = place.want ? place.want.rms : 0;
  const off = (index) => want && !(Math.abs(got[index] - want[index]) <= Math.max(place.check?.gate.wrong ?? 0, 1e-6) * scale) && !Object.is(got[index], want[index]);
  const each = Math.max(Math.floor(place.width / place.heads), 1);
  const lines = cols.map((col, index) => el("tr", {}, el("th", { scope: "row" }, place.heads > 1 ? `${Math.floor(col / each)} : ${col % each}` : String(col)),
    el("td", {}, number(got[index], 5)), want ? el("td", {}, number(want[index], 5)) : "", want ? el("td", { class: off(index) ? "off" : undefined }, number(got[index] - want[index], 2)) : ""));
  const name = place.heads > 1 ? (["kq", "soft_max"].includes(place.operation) ? "head : position" : "head : element") : "element";
  const columns = want ? [name, "suspect", "expected", "difference"] : [name, "value"];
  const left = place.known_rows - place.sample.length;
  const note = [
    masked(place) ? `The first ${several(got.length, "element")} that the mask leaves.` : row.cols ? `The ${several(got.length, "element")} that the dump has of this row.` : `The first ${got.length} of ${several(place.width, "element")}.`,
    left > 0 ? ` ${several(left, "more row")} ${left === 1 ? "is" : "are"} left out of this page.` : "",
    place.exact ? "" : " The dump prints few digits.",
    want ? " Differences beyond the gate are marked." : "",
  ].join("");
  return el("div", { id: "values" }, el("h3", {}, "Elements"),
    el("p", { class: "row-choice" }, el("label", { for: "row" }, "Row"), select),
    el("div", { class: "values-scroll", tabindex: "0", role: "region", "aria-label": "Elements of the row" },
      el("table", { class: "numbers values" }, el("thead", {}, el("tr", {}, columns.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, lines))),
    el("p", { class: "note" }, note));
}
