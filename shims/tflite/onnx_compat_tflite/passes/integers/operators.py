"""Which float operator between a DequantizeLinear and a QuantizeLinear is which kernel of integers, and when it is right.

Each function gets the operator and the grid of its result, and gives a plan that writes that result; None where the
kernel asks for something else (weights with a zero point, a scale that it has not): then the floats stay. Where a kernel
rounds to a grid of its own first, that grid may not be so much coarser that a result moves by more than one step.
"""

from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.grid import Grid, bytes_only, centred, grid_of_constant, on_grid, sums
from onnx_compat_tflite.passes.integers.region import Found, Plan, Region
from onnx_compat_tflite.passes.integers.weights import connected, convolution, transposed

__all__ = ["plan"]

_BOUNDS = ("RELU", "RELU6", "RELU_N1_TO_1")


def plan(region: Region, index: int, grid: Grid) -> Found:
    """How to write a tensor of floats as integers of a grid."""
    index, bound = _unbounded(region, index, grid)
    here = region.grid_of(index)
    if here is not None:
        return _rescaled(region, index, bound)
    if not region.alone(index):
        return None
    move = region.move(index)
    if move is not None and move.inputs[0] is not None:
        inner = plan(region, move.inputs[0], grid)
        return None if inner is None else _bounded(region, index, grid, bound, _moved(region, move, inner, grid))
    return _kernel(region, index, grid, bound)


def _kernel(region: Region, index: int, grid: Grid, bound: str) -> Found:
    for builtins, fusing in _FUSING.items():
        operator = region.view.writer(index, *builtins)
        own = "NONE" if operator is None else operator.options.get("fused_activation_function", "NONE")
        if operator is not None and "NONE" in (own, bound):
            return fusing(region, operator, grid, own if bound == "NONE" else bound)
    for builtins, other in _OTHERS.items():
        operator = region.view.writer(index, *builtins)
        if operator is not None and operator.options.get("fused_activation_function", "NONE") == "NONE":
            found = other(region, operator, grid)
            return None if found is None else _bounded(region, index, grid, bound, found)
    return None


def _unbounded(region: Region, index: int, grid: Grid) -> Tuple[int, str]:
    """What an activation bounds, and its name; bounds that the grid has anyhow, or but for a step, are none."""
    view = region.view
    while region.alone(index):
        operator = view.writer(index, "MAXIMUM", "MINIMUM", *_BOUNDS)
        guarded = region.guarded(index)
        if guarded is not None:
            index = guarded
            continue
        if operator is None or operator.inputs[0] is None:
            break
        if operator.builtin in _BOUNDS:
            return operator.inputs[0], operator.builtin
        number, inner = view.number(operator.inputs[0]), operator.inputs[1]
        low, high = grid.ends[0] + grid.scale, grid.ends[1] - grid.scale
        idle = number is not None and (number <= low if operator.builtin == "MAXIMUM" else number >= high)
        if not idle and inner is not None and operator.builtin == "MAXIMUM" and number == 0:
            return inner, "RELU"
        if not idle or inner is None:
            break
        index = inner
    return index, "NONE"


def _bounded(region: Region, index: int, grid: Grid, bound: str, inner: Plan) -> Plan:
    """An activation of its own, for kernels that have none."""
    if bound == "NONE":
        return inner

    def write(output: int) -> None:
        whole = region.tensor(index, grid)
        inner(whole)
        region.put(bound, [whole], output)

    return write


def _rescaled(region: Region, index: int, bound: str) -> Plan:
    return lambda output: region.put("QUANTIZE" if bound == "NONE" else bound, [region.twin(index)], output)


def _moved(region: Region, move: fb.OperatorSpec, inner: Plan, grid: Grid) -> Plan:
    def write(output: int) -> None:
        source = region.tensor(move.inputs[0] or 0, grid)
        inner(source)
        region.moved(move, source, output)

    return write


# -- of two tensors --------------------------------------------------------------------------------------------------------
Operand = Optional[Tuple[Grid, Callable[[], int]]]


def _operand(region: Region, index: Optional[int], dtype: str) -> Operand:
    """An operand: its grid, and the tensor when it comes to that."""
    array = region.view.constant(index)
    if index is None or array is not None:
        return None if index is None else _known(region, array, dtype)
    grid = region.grid_of(index)
    return _multiple(region, index) if grid is None else (grid, lambda: region.twin(index))


def _known(region: Region, array: Any, dtype: str) -> Operand:
    """A constant, where its numbers are on a grid."""
    grid = grid_of_constant(array, dtype)
    if grid is None:
        return None
    held = grid
    return grid, lambda: region.constant(on_grid(array, held), held.quantization)


def _multiple(region: Region, index: int) -> Operand:
    """A number times what has a grid: the same integers, on a grid of so many times its steps."""
    product = region.view.writer(index, "MUL", "DIV")
    if product is None or not region.alone(index) or product.options.get("fused_activation_function", "NONE") != "NONE":
        return None
    for x, number in _factors(region, product):
        grid = region.grid_of(x)
        if grid is not None and number > 0:
            first, second = _operand(region, x, grid.dtype), _known(region, np.float32(number), grid.dtype)
            finer = grid.times(number)
            if first is None or second is None:
                return None
            return finer, _making(region, index, finer, _product_of(region, first[1], second[1]))
    return None


