"use strict";
// Draws what the server sends: a section at a time, when it has changed, and at most once a frame.

const byId = (id) => document.getElementById(id);
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
const plural = (n, what) => count(n) + " " + what + (n === 1 ? "" : "s");
const missing = "–";
const percent = (v) => (v === null || v === undefined ? missing : v.toFixed(2));
const measured = (v) => (v === null || v === undefined ? missing : Math.abs(v) >= 1e4 ? v.toExponential(2) : v.toPrecision(4));
const perSecond = (v) => (v === 0 ? "0" : v < 10 ? v.toFixed(1) : count(Math.round(v)));

// ago says how long ago a time was. The browser and those who wrote messages may have different clocks.
function ago(at) {
  const seconds = Math.max(0, (Date.now() - at) / 1000);
  if (seconds < 60) return "less than a minute ago";
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= 2 * size || unit === "minute") return plural(Math.floor(seconds / size), unit) + " ago";
  }
}
// time is a time that stays right: see tick.
function time(at) {
  if (!at) return document.createTextNode(missing);
  return h("time", { datetime: new Date(at).toISOString(), "data-at": at, title: new Date(at).toLocaleString() }, ago(at));
}
function tick() {
  for (const e of document.querySelectorAll("time[data-at]")) {
    const text = ago(Number(e.dataset.at));
    if (e.textContent !== text) e.textContent = text;
  }
}

// Charts

const frame = { width: 560, height: 210, left: 46, right: 22, top: 12, bottom: 30 };

// widthOf is how wide a chart may be: its texts are then as large as others.
const widthOf = (id) => Math.max(300, Math.min(1120, byId(id).clientWidth || 560));

// ticks are round values from 0 or from low to high.
function ticks(low, high, about) {
  const span = high - low || 1;
  const raw = span / about, magnitude = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((m) => m * magnitude).find((s) => s >= raw);
  const list = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) list.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return list;
}
const short = (v) => (Math.abs(v) >= 1000 ? count(v) : String(Number(v.toPrecision(3))));

