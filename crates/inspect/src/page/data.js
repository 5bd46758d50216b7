// What the page holds, decoded, and how numbers read.
const data = JSON.parse(document.getElementById("data").textContent);
const verdict = data.verdict;
const places = new Map(data.places.map((place) => [place.key, place]));
const STATUS = {
  right: "right",
  suspicious: "suspicious",
  wrong: "wrong",
  unreadable: "too few digits",
};

/** An element with properties, attributes and children. Text is always text. */
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/** Floats from base64. */
function floats(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, at) => view.getFloat32(at * 4, true));
}

const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** 10⁻⁴ */
function power(exponent) {
  return exponent === 0 ? "1" : exponent === 1 ? "10" : "10" + [...String(exponent)].map((c) => SUPERSCRIPT[c]).join("");
}

/** A number with few digits: 0.01234, 1.2 × 10⁻⁵. */
function number(x, digits = 4) {
  if (x === null) return "∞";
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e-3 && size < 1e5) {
    return trimmed(x.toPrecision(digits)).replace("-", "−");
  }
  const [mantissa, exponent] = x.toExponential(Math.max(digits - 2, 0)).split("e");
  return `${mantissa.replace("-", "−")}\u00a0×\u00a0${power(Number(exponent))}`;
}

function trimmed(text) {
  const plain = text.includes("e") ? String(Number(text)) : text;
  return plain.includes(".") ? plain.replace(/\.?0+$/, "") : plain;
}

/** A residual: two digits. */
const residual = (x) => (x === 0 ? "0 (equal)" : number(x, 2));

/** Counts with thin spaces. */
const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** "1 value", "2 values". */
const several = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;

function layerOf(key) {
  const match = /^(.*)-(\d+)$/.exec(key);
  return match ? { name: match[1], layer: Number(match[2]) } : { name: key, layer: null };
}

/** "Qcur in layer 0". */
function spoken(key) {
  const { name, layer } = layerOf(key);
  return layer === null ? name : `${name} in layer ${layer}`;
}

/** What a token is called: its index, and its text where that is known. */
function token(index) {
  const piece = data.tokens.pieces?.[index];
  return piece === undefined || piece === null ? `token ${index}` : `token ${index} ${JSON.stringify(piece)}`;
}

/** The logarithm's share of the way from `low` to `high`, from 0 to 1. */
function share(x, low, high) {
  if (x === null || x === Infinity) return 1;
  if (!(x > 0)) return 0;
  return Math.min(Math.max(Math.log(x / low) / Math.log(high / low), 0), 1);
}
