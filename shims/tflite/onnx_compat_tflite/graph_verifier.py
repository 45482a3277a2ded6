"""Verify TFLite models, so that a defect is reported after the step or the pass that caused it.

With ONNX_COMPAT_VERIFY=1, the verifier runs after emission, after each pass, and before a file is written. It checks that
- the indices of tensors and subgraphs are in range;
- operators write no constant and no input, and write a tensor only once, unless it is a variable;
- an operator reads only inputs, constants, variables, and tensors that an earlier operator wrote;
- constants and quantization parameters fit their tensors;
- the inputs and outputs of a signature are those of its subgraph;
- a branch or a loop passes its subgraphs the values that they take;
- dtypes and sizes follow the rules of the kernels (`graph_rules`).
"""

from typing import Any, List, Sequence, Set

import numpy as np

from onnx_compat.shim import OnnxCompatError, VerificationError, is_verifying
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.flatbuffer.constants import check_constant
from onnx_compat_tflite.graph_rules import RULES, Use, agree, require, sizes_of

__all__ = ["check_graph", "verify_graph"]


def check_graph(model: fb.ModelSpec, after: str) -> fb.ModelSpec:
    """Verify the model if ONNX_COMPAT_VERIFY=1, and return the model.

    `after` names the step that built or changed the model, for the message. Raises VerificationError for a defect.
    """
    if is_verifying():
        verify_graph(model, after)
    return model


def verify_graph(model: fb.ModelSpec, after: str = "") -> None:
    """Raise VerificationError if a model has a defect. The module docstring lists the defects.

    The message names the subgraph of the defect, and the operator if a single operator has the defect. It names neither
    for a defect of a signature. `after`: the step after which the model is verified, such as "the pass 'x'". The
    message names the step if it is not empty.
    """
    for number, graph in enumerate(model.subgraphs):
        where = "the subgraph %d '%s'" % (number, graph.name)
        try:
            _verify_subgraph(model, graph)
        except _OperatorDefect as error:
            raise _defect_error("%s of %s: %s" % (error.operator, where, error.reason), after) from error
        except OnnxCompatError as error:
            raise _defect_error("%s: %s" % (where, error.reason), after) from error
    try:
        _verify_signatures(model)
    except VerificationError as error:
        raise _defect_error(error.reason, after) from error


def _defect_error(defect: str, after: str) -> VerificationError:
    return VerificationError(
        "the TFLite graph has a defect%s: %s" % (" after %s" % after if after else "", defect),
        hint="This is a defect of onnx-compat. Please report it with the model.",
    )


class _OperatorDefect(VerificationError):
    """Report a defect of a single operator. The text `operator` names the operator: "operator 3 (ADD)"."""

    def __init__(self, operator: str, reason: str) -> None:
        super().__init__(reason)
        self.operator = operator


def _verify_subgraph(model: fb.ModelSpec, graph: fb.SubGraph) -> None:
    """Check the inputs and outputs, the tensors and, in order, the operators of a subgraph.

    - For a defect of an operator, raises `_OperatorDefect`, also if its rule raises another exception.
    - For a constant that does not fit its tensor, raises ConversionError.
    - For any other defect, raises VerificationError.
    """
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
            raise _OperatorDefect("operator %d (%s)" % (number, operator.builtin), error.reason) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = "its rule fails: %s: %s" % (type(error).__name__, error)
            raise _OperatorDefect("operator %d (%s)" % (number, operator.builtin), reason) from error
    missing = [graph.tensors[index].name for index in graph.outputs if index not in readable]
    require(not missing, "nothing writes the outputs %s", missing)


def _check_indices(graph: fb.SubGraph, indices: Sequence[Any]) -> None:
    wrong = [index for index in indices if not 0 <= index < len(graph.tensors)]
    require(not wrong, "there are no tensors %s among %d", wrong, len(graph.tensors))


