"""Find the integer kernel for each float operator between a DequantizeLinear and a QuantizeLinear.

A function that finds a kernel takes the operator and the quantization parameters (scale, zero point) of its result. It returns a
`Writer`: called with an integer tensor, it appends the operators that compute the result into this tensor. It returns None
if no kernel accepts the parameters; then the float operator stays. A kernel whose parameters are fixed may be followed
by a QUANTIZE, if this changes no result by more than one scale.
"""

from typing import Callable, Dict, List, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.parameters import (
    QuantParams,
    has_ties,
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

_ACTIVATIONS = ("RELU", "RELU6", "RELU_N1_TO_1")


def find_kernel(region: QuantizedRegion, index: int, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer that computes the float tensor `index` as integers with these parameters.

    An activation that computes the tensor is appended after the operators below, fused into a kernel, or left out if it
    has no effect. Let t be the tensor `index`, or the tensor before this activation.

    - If t exists as integers (see `parameters_of`), the Writer appends the activation, or a QUANTIZE without an
      activation. t may have several readers. Returns None if an integer lies midway between two results: QUANTIZE
      rounds it up, ONNX to even.
    - Otherwise the Writer appends the integer kernel of the operator that computes t. Moves after this operator are
      applied to its integers. Returns None if a tensor from that operator to `index` is an output or has several
      readers.

    Returns None also if no integer kernel computes the tensor with these parameters.
    """
    index, activation = _without_activation(region, index, parameters)
    data = region.parameters_of(index)
    if data is not None:
        return None if has_ties(data, parameters) else _write_rescaled(region, index, activation)
    if not region.has_single_reader(index):
        return None
    move = region.move_of(index)
    if move is not None and move.inputs[0] is not None:
        inner = find_kernel(region, move.inputs[0], parameters)
        if inner is None:
            return None
        return _with_activation(region, index, parameters, activation, _write_moved(region, move, inner, parameters))
    return _kernel_of_producer(region, index, parameters, activation)


def _kernel_of_producer(region: QuantizedRegion, index: int, parameters: QuantParams, activation: str) -> MaybeWriter:
    """Return a Writer that appends the integer kernel of the operator that writes the float tensor `index`.

    The integers have these `parameters`. `activation` is the name of an activation that follows the operator, or
    "NONE". The Writer applies it. Returns None if

    - no operator writes the tensor, or the operator has no integer kernel for these parameters,
    - the operator has a fused activation, and its integer kernel cannot fuse an activation,
    - the operator has a fused activation, and `activation` is not "NONE".
    """
    for builtins, fusing in _FUSING.items():
        op = region.graph.producer(index, *builtins)
        own = "NONE" if op is None else op.options.get("fused_activation_function", "NONE")
        if op is not None and "NONE" in (own, activation):
            return fusing(region, op, parameters, own if activation == "NONE" else activation)
    for builtins, find_writer in _OTHERS.items():
        op = region.graph.producer(index, *builtins)
        if op is not None and is_unfused(op):
            writer = find_writer(region, op, parameters)
            return None if writer is None else _with_activation(region, index, parameters, activation, writer)
    return None


def _without_activation(region: QuantizedRegion, index: int, parameters: QuantParams) -> Tuple[int, str]:
    """Return (index of the tensor before an activation, name of the activation), for the float tensor `index`.

    Without an activation, the name is "NONE". MAXIMUM(0, x) is recognised as RELU. The search goes backwards from the
    tensor `index`. These operators are skipped, also if no activation is before them:

    - MAXIMUM(number, x), if the number is at most the least real number that `parameters` can store, plus one scale
    - MINIMUM(number, x), if the number is at least the greatest real number that they can store, minus one scale
    - a guard of NaN (see `without_guard`)

    The search ends at a tensor that is an output or has several readers. A skipped MAXIMUM(0, x) gives no RELU.
    """
    graph = region.graph
    while region.has_single_reader(index):
        op = graph.producer(index, "MAXIMUM", "MINIMUM", *_ACTIVATIONS)
        unguarded = region.without_guard(index)
        if unguarded is not None:
            index = unguarded
            continue
        if op is None or op.inputs[0] is None:
            break
        if op.builtin in _ACTIVATIONS:
            return op.inputs[0], op.builtin
        number, inner = graph.number(op.inputs[0]), op.inputs[1]
        low, high = parameters.limits[0] + parameters.scale, parameters.limits[1] - parameters.scale
        is_noop = number is not None and (number <= low if op.builtin == "MAXIMUM" else number >= high)
        if not is_noop and inner is not None and op.builtin == "MAXIMUM" and number == 0:
            return inner, "RELU"
        if not is_noop or inner is None:
            break
        index = inner
    return index, "NONE"


def _with_activation(
    region: QuantizedRegion, index: int, parameters: QuantParams, activation: str, inner: Writer
) -> Writer:
    """Return a Writer that runs the Writer `inner` and then applies `activation`, for kernels that cannot fuse it.

    `inner` writes a new integer tensor with the shape of the float tensor `index` and these parameters. If the
    activation is "NONE", returns `inner` itself.
    """
    if activation == "NONE":
        return inner

    def write(output: int) -> None:
        whole = region.add_tensor(index, parameters)
        inner(whole)
        region.append(activation, [whole], output)

    return write


def _write_rescaled(region: QuantizedRegion, index: int, activation: str) -> Writer:
    """Return a Writer that appends `activation` to the integers of the float tensor `index`, or a QUANTIZE for "NONE".

    The tensor must exist as integers (see `QuantizedRegion.parameters_of`). The appended operator rescales them to the
    parameters of the tensor that the Writer is called with.
    """
    return lambda output: region.append(
        "QUANTIZE" if activation == "NONE" else activation, [region.integers_of(index)], output
    )


def _write_moved(region: QuantizedRegion, move: fb.OperatorSpec, inner: Writer, parameters: QuantParams) -> Writer:
    """Return a Writer that runs the Writer `inner`, and then applies the move `move`, such as a RESHAPE.

    A move is an operator that moves elements. `inner` writes a new integer tensor with the shape of the move's input
    and these parameters.
    """

    def write(output: int) -> None:
        source = region.add_tensor(move.inputs[0] or 0, parameters)
        inner(source)
        region.append_move(move, source, output)

    return write


# -- operators of two tensors ----------------------------------------------------------------------------------------------
#: An operand of an integer kernel: its parameters, and a function that returns its integer tensor, which it may append.
Operand = Optional[Tuple[QuantParams, Callable[[], int]]]


def _operand(region: QuantizedRegion, index: Optional[int], dtype: str) -> Operand:
    """Return (parameters, function that returns the integer tensor's index) for a float tensor that a kernel reads.

    `dtype`: the integer dtype for a constant. The float tensor must be one of these:

    - a constant that integers of this dtype store exactly (see `_constant_operand`)
    - a tensor x that exists as integers (see `QuantizedRegion.parameters_of`)
    - x * number or x / number, for such a tensor x (see `_scaled_operand`)

    Returns None for another tensor, and for an omitted input.
    """
    array = region.graph.constant(index)
    if index is None or array is not None:
        return None if index is None else _constant_operand(region, array, dtype)
    parameters = region.parameters_of(index)
    return _scaled_operand(region, index) if parameters is None else (parameters, lambda: region.integers_of(index))


def _constant_operand(region: QuantizedRegion, array: ArrayLike, dtype: str) -> Operand:
    """Return (parameters, function that returns the integer tensor's index) for a float constant.

    `dtype` is the integer dtype. The integer constant is appended when the function is called. Returns None if no
    parameters of this dtype represent the constant exactly.
    """
    parameters = parameters_of_constant(array, dtype)
    if parameters is None:
        return None
    known = parameters
    return parameters, lambda: region.add_constant(quantize(array, known), known.quantization)


def _scaled_operand(region: QuantizedRegion, index: int) -> Operand:
    """Return (parameters, function that returns the integer tensor's index) for a product x * number or x / number.

    `index` is the float tensor of the product; x exists as integers. The function appends a MUL of the integers of x.
    The parameters are those of x, with the scale times the number (or times its reciprocal). Returns None if

    - another operator computes the tensor, or the MUL or DIV has a fused activation,
    - x does not exist as integers,
    - the number is no scalar constant, or is not positive,
    - the tensor is an output or has several readers.
    """
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
    """Return the (tensor, number) pairs of a MUL or DIV by a scalar constant: x * 3 => [(x, 3)], x / 4 => [(x, 1/4)].

    A MUL of two scalar constants gives two pairs. Returns [] if no operand is a scalar constant, and for a DIV by 0 or
    of a constant by a tensor.
    """
    left, right = op.inputs
    numbers = [(x, region.graph.number(factor)) for x, factor in ((left, right), (right, left))]
    if op.builtin == "DIV":
        numbers = [(x, 1 / number) for x, number in numbers[:1] if number]
    return [(x, number) for x, number in numbers if number is not None]


def _product_of(region: QuantizedRegion, first: Callable[[], int], second: Callable[[], int]) -> Writer:
    return lambda output: region.append("MUL", [first(), second()], output, fused_activation_function="NONE")


def _write_later(region: QuantizedRegion, index: int, parameters: QuantParams, write: Writer) -> Callable[[], int]:
    """Return a function that appends an integer tensor, runs `write` on it, and returns its index.

    The integer tensor has the shape of the tensor `index` and these `parameters`.
    """

    def write_tensor() -> int:
        output = region.add_tensor(index, parameters)
        write(output)
        return output

    return write_tensor


def _operand_of_product(
    region: QuantizedRegion, index: Optional[int], number: Optional[float], parameters: QuantParams
) -> Operand:
    """Return (parameters, function that returns the integer tensor's index) for the factor x of a product x * `number`.

    `index` is the float tensor x. The function appends an integer kernel that computes x. `parameters` are those of the
    product. The scale of x is the scale of the product divided by the number, so that x and the product have the same
    integers. Returns None if

    - x is omitted, or the number is None or not positive,
    - no integer kernel computes x with this scale (see `find_kernel`).
    """
    if index is None or number is None or not number > 0:
        return None
    scaled = parameters.times(1 / number)
    write = find_kernel(region, index, scaled)
    return None if write is None else (scaled, _write_later(region, index, scaled, write))


def _pair(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams, activation: str) -> MaybeWriter:
    """Return a Writer of the integer kernel of ADD, SUB, MUL or BATCH_MATMUL. All but BATCH_MATMUL fuse `activation`.

    For a MUL of x by a scalar constant, x need not exist as integers. The Writer then runs the integer kernel of the
    operator that computes x, before the MUL (see `_operand_of_product`). Returns None if

    - an operand cannot be an integer tensor (see `_operand`),
    - the kernel does not accept the operands and the result together (see `have_common_type`),
    - an operand of a BATCH_MATMUL has a rank above 4,
    - the operands have different shapes, and one has a rank above 4.
    """
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
        options["fused_activation_function"] = activation
    first, second = left[1], right[1]
    return lambda output: region.append(op.builtin, [first(), second()], output, **options)


def _product(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of the integer kernel of BATCH_MATMUL.

    Returns None if

    - an operand cannot be an integer tensor (see `_operand`), or has a rank above 4,
    - the kernel does not accept the operands and the result together (see `have_common_type`).
    """
    return _pair(region, op, parameters, "NONE")


def _concatenation(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of the integer kernel of CONCATENATION, whose inputs and result must have the same parameters.

    Constants are rounded to these parameters. Returns None if an input that is no constant cannot be computed with
    these parameters (see `_part`).
    """
    parts: List[Callable[[], int]] = []
    for index in op.inputs:
        part = None if index is None else _part(region, index, parameters)
        if part is None:
            return None
        parts.append(part)
    axis = op.options["axis"]
    return lambda output: region.append("CONCATENATION", [part() for part in parts], output, axis=axis)


def _part(region: QuantizedRegion, index: int, parameters: QuantParams) -> Optional[Callable[[], int]]:
    """Return a function that returns the index of an integer tensor for the input `index` of a CONCATENATION.

    The integer tensor has these `parameters`. A call of the function may append operators or a constant.

    - The elements of a constant are rounded and clipped.
    - If the input exists as integers with these parameters, these are used.
    - Otherwise an integer kernel computes the tensor, also from integers with other parameters. Returns None without
      such a kernel (see `find_kernel`).
    """
    array = region.graph.constant(index)
    if array is not None:
        return lambda: region.add_constant(quantize(array, parameters), parameters.quantization)
    if region.parameters_of(index) == parameters:
        return lambda: region.integers_of(index)
    inner = find_kernel(region, index, parameters)
    return None if inner is None else _write_later(region, index, parameters, inner)


# -- operators of one tensor -----------------------------------------------------------------------------------------------
def _quotient(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of DIV by a scalar constant: a MUL, or a MEAN if a SUM is divided by its number of elements.

    For a MEAN, returns what `mean` returns. For a MUL, returns None if

    - the divisor is 0 or no scalar constant, or the rank is above 4,
    - the dividend exists as integers that the kernel does not accept together with the result's,
    - the dividend does not exist as integers, and no integer kernel computes it (see `_operand_of_product`).
    """
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
    """Return the SUM whose result the DIV `op` divides by the number of summed elements.

    Returns None if there is no such SUM, if the number is unknown, or if the sum is an output or has several readers.
    """
    total = region.graph.producer(op.inputs[0], "SUM")
    if total is None or not region.has_single_reader(total.outputs[0]):
        return None
    count = count_reduced(region, total)
    return total if count is not None and count == region.graph.number(op.inputs[1]) else None


#: Ops -> the function that finds their integer kernel. Kernels of `_FUSING` fuse an activation, those of `_OTHERS` do not.
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
