"""SVG chart of the latency ratios of many networks."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from benchmarks.measure import Ratio

__all__ = ["draw_chart"]

_ROW, _LEFT, _WIDTH, _TOP, _EDGE = 22, 170, 460, 66, 10
_LEAST, _MOST = 1 / 8, 8.0
_OTHERS = ("onnx2tf", "litert-torch", "onnxruntime")
_STYLE = """
.ground{fill:#fff} text{font:13px system-ui,sans-serif;fill:#24292f} .grid{stroke:#d0d7de} .one{stroke:#57606a;stroke-width:1.5}
.onnx2tf{fill:#9a3412;stroke:#9a3412} .litert-torch{fill:#1a7f37;stroke:#1a7f37} .onnxruntime{fill:#0b6bcb;stroke:#0b6bcb}
@media (prefers-color-scheme:dark){.ground{fill:#0d1117} text{fill:#e6edf3} .grid{stroke:#30363d} .one{stroke:#9198a1}
.onnx2tf{fill:#f0883e;stroke:#f0883e} .litert-torch{fill:#3fb950;stroke:#3fb950} .onnxruntime{fill:#58a6ff;stroke:#58a6ff}}
"""


def draw_chart(ratios: Sequence[Ratio], threads: str) -> str:
    """Return an SVG chart: a row for each network, a dot for each peer, on a logarithmic scale with 1 in the middle.

    Ratios to a peer that is not in `_OTHERS` have no dot. `threads`: the number of threads as text, for the title.
    """
    names = list(dict.fromkeys(_network(ratio) for ratio in ratios))
    height = _TOP + _ROW * len(names) + 24
    title = f"Latency on {threads}, ours over theirs"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_EDGE} 0 {_EDGE + _LEFT + _WIDTH + 30} {height}" role="img">',
        f"<title>{title}</title><style>{_STYLE}</style>",
        f'<rect class="ground" x="{-_EDGE}" width="100%" height="100%"/>',  # a light page on a dark system needs it
        f'<text x="0" y="15">{title}: left of 1 is better</text>',
    ]
    for index, tool in enumerate(_OTHERS):
        x = _LEFT + 110 * index
        parts.append(f'<circle class="{tool}" cx="{x}" cy="33" r="5"/><text x="{x + 9}" y="37">{tool}</text>')
    for tick in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8):
        position, style = f"{_x_of(tick):.1f}", "one" if tick == 1 else "grid"
        parts.append(f'<line class="{style}" x1="{position}" x2="{position}" y1="{_TOP - 14}" y2="{height - 20}"/>')
        parts.append(f'<text x="{position}" y="{height - 4}" text-anchor="middle">{tick:g}</text>')
    for row, name in enumerate(names):
        y = _TOP + _ROW * row
        parts.append(f'<text x="0" y="{y + 4}">{html.escape(name)}</text>')
        for ratio in ratios:
            if _network(ratio) == name and ratio.theirs in _OTHERS:
                level = y + 5 * (_OTHERS.index(ratio.theirs) - 1)  # dots of equal ratios do not overlap
                label = f"{html.escape(name)} beside {ratio.theirs}: {ratio.value:.2f}"
                dot = f'<circle class="{ratio.theirs}" cx="{_x_of(ratio.value):.1f}" cy="{level}" r="4">'
                low, high = _x_of(ratio.low), _x_of(ratio.high)
                parts.append(f'<line class="{ratio.theirs}" x1="{low:.1f}" x2="{high:.1f}" y1="{level}" y2="{level}"/>')
                parts.append(f"{dot}<title>{label}</title></circle>")
    return "\n".join([*parts, "</svg>", ""])


def _x_of(value: float) -> float:
    """Return the x coordinate of a ratio in the chart. A ratio beyond the scale is drawn at its end."""
    share = math.log(min(max(value, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + _WIDTH * share


def _network(ratio: Ratio) -> str:
    """Return the name of the network of a ratio."""
    return ratio.subject.partition(": ")[0]
