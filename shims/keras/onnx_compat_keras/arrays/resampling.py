"""Native Resize that enlarges an image by integer factors: nearest or bilinear up-sampling, as Keras layers compute it."""

from typing import Any, List, Optional, Sequence, Tuple

from onnx_compat.shim import (
    Arg,
    Const,
    Dim,
    Extent,
    Extents,
    GraphNode,
    Node,
    Ref,
    Tensor,
    as_sizes,
    floordiv,
    is_equal,
    is_static,
    native,
)
from onnx_compat_keras.framework_types import Array, Attributes

__all__ = ["Resampling", "sampling"]

_CENTRED = ("half_pixel", "pytorch_half_pixel")


def _is_whole_upsampling(node: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether a Resize enlarges a float32 image by integer factors, in a mode that Keras' UpSampling layers have.

    pytorch_half_pixel is treated as half_pixel. The modes are

    - nearest with one to three spatial axes: asymmetric with floor, or half_pixel with round_prefer_*
    - linear with two spatial axes: half_pixel

    The factors must be known: 1 for batch and channels, and at least 1 for the spatial axes. Returns False before opset
    11, with antialias or axes, and with a keep_aspect_ratio_policy other than "stretch".
    """
    x = inputs[0]
    space = x.rank - 2
    if space not in (1, 2, 3) or x.dtype.name != "float32" or attributes.get("antialias", 0) or attributes.get("axes"):
        return False
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return False  # the size of the result is not `sizes`
    factors = _factors(x, inputs)
    if factors is None or node.opset < 11 or factors[:2] != [1, 1] or any(factor < 1 for factor in factors):
        return False
    transformation = attributes.get("coordinate_transformation_mode", "half_pixel")
    if attributes.get("mode", "nearest") == "nearest":
        rounding = attributes.get("nearest_mode", "round_prefer_floor")
        return (transformation == "asymmetric" and rounding == "floor") or (
            transformation in _CENTRED and rounding.startswith("round_prefer")
        )
    return attributes["mode"] == "linear" and space == 2 and transformation in _CENTRED


def _factors(x: Tensor, inputs: Sequence[Any]) -> Optional[List[int]]:
    """Return a list with the integer factor of each logical axis of x, from the inputs of a Resize.

    The factors are read from `scales` if this input is known. Otherwise they are computed from `sizes` and the sizes of
    x. Returns None if

    - a factor is unknown or not an integer,
    - the input does not have an entry for each axis,
    - they are computed from `sizes`, and an axis of x is empty.
    """
    scales, sizes = (list(inputs[2:4]) + [None, None])[:2]
    if scales is not None and scales.known and scales.value.size == x.rank:
        factors = [float(factor) for factor in scales.value.reshape(-1)]
        return [int(factor) for factor in factors] if all(factor == int(factor) for factor in factors) else None
    if sizes is None or sizes.value is None or sizes.value.size != x.rank:
        return None
    ratios = [
        (floordiv(after, before), after, before)
        for after, before in zip(as_sizes(sizes), x.shape)
        if not is_equal(before, 0)
    ]
    if len(ratios) < x.rank or not all(is_static(r) and is_equal(before * r, after) for r, after, before in ratios):
        return None
    return [_number(ratio) for ratio, _, _ in ratios]


def sampling(node: Node) -> Tuple[str, Tuple[int, ...]]:
    """Return (mode, tuple of the factors of the spatial axes) of a native Resize that `_is_whole_upsampling` accepted.

    The mode is "bilinear" or "nearest". The node's image has its channels last.
    """
    mode = "bilinear" if node.params.get("mode", "nearest") == "linear" else "nearest"
    scales, sizes = (*node.args[2:4], None, None)[:2]
    if isinstance(scales, Const) and scales.array.size:
        return mode, tuple(int(factor) for factor in scales.array.reshape(-1)[2:])
    source = node.args[0]
    assert isinstance(source, (Ref, Const))
    return mode, tuple(_number(floordiv(*pair)) for pair in zip(_given_sizes(sizes)[2:], source.spec.shape[1:-1]))


def _given_sizes(sizes: Arg) -> Sequence[Extent]:
    """Return the elements of the argument `sizes` of a Resize: a constant, or a vector that was recorded from sizes.

    The elements are ints of a constant, and ints or symbolic sizes of a recorded vector.
    """
    if isinstance(sizes, Const):
        return list(sizes.array)
    assert isinstance(sizes, Ref) and sizes.node is not None
    extents = sizes.node.args[0]
    assert isinstance(extents, Extents)
    return extents.dims


def _number(size: Extent) -> int:
    assert not isinstance(size, Dim)  # `_is_whole_upsampling` has accepted static factors only
    return int(size)


class Resampling:
    """Native emitter method of Resize. Each back end implements `upsample`."""

    node: Any

    @native("Resize", _is_whole_upsampling, spatial=True)
    def resize(
        self,
        x: Array,
        roi: Optional[Array] = None,
        scales: Optional[Array] = None,
        sizes: Optional[Array] = None,
        **_: object,
    ) -> Array:
        mode, factors = sampling(self.node)
        return self.upsample(x, factors, mode)

    def upsample(self, x: Array, factors: Sequence[int], mode: str) -> Array:
        """Return a channels-last image x with each spatial axis enlarged by its factor.

        `mode`: "nearest" or "bilinear".
        """
        raise NotImplementedError
