// Cards of lines: the versions of one framework, as ranges with the same results.

const NEWEST_OPSET = Math.max(...Object.values(data.releases));

/** The newest release of onnx whose opset is not newer. */
function releaseOf(opset) {
  const known = Object.entries(data.releases).filter(([, newest]) => newest <= opset);
  return known.length ? known[known.length - 1][0] : "";
}

const lineName = (line) => (line.shim === "peers" ? line.name : [shimName(line.shim), line.name.replace(/-/g, " ")].filter(Boolean).join(" "));

/** From `[number of runs, counts ...]`: the runs of each range, the names of its oldest and newest version, and the counts. */
function rangesOf(line, packed) {
  let start = 0;
  return packed.map(([size, ...counts]) => {
    const [from, to] = [start, (start += size)];
    const [newest, oldest] = [versionName(line, from, from, to), versionName(line, to - 1, from, to)];
    return { runs: line.runs.slice(from, to), versions: newest === oldest ? newest : `${oldest} \u2013 ${newest}`, row: none().map((_, i) => counts[i] || 0) };
  });
}

/** The version of a run, with its Python if another range has the same version. */
function versionName(line, at, from, to) {
  const version = line.versions[at];
  const isShared = line.versions.some((other, i) => other === version && (i < from || i >= to));
  return isShared || !version ? [version, `py${line.pythons[at]}`].filter(Boolean).join(" ") : version;
}

/** The age of a run, or of several; and whether the code has moved since. */
function ageNote(...its) {
  const dated = its.filter((run) => run.date).sort((a, b) => (a.date < b.date ? 1 : -1));
  if (!dated.length) return null;
  const ages = [...new Set([dated[0], dated[dated.length - 1]].map((run) => age(run.date)))];
  const moved = its.filter((run) => run.moved).length;
  const since = moved === its.length ? "code moved" : moved ? `code moved for ${moved} of ${its.length}` : "";
  return h("small", { class: "age", title: staleness(dated[dated.length - 1]) || null }, [ages.join(" to "), since].filter(Boolean).join(", "));
}

/** A range as a link to its newest run. `prefix`: the name of its line. Of an operator, the outcome; else the counts. */
function rangeItem(range, { operator = "", prefix = "" } = {}) {
  const [run] = range.runs;
  const name = h("span", {}, prefix ? `${prefix} ` : "", h("b", { class: "versions" }, range.versions));
  const href = hash("cell", [run.key, "all", ...(operator ? [operator] : [])]);
  const cells = range.runs.map((one) => one.cell).join(", ");
  const pair = (...children) => h("span", { class: "pair" }, ...children);
  if (run.state !== "ran") {
    const text = h("span", {}, h("span", { class: "sign" }, STATE_SIGNS[run.state] || "?"), " ", STATE_NAMES[run.state] || run.state);
    return h("li", { class: "range state" }, h("a", { href, title: [cells, run.reason].filter(Boolean).join(": ") }, pair(name, text)));
  }
  const outcome = worst(range.row);
  const all = counted(range.row);
  const moved = range.runs.every((one) => one.moved);
  const share = h("small", { class: "of" }, !all ? spoken(range.row) : operator ? `${percent(range.row[0], all)} % of ${count(all)}` : spoken(range.row));
  const told = operator && h("span", { class: "outcome" }, outcome ? [h("span", { class: "sign" }, SIGNS[outcome]), " ", outcome] : "no case");
  return h("li", { class: `range ${level(range.row)}${moved ? " moved" : ""}` }, h("a", { href, title: `${cells}: ${spoken(range.row)}` }, pair(name, told || null), pair(share, ageNote(...range.runs))));
}

const sampleTag = (run) => (run && run.sample ? h("span", { class: "tag", title: "only a part of the cases was run" }, `sample: ${run.sample}`) : null);
const newestRan = (line) => line.runs.find((run) => run.state === "ran");
const ofOperator = (line, name) => data.operators[name][1 + lines.indexOf(line)];

/** A line: its share of a common set of cases, then its ranges over all its cases. */
function lineCard(line, set) {
  const run = newestRan(line);
  return h("li", { class: "card" }, h("h3", {}, lineName(line), " ", sampleTag(run)), shareText(line, run, set), h("ul", { class: "ranges" }, rangesOf(line, line.ranges).map((range) => rangeItem(range))));
}

/** The ranges of the lines of a framework, or of a peer, for one operator. */
function operatorCard(title, its, operator) {
  const ranges = its.flatMap((line) => rangesOf(line, ofOperator(line, operator)).map((range) => rangeItem(range, { operator, prefix: its[0].shim === "peers" ? "" : line.name.replace(/-/g, " ") })));
  return h("li", { class: "card" }, h("h3", {}, title, " ", its.length === 1 ? sampleTag(newestRan(its[0])) : null), h("ul", { class: "ranges" }, ranges));
}

/** The share of the common cases whose opset the newest run of a line can read, then that of all. */
function shareText(line, run, set) {
  const [readable, whole] = line.shares[set];
  const common = data.common[set];
  const all = counted(readable);
  if (!all) return h("p", { class: "small" }, common ? "It reads none of the common cases." : "The runs have no common cases.");
  const reads = line.opset < NEWEST_OPSET;
  return h(
    "div",
    { class: `share-of-common${run.moved ? " moved" : ""}` },
    h("p", { class: "big" }, percent(readable[0], all), h("small", {}, " %")),
    shares(readable),
    h("p", { class: "small" }, `${count(readable[0])} of ${count(all)} common cases`, reads ? ` up to opset ${line.opset} (onnx ${releaseOf(line.opset)}), the newest that it reads` : ""),
    reads ? h("p", { class: "small" }, `${percent(whole[0], counted(whole))} % of all ${count(counted(whole))}`) : null,
    readable[1] ? h("p", { class: "small" }, `${percent(right(readable), all)} % right with fallbacks`) : null,
    counted(whole) < common ? h("p", { class: "small" }, `It ran ${count(counted(whole))} of the ${count(common)} common cases.`) : null,
  );
}

function legend() {
  return h(
    "section",
    { class: "legend", "aria-label": "Legend" },
    h("dl", {}, OUTCOMES.map((name) => [h("dt", {}, told(name)), h("dd", {}, MEANINGS[name])])),
    h(
      "ul",
      { class: "levels" },
      LEVELS.map((text, i) => h("li", {}, h("span", { class: `swatch level${i}` }), text)).reverse(),
      h("li", { class: "moved" }, h("span", { class: "swatch level5" }), "greyed: the code has moved since the run"),
    ),
  );
}
