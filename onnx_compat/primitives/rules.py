"""The type inference rules of the primitives: the dtype and the physical shape of each result, from the arguments.

Recording and the verifier (`onnx_compat.ir.verifier`) apply them. Axes and shapes are physical. None stands for a size
that is decided at run time. The declaration of an elementwise primitive contains its rule (`base.elementwise_rule`).
"""

from typing import List, Optional, Sequence, Tuple

from onnx_compat.ir import Arg, Const, Extents, Ref, Region, Spec
from onnx_compat.ir.dims import Extent, ceildiv, is_equal, is_nonnegative, is_static, maximum, minimum
from onnx_compat.ir.dtypes import bool_, int64, string, uint8
from onnx_compat.primitives.base import Application, broadcast, elementwise_rule, rule, spec_of
from onnx_compat.primitives.control import merge_specs, result_specs, specs_from_outside
from onnx_compat.primitives.linear import filter_axes
from onnx_compat.primitives.shape import FAR

rule("where", "clip")(elementwise_rule())
rule("string_lower", "string_upper", "string_concat", "to_text")(elementwise_rule(string))
rule("string_match")(elementwise_rule(bool_))


@rule("cast", "bitcast", "from_text")
def _dtype_parameter(at: Application) -> List[Spec]:
    return [Spec(at.params["dtype"], at.spec(0).shape)]


@rule("reverse", "softmax", "log_softmax", "cumsum", "scatter_nd")
def _like_first(at: Application) -> List[Spec]:
    return [at.spec(0)]


# -- shapes ------------------------------------------------------------------------------------------------------------
@rule("reshape", "broadcast_to")
def _shape_argument(at: Application) -> List[Spec]:
    return [Spec(at.spec(0).dtype, at.sizes(1))]


@rule("extents")
def _extents(at: Application) -> List[Spec]:
    return [Spec(at.params["dtype"], tuple(at.params["shape"]))]


@rule("random_uniform", "random_normal")
def _random(at: Application) -> List[Spec]:
    return [Spec(at.params["dtype"], at.sizes(0))]


@rule("transpose")
def _transpose(at: Application) -> List[Spec]:
    x = at.spec(0)
    return [Spec(x.dtype, tuple(x.shape[axis] for axis in at.params["perm"]))]


@rule("concat")
def _concat(at: Application) -> List[Spec]:
    specs, axis = [spec_of(arg) for arg in at.args[0]], at.params["axis"]
    shape = [_known_or_first([spec.shape[k] for spec in specs]) for k in range(specs[0].rank)]
    shape[axis] = sum((spec.shape[axis] for spec in specs[1:]), specs[0].shape[axis])
    return [Spec(specs[0].dtype, tuple(shape))]


def _known_or_first(extents: Sequence[Extent]) -> Extent:
    """Return a static size among sizes that must be equal; the first size if all are symbolic."""
    return next((extent for extent in extents if is_static(extent)), extents[0])


@rule("slice")
def _slice(at: Application) -> List[Spec]:
    x = at.spec(0)
    along = zip(x.shape, at.sizes(1), at.sizes(2), at.params["steps"])
    return [Spec(x.dtype, tuple(_slice_length(*bounds) for bounds in along))]


def _slice_length(extent: Extent, begin: Extent, stop: Extent, step: int) -> Optional[Extent]:
    """Return the length of a slice of an axis of length `extent`: an int or a symbolic size.

    Returns None for bounds for which there is no rule: the length is then unknown until run time.

    `begin` and `stop` are bounds as `shape._bounds` returns them. A `stop` of -FAR is the end of a backward slice up to
    the front of the axis. Any other negative bound counts from the end.
    """
    if is_static(begin) and is_static(stop) and is_static(extent):
        return len(range(int(begin), -1 if stop == -FAR else int(stop), step))
    if step < 0:
        return ceildiv(extent, -step) if is_equal(begin, -1) and is_equal(stop, -FAR) else None
    if is_static(begin) and begin < 0:  # the last -begin elements, or all elements of a shorter axis
        return ceildiv(minimum(-begin, extent), step) if is_equal(stop, extent) else None
    if is_equal(stop, extent):
        if is_equal(begin, 0):
            return ceildiv(extent, step)
        # A start that may be negative counts from the end then: n - k of n elements, if n < k.
        return ceildiv(maximum(extent - begin, 0), step) if is_nonnegative(begin) else None
    if is_equal(begin, 0) and is_static(stop):
        return ceildiv(minimum(stop, extent), step) if stop >= 0 else ceildiv(maximum(extent + stop, 0), step)
    if is_equal(begin, 0) and is_nonnegative(stop):
        return ceildiv(minimum(stop, extent), step)
    if is_static(begin) and is_nonnegative(stop) and is_nonnegative(extent - stop):
        return ceildiv(maximum(stop - begin, 0), step)
    return None


