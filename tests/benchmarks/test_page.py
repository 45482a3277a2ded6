"""The rendered page docs/networks.md: its summary and its tables."""

from benchmarks import page
from benchmarks.bench import Findings
from benchmarks.conversion import MODEL, PEAK, TIME
from benchmarks.measure import Figure, Ratio
from benchmarks.networks import ERRORS, OPERATORS, _add_medians


def make_ratio(subject, value, theirs="onnx2tf", aim=None, ours="onnx-compat"):
    return Ratio(subject, ours, theirs, value, value, value, 3, aim)


def write_page(findings, folder):
    _add_medians(findings)
    page.write(findings, folder)
    return (folder / "networks.md").read_text().splitlines()


def cells(lines, start):
    (line,) = [line for line in lines if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_summary_names_missed_aims(tmp_path):
    findings = Findings(
        [make_ratio(f"{name}: {OPERATORS}", value, aim=1.0) for name, value in (("a", 0.5), ("b", 1.0), ("c", 11.0))]
    )
    findings.ratios.append(Ratio(f"d: {OPERATORS}", "onnx-compat", "onnx2tf", 1.002, 0.999, 1.1, 3, 1.0))
    lines = write_page(findings, tmp_path)
    aim = "<= 1: met by 2 of 4; within its rounds' spread: d (1.002); missed by: c (11.000)"
    assert cells(lines, OPERATORS) == [OPERATORS, "onnx2tf", "1.00", "0.500 to 11.0", aim]


def test_beside_onnxruntime_only_the_median_has_an_aim(tmp_path):
    findings = Findings([make_ratio(f"{name}: network, latency, 2 threads", 1.2, "onnxruntime") for name in "ab"])
    lines = write_page(findings, tmp_path)
    assert cells(lines, "latency, 2 threads")[-1] == "<= 1 for the median: missed"
    assert "![Latency on 2 threads: ours over theirs](networks-2.svg)" in lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["networks-2.svg", "networks.md"]


def test_each_network_has_a_row_and_a_missing_measurement_an_empty_cell(tmp_path):
    findings = Findings(
        [
            make_ratio(f"a: {TIME}", 0.02),
            make_ratio(f"a: {PEAK}", 1.25, MODEL),
            make_ratio("b: network, latency, 1 thread", 0.5),
        ],
        [Figure(f"a: {MODEL}", "", 102.4, "MB"), Figure(f"a: {TIME}", "onnx-compat", 0.125, "s")],
        ["b: refused\n by name"],
        {"tflite-1": {"numpy": "2.0"}},
    )
    lines = write_page(findings, tmp_path)
    conversion = lines[lines.index("## Conversion") : lines.index("## Files")]
    assert cells(conversion, "a") == ["a", "102", "0.125", "", "0.020", "", "", "1.25", "", ""]
    assert cells(conversion, "b") == ["b", *[""] * 9]
    assert "- Not measured: b: refused by name" in lines
    assert "- tflite-1: numpy 2.0" in lines


def test_wrong_outputs_are_marked(tmp_path):
    figures = [Figure(f"a: {topic}", "onnx2tf", value, "") for topic, value in zip(ERRORS, (4e-7, 0.5), strict=True)]
    lines = write_page(Findings([make_ratio(f"a: {TIME}", 0.02)], figures), tmp_path)
    numbers = lines[lines.index("## Numbers") :]
    assert cells(numbers, "a") == ["a", "", "4e-07", "", "", "**0.5**", ""]
