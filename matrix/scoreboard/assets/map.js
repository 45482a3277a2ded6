// The heat map: cells by opsets.

const STATE_FILTERS = {
  "": "any",
  fail: "with a fail",
  gap: "with a gap",
  fallback: "with a fallback",
  pass: "all in the framework",
  broken: "broken",
  "no-gpu": "no GPU found",
  none: "not run yet",
};

function showMap(place, filters, refresh) {
  const wanted = matching(filters.operator);
  const shown = newest
    .filter((run) => !filters.framework || run.shim === filters.framework)
    .map((run) => ({ run, ...run.tally(wanted) }))
    .filter(({ run, all }) => inState(run, all, filters.state));
  put(
    place,
    h("h1", { tabindex: "-1" }, "What runs where"),
    h("p", { class: "lead" }, "Recorded ONNX cases by the opset of their models, in every environment of the matrix: the share in percent that gives the right answer in the framework alone. A cell of the map opens its operators and cases."),
    filterForm(filters, refresh),
    wanted && !wanted.size ? h("p", { class: "empty" }, `No case has an operator "${filters.operator}".`) : null,
    shown.length ? mapTable(shown, wanted) : h("p", { class: "empty" }, "No cell is like this."),
    mapLegend(),
  );
  say(`${shown.length} of ${newest.length} cells`);
}

function inState(run, all, state) {
  if (!state) return true;
  if (state in STATES) return run.state === state;
  if (run.state !== "ran") return false;
  return state === "pass" ? all[0] > 0 && counted(all) === all[0] : all[OUTCOMES.indexOf(state)] > 0;
}

function filterForm(filters, refresh) {
  const choose = (name, label, options) =>
    h(
      "label",
      {},
      h("span", {}, label),
      h(
        "select",
        { name, onchange: (event) => refresh({ [name]: event.target.value }) },
        Object.entries(options).map(([value, text]) => h("option", { value, selected: filters[name] === value }, text)),
      ),
    );
  return h(
    "form",
    { class: "filters", role: "search", "aria-label": "Filters", onsubmit: (event) => event.preventDefault() },
    choose("framework", "Framework", { "": "all", ...Object.fromEntries(SHIMS.map((shim) => [shim, shimName(shim)])) }),
    operatorField(filters, refresh),
    choose("state", "State", STATE_FILTERS),
    h("button", { type: "button", onclick: () => refresh({ framework: "", operator: "", state: "" }) }, "Clear"),
  );
}

function mapTable(shown, wanted) {
  const used = COLUMNS.filter((key) => shown.some(({ columns }) => columns[key]) || !["old", "other"].includes(key));
  const head = h(
    "tr",
    {},
    h("th", { scope: "col", class: "corner" }, "Cell"),
    h("th", { scope: "col", title: "all opsets" }, "all"),
    used.map((key) => h("th", { scope: "col", title: columnTitle(key) }, columnName(key))),
  );
  const bodies = SHIMS.map((shim) => {
    const its = shown.filter(({ run }) => run.shim === shim);
    if (!its.length) return null;
    const ran = its.filter(({ run }) => run.state === "ran").length;
    return h(
      "tbody",
      {},
      h(
        "tr",
        { class: "group" },
        h("th", { scope: "rowgroup", colspan: used.length + 2 }, h("span", {}, shimName(shim), h("small", {}, ` ${ran} of ${its.length} ran`))),
      ),
      its.map((one) => mapRow(one, used, wanted)),
    );
  });
  const table = h(
    "table",
    { class: "map", role: "grid", "aria-label": "Share of cases that pass, by cell and opset" },
    h("thead", {}, head),
    bodies,
  );
  walkable(table);
  return h("div", { class: "scroll", tabindex: "-1" }, table);
}

function mapRow({ run, columns, all }, used, wanted) {
  const label = h(
    "th",
    { scope: "row", "data-cell": run.cell, title: [run.cell, day(run.date), staleness(run)].filter(Boolean).join("; ") },
    h("a", { href: detailHash(run, "", wanted), tabindex: "-1" }, h("b", {}, run.label), h("small", {}, ` py${run.python}${run.runner === "gpu" ? " gpu" : ""}`), ageNote(run), sampleTag(run)),
  );
  if (run.state !== "ran") {
    const name = STATE_NAMES[run.state] || run.state;
    const text = run.reason ? `: ${run.reason}` : "";
    return h(
      "tr",
      { class: `state ${run.state}` },
      label,
      h(
        "td",
        { colspan: used.length + 1 },
        h("a", { href: detailHash(run, "", wanted), tabindex: "-1", title: name + text }, h("span", { class: "sign" }, STATE_SIGNS[run.state] || "?"), " ", h("b", {}, name), text),
      ),
    );
  }
  return h("tr", { class: run.moved ? "moved" : null }, label, mapCell(run, "", all, wanted), used.map((key) => mapCell(run, key, columns[key] || none(), wanted)));
}

function mapCell(run, key, row, wanted) {
  const all = counted(row);
  if (!all) return h("td", { class: "nothing" }, h("span", { class: "unseen" }, "no case"));
  const label = `${run.title}, ${key ? columnTitle(key) : "all opsets"}: ${percent(row[0], all)} percent; ${spoken(row)}`;
  return h(
    "td",
    { class: level(row) },
    h(
      "a",
      { href: detailHash(run, key, wanted), tabindex: "-1", "aria-label": label, title: label },
      h("span", { class: "share" }, shareSign(row), percent(row[0], all)),
      shares(row),
    ),
  );
}

function detailHash(run, key, wanted) {
  const [only] = wanted && wanted.size === 1 ? wanted : [];
  return hash("cell", [run.key, key || "all", ...(only ? [only] : [])]);
}

/** One stop for Tab, and arrows from there: a grid as the practices of ARIA have it. */
function walkable(table) {
  const rows = [...table.rows].map((row) => [...row.querySelectorAll("a")]).filter((links) => links.length);
  const first = rows[0] && rows[0][0];
  if (first) first.tabIndex = 0;
  const go = (from, to) => {
    if (!to) return;
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
    to.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const place = (link) => [...link.closest("tr").cells].indexOf(link.closest("td, th"));
  const nearest = (links, at) => links.reduce((best, link) => (Math.abs(place(link) - at) < Math.abs(place(best) - at) ? link : best));
  table.addEventListener("focusin", (event) => {
    table.querySelectorAll('a[tabindex="0"]').forEach((link) => (link.tabIndex = -1));
    event.target.tabIndex = 0;
  });
  table.addEventListener("keydown", (event) => {
    const link = event.target;
    const y = rows.findIndex((links) => links.includes(link));
    if (y < 0 || event.altKey || event.metaKey) return;
    const links = rows[y];
    const x = links.indexOf(link);
    const vertical = (to) => nearest(rows[Math.max(0, Math.min(rows.length - 1, to))], place(link));
    const moves = {
      ArrowRight: () => links[x + 1],
      ArrowLeft: () => links[x - 1],
      ArrowDown: () => vertical(y + 1),
      ArrowUp: () => vertical(y - 1),
      PageDown: () => vertical(y + 10),
      PageUp: () => vertical(y - 10),
      Home: () => (event.ctrlKey ? rows[0][0] : links[0]),
      End: () => (event.ctrlKey ? rows[rows.length - 1].slice(-1)[0] : links[links.length - 1]),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    go(link, moves[event.key]());
  });
}

function mapLegend() {
  return [legend(), h("p", { class: "small" }, "Keys: arrows, Home, End and Page Up/Down walk through the map, Enter opens, Escape goes back, / is the operator.")];
}