// plot draws series over numbers: [{name, kind, points: [[x, y]]}]. bands and marks are drawn by the caller, given the scales.
function plot(title, description, xName, series, size, more) {
  const f = { ...frame, ...size };
  const all = series.flatMap((s) => s.points);
  if (!all.length) return h("p", { class: "muted empty" }, "Nothing is measured yet.");
  let xLow = Infinity, xHigh = -Infinity, yHigh = 0;
  for (const [x, y] of all) {
    xLow = Math.min(xLow, x); xHigh = Math.max(xHigh, x); yHigh = Math.max(yHigh, y);
  }
  if (xLow === xHigh) { xLow -= 0.5; xHigh += 0.5; }
  yHigh = yHigh * 1.08 || 1;
  const x = (v) => f.left + ((v - xLow) / (xHigh - xLow)) * (f.width - f.left - f.right);
  const y = (v) => f.height - f.bottom - (v / yHigh) * (f.height - f.top - f.bottom);
  const svg = g("svg", { viewBox: `0 0 ${f.width} ${f.height}`, role: "img" }, g("title", {}, title), g("desc", {}, description));
  if (more && more.below) svg.append(...more.below(x, y, f));
  for (const v of ticks(0, yHigh, 4)) {
    svg.append(g("path", { class: "grid", d: `M${f.left} ${y(v)}H${f.width - f.right}` }), g("text", { class: "small", x: f.left - 6, y: y(v) + 4, "text-anchor": "end" }, short(v)));
  }
  if (!more || !more.ownAxis) {
    for (const v of ticks(xLow, xHigh, 6).filter((v) => Number.isInteger(v))) {
      svg.append(g("text", { class: "small", x: x(v), y: f.height - f.bottom + 14, "text-anchor": "middle" }, count(v)));
    }
    svg.append(g("text", { class: "small", x: f.width - f.right, y: f.height - 3, "text-anchor": "end" }, xName));
  }
  for (const s of series) {
    const d = s.points.map(([a, b], i) => (i && !(s.breaks && s.breaks.has(i)) ? "L" : "M") + x(a).toFixed(1) + " " + y(b).toFixed(1)).join("");
    svg.append(g("path", { class: "series " + s.kind, d }));
    if (s.points.length <= 80) {
      svg.append(g("path", { class: "dots " + s.kind, d: s.points.map(([a, b]) => circle(x(a), y(b), 2.4)).join("") }));
    }
  }
  if (more && more.above) svg.append(...more.above(x, y, f));
  return svg;
}
const circle = (x, y, r) => `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

// legend names the series that a chart has.
function legend(entries) {
  return h("p", { class: "muted legend" }, ...entries.map(([kind, text, shape]) => h("span", {},
    g("svg", { viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true" }, shape ? shape() : g("path", { class: "series " + kind, d: "M1 5H25" })), " " + text)));
}
const crossAt = (x, y, r) => `M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`;
const triangleAt = (x, y, r) => `M${x - r} ${y - r}h${2 * r}l${-r} ${1.7 * r}z`;

// Sections

const state = {};
const draw = {
  summary(s) {
    byId("pipeline").textContent = s.pipeline || byId("pipeline").textContent;
    byId("brokers").textContent = s.brokers || byId("brokers").textContent;
    const verdict = byId("verdict");
    if (verdict.textContent !== s.verdict) tell(s.verdict);
    verdict.textContent = s.verdict;
    verdict.dataset.level = s.level;
    byId("needs").replaceChildren(...s.needs.map((n) => h("li", { "data-level": n.level }, h("a", { href: "#" + n.about }, n.text))));
    byId("facts").replaceChildren(...s.facts.map((f) => h("div", {}, h("dt", {}, h("a", { href: "#" + f.about }, f.question)),
      h("dd", {}, h("strong", {}, f.answer), h("span", {}, [f.detail, f.when].filter(Boolean).join(", "), f.since ? " " : "", f.since ? time(f.since) : "")))));
  },
  topics(list) {
    byId("topics").replaceChildren(...list.map((t) => h("tr", {}, h("th", { scope: "row" }, t.role), cell(t.partitions || "none"), cell(count(t.held)),
      cell(perSecond(t.rate)), cell(t.lag === null ? missing : count(t.lag)), h("td", {}, t.lag === null ? "" : t.behind))));
    byId("flow-picture").replaceChildren(flow(list));
  },
  run(r) {
    const words = byId("run-words");
    if (!r) {
      words.textContent = "No run is known.";
      return;
    }
    const kind = { full: "full run", update: "update", train: "run" }[r.kind] || r.kind;
    const going = r.state === "waiting" || r.state === "running";
    words.replaceChildren(`The ${kind} `, h("code", {}, r.id), r.number ? `, number ${r.number} of its chain,` : "", " is ",
      h("span", { class: r.state === "failed" ? "trouble" : r.state === "cancelled" ? "notice" : going ? "" : "good" }, r.state), r.reason ? ": " + r.reason : "",
      going && r.waits ? ", and waits " + r.waits : "", ". ", r.queued ? plural(r.queued, "run") + " wait behind it: " + r.queue.join(", ") + (r.queued > r.queue.length ? " …" : "") + "." : "");
    const visit = byId("visit");
    if (going && r.stage < r.stages.length) {
      const what = r.sealing ? "residuals" : r.stage < 0 ? "survey" : `visit ${r.visit} of stage ${r.stage}`;
      visit.replaceChildren(h("label", { for: "visit-bar" }, `Partitions whose part of the ${what} is published: ${count(r.have)} of ${count(r.of)}` +
        (r.missing.length && r.have ? "; missing: " + r.missing.join(", ") + (r.of - r.have > r.missing.length ? " …" : "") : "")), h("progress", { id: "visit-bar", max: Math.max(r.of, 1), value: r.have }));
    } else {
      visit.replaceChildren();
    }
    drawStages(r);
  },
  versions() { drawVersions(); drawErrors(); },
  quality(q) { drawQuality(q); },
  staff(s) { drawStaff(s); },
  quarantine(q) {
    byId("quarantine-words").textContent = q.held ? `${plural(q.held, "message")} could not be used, and ${q.held === 1 ? "is" : "are"} kept with the reason.` : "Nothing is in quarantine.";
    byId("quarantine-tables").hidden = !q.recent.length;
    byId("reasons").replaceChildren(...q.reasons.map((r) => h("tr", {}, cell(count(r.messages)), h("td", {}, time(r.last)), h("td", { class: "wraps" }, r.reason))));
    byId("bad").replaceChildren(...q.recent.map((m) => h("tr", {}, h("th", { scope: "row" }, `${m.topic}[${m.partition}]@${m.offset}`), h("td", {}, time(m.at)), cell(count(m.bytes)), h("td", { class: "wraps" }, m.reason))));
  },
};
const cell = (text) => h("td", { class: "number" }, String(text));

function tell(text) {
  if (byId("news").textContent !== text) byId("news").textContent = text;
}

// flow draws how messages go from topic to topic.
function flow(list) {
  const of = Object.fromEntries(list.map((t) => [t.role, t]));
  const svg = g("svg", { viewBox: "0 0 980 262", role: "img", "aria-labelledby": "flow-name flow-desc" }, g("title", { id: "flow-name" }, "The flow of messages"),
    g("desc", { id: "flow-desc" }, "Examples go to workers, statistics from workers to the solver, weights back to the workers; residuals from a stage to the next; versions to subscribers. " +
      list.filter((t) => t.partitions).map((t) => `${t.role}: ${perSecond(t.rate)} a second` + (t.lag ? `, ${count(t.lag)} ${t.behind}` : "")).join("; ") + "."),
    g("defs", {}, g("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse" }, g("path", { class: "head", d: "M0 0L8 4L0 8z" }))));
  const arrow = (d) => svg.append(g("path", { class: "arrow", d, "marker-end": "url(#arrow)" }));
  arrow("M176 61H238"); arrow("M338 61H400"); arrow("M576 61H638"); arrow("M738 61H800");
  arrow("M688 96V139H580"); arrow("M400 139H312V98"); arrow("M264 98V177"); arrow("M278 177V98"); arrow("M238 82H206V139H90V177");
  const role = (x, y, name, what) => svg.append(g("rect", { class: "role", x, y, width: 100, height: 68, rx: 34 }), g("text", { class: "strong", x: x + 50, y: y + 31, "text-anchor": "middle" }, name), g("text", { class: "small", x: x + 50, y: y + 47, "text-anchor": "middle" }, what));
  const topic = (x, y, name) => {
    const t = of[name];
    svg.append(g("rect", { class: "box", x, y, width: 172, height: 70, rx: 6 }), g("text", { class: "strong", x: x + 10, y: y + 19 }, name));
    if (!t || !t.partitions) {
      svg.append(g("text", { class: "small", x: x + 10, y: y + 37 }, "does not exist"));
      return;
    }
    svg.append(g("text", { x: x + 10, y: y + 38 }, perSecond(t.rate) + " messages/s"));
    const lag = t.lag === null ? plural(t.held, "message") + " held" : t.lag === 0 ? "nothing waits" : `${count(t.lag)} ` + ({ examples: "not learnt", statistics: "due of the visit", residuals: "due of the stage", weights: "visit due", versions: "newer than out" }[name] || "wait");
    svg.append(g("text", { class: t.lag ? "late small" : "small", x: x + 10, y: y + 56 }, lag));
    const top = Math.max(...t.rates, 1e-9), wide = 56, n = t.rates.length;
    if (n > 1) svg.append(g("path", { class: "spark", d: t.rates.map((v, i) => (i ? "L" : "M") + (x + 108 + (wide * i) / (n - 1)).toFixed(1) + " " + (y + 22 - (v / top) * 14).toFixed(1)).join("") }));
  };
  topic(4, 26, "examples"); role(238, 27, "workers", "visit rows"); topic(404, 26, "statistics"); role(638, 27, "solver", "fits a stage"); topic(804, 26, "versions");
  topic(404, 104, "weights"); topic(188, 180, "residuals"); topic(4, 180, "quarantine");
  topic(804, 104, "state"); topic(404, 182, "plans");
  arrow("M716 96V139H800"); arrow("M688 139V217H580");
  svg.append(g("text", { class: "small", x: 889, y: 16, "text-anchor": "middle" }, "subscribers get these"), g("text", { class: "small", x: 889, y: 190, "text-anchor": "middle" }, "what a chain goes on from"), g("text", { class: "small", x: 588, y: 206 }, "what a run is,"), g("text", { class: "small", x: 588, y: 240 }, "how it ended"));
  return svg;
}

// pointsOf are the passes of a stage, as they were reported or as they come.
function pointsOf(step) {
  const list = (step.done && step.done.by_pass) || step.passes || [];
  if (!list.length && step.done) return [step.done];
  return list;
}

function drawStages(r) {
  const series = (field) => {
    const all = [["train", "train"], ["holdout", "holdout"], ["test", "test"]].map(([split, kind]) => ({ name: split, kind, points: [], breaks: new Set(), field: split + "_" + field }));
    const starts = [];
    let at = 0;
    for (const step of r.stages) {
      const passes = pointsOf(step);
      if (!passes.length) continue;
      starts.push([at, passes.length, step.stage]);
      for (const s of all) s.breaks.add(s.points.length);
      for (const p of passes) {
        at++;
        for (const s of all) if (p[s.field] !== null && p[s.field] !== undefined) s.points.push([at, p[s.field]]);
      }
    }
    return [all.filter((s) => s.points.length), starts];
  };
  for (const field of ["error", "loss"]) {
    const [all, starts] = series(field);
    const last = all.map((s) => `${s.name} ${measured(s.points[s.points.length - 1][1])}`).join(", ");
    const room = (frame.width - frame.left - frame.right) / Math.max(1, starts.length);
    byId("run-" + field).replaceChildren(plot(`${field === "error" ? "Error" : "Loss"} by pass, stage by stage`, "Last: " + last, "pass", all, { width: widthOf("run-" + field) }, {
      below: (x, y, f) => starts.flatMap(([from, n, stage], i) => {
        const left = Math.max(f.left, x(from + 0.5)), right = Math.min(f.width - f.right, x(from + n + 0.5));
        return [i % 2 ? g("rect", { class: "band", x: left, y: f.top, width: Math.max(0, right - left), height: f.height - f.top - f.bottom }) : null,
          room > 46 ? g("text", { class: "small", x: (left + right) / 2, y: f.top + 2, "text-anchor": "middle" }, "stage " + stage) : null].filter(Boolean);
      }),
    }), all.length ? legend(all.map((s) => [s.kind, s.name])) : "");
  }
  byId("stages").replaceChildren(...r.stages.map((s) => {
    const passes = pointsOf(s), last = s.done || passes[passes.length - 1] || {};
    const now = !s.done && !s.planned && (r.state === "running" || r.state === "waiting");
    return h("tr", now ? { "aria-current": "step" } : {}, h("th", { scope: "row" }, s.stage), h("td", {}, s.member ? `${s.block}, member ${s.member}` : s.block), h("td", {}, s.link), h("td", {}, s.done ? "done" : now ? h("strong", {}, "now") : missing),
      cell(`${s.done ? s.done.passes : passes.length} / ${s.most}`), cell(percent(last.train_error)), cell(percent(last.holdout_error)), cell(percent(last.test_error)), cell(measured(last.train_loss)), cell(s.done ? s.done.seconds.toFixed(2) : missing));
  }));
}

// Versions

const page = { size: 15, from: 0 }; // from counts versions from the newest
function drawVersions() {
  const all = state.versions, n = all.length;
  page.from = Math.max(0, Math.min(page.from, n - 1));
  const shown = all.slice(Math.max(0, n - page.from - page.size), n - page.from).reverse();
  byId("versions-caption").textContent = n ? `Versions ${shown[shown.length - 1].version} to ${shown[0].version} of ${count(n)}, the newest first: errors in percent` : "Versions: there is none yet";
  byId("newer").disabled = page.from === 0;
  byId("older").disabled = page.from + page.size >= n;
  byId("version-rows").replaceChildren(...shown.map((v) => {
    const notes = [v.drift && h("span", { class: "trouble" }, "alarm"), v.mostly_bad && h("span", { class: "trouble" }, "bad messages"), v.unknown_rows && h("span", { class: "notice" }, plural(v.unknown_rows, "row") + " of no class")].filter(Boolean);
    const what = v.latest ? h("span", { class: "good" }, v.pinned ? "out, pinned" : "out") : v.pinned ? "pinned" : v.offered ? "offered" : h("span", { class: "notice" }, "withheld");
    return h("tr", {}, h("th", { scope: "row", class: "number" }, v.version), h("td", {}, what), h("td", {}, v.kind), h("td", {}, v.parent || missing), cell(count(v.rows)),
      cell(percent(v.prequential_error)), cell(percent(v.holdout_error)), cell(percent(v.test_error)), cell(percent(v.train_error)), h("td", {}, time(v.written)), h("td", {}, ...(notes.length ? notes.flatMap((e, i) => (i ? [", ", e] : [e])) : [missing])), h("td", {}, h("code", {}, v.digest)));
  }));
}

function drawErrors() {
  const all = state.versions;
  const series = [["prequential_error", "", "new rows, before they were learnt"], ["holdout_error", "holdout", "holdout rows"], ["test_error", "test", "test rows"]]
    .map(([field, kind, name]) => ({ kind, name, points: all.filter((v) => v[field] !== null).map((v) => [v.version, v[field]]) })).filter((s) => s.points.length);
  const at = (v) => (v.prequential_error !== null ? v.prequential_error : v.holdout_error !== null ? v.holdout_error : v.test_error !== null ? v.test_error : 0);
  const alarms = all.filter((v) => v.drift), withheld = all.filter((v) => !v.offered), out = all.find((v) => v.latest), full = all.filter((v) => v.kind === "full");
  const words = [plural(all.length, "version")];
  if (alarms.length) words.push(plural(alarms.length, "alarm"));
  words.push(withheld.length ? `${count(withheld.length)} withheld by the gate` : "none withheld by the gate");
  byId("error-words").textContent = all.length ? words.join(", ") + "." : "There is no version yet.";
  if (!all.length) return byId("error-chart").replaceChildren();
  const last = series.map((s) => `${s.name}: ${percent(s.points[s.points.length - 1][1])} percent`).join("; ");
  byId("error-chart").replaceChildren(plot("Error over versions, in percent", `${words.join(", ")}. Last: ${last}.`, "version", series, { width: widthOf("error-chart"), height: 240 }, {
    above: (x, y, f) => {
      const floor = f.height - f.bottom;
      return [
        full.length ? g("path", { class: "grid", d: full.map((v) => `M${x(v.version).toFixed(1)} ${floor}v5`).join("") }) : null,
        alarms.length ? g("path", { class: "alarm", d: alarms.map((v) => `M${x(v.version).toFixed(1)} ${f.top}V${floor}`).join("") }) : null,
        alarms.length ? g("path", { class: "alarm filled", d: alarms.map((v) => triangleAt(x(v.version), f.top + 2, 4)).join("") }) : null,
        withheld.length ? g("path", { class: "withheld", d: withheld.map((v) => crossAt(x(v.version), y(at(v)), 4)).join("") }) : null,
        out ? g("path", { class: "out", d: circle(x(out.version), y(at(out)), 5) }) : null,
      ].filter(Boolean);
    },
  }), legend([...series.map((s) => [s.kind, s.name]),
    ...(out ? [["", `out: version ${out.version}`, () => g("path", { class: "out", d: circle(13, 5, 4) })]] : []),
    ...(alarms.length ? [["", "alarm", () => g("path", { class: "alarm filled", d: triangleAt(13, 4, 4) })]] : []),
    ...(withheld.length ? [["", "withheld by the gate", () => g("path", { class: "withheld", d: crossAt(13, 5, 4) })]] : [])]));
}

function drawQuality(q) {
  const words = byId("quality-words"), table = byId("confusion");
  const curve = byId("curve");
  curve.replaceChildren();
  if (!q) {
    words.textContent = "No version has a report yet.";
    table.replaceChildren(); byId("reliability").replaceChildren(); byId("reliability-rows").replaceChildren();
    return;
  }
  words.textContent = `Version ${q.version}, ${plural(q.rows, q.split + " row")}${q.before ? ", before they were learnt" : ""}: error ${percent(q.error)} %, ` + (q.rmse === undefined
    ? `log loss ${measured(q.log_loss)}, Brier score ${measured(q.brier)}, calibration error ${measured(q.ece)}.`
    : `of the variance; RMSE ${measured(q.rmse)}, MAE ${measured(q.mae)}, R² ${measured(q.r2)}.`);
  if (q.curve && q.curve.length > 1) {
    curve.append(h("figure", {}, h("figcaption", {}, `Error along the messages of version ${q.version}, before they were learnt, in percent`), plot(`Error along the messages of version ${q.version}`, "By message, in the order of the log", "message", [{ kind: "", name: "error", points: q.curve.map((b) => [b.offset, b.error]) }], { width: widthOf("error-chart"), height: 130 })));
    curve.classList.add("chart");
  }
  if (q.confusion) {
    const top = Math.max(1, ...q.confusion.flat()), worst = Math.max(1, ...q.confusion.flatMap((row, i) => row.filter((_, j) => i !== j)));
    table.replaceChildren(h("caption", {}, "Confusion: rows by class, and by the class that was predicted"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "class"), ...q.labels.map((l) => h("th", { scope: "col" }, l)))),
      h("tbody", {}, ...q.confusion.map((row, i) => h("tr", {}, h("th", { scope: "row" }, q.labels[i]), ...row.map((n, j) => {
        const td = h("td", i === j ? {} : { class: "miss" }, n ? count(n) : "·");
        td.style.setProperty("--share", n ? (i === j ? 0.25 + (0.75 * n) / top : 0.25 + (0.75 * n) / worst) : 0);
        return td;
      })))));
  } else if (q.pairs) {
    table.replaceChildren(h("caption", {}, "The classes that are confused most: there are too many for a matrix"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "class"), h("th", { scope: "col" }, "predicted"), h("th", { scope: "col" }, "rows"))),
      h("tbody", {}, ...q.pairs.map((p) => h("tr", {}, h("th", { scope: "row" }, p.label), h("td", {}, p.predicted), cell(count(p.rows))))));
  } else {
    table.replaceChildren(h("caption", {}, q.rmse === undefined ? "There are too many classes for a confusion matrix." : "Numbers have no classes."));
  }
  const bins = q.reliability || [], size = 300, pad = 36;
  const at = (v) => pad + v * (size - pad - 10), down = (v) => size - pad - v * (size - pad - 10);
  const most = Math.max(...bins.map((b) => b.weight), 1e-9);
  const svg = g("svg", { viewBox: `0 0 ${size} ${size}`, width: size, height: size, role: "img" }, g("title", {}, "Reliability diagram"), g("desc", {}, "On the diagonal, predictions are right as often as they are sure. Calibration error " + measured(q.ece)));
  for (const v of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(g("path", { class: "grid", d: `M${at(0)} ${down(v)}H${at(1)}M${at(v)} ${down(0)}V${down(1)}` }), g("text", { class: "small", x: pad - 6, y: down(v) + 4, "text-anchor": "end" }, String(v)), g("text", { class: "small", x: at(v), y: down(0) + 14, "text-anchor": "middle" }, String(v)));
  }
  svg.append(g("path", { class: "arrow", d: `M${at(0)} ${down(0)}L${at(1)} ${down(1)}`, "stroke-dasharray": "4 4" }));
  const points = bins.map((b) => [at(Math.min(1, b.confidence)), down(b.accuracy), b]);
  svg.append(g("path", { class: "series", d: points.map(([x, y], i) => (i ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1)).join("") }),
    g("path", { class: "dots", d: points.map(([x, y, b]) => circle(x, y, 2 + 5 * Math.sqrt(b.weight / most))).join("") }),
    g("text", { class: "small", x: at(1), y: size - 6, "text-anchor": "end" }, "confidence"), g("text", { class: "small", x: at(0) + 5, y: down(1) + 13 }, "part that is right"));
  byId("reliability").replaceChildren(bins.length ? svg : h("p", { class: "muted" }, "The report has none."));
  byId("reliability-rows").replaceChildren(...bins.map((b) => h("tr", {}, cell(b.confidence.toFixed(3)), cell(b.accuracy.toFixed(3)), cell(measured(b.weight)))));
}

// ranges shortens a list of numbers: 0–3, 7.
function ranges(list) {
  const parts = [];
  for (let i = 0; i < list.length; ) {
    let j = i;
    while (j + 1 < list.length && list[j + 1] === list[j] + 1) j++;
    parts.push(i === j ? String(list[i]) : list[i] + "–" + list[j]);
    i = j + 1;
  }
  return parts.slice(0, 12).join(", ") + (parts.length > 12 ? " …" : "") || "none";
}

function drawStaff(s) {
  const n = s.workers.length + s.solvers.length + s.runners.length;
  const words = [];
  if (s.embedded) words.push("The brokers are embedded in a process, which works on the runs itself, as a member of no group.");
  if (s.unknown) words.push("Who works is not known: " + s.unknown + ".");
  if (n || !s.embedded) words.push(`${plural(s.workers.length, "worker")}, ${plural(s.solvers.length, "solver")}, ${plural(s.runners.length, "runner")}.`);
  byId("staff-words").textContent = words.join(" ");
  const rows = [["worker", s.workers], ["solver", s.solvers], ["runner", s.runners]].flatMap(([role, list]) => list.map((w) => h("tr", {}, h("td", {}, role), h("th", { scope: "row" }, w.host), h("td", {}, h("code", {}, w.id)), h("td", {}, role === "worker" ? ranges(w.partitions) : w.partitions.length ? "active" : "standby"), h("td", { class: "wraps" }, w.waits))));
  byId("staff-rows").replaceChildren(...rows);
}

// Events

const due = new Set();
let planned = false;
function plan(name) {
  due.add(name);
  if (planned || document.hidden) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    const names = [...due];
    due.clear();
    for (const name of names) draw[name](state[name]);
    performance.mark("drawn");
  });
}
document.addEventListener("visibilitychange", () => { if (!document.hidden && due.size) plan([...due][0]); });

// news says what has changed in words, for those who can't see it.
function news(name, now) {
  const before = state[name];
  if (before === undefined) return;
  if (name === "versions" && now.length && (!before.length || before[before.length - 1].version !== now[now.length - 1].version)) {
    const v = now[now.length - 1];
    tell(`Version ${v.version} is ${v.latest ? "out" : v.offered ? "offered" : "withheld"}.`);
  }
  if (name === "run" && now && before && before.id === now.id && before.state !== now.state) tell(`Run ${now.id} is ${now.state}.`);
}

const lost = "No connection. Trying again …";
function follow() {
  const source = new EventSource("events");
  for (const name of Object.keys(draw)) {
    source.addEventListener(name, (e) => {
      const value = JSON.parse(e.data);
      news(name, value);
      state[name] = value;
      plan(name);
    });
  }
  source.onopen = () => { byId("live").textContent = "Live"; };
  let heard = Date.now(); // when the server last said something
  source.addEventListener("whole", () => { heard = Date.now(); });
  source.onerror = () => {
    if (byId("live").textContent === lost) return;
    byId("live").textContent = lost;
    state.summary = { ...state.summary, level: "notice", verdict: "No connection. What you see is from " + new Date(heard).toLocaleTimeString() + ".", needs: [], facts: (state.summary || {}).facts || [] };
    plan("summary"); // when there is a connection again, all parts are sent again
  };
}

window.addEventListener("resize", () => { for (const name of Object.keys(state)) plan(name); });
byId("newer").addEventListener("click", () => { page.from = Math.max(0, page.from - page.size); drawVersions(); });
byId("older").addEventListener("click", () => { page.from += page.size; drawVersions(); });
setInterval(tick, 10000);
follow();