@rule("tile")
def _tile(at: Application) -> List[Spec]:
    x = at.spec(0)
    return [Spec(x.dtype, tuple(extent * repeat for extent, repeat in zip(x.shape, at.sizes(1))))]


@rule("pad")
def _pad(at: Application) -> List[Spec]:
    x = at.spec(0)
    return [Spec(x.dtype, tuple(low + size + high for low, size, high in zip(at.sizes(1), x.shape, at.sizes(2))))]


@rule("arange")
def _arange(at: Application) -> List[Spec]:
    dtype = at.spec(0).dtype
    return [Spec(dtype, (_count(*map(_known_integer, at.args)) if dtype.kind == "i" else None,))]


def _count(start: Optional[Extent], stop: Optional[Extent], step: Optional[Extent]) -> Optional[Extent]:
    """Return the number of elements of a range; None for an argument of None, or a step that is not a positive int."""
    if start is None or stop is None or step is None or not is_static(step):
        return None
    return maximum(ceildiv(stop - start, int(step)), 0) if step > 0 else None


def _known_integer(arg: Arg) -> Optional[Extent]:
    """Return a scalar integer argument as a size: of a constant, or of an `extents` node; None for any other value."""
    if isinstance(arg, Const):
        return int(arg.array.reshape(()))
    if isinstance(arg, Ref) and arg.node is not None and arg.node.primitive == "extents":
        sizes = arg.node.args[0]
        assert isinstance(sizes, Extents)
        return sizes.dims[0]
    return None


# -- elements ----------------------------------------------------------------------------------------------------------
@rule("take")
def _take(at: Application) -> List[Spec]:
    x, axis = at.spec(0), at.params["axis"]
    return [Spec(x.dtype, x.shape[:axis] + at.spec(1).shape + x.shape[axis + 1 :])]


@rule("take_along")
def _take_along(at: Application) -> List[Spec]:
    return [Spec(at.spec(0).dtype, at.spec(1).shape)]


@rule("gather_nd")
def _gather_nd(at: Application) -> List[Spec]:
    x, indices = at.spec(0), at.spec(1).shape
    return [Spec(x.dtype, indices[:-1] + x.shape[at.params["batch_dims"] + int(indices[-1]) :])]


@rule("nonzero")
def _nonzero(at: Application) -> List[Spec]:
    return [Spec(int64, (at.spec(0).rank, None))]


@rule("top_k")
def _top_k(at: Application) -> List[Spec]:
    x, axis = at.spec(0), at.params["axis"]
    shape = x.shape[:axis] + at.sizes(1) + x.shape[axis + 1 :]
    return [Spec(x.dtype, shape), Spec(int64, shape)]


@rule("argmax", "argmin")
def _arg(at: Application) -> List[Spec]:
    x, axis = at.spec(0), at.params["axis"]
    return [Spec(int64, x.shape[:axis] + x.shape[axis + 1 :])]


