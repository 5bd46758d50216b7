// Charts as SVG, drawn at the width that they have.
const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const LEFT = 44;
const RIGHT = 8;

function chart(width, height, label) {
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

function label(x, y, text, attributes = {}) {
  return svg("text", { x, y, class: "axis", ...attributes }, text);
}

function bar(x, y, width, height, kind, tip) {
  return svg("rect", { x: x.toFixed(2), y: y.toFixed(2), width: Math.max(width, 0.5).toFixed(2), height: Math.max(height, 0).toFixed(2), class: kind },
    svg("title", {}, tip));
}

/** Whole powers of ten between two numbers, not too many. */
function decades(low, high) {
  const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.max(Math.ceil((to - from) / 5), 1);
  const all = [];
  for (let exponent = to; exponent >= from; exponent -= step) all.push(exponent);
  return all;
}

/** Counts of the suspect's and the expected elements over the same bins. */
function histogramChart(place, width) {
  const { low, high, open: [below, above], got, want } = place.histogram;
  const height = 168, top = 10, bottom = 24;
  const root = chart(width, height, `Histogram of elements from ${number(low)} to ${number(high)}`);
  const most = Math.max(...got, ...(want ?? []), 1);
  const tall = (n) => (n ? ((Math.log1p(n) / Math.log1p(most)) * (height - top - bottom - 2)) + 2 : 0);
  const step = (width - LEFT - RIGHT) / got.length;
  const base = height - bottom;
  const marks = [1, ...decades(10, Math.max(most, 10)).map((exponent) => 10 ** exponent)].filter((n) => n <= most);
  if (marks.length < 2 && most > 3) marks.push(most);
  for (const mark of marks) {
    const y = base - tall(mark);
    root.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, class: "grid" }),
      label(LEFT - 6, y + 3.5, count(mark), { "text-anchor": "end" }));
  }
  const edge = (at) => low + ((high - low) * at) / got.length;
  got.forEach((n, at) => {
    const range = `${at === 0 && below ? "below" : number(edge(at), 3) + " to"} ${at === got.length - 1 && above ? "and above" : number(edge(at + 1), 3)}`;
    const tip = `${range}: ${count(n)}${want ? `, expected ${count(want[at])}` : ""}`;
    root.append(bar(LEFT + at * step + 0.5, base - tall(n), step - 1, tall(n), "got", tip));
  });
  if (want) {
    let path = `M${LEFT} ${base}`;
    want.forEach((n, at) => {
      path += `V${(base - tall(n)).toFixed(2)}H${(LEFT + (at + 1) * step).toFixed(2)}`;
    });
    root.append(svg("path", { d: `${path}V${base}`, class: "want" }));
  }
  root.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: base, y2: base, class: "base" }));
  root.append(label(LEFT, height - 8, `${below ? "≤ " : ""}${number(low, 3)}`),
    label((LEFT + width - RIGHT) / 2, height - 8, number((low + high) / 2, 2), { "text-anchor": "middle" }),
    label(width - RIGHT, height - 8, `${above ? "≥ " : ""}${number(high, 3)}`, { "text-anchor": "end" }));
  if (low < 0 && high > 0) {
    const x = LEFT + ((0 - low) / (high - low)) * (width - LEFT - RIGHT);
    root.append(svg("line", { x1: x, x2: x, y1: top, y2: base, class: "zero" }));
  }
  return root;
}

/** The next of 1, 2, 5, 10, 20... */
function round(x) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(x, 1)));
  return [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= x);
}

