"""The scale of colours of the scoreboard and its badges: from all cases passing (5) to a failing case (0).

Blue to vermilion: colour-blind readers can tell the steps apart, and a sign beside each colour says the same.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["FILLS", "MARKS", "STEPS", "find_worst", "render_scale"]

#: The step of each outcome: pass, fallback, gap, fail.
STEPS = {"pass": 5, "fallback": 4, "gap": 2, "fail": 0}
#: Scheme -> the ground under a text, from step 0 to step 5.
FILLS = {
    "light": ("#e0745c", "#f4a877", "#fad28a", "#fdf5d6", "#cfe4f4", "#8fc1e6"),
    "dark": ("#9e2b22", "#8f5a0c", "#5a4608", "#37331c", "#22394d", "#1f659e"),
}
#: Scheme -> the colour of signs, bars and lines, for the steps of the outcomes.
MARKS = {
    "light": {"pass": "#08466f", "fallback": "#3a74ab", "gap": "#8f6000", "fail": "#94141f"},
    "dark": {"pass": "#7fbef0", "fallback": "#a9c4dd", "gap": "#f0c060", "fail": "#ff9b86"},
}


def find_worst(counts: Sequence[int]) -> str:
    """Return the name of the worst outcome whose count is not 0. "": each count is 0.

    `counts`: the number of cases of each outcome in `STEPS`, in this order.
    """
    return next((name for name, n in reversed(list(zip(STEPS, counts))) if n), "")


def render_scale(scheme: str) -> str:
    """Return the declarations of the CSS variables of a scheme: `--level<step>: <fill>;` and `--<outcome>: <mark>;`."""
    fills = [f"--level{step}: {colour};" for step, colour in enumerate(FILLS[scheme])]
    marks = [f"--{name}: {colour};" for name, colour in MARKS[scheme].items()]
    return " ".join([*fills, *marks])