def _factors(region: Region, operator: fb.OperatorSpec) -> List[Tuple[Optional[int], float]]:
    """Of a product with a number: what is multiplied, and the number. A quotient is a product with one over it."""
    left, right = operator.inputs
    numbers = [(x, region.view.number(other)) for x, other in ((left, right), (right, left))]
    if operator.builtin == "DIV":
        numbers = [(x, 1 / number) for x, number in numbers[:1] if number]
    return [(x, number) for x, number in numbers if number is not None]


def _product_of(region: Region, first: Callable[[], int], second: Callable[[], int]) -> Plan:
    return lambda output: region.put("MUL", [first(), second()], output, fused_activation_function="NONE")


def _making(region: Region, index: int, grid: Grid, write: Plan) -> Callable[[], int]:
    """A new tensor like another one, when it comes to that."""

    def made() -> int:
        output = region.tensor(index, grid)
        write(output)
        return output

    return made


def _factor(region: Region, index: Optional[int], number: Optional[float], grid: Grid) -> Operand:
    """What a number is multiplied with to give a result on a grid: the same integers, on a grid of that part of its steps."""
    if index is None or number is None or not number > 0:
        return None
    part = grid.times(1 / number)
    write = plan(region, index, part)
    return None if write is None else (part, _making(region, index, part, write))


def _pair(region: Region, operator: fb.OperatorSpec, grid: Grid, bound: str) -> Found:
    """ADD, SUB, MUL, BATCH_MATMUL."""
    left, right = (_operand(region, index, grid.dtype) for index in operator.inputs[:2])
    if operator.builtin == "MUL":
        numbers = [region.view.number(index) for index in operator.inputs]
        left = left or _factor(region, operator.inputs[0], numbers[1], grid)
        right = right or _factor(region, operator.inputs[1], numbers[0], grid)
    if left is None or right is None or not centred(grid, left[0], right[0]):
        return None
    shapes = [region.view.sizes(index or 0) for index in operator.inputs[:2]]
    if max(map(len, shapes)) > 4 and (operator.builtin == "BATCH_MATMUL" or tuple(shapes[0]) != tuple(shapes[1])):
        return None
    options = dict(operator.options)
    if operator.builtin in ("ADD", "SUB") and grid.dtype == "int16":
        options["pot_scale_int16"] = False
    if operator.builtin != "BATCH_MATMUL":
        options["fused_activation_function"] = bound
    first, second = left[1], right[1]
    return lambda output: region.put(operator.builtin, [first(), second()], output, **options)


