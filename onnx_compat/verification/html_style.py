"""The style sheet of the report page. Texts have a contrast of 4.5 to 1; each colour comes with a symbol or a shape."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ground: #f7f7f5; --sheet: #fff; --ink: #1c2126; --soft: #59636e; --line: #dfe3e6;
  --link: #2b4fb0; --pass: #14704f; --fail: #b3202a; --mark: #2f9e77; --wrong: #d43b44; --bar: #7d9bd8; --blame: #fdeceb; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --sheet: #1b1f23; --ink: #e7eaed; --soft: #a2acb6;
  --line: #30363c; --link: #9db7ff; --pass: #62d0a8; --fail: #ff8d92; --mark: #35a680; --wrong: #ff6b73; --bar: #4d6bb0;
  --blame: #3a1f22; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 40vh; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { margin: 0 0 8px; font-size: 1.6rem; line-height: 1.25; letter-spacing: -0.02em; overflow-wrap: anywhere; }
h1 small { font-size: 1rem; letter-spacing: 0; padding: 2px 10px; border: 1px solid currentColor; border-radius: 999px;
  vertical-align: middle; white-space: nowrap; }
h2 { margin: 38px 0 10px; font-size: 1.15rem; letter-spacing: -0.01em; }
h3 { margin: 0 0 8px; font-size: 0.95rem; color: var(--soft); font-weight: 600; }
.lead { margin: 0 0 8px; max-width: 90ch; overflow-wrap: anywhere; }
.small { color: var(--soft); font-size: 0.87rem; max-width: 90ch; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.88em; }
.pass { color: var(--pass); } .fail { color: var(--fail); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; margin: 20px 0 0; padding: 0;
  list-style: none; }
.tiles li { display: flex; flex-direction: column; padding: 12px 14px; background: var(--sheet);
  border: 1px solid var(--line); border-radius: 10px; color: var(--soft); font-size: 0.87rem; min-width: 0; }
.big { font-size: 1.35rem; line-height: 1.3; font-weight: 650; color: var(--ink); font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere; }
.scroll { overflow: auto; max-height: 75vh; border: 1px solid var(--line); border-radius: 10px; background: var(--sheet); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: 0.87rem; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
tbody tr:last-child td { border-bottom: 0; }
th { position: sticky; top: 0; background: var(--sheet); color: var(--soft); font-weight: 600; white-space: nowrap; z-index: 1; }
th:empty { padding: 0; }
td { max-width: 44ch; overflow-wrap: break-word; }
td code { overflow-wrap: anywhere; }
td > code:only-child { display: inline-block; min-width: 14ch; }
.n { text-align: right; }
.n, .t { white-space: nowrap; }
.cards th, .cards td { padding: 6px 8px; }
tr.culprit, tr.culprit td { background: var(--blame); }
tr:target td { box-shadow: inset 0 2px var(--link), inset 0 -2px var(--link); }
section:has(#only:checked) tr.right { display: none; }
label { display: inline-flex; gap: 8px; align-items: center; padding: 6px 0; cursor: pointer; }
input { width: 18px; height: 18px; accent-color: var(--link); }
details { margin-top: 12px; }
summary { cursor: pointer; padding: 6px 0; color: var(--link); }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 20px; align-items: start; }
.bar { display: block; width: 110px; height: 8px; margin-top: 7px; border-radius: 4px; background: var(--line); overflow: hidden; }
.bar i { display: block; height: 100%; min-width: 2px; border-radius: 4px; background: var(--bar); }
.plot { padding: 10px 4px; margin-top: 10px; }
svg { display: block; font-size: 11px; }
svg text { fill: var(--soft); }
svg .grid { stroke: var(--line); }
svg a { outline-offset: 0; }
svg a line { stroke-width: 1.5; opacity: 0.45; }
svg a.pass line { stroke: var(--mark); } svg a.fail line { stroke: var(--wrong); }
svg a.pass circle { fill: var(--mark); } svg a.fail path { fill: var(--wrong); }
svg a .arrow { fill: none; stroke: var(--wrong); stroke-width: 1.5; }
svg a .blame { stroke-dasharray: 3 3; opacity: 1; }
svg .hit { fill: transparent; }
svg a:hover .hit, svg a:focus-visible .hit { fill: var(--ink); fill-opacity: 0.1; }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 8px; top: 8px; z-index: 9; background: var(--sheet); padding: 6px 10px; }
@media (max-width: 640px) { main { padding: 18px 12px 40px; } th, td { padding: 6px 8px; } td { max-width: 26ch; }
  td:not(.n) { min-width: 9ch; } .tiles { grid-template-columns: 1fr 1fr; }
  .cards { max-height: 85vh; } .cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .cards tr { display: grid; grid-template-columns: 1fr 1fr 1fr; padding: 8px 4px; border-bottom: 1px solid var(--line); }
  .cards td { max-width: none; min-width: 0 !important; border: 0; padding: 3px 8px; text-align: left; white-space: normal; }
  .cards td:has(code), .cards td:has(.t) { grid-column: 1 / -1; }
  .cards td::before { content: attr(data-l); display: block; color: var(--soft); font-size: 0.8em; }
  .cards td:empty { display: none; } .cards .t { white-space: normal; } }
@media print { .scroll { max-height: none; overflow: visible; } }
"""
