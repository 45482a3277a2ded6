"""Numbers in the text of the documentation: each is rendered, printed by a block, a version of a cell, or compared with the code.

The text is what is neither code nor rendered. No digit and no word for a number from four on stands in the text. Names,
versions of cells and the phrases of QUANTITIES may have them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import pages as documentation
from packaging.requirements import Requirement

from matrix.data import ROOT, load

MATRIX = load()
# Pages that code writes as a whole, from stored results.
RENDERED = {"docs/support.md", "docs/real.md", "docs/networks.md", "docs/retarget.md", "docs/passes.md"} | {
    "docs/reference/derivatives.md"
}
PAGES = [page for page in documentation.pages() if page.relative_to(ROOT).as_posix() not in RENDERED]
NAMES = (
    r"\b(u?int|float|bfloat|complex)\d+(e\d\w+)?(x\d)?\b|\btf[12]\b|\bonnx2tf\b|\bHDF5\b|\bSHA-256\b|\bApache-2\.0\b"
    r"|\bTensorFlow [12]( and 2)?\b(?!\.)|\bKeras 3\b(?!\.)"
)
NUMBER = re.compile(
    r"\d|\b(hal(f|ves)|quarters?|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|hundreds?|thousands?|millions?|dozens?|percent)\b",
    re.IGNORECASE,
)
VERSION = re.compile(
    r"\b(TensorFlow|tflite-runtime|LiteRT|onnxruntime|Python) (\d+\.\d+(?:\.\d+)?)(?: and (\d+\.\d+))?"
)
PACKAGES = {
    "TensorFlow": "tensorflow",
    "tflite-runtime": "tflite-runtime",
    "LiteRT": "ai-edge-litert",
    "onnxruntime": "onnxruntime",
}
CODES = "onnx_compat/cli/exit_codes.py"
SCHEMES = "shims/tflite/onnx_compat_tflite/quantize/schemes.py"
FLOOR = ("shims/tflite/onnx_compat_tflite/flatbuffer/runtimes.py", r"^FLOOR = \((\d+), (\d+)\)")
CRITERION = "onnx_compat/verification/criterion.py"
TOLERANCE = (CRITERION, r"^TOLERANCE = (\S+)$")
PROTOBUF = ("shims/tflite/onnx_compat_tflite/flatbuffer/writer.py", r"^LIMIT = (2\*\*31) - 1$")


class Quantity(NamedTuple):
    """A number in the text, and the pattern of the code that captures it."""

    page: str
    phrase: str
    file: str
    pattern: str


def scheme(kind: str, row: str) -> Quantity:
    return Quantity("docs/cli.md", row, SCHEMES, rf"^    Scheme\({kind}, .*fidelity=(\d+)")


QUANTITIES = [
    Quantity("CONTRIBUTING.md", "at most 25 words", "tests/matrix/test_pages.py", r"^WORDS_OF_A_SENTENCE, .* = (\d+),"),
    Quantity("CONTRIBUTING.md", "at most 5 lines", "tests/matrix/test_pages.py", r"^WORDS_OF_A_SENTENCE, .* = \d+, \d+, (\d+),"),
    Quantity("docs/howto/threads.md", "at most 4 |", "shims/tflite/onnx_compat_tflite/runtime.py", r"sched_getaffinity\(0\)\), (\d+)\)"),
    Quantity("docs/cli.md", "| 0 or 1,", "onnx_compat/verification/generate.py", r"return random.randint\((0), 2, size"),
    Quantity("docs/cli.md", "8-bit image | all of 0 to 255", "onnx_compat/verification/generate.py", r"dtype.bits == (8)"),
    Quantity("docs/cli.md", "Both default to 0.001", *TOLERANCE),
    Quantity("docs/cli.md", "does not agree within 0.001", *TOLERANCE),
    Quantity("docs/faq.md", "default tolerance is 0.001", *TOLERANCE),
    Quantity("docs/cli.md", "exit code 6", CODES, r"^INPUT = (\d+)"),
    Quantity("docs/cli.md", "(exit code 3)", CODES, r"^INVALID_MODEL = (\d+)"),
    Quantity("docs/cli.md", "The exit code is 0", CODES, r"^OK = (\d+)"),
    Quantity("docs/cli.md", "It is 5 if", CODES, r"^ENVIRONMENT = (\d+)"),
    Quantity("docs/cli.md", "1 if it would write nothing", CODES, r"^NEGATIVE = (\d+)"),
    Quantity("docs/cli.md", "the tolerance, or from 20 dB on", CRITERION, r"^FIDELITY = (\d+)"),
    Quantity("docs/cli.md", "may be 6 dB below", CRITERION, r"^MARGIN = (\d+)"),
    Quantity("docs/howto/threads.md", "more than 2 GB", *PROTOBUF),
    Quantity("docs/matrix.md", "within 10 seconds", "matrix/fuzz/worker.py", r"^CASE_SECONDS = (\d+)"),
    Quantity(
        "docs/reference/formats.md", "at most 1024 rounds",
        "shims/keras/onnx_compat_keras/functional/rounds.py", r"^_MOST_ROUNDS = (\d+)",
    ),
    Quantity(
        "docs/reference/formats.md", "2048 nodes",
        "shims/keras/onnx_compat_keras/functional/control.py", r"^_MOST_UNROLLED = (\d+)",
    ),
    Quantity("docs/how/programs.md", "exit code 70", CODES, r"^INTERNAL = (\d+)"),
    Quantity("docs/migrating.md", "exit code 1", CODES, r"^NEGATIVE = (\d+)"),
    scheme('"float16"', "| `float16` | float16 | float32 | 30 dB |"),
    scheme('"weights-int8"', "| `weights-int8` | int8 | float32 | 10 dB |"),
    scheme('"weights-int4"', "| `weights-int4` | int4 | float32 | 5 dB |"),
    scheme("PRODUCTS", "made int8 for each product with int4 | 5 dB |"),
    scheme('"dynamic"', "made int8 for each product | 10 dB |"),
    scheme('"int8"', "| `int8` | int8 | int8 | 10 dB |"),
    scheme('"int16x8"', "| `int16x8` | int8 | int16 | 10 dB |"),
    Quantity("docs/cli.md", "judged from 20 dB on", SCHEMES, r"^MODELS_OWN = .*fidelity=(\d+)"),
    Quantity("docs/cli.md", "must have 90 %", "onnx_compat/verification/accuracy.py", r"^EQUAL = (\S+)"),
    Quantity("docs/cli.md", "beyond 5000", "shims/tflite/onnx_compat_tflite/quantize/ranges.py", r"^HUGE = (\d+)"),
    Quantity("docs/cli.md", "a multiple of 32", "shims/tflite/onnx_compat_tflite/quantize/products.py", r"^_BLOCK_UNIT = (\d+)"),
    Quantity("docs/how/quantised.md", "shifted by 128", "shims/tflite/onnx_compat_tflite/passes/integers/parameters.py", r"self.zero - (128)"),
    Quantity("docs/how/tflite.md", "more than 25 taps", "shims/tflite/onnx_compat_tflite/passes/depthwise_splitting.py", r"^_MAX_TAPS = (\d+)"),
    Quantity("docs/how/specialisation.md", "more than 4096 elements", "onnx_compat/execution/plan_key.py", r"^_SPECIALISE_UP_TO = (\d+)"),
    Quantity("docs/how/specialisation.md", "keeps the 32 plans", "onnx_compat/execution/plan_cache.py", r"^MOST_PLANS = (\d+)"),
    Quantity("docs/how/simplification.md", "1.1 by default", "onnx_compat/simplify/simplification.py", r"^GROWTH = (\S+)"),
    Quantity("docs/how/simplification.md", "64 KiB are always allowed", "onnx_compat/simplify/size_budget.py", r"^SLACK = (\d+) "),
    Quantity(
        "docs/how/simplification.md", "at most 2 % of the nodes",
        "onnx_compat/simplify/rewrites/input_scales.py", r"^_LARGEST_SHARE = (\S+)",
    ),
    Quantity("docs/how/simplification.md", "From IR version 4 on", "onnx_compat/simplify/simplification.py", r"ir_version >= (\d)"),
    Quantity("docs/matrix.md", "After 100 lost processes", "matrix/cells.py", r"--max-worker-restart=(\d+)"),
    Quantity("docs/matrix.md", "each opset from 7 on", "matrix/matrix.toml", r'^"1\.2\.3" = (\d+)$'),
    Quantity("docs/reference/formats.md", "every TFLite runtime from 2.7 on", *FLOOR),
    Quantity("docs/usage.md", "every runtime from 2.7 on", *FLOOR),
    Quantity("docs/usage.md", "at most 4 MiB", "shims/tflite/onnx_compat_tflite/shim.py", r"^_CHEAP_BYTES = (\d+) << 20"),
    Quantity("docs/reference/formats.md", "more than 2 GB", *PROTOBUF),
    Quantity("docs/howto/index.md", "[Models over 2 GB]", *PROTOBUF),
    Quantity("docs/howto/large-models.md", "# Models over 2 GB", *PROTOBUF),
    Quantity("docs/howto/large-models.md", "holds at most 2 GB", *PROTOBUF),
    Quantity("docs/howto/large-models.md", "| over 2 GB |", *PROTOBUF),
]  # fmt: skip
# A definition, which follows from the formula beside it.
DEFINITIONS = {
    "docs/howto/quantise.md": [
        "20 dB means an error of a tenth of the values; each further 20 dB divides the error by ten."
    ],
    "docs/cli.md": ["scaled to 0..1.", "not below 0 dB."],
}


def text_of(page: Path) -> str:
    """Return the text of a page, with its tables and headings, without code, rendered sections, markers and addresses."""
    text = documentation.RENDERED.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^--8<-- .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"<!--.*?-->|\]\([^)]*\)", "]", text)
    text = re.sub(r"^(\s*|#+ )\d+\. ", r"\1", text, flags=re.MULTILINE)
    return re.sub(r"[ \n]+", " ", text)


def find_unexplained(text: str, phrases: list[str]) -> list[str]:
    """Return the numbers that nothing explains, with the words around them."""
    for phrase in phrases:
        text = text.replace(phrase, "…")
    text = VERSION.sub("…", re.sub(NAMES, "…", re.sub(r"`[^`]*`", "…", text)))
    return [text[max(0, number.start() - 40) : number.end() + 20] for number in NUMBER.finditer(text)]


def phrases_of(page: str) -> list[str]:
    return [quantity.phrase for quantity in QUANTITIES if quantity.page == page] + DEFINITIONS.get(page, [])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_number_is_explained(page: Path) -> None:
    assert find_unexplained(text_of(page), phrases_of(page.relative_to(ROOT).as_posix())) == []


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: f"{quantity.page}: {quantity.phrase}")
def test_a_quantity_is_that_of_the_code(quantity: Quantity) -> None:
    assert quantity.phrase in text_of(ROOT / quantity.page), "it is gone from the page: delete the entry"
    source = (ROOT / quantity.file).read_text(encoding="utf-8")
    (match,) = re.findall(quantity.pattern, source, re.MULTILINE)
    assert value_in_text(quantity.phrase) == value_in_code(match)


def value_in_text(phrase: str) -> float:
    """Return the number of a phrase that is not in code or in a name; "90 %" is 0.9, and "2 GB" are bytes."""
    plain = re.sub(NAMES, "", re.sub(r"`[^`]*`", "", phrase))
    number, unit = re.findall(r"(\d+(?:\.\d+)?) ?(%|GB)?", plain)[0]
    return float(number) * {"%": 0.01, "GB": 2**30, "": 1}[unit]


def value_in_code(match: str | tuple[str, ...]) -> float:
    if isinstance(match, tuple):
        return float(".".join(match))
    base, _, power = match.partition("**")
    return float(base) ** float(power or 1)


def test_definitions_are_in_use() -> None:
    for page, phrases in DEFINITIONS.items():
        for phrase in phrases:
            assert phrase in text_of(ROOT / page)


def test_each_version_is_one_of_a_cell() -> None:
    versions = {"Python": {cell.python for cell in MATRIX.cells.values()}}
    for name, package in PACKAGES.items():
        pins = [Requirement(pin) for cell in MATRIX.cells.values() for pin in cell.pins]
        versions[name] = {str(pin.specifier)[2:] for pin in pins if pin.name.removesuffix("-cpu") == package}
    for page in PAGES:
        for name, *numbers in VERSION.findall(re.sub(r"`[^`]*`", "…", text_of(page))):
            for number in filter(None, numbers):
                assert any(f"{version}.".startswith(f"{number}.") for version in versions[name]), (page, name, number)


@pytest.mark.parametrize(
    "text",
    [
        "It takes 12 ms.",
        "Files are 3x smaller.",
        "It passes 99 % of the cases.",
        "A hundred primitives.",
        "TensorFlow 2 is 2 times slower.",
        "It gains 4 dB.",
        "It has half the latency.",
    ],
)
def test_a_number_by_hand_is_found(text: str) -> None:
    assert find_unexplained(text, []) != []


def test_names_versions_and_code_are_no_numbers() -> None:
    text = "TensorFlow 1 and 2, TensorFlow 1.15, LiteRT 2.1.0, Keras 3, int8, int16x8, float8e4m3fn, `--shape x=1,2`, onnx2tf."
    assert find_unexplained(text, []) == []
