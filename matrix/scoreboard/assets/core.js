// The page's data and its formatting, shared by all views.

const OUTCOMES = ["pass", "fallback", "gap", "fail", "void"];
const SIGNS = { pass: "\u2713", fallback: "\u21b7", gap: "\u25b3", fail: "\u2715", void: "\u2205" };
const MEANINGS = {
  pass: "the right answer, in the framework alone",
  fallback: "the right answer; some nodes ran outside of the framework",
  gap: "no answer, as declared; of a peer: refused by name",
  fail: "a wrong answer, or an error",
  void: "recorded wrong: no answer is the right one, and none is counted",
};
const STATES = {
  ran: "ran",
  broken: "broken: the cell did not come to its cases",
  "no-gpu": "no GPU found: neither pass nor fail",
  none: "not run yet",
};
const STATE_NAMES = { broken: "broken", "no-gpu": "no GPU found", none: "not run yet" };
const STATE_SIGNS = { broken: "\u2716", "no-gpu": "\u25cc", none: "\u2026" };

const data = JSON.parse(document.getElementById("data").textContent);
const numbers = new Intl.Collator("en", { numeric: true });

/** An element; `null` attributes and children are left out. */
function h(tag, attributes = {}, ...children) {
  const space = SVG_TAGS.has(tag) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const element = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  return put(element, ...children);
}

function put(place, ...children) {
  place.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return place;
}
const SVG_TAGS = new Set(["svg", "path", "circle", "line", "text", "title", "g"]);

const count = (n) => n.toLocaleString("en");

/** Never 100 where something is missing. */
function percent(part, whole) {
  if (!whole) return "\u2013";
  return part === whole ? "100" : String(Math.floor((1000 * part) / whole) / 10);
}

const counted = (row) => row[0] + row[1] + row[2] + row[3];
const right = (row) => row[0] + row[1];
const none = () => [0, 0, 0, 0, 0];
const add = (to, row) => row.forEach((n, i) => (to[i] += n));

/** The worst of the outcomes that are counted; `void` where there is nothing else. */
function worst(row) {
  for (const i of [3, 2, 1, 0]) if (row[i]) return OUTCOMES[i];
  return "void";
}

const sign = (outcome) => h("span", { class: `sign ${outcome}`, title: MEANINGS[outcome] }, SIGNS[outcome]);
const told = (outcome) => h("span", { class: `told ${outcome}` }, sign(outcome), " ", outcome);

/** The four shares side by side; the numbers are said beside it. */
function shares(row) {
  const all = counted(row);
  const parts = [0, 1, 2, 3].filter((i) => row[i]);
  return h(
    "span",
    { class: "shares", "aria-hidden": "true" },
    parts.map((i) => h("i", { class: OUTCOMES[i], style: `flex-grow:${Math.max(row[i] / all, 0.02)}` })),
  );
}

const spoken = (row) =>
  OUTCOMES.map((name, i) => (row[i] ? `${count(row[i])} ${name}` : "")).filter(Boolean).join(", ") || "no case";

/** `domain::Name-since`, of which the last is missing for a function of a model's own. */
function parts(operator) {
  const [, name, since] = operator.match(/^(.*?)(?:-(\d+))?$/);
  return { name, since: since || "" };
}

// ---- cases

/** As a number that is greater for a newer one. */
function release(text) {
  return text.split(".").reduce((sum, part) => sum * 1000 + (Number(part) || 0), 0);
}

const tables = {};
for (const [digest, groups] of Object.entries(data.cases)) {
  const rows = [];
  const index = new Map();
  for (const [group, kinds] of Object.entries(groups)) {
    for (const [kind, names] of Object.entries(kinds)) {
      const [told, ...operators] = kind.split(" ");
      const [opset, oldest] = told.split("@");
      const [suite, newest] = group.split("/");
      const span = [release(oldest || newest), release(newest)];
      for (const name of names) {
        index.set(`${group}/${name}`, rows.length);
        rows.push({ group, suite, span, name, column: column(Number(opset)), operators });
      }
    }
  }
  tables[digest] = { rows, index, matches: new Map() };
}

const FIRST = data.opsets[0];
const COLUMNS = ["old", ...Array.from({ length: data.opsets[1] - FIRST + 1 }, (_, i) => String(FIRST + i)), "other"];
const COLUMN_NAMES = { old: `<${FIRST}`, other: "ml" };
const COLUMN_TITLES = { old: `opsets before ${FIRST}`, other: "no default domain: operators of ai.onnx.ml and others" };

function column(opset) {
  if (!opset) return "other";
  return opset < data.opsets[0] ? "old" : String(opset);
}
const columnName = (key) => COLUMN_NAMES[key] || key;
const columnTitle = (key) => COLUMN_TITLES[key] || `opset ${key}`;

const OPERATORS = [
  ...new Set(Object.values(tables).flatMap((table) => table.rows.flatMap((row) => row.operators.map((one) => parts(one).name)))),
].sort();

/** Whether a case has an operator that the text names: exactly, where there is one of this name. */
function matching(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const exact = OPERATORS.filter((name) => name.toLowerCase() === wanted);
  return new Set(exact.length ? exact : OPERATORS.filter((name) => name.toLowerCase().includes(wanted)));
}

// ---- runs and their outcomes

