"""The integer kernel of each float operator between a DequantizeLinear and a QuantizeLinear.

Each function takes the operator and the parameters of its result. It returns a function that writes the result. It returns
None if the kernel does not accept the parameters (weights with a zero point, another scale): then the floats stay. A
kernel may first round to parameters of its own, if no result moves by more than one step.
"""

from typing import Callable, Dict, List, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.parameters import (
    QuantParams,
    have_common_type,
    parameters_of_constant,
    quantize,
)
from onnx_compat_tflite.passes.integers.region import MaybeWriter, QuantizedRegion, Writer
from onnx_compat_tflite.passes.integers.unary import (
    RANGES,
    average_pool,
    count_reduced,
    fixed_range,
    hard_swish,
    leaky_relu,
    mean,
    resize_bilinear,
)  # fmt: skip
from onnx_compat_tflite.passes.integers.weights import convolution, fully_connected, transpose_conv
from onnx_compat_tflite.passes.rewriter import ArrayLike, is_unfused

__all__ = ["find_kernel"]

_BOUNDS = ("RELU", "RELU6", "RELU_N1_TO_1")


def find_kernel(region: QuantizedRegion, index: int, parameters: QuantParams) -> MaybeWriter:
    """Return the function that writes a float tensor as integers with these parameters, or None."""
    index, bound = _without_activation(region, index, parameters)
    if region.parameters_of(index) is not None:
        return _write_rescaled(region, index, bound)
    if not region.has_single_reader(index):
        return None
    move = region.move_of(index)
    if move is not None and move.inputs[0] is not None:
        inner = find_kernel(region, move.inputs[0], parameters)
        if inner is None:
            return None
        return _with_activation(region, index, parameters, bound, _write_moved(region, move, inner, parameters))
    return _kernel_of_producer(region, index, parameters, bound)


def _kernel_of_producer(region: QuantizedRegion, index: int, parameters: QuantParams, bound: str) -> MaybeWriter:
    """Return the kernel of the operator that writes a tensor, with the activation behind it."""
    for builtins, fusing in _FUSING.items():
        op = region.graph.producer(index, *builtins)
        own = "NONE" if op is None else op.options.get("fused_activation_function", "NONE")
        if op is not None and "NONE" in (own, bound):
            return fusing(region, op, parameters, own if bound == "NONE" else bound)
    for builtins, find_writer in _OTHERS.items():
        op = region.graph.producer(index, *builtins)
        if op is not None and is_unfused(op):
            writer = find_writer(region, op, parameters)
            return None if writer is None else _with_activation(region, index, parameters, bound, writer)
    return None


def _without_activation(region: QuantizedRegion, index: int, parameters: QuantParams) -> Tuple[int, str]:
    """Return the tensor before an activation, and the name of the activation. Bounds within a step of the range are skipped."""
    graph = region.graph
    while region.has_single_reader(index):
        op = graph.producer(index, "MAXIMUM", "MINIMUM", *_BOUNDS)
        unguarded = region.without_guard(index)
        if unguarded is not None:
            index = unguarded
            continue
        if op is None or op.inputs[0] is None:
            break
        if op.builtin in _BOUNDS:
            return op.inputs[0], op.builtin
        number, inner = graph.number(op.inputs[0]), op.inputs[1]
        low, high = parameters.ends[0] + parameters.scale, parameters.ends[1] - parameters.scale
        is_noop = number is not None and (number <= low if op.builtin == "MAXIMUM" else number >= high)
        if not is_noop and inner is not None and op.builtin == "MAXIMUM" and number == 0:
            return inner, "RELU"
        if not is_noop or inner is None:
            break
        index = inner
    return index, "NONE"


def _with_activation(region: QuantizedRegion, index: int, parameters: QuantParams, bound: str, inner: Writer) -> Writer:
    """Append an activation, for kernels that fuse none."""
    if bound == "NONE":
        return inner

    def write(output: int) -> None:
        whole = region.add_tensor(index, parameters)
        inner(whole)
        region.append(bound, [whole], output)

    return write