/** A bar for each token or head: residuals against the gates, or root mean squares. */
function barChart(place, bars, width, what, boundary) {
  const values = floats(bars.values);
  const gate = place.check?.gate;
  const finite = [...values].filter((x) => Number.isFinite(x) && x > 0);
  const residuals = Boolean(verdict && place.check);
  const low = residuals ? Math.min(1e-8, gate.pass / 10) : 10 ** Math.floor(Math.log10(Math.min(...finite, 1)) - 0.5);
  const high = residuals ? Math.max(4, ...finite) : 10 ** Math.ceil(Math.log10(Math.max(...finite, low * 10)));
  const height = 150, top = boundary ? 22 : 12, bottom = 24, base = height - bottom;
  const root = chart(width, height, `${residuals ? "Residual" : "Root mean square"} by ${what}`);
  const y = (x) => base - share(x, low, high) * (base - top);
  for (const exponent of decades(low, high)) {
    const at = y(10 ** exponent);
    root.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: at, y2: at, class: "grid" }),
      label(LEFT - 6, at + 3.5, power(exponent), { "text-anchor": "end" }));
  }
  const step = (width - LEFT - RIGHT) / values.length;
  const wide = Math.min(Math.max(step - Math.min(step * 0.25, 3), 0.6), 40);
  values.forEach((x, at) => {
    if (Number.isNaN(x)) return;
    const kind = !residuals ? "got" : x <= gate.pass ? "right" : x < gate.wrong ? "suspicious" : "wrong";
    const first = at * bars.group;
    const name = bars.group > 1 ? `${what}s ${first} to ${first + bars.group - 1}` : what === "token" ? token(first) : `${what} ${first}`;
    const from = Math.min(y(x), base - 1.5);
    root.append(bar(LEFT + at * step + (step - wide) / 2, from, wide, base - from, kind, `${name}: ${residuals ? residual(x) : number(x)}`));
  });
  if (residuals) {
    for (const [x, kind] of [[gate.pass, "right"], [gate.wrong, "wrong"]]) {
      const across = { x1: LEFT, x2: width - RIGHT, y1: y(x), y2: y(x) };
      root.append(svg("line", { ...across, class: "halo" }), svg("line", { ...across, class: `gate ${kind}` }));
    }
  }
  root.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: base, y2: base, class: "base" }));
  const every = round(values.length / ((width - LEFT) / 34));
  for (let at = 0; at < values.length; at += every) {
    root.append(label(LEFT + (at + 0.5) * step, height - 8, String(at * bars.group), { "text-anchor": "middle" }));
  }
  if (boundary && boundary < values.length * bars.group) {
    const x = LEFT + (boundary / bars.group) * step;
    root.append(svg("line", { x1: x, x2: x, y1: 4, y2: base, class: "boundary" }));
    const room = width - RIGHT - x;
    root.append(label(x - 5, 13, "prompt", { "text-anchor": "end" }));
    if (room > 50) root.append(label(x + 5, 13, "decoded"));
  }
  return root;
}

/** Where a residual is between the gates. */
function gateChart(place, width) {
  const { gate, residual: { relative }, status } = place.check;
  const low = 1e-9, high = 4, height = 50, left = 8, right = 8, top = 16, thick = 10;
  const x = (value) => left + share(value, low, high) * (width - left - right);
  const root = chart(width, height, `Residual ${residual(relative)}: right up to ${number(gate.pass, 2)}, wrong from ${number(gate.wrong, 2)}`);
  const zone = (from, to, kind) => root.append(svg("rect", { x: from, y: top, width: Math.max(to - from, 0), height: thick, class: `zone ${kind}` }));
  zone(left, x(gate.pass), "right");
  zone(x(gate.pass), x(gate.wrong), "suspicious");
  zone(x(gate.wrong), width - right, "wrong");
  for (const exponent of decades(low, high)) {
    root.append(svg("line", { x1: x(10 ** exponent), x2: x(10 ** exponent), y1: top + thick, y2: top + thick + 4, class: "base" }),
      label(x(10 ** exponent), height - 8, power(exponent), { "text-anchor": "middle" }));
  }
  const at = x(relative);
  root.append(svg("path", { d: `M${at} ${top + 2}l-5.5 -9h11z`, class: `marker ${status}` }),
    svg("line", { x1: at, x2: at, y1: top, y2: top + thick, class: "needle" }));
  return root;
}