def _product(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    return _pair(region, operator, grid, "NONE")


def _joined(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    """CONCATENATION: its kernel wants one grid for all."""
    parts: List[Callable[[], int]] = []
    for index in operator.inputs:
        part = None if index is None else _part(region, index, grid)
        if part is None:
            return None
        parts.append(part)
    axis = operator.options["axis"]
    return lambda output: region.put("CONCATENATION", [part() for part in parts], output, axis=axis)


def _part(region: Region, index: int, grid: Grid) -> Optional[Callable[[], int]]:
    array = region.view.constant(index)
    if array is not None:
        return lambda: region.constant(on_grid(array, grid), grid.quantization)
    if region.grid_of(index) == grid:
        return lambda: region.twin(index)
    inner = plan(region, index, grid)
    return None if inner is None else _making(region, index, grid, inner)


# -- of one tensor ---------------------------------------------------------------------------------------------------------
def _mean(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    """MEAN; its kernel adds up numbers of 16 bits in 32."""
    x, count = operator.inputs[0], _count(region, operator)
    given = region.grid_of(x)
    if given is None or x is None or not centred(given, grid):
        return None
    if given.dtype == "int16" and (count is None or count >= 2**16):
        return None
    return lambda output: region.put("MEAN", [region.twin(x), operator.inputs[1]], output, **operator.options)


def _count(region: Region, operator: fb.OperatorSpec) -> Optional[int]:
    """Of how many numbers one is made."""
    sizes, axes = region.view.sizes(operator.inputs[0] or 0), region.view.constant(operator.inputs[1])
    lengths = None if axes is None else [sizes[axis] for axis in axes.reshape(-1)]
    return None if lengths is None or min(lengths, default=0) < 0 else int(np.prod(lengths))


def _quotient(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    """DIV by a number: a product; or a mean, as it is on some runtimes: a SUM, divided by how many there are."""
    total = _total(region, operator)
    if total is not None:
        return _mean(region, total, grid)
    for x, number in _factors(region, operator):
        left, right = _operand(region, x, grid.dtype), _known(region, np.float32(number), grid.dtype)
        left = left or _factor(region, x, number, grid)
        if left is not None and right is not None and centred(grid, left[0]) and len(region.view.sizes(x or 0)) <= 4:
            return _product_of(region, left[1], right[1])
    return None


def _total(region: Region, operator: fb.OperatorSpec) -> Optional[fb.OperatorSpec]:
    """The SUM that is divided by the number of what it adds."""
    total = region.view.writer(operator.inputs[0], "SUM")
    if total is None or not region.alone(total.outputs[0]):
        return None
    count = _count(region, total)
    return total if count is not None and count == region.view.number(operator.inputs[1]) else None


def _leaky(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    """The larger one of x and a part of it."""
    for x, part in (operator.inputs, list(operator.inputs)[::-1]):
        product = region.view.writer(part, "MUL")
        slope = None if product is None or product.inputs[0] != x else region.view.number(product.inputs[1])
        given = region.grid_of(x)
        if slope is not None and 0 < slope <= 1 and x is not None and given is not None and centred(given, grid):
            source, alpha = x, slope
            return lambda output: region.put("LEAKY_RELU", [region.twin(source)], output, alpha=alpha)
    return None


def _swish(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    x = operator.inputs[0]
    given = region.grid_of(x)
    if given is None or x is None or not bytes_only(given, grid):
        return None
    return lambda output: region.put("HARD_SWISH", [region.twin(x)], output)


def _own(region: Region, operator: fb.OperatorSpec, grid: Grid, own: Grid, most: float) -> Found:
    """A kernel that gives its result on a grid of its own, which may be so many times coarser."""
    x = operator.inputs[0]
    given = region.grid_of(x)
    if given is None or x is None or not centred(given, grid, own) or own.scale > most * grid.scale:
        return None

    def write(output: int) -> None:
        first = output if own == grid else region.tensor(operator.outputs[0], own)
        region.put(operator.builtin, [region.twin(x), *operator.inputs[1:]], first, **operator.options)
        if own != grid:
            region.put("QUANTIZE", [first], output)

    return write


def _average(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    """AVERAGE_POOL_2D has one grid for both sides. Where that is too coarse for the result, the mean is a convolution: the
    weights are all the same, and the same part of a whole.
    """
    x, options = operator.inputs[0], operator.options
    given = region.grid_of(x)
    if given is None or x is None:
        return None
    own = _own(region, operator, grid, given, 1)
    channels = region.view.sizes(x)[-1]
    if own is not None or options["padding"] != "VALID" or channels < 0 or not centred(given, grid):
        return own or _own(region, operator, grid, given, 2)
    taps = (options["filter_height"], options["filter_width"])
    weights = np.full((1, *taps, channels), 127, np.int8)
    step = np.float32(1 / (127 * taps[0] * taps[1]))
    kernel = weights, fb.Quantization([float(step)], [0])
    bias = np.zeros(channels, sums(given)), fb.Quantization([float(step * np.float32(given.scale))], [0])
    where = {name: options[name] for name in ("padding", "stride_h", "stride_w")}

    def write(output: int) -> None:
        operands = [region.twin(x), region.constant(*kernel), region.constant(*bias)]
        region.put("DEPTHWISE_CONV_2D", operands, output, depth_multiplier=1, **where)

    return write


def _between(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    """RESIZE_BILINEAR, where its kernel has the places between pixels exactly: it counts them in 1024ths."""
    given = region.grid_of(operator.inputs[0])
    aligned = operator.options.get("align_corners", False)
    for axis in (1, 2):
        size, resized = (region.view.sizes(index or 0)[axis] for index in (operator.inputs[0], operator.outputs[0]))
        if aligned and resized > 1:
            size, resized = size - 1, resized - 1
        if size < 0 or resized <= 0 or 1024 * size % resized:
            return None
    return None if given is None else _own(region, operator, grid, given, 1)


_RANGES = {
    "LOGISTIC": (Grid(1 / 256, -128, "int8"), 1.5),
    "TANH": (Grid(1 / 128, 0, "int8"), 1.5),
    "SOFTMAX": (Grid(1 / 256, -128, "int8"), 1.02),
}


def _ranged(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    """LOGISTIC, TANH, SOFTMAX: from all of the numbers that they can give."""
    return _own(region, operator, grid, *_RANGES[operator.builtin])


#: What takes an activation in, and what does not.
_FUSING: Dict[Tuple[str, ...], Callable[[Region, fb.OperatorSpec, Grid, str], Found]] = {
    ("CONV_2D", "DEPTHWISE_CONV_2D"): convolution,
    ("FULLY_CONNECTED",): connected,
    ("ADD", "SUB", "MUL"): _pair,
}
_OTHERS: Dict[Tuple[str, ...], Callable[[Region, fb.OperatorSpec, Grid], Found]] = {
    ("TRANSPOSE_CONV",): transposed,
    ("BATCH_MATMUL",): _product,
    ("CONCATENATION",): _joined,
    ("MEAN",): _mean,
    ("DIV",): _quotient,
    ("AVERAGE_POOL_2D",): _average,
    ("RESIZE_BILINEAR",): _between,
    ("HARD_SWISH",): _swish,
    ("MAXIMUM",): _leaky,
    tuple(_RANGES): _ranged,
}
