"""Plugin of pytest: `convert_version` of onnx and of onnxscript convert models by this project.

An error of this project becomes the error that the suites expect. The suites have no other part of this project.
"""

from __future__ import annotations

import importlib
from typing import Any

import onnx
import onnx.version_converter

from onnx_compat.errors import OnnxCompatError
from onnx_compat.retarget.checking import check_form
from onnx_compat.retarget.conversion import retarget

__all__ = ["InvalidResultError", "RefusedError", "convert_ir", "convert_proto", "pytest_configure"]


class RefusedError(onnx.version_converter.ConvertError, RuntimeError):
    """This project refuses a conversion. The suites expect one of its base classes, which onnx's converter raises."""


class InvalidResultError(Exception):
    """The checker of onnx accepts the source, and refuses the result. No suite expects this error."""


def pytest_configure() -> None:
    """Replace `convert_version` of onnx, and of onnxscript if it is installed.

    pytest calls the function before it imports a test module.
    """
    onnx.version_converter.convert_version = convert_proto
    try:
        converter = importlib.import_module("onnxscript.version_converter")
    except ImportError:
        return
    converter.convert_version = convert_ir  # type: ignore[attr-defined]  # an untyped module


def convert_proto(model: Any, target_version: int) -> Any:
    """Return a ModelProto at the opset `target_version`.

    Raises TypeError if `model` is no ModelProto, and RefusedError if this project refuses it. Raises InvalidResultError
    if the checker of onnx accepts `model`, and refuses the result.
    """
    if not isinstance(model, onnx.ModelProto):
        raise TypeError("VersionConverter only accepts ModelProto as model, incorrect type: %s" % type(model))
    try:
        result = retarget(model, target_version)
    except OnnxCompatError as error:
        raise RefusedError(str(error)) from error
    try:
        check_form(result, model)
    except OnnxCompatError as error:
        raise InvalidResultError(str(error)) from error
    return result


def convert_ir(model: Any, target_version: int, fallback: Any = None) -> None:  # noqa: ARG001 (the signature of onnxscript)
    """Convert an onnx_ir model, or a ModelProto, to another opset in place, as the function of onnxscript does.

    `fallback` has no effect. Raises RefusedError if this project refuses the model. Raises InvalidResultError if the
    checker of onnx accepts the model, and refuses the result.
    """
    onnx_ir = importlib.import_module("onnx_ir")
    if isinstance(model, onnx.ModelProto):
        model.CopyFrom(convert_proto(model, target_version))
        return
    converted = onnx_ir.from_proto(convert_proto(onnx_ir.to_proto(model), target_version))
    for node in converted.graph.all_nodes():
        node.version = target_version
    model.graph = converted.graph
    model.functions.clear()
    model.functions.update(converted.functions)
