"""Many networks as a page of the docs: a summary, the charts, and a table for each topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.bench import Findings
from benchmarks.chart import svg
from benchmarks.conversion import LARGE, MODEL, PEAK, TIME
from benchmarks.measure import Figure, Ratio
from benchmarks.networks import BYTES, ERRORS, LEFT, MEDIAN, OPERATORS
from benchmarks.report import environments, table

__all__ = ["write"]

OURS, OTHER, TORCH, ORT = "onnx-compat", "onnx2tf", "litert-torch", "onnxruntime"
_LATENCY = "network, latency, "
_INTRODUCTION = """# Many networks

`nox -s bench -- --bench networks --docs` writes this page. It compares our converter and its `.tflite` files with
three projects:

- [onnx2tf](https://github.com/PINTO0309/onnx2tf)
- [litert-torch](https://github.com/google-ai-edge/litert-torch), which converts the PyTorch module that the ONNX
  model was exported from
- onnxruntime

All take turns in a single run on one machine. A ratio is ours over the other's: below 1 is better. Times hold for
that machine only, ratios for most machines. `(small)` networks have few channels and layers.

onnx2tf's files have images with channels last. They are compared with files of ours that were converted with
`--channels-last`. TRANSPOSEs at the inputs and outputs of other tensors do not count as operators."""


def write(found: Findings, folder: Path) -> None:
    """`networks.md` and, for each number of threads, the chart that it shows."""
    lines = [_INTRODUCTION, "", "## Summary", "", *_summary(found), "", "## Latency"]
    for threads in sorted({_threads(one) for one in found.ratios if _LATENCY in one.what}):
        each = [one for one in found.ratios if _LATENCY in one.what and _threads(one) == threads]
        name, said = f"networks-{threads}.svg", f"{threads} thread{'s' * (threads > 1)}"
        (folder / name).write_text(svg(each, said), encoding="utf-8")
        lines += ["", f"![Latency on {said}: ours over theirs]({name})"]
    cells = _Cells(found)
    lines += ["", _MILLISECONDS, "", *_latency(cells)]
    lines += ["", "## Conversion", "", _CONVERSION, "", *_conversion(cells)]
    lines += ["", "## Files", "", _FILES, "", *_files(cells)]
    lines += ["", "## Numbers", "", _NUMBERS, "", *_numbers(cells), "", "## Measured with", ""]
    lines += [*environments(found), *(f"- Not measured: {' '.join(text.split())}" for text in found.missing), ""]
    (folder / "networks.md").write_text("\n".join(lines), encoding="utf-8")


def _summary(found: Findings) -> list[str]:
    """The median network of each topic, and who misses an aim."""
    rows = []
    for one in found.ratios:
        network, _, what = one.what.partition(": ")
        if network == MEDIAN:
            each = [
                other
                for other in found.ratios
                if other[1:3] == one[1:3] and other.what.endswith(f": {what}") and other != one
            ]
            subject = f"{what} of {one.ours}" if one.ours != OURS else what
            spread = f"{_short(one.low)} to {_short(one.high)}"
            rows.append(
                [subject.replace(_LATENCY, "latency, "), one.other, _short(one.value), spread, _verdict(one, each)]
            )
    return table(("what", "beside", "median", "best to worst", "aim"), rows)


def _verdict(median: Ratio, each: Sequence[Ratio]) -> str:
    if median.aim is None:
        return ""
    if all(one.aim is None for one in each):
        return f"<= {median.aim:g} for the median: {'met' if median.met else 'missed'}"
    met = [one for one in each if one.met is True]
    near = [one for one in each if one.met is False and one.low <= median.aim]
    missed = [one for one in each if one.met is False and one not in near]
    said = f"<= {median.aim:g}: met by {len(met)} of {len(each)}"
    for ones, where in ((near, "within its rounds' spread"), (missed, "missed by")):
        if ones:
            said += f"; {where}: " + ", ".join(f"{_network(one)} ({one.value:.3f})" for one in ones)
    return said


class _Cells:
    """What is in a row of a table: a figure or a ratio of a network, as text; empty where it was not measured."""

    def __init__(self, found: Findings) -> None:
        self._figures: dict[tuple[str, str], Figure] = {(one.what, one.of): one for one in found.figures}
        self._ratios: dict[tuple[str, str, str], Ratio] = {(one.what, one.ours, one.other): one for one in found.ratios}
        names = dict.fromkeys(_network(one) for one in found.ratios)
        self.networks = [name for name in names if name != MEDIAN]
        self.threads = sorted({_threads(one) for one in found.ratios if _LATENCY in one.what})

    def figure(self, network: str, what: str, of: str, form: Callable[[float], str] | None = None) -> str:
        one = self._figures.get((f"{network}: {what}", of))
        return "" if one is None else (form or _short)(one.value)

    def ratio(self, network: str, what: str, other: str, ours: str = OURS) -> str:
        one = self._ratios.get((f"{network}: {what}", ours, other))
        return "" if one is None else _short(one.value)


_MILLISECONDS = """Milliseconds of ours, and ours over theirs. A line in the charts spans the quartiles of the rounds. The line of the
median network spans the best to the worst network."""


def _latency(cells: _Cells) -> list[str]:
    others, head, rows = (OTHER, TORCH, ORT), ["network"], []
    for threads in cells.threads:
        head += [f"{threads} thread{'s' * (threads > 1)}, ms", *(f"/ {other}" for other in others)]
    for network in cells.networks:
        row = [network]
        for threads in cells.threads:
            what = f"{_LATENCY}{threads} thread{'s' * (threads > 1)}"
            row += [cells.figure(network, what, OURS), *(cells.ratio(network, what, other) for other in others)]
        rows.append(row)
    return _table(head, rows)


_CONVERSION = f"""Each conversion runs in a process that has converted before. The memory is the peak of the process above its start.
The size of a model is the size of its weights as floats. The aim for the memory, twice the model, holds from {LARGE / 1e6:g}
MB on: below, the peak is that of the interpreter, a few megabytes.

- onnx2tf starts other processes, whose memory is not counted.
- litert-torch starts from a PyTorch module, whose export is part of its time and not of ours. It converts all
  networks in one process, so its memory cannot be measured for each."""


def _conversion(cells: _Cells) -> list[str]:
    head = ["network", "model, MB", "s", "onnx2tf, s", "/ onnx2tf", "litert-torch, s", "peak, MB", "/ model"]
    head += ["onnx2tf's peak, MB", "/ model"]
    rows = []
    for name in cells.networks:
        row = [name, cells.figure(name, MODEL, ""), *(cells.figure(name, TIME, tool) for tool in (OURS, OTHER))]
        row += [cells.ratio(name, TIME, OTHER), cells.figure(name, TIME, TORCH)]
        for tool in (OURS, OTHER):
            row += [cells.figure(name, PEAK, tool), cells.ratio(name, PEAK, MODEL, tool)]
        rows.append(row)
    return _table(head, rows)


_FILES = """Operators, megabytes, and the nodes that XNNPACK, the default delegate of the interpreter, leaves to the interpreter's
kernels."""


def _files(cells: _Cells) -> list[str]:
    tools = (OURS, OTHER, TORCH)
    topics: Iterable[tuple[str, str, Callable[[float], str]]] = (
        (OPERATORS, "operators", lambda value: f"{value:.0f}"),
        (BYTES, "MB", lambda value: _short(value / 1e6)),
        (LEFT, "left", lambda value: f"{value:.0f}"),
    )
    head = ["network", *(f"{said}: {tool}" if tool != OURS else said for _, said, _ in topics for tool in tools)]
    rows = [
        [network, *(cells.figure(network, what, tool, form) for what, _, form in topics for tool in tools)]
        for network in cells.networks
    ]
    return _table(head, rows)


_NUMBERS = """The largest difference from onnxruntime over all outputs, as a share of the largest value of the output. The first run
and a second run of the same input in the same interpreter are compared. A file that keeps the states of a recurrent
network departs in the second."""


def _numbers(cells: _Cells) -> list[str]:
    tools = (OURS, OTHER, TORCH)
    head = ["network", *(f"{which}: {tool}" for which in ("first", "second") for tool in tools)]
    rows = [
        [network, *(cells.figure(network, what, tool, _error) for what in ERRORS for tool in tools)]
        for network in cells.networks
    ]
    return _table(head, rows)


def _error(value: float) -> str:
    """What rounding leaves is plain; what is more than that stands out."""
    return f"{value:.0e}" if value < 1e-3 else f"**{value:.2g}**"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Numbers to the right, under their heads."""
    lines = table(head, rows)
    lines[1] = "| --- |" + " ---: |" * (len(head) - 1)
    return lines


def _short(value: float) -> str:
    """Three digits, and never an exponent."""
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"


def _network(one: Ratio) -> str:
    return one.what.partition(": ")[0]


def _threads(one: Ratio) -> int:
    return int(one.what.rpartition(", ")[2].split()[0])