@rule("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
def _reduce(at: Application) -> List[Spec]:
    x, axes = at.spec(0), at.params["axes"]
    kept = [(axis, 1 if axis in axes else size) for axis, size in enumerate(x.shape)]
    return [Spec(x.dtype, tuple(size for axis, size in kept if at.params["keepdims"] or axis not in axes))]


@rule("string_split")
def _string_split(at: Application) -> List[Spec]:
    shape = at.spec(0).shape
    return [Spec(string, (*shape, None)), Spec(int64, shape)]


@rule("string_rank")
def _string_rank(at: Application) -> List[Spec]:
    return [Spec(int64, at.spec(0).shape)]


@rule("image_decode")
def _image_decode(at: Application) -> List[Spec]:
    return [Spec(uint8, (None, None, at.params["channels"]))]


# -- products and windows ----------------------------------------------------------------------------------------------
@rule("matmul")
def _matmul(at: Application) -> List[Spec]:
    x, y = at.spec(0), at.spec(1)
    rows, columns = x.shape[-1 if at.params["transpose_x"] else -2], y.shape[-2 if at.params["transpose_y"] else -1]
    return [Spec(x.dtype, broadcast(x.shape[:-2], y.shape[:-2]) + (rows, columns))]


def image_sizes(at: Application) -> Tuple[Extent, Extent, Sequence[Extent]]:
    """Return (batch, channels, spatial sizes) of the first argument, an image in the target's layout."""
    batch, *sizes = at.spec(0).shape
    if at.target.layout == "channels_last":
        return batch, sizes[-1], sizes[:-1]
    return batch, sizes[0], sizes[1:]


def image_specs(at: Application, batch: Extent, channels: Extent, spatial: Sequence[Extent]) -> List[Spec]:
    """Return a list of one type: an image of these sizes in the target's layout, of the first argument's dtype."""
    last = at.target.layout == "channels_last"
    shape = (batch, *spatial, channels) if last else (batch, channels, *spatial)
    return [Spec(at.spec(0).dtype, shape)]


def filter_sizes(at: Application) -> Tuple[Extent, Extent, Sequence[Extent]]:
    """Return (output channels, input channels, kernel sizes) of the second argument, a filter in the target's layout.

    With groups, these are the sizes of the filter itself:

    - conv and depthwise_conv: all output channels, and the input channels of one group.
    - conv_transpose: the output channels of one group, and all input channels.
    """
    shape = at.spec(1).shape
    if at.primitive == "depthwise_conv":
        return shape[-1], shape[0], shape[1:-1]
    stored = filter_axes(at.target.filter_layout, len(shape))
    output, channels, *kernel = (shape[stored.index(axis)] for axis in range(len(shape)))
    return output, channels, kernel


@rule("conv", "depthwise_conv")
def _conv(at: Application) -> List[Spec]:
    batch, _, spatial = image_sizes(at)
    output, _, kernel = filter_sizes(at)
    return image_specs(at, batch, output, at.params["window"]._replace(kernel=kernel).counts(spatial))


@rule("conv_transpose")
def _conv_transpose(at: Application) -> List[Spec]:
    batch, _, spatial = image_sizes(at)
    output, _, kernel = filter_sizes(at)
    sizes = at.params["window"]._replace(kernel=kernel).transposed_sizes(spatial)
    return image_specs(at, batch, output * at.params["groups"], sizes)


@rule("max_pool", "avg_pool")
def _pool(at: Application) -> List[Spec]:
    batch, channels, spatial = image_sizes(at)
    return image_specs(at, batch, channels, at.params["window"].counts(spatial))


# -- control flow ------------------------------------------------------------------------------------------------------
@rule("cond")
def _cond(at: Application) -> List[Spec]:
    return [
        merge_specs(*specs)
        for specs in zip(*(specs_from_outside(region, result_specs(region)) for region in at.regions))
    ]


@rule("while_loop")
def _while_loop(at: Application) -> List[Spec]:
    return specs_from_outside(at.regions[1], _input_specs(at.regions[1]))


@rule("scan")
def _scan(at: Application) -> List[Spec]:
    states, (length,) = [spec_of(arg) for arg in at.args[0]], at.sizes(2)
    (region,) = at.regions
    slices = specs_from_outside(region, result_specs(region)[len(states) :])
    return states + [Spec(spec.dtype, (length, *spec.shape)) for spec in slices]


@rule("gradient")
def _gradient(at: Application) -> List[Spec]:
    return [spec_of(arg) for arg in at.args]


def _input_specs(region: Region) -> List[Spec]:
    return [ref.spec for ref in region.inputs]
