"""The verifier of TFLite models: a defect of the emitter or of a pass is reported at the step that caused it.

It runs with ONNX_COMPAT_VERIFY=1: after emission, after the passes, and before a file is written. It checks that

- the indices of tensors and of subgraphs are in range, and no tensor is written twice, or written and constant or an input;
- an operator reads what is an input, a constant, a variable, or written before it;
- constants and quantization parameters fit their tensors, and inputs and outputs those of a signature;
- a branch or a loop hands its subgraphs what they take;
- types and sizes are those that the kernels give (`graph_rules`).
"""

from typing import Any, List, Sequence, Set

import numpy as np

from onnx_compat.shim import OnnxCompatError, VerificationError, is_verifying
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.flatbuffer.constants import check_constant
from onnx_compat_tflite.graph_rules import RULES, Use, agree, require, sizes_of

__all__ = ["check_graph", "verify_graph"]


def check_graph(model: fb.ModelSpec, after: str) -> fb.ModelSpec:
    """Verify the model if ONNX_COMPAT_VERIFY=1, and return it. `after` names the step that made or changed it."""
    if is_verifying():
        verify_graph(model, after)
    return model


def verify_graph(model: fb.ModelSpec, after: str = "") -> None:
    """Raise VerificationError if a model has a defect."""
    for number, graph in enumerate(model.subgraphs):
        where = "the subgraph %d '%s'" % (number, graph.name)
        try:
            _verify_subgraph(model, graph)
        except _Located as error:
            raise _defect_error("%s of %s: %s" % (error.place, where, error.reason), after) from error
        except OnnxCompatError as error:
            raise _defect_error("%s: %s" % (where, error.reason), after) from error
    try:
        _verify_signatures(model)
    except VerificationError as error:
        raise _defect_error(error.reason, after) from error


def _defect_error(defect: str, after: str) -> VerificationError:
    return VerificationError(
        "the TFLite graph has a defect%s: %s" % (" after %s" % after if after else "", defect),
        hint="this is a defect of onnx-compat: please report it with the model",
    )


