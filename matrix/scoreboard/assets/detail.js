// A cell: its operators at an opset, and the cases of each with their messages.

function showCell(place, [key, at = "all", operator = ""]) {
  const run = byKey.get(key);
  if (!run) {
    put(place, h("h1", { tabindex: "-1" }, "No such cell"), h("p", {}, h("code", {}, key), " has no results here. ", h("a", { href: hash("map") }, "To the map")));
    return;
  }
  const only = at === "all" ? null : at;
  const { columns, all } = run.tally();
  const row = only ? columns[only] || none() : all;
  put(
    place,
    h("p", { class: "back" }, h("a", { href: hash(last.view, [], last.filters) }, last.view === "map" ? "\u2190 Map" : "\u2190 Operators")),
    h("h1", { tabindex: "-1" }, run.title, h("small", {}, ` ${only ? columnTitle(only) : "all opsets"}`)),
    facts(run),
  );
  if (run.state !== "ran") {
    put(place, h("p", { class: `banner ${run.state}` }, h("b", {}, STATES[run.state]), run.reason ? h("span", {}, ` ${run.reason}`) : null));
    return;
  }
  put(
    place,
    opsets(run, only, columns, all),
    h("p", { class: "sum" }, h("b", {}, `${percent(row[0], counted(row))} %`), ` of ${count(counted(row))} cases pass in the framework alone: ${spoken(row)}.`),
    operatorTable(run, only, operator),
    variantTable(run, only),
    only ? "" : suiteTable(run),
  );
}

function facts(run) {
  const told = [
    ["cell", h("code", {}, run.cell)],
    ["Python", run.python],
    ["pins", run.pins.length ? h("code", {}, run.pins.join(" ")) : null],
    ["run", run.date ? [when(run), ` (${age(run.date)})`] : null],
    ["revision", run.revision ? h("code", {}, run.revision) : null],
    ["sample", run.sample],
    ["code since", run.moved ? `${run.moved[0]}${run.moved.length > 1 ? `, such as ${run.moved.slice(1).join(", ")}` : ""}` : run.revision && run.state === "ran" ? "the same" : null],
    ["from", run.source],
    ["kernels of its own", run.natives.length ? run.natives.join(", ") : null],
    ["compare", run.state === "ran" ? h("a", { href: hash("compare", [run.key]) }, "with another") : null],
  ];
  return h("dl", { class: "facts" }, told.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function opsets(run, only, columns, all) {
  const link = (key, row) =>
    counted(row)
      ? h(
          "li",
          {},
          h(
            "a",
            {
              href: hash("cell", [run.key, key || "all"]), class: level(row), "aria-current": (key || null) === only ? "true" : null,
              title: `${key ? columnTitle(key) : "all opsets"}: ${spoken(row)}`,
            },
            h("b", {}, key ? columnName(key) : "all"),
            h("span", {}, shareSign(row), percent(row[0], counted(row))),
          ),
        )
      : null;
  return h("nav", { "aria-label": "Opsets" }, h("ul", { class: `opsets${run.moved ? " moved" : ""}` }, link("", all), COLUMNS.map((key) => link(key, columns[key] || none()))));
}

function operatorTable(run, only, operator) {
  const rows = run.operators(only);
  const natives = new Set(run.natives);
  const body = h("tbody", {});
  const draw = (text) => {
    const wanted = matching(text);
    const shown = rows.filter((one) => !wanted || wanted.has(parts(one.operator).name));
    body.replaceChildren(...shown.flatMap((one) => operatorRows(run, one, natives, shown.length === 1 || parts(one.operator).name === operator)));
    say(`${shown.length} of ${rows.length} operators`);
  };
  const field = operatorField({ operator }, ({ operator: text }) => {
    history.replaceState(null, "", hash("cell", [run.key, only || "all", ...(text ? [text] : [])]));
    draw(text);
  });
  draw(operator);
  return h(
    "section",
    {},
    h("h2", {}, "Operators"),
    h("p", { class: "small" }, "Outcome and counts are those of the cases with this operator alone. In a case beside other operators, any of them may be the cause."),
    h("form", { class: "filters", role: "search", "aria-label": "Filter of operators", onsubmit: (event) => event.preventDefault() }, field),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "rows" },
        h("caption", { class: "unseen" }, "Each version of each operator, the worst first"),
        h(
          "thead",
          {},
          h("tr", {}, ["Operator", "Since", "Outcome", ...OUTCOMES, "beside others"].map((name, i) => h("th", { scope: "col", class: i > 2 ? "number" : null }, name))),
        ),
        body,
      ),
    ),
  );
}

