"""Hints for a converted file that refuses its inputs, and the operator that its runtime refuses."""

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import pytest

from onnx_compat.discovery import selection
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dtypes import float32
from onnx_compat.model import TensorType, ValueInfo
from onnx_compat.reference.shim import ReferenceShim
from onnx_compat.shim.description import OpenedFile, Step
from onnx_compat.verification.file_errors import add_refused_operator, input_hint


def ports(**shapes: Any) -> List[ValueInfo]:
    return [ValueInfo(name, TensorType(float32, shape)) for name, shape in shapes.items()]


def hint(
    declared: Any, in_file: Any, given: Any, channels_last: Sequence[str] = (), generated: bool = True
) -> Optional[str]:
    """Return the hint for a model with an input x of the shape `declared`, whose file has the shape `in_file`."""
    values: Dict[str, Any] = {"x": np.zeros(given, np.float32)}
    return input_hint(ports(x=declared), ports(x=in_file), values, channels_last, generated)


def test_open_sizes_of_the_model_that_the_file_has_fixed_are_given_by_dim() -> None:
    assert hint(("n", 3), (4, 3), (2, 3)) == (
        "the file has fixed sizes: generate inputs of these sizes with --dim n=4"
    )  # fmt: skip
    assert "--dim n=4 --dim m=5" in str(hint(("n", "m", 3), (4, 5, 3), (2, 2, 3)))
    assert "--dim h=8" in str(hint((1, 3, "h", 6), (1, 8, 6, 3), (1, 3, 5, 6), ["x"]))


def test_inputs_that_a_user_gives_need_the_shapes_of_the_file() -> None:
    assert hint(("n", 3), (4, 3), (2, 3), generated=False) == (
        "the file has fixed sizes: give inputs (--inputs) of these shapes: 'x' [4, 3]"
    )
    assert "'x' [4, '?']" in str(hint((None, "m"), (4, "k"), (2, 3)))


@pytest.mark.parametrize(
    ("declared", "in_file", "given"),
    [((2, 3), (4, 3), (2, 3)), (("n", 3), (4, 3, 1), (2, 3)), ((1, 3, 5, 6), (1, 5, 6, 3), (1, 3, 5, 6))],
)
def test_a_file_with_other_sizes_than_the_model_is_of_another_model(declared: Any, in_file: Any, given: Any) -> None:
    assert "check that the file was converted from this model" in str(hint(declared, in_file, given))


def test_channels_last_that_do_not_fit_the_file_are_named() -> None:
    assert "--channels-last" in str(hint((1, 3, 5, 6), (1, 3, 5, 6), (1, 3, 5, 6), ["x"]))
    assert hint((1, 3, 5, 6), (1, 5, 6, 3), (1, 3, 5, 6), ["x"]) is None


def test_inputs_that_do_not_fit_the_model_get_no_hint() -> None:
    assert hint(("n", 3), (4, 3), (2, 5)) is None
    assert hint(("n", 3), ("n", 3), (2, 3)) is None
    assert hint(None, (4, 3), (2, 3)) is None
    assert input_hint(ports(x=(2,)), ports(other=(3,)), {"x": np.zeros(2)}, (), True) is None


class TwoOperators(OpenedFile):
    """A fake file, of which only the operators are read."""

    steps = (Step("NEG", ("x",), ("n",)), Step("ADD (int8)", ("n", "x"), ("y", "z")))

    def values(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        raise AssertionError("the file is not run")

    def alone(self, name: str, given: Mapping[str, np.ndarray]) -> np.ndarray:
        raise AssertionError("the file is not run")


class Reader(ReferenceShim):
    """A shim that opens a fake file of two operators."""

    name = "reader"
    formats = {"fake": (".fake", "a file of the tests")}

    def look_inside(self, path: str, file_format: str) -> OpenedFile:
        return TwoOperators()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Node number 1 (ADD) failed to prepare.", "the runtime refuses the operator 1 (ADD), which computes 'y', 'z'"),
        ("Node number 0 (ADD) failed to prepare.", "the runtime refuses the operator 0 (ADD)"),
        ("Node number 7 (ADD) failed to invoke.", "the runtime refuses the operator 7 (ADD)"),
    ],
)
def test_the_refused_operator_is_named(monkeypatch: pytest.MonkeyPatch, message: str, text: str) -> None:
    monkeypatch.setitem(selection._LOADED, "reader", Reader())
    error = UnsupportedError("the framework refused the file", hint="try other sizes")
    error.__cause__ = RuntimeError(message)
    add_refused_operator(error, Path("m.fake"), "reader")
    assert error.reason.splitlines()[-1] == text
    assert str(error.hint).startswith("convert the model again")
    assert "--dim" in str(error.hint)


def test_an_error_without_an_operator_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    error = UnsupportedError("the framework refused the file", hint="try other sizes")
    add_refused_operator(error, "m.fake", "reader")
    assert (error.reason, error.hint) == ("the framework refused the file", "try other sizes")


def test_a_file_of_an_unknown_format_names_no_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(selection._LOADED, "reader", Reader())
    error = UnsupportedError("Node number 1 (ADD) failed to prepare.", hint="")
    add_refused_operator(error, "m.bin", "reader")
    assert error.reason.endswith("the runtime refuses the operator 1 (ADD)")
    assert error.hint == "convert the model again: if the new file runs, this file was changed"