class _Located(VerificationError):
    """A defect of one operator."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(reason)
        self.place = place


def _verify_subgraph(model: fb.ModelSpec, graph: fb.SubGraph) -> None:
    _check_indices(graph, [*graph.inputs, *graph.outputs])
    require(len(set(graph.inputs)) == len(graph.inputs), "a tensor is an input twice")
    for tensor in graph.tensors:
        _verify_tensor(tensor)
    constants = {index for index, tensor in enumerate(graph.tensors) if tensor.buffer is not None}
    variables = {index for index, tensor in enumerate(graph.tensors) if tensor.is_variable}
    require(not constants & set(graph.inputs), "a constant is an input")
    readable = constants | variables | set(graph.inputs)
    written: Set[int] = set()
    for number, operator in enumerate(graph.operators):
        try:
            _check_flow(graph, operator, readable, written - variables)
            written.update(operator.outputs)
            readable.update(operator.outputs)
            _verify_operator(model, graph, operator)
        except OnnxCompatError as error:
            raise _Located("operator %d (%s)" % (number, operator.builtin), error.reason) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = "its rule fails: %s: %s" % (type(error).__name__, error)
            raise _Located("operator %d (%s)" % (number, operator.builtin), reason) from error
    missing = [graph.tensors[index].name for index in graph.outputs if index not in readable]
    require(not missing, "nothing writes the outputs %s", missing)


def _check_indices(graph: fb.SubGraph, indices: Sequence[Any]) -> None:
    wrong = [index for index in indices if not 0 <= index < len(graph.tensors)]
    require(not wrong, "there are no tensors %s among %d", wrong, len(graph.tensors))


def _check_flow(graph: fb.SubGraph, operator: fb.OperatorSpec, readable: Set[int], written: Set[int]) -> None:
    """Tensors are written once, and read after that."""
    read = [index for index in operator.inputs if index is not None]
    _check_indices(graph, [*read, *operator.outputs, *operator.intermediates])
    early = [graph.tensors[index].name for index in read if index not in readable]
    require(not early, "it reads %s before anything writes that", early)
    require(len(set(operator.outputs)) == len(operator.outputs), "it writes a tensor twice")
    for index in operator.outputs:
        tensor = graph.tensors[index]
        require(index not in written, "'%s' is written a second time", tensor.name)
        require(tensor.buffer is None, "it writes the constant '%s'", tensor.name)
        require(index not in graph.inputs, "it writes the input '%s'", tensor.name)


def _verify_tensor(tensor: fb.TensorSpec) -> None:
    if tensor.shape_signature is not None:
        fits = len(tensor.shape) == len(tensor.shape_signature) and agree(tensor.shape_signature, tensor.shape)
        require(fits, "'%s' has the shape %s and the signature %s", tensor.name, tensor.shape, tensor.shape_signature)
    if tensor.buffer is not None:
        require(all(size >= 0 for size in sizes_of(tensor)), "the constant '%s' has an open size", tensor.name)
        check_constant(tensor)
    _verify_quantization(tensor)


def _verify_quantization(tensor: fb.TensorSpec) -> None:
    how = tensor.quantization
    if how is None or how.details is not None or not how.scale:
        return
    many = len(how.scale)
    require(
        len(how.zero_point) in (0, 1, many),
        "'%s' has %d zero points for %d scales",
        tensor.name,
        len(how.zero_point),
        many,
    )
    require(bool(np.all(np.isfinite(how.scale))), "a scale of '%s' is not finite", tensor.name)
    if many > 1:
        require(0 <= how.axis < len(tensor.shape), "'%s' is quantised along the axis %d", tensor.name, how.axis)
        size = tensor.shape[how.axis]
        require(many == size, "'%s' has %d scales along an axis of %d", tensor.name, many, size)


def _verify_operator(model: fb.ModelSpec, graph: fb.SubGraph, operator: fb.OperatorSpec) -> None:
    for name, value in operator.options.items():
        if "subgraph" in name:
            for number in value if isinstance(value, (list, tuple)) else [value]:
                require(0 <= number < len(model.subgraphs), "there is no subgraph %d", number)
    options = operator.options
    given = [graph.tensors[index] for index in operator.inputs if index is not None]
    results = [graph.tensors[index] for index in operator.outputs]
    if operator.builtin == "IF":
        for name in ("then_subgraph_index", "else_subgraph_index"):
            branch = model.subgraphs[options[name]]
            _check_handed(given[1:], branch, branch.inputs, "takes")
            _check_handed(results, branch, branch.outputs, "gives")
    elif operator.builtin == "WHILE":
        test, body = (model.subgraphs[options[name]] for name in ("cond_subgraph_index", "body_subgraph_index"))
        for inner in (test, body):
            _check_handed(given, inner, inner.inputs, "takes")
        _check_handed(results, body, body.outputs, "gives")
        _check_truth(test)
    elif operator.builtin in RULES:
        RULES[operator.builtin](Use(graph, operator))


def _check_handed(outer: List[fb.TensorSpec], graph: fb.SubGraph, indices: Sequence[int], verb: str) -> None:
    """Values that go into or come out of another subgraph have their types there."""
    _check_indices(graph, indices)
    require(len(outer) == len(indices), "'%s' %s %d values, not %d", graph.name, verb, len(indices), len(outer))
    for tensor, inner in zip(outer, (graph.tensors[index] for index in indices)):
        same = tensor.dtype == inner.dtype and agree(sizes_of(tensor), sizes_of(inner))
        types = "%s%s" % (inner.dtype, list(sizes_of(inner))), "%s%s" % (tensor.dtype, list(sizes_of(tensor)))
        require(same, "'%s' %s %s for %s", graph.name, verb, *types)


def _check_truth(test: fb.SubGraph) -> None:
    require(len(test.outputs) == 1, "the condition '%s' gives %d values", test.name, len(test.outputs))
    result = test.tensors[test.outputs[0]]
    require(result.dtype == "bool", "the condition '%s' is %s", test.name, result.dtype)


def _verify_signatures(model: fb.ModelSpec) -> None:
    keys = [signature.key for signature in model.signatures]
    require(len(set(keys)) == len(keys), "the keys of the signatures repeat: %s", keys)
    for signature in model.signatures:
        require(0 <= signature.subgraph < len(model.subgraphs), "the signature '%s' has no subgraph", signature.key)
        graph = model.subgraphs[signature.subgraph]
        for kind, named, indices in (
            ("inputs", signature.inputs, graph.inputs),
            ("outputs", signature.outputs, graph.outputs),
        ):
            fits = set(named.values()) <= set(indices)
            require(fits, "the %s of the signature '%s' are not those of its subgraph", kind, signature.key)
