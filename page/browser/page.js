"use strict";
// Draws what the server sends: a section at a time, when it has changed, and at most once a frame.

const byId = (id) => document.getElementById(id);
const plural = (n, what, several) => count(n) + " " + (n === 1 ? what : several || what + "s");
const missing = "–";
const percent = (v) => (v === null || v === undefined ? missing : v.toFixed(2));
const measured = (v) => (v === null || v === undefined ? missing : Math.abs(v) >= 1e4 ? v.toExponential(2) : v.toPrecision(4));
const perSecond = (v) => (v === 0 ? "0" : v < 10 ? v.toFixed(1) : count(Math.round(v)));

// ago says how long ago a time was. The browser and those who wrote messages may have different clocks.
function ago(at) {
  const seconds = Math.max(0, (Date.now() - at) / 1000);
  if (seconds < 60) return "less than a minute ago";
  for (const [unit, size] of [
    ["day", 86400],
    ["hour", 3600],
    ["minute", 60],
  ]) {
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

// widthOf is how wide a chart may be: its texts are then as large as others.
const widthOf = (id) => Math.max(300, Math.min(1120, byId(id).clientWidth || 560));

// narrow reports whether the window is too narrow for the picture of the flow, and tables have their rows as blocks.
const narrow = () => window.innerWidth < 1000;

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
    byId("facts").replaceChildren(
      ...s.facts.map((f) =>
        h(
          "div",
          {},
          h("dt", {}, h("a", { href: "#" + f.about }, f.question)),
          h(
            "dd",
            {},
            h("strong", {}, f.answer),
            h("span", {}, [f.detail, f.when].filter(Boolean).join(", "), f.since ? " " : "", f.since ? time(f.since) : ""),
          ),
        ),
      ),
    );
  },
  topics(list) {
    fill(
      "topics",
      list.map((t) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, t.role),
          cell(t.partitions || "none"),
          cell(count(t.held)),
          cell(perSecond(t.rate)),
          cell(t.lag === null ? missing : count(t.lag)),
          h("td", { class: "wraps" }, t.lag === null ? missing : t.behind),
        ),
      ),
    );
  },
  run(r) {
    const words = byId("run-words");
    if (!r) {
      words.textContent = "No active run.";
      byId("passes").hidden = byId("stages").closest(".scrolls").hidden = true;
      return;
    }
    const kind = { full: "full run", update: "update", train: "run" }[r.kind] || r.kind;
    const going = r.state === "waiting" || r.state === "running";
    words.replaceChildren(
      `The ${kind} `,
      h("code", {}, r.id),
      r.version ? `, version ${r.version},` : "",
      " is ",
      h("span", { class: r.state === "failed" ? "trouble" : r.state === "cancelled" ? "notice" : going ? "" : "good" }, r.state),
      r.reason ? ": " + r.reason : "",
      going && r.waits ? ", and waits " + r.waits : "",
      ". ",
      r.queued ? plural(r.queued, "run") + " wait behind it: " + r.queue.join(", ") + (r.queued > r.queue.length ? " …" : "") + "." : "",
    );
    const visit = byId("visit"),
      stages = r.stages.length;
    const bar = (text, value, max) =>
      visit.replaceChildren(h("label", { for: "visit-bar" }, text), h("progress", { id: "visit-bar", max, value }));
    byId("run").dataset.going = going; // while it goes on its parts keep their height, so that what is below does not jump at each visit
    if (going && r.stage < stages) {
      const what = r.sealing
        ? `Residuals of stage ${r.stage} of ${stages}`
        : r.stage < 0
          ? "Survey"
          : `Stage ${r.stage + 1} of ${stages}, visit ${r.visit + 1}`;
      bar(
        `${what}: ${count(r.have)} of ${plural(r.of, "partition")} done` +
          (r.missing.length && r.have ? "; missing: " + r.missing.join(", ") + (r.of - r.have > r.missing.length ? " …" : "") : ""),
        r.have,
        Math.max(r.of, 1),
      );
    } else if (going || r.state === "done") {
      bar(`${plural(stages, "stage")} of ${stages} fitted`, 1, 1);
    } else {
      visit.replaceChildren();
    }
    byId("passes").hidden = byId("stages").closest(".scrolls").hidden = false;
    drawStages(r);
  },
  versions() {
    drawVersions();
    drawErrors();
  },
  quality(q) {
    drawQuality(q);
  },
  staff(s) {
    drawStaff(s);
  },
  quarantine(q) {
    const newest = q.read && q.read < q.held ? `; the table has the reasons of the newest ${count(q.read)}` : "";
    byId("quarantine-words").textContent = q.held
      ? `${plural(q.held, "message")} could not be used, and ${q.held === 1 ? "is" : "are"} kept with the reason${newest}.`
      : "Nothing is in quarantine.";
    byId("quarantine-tables").hidden = !q.recent.length;
    fill(
      "reasons",
      q.reasons.map((r) => h("tr", {}, cell(count(r.messages)), h("td", {}, time(r.last)), h("td", { class: "wraps" }, r.reason))),
    );
    fill(
      "bad",
      q.recent.map((m) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, `${m.topic}[${m.partition}]@${m.offset}`),
          h("td", {}, time(m.at)),
          cell(count(m.bytes)),
          h("td", { class: "wraps" }, m.reason),
        ),
      ),
    );
  },
};
const cell = (text) => h("td", { class: "number" }, String(text));

