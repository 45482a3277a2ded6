"""Arithmetic on the channels of layers, which passes of programs and passes of target graphs share."""

from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

__all__ = ["ChannelMap", "channel_map", "channel_vector", "scale_channels"]


class ChannelMap(NamedTuple):
    """The map x -> x * factor + summand of channels. None: there is no factor, or no summand."""

    factor: Any = None
    summand: Any = None


def channel_map(operation: str, constant: Any, is_first: bool = False) -> Optional[ChannelMap]:
    """Return the map that `x op constant`, or with `is_first` `constant op x`, applies to each channel.

    - operation: "mul", "div", "add" or "sub".
    - constant: an array of floats, with one number or a number for each channel.

    Returns None for another operation, for `x / constant` with a zero in the constant, and for `constant / x`.
    """
    if operation == "mul":
        return ChannelMap(factor=constant)
    if operation == "add":
        return ChannelMap(summand=constant)
    if operation == "sub":
        return ChannelMap(-1, constant) if is_first else ChannelMap(summand=-constant)
    is_quotient = operation == "div" and not is_first and bool(constant.all())
    return ChannelMap(factor=1 / constant) if is_quotient else None


def channel_vector(array: Any, axis: int, rank: int, size: int) -> Optional[np.ndarray]:
    """Return a constant operand of a tensor as a vector along the channel axis: one number, or one for each channel.

    The tensor has `rank` axes, and `size` channels along `axis`. The operand broadcasts to the tensor. Example for axis
    1 of rank 4: shape [3, 1, 1] -> [3].

    Returns None in these cases:

    - The operand varies along another axis.
    - The number of elements is neither 1 nor `size`.
    - The operand has more axes than the tensor.
    """
    array = np.asarray(array)
    if array.ndim > rank or array.size not in (1, size):
        return None
    lengths: Sequence[int] = (1,) * (rank - array.ndim) + array.shape
    return array.reshape(-1) if array.size == 1 or lengths[axis] == size else None


def scale_channels(weights: Any, factor: Any, axis: int) -> np.ndarray:
    """Return a new array: `weights` with each channel multiplied by its number in the vector `factor`.

    The channels are along `axis` of the weights, which is not negative.
    """
    scaled: np.ndarray = weights * np.asarray(factor).reshape([-1 if k == axis else 1 for k in range(weights.ndim)])
    return scaled
