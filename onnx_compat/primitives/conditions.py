"""The conditions on the arguments of primitives. Only the verifier checks them: a trace meets them by construction.

Axes and shapes are physical, as in the rules (`primitives.rules`). A symbolic size meets every condition.
"""

from typing import Any, Callable, Dict, List, Sequence

from onnx_compat.errors import VerificationError
from onnx_compat.ir import Region, Spec
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.primitives.base import PRIMITIVES, Application, spec_of
from onnx_compat.primitives.control import result_specs
from onnx_compat.primitives.rules import filter_sizes, image_sizes

__all__ = ["check_conditions"]

Condition = Callable[[Application], None]
_CONDITIONS: Dict[str, List[Condition]] = {}
_CONTROL = ("cond", "while_loop", "scan")
_MIXED = ("where", "take", "take_along", "gather_nd", "scatter_nd")
_PAD_MODES = ("constant", "edge", "reflect", "wrap")


def check_conditions(at: Application) -> None:
    """Raise VerificationError if the operand dtypes or the arguments do not meet the conditions of the primitive.

    A native operator has no conditions. An argument of a wrong form (no tensor, no sizes) raises InvalidModelError.
    """
    _check_dtypes(at)
    for condition in _CONDITIONS.get(at.primitive, ()):
        condition(at)


def _condition(*names: str) -> Callable[[Condition], Condition]:
    def declare(function: Condition) -> Condition:
        for name in names:
            _CONDITIONS.setdefault(name, []).append(function)
        return function

    return declare


def _require(holds: bool, defect: str, *values: object) -> None:
    """Raise VerificationError with the text `defect % values` if `holds` is False."""
    if not holds:
        raise VerificationError(defect % values)


def _check_dtypes(at: Application) -> None:
    """Raise VerificationError if the data operands differ in dtype, or if the primitive does not declare their dtype.

    The data operands are all arguments that are tensors, with these exceptions:

    - `where`: the condition is no data operand.
    - The other primitives in `_MIXED`: only the first tensor is a data operand.
    - Control flow, `gradient`, natives, and primitives whose tensors are all in lists have no data operands.
    """
    declared = PRIMITIVES.get(at.primitive)
    specs = [spec_of(arg) for arg in at.args if hasattr(arg, "spec")]
    if declared is None or at.primitive in (*_CONTROL, "gradient") or not specs:
        return
    operands = specs[1:] if at.primitive == "where" else specs if at.primitive not in _MIXED else specs[:1]
    _require(operands[0].dtype.kind in declared.kinds, "it is not defined for %s", operands[0].dtype)
    _require(
        len({spec.dtype for spec in operands}) == 1, "its operands have the dtypes %s", [s.dtype for s in operands]
    )


def _can_be_equal(a: Extent, b: Extent) -> bool:
    return not is_static(a) or not is_static(b) or a == b


def _is_compatible(given: Spec, declared: Spec) -> bool:
    """Return whether two types have the same dtype and rank, and no axis has two different static sizes."""
    return (
        given.dtype == declared.dtype
        and given.rank == declared.rank
        and all(map(_can_be_equal, given.shape, declared.shape))
    )


def _check_axes(axes: Sequence[int], rank: int) -> None:
    _require(all(0 <= axis < rank for axis in axes), "the axes %s are out of range for the rank %d", list(axes), rank)
    _require(len(set(axes)) == len(axes), "the axes %s repeat", list(axes))


def _check_each_axis(at: Application, *lists: Sequence[Any]) -> None:
    for values in lists:
        _require(len(values) == at.spec(0).rank, "%d values for the rank %d", len(values), at.spec(0).rank)


# -- shapes ------------------------------------------------------------------------------------------------------------
@_condition("where")
def _where(at: Application) -> None:
    _require(at.spec(0).dtype.kind == "b", "its condition is %s", at.spec(0).dtype)


@_condition("reshape")
def _reshape(at: Application) -> None:
    before, after = _elements(at.spec(0).shape), _elements(at.sizes(1))
    _require(_can_be_equal(before, after), "%s elements are reshaped to %s", before, after)


def _elements(shape: Sequence[Extent]) -> Extent:
    total: Extent = 1
    for extent in shape:
        total = total * extent
    return total


@_condition("broadcast_to")
def _broadcast_to(at: Application) -> None:
    wide = at.sizes(1)
    _require(at.spec(0).rank <= len(wide), "the rank %d is broadcast to %d", at.spec(0).rank, len(wide))
    for size, length in zip(at.spec(0).shape[::-1], wide[::-1]):
        _require(_can_be_equal(size, length) or size == 1, "the size %s is broadcast to %s", size, length)


