// The totals of all recorded runs, a line for each cell.

const WIDE = 240;
const HIGH = 56;

function showHistory(place, filters, refresh) {
  const lines = new Map();
  for (const one of results().history) {
    if (!lines.has(one.cell)) lines.set(one.cell, []);
    lines.get(one.cell).push(one);
  }
  const shown = newest.filter((run) => lines.has(run.cell) && (!filters.framework || run.shim === filters.framework));
  put(
    place,
    h("h1", { tabindex: "-1" }, "Across the runs"),
    h("p", { class: "lead" }, "Of every recorded run of a cell, the share of the cases that pass in the framework alone (line), and that give the right answer (dashed)."),
    h(
      "form",
      { class: "filters", "aria-label": "Filters", onsubmit: (event) => event.preventDefault() },
      h(
        "label",
        {},
        h("span", {}, "Framework"),
        h("select", { name: "framework", onchange: (event) => refresh({ framework: event.target.value }) }, ["", ...SHIMS].map((shim) => h("option", { value: shim, selected: shim === filters.framework }, shim ? shimName(shim) : "all"))),
      ),
    ),
    shown.length ? h("ul", { class: "charts" }, shown.map((run) => h("li", {}, chart(run, lines.get(run.cell))))) : h("p", { class: "empty" }, "No run was recorded."),
  );
}

function chart(run, lines) {
  const ran = lines.filter((line) => line.found.length && counted(line.found));
  const heading = h("h2", {}, h("a", { href: hash("cell", [run.key, "all"]) }, run.title), h("small", {}, ` py${run.python}`));
  if (!ran.length) return h("figure", {}, heading, h("figcaption", {}, `${STATES[lines[lines.length - 1].state]}; ${day(lines[lines.length - 1].date)}`));
  const shares = ran.map(({ found }) => [found[0] / counted(found), right(found) / counted(found)]);
  const low = Math.min(...shares.flat(), 0.995);
  const x = (i) => 6 + (ran.length > 1 ? (i * (WIDE - 12)) / (ran.length - 1) : (WIDE - 12) / 2);
  const y = (share) => 6 + ((1 - share) / (1 - low)) * (HIGH - 12);
  const line = (k) => ran.map((_, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(shares[i][k]).toFixed(1)}`).join("");
  const last = ran[ran.length - 1];
  const before = ran[ran.length - 2];
  const text = `${percent(last.found[0], counted(last.found))} % of ${count(counted(last.found))}`;
  if (!before) return h("figure", {}, heading, h("figcaption", {}, h("b", {}, text), ` one run \u00b7 ${day(last.date).slice(0, 10)}`));
  const change = signed(last.found[0] - before.found[0]);
  return h(
    "figure",
    {},
    heading,
    h(
      "svg",
      { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${run.title}: ${ran.length} runs, the last ${text}` },
      h("line", { class: "axis", x1: 0, x2: WIDE, y1: y(1), y2: y(1) }),
      h("line", { class: "axis", x1: 0, x2: WIDE, y1: y(low), y2: y(low) }),
      h("path", { class: "right", d: line(1) }),
      h("path", { class: "native", d: line(0) }),
      ran.map((one, i) => h("circle", { cx: x(i), cy: y(shares[i][0]), r: 3 }, h("title", {}, `${day(one.date)} ${one.revision}: ${spoken(one.found)}`))),
    ),
    h("figcaption", {}, h("b", {}, text), ` ${change} \u00b7 ${ran.length} runs to ${day(last.date).slice(0, 10)}`, h("small", {}, `from ${(100 * low).toFixed(1)} to 100 %`)),
  );
}
