// The map: a line per operation, a column per layer.
const FLOOR = 1e-9;
const cells = new Map();
let grid = [];

const rms = data.places.map((place) => place.got.rms).filter((x) => x > 0);
const rmsLow = rms.length ? Math.min(...rms) : 1;
const rmsHigh = Math.max(rms.length ? Math.max(...rms) : 1, rmsLow * 1.0001);

/** What a cell looks like: a class for its hue, and how far along the hue's ramp it is. */
function look(place) {
  if (!place) return ["none", 0];
  if (!verdict) return place.got.nan + place.got.inf ? ["broken", 0] : ["plain", share(place.got.rms, rmsLow, rmsHigh)];
  if (!place.check) return ["none", 0];
  const { status, gate } = place.check;
  const relative = place.check.residual.relative;
  if (status === "right") return [status, share(relative, FLOOR, gate.pass)];
  if (status === "suspicious") return [status, share(relative, gate.pass, gate.wrong)];
  if (status === "wrong") return [status, share(relative, gate.wrong, 2)];
  return [status, 0];
}

function described(key, place) {
  if (!place) return `${spoken(key)}: no data`;
  if (!verdict) {
    const broken = place.got.nan + place.got.inf;
    return `${spoken(key)}: root mean square ${number(place.got.rms)}${broken ? `, ${several(broken, "element")} NaN or infinite` : ""}`;
  }
  if (!place.check) return `${spoken(key)}: not comparable`;
  const first = key === verdict.first_wrong ? ", the first wrong one" : "";
  return `${spoken(key)}: ${STATUS[place.check.status]}${first}, residual ${residual(place.check.residual.relative)}`;
}

function cell(line, layer, span) {
  const key = line.layered ? `${line.name}-${layer}` : line.name;
  const place = places.get(key);
  const [hue, shade] = look(place);
  const node = el("div", {
    role: "gridcell", class: `cell ${hue}${key === verdict?.first_wrong ? " first" : ""}`, title: described(key, place),
    "aria-label": described(key, place), "aria-colspan": span ? data.layers : undefined, "aria-selected": "false", tabindex: "-1", "data-key": key,
  });
  node.style.setProperty("--shade", `${Math.round(shade * 100)}%`);
  node.style.gridColumn = span ? `2 / span ${Math.max(data.layers, 1)}` : String(layer + 2);
  cells.set(key, node);
  return node;
}

function map() {
  const columns = Math.max(data.layers, 1);
  const root = el("div", { role: "grid", class: "map", "aria-label": "Values by operation and layer", "aria-rowcount": data.lines.length + 1 });
  root.style.gridTemplateColumns = `max-content repeat(${columns}, minmax(var(--cell), 4.5rem))`;
  const every = columns > 48 ? 8 : columns > 24 ? 4 : columns > 16 ? 2 : 1;
  const head = el("div", { role: "row", class: "line" }, el("div", { role: "columnheader", class: "corner" }, "layer"));
  for (let layer = 0; layer < columns; layer += 1) {
    head.append(el("div", { role: "columnheader", class: "layer", "aria-label": `layer ${layer}` }, layer % every ? "" : String(layer)));
  }
  root.append(head);
  for (const line of data.lines) {
    const row = el("div", { role: "row", class: "line" },
      el("div", { role: "rowheader", class: "name" }, el("code", {}, line.name), el("span", { class: "op" }, line.operation)));
    const line_cells = line.layered ? Array.from({ length: columns }, (_, layer) => cell(line, layer, false)) : [cell(line, 0, true)];
    row.append(...line_cells);
    grid.push(line_cells);
    root.append(row);
  }
  root.addEventListener("click", (event) => {
    const key = event.target.closest(".cell")?.dataset.key;
    if (key) open(key);
  });
  root.addEventListener("keydown", move);
  document.getElementById("map").append(root);
}

/** Arrow keys, Home and End between cells; Enter and Space open one. */
function move(event) {
  const from = event.target.closest(".cell");
  if (!from) return;
  const row = grid.findIndex((line) => line.includes(from));
  const col = grid[row].indexOf(from);
  const at = (line, index) => grid[line]?.[Math.min(index, grid[line].length - 1)];
  const column = grid[row].length === 1 ? lastColumn : col;
  const to = {
    ArrowRight: () => grid[row][col + 1],
    ArrowLeft: () => grid[row][col - 1],
    ArrowDown: () => at(row + 1, column),
    ArrowUp: () => at(row - 1, column),
    Home: () => grid[row][0],
    End: () => grid[row].at(-1),
  }[event.key];
  if (event.key === "Enter" || event.key === " ") open(from.dataset.key);
  else if (to) focusCell(to() ?? from);
  else return;
  event.preventDefault();
}

let lastColumn = 0;

/** One cell is reached with Tab: the one that was focused last. */
function focusCell(node) {
  reachable(node);
  node.focus();
}

function reachable(node) {
  for (const other of cells.values()) other.tabIndex = -1;
  node.tabIndex = 0;
  const line = grid.find((line) => line.includes(node));
  if (line.length > 1) lastColumn = line.indexOf(node);
}

function legend() {
  const root = document.getElementById("legend");
  const ramp = (hue, name, text) => el("div", { class: "legend-item" },
    el("span", { class: `ramp ${hue}`, "aria-hidden": "true" }), el("span", {}, el("b", {}, name), el("span", { class: "legend-text" }, text)));
  const title = document.getElementById("map-title");
  const note = document.getElementById("map-note");
  if (!verdict) {
    title.textContent = "Values by operation and layer";
    note.textContent = "The colour is the root mean square of a value, on a log scale.";
    root.append(ramp("plain", "root mean square", `${number(rmsLow, 2)} to ${number(rmsHigh, 2)}`));
    if (data.places.some((place) => place.got.nan + place.got.inf)) root.append(ramp("broken", "NaN or infinite", "some elements are"));
    root.append(ramp("none", "no data", "not in the trace"));
    return;
  }
  title.textContent = "Where it goes wrong";
  if (verdict.outcome === "healthy" || verdict.outcome === "harmless") title.textContent = "How close every value is";
  note.textContent = "Each value was computed again from the suspect's own inputs. The residual is the length of the difference over the length of the expected value. Gates depend on the operation; colours run on a log scale within each verdict.";
  const gates = data.places.filter((place) => place.check).map((place) => place.check.gate);
  const span = (pick) => {
    const all = gates.map(pick);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return low === high ? number(low, 2) : `${number(low, 2)} – ${number(high, 2)}`;
  };
  const shown = new Set(data.places.map((place) => look(place)[0]));
  if (gates.length) {
    root.append(ramp("right", "right", `up to its gate, ${span((gate) => gate.pass)}`),
      ramp("suspicious", "suspicious", "between the two gates"),
      ramp("wrong", "wrong", `from its gate, ${span((gate) => gate.wrong)}, on`));
  }
  if (shown.has("unreadable")) root.append(ramp("unreadable", "too few digits", "in the dump to tell"));
  root.append(ramp("none", "no data", "not in the trace"));
  if (verdict.first_wrong) root.append(ramp("wrong first", "first wrong", "in the order of computation"));
}