// fill puts rows into the body of a table. In a narrow window a row is a block, and each of its cells has the name of its column.
function fill(id, rows) {
  const body = byId(id),
    names = [...body.parentElement.tHead.rows[0].cells].map((c) => c.textContent);
  for (const row of rows) {
    row.setAttribute("role", "row"); // blocks are no rows for those who can't see them, unless they say so
    [...row.cells].forEach((c, i) => {
      c.dataset.name = names[i];
      if (c.textContent === missing) c.classList.add("none");
      c.setAttribute("role", c.tagName === "TH" ? "rowheader" : "cell");
    });
  }
  body.replaceChildren(...rows);
}

function tell(text) {
  if (byId("news").textContent !== text) byId("news").textContent = text;
}

// waitsOf says what of a topic others have still to do.
const waiting = {
  source: "not ingested",
  examples: "not learnt",
  statistics: "partitions missing",
  residuals: "partitions missing",
  weights: "visit is due",
  versions: "newer than in use",
};
const waitsOf = (t) =>
  t.lag === null ? count(t.held) + " held" : t.lag === 0 ? "nothing waits" : `${count(t.lag)} ${waiting[t.role] || "wait"}`;

// spark is how a rate was lately.
function spark(t, x, y, wide) {
  const top = Math.max(...t.rates, 1e-9),
    n = t.rates.length;
  return n > 1
    ? g("path", {
        class: "spark",
        d: t.rates.map((v, i) => (i ? "L" : "M") + (x + (wide * i) / (n - 1)).toFixed(1) + " " + (y - (v / top) * 14).toFixed(1)).join(""),
      })
    : null;
}

// processes says how many processes a role has, if that is known.
function processes(role, otherwise) {
  const staff = state.staff;
  if (!staff || staff.unknown || staff.hidden.includes(role)) return otherwise;
  const own = staff.members[role] || [];
  if (own.length) return plural(own.length, "process", "processes");
  return staff.embedded ? otherwise : "no process"; // that of the broker is in no group
}

// The flow: the roles, what they do, and which topics they read and write, in the order of the flow.
const roles = [
  ["ingest", "ingest", "reads events", "source", "examples, quarantine"],
  ["work", "workers", "visit rows", "examples, weights, residuals", "statistics, residuals, quarantine"],
  ["solve", "solver", "fits stages", "statistics", "weights, versions, state, plans"],
  ["serve", "servers", "answer", "versions", ""],
  ["score", "scorers", "predict", "examples, versions", "predictions"],
];

function drawFlow() {
  const list = state.topics;
  if (!list) return;
  byId("flow-picture").replaceChildren(narrow() ? flowList(list) : flow(list));
}