@_condition("transpose")
def _transpose(at: Application) -> None:
    perm = at.params["perm"]
    _require(sorted(perm) == list(range(at.spec(0).rank)), "%s is no permutation of %d axes", perm, at.spec(0).rank)


@_condition("concat")
def _concat(at: Application) -> None:
    specs = [spec_of(arg) for arg in at.args[0]]
    _require(len({spec.dtype for spec in specs}) == 1, "its operands have the dtypes %s", [s.dtype for s in specs])
    _require(len({spec.rank for spec in specs}) == 1, "its operands have the ranks %s", [s.rank for s in specs])
    _check_axes([at.params["axis"]], specs[0].rank)
    for axis in set(range(specs[0].rank)) - {at.params["axis"]}:
        sizes = [spec.shape[axis] for spec in specs]
        _require(len(set(filter(is_static, sizes))) <= 1, "its operands have the sizes %s on axis %d", sizes, axis)


@_condition("slice")
def _slice(at: Application) -> None:
    _check_each_axis(at, at.sizes(1), at.sizes(2), at.params["steps"])
    _require(all(at.params["steps"]), "a step of it is zero")


@_condition("tile")
def _tile(at: Application) -> None:
    _check_each_axis(at, at.sizes(1))


@_condition("pad")
def _pad(at: Application) -> None:
    _check_each_axis(at, at.sizes(1), at.sizes(2))
    _require(at.params["mode"] in _PAD_MODES, "it has the mode %r", at.params["mode"])
    _require(at.spec(3).rank == 0, "its value has the rank %d", at.spec(3).rank)


@_condition("arange")
def _arange(at: Application) -> None:
    _require(all(spec_of(arg).rank == 0 for arg in at.args), "its arguments are no scalars")


@_condition("extents")
def _extents(at: Application) -> None:
    _require(
        _elements(at.params["shape"]) == len(at.sizes(0)),
        "%d sizes have the shape %s",
        len(at.sizes(0)),
        at.params["shape"],
    )


# -- axes and elements -------------------------------------------------------------------------------------------------
@_condition("take", "take_along", "top_k", "argmax", "argmin", "cumsum", "softmax", "log_softmax")
def _axis(at: Application) -> None:
    _check_axes([at.params["axis"]], at.spec(0).rank)


