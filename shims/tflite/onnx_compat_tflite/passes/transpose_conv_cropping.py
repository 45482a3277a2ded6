"""slice(conv_transpose(x))  =>  conv_transpose_same(x, beyond), a TRANSPOSE_CONV with padding SAME

A transposed convolution is recorded without padding, and a slice crops its result. If the slice keeps the part that the
padding SAME of TFLite keeps, the kernel computes only that part, and no copy is made.

Conditions: x is no constant and has at most two spatial axes, and no other node reads the uncropped result. The slice
has steps of 1, and crops the spatial axes only, by static amounts, half of each (rounded down) at the beginning. It
keeps at most stride * input size elements of an axis, and more than stride * (input size - 1).
"""

from typing import List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.passes import Replacement, count_uses, program_pass, record_program, rewrite_region
from onnx_compat.primitives import Application, rule
from onnx_compat.shim import (
    Emitter,
    Extent,
    Extents,
    Node,
    Port,
    Program,
    Ref,
    Region,
    Spec,
    Window,
    is_equal,
    is_static,
    maximum,
)

__all__ = ["transpose_conv_cropping"]


def _example(target: Emitter) -> Program:
    from onnx_compat import primitives as p
    from onnx_compat.shim import Tensor, dtypes

    filters = np.ones((2, 3, 3, 3), np.float32)

    def crop(x: Tensor) -> List[Tensor]:
        full = p.conv_transpose(x, filters, window=Window.of((3, 3), (2, 2)))
        return [p.slice(full, [0, 0, 0, 0], [None, None, 8, 8], [1, 1, 1, 1])]

    return record_program(crop, [Port("x", dtypes.float32, (1, 2, 4, 4))], target, ["y"])


@program_pass(
    "transpose_conv_cropping", "slice(conv_transpose(x)) => conv_transpose_same(x), with the padding SAME", _example,
    before=("composed_activations",),
)  # fmt: skip
def transpose_conv_cropping(region: Region, target: Emitter) -> Tuple[Region, int]:
    """Merge slices of transposed convolutions into `conv_transpose_same` nodes; return (region, number of rewrites).

    `_sizes_beyond_stride` has the conditions. No other node may read the uncropped result. Without a rewrite, the
    region itself is returned. The parameter `beyond` of the new nodes has, for each spatial axis, slice size - stride *
    input size.
    """
    uses = count_uses(region)

    def merge(node: Node) -> Optional[Replacement]:
        whole = node.args[0] if node.primitive == "slice" else None
        if not isinstance(whole, Ref) or whole.node is None or whole.node.primitive != "conv_transpose":
            return None
        beyond = _sizes_beyond_stride(node, whole.node) if uses[whole] == 1 else None
        if beyond is None:
            return None
        return Replacement("conv_transpose_same", list(whole.node.args), dict(whole.node.params, beyond=beyond))

    return rewrite_region(region, merge)


@rule("conv_transpose_same")
def _conv_transpose_same(application: Application) -> Sequence[Spec]:
    """Infer the result of `conv_transpose_same` from the images and filters: [batch, *spatial sizes, channels].

    Each spatial size is stride * input size + `beyond`, at least 0. The channels are the size of axis 0 of the filters,
    times the groups.
    """
    x, w = application.spec(0), application.spec(1)
    params = application.params
    axes = zip(x.shape[1:-1], params["window"].strides, params["beyond"])
    sizes = [maximum(size * stride + beyond, 0) for size, stride, beyond in axes]
    return [Spec(x.dtype, (x.shape[0], *sizes, w.shape[0] * params["groups"]))]


def _sizes_beyond_stride(cut: Node, full: Node) -> Optional[List[int]]:
    """Return, for each spatial axis, slice size - stride * input size: a static number above -stride, and at most 0.

    `full` is the transposed convolution, and `cut` the slice of its result. Returns None if

    - the input is a constant, or there are more than two spatial axes,
    - the slice does not keep the part that the padding SAME keeps (see the module docstring),
    - an open axis is not cropped, and has fewer elements than stride * input size.
    """
    _, starts, ends = cut.args
    assert isinstance(starts, Extents) and isinstance(ends, Extents)
    if not isinstance(full.args[0], Ref):  # constant data and a filter that is known only at run time
        return None
    source, whole, last = full.args[0].spec.shape, full.outputs[0].spec.shape, len(full.outputs[0].spec.shape) - 1
    left = [_sliced_size(*along) for along in zip(whole, starts.dims, ends.dims)]
    keeps_channels = all(is_equal(left[axis], whole[axis]) for axis in (0, last))
    if not keeps_channels or last > 3 or any(step != 1 for step in cut.params["steps"]):
        return None
    beyond = []
    for axis, stride in enumerate(full.params["window"].strides, 1):
        first, margin, excess = starts.dims[axis], whole[axis] - left[axis], left[axis] - source[axis] * stride
        if not (is_static(margin) and is_static(excess)):
            return None
        if not (margin >= 0 and is_equal(first, margin // 2) and -stride < excess <= 0):
            return None
        # The rule of the merged node clamps an open size at zero; a slice over the whole axis has the size without it.
        if margin == 0 and excess < 0 and not is_static(source[axis]):
            return None
        beyond.append(int(excess))
    return beyond


def _sliced_size(extent: Extent, start: Extent, end: Extent) -> Extent:
    """Return the size of an axis of size `extent` after slicing from `start` to `end`.

    A static negative `end` counts from the end of the axis. `start` is not negative, and `end` at most `extent`. The
    result is not clamped to 0: an uncropped transposed convolution is always larger than the margins to crop.
    """
    return end - start if not is_static(end) or end >= 0 else extent + end - start