const PYTHON = /-py(\d)(\d+)$/;

class Run {
  constructor(small, key) {
    Object.assign(this, small);
    this.key = key;
    const cell = data.cells[this.cell] || {};
    this.shim = this.cell.startsWith("peer-") ? "peers" : cell.shim || this.shim;
    this.runner = cell.runner || "cpu";
    this.tier = cell.tier || "";
    this.pins = cell.pins || [];
    const [, major, minor] = this.cell.match(PYTHON) || [];
    if (this.versions && !this.pins.length) this.pins = Object.entries(this.versions).map(([name, version]) => `${name}==${version}`);
    this.python = major ? `${major}.${minor}` : this.python || "";
    const rest = this.cell.replace(PYTHON, "").replace(/^[^-]*-/, "");
    this.label = rest.replace(/-/g, " ");
    if (this.versions) this.label += ` ${Object.values(this.versions)[0]}`;
    this.title = this.shim === "peers" ? this.label : `${this.shim} ${this.label}`;
    this.table = tables[this.cases] || null;
  }

  /** By the index of a case: 0 for one that was not run, else one more than that of its outcome. */
  get results() {
    this.decode();
    return this._results;
  }

  /** The details of those that did not pass, by the index of the case. */
  get details() {
    this.decode();
    return this._details;
  }

  /** What had another end in a variant. */
  get variants() {
    this.decode();
    return this._variants;
  }

  decode() {
    if (this._results) return;
    const { rows, index } = this.table || { rows: [], index: new Map() };
    const ran = {};
    for (const group of Object.keys(this.counts || {}).filter((one) => !one.includes("@"))) {
      const [suite, from] = group.split("/");
      (ran[suite] = ran[suite] || []).push(release(from));
    }
    const within = ({ suite, span }) => (ran[suite] || []).some((one) => span[0] <= one && one <= span[1]);
    this._results = Uint8Array.from(rows, (row) => (!this.only && within(row) ? 1 : 0));
    this._details = new Map();
    this._variants = [];
    const told = (groups, value) => {
      for (const [group, names] of Object.entries(groups || {})) {
        for (const name of names) this._results[index.get(`${group}/${name}`)] = value;
      }
    };
    told(this.absent, 0);
    told(this.only, 1);
    for (const { outcome, detail, cases } of this.missed || []) {
      for (const [group, names] of Object.entries(cases)) {
        const [place, variant] = group.split("@");
        for (const name of names) {
          const at = index.get(`${place}/${name}`);
          if (variant) this._variants.push({ at, variant, outcome, detail });
          else {
            this._results[at] = OUTCOMES.indexOf(outcome) + 1;
            this._details.set(at, detail);
          }
        }
      }
    }
  }

  /** Counts by column, of the cases with one of these operators (of all, without). */
  tally(wanted = null) {
    const columns = {};
    const all = none();
    this.each(wanted, (row, outcome) => {
      columns[row.column] = columns[row.column] || none();
      columns[row.column][outcome] += 1;
      all[outcome] += 1;
    });
    return { columns, all };
  }

  each(wanted, visit) {
    const { rows } = this.table || { rows: [] };
    this.results.forEach((result, at) => {
      const row = rows[at];
      if (result && (!wanted || row.operators.some((one) => wanted.has(parts(one).name)))) visit(row, result - 1, at);
    });
  }

  /** Counts, and the cases, of each version of each operator, in one column or in all. */
  operators(key = null, wanted = null) {
    const found = new Map();
    this.each(wanted, (row, outcome, at) => {
      if (key && row.column !== key) return;
      for (const operator of row.operators) {
        const { name } = parts(operator);
        if (wanted && !wanted.has(name)) continue;
        if (!found.has(operator)) found.set(operator, { operator, row: none(), alone: none(), cases: [] });
        const one = found.get(operator);
        one.row[outcome] += 1;
        if (row.operators.length === 1) one.alone[outcome] += 1;
        one.cases.push(at);
      }
    });
    for (const one of found.values()) {
      // A case with this operator alone shows its outcome; in a case with several operators, any of them may be the cause.
      one.outcome = worst(counted(one.alone) ? one.alone : one.row);
    }
    return [...found.values()].sort(
      (a, b) => OUTCOMES.indexOf(b.outcome) % 4 - OUTCOMES.indexOf(a.outcome) % 4 || numbers.compare(a.operator, b.operator),
    );
  }
}

const runs = data.runs.map((small, i) => new Run(small, i < data.newest ? small.cell : `${small.cell}~${small.date}`));
const byKey = new Map(runs.map((run) => [run.key, run]));
const newest = runs.slice(0, data.newest);
const SHIMS = [...new Set(newest.map((run) => run.shim))].sort(
  (a, b) => rank(a) - rank(b) || numbers.compare(a, b),
);
function rank(shim) {
  const at = ["tf1", "tf2", "tflite", "keras", "reference", "peers"].indexOf(shim);
  return at < 0 ? 4.5 : at;
}
newest.sort((a, b) => rank(a.shim) - rank(b.shim) || numbers.compare(b.label, a.label) || numbers.compare(b.python, a.python));

const day = (date) => (date || "").slice(0, 16).replace("T", " ");
const when = (run) => (run.date ? h("time", { datetime: run.date }, `${day(run.date)} UTC`) : null);
