// The results of all cases, which are parsed when a view first needs them, and the runs.

let parsed = null;
/** The cases by file, the results of each run, and the history. */
function results() {
  if (!parsed) {
    parsed = JSON.parse(document.getElementById("results").textContent);
    parsed.tables = {};
  }
  return parsed;
}

/** As a number that is greater for a newer one. */
function release(text) {
  return text.split(".").reduce((sum, part) => sum * 1000 + (Number(part) || 0), 0);
}

/** The cases of a file, in the order of their indices. */
function table(digest) {
  const { tables, cases } = results();
  if (tables[digest]) return tables[digest];
  const rows = [];
  const index = new Map();
  for (const [group, kinds] of Object.entries(cases[digest])) {
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
  return (tables[digest] = { rows, index });
}

const OPSETS = Object.values(data.releases);
const FIRST = Math.min(...OPSETS);
const COLUMNS = ["old", ...Array.from({ length: Math.max(...OPSETS) - FIRST + 1 }, (_, i) => String(FIRST + i)), "other"];
const COLUMN_NAMES = { old: `<${FIRST}`, other: "ml" };
const COLUMN_TITLES = { old: `opsets before ${FIRST}`, other: "no default domain: operators of ai.onnx.ml and others" };

function column(opset) {
  if (!opset) return "other";
  return opset < FIRST ? "old" : String(opset);
}
const columnName = (key) => COLUMN_NAMES[key] || key;
const columnTitle = (key) => COLUMN_TITLES[key] || `opset ${key}`;

// ---- runs and their outcomes

const PYTHON = /-py(\d)(\d+)$/;

class Run {
  constructor(about, at) {
    Object.assign(this, about);
    this.at = at;
    this.key = at < data.newest ? this.cell : `${this.cell}~${this.date}`;
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
  }

  /** The results in packed form: counts by suite, and cases by their index. */
  get packed() {
    return results().runs[this.at];
  }

  get table() {
    return this.packed.cases ? table(this.packed.cases) : null;
  }

  get natives() {
    return this.packed.natives || [];
  }

  get counts() {
    return this.packed.counts || {};
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
    const { rows } = this.table || { rows: [] };
    const { only, absent = [], missed = [] } = this.packed;
    const ran = {};
    for (const group of Object.keys(this.counts).filter((one) => !one.includes("@"))) {
      const [suite, from] = group.split("/");
      (ran[suite] = ran[suite] || []).push(release(from));
    }
    const within = ({ suite, span }) => (ran[suite] || []).some((one) => span[0] <= one && one <= span[1]);
    this._results = Uint8Array.from(rows, (row) => (!only && within(row) ? 1 : 0));
    this._details = new Map();
    this._variants = [];
    for (const at of absent) this._results[at] = 0;
    for (const at of only || []) this._results[at] = 1;
    for (const [outcome, detail, cases] of missed) {
      for (const [variant, ats] of Object.entries(cases)) {
        for (const at of ats) {
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

  /**
   * The cases of each version of each operator, in one column or in all. `row` counts those that decide the outcome: the
   * cases with this operator alone, or all, if there is none. `beside` counts the others: another operator may be the cause.
   */
  operators(key = null, wanted = null) {
    const found = new Map();
    this.each(wanted, (row, outcome, at) => {
      if (key && row.column !== key) return;
      for (const operator of row.operators) {
        const { name } = parts(operator);
        if (wanted && !wanted.has(name)) continue;
        if (!found.has(operator)) found.set(operator, { operator, alone: none(), among: none(), cases: [] });
        const one = found.get(operator);
        (row.operators.length === 1 ? one.alone : one.among)[outcome] += 1;
        one.cases.push(at);
      }
    });
    for (const one of found.values()) {
      one.isAlone = worst(one.alone) !== "";
      one.row = one.isAlone ? one.alone : one.among;
      one.beside = one.isAlone ? one.among : none();
      one.outcome = worst(one.row);
    }
    return [...found.values()].sort(
      (a, b) => OUTCOMES.indexOf(b.outcome) % 4 - OUTCOMES.indexOf(a.outcome) % 4 || numbers.compare(a.operator, b.operator),
    );
  }
}

const runs = data.runs.map((about, at) => new Run(about, at));
const byKey = new Map(runs.map((run) => [run.key, run]));
const lines = data.lines.map((line) => ({ ...line, shim: line.shim === "peer" ? "peers" : line.shim, runs: line.runs.map((at) => runs[at]) }));
/** The newest run of each cell, line by line, the newest version first. */
const newest = lines.flatMap((line) => line.runs);
const SHIMS = [...new Set(lines.map((line) => line.shim))];
