"""docs/networks.md: a summary of the networks bench, charts of the latency, and a table for each topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.bench import Findings
from benchmarks.chart import draw_chart
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


def write(findings: Findings, folder: Path) -> None:
    """Write `networks.md` into `folder`, and a chart `networks-<threads>.svg` for each number of threads."""
    lines = [_INTRODUCTION, "", "## Summary", "", *_summary(findings), "", "## Latency"]
    for threads in sorted({_threads(ratio) for ratio in findings.ratios if _LATENCY in ratio.subject}):
        chosen = [ratio for ratio in findings.ratios if _LATENCY in ratio.subject and _threads(ratio) == threads]
        name, label = f"networks-{threads}.svg", f"{threads} thread{'s' * (threads > 1)}"
        (folder / name).write_text(draw_chart(chosen, label), encoding="utf-8")
        lines += ["", f"![Latency on {label}: ours over theirs]({name})"]
    cells = _Cells(findings)
    lines += ["", _MILLISECONDS, "", *_latency(cells)]
    lines += ["", "## Conversion", "", _CONVERSION, "", *_conversion(cells)]
    lines += ["", "## Files", "", _FILES, "", *_files(cells)]
    lines += ["", "## Numbers", "", _NUMBERS, "", *_numbers(cells), "", "## Measured with", ""]
    lines += [*environments(findings), *(f"- Not measured: {' '.join(text.split())}" for text in findings.missing), ""]
    (folder / "networks.md").write_text("\n".join(lines), encoding="utf-8")


def _summary(findings: Findings) -> list[str]:
    """Return the lines of the summary: the median ratio for each topic and peer, and the networks that miss an aim."""
    rows = []
    for median in findings.ratios:
        network, _, topic = median.subject.partition(": ")
        if network == MEDIAN:
            ratios = [
                ratio
                for ratio in findings.ratios
                if ratio[1:3] == median[1:3] and ratio.subject.endswith(f": {topic}") and ratio != median
            ]
            subject = f"{topic} of {median.ours}" if median.ours != OURS else topic
            spread = f"{_format_short(median.low)} to {_format_short(median.high)}"
            rows.append(
                [
                    subject.replace(_LATENCY, "latency, "),
                    median.theirs,
                    _format_short(median.value),
                    spread,
                    _verdict(median, ratios),
                ]
            )
    return table(("what", "beside", "median", "best to worst", "aim"), rows)


def _verdict(median: Ratio, ratios: Sequence[Ratio]) -> str:
    """Return the last cell of a row of the summary: how many of the `ratios` meet the aim, and which networks miss it.

    If only the median has an aim, the text says whether the median meets it. "": there is no aim. `median`: the median
    ratio of these networks.
    """
    if median.aim is None:
        return ""
    if all(ratio.aim is None for ratio in ratios):
        return f"<= {median.aim:g} for the median: {'met' if median.met else 'missed'}"
    met = [ratio for ratio in ratios if ratio.met is True]
    near = [ratio for ratio in ratios if ratio.met is False and ratio.low <= median.aim]
    missed = [ratio for ratio in ratios if ratio.met is False and ratio not in near]
    verdict = f"<= {median.aim:g}: met by {len(met)} of {len(ratios)}"
    for group, label in ((near, "within its rounds' spread"), (missed, "missed by")):
        if group:
            verdict += f"; {label}: " + ", ".join(f"{_network(ratio)} ({ratio.value:.3f})" for ratio in group)
    return verdict


class _Cells:
    """Returns figures and ratios of networks as texts for table cells; "" for a number that was not measured.

    `networks`, `threads`: the names of the networks and the numbers of threads that the findings have.
    """

    def __init__(self, findings: Findings) -> None:
        self._figures: dict[tuple[str, str], Figure] = {
            (figure.subject, figure.tool): figure for figure in findings.figures
        }
        self._ratios: dict[tuple[str, str, str], Ratio] = {
            (ratio.subject, ratio.ours, ratio.theirs): ratio for ratio in findings.ratios
        }
        names = dict.fromkeys(_network(ratio) for ratio in findings.ratios)
        self.networks = [name for name in names if name != MEDIAN]
        self.threads = sorted({_threads(ratio) for ratio in findings.ratios if _LATENCY in ratio.subject})

    def figure(self, network: str, topic: str, tool: str, form: Callable[[float], str] | None = None) -> str:
        """Return the figure of a tool on a network as text. `form`: formats the number; None: `_format_short`."""
        figure = self._figures.get((f"{network}: {topic}", tool))
        return "" if figure is None else (form or _format_short)(figure.value)

    def ratio(self, network: str, topic: str, theirs: str, ours: str = OURS) -> str:
        """Return the ratio of `ours` to `theirs` on a network as text."""
        ratio = self._ratios.get((f"{network}: {topic}", ours, theirs))
        return "" if ratio is None else _format_short(ratio.value)


_MILLISECONDS = """Milliseconds of ours, and ours over theirs. A line in the charts spans the quartiles of the rounds. The line of the
median network spans the best to the worst network."""


def _latency(cells: _Cells) -> list[str]:
    """Return the lines of the table of latencies."""
    tools, head, rows = (OTHER, TORCH, ORT), ["network"], []
    for threads in cells.threads:
        head += [f"{threads} thread{'s' * (threads > 1)}, ms", *(f"/ {tool}" for tool in tools)]
    for network in cells.networks:
        row = [network]
        for threads in cells.threads:
            topic = f"{_LATENCY}{threads} thread{'s' * (threads > 1)}"
            row += [cells.figure(network, topic, OURS), *(cells.ratio(network, topic, tool) for tool in tools)]
        rows.append(row)
    return _table(head, rows)


_CONVERSION = f"""Each conversion runs in a process that has converted before. The memory is the peak of the process above its start.
The size of a model is the size of its weights as floats. The aim for the memory, twice the model, holds from {LARGE / 1e6:g}
MB on: below, the peak is that of the interpreter, a few megabytes.

