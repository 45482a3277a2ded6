"""The padding of windows as TFLite names it, and the number of windows."""

from typing import Any, List, Optional, Sequence

from onnx_compat.shim import Window
from onnx_compat_tflite.subgraph_builder import Size

__all__ = ["SAME", "conv_padding_of", "padding_of", "result_space", "window_count"]

#: The padding that a kernel computes for ceil(size / stride) windows from the run-time size.
SAME = "SAME"


def padding_of(space: Sequence[Any], window: Window) -> Optional[str]:
    """Return TFLite's name of a window's padding: "VALID" without pads, "SAME" if SAME adds the pads of the window.

    `space` has the spatial sizes before padding. Returns None in these cases:

    - The pads are not those of SAME.
    - SAME would crop an axis (`Window.same_padding` is negative).
    - There are pads, and the pads of SAME are unknown: an axis of unknown size has a stride above 1, or a number of
      taps is unknown.
    """
    if not window.is_padded:
        return "VALID"
    sizes = [size if isinstance(size, int) else None for size in space]
    # A negative total (no window reads the last elements) is not SAME: XNNPACK up to LiteRT 2.0 crops them wrongly.
    return SAME if window.has_same_padding(sizes) and min(window.same_padding(sizes)) >= 0 else None


def conv_padding_of(space: Sequence[Any], window: Window) -> Optional[str]:
    """Return the padding of a convolution as `padding_of` does, but None for a case that a kernel computes wrongly.

    Case: the kernel has the size of the image, and there are pads after the image only. With several threads, CONV_2D
    of LiteRT 2.3 takes such a convolution for a product of matrices, and writes its first element only.
    """
    padding = padding_of(space, window)
    has_size_of_image = all(isinstance(size, int) and size == taps for size, taps in zip(space, window.kernel))
    is_misread = padding == SAME and has_size_of_image and all(low == 0 for low, _ in window.pads)
    return None if is_misread else padding


def result_space(space: Sequence[Any], window: Window, padding: str) -> List[Any]:
    """Return the spatial sizes of the result of a window op, None for an unknown size. `padding` is "SAME" or "VALID".

    `space` has the spatial sizes of the input. If the input was padded before the op, these are the padded sizes. The
    pads of the window are not read.
    """
    if padding == SAME:
        return [-(-n // s) if isinstance(n, int) else None for n, s in zip(space, window.strides)]
    return [window_count(*along) for along in zip(space, window.kernel, window.strides, window.dilations)]


def window_count(size: Size, kernel: Size, stride: int, dilation: int) -> Any:
    """Return the number of windows along an axis, at least 0. `size` includes the pads; `kernel` is the number of taps.

    Returns None if the size or the kernel is unknown.
    """
    if not isinstance(size, int) or not isinstance(kernel, int):
        return None
    return max((size - (kernel - 1) * dilation - 1) // stride + 1, 0)
