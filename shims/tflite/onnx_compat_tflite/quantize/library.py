"""Quantise a TFLite model by the package ai-edge-quantizer, so that its operators compute with integers."""

import contextlib
import importlib
import io
import logging
import re
import warnings
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple

import numpy as np

from onnx_compat.shim import ConversionError, MissingDependencyError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.quantize.ranges import Ranges

__all__ = ["KINDS", "check_library", "quantize_with_library"]

KINDS = ("dynamic", "int8", "int16x8")

#: Prefix of the tensor names in loops and branches. Their values change during a run and are not calibrated.
_INNER_PREFIX = "inner graph %d: "


def check_library(kind: str) -> None:
    """Raise MissingDependencyError if ai-edge-quantizer or a package that it needs cannot be imported.

    `kind` is the requested kind of quantisation, for the message.
    """
    try:
        _module("quantizer")
    except ImportError as error:
        reason = "" if isinstance(error, ModuleNotFoundError) and error.name == "ai_edge_quantizer" else " (%s)" % error
        raise MissingDependencyError(
            "the kind '%s' needs ai-edge-quantizer, which is not installed%s" % (kind, reason),
            hint="pip install 'onnx-compat[quantize]'; float16, weights-int8, weights-int4 and dynamic-int4 work without it",
        ) from error


def _module(name: str) -> Any:
    return importlib.import_module("ai_edge_quantizer." + name)


def quantize_with_library(model: fb.ModelSpec, kind: str, ranges: Optional[Ranges]) -> fb.ModelSpec:
    """Return the model quantised by ai-edge-quantizer. Its inputs and outputs stay float32.

    `kind` is the kind of quantisation, such as "dynamic". `ranges` are the calibration ranges, or None for a kind
    without calibration. With `ranges`,

    - in the first subgraph, operators on variables and on tensors with unbounded ranges stay float32,
    - only weights are quantised in loops and branches.

    Side effect: tensors of `model` may be renamed, except its inputs and outputs. Raises ConversionError if the library
    fails.
    """
    _make_names_unique(model)
    main = model.subgraphs[0]
    values = None if ranges is None else _calibration_values(main, ranges.limits)
    recipe = _recipe(kind) + ([] if ranges is None else _float_rules(main, ranges.unbounded | _variables(main)))
    with _silence():
        try:
            quantizer = _module("quantizer").Quantizer(fb.to_bytes(model), recipe)
            result = quantizer.quantize(values, enable_progress_bar=False, enable_progress_report=False)
            quantized = fb.read(bytes(result.quantized_model))
        except Exception as error:  # the library raises arbitrary exceptions for models of other converters
            raise ConversionError(
                "ai-edge-quantizer cannot quantise this model as '%s': %s: %s"
                % (kind, type(error).__name__, str(error).strip().split("\n")[0]),
                hint="use a kind that works without it: float16, weights-int8, weights-int4 or dynamic-int4",
            ) from error
    _restore_open_sizes(quantized)
    return quantized


def _restore_open_sizes(model: fb.ModelSpec) -> None:
    """Copy open sizes from the input of each QUANTIZE and DEQUANTIZE to its result; modify the model.

    The library copies the shape alone, so that an output would be declared with a batch of 1. A result that has open
    sizes already is not changed.
    """
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.builtin in ("QUANTIZE", "DEQUANTIZE"):
                source, result = (graph.tensors[index or 0] for index in (operator.inputs[0], operator.outputs[0]))
                if result.shape_signature is None:
                    result.shape_signature = source.shape_signature


def _make_names_unique(model: fb.ModelSpec) -> None:
    """Make the names of tensors unique over all subgraphs, in place: the library identifies tensors by name alone.

    Inputs and outputs of the first subgraph keep their names. Names in other subgraphs get the prefix `_INNER_PREFIX`.
    A name that is already used gets a number: x, x_1, x_2.
    """
    main = model.subgraphs[0]
    ports = set(main.inputs).union(main.outputs)
    suffixes = {main.tensors[index].name: 0 for index in ports}
    for number, graph in enumerate(model.subgraphs):
        for index, tensor in enumerate(graph.tensors):
            if number == 0 and index in ports:
                continue
            stem = name = (_INNER_PREFIX % number if number else "") + tensor.name
            while name in suffixes:
                suffixes[stem] += 1
                name = "%s_%d" % (stem, suffixes[stem])
            suffixes[name] = 0
            tensor.name = name


def _calibration_values(
    graph: fb.SubGraph, limits: Mapping[int, Tuple[float, float]]
) -> Dict[str, Dict[str, np.ndarray]]:
    """Return {tensor name: {"min": array, "max": array}}, the library's format of calibration results.

    Each float32 tensor that is no constant has an entry. `limits` has (least, largest) by tensor index. Without limits,
    a tensor gets the range [0, 0]. An array has a single element and the rank of the tensor: shape [1, 1] for rank 2.
    For a scalar it has rank 1.
    """
    values = {}
    for index, tensor in enumerate(graph.tensors):
        if tensor.dtype == "float32" and tensor.buffer is None:
            shape = (1,) * max(1, len(tensor.shape))
            least, largest = (np.full(shape, limit, np.float32) for limit in limits.get(index, (0.0, 0.0)))
            values[tensor.name] = {"min": least, "max": largest}
    return values


def _recipe(kind: str) -> List[Dict[str, Any]]:
    recipe = _module("recipe")
    if kind == "dynamic":
        return list(recipe.dynamic_wi8_afp32())
    static = recipe.static_wi8_ai8() if kind == "int8" else recipe.static_wi8_ai16()
    # The last rule that matches an operator applies. A rule for all operators ("*") replaces the rules of the same pattern.
    inner = "^" + _INNER_PREFIX.split("%", maxsplit=1)[0]
    weights = [dict(rule, regex=inner + ".") for rule in recipe.dynamic_wi8_afp32()]
    return [*static, _float_rule(".*", "INPUT"), _float_rule(".*", "OUTPUT"), _float_rule(inner, "*"), *weights]


def _variables(graph: fb.SubGraph) -> Set[int]:
    """Return the indices of the variable tensors, which stay float32.

    With a QUANTIZE between a variable and its operator, the operator would update a copy of the variable.
    """
    return {index for index, tensor in enumerate(graph.tensors) if tensor.is_variable}


def _float_rules(graph: fb.SubGraph, tensors: Set[int]) -> List[Dict[str, Any]]:
    """Return recipe rules of the library, under which operators that read or write one of `tensors` stay float32.

    There is one rule for each such operator that has a result. The library matches the pattern of a rule against the
    names of an operator's outputs, each followed by a semicolon.
    """
    operators = [op for op in graph.operators if tensors.intersection((*op.inputs, *op.outputs)) and op.outputs]
    return [_float_rule("^%s;" % re.escape(graph.tensors[op.outputs[0]].name), "*") for op in operators]


def _float_rule(pattern: str, operation: str) -> Dict[str, Any]:
    return {"regex": pattern, "operation": operation, "algorithm_key": "no_quantize", "op_config": {}}


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Return a context in which stdout, stderr, log records up to WARNING and Python warnings are suppressed."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()), _no_warnings():
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