def _write_rescaled(region: QuantizedRegion, index: int, bound: str) -> Writer:
    """Return a writer of QUANTIZE, which changes the parameters of integers, or of an activation of them."""
    return lambda output: region.append("QUANTIZE" if bound == "NONE" else bound, [region.integers_of(index)], output)


def _write_moved(region: QuantizedRegion, move: fb.OperatorSpec, inner: Writer, parameters: QuantParams) -> Writer:
    """Return a writer of a move of the tensor that `inner` writes."""

    def write(output: int) -> None:
        source = region.add_tensor(move.inputs[0] or 0, parameters)
        inner(source)
        region.append_move(move, source, output)

    return write


# -- of two tensors --------------------------------------------------------------------------------------------------------
Operand = Optional[Tuple[QuantParams, Callable[[], int]]]


def _operand(region: QuantizedRegion, index: Optional[int], dtype: str) -> Operand:
    """Return the parameters of an operand, and a function that returns its tensor of integers; or None."""
    array = region.graph.constant(index)
    if index is None or array is not None:
        return None if index is None else _constant_operand(region, array, dtype)
    parameters = region.parameters_of(index)
    return _scaled_operand(region, index) if parameters is None else (parameters, lambda: region.integers_of(index))


def _constant_operand(region: QuantizedRegion, array: ArrayLike, dtype: str) -> Operand:
    """Return a constant that integers store exactly, or None."""
    parameters = parameters_of_constant(array, dtype)
    if parameters is None:
        return None
    known = parameters
    return parameters, lambda: region.add_constant(quantize(array, known), known.quantization)


def _scaled_operand(region: QuantizedRegion, index: int) -> Operand:
    """Return a number times a value with parameters: the same integers with a scaled step. None for other operands."""
    product = region.graph.producer(index, "MUL", "DIV")
    if product is None or not region.has_single_reader(index) or not is_unfused(product):
        return None
    for x, number in _factors(region, product):
        parameters = region.parameters_of(x)
        if parameters is not None and number > 0:
            first, second = (
                _operand(region, x, parameters.dtype),
                _constant_operand(region, np.float32(number), parameters.dtype),
            )
            scaled = parameters.times(number)
            if first is None or second is None:
                return None
            return scaled, _write_later(region, index, scaled, _product_of(region, first[1], second[1]))
    return None


def _factors(region: QuantizedRegion, op: fb.OperatorSpec) -> List[Tuple[Optional[int], float]]:
    """Return the tensors and numbers of a product with a number. A quotient is a product with the reciprocal."""
    left, right = op.inputs
    numbers = [(x, region.graph.number(factor)) for x, factor in ((left, right), (right, left))]
    if op.builtin == "DIV":
        numbers = [(x, 1 / number) for x, number in numbers[:1] if number]
    return [(x, number) for x, number in numbers if number is not None]


def _product_of(region: QuantizedRegion, first: Callable[[], int], second: Callable[[], int]) -> Writer:
    return lambda output: region.append("MUL", [first(), second()], output, fused_activation_function="NONE")


def _write_later(region: QuantizedRegion, index: int, parameters: QuantParams, write: Writer) -> Callable[[], int]:
    """Return a function that adds a tensor of the shape of another, writes it and returns its index."""

    def write_tensor() -> int:
        output = region.add_tensor(index, parameters)
        write(output)
        return output

    return write_tensor


def _operand_of_product(
    region: QuantizedRegion, index: Optional[int], number: Optional[float], parameters: QuantParams
) -> Operand:
    """Return the operand that, times a number, gives a result with these parameters: the same integers with a scaled step."""
    if index is None or number is None or not number > 0:
        return None
    scaled = parameters.times(1 / number)
    write = find_kernel(region, index, scaled)
    return None if write is None else (scaled, _write_later(region, index, scaled, write))