// flow draws how messages go from topic to topic, for a window that is wide enough.
function flow(list) {
  const of = Object.fromEntries(list.map((t) => [t.role, t]));
  const from = of.source ? 0 : 302,
    wide = 1180 - from;
  const svg = g(
    "svg",
    { viewBox: `${from} 0 ${wide} 290`, width: wide, height: 290, role: "img", "aria-labelledby": "flow-name flow-desc" },
    g("title", { id: "flow-name" }, "The flow of messages"),
    g(
      "desc",
      { id: "flow-desc" },
      roles.map(([, name, , reads, writes]) => `${name}: read ${reads}` + (writes ? `, write ${writes}` : "")).join("; ") +
        ". " +
        list
          .filter((t) => t.partitions)
          .map((t) => `${t.role}: ${perSecond(t.rate)} a second` + (t.lag ? `, ${count(t.lag)} ${t.behind}` : ""))
          .join("; ") +
        ".",
    ),
    g(
      "defs",
      {},
      g(
        "marker",
        { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse" },
        g("path", { class: "head", d: "M0 0L8 4L0 8z" }),
      ),
    ),
  );
  const arrow = (d) => svg.append(g("path", { class: "arrow", d, "marker-end": "url(#arrow)" }));
  const role = (x, y, name) => {
    const [key, title, does] = roles.find((r) => r[0] === name);
    svg.append(
      g("rect", { class: "role", x, y, width: 86, height: 66, rx: 33 }),
      g("text", { class: "strong", x: x + 43, y: y + 30, "text-anchor": "middle" }, title),
      g("text", { class: "small", x: x + 43, y: y + 46, "text-anchor": "middle" }, processes(key, does)),
    );
  };
  const topic = (x, y, name) => {
    const t = of[name];
    svg.append(
      g("rect", { class: "box", x, y, width: 152, height: 70, rx: 6 }),
      g("text", { class: "strong", x: x + 10, y: y + 19 }, name === "source" ? "source topic" : name),
    );
    if (!t || !t.partitions) {
      svg.append(g("text", { class: "small", x: x + 10, y: y + 38 }, "does not exist"));
      return;
    }
    svg.append(
      g("text", { x: x + 10, y: y + 38 }, perSecond(t.rate) + " messages/s"),
      g("text", { class: t.lag ? "late small" : "small", x: x + 10, y: y + 57 }, waitsOf(t)),
    );
    const line = spark(t, x + 104, y + 22, 38);
    if (line) svg.append(line);
  };
  const top = 8,
    middle = 104,
    low = 212;
  if (of.source) {
    topic(2, top, "source");
    role(186, top + 2, "ingest");
    arrow(`M154 ${top + 35}H182`);
    arrow(`M272 ${top + 35}H300`);
    arrow(`M229 ${top + 68}V${middle + 8}`);
    topic(186, middle + 12, "quarantine");
    arrow(`M496 ${top + 62}C470 ${middle + 47} 440 ${middle + 47} 342 ${middle + 47}`);
  } else {
    topic(304, middle + 12, "quarantine");
    arrow(`M496 ${top + 62}C490 ${middle + 47} 480 ${middle + 47} 460 ${middle + 47}`);
  }
  topic(304, top, "examples");
  role(488, top + 2, "work");
  topic(606, top, "statistics");
  role(790, top + 2, "solve");
  topic(908, top, "versions");
  role(1092, top + 2, "serve");
  arrow(`M456 ${top + 35}H484`);
  arrow(`M574 ${top + 35}H602`);
  arrow(`M758 ${top + 35}H786`);
  arrow(`M876 ${top + 35}H904`);
  arrow(`M1060 ${top + 35}H1088`);
  topic(606, middle + 4, "weights");
  topic(420, low, "residuals");
  topic(606, low, "plans");
  topic(908, middle + 4, "state");
  role(1092, middle + 6, "score");
  topic(1026, low, "predictions");
  arrow(`M822 ${top + 68}V${middle + 39}H762`);
  arrow(`M606 ${middle + 39}H552V${top + 72}`);
  arrow(`M518 ${top + 68}V${low - 4}`);
  arrow(`M532 ${low}V${top + 72}`);
  arrow(`M833 ${top + 68}V${low + 35}H762`);
  arrow(`M844 ${top + 68}V${middle + 39}H904`);
  arrow(`M1060 ${top + 50}H1076V${middle + 39}H1088`);
  arrow(`M1135 ${middle + 72}V${low - 4}`);
  return svg;
}

// flowList is the flow for a narrow window: each role between what it reads and what it writes.
function flowList(list) {
  const shown = list.filter((t) => t.partitions);
  const card = (t) =>
    h(
      "li",
      { class: "topic" },
      h("strong", {}, t.role === "source" ? "source topic" : t.role),
      h("span", {}, perSecond(t.rate) + " messages/s"),
      h("span", { class: t.lag ? "notice" : "muted" }, waitsOf(t)),
    );
  const own = {
    ingest: ["source"],
    work: ["examples", "residuals", "quarantine"],
    solve: ["statistics", "weights", "plans", "state"],
    serve: ["versions"],
    score: ["predictions"],
  };
  return h(
    "ol",
    { class: "flow" },
    ...roles
      .filter(([key]) => key !== "ingest" || shown.some((t) => t.role === "source"))
      .flatMap(([key, title, does, reads, writes]) => {
        const topics = own[key].map((name) => shown.find((t) => t.role === name)).filter(Boolean);
        const process = h(
          "li",
          { class: "process" },
          h("strong", {}, title),
          h("span", {}, processes(key, does)),
          h("span", { class: "muted" }, `${reads} → ${writes || "answers"}`),
        );
        return key === "score" ? [process, ...topics.map(card)] : [...topics.map(card), process];
      }),
  );
}

// pointsOf are the passes of a stage, as they were reported or as they come.
function pointsOf(step) {
  const list = (step.done && step.done.by_pass) || step.passes || [];
  if (!list.length && step.done) return [step.done];
  return list;
}

function drawStages(r) {
  const series = (field) => {
    const all = [
      ["train", "train"],
      ["holdout", "holdout"],
      ["test", "test"],
    ].map(([split, kind]) => ({ name: split, kind, points: [], breaks: new Set(), field: split + "_" + field }));
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
    byId("run-" + field).replaceChildren(
      plot(
        `${field === "error" ? "Error" : "Loss"} by pass, stage by stage`,
        "Last: " + last,
        "pass",
        all,
        { width: widthOf("run-" + field), top: 24 },
        {
          below: (x, y, f) =>
            starts.flatMap(([from, n, stage], i) => {
              const left = Math.max(f.left, x(from + 0.5)),
                right = Math.min(f.width - f.right, x(from + n + 0.5));
              return [
                i % 2
                  ? g("rect", { class: "band", x: left, y: f.top, width: Math.max(0, right - left), height: f.height - f.top - f.bottom })
                  : null,
                right - left > 48
                  ? g("text", { class: "small", x: (left + right) / 2, y: f.top - 10, "text-anchor": "middle" }, "stage " + (stage + 1))
                  : null,
              ].filter(Boolean);
            }),
        },
      ),
      all.length ? legend(all.map((s) => [s.kind, s.name])) : "",
    );
  }
  fill(
    "stages",
    r.stages.map((s) => {
      const passes = pointsOf(s),
        last = s.done || passes[passes.length - 1] || {};
      const now = !s.done && !s.planned && (r.state === "running" || r.state === "waiting");
      return h(
        "tr",
        now ? { "aria-current": "step" } : {},
        h("th", { scope: "row" }, s.stage + 1),
        h("td", {}, s.member ? `${s.block}, member ${s.member}` : s.block),
        h("td", {}, s.link),
        h("td", {}, s.done ? "done" : now ? h("strong", {}, "now") : missing),
        cell(s.done ? s.done.passes : s.planned ? missing : `${Math.min(passes.length, s.most)} of ≤ ${s.most}`),
        cell(percent(last.train_error)),
        cell(percent(last.holdout_error)),
        cell(percent(last.test_error)),
        cell(measured(last.train_loss)),
        cell(s.done ? s.done.seconds.toFixed(2) : missing),
      );
    }),
  );
}

// Versions

const page = { size: 15, from: 0 }; // from counts versions from the newest
function drawVersions() {
  const all = state.versions,
    n = all.length;
  page.size = narrow() ? 5 : 15; // there a version is a block of several lines
  page.from = Math.max(0, Math.min(page.from, n - 1));
  const shown = all.slice(Math.max(0, n - page.from - page.size), n - page.from).reverse();
  byId("versions-words").hidden = n > 0;
  byId("versions-words").textContent = "No version yet.";
  byId("version-rows").closest(".scrolls").hidden = n === 0;
  byId("more-versions").hidden = n <= page.size;
  const kept = n > shown.length ? `, of ${count(n)} that are kept` : "";
  byId("versions-caption").textContent = n
    ? `Versions ${shown.at(-1).version} to ${shown[0].version}, the newest first${kept}: errors in percent`
    : "";
  byId("newer").disabled = page.from === 0;
  byId("older").disabled = page.from + page.size >= n;
  fill(
    "version-rows",
    shown.map((v) => {
      const notes = [
        v.drift && h("span", { class: "trouble" }, "alarm"),
        v.mostly_bad && h("span", { class: "trouble" }, "bad messages"),
        v.unknown_rows && h("span", { class: "notice" }, plural(v.unknown_rows, "row") + " with a label that is not a class"),
      ].filter(Boolean);
      const what = v.latest
        ? h("span", { class: "good" }, v.pinned ? "in use, pinned" : "in use")
        : v.pinned
          ? "pinned"
          : v.offered
            ? "offered"
            : h("span", { class: "notice" }, "withheld");
      return h(
        "tr",
        {},
        h("th", { scope: "row", class: "number" }, v.version),
        h("td", {}, what),
        h("td", {}, v.kind),
        h("td", {}, v.parent || missing),
        cell(count(v.rows)),
        cell(percent(v.prequential_error)),
        cell(percent(v.served_error)),
        cell(percent(v.holdout_error)),
        cell(percent(v.test_error)),
        cell(percent(v.train_error)),
        h("td", {}, time(v.written)),
        h("td", {}, ...(notes.length ? notes.flatMap((e, i) => (i ? [", ", e] : [e])) : [missing])),
        h("td", {}, h("code", {}, v.digest)),
      );
    }),
  );
}

function drawErrors() {
  const all = state.versions;
  const series = [
    ["prequential_error", "", "new rows, before they were learnt"],
    ["served_error", "served", "what the version answered, once labels came"],
    ["holdout_error", "holdout", "holdout rows"],
    ["test_error", "test", "test rows"],
  ]
    .map(([field, kind, name]) => ({ kind, name, points: all.filter((v) => v[field] !== null).map((v) => [v.version, v[field]]) }))
    .filter((s) => s.points.length);
  const at = (v) => v.prequential_error ?? v.served_error ?? v.holdout_error ?? v.test_error;
  const alarms = all.filter((v) => v.drift);
  const withheld = all.filter((v) => !v.offered);
  const measuredWithheld = withheld.filter((v) => at(v) !== null);
  const latest = all.find((v) => v.latest);
  const out = latest && at(latest) !== null ? latest : null; // a full version of a chain has no rows that are new
  const from = all.length && all[0].version > 1 ? `, from version ${all[0].version} on` : ""; // earlier ones are not kept
  const words = [plural(all.length, "version") + from];
  if (alarms.length) words.push(plural(alarms.length, "alarm"));
  words.push(withheld.length ? `${count(withheld.length)} withheld by the gate` : "none withheld by the gate");
  byId("error-words").textContent = all.length ? words.join(", ") + "." : "No version yet.";
  if (!all.length) return byId("error-chart").replaceChildren();
  const last = series.map((s) => `${s.name}: ${percent(s.points[s.points.length - 1][1])} percent`).join("; ");
  byId("error-chart").replaceChildren(
    plot(
      "Error over versions, in percent",
      `${words.join(", ")}. Last: ${last}.`,
      "version",
      series,
      { width: widthOf("error-chart"), height: 240 },
      {
        above: (x, y, f) => {
          const floor = f.height - f.bottom;
          return [
            alarms.length
              ? g("path", { class: "alarm", d: alarms.map((v) => `M${x(v.version).toFixed(1)} ${f.top}V${floor}`).join("") })
              : null,
            alarms.length
              ? g("path", { class: "alarm filled", d: alarms.map((v) => triangleAt(x(v.version), f.top + 2, 4)).join("") })
              : null,
            measuredWithheld.length
              ? g("path", { class: "withheld", d: measuredWithheld.map((v) => crossAt(x(v.version), y(at(v)), 4)).join("") })
              : null,
            out ? g("path", { class: "out", d: circle(x(out.version), y(at(out)), 5) }) : null,
          ].filter(Boolean);
        },
      },
    ),
    legend([
      ...series.map((s) => [s.kind, s.name]),
      ...(out ? [["", `in use: version ${out.version}`, () => g("path", { class: "out", d: circle(13, 5, 4) })]] : []),
      ...(alarms.length ? [["", "alarm", () => g("path", { class: "alarm filled", d: triangleAt(13, 4, 4) })]] : []),
      ...(measuredWithheld.length ? [["", "withheld by the gate", () => g("path", { class: "withheld", d: crossAt(13, 5, 4) })]] : []),
    ]),
  );
}

function drawQuality(q) {
  const words = byId("quality-words"),
    table = byId("confusion");
  const curve = byId("curve");
  curve.replaceChildren();
  byId("measures").hidden = !q;
  if (!q) {
    words.textContent = "No version has a report yet.";
    table.replaceChildren();
    byId("reliability").replaceChildren();
    byId("reliability-rows").replaceChildren();
    return;
  }
  const parts = [`error ${percent(q.error)} %` + (q.rmse === undefined ? "" : " of the variance")];
  if (q.rmse === undefined) {
    parts[0] += `, log loss ${measured(q.log_loss)}, Brier score ${measured(q.brier)}, calibration error ${measured(q.ece)}`;
    if (q.auc !== undefined) parts[0] += `, AUC ${measured(q.auc)}`;
  } else {
    parts.push(`RMSE ${measured(q.rmse)}, MAE ${measured(q.mae)}, R² ${measured(q.r2)}`);
  }
  if (q.decided !== undefined) {
    const d = q.decided;
    parts.push(
      `at the threshold ${measured(d.threshold)}: error ${percent(d.error)} %, ` +
        `precision ${measured(d.precision)}, recall ${measured(d.recall)}`,
    );
  }
  if (q.majority_error !== undefined) parts.push(`always predicting the commonest class: ${percent(q.majority_error)} %`);
  const before = q.before ? ", before they were learnt" : "";
  words.textContent = `Version ${q.version}, ${plural(q.rows, q.split + " row")}${before}: ${parts.join("; ")}.`;
  if (q.curve && q.curve.length > 1) {
    curve.append(
      h(
        "figure",
        {},
        h("figcaption", {}, `Prequential error of version ${q.version} in log order, in percent`),
        plot(
          `Error of the new rows of version ${q.version}`,
          "By row, in log order",
          "rows",
          [{ kind: "", name: "error", points: q.curve.map((b) => [b.rows, b.error]) }],
          { width: widthOf("error-chart"), height: 130 },
        ),
      ),
    );
    curve.classList.add("chart");
  }
  table.classList.toggle("few", (q.labels || []).length <= 5);
  if (q.confusion) {
    const top = Math.max(1, ...q.confusion.flat()),
      worst = Math.max(1, ...q.confusion.flatMap((row, i) => row.filter((_, j) => i !== j)));
    const rates = [
      ["precision", q.precision],
      ["recall", q.recall],
      ["F1", q.f1],
    ].filter(([, values]) => values);
    table.replaceChildren(
      h("caption", {}, "Confusion matrix: rows by true and predicted class"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "class"),
          ...q.labels.map((l) => h("th", { scope: "col" }, l)),
          ...rates.map(([name]) => h("th", { scope: "col" }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        ...q.confusion.map((row, i) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, q.labels[i]),
            ...row.map((n, j) => {
              const td = h("td", i === j ? {} : { class: "miss" }, n ? count(n) : "·");
              td.style.setProperty("--share", n ? (i === j ? 0.25 + (0.75 * n) / top : 0.25 + (0.75 * n) / worst) : 0);
              return td;
            }),
            ...rates.map(([, values]) => cell(measured(values[i]))),
          ),
        ),
      ),
    );
  } else if (q.pairs) {
    table.replaceChildren(
      h("caption", {}, "Most confused classes: there are too many for a matrix"),
      h(
        "thead",
        {},
        h("tr", {}, h("th", { scope: "col" }, "class"), h("th", { scope: "col" }, "predicted"), h("th", { scope: "col" }, "rows")),
      ),
      h("tbody", {}, ...q.pairs.map((p) => h("tr", {}, h("th", { scope: "row" }, p.label), h("td", {}, p.predicted), cell(count(p.rows))))),
    );
  } else {
    table.replaceChildren(
      h("caption", {}, q.rmse === undefined ? "There are too many classes for a confusion matrix." : "Numeric targets have no classes."),
    );
  }
  const bins = q.reliability || [],
    most = Math.max(...bins.map((b) => b.weight), 1e-9);
  const points = bins.map((b) => [Math.min(1, b.confidence), b.accuracy, 2 + 5 * Math.sqrt(b.weight / most)]);
  byId("reliability").replaceChildren(
    bins.length
      ? plot(
          "Reliability diagram: accuracy by confidence",
          "On the diagonal, accuracy equals confidence. " + "Calibration error " + measured(q.ece) + ".",
          "confidence",
          [{ kind: "", name: "accuracy", points }],
          { width: 300, height: 300, unit: true },
        )
      : h("p", { class: "muted" }, "Not in the report."),
  );
  fill(
    "reliability-rows",
    bins.map((b) => h("tr", {}, cell(b.confidence.toFixed(3)), cell(b.accuracy.toFixed(3)), cell(measured(b.weight)))),
  );
}

