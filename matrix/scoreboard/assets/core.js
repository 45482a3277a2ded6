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

const data = JSON.parse(document.getElementById("summary").textContent);
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

/** The share in percent, rounded down: never 100 where a case is missing, and never 0 where a case counts. */
function percent(part, whole) {
  if (!whole) return "\u2013";
  if (part === whole) return "100";
  const tenths = Math.floor((1000 * part) / whole);
  return part && !tenths ? "<0.1" : String(tenths / 10);
}

const counted = (row) => row[0] + row[1] + row[2] + row[3];
const right = (row) => row[0] + row[1];
const none = () => [0, 0, 0, 0, 0];
const add = (to, row) => row.forEach((n, i) => (to[i] += n));

/** The worst of the outcomes that are counted; `void` if all cases are void, "" without a case. */
function worst(row) {
  for (const i of [3, 2, 1, 0, 4]) if (row[i]) return OUTCOMES[i];
  return "";
}

/** The step of the scale: 5 if all cases pass, 4 if all are right, 3 to 1 by the share that is right, 0 if a case fails. */
function level(row) {
  if (!counted(row)) return "";
  if (row[3]) return "level0";
  if (!row[2]) return row[1] ? "level4" : "level5";
  const share = right(row) / counted(row);
  return share >= 0.98 ? "level3" : share >= 0.9 ? "level2" : "level1";
}
const LEVELS = ["a case fails", "below 90 % right", "from 90 % right", "from 98 % right, with gaps", "all right, some by fallback", "all pass"];

const sign = (outcome) => h("span", { class: `sign ${outcome}`, title: MEANINGS[outcome] }, SIGNS[outcome]);
const told = (outcome) => (outcome ? h("span", { class: `told ${outcome}` }, sign(outcome), " ", outcome) : h("span", { class: "faint" }, "no case"));

/** The sign before a share, where a case fails or is a gap: the step of the scale is never said by its colour alone. */
const shareSign = (row) => (row[3] || row[2] ? h("span", { class: "sign" }, row[3] ? SIGNS.fail : SIGNS.gap) : null);

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


const day = (date) => (date || "").slice(0, 16).replace("T", " ");
const when = (run) => (run.date ? h("time", { datetime: run.date }, `${day(run.date)} UTC`) : null);

/** How old a result is, on the clock of the reader. */
function age(date) {
  const days = Math.floor((Date.now() - Date.parse(date)) / 86400000);
  if (Number.isNaN(days)) return "";
  if (days < 1) return "today";
  if (days < 60) return `${days} ${days === 1 ? "day" : "days"} old`;
  return days < 730 ? `${Math.floor(days / 30.44)} months old` : `${Math.floor(days / 365.25)} years old`;
}

/** Why a result is older than the code, as a text; "" if it is of the code as it is here. */
const staleness = (run) => (run.moved ? `the code has moved: ${run.moved[0]}${run.moved.length > 1 ? ` (${run.moved.slice(1).join(", ")})` : ""}` : "");

const OPERATORS = Object.keys(data.operators);
const plain = (name) => name.split("::").pop();

/** The operators that a text names: exactly, if there is an operator of this name, with or without its domain. */
function matching(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  for (const spelling of [(name) => name, plain]) {
    const exact = OPERATORS.filter((name) => spelling(name).toLowerCase() === wanted);
    if (exact.length) return new Set(exact);
  }
  return new Set(OPERATORS.filter((name) => name.toLowerCase().includes(wanted)));
}

function operatorField(filters, refresh, attributes = {}) {
  return h(
    "label",
    {},
    h("span", {}, "Operator ", h("kbd", { "aria-hidden": "true" }, "/")),
    h("input", {
      name: "operator", type: "search", list: "operators", value: filters.operator, placeholder: "Conv", autocomplete: "off",
      spellcheck: "false", oninput: (event) => refresh({ operator: event.target.value }), ...attributes,
    }),
    h("datalist", { id: "operators" }, OPERATORS.map((name) => h("option", { value: name }))),
  );
}

const SHIM_NAMES = {
  tf1: "TensorFlow 1", tf2: "TensorFlow 2", tflite: "TensorFlow Lite", keras: "Keras", reference: "Reference (numpy)", peers: "Peers",
};
const shimName = (shim) => SHIM_NAMES[shim] || shim;