@_condition("reverse", "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
def _axes(at: Application) -> None:
    _check_axes(at.params["axes"], at.spec(0).rank)


@_condition("take", "take_along", "gather_nd", "scatter_nd")
def _indices(at: Application) -> None:
    _require(at.spec(1).dtype.name in ("int32", "int64"), "its indices are %s", at.spec(1).dtype)


@_condition("take_along")
def _take_along(at: Application) -> None:
    _check_each_axis(at, at.spec(1).shape)


@_condition("gather_nd")
def _gather_nd(at: Application) -> None:
    depth = at.params["batch_dims"] + int(at.spec(1).shape[-1])
    _require(depth <= at.spec(0).rank, "%d coordinates for the rank %d", depth, at.spec(0).rank)


@_condition("scatter_nd")
def _scatter_nd(at: Application) -> None:
    x, indices, updates = (at.spec(k) for k in range(3))
    _require(updates.dtype == x.dtype, "its updates are %s", updates.dtype)
    if is_static(indices.shape[-1]):
        shape = indices.shape[:-1] + x.shape[int(indices.shape[-1]) :]
        _require(
            _is_compatible(Spec(x.dtype, shape), updates), "its updates have the shape %s, not %s", updates.shape, shape
        )


@_condition("top_k")
def _top_k(at: Application) -> None:
    _require(len(at.sizes(1)) == 1, "it has %d counts", len(at.sizes(1)))


# -- products and windows ----------------------------------------------------------------------------------------------
@_condition("matmul")
def _matmul(at: Application) -> None:
    x, y = at.spec(0), at.spec(1)
    _require(x.rank > 1 and y.rank > 1, "its operands have the ranks %d and %d", x.rank, y.rank)
    inner = x.shape[-2 if at.params["transpose_x"] else -1], y.shape[-1 if at.params["transpose_y"] else -2]
    _require(_can_be_equal(*inner), "its inner sizes are %s and %s", *inner)
    columns = y.shape[-2 if at.params["transpose_y"] else -1]
    _check_bias(at, columns)


def _check_bias(at: Application, channels: Extent) -> None:
    if len(at.args) > 2:
        bias = at.spec(2)
        _require(
            bias.rank == 1 and _can_be_equal(bias.shape[0], channels), "a bias %s for %s channels", bias.shape, channels
        )


def _check_window(at: Application) -> None:
    _, _, spatial = image_sizes(at)
    window = at.params["window"]
    _require(len(spatial) > 0, "its image has the rank %d", at.spec(0).rank)
    _require(all(len(values) == len(spatial) for values in window), "its window has not %d axes", len(spatial))
    if at.primitive in ("conv_transpose", "avg_pool"):
        _require(not window.is_padded, "its window has the padding %s", window.pads)


def _check_kernel(at: Application, sizes: Sequence[Extent]) -> None:
    """Raise VerificationError if the window is not valid, or if its kernel does not have the sizes of the filter.

    `sizes`: the spatial sizes of the filter. A kernel size of None fits every size. A symbolic size fits every kernel
    size.
    """
    _check_window(at)
    kernel = at.params["window"].kernel
    agrees = [taps is None or _can_be_equal(taps, size) for taps, size in zip(kernel, sizes)]
    _require(len(sizes) == len(kernel) and all(agrees), "a filter of the sizes %s for the kernel %s", sizes, kernel)


@_condition("conv", "depthwise_conv")
def _conv(at: Application) -> None:
    output, inputs, kernel = filter_sizes(at)
    _check_kernel(at, kernel)
    channels, groups = image_sizes(at)[1], at.params["groups"]
    _require(
        _can_be_equal(inputs * groups, channels),
        "a filter of %s channels for %s in %d groups",
        inputs,
        channels,
        groups,
    )
    _check_bias(at, output)


@_condition("conv_transpose")
def _conv_transpose(at: Application) -> None:
    output, inputs, kernel = filter_sizes(at)
    _check_kernel(at, kernel)
    _require(_can_be_equal(inputs, image_sizes(at)[1]), "a filter of %s channels for %s", inputs, image_sizes(at)[1])
    _check_bias(at, output * at.params["groups"])


@_condition("max_pool", "avg_pool")
def _pool(at: Application) -> None:
    _check_window(at)


# -- control flow ------------------------------------------------------------------------------------------------------
def _check_regions(at: Application, *counts: int) -> None:
    """Raise VerificationError unless the regions of a node have the numbers of inputs in `counts`, one for each."""
    given = [len(region.inputs) for region in at.regions]
    _require(given == list(counts), "its regions take %s values, not %s", given, list(counts))


def _check_flow(given: Sequence[Spec], declared: Sequence[Spec], role: str) -> None:
    """Raise VerificationError if `given` and `declared` differ in length, or if a pair of types is not compatible.

    `role` completes the error: "enter its body as". For compatible types, see `_is_compatible`.
    """
    _require(len(given) == len(declared), "%d values %s, not %d", len(given), role, len(declared))
    for given_spec, declared_spec in zip(given, declared):
        _require(_is_compatible(given_spec, declared_spec), "a value of type %s %s %s", given_spec, role, declared_spec)


def _input_specs(region: Region) -> List[Spec]:
    return [ref.spec for ref in region.inputs]


def _check_condition(spec: Spec) -> None:
    _require(spec.dtype.kind == "b" and spec.rank == 0, "its condition is %s of the rank %d", spec.dtype, spec.rank)


@_condition("cond")
def _cond(at: Application) -> None:
    _check_condition(at.spec(0))
    _check_regions(at, 0, 0)
    then, orelse = (result_specs(region) for region in at.regions)
    _require(len(then) == len(orelse), "its branches give %d and %d values", len(then), len(orelse))


@_condition("while_loop")
def _while_loop(at: Application) -> None:
    test, body = at.regions
    _check_regions(at, len(at.args), len(at.args))
    _require(len(test.outputs) == 1, "its condition gives %d values", len(test.outputs))
    _check_condition(result_specs(test)[0])
    _check_flow([spec_of(arg) for arg in at.args], _input_specs(body), "enter its body as")
    _check_flow([spec_of(arg) for arg in at.args], _input_specs(test), "enter its condition as")
    _check_flow(result_specs(body), _input_specs(body), "leave its body as")


@_condition("scan")
def _scan(at: Application) -> None:
    states, xs = ([spec_of(arg) for arg in group] for group in at.args[:2])
    _check_regions(at, len(states) + len(xs))
    declared = _input_specs(at.regions[0])
    _check_flow(states + [Spec(x.dtype, x.shape[1:]) for x in xs], declared, "enter its body as")
    _check_flow(result_specs(at.regions[0])[: len(states)], declared[: len(states)], "leave its body as")


@_condition("gradient")
def _gradient(at: Application) -> None:
    _check_regions(at, *[len(at.args)] * len(at.regions))
    for region in at.regions[1:]:
        _check_flow(result_specs(region), [spec_of(arg) for arg in at.args], "are its results as")
