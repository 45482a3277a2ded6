"""docs/real.svg: a chart of the latency of each network, relative to onnxruntime, from the stored results."""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import Any

__all__ = ["PICTURE", "ratios", "svg"]

PICTURE = Path("docs/real.svg")
_ROW, _LEFT, _WIDTH, _TOP = 17, 220, 400, 58
_LEAST, _MOST = 1 / 4, 2.0
_TICKS = (1 / 4, 1 / 2, 1, 2)
_STYLE = (
    ".ground{fill:#fff} text{font:12px system-ui,sans-serif;fill:#24292f} .title{font-size:14px} .grid{stroke:#d0d7de}"
    " .one{stroke:#57606a;stroke-width:1.5} .faster{fill:#1a7f37} .slower{fill:#9a3412}"
    "@media (prefers-color-scheme:dark){.ground{fill:#0d1117} text{fill:#e6edf3} .grid{stroke:#30363d} .one{stroke:#9198a1}"
    " .faster{fill:#3fb950} .slower{fill:#f0883e}}"
)


def ratios(measured: dict[str, Any]) -> dict[str, float]:
    """Return network -> (our latency / onnxruntime's latency), the lowest ratio first.

    Networks without a measurement are absent.
    """
    times = {
        name: network["milliseconds"] for name, network in measured["networks"].items() if "milliseconds" in network
    }
    latencies = {name: network["ours"] / network["onnxruntime"] for name, network in times.items()}
    return dict(sorted(latencies.items(), key=lambda item: (item[1], item[0])))


def svg(measured: dict[str, Any]) -> str:
    """Return the chart as SVG: a bar for each network, from 1 to its ratio, on a logarithmic scale."""
    latencies = ratios(measured)
    bottom = _TOP + _ROW * len(latencies)
    faster = sum(ratio < 1 for ratio in latencies.values())
    title = "Latency of .tflite files relative to onnxruntime, 1 thread"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {bottom + 26}" role="img">',
        f"<title>{title}</title><style>{_STYLE}</style>",
        '<rect class="ground" width="100%" height="100%"/>',
        f'<text class="title" x="10" y="20">{title}</text>',
        f'<text x="10" y="38">{faster} of {len(latencies)} trained networks are faster (left of 1)</text>',
    ]
    for tick in _TICKS:
        kind, at = "one" if tick == 1 else "grid", f"{_across(tick):.1f}"
        parts.append(f'<line class="{kind}" x1="{at}" x2="{at}" y1="{_TOP - 6}" y2="{bottom}"/>')
        parts.append(f'<text x="{at}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for row, (name, ratio) in enumerate(latencies.items()):
        y, ends = _TOP + _ROW * row, sorted((_across(ratio), _across(1)))
        kind = "faster" if ratio < 1 else "slower"
        parts.append(f'<text x="10" y="{y + 11}">{html.escape(name)}</text>')
        parts.append(
            f'<rect class="{kind}" x="{ends[0]:.1f}" y="{y + 2}" width="{max(ends[1] - ends[0], 1):.1f}" height="10">'
            f"<title>{html.escape(name)}: {ratio:.2f}</title></rect>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _across(ratio: float) -> float:
    """Return the x coordinate of a ratio. A ratio beyond the scale is drawn at its end."""
    share = math.log(min(max(ratio, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + _WIDTH * share
