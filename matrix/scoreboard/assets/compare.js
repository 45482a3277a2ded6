// Comparison of two runs: differences of counts, operators and cases.

function showCompare(place, [first = "", second = ""]) {
  const able = [...newest, ...runs.slice(data.newest)].filter((run) => run.state === "ran" && run.table);
  const a = byKey.get(first) || able[0];
  const b = byKey.get(second) || able.find((run) => run !== a && run.shim === (a && a.shim)) || able.find((run) => run !== a);
  put(place, h("h1", { tabindex: "-1" }, "Two runs side by side"));
  if (!a || !b) {
    put(place, h("p", { class: "empty" }, "There are no two runs with results."));
    return;
  }
  const go = (to) => location.assign(hash("compare", to));
  const choice = (name, run, change) =>
    h(
      "label",
      {},
      h("span", {}, name),
      h(
        "select",
        { name, onchange: (event) => change(event.target.value) },
        SHIMS.map((shim) => {
          const its = able.filter((one) => one.shim === shim);
          return its.length
            ? h("optgroup", { label: shimName(shim) }, its.map((one) => h("option", { value: one.key, selected: one === run }, `${one.title} py${one.python}${one.key.includes("~") ? `, ${day(one.date)}` : ""}`)))
            : null;
        }),
      ),
    );
  put(
    place,
    h(
      "form",
      { class: "filters", "aria-label": "Runs to compare", onsubmit: (event) => event.preventDefault() },
      choice("A", a, (key) => go([key, b.key])),
      choice("B", b, (key) => go([a.key, key])),
      h("button", { type: "button", onclick: () => go([b.key, a.key]) }, "Swap"),
    ),
    totals(a, b),
    operatorDifferences(a, b),
    caseDifferences(a, b),
  );
}

const signed = (n) => (n > 0 ? `+${count(n)}` : n < 0 ? `\u2212${count(-n)}` : "\u00b1 0");

function totals(a, b) {
  const [left, other] = [none(), none()];
  const common = both(a, b);
  for (const { from, to } of common) {
    left[OUTCOMES.indexOf(from)] += 1;
    other[OUTCOMES.indexOf(to)] += 1;
  }
  const extra = [a, b].map((run) => run.tally().all.reduce((sum, n) => sum + n, 0) - common.length);
  const line = (name, run, row) =>
    h("tr", {}, h("th", { scope: "row" }, h("a", { href: hash("cell", [run.key, "all"]) }, `${name}: ${run.title}`), h("small", {}, ` py${run.python}, ${day(run.date).slice(0, 10)}`)), h("td", { class: "number" }, `${percent(row[0], counted(row))} %`), row.slice(0, 4).map((n) => h("td", { class: "number" }, count(n))));
  const table = h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "rows" },
      h("caption", { class: "unseen" }, "Counts of both, of the cases that both ran"),
      h("thead", {}, h("tr", {}, ["Run", "share", ...OUTCOMES.slice(0, 4)].map((name, i) => h("th", { scope: "col", class: i ? "number" : null }, name)))),
      h("tbody", {}, line("A", a, left), line("B", b, other), h("tr", { class: "difference" }, h("th", { scope: "row" }, "B \u2212 A"), h("td", {}), left.slice(0, 4).map((n, i) => h("td", { class: "number" }, signed(other[i] - n))))),
    ),
  );
  const note = `Of the ${count(common.length)} cases that both ran; only A ran ${count(extra[0])} more, only B ${count(extra[1])}.`;
  return [table, h("p", { class: "small" }, note)];
}

/** Only what both ran is compared. */
function both(a, b) {
  const common = [];
  const rows = a.table.rows;
  a.results.forEach((result, at) => {
    const row = rows[at];
    const there = a.table === b.table ? at : b.table.index.get(`${row.group}/${row.name}`);
    if (result && there !== undefined && b.results[there]) common.push({ row, at, there, from: OUTCOMES[result - 1], to: OUTCOMES[b.results[there] - 1] });
  });
  return common;
}

function operatorDifferences(a, b) {
  const found = new Map();
  for (const { row, from, to } of both(a, b)) {
    for (const operator of row.operators) {
      if (!found.has(operator)) found.set(operator, { operator, alone: [none(), none()], all: [none(), none()] });
      for (const kind of row.operators.length === 1 ? ["alone", "all"] : ["all"]) {
        const pair = found.get(operator)[kind];
        pair[0][OUTCOMES.indexOf(from)] += 1;
        pair[1][OUTCOMES.indexOf(to)] += 1;
      }
    }
  }
  const rows = [...found.values()]
    .map(({ operator, alone, all }) => ({ operator, rows: worst(alone[0]) ? alone : all })) // outcome and counts are of the same cases
    .filter(({ rows }) => rows[0].some((n, i) => n !== rows[1][i]))
    .sort((x, y) => numbers.compare(x.operator, y.operator));
  const name = (one) => `${parts(one.operator).name}`;
  return h(
    "section",
    {},
    h("h2", {}, "Operators", h("small", {}, ` ${rows.length} differ`)),
    rows.length
      ? h(
          "div",
          { class: "scroll" },
          h(
            "table",
            { class: "rows" },
            h("thead", {}, h("tr", {}, ["Operator", "Since", "A", "B", "pass", "fallback", "gap", "fail"].map((text, i) => h("th", { scope: "col", class: i > 3 ? "number" : null }, text)))),
            h(
              "tbody",
              {},
              rows.map((one) =>
                h(
                  "tr",
                  {},
                  h("th", { scope: "row" }, name(one)),
                  h("td", {}, parts(one.operator).since || "\u2013"),
                  [a, b].map((run, i) => h("td", {}, h("a", { href: hash("cell", [run.key, "all", name(one)]) }, told(worst(one.rows[i]))))),
                  [0, 1, 2, 3].map((i) => h("td", { class: "number" }, one.rows[0][i] === one.rows[1][i] ? h("span", { class: "faint" }, "\u00b7") : signed(one.rows[1][i] - one.rows[0][i]))),
                ),
              ),
            ),
          ),
        )
      : h("p", { class: "empty" }, "Every operator does the same in both."),
  );
}

function caseDifferences(a, b) {
  const rows = both(a, b).filter(({ from, to }) => from !== to);
  return h(
    "section",
    {},
    h("h2", {}, "Cases", h("small", {}, ` ${count(rows.length)} end otherwise`)),
    h(
      "ul",
      { class: "cases" },
      rows.map(({ row, at, there, from, to }) =>
        h(
          "li",
          {},
          sign(to),
          h("span", { class: "case" }, h("code", {}, row.name), h("small", {}, ` ${from} \u2192 ${to} \u00b7 ${row.group}`)),
          a.details.get(at) ? h("code", { class: "error" }, `A: ${a.details.get(at)}`) : null,
          b.details.get(there) ? h("code", { class: "error" }, `B: ${b.details.get(there)}`) : null,
        ),
      ),
    ),
  );
}