def _pair(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams, bound: str) -> MaybeWriter:
    """Return the kernels of ADD, SUB, MUL and BATCH_MATMUL."""
    left, right = (_operand(region, index, parameters.dtype) for index in op.inputs[:2])
    if op.builtin == "MUL":
        numbers = [region.graph.number(index) for index in op.inputs]
        left = left or _operand_of_product(region, op.inputs[0], numbers[1], parameters)
        right = right or _operand_of_product(region, op.inputs[1], numbers[0], parameters)
    if left is None or right is None or not have_common_type(parameters, left[0], right[0]):
        return None
    shapes = [region.graph.sizes(index or 0) for index in op.inputs[:2]]
    if max(map(len, shapes)) > 4 and (op.builtin == "BATCH_MATMUL" or tuple(shapes[0]) != tuple(shapes[1])):
        return None
    options = dict(op.options)
    if op.builtin in ("ADD", "SUB") and parameters.dtype == "int16":
        options["pot_scale_int16"] = False
    if op.builtin != "BATCH_MATMUL":
        options["fused_activation_function"] = bound
    first, second = left[1], right[1]
    return lambda output: region.append(op.builtin, [first(), second()], output, **options)


def _product(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return the kernel of BATCH_MATMUL."""
    return _pair(region, op, parameters, "NONE")


def _concatenation(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return the kernel of CONCATENATION, which takes the same parameters for all parts."""
    parts: List[Callable[[], int]] = []
    for index in op.inputs:
        part = None if index is None else _part(region, index, parameters)
        if part is None:
            return None
        parts.append(part)
    axis = op.options["axis"]
    return lambda output: region.append("CONCATENATION", [part() for part in parts], output, axis=axis)


def _part(region: QuantizedRegion, index: int, parameters: QuantParams) -> Optional[Callable[[], int]]:
    """Return a function that returns a part of a CONCATENATION with these parameters, or None."""
    array = region.graph.constant(index)
    if array is not None:
        return lambda: region.add_constant(quantize(array, parameters), parameters.quantization)
    if region.parameters_of(index) == parameters:
        return lambda: region.integers_of(index)
    inner = find_kernel(region, index, parameters)
    return None if inner is None else _write_later(region, index, parameters, inner)


# -- of one tensor ---------------------------------------------------------------------------------------------------------
def _quotient(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return the kernel of DIV by a number: MUL, or MEAN where a SUM is divided by its number of elements."""
    total = _total(region, op)
    if total is not None:
        return mean(region, total, parameters)
    for x, number in _factors(region, op):
        left, right = (
            _operand(region, x, parameters.dtype),
            _constant_operand(region, np.float32(number), parameters.dtype),
        )
        left = left or _operand_of_product(region, x, number, parameters)
        if (
            left is not None
            and right is not None
            and have_common_type(parameters, left[0])
            and len(region.graph.sizes(x or 0)) <= 4
        ):
            return _product_of(region, left[1], right[1])
    return None


def _total(region: QuantizedRegion, op: fb.OperatorSpec) -> Optional[fb.OperatorSpec]:
    """Return the SUM that is divided by its number of elements, or None."""
    total = region.graph.producer(op.inputs[0], "SUM")
    if total is None or not region.has_single_reader(total.outputs[0]):
        return None
    count = count_reduced(region, total)
    return total if count is not None and count == region.graph.number(op.inputs[1]) else None


#: Kernels that fuse an activation, then kernels that do not.
_FUSING: Dict[Tuple[str, ...], Callable[[QuantizedRegion, fb.OperatorSpec, QuantParams, str], MaybeWriter]] = {
    ("CONV_2D", "DEPTHWISE_CONV_2D"): convolution,
    ("FULLY_CONNECTED",): fully_connected,
    ("ADD", "SUB", "MUL"): _pair,
}
_OTHERS: Dict[Tuple[str, ...], Callable[[QuantizedRegion, fb.OperatorSpec, QuantParams], MaybeWriter]] = {
    ("TRANSPOSE_CONV",): transpose_conv,
    ("BATCH_MATMUL",): _product,
    ("CONCATENATION",): _concatenation,
    ("MEAN",): mean,
    ("DIV",): _quotient,
    ("AVERAGE_POOL_2D",): average_pool,
    ("RESIZE_BILINEAR",): resize_bilinear,
    ("HARD_SWISH",): hard_swish,
    ("MAXIMUM",): leaky_relu,
    tuple(RANGES): fixed_range,
}