- onnx2tf starts other processes, whose memory is not counted.
- litert-torch starts from a PyTorch module, whose export is part of its time and not of ours. It converts all
  networks in one process, so its memory cannot be measured for each."""


def _conversion(cells: _Cells) -> list[str]:
    """Return the lines of the table of conversion times and memory."""
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
    """Return the lines of the table of operators and sizes."""
    tools = (OURS, OTHER, TORCH)
    topics: Iterable[tuple[str, str, Callable[[float], str]]] = (
        (OPERATORS, "operators", lambda value: f"{value:.0f}"),
        (BYTES, "MB", lambda value: _format_short(value / 1e6)),
        (LEFT, "left", lambda value: f"{value:.0f}"),
    )
    head = ["network", *(f"{title}: {tool}" if tool != OURS else title for _, title, _ in topics for tool in tools)]
    rows = [
        [network, *(cells.figure(network, topic, tool, form) for topic, _, form in topics for tool in tools)]
        for network in cells.networks
    ]
    return _table(head, rows)


_NUMBERS = """The largest difference from onnxruntime over all outputs, as a share of the largest value of the output. The first run
and a second run of the same input in the same interpreter are compared. A file that keeps the states of a recurrent
network departs in the second."""


def _numbers(cells: _Cells) -> list[str]:
    """Return the lines of the table of errors."""
    tools = (OURS, OTHER, TORCH)
    head = ["network", *(f"{run}: {tool}" for run in ("first", "second") for tool in tools)]
    rows = [
        [network, *(cells.figure(network, topic, tool, _format_error) for topic in ERRORS for tool in tools)]
        for network in cells.networks
    ]
    return _table(head, rows)


def _format_error(value: float) -> str:
    """Format an error: plain below 1e-3, where it is rounding; bold from 1e-3 on."""
    return f"{value:.0e}" if value < 1e-3 else f"**{value:.2g}**"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table whose columns, except the first, are right-aligned."""
    lines = table(head, rows)
    lines[1] = "| --- |" + " ---: |" * (len(head) - 1)
    return lines


def _format_short(value: float) -> str:
    """Format a number with about three significant digits: at most three decimals, and no exponent."""
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"


def _network(ratio: Ratio) -> str:
    """Return the name of the network of a ratio."""
    return ratio.subject.partition(": ")[0]


def _threads(ratio: Ratio) -> int:
    """Return the number of threads at the end of the subject of a latency ratio."""
    return int(ratio.subject.rpartition(", ")[2].split()[0])
