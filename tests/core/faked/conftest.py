"""A fake of the public API with a tiny model (y = 2x), to test the command line and verification without a shim."""

from types import SimpleNamespace

import numpy as np
import pytest

import onnx_compat
from onnx_compat.cli import main
from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, InvalidModelError, ShimError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.graph import Graph, GraphNode, Model, ValueInfo
from onnx_compat.model.types import TensorType
from onnx_compat.verification import verify

FLOATS = TensorType(DType.of("float32"), ("batch", 3))


def load(source):
    if isinstance(source, Model):
        return source
    if "broken" in str(source):
        raise InvalidModelError("the file '%s' is cut short" % source, hint="download it again")
    graph = Graph(
        "double", [ValueInfo("x", FLOATS)], [ValueInfo("y", FLOATS)],
        [GraphNode("Add", ["x", "x"], ["y"], opset=13, name="add_0")],
    )  # fmt: skip
    return Model(graph, {"": 13}, 7, path=str(source), producer="tests", source=source)


class Outputs(list):
    """A list of outputs that can also be indexed by name."""

    def __getitem__(self, key):
        if isinstance(key, str):
            if key != "y":
                raise KeyError(key)
            key = 0
        return super().__getitem__(key)


class Runnable:
    """A fake prepared model that multiplies its input by a factor."""

    def __init__(self, shim, factor=2.0):
        self.shim = shim
        self.factor = factor

    def run(self, inputs):
        if set(inputs) != {"x"}:
            raise InputError(
                "the model has no input %s" % ", ".join(sorted(set(inputs) - {"x"})), hint="its input is 'x'"
            )
        return Outputs([np.asarray(inputs["x"]) * np.float32(self.factor)])


def prepare(model, shim=None, device=None):
    """Return a fake prepared model. The shim "off" computes a wrong result, "noisy" prints, and "none" raises ShimError."""
    load(model)
    if shim == "none":
        raise ShimError("there is no shim 'none'", hint="choose one of reference, off", shim="none")
    if shim == "noisy":
        print("hello from a framework")
    return Runnable(shim or "chosen", 2.5 if shim == "off" else 2.0)


def convert(model, path, to=None, shim=None, **options):
    load(model)
    with open(str(path), "wb") as stream:
        stream.write(b"x" * 2048)
    return path


def support(model, shim=None, **options):
    load(model)
    status = "unsupported" if shim == "off" else "native"
    return [SimpleNamespace(node="add_0", operator="Add", opset=13, status=status, reason="")]


def shims():
    def info(name, available, selected, reason):
        return SimpleNamespace(
            name=name,
            available=available,
            selected=selected,
            reason=reason,
            framework="numpy",
            version="1",
            features={"f16": True},
            hint=None if available else "pip install it",
        )

    return [info("reference", True, True, "always here"), info("tf2", False, False, "tensorflow is not installed")]


@pytest.fixture(autouse=True)
def _fake_api(monkeypatch):
    for function in (load, prepare, convert, support, shims):
        monkeypatch.setitem(vars(onnx_compat), function.__name__, function)
    monkeypatch.setitem(vars(onnx_compat), "verify", verify)
    monkeypatch.setattr(
        selection, "installed_shims", dict
    )  # the doctor would probe each installed shim in a child process
    monkeypatch.setattr(selection, "decide", lambda *_: selection.Decision("reference", "nothing else is here"))


@pytest.fixture
def runnable():
    """Return the class of fake prepared models, to call as `runnable(shim, factor)`."""
    return Runnable


@pytest.fixture
def command(capfd):
    """Return a function that runs a command line. It returns the exit code, standard output and standard error."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return run