// ranges shortens a list of numbers: 0–3, 7.
function ranges(list) {
  const parts = [];
  for (let i = 0; i < list.length;) {
    let j = i;
    while (j + 1 < list.length && list[j + 1] === list[j] + 1) j++;
    parts.push(i === j ? String(list[i]) : list[i] + "–" + list[j]);
    i = j + 1;
  }
  return parts.slice(0, 12).join(", ") + (parts.length > 12 ? " …" : "") || "none";
}

function drawStaff(s) {
  const all = [
    ["ingester", "ingest"],
    ["worker", "work"],
    ["solver", "solve"],
    ["runner", "run"],
    ["scorer", "score"],
    ["server", "serve"],
  ].map(([name, role]) => [name, s.members[role] || []]);
  const words = [];
  if (s.unknown) words.push("The processes are unknown: " + s.unknown + ".");
  const present = all.filter(([, list]) => list.length).map(([role, list]) => plural(list.length, role));
  if (s.embedded) words.push("The broker is embedded in a process, whose own roles are not listed here.");
  if (present.length || (!s.embedded && !s.unknown))
    words.push(present.length ? present.join(", ") + "." : "No process of the pipeline is running.");
  if (s.hidden.length) words.push("The brokers do not list the processes of stagewise " + s.hidden.join(", ") + ".");
  byId("staff-words").textContent = words.join(" ");
  const shares = new Set(["worker", "scorer"]); // they divide the partitions of the examples
  fill(
    "staff-rows",
    all.flatMap(([role, list]) =>
      list.map((w) =>
        h(
          "tr",
          {},
          h("td", {}, role),
          h("th", { scope: "row" }, w.host),
          h("td", {}, h("code", {}, w.id)),
          h("td", {}, role === "server" ? missing : shares.has(role) ? ranges(w.partitions) : w.partitions.length ? "active" : "standby"),
          h("td", { class: "wraps" }, w.waits),
        ),
      ),
    ),
  );
  byId("staff-rows").closest(".scrolls").hidden = !present.length;
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
    for (const name of due) draw[name](state[name]);
    if (due.has("topics") || due.has("staff")) drawFlow(); // it shows both
    due.clear();
    performance.mark("drawn");
  });
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && due.size) plan([...due][0]);
});

