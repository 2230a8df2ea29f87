"use strict";
// Draws lines over axes, for all pages.

const svgSpace = "http://www.w3.org/2000/svg";

// node makes an element. Texts are never parsed as HTML: reasons and labels come from strangers.
function node(space, tag, attributes, children) {
  const e = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== null && value !== false) e.setAttribute(name, value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined) e.append(child);
  }
  return e;
}
const h = (tag, attributes, ...children) => node(null, tag, attributes, children);
const g = (tag, attributes, ...children) => node(svgSpace, tag, attributes, children);

const whole = new Intl.NumberFormat("en");
const count = (n) => whole.format(n);
const frame = { width: 560, height: 210, left: 46, right: 22, top: 12, bottom: 30 };

// ticks are round values from 0 or from low to high, at least so far from each other.
function ticks(low, high, about, least = 0) {
  const span = high - low || 1;
  const raw = span / about,
    magnitude = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((m) => m * magnitude).find((s) => s >= raw && s >= least) || least;
  const list = [];
  for (let n = Math.ceil(low / step), v = n * step; v <= high + step * 1e-9; v = ++n * step) list.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return list;
}
const short = (v) => (Math.abs(v) >= 1000 ? count(v) : String(Number(v.toPrecision(3))));

// decades are 1, 2 and 5 times powers of ten, or the powers alone if there are many, from below low to above high.
function decades(low, high) {
  const from = Math.floor(Math.log10(low)),
    to = Math.ceil(Math.log10(high)),
    list = [];
  const step = Math.max(1, Math.ceil((to - from) / 6));
  for (let e = from; e < to + step; e += step) list.push(...(to - from > 3 ? [1] : [1, 2, 5]).map((m) => m * 10 ** e));
  const first = list.findLastIndex((v) => v <= low * (1 + 1e-9)),
    last = list.findIndex((v) => v >= high * (1 - 1e-9));
  return list.slice(Math.max(0, first), last < 0 ? list.length : Math.max(last, first + 1) + 1);
}

// plot draws series over numbers: [{name, kind, points: [[x, y]]}]. Of size, unit makes both axes go from 0 to 1, with their diagonal, and
// log makes the y axis logarithmic if the values differ much. more.below and more.above draw what the caller adds, given the scales.
function plot(title, description, xName, series, size, more) {
  const f = { ...frame, ...size };
  const all = series.flatMap((s) => s.points);
  if (!all.length) return h("p", { class: "muted empty" }, "No measurements yet.");
  let xLow = Infinity,
    xHigh = -Infinity,
    yLow = Infinity,
    yHigh = 0;
  for (const [x, y] of all) {
    xLow = Math.min(xLow, x);
    xHigh = Math.max(xHigh, x);
    yLow = Math.min(yLow, y);
    yHigh = Math.max(yHigh, y);
  }
  if (xLow === xHigh) {
    xLow -= 0.5;
    xHigh += 0.5;
  }
  const log = f.log && !f.unit && yLow > 0 && yHigh > 20 * yLow;
  if (f.unit) {
    xLow = 0;
    xHigh = yHigh = 1;
  } else if (!log) yHigh = yHigh * 1.08 || 1;
  const ys = log ? decades(yLow, yHigh) : ticks(0, yHigh, 5);
  if (log) {
    yLow = ys[0];
    yHigh = ys[ys.length - 1];
  }
  const part = log ? (v) => Math.log10(v / yLow) / Math.log10(yHigh / yLow) : (v) => v / yHigh;
  const x = (v) => f.left + ((v - xLow) / (xHigh - xLow)) * (f.width - f.left - f.right);
  const y = (v) => f.height - f.bottom - part(v) * (f.height - f.top - f.bottom);
  const svg = g(
    "svg",
    { viewBox: `0 0 ${f.width} ${f.height}`, role: "img" },
    g("title", {}, title),
    g("desc", {}, description + (log ? " The y axis is logarithmic." : "")),
  );
  if (more && more.below) svg.append(...more.below(x, y, f));
  for (const v of ys) {
    svg.append(
      g("path", { class: "grid", d: `M${f.left} ${y(v)}H${f.width - f.right}` }),
      g("text", { class: "small", x: f.left - 6, y: y(v) + 4, "text-anchor": "end" }, short(v)),
    );
  }
  if (f.unit) svg.append(g("path", { class: "diagonal", d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}` }));
  for (const v of ticks(xLow, xHigh, 6, f.unit ? 0 : 1)) {
    // versions, passes and rows are whole
    svg.append(g("text", { class: "small", x: x(v), y: f.height - f.bottom + 14, "text-anchor": "middle" }, f.unit ? short(v) : count(v)));
  }
  svg.append(g("text", { class: "small", x: f.width - f.right, y: f.height - 3, "text-anchor": "end" }, xName));
  for (const s of series) {
    const d = s.points
      .map(([a, b], i) => (i && !(s.breaks && s.breaks.has(i)) ? "L" : "M") + x(a).toFixed(1) + " " + y(b).toFixed(1))
      .join("");
    svg.append(g("path", { class: "series " + s.kind, d }));
    if (s.points.length <= 80) {
      // a third number of a point is how large it is
      svg.append(g("path", { class: "dots " + s.kind, d: s.points.map(([a, b, r]) => circle(x(a), y(b), r || 2.4)).join("") }));
    }
  }
  if (more && more.above) svg.append(...more.above(x, y, f));
  return svg;
}
const circle = (x, y, r) => `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

// legend names the series that a chart has.
function legend(entries) {
  return h(
    "p",
    { class: "muted legend" },
    ...entries.map(([kind, text, shape]) =>
      h(
        "span",
        {},
        g(
          "svg",
          { viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true" },
          shape ? shape() : g("path", { class: "series " + kind, d: "M1 5H25" }),
        ),
        " " + text,
      ),
    ),
  );
}
