"""What ai-edge-quantizer does: operators that compute with integers."""

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

__all__ = ["KINDS", "quantized", "required"]

KINDS = ("dynamic", "int8", "int16x8")

#: How the tensors of loops and branches are called: what they hold changes under way, so that it is not calibrated.
_INNER = "inner graph %d: "


def required(kind: str) -> None:
    """Whether the library is here and works."""
    try:
        _module("quantizer")
    except ImportError as error:
        reason = "" if isinstance(error, ModuleNotFoundError) and error.name == "ai_edge_quantizer" else " (%s)" % error
        raise MissingDependencyError(
            "the kind '%s' needs ai-edge-quantizer, which is not here%s" % (kind, reason),
            hint="pip install 'onnx-compat[quantize]'; without it, there are float16, weights-int8, weights-int4 and dynamic-int4",
        ) from error


def _module(name: str) -> Any:
    return importlib.import_module("ai_edge_quantizer." + name)


def quantized(model: fb.ModelSpec, kind: str, learnt: Optional[Ranges]) -> fb.ModelSpec:
    """The model with integers. Inputs and outputs stay as they are, and so do operators on what has no range."""
    _name_apart(model)
    main = model.subgraphs[0]
    values = None if learnt is None else _values(main, learnt.found)
    recipe = _recipe(kind) + ([] if learnt is None else _left_float(main, learnt.boundless | _variables(main)))
    with _quiet():
        try:
            made = _module("quantizer").Quantizer(fb.to_bytes(model), recipe)
            result = made.quantize(values, enable_progress_bar=False, enable_progress_report=False)
            return fb.read(bytes(result.quantized_model))
        except Exception as error:  # whatever a library raises that was not made for this model
            raise ConversionError(
                "ai-edge-quantizer cannot quantise this model as '%s': %s: %s"
                % (kind, type(error).__name__, str(error).strip().split("\n")[0]),
                hint="another kind may do: float16, weights-int8, weights-int4 and dynamic-int4 are done without it",
            ) from error


def _name_apart(model: fb.ModelSpec) -> None:
    """It knows tensors by their names alone, over all graphs. Inputs and outputs keep theirs."""
    main = model.subgraphs[0]
    kept = set(main.inputs).union(main.outputs)
    taken = {main.tensors[index].name: 0 for index in kept}
    for number, graph in enumerate(model.subgraphs):
        for index, tensor in enumerate(graph.tensors):
            if number == 0 and index in kept:
                continue
            stem = name = (_INNER % number if number else "") + tensor.name
            while name in taken:
                taken[stem] += 1
                name = "%s_%d" % (stem, taken[stem])
            taken[name] = 0
            tensor.name = name


def _values(graph: fb.SubGraph, ranges: Mapping[int, Tuple[float, float]]) -> Dict[str, Dict[str, Any]]:
    """The ranges in the library's terms; of a tensor that never had a value, that of zero."""
    found = {}
    for index, tensor in enumerate(graph.tensors):
        if tensor.dtype == "float32" and tensor.buffer is None:
            shape = (1,) * max(1, len(tensor.shape))
            least, largest = (np.full(shape, limit, np.float32) for limit in ranges.get(index, (0.0, 0.0)))
            found[tensor.name] = {"min": least, "max": largest}
    return found


def _recipe(kind: str) -> List[Dict[str, Any]]:
    recipe = _module("recipe")
    if kind == "dynamic":
        return list(recipe.dynamic_wi8_afp32())
    static = recipe.static_wi8_ai8() if kind == "int8" else recipe.static_wi8_ai16()
    # The last rule that fits an operator holds; a rule for all operators takes the place of what has the same pattern.
    inner = "^" + _INNER.split("%", maxsplit=1)[0]
    weights = [dict(rule, regex=inner + ".") for rule in recipe.dynamic_wi8_afp32()]
    return [*static, _left(".*", "INPUT"), _left(".*", "OUTPUT"), _left(inner, "*"), *weights]


def _variables(graph: fb.SubGraph) -> Set[int]:
    """Tensors that an operator changes, and that only float operators know: what would be between it and them loses that."""
    return {index for index, tensor in enumerate(graph.tensors) if tensor.is_variable}


def _left_float(graph: fb.SubGraph, boundless: Set[int]) -> List[Dict[str, Any]]:
    """An operator goes by the names of its results, each with a semicolon behind it."""
    touched = [one for one in graph.operators if boundless.intersection((*one.inputs, *one.outputs)) and one.outputs]
    return [_left("^%s;" % re.escape(graph.tensors[one.outputs[0]].name), "*") for one in touched]


def _left(pattern: str, operation: str) -> Dict[str, Any]:
    return {"regex": pattern, "operation": operation, "algorithm_key": "no_quantize", "op_config": {}}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without its progress bars, its log and what its interpreter warns of."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()), _unwarned():
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _unwarned() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