// news says what has changed in words, for those who can't see it.
function news(name, now) {
  const before = state[name];
  if (before === undefined) return;
  if (name === "versions" && now.length && (!before.length || before[before.length - 1].version !== now[now.length - 1].version)) {
    const v = now[now.length - 1];
    tell(`Version ${v.version} is ${v.latest ? "in use" : v.offered ? "offered" : "withheld"}.`);
  }
  if (name === "run" && now && before && before.id === now.id && before.state !== now.state) tell(`Run ${now.id} is ${now.state}.`);
}

const lost = "No connection. Retrying …";
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
  source.onopen = () => {
    byId("live").textContent = "Live";
  };
  let heard = Date.now(); // when the server last said something
  source.addEventListener("whole", () => {
    heard = Date.now();
  });
  source.onerror = () => {
    if (byId("live").textContent === lost) return;
    byId("live").textContent = lost;
    state.summary = {
      ...state.summary,
      level: "notice",
      verdict: "No connection. The page is from " + new Date(heard).toLocaleTimeString() + ".",
      needs: [],
      facts: (state.summary || {}).facts || [],
    };
    plan("summary"); // when there is a connection again, all parts are sent again
  };
}

window.addEventListener("resize", () => {
  for (const name of Object.keys(state)) plan(name);
});
byId("newer").addEventListener("click", () => {
  page.from = Math.max(0, page.from - page.size);
  drawVersions();
});
byId("older").addEventListener("click", () => {
  page.from += page.size;
  drawVersions();
});
setInterval(tick, 10000);
follow();
