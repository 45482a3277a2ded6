// Choice of the view: the part of the address after # holds its whole state, so that it can be shared.

const FILTERS = ["framework", "operator", "state", "cases"];

function hash(view, path = [], filters = {}) {
  const told = FILTERS.filter((name) => filters[name]).map((name) => `${name}=${encodeURIComponent(filters[name])}`);
  return `#/${[view, ...path.map(encodeURIComponent)].join("/")}${told.length ? `?${told.join("&")}` : ""}`;
}

function where() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/").map(decoded);
  const told = new URLSearchParams(query);
  return { view: VIEWS[view] ? view : "operators", rest, filters: Object.fromEntries(FILTERS.map((name) => [name, told.get(name) || ""])) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // the address was edited or truncated
  }
}

const LISTS = ["operators", "map"];
const VIEWS = {
  operators: (place, rest, filters, refresh) => showOperators(place, filters, refresh),
  map: (place, rest, filters, refresh) => showMap(place, filters, refresh),
  cell: (place, rest) => showCell(place, rest),
  compare: (place, rest) => showCompare(place, rest),
  history: (place, rest, filters, refresh) => showHistory(place, filters, refresh),
};

/** The list from which a cell was opened, and its filters. */
let last = { view: "operators", filters: {} };
let came = null;

function say(text) {
  document.getElementById("said").textContent = text;
}

/** Draw the view; what had the focus has it again, where it is still there. */
function draw(moved) {
  const { view, rest, filters } = where();
  const main = document.getElementById("main");
  const active = document.activeElement;
  const kept = !moved && active && active.name ? { name: active.name, at: active.selectionStart } : null;
  const scroll = main.querySelector(".scroll");
  const left = scroll ? scroll.scrollLeft : 0;
  const refresh = (change) => {
    history.replaceState(null, "", hash(view, rest, { ...filters, ...change }));
    draw(false);
  };
  if (LISTS.includes(view)) last = { view, filters };
  main.replaceChildren();
  VIEWS[view](main, rest, filters, refresh);
  document.querySelectorAll("header nav a").forEach((link) => {
    const here = link.getAttribute("href") === `#/${view === "cell" ? last.view : view}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  const heading = main.querySelector("h1");
  document.title = `${heading.textContent} \u00b7 onnx-compat scoreboard`;
  if (kept) {
    const field = main.querySelector(`[name="${kept.name}"]`);
    if (field) field.focus();
    if (field && typeof kept.at === "number" && field.type === "search") field.setSelectionRange(kept.at, kept.at);
    if (main.querySelector(".scroll")) main.querySelector(".scroll").scrollLeft = left;
  } else if (moved) {
    // Back in the list: focus the link that was opened.
    const opened = LISTS.includes(view) && came && [...main.querySelectorAll(".map a, .range a")].find((link) => link.getAttribute("href") === came);
    if (opened) {
      opened.focus();
      opened.scrollIntoView({ block: "center", inline: "center" });
    } else {
      heading.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
  }
  if (view === "cell") came = location.hash;
}

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing) {
    const field = document.querySelector('input[name="operator"]');
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  } else if (event.key === "Escape" && !typing && where().view === "cell") {
    location.assign(hash(last.view, [], last.filters));
  }
});
window.addEventListener("hashchange", () => draw(true));

put(
  document.getElementById("about"),
  h("p", {}, `Made ${day(data.made)} UTC`, data.revision ? [" of ", h("code", {}, data.revision)] : "", `: ${newest.filter((run) => run.state === "ran").length} cells ran, of ${newest.length}.`),
  data.notes.length ? h("details", {}, h("summary", {}, `${data.notes.length} notes on how runs were merged`), h("ul", {}, data.notes.map((note) => h("li", {}, note)))) : "",
);
draw(false);
