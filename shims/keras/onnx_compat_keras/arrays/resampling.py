"""Resize by whole factors as one operation: repeated pixels, or straight lines between them."""

from typing import Any, List, Optional, Sequence, Tuple

from onnx_compat.shim import Const, as_sizes, floordiv, is_equal, is_static, native

__all__ = ["Resampling", "sampling"]

_CENTRED = ("half_pixel", "pytorch_half_pixel")


def _whole(node: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """An image that grows by whole factors in space, in a way that an up-sampling layer does too."""
    x = inputs[0]
    space = x.rank - 2
    if space not in (1, 2, 3) or x.dtype.name != "float32" or attributes.get("antialias", 0) or attributes.get("axes"):
        return False
    factors = _factors(x, inputs)
    if factors is None or node.opset < 11 or factors[:2] != [1, 1] or any(factor < 1 for factor in factors):
        return False
    place = attributes.get("coordinate_transformation_mode", "half_pixel")
    if attributes.get("mode", "nearest") == "nearest":
        rounding = attributes.get("nearest_mode", "round_prefer_floor")
        return (place == "asymmetric" and rounding == "floor") or (
            place in _CENTRED and rounding.startswith("round_prefer")
        )
    return attributes["mode"] == "linear" and space == 2 and place in _CENTRED


def _factors(x: Any, inputs: Sequence[Any]) -> Optional[List[int]]:
    """How many times as long each axis becomes; None if that is not a whole number, or not known."""
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
    return [int(ratio) for ratio, _, _ in ratios]  # type: ignore[arg-type]


def sampling(node: Any) -> Tuple[str, Tuple[int, ...]]:
    """The mode, and the whole factor of each axis of space (of images with channels last)."""
    mode = "bilinear" if node.params.get("mode", "nearest") == "linear" else "nearest"
    scales, sizes = (*node.args[2:4], None, None)[:2]
    if isinstance(scales, Const) and scales.array.size:
        return mode, tuple(int(factor) for factor in scales.array.reshape(-1)[2:])
    after = list(sizes.array) if isinstance(sizes, Const) else sizes.node.args[0].dims  # of the node that counts them
    return mode, tuple(_number(floordiv(*pair)) for pair in zip(after[2:], node.args[0].spec.shape[1:-1]))


def _number(size: Any) -> int:
    return int(size)


class Resampling:
    """The fast path, for each back end to fill in."""

    node: Any

    @native("Resize", _whole, spatial=True)
    def resize(self, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, **_: Any) -> Any:
        mode, factors = sampling(self.node)
        return self.upsampled(x, factors, mode)

    def upsampled(self, x: Any, factors: Sequence[int], mode: str) -> Any:
        """An image, channels last, with each axis of space so many times as long: 'nearest' or 'bilinear'."""
        raise NotImplementedError