def _check_flow(graph: fb.SubGraph, operator: fb.OperatorSpec, readable: Set[int], written: Set[int]) -> None:
    """Raise VerificationError unless an operator reads only `readable` tensors, and has tensor indices in range.

    It may write no constant, no input, no `written` tensor, and no tensor twice.
    """
    read = [index for index in operator.inputs if index is not None]
    _check_indices(graph, [*read, *operator.outputs, *operator.intermediates])
    unavailable = [graph.tensors[index].name for index in read if index not in readable]
    require(not unavailable, "it reads %s before anything writes that", unavailable)
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
    quantization = tensor.quantization
    if quantization is None or quantization.details is not None or not quantization.scale:
        return
    count = len(quantization.scale)
    require(
        len(quantization.zero_point) in (0, 1, count),
        "'%s' has %d zero points for %d scales",
        tensor.name,
        len(quantization.zero_point),
        count,
    )
    require(bool(np.all(np.isfinite(quantization.scale))), "a scale of '%s' is not finite", tensor.name)
    _verify_zero_points(tensor, quantization.zero_point)
    if count > 1:
        require(
            0 <= quantization.axis < len(tensor.shape),
            "'%s' is quantised along the axis %d",
            tensor.name,
            quantization.axis,
        )
        size = tensor.shape[quantization.axis]
        require(count == size, "'%s' has %d scales along an axis of %d", tensor.name, count, size)


def _verify_zero_points(tensor: fb.TensorSpec, zero_points: Sequence[int]) -> None:
    """Raise VerificationError for a zero point that the tensor's dtype cannot hold.

    A file with such a zero point ended the process in XNNPACK (LiteRT 2.3). Only int8, uint8, int16, uint16 and int32
    are checked.
    """
    if tensor.dtype in ("int8", "uint8", "int16", "uint16", "int32"):
        info = np.iinfo(tensor.dtype)
        for zero_point in zero_points:
            in_range = info.min <= zero_point <= info.max
            require(in_range, "the zero point %d of '%s' is no %s", zero_point, tensor.name, tensor.dtype)


def _verify_operator(model: fb.ModelSpec, graph: fb.SubGraph, operator: fb.OperatorSpec) -> None:
    """Check an operator: IF and WHILE against their subgraphs, any other op by its rule in `RULES`.

    An op without a rule passes. For every op, options that are subgraph indices must be in range.

    Raises VerificationError if the check fails. Other exceptions, such as KeyError or IndexError, are possible if the
    operator lacks inputs, outputs, options or axes.
    """
    for name, value in operator.options.items():
        if "subgraph" in name:
            for number in value if isinstance(value, (list, tuple)) else [value]:
                require(0 <= number < len(model.subgraphs), "there is no subgraph %d", number)
    options = operator.options
    inputs = [graph.tensors[index] for index in operator.inputs if index is not None]
    results = [graph.tensors[index] for index in operator.outputs]
    if operator.builtin == "IF":
        for name in ("then_subgraph_index", "else_subgraph_index"):
            branch = model.subgraphs[options[name]]
            _check_passed_values(inputs[1:], branch, branch.inputs, "takes")
            _check_passed_values(results, branch, branch.outputs, "gives")
    elif operator.builtin == "WHILE":
        test, body = (model.subgraphs[options[name]] for name in ("cond_subgraph_index", "body_subgraph_index"))
        for inner in (test, body):
            _check_passed_values(inputs, inner, inner.inputs, "takes")
        _check_passed_values(results, body, body.outputs, "gives")
        _check_condition(test)
    elif operator.builtin in RULES:
        RULES[operator.builtin](Use(graph, operator))


def _check_passed_values(outer: List[fb.TensorSpec], graph: fb.SubGraph, indices: Sequence[int], verb: str) -> None:
    """Raise VerificationError unless `outer` matches the tensors `indices` of a subgraph in number, dtype and shape.

    `outer` are the tensors that the caller passes or gets, `indices` the inputs or outputs of the subgraph. An unknown
    size (-1) matches every size. `verb`, "takes" or "gives", is a word of the message.
    """
    _check_indices(graph, indices)
    require(len(outer) == len(indices), "'%s' %s %d values, not %d", graph.name, verb, len(indices), len(outer))
    for tensor, inner in zip(outer, (graph.tensors[index] for index in indices)):
        same = tensor.dtype == inner.dtype and agree(sizes_of(tensor), sizes_of(inner))
        types = "%s%s" % (inner.dtype, list(sizes_of(inner))), "%s%s" % (tensor.dtype, list(sizes_of(tensor)))
        require(same, "'%s' %s %s for %s", graph.name, verb, *types)


def _check_condition(test: fb.SubGraph) -> None:
    """Raise VerificationError unless the condition subgraph of a WHILE has a single output, of dtype bool."""
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
