// The first view: a search for an operator, and the ranges of versions whose results are the same.

const SETS = { "": 0, sample: 1 };

function showOperators(place, filters, refresh) {
  const wanted = matching(filters.operator);
  const shown = lines.filter((line) => !filters.framework || line.shim === filters.framework);
  put(
    place,
    h("h1", { tabindex: "-1" }, "Which versions run an operator"),
    h("p", { class: "lead" }, "Results of recorded ONNX cases. Versions are one range if every case that two of them ran ended the same."),
    searchForm(filters, refresh, !wanted),
  );
  if (!wanted) overview(place, shown, SETS[filters.cases] || 0);
  else if (!wanted.size) put(place, h("p", { class: "empty" }, `No case has an operator "${filters.operator}".`));
  else if (wanted.size === 1) oneOperator(place, shown, [...wanted][0]);
  else put(place, h("h2", {}, `${wanted.size} operators`), operatorTables(shown, [...wanted]));
  put(place, legend());
  say(wanted ? `${wanted.size} of ${OPERATORS.length} operators` : `${OPERATORS.length} operators`);
}

function searchForm(filters, refresh, choosesSet) {
  const select = (name, label, options) =>
    h(
      "label",
      {},
      h("span", {}, label),
      h("select", { name, onchange: (event) => refresh({ [name]: event.target.value }) }, options.map(([value, text]) => h("option", { value, selected: filters[name] === value }, text))),
    );
  const [full, sampled] = data.common;
  return h(
    "form",
    { class: "filters search", role: "search", "aria-label": "Search", onsubmit: (event) => event.preventDefault() },
    operatorField(filters, refresh, { placeholder: "Conv, Resize, LSTM \u2026" }),
    select("framework", "Framework", [["", "all"], ...SHIMS.map((shim) => [shim, shimName(shim)])]),
    choosesSet && sampled && sampled !== full
      ? select("cases", "Common cases", [["", `${count(full)}, of all full runs`], ["sample", `${count(sampled)}, of samples too`]])
      : null,
  );
}

function overview(place, shown, set) {
  const ran = shown.filter(newestRan);
  const section = (title, text, its) => (its.length ? h("section", {}, h("h2", {}, title), h("p", { class: "small" }, text), h("ul", { class: "cards" }, its.map((line) => lineCard(line, set)))) : null);
  const list = h("details", { class: "list" }, h("summary", {}, `All ${OPERATORS.length} operators, in the newest version of each`));
  list.addEventListener("toggle", () => list.childElementCount > 1 || list.append(operatorTables(shown, OPERATORS)));
  put(
    place,
    section("Frameworks", "The share of the common cases that pass in the framework alone, in the newest version; then the ranges of versions, over all their cases.", ran.filter((line) => line.shim !== "peers")),
    section("Peers", "Other projects on the same cases, judged in the same way. A share counts the opsets that the project can read.", ran.filter((line) => line.shim === "peers")),
    withoutResults(shown.filter((line) => !newestRan(line))),
    list,
  );
}

function withoutResults(its) {
  const links = its.flatMap((line) => line.runs.map((run) => h("li", {}, h("a", { href: hash("cell", [run.key, "all"]) }, run.title), `: ${STATE_NAMES[run.state] || run.state}`)));
  return links.length ? h("section", { class: "without" }, h("h2", {}, "Without results"), h("ul", {}, links)) : null;
}

function oneOperator(place, shown, name) {
  const [isAlone] = data.operators[name];
  const related = OPERATORS.filter((other) => other !== name && plain(other).toLowerCase().includes(plain(name).toLowerCase()));
  const absent = shown.filter((line) => !ofOperator(line, name));
  put(
    place,
    h("h2", {}, h("code", {}, name), h("small", {}, isAlone ? " in cases without another operator" : " only in cases with other operators, which may be the cause")),
    related.length ? h("p", { class: "small" }, "See also: ", related.map((other, i) => [i ? ", " : "", h("a", { href: hash("operators", [], { operator: other }) }, other)])) : null,
    h("ul", { class: "cards" }, cardGroups(shown.filter((line) => ofOperator(line, name))).map(([title, its]) => operatorCard(title, its, name))),
    absent.length ? h("p", { class: "small" }, `No case of it was run in: ${absent.map(lineName).join(", ")}.`) : null,
  );
}

/** The lines of each framework, and each peer by itself, with a title. */
function cardGroups(its) {
  const groups = new Map();
  for (const line of its) {
    const title = line.shim === "peers" ? line.name : shimName(line.shim);
    groups.set(title, [...(groups.get(title) || []), line]);
  }
  return [...groups];
}

/** Operators by lines: the outcome in the newest version that ran. */
function operatorTables(shown, names) {
  const columns = shown.filter(newestRan);
  const body = h("tbody", {}, names.map((name) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: hash("operators", [], { operator: name }) }, name)), columns.map((line) => operatorCell(line, name)))));
  const head = h("tr", {}, h("th", { scope: "col", class: "corner" }, "Operator"), columns.map((line) => h("th", { scope: "col" }, lineName(line))));
  return h("div", { class: "scroll" }, h("table", { class: "outcomes" }, h("caption", { class: "unseen" }, "Outcome of each operator in the newest version of each framework"), h("thead", {}, head), body));
}

function operatorCell(line, name) {
  const packed = ofOperator(line, name);
  const range = packed ? rangesOf(line, packed).find(({ row }) => worst(row)) : null;
  if (!range) return h("td", { class: "nothing" }, h("span", { class: "unseen" }, "no case"));
  const outcome = worst(range.row);
  const moved = range.runs.every((run) => run.moved);
  return h("td", { class: `${level(range.row)}${moved ? " moved" : ""}`, title: `${lineName(line)} ${range.versions}: ${spoken(range.row)}` }, h("span", { class: "sign" }, SIGNS[outcome]), h("span", { class: "unseen" }, outcome));
}