function operatorRows(run, one, natives, open) {
  const { name, since } = parts(one.operator);
  const cases = h("tr", { class: "cases", hidden: !open }, h("td", { colspan: 9 }));
  const fill = () => cases.cells[0].childElementCount || cases.cells[0].append(caseList(run, one.cases));
  if (open) fill();
  const toggle = h(
    "button",
    {
      type: "button", class: "open", "aria-expanded": String(open),
      onclick: () => {
        fill();
        cases.hidden = !cases.hidden;
        toggle.setAttribute("aria-expanded", String(!cases.hidden));
      },
    },
    name,
  );
  const how = one.outcome === "pass" ? (natives.has(name) ? " native" : "") : "";
  return [
    h(
      "tr",
      {},
      h("th", { scope: "row" }, toggle),
      h("td", {}, since || "\u2013"),
      h("td", {}, told(one.outcome), how || !one.isAlone ? h("small", {}, one.isAlone ? how : `${how} beside others`) : null),
      one.row.map((n) => h("td", { class: "number" }, n ? count(n) : h("span", { class: "faint" }, "0"))),
      h("td", { class: "number" }, worst(one.beside) ? [sign(worst(one.beside)), " ", spoken(one.beside)] : h("span", { class: "faint" }, "\u2013")),
    ),
    cases,
  ];
}

function caseList(run, cases) {
  const outcome = (at) => OUTCOMES[run.results[at] - 1];
  const item = (at) => {
    const { name, group, operators } = run.table.rows[at];
    return h(
      "li",
      {},
      sign(outcome(at)),
      h("span", { class: "case" }, h("code", {}, name), h("small", {}, ` ${outcome(at)} \u00b7 ${group}${operators.length > 1 ? ` \u00b7 ${operators.length} operators` : ""}`)),
      run.details.get(at) ? h("code", { class: "error" }, outcome(at) === "fallback" ? "outside of the framework: " : "", run.details.get(at)) : null,
    );
  };
  const not = cases.filter((at) => outcome(at) !== "pass").sort((a, b) => run.results[b] % 5 - run.results[a] % 5);
  const pass = cases.filter((at) => outcome(at) === "pass");
  const list = (ats) => h("ul", { class: "cases" }, ats.map(item));
  const rest = pass.length && h("details", { open: !not.length && pass.length < 9 }, h("summary", {}, `${count(pass.length)} pass`), list(pass));
  return h("div", {}, not.length ? list(not) : null, rest || null);
}

function variantTable(run, only) {
  const rows = run.variants.filter(({ at }) => !only || run.table.rows[at].column === only);
  if (!rows.length) return "";
  return h(
    "section",
    {},
    h("h2", {}, "Other ends in a variant"),
    h("p", { class: "small" }, "The same cases, run with less known of their inputs or without the shim's own kernels; here those that end otherwise than as recorded."),
    h(
      "ul",
      { class: "cases" },
      rows.map(({ at, variant, outcome, detail }) =>
        h("li", {}, sign(outcome), h("span", { class: "case" }, h("code", {}, run.table.rows[at].name), h("small", {}, ` ${outcome} \u00b7 ${variant} \u00b7 ${run.table.rows[at].group}`)), detail ? h("code", { class: "error" }, detail) : null),
      ),
    ),
  );
}

function suiteTable(run) {
  return h(
    "details",
    { class: "suites" },
    h("summary", {}, `Counts by suite and release (${Object.keys(run.counts).length}); a void case is counted as a gap`),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "rows" },
        h("thead", {}, h("tr", {}, ["Suite, release, variant", ...OUTCOMES.slice(0, 4)].map((name, i) => h("th", { scope: "col", class: i ? "number" : null }, name)))),
        h("tbody", {}, Object.entries(run.counts).map(([suite, found]) => h("tr", {}, h("th", { scope: "row" }, suite), OUTCOMES.slice(0, 4).map((name) => h("td", { class: "number" }, count(found[name])))))),
      ),
    ),
  );
}
