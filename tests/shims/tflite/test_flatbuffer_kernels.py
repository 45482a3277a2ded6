"""The table of kernel facts: its own rules, and that it agrees with the installed runtime."""

import importlib

import pytest
from onnx_compat_tflite.flatbuffer.names import ENUMS, OPERATORS
from onnx_compat_tflite.kernel_facts import USES, VERSIONS
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.runtime_quirks import RuntimeQuirks


def _interpreter():
    for name in ("ai_edge_litert.interpreter", "tflite_runtime.interpreter"):
        try:
            return importlib.import_module(name).Interpreter
        except ImportError:
            continue
    return None


def test_common_facts():
    kernels = Kernels()
    assert kernels.accepts("ADD", "int64")
    assert not kernels.accepts("ADD", "int8")
    assert not kernels.accepts("ADD", "float32", "broadcast rank 5")
    assert kernels.accepts("SUB", "float32", "broadcast rank 5")
    assert not kernels.accepts("GELU", "float32")
    assert not kernels.accepts("NO_SUCH", "float32")
    assert kernels.has("WHILE")
    assert not kernels.has("GELU")
    assert not kernels.has("ADD", 5)


@pytest.mark.skipif(_interpreter() is None, reason="no TFLite interpreter is installed")
def test_a_runtime_adds_what_it_has():
    kernels = Kernels(_interpreter())
    assert kernels.accepts("ADD", "int64")
    assert not kernels.accepts("ADD", "int8")
    # A kernel that is taken for granted is there; one that is there may be of a runtime between two that were measured.
    assert kernels.has("GELU") or not kernels.accepts("GELU", "float32")
    assert not kernels.has("GELU", 14)


def test_the_table_speaks_of_known_things():
    columns = set()
    for line in VERSIONS.strip().splitlines():
        name, *versions = line.split()
        assert name in OPERATORS.numbers
        assert [int(version) for version in versions] == sorted(int(version) for version in versions)
        columns.add(len(versions))
    (steps,) = columns
    for line in USES.strip().splitlines():
        operator, features, types = line.split(":", 2)
        assert operator in OPERATORS.numbers
        assert all(feature.strip() for feature in features.split(","))
        for word in types.split():
            dtype, _, step = word.partition(":")
            assert dtype in ENUMS["TensorType"].names
            assert int(step or 0) < steps


@pytest.mark.skipif(_interpreter() is None, reason="no TFLite interpreter is installed")
def test_unprobed_quirks_have_their_worst_values():
    assert Kernels().quirks == RuntimeQuirks()
    assert any(Kernels(_interpreter()).quirks)
