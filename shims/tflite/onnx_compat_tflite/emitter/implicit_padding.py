"""Windows whose padding TFLite's kernels find themselves: SAME, for sizes that are open too. Natives, which decline all else.

Spelt out, the padding of an open size is a dozen operators of arithmetic, and a mean without it several dozen.
"""

from typing import Any, Optional, Sequence

from onnx_compat.shim import Extent, is_equal, is_static, native
from onnx_compat.shim.geometry import WindowGeometry, reach
from onnx_compat_tflite.emitter.control import Control
from onnx_compat_tflite.emitter.windows import SAME, padding_of, raise_parameters
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["ImplicitPadding"]


def _windows(space: Sequence[Extent], kernel: Sequence[Extent], attributes: Any) -> WindowGeometry:
    given = [attributes.get(name) for name in ("pads", "strides", "dilations")]
    return WindowGeometry.of(space, kernel, attributes.get("auto_pad", "NOTSET"), *given)


def _is_same(x: Any, kernel: Sequence[Extent], attributes: Any) -> bool:
    """Whether the padding is what kernels call SAME, and there is any for every size."""
    space = x.shape[2:]
    if x.rank not in (3, 4) or x.dtype.name != "float32" or not is_static(x.shape[1]) or attributes.get("ceil_mode"):
        return False
    if not all(map(is_static, kernel)) or any(is_equal(size, 0) for size in space):
        return False
    windows = _windows(space, kernel, attributes)
    if attributes.get("auto_pad") == "SAME_UPPER":
        # A stride beyond the kernel would be padding of less than nothing: see `padding_of`.
        return all(reach(k, d) >= s for k, s, d in zip(windows.kernel, windows.strides, windows.dilations))
    known = [size if is_static(size) else None for size in space]
    placed: Any = windows  # whose padding is in numbers, unless it was automatic
    return windows.padded and padding_of(known, *placed) == SAME


def _open(x: Any, attributes: Any) -> bool:
    """Whether the padding depends on a size that is not known: primitives serve all others as well."""
    return attributes.get("auto_pad") == "SAME_UPPER" and not all(map(is_static, x.shape[2:]))


def _mean(_: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """No kernel counts what is around the image."""
    dense = all(step == 1 for step in attributes.get("dilations") or ())
    return (
        dense
        and not attributes.get("count_include_pad")
        and _is_same(inputs[0], attributes["kernel_shape"], attributes)
    )


def _largest(node: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    x, dense = inputs[0], all(step == 1 for step in attributes.get("dilations") or ())
    alone = not any(node.outputs[1:])
    return dense and alone and _open(x, attributes) and _is_same(x, attributes["kernel_shape"], attributes)


def _filtered(_: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    x, w, *_rest = inputs
    return bool(_open(x, attributes) and w.known and _is_same(x, w.shape[2:], attributes))


class ImplicitPadding(Control):
    """Images come channels last, filters as they are in the model."""

    @native("AveragePool", _mean, spatial=True)
    def average_pool_same(self, x: Handle, **attributes: Any) -> Handle:
        return self._pool_same("AVERAGE_POOL_2D", x, attributes)

    @native("MaxPool", _largest, spatial=True)
    def max_pool_same(self, x: Handle, **attributes: Any) -> Handle:
        return self._pool_same("MAX_POOL_2D", x, attributes)

    def _pool_same(self, builtin: str, x: Handle, attributes: Any) -> Handle:
        kernel = attributes["kernel_shape"]
        where = {"kernel": kernel, "strides": attributes.get("strides") or [1] * len(kernel)}
        if len(kernel) == 1:
            return self.remove_height(self._add_pool(builtin, self.insert_height(x), SAME, raise_parameters(where)))
        return self._add_pool(builtin, x, SAME, where)

    @native("Conv", _filtered, spatial=True)
    def conv_same(self, x: Handle, w: Handle, bias: Optional[Handle] = None, **attributes: Any) -> Handle:
        rank, groups = w.rank - 2, attributes.get("group", 1)
        where = {name: attributes.get(name) or [1] * rank for name in ("strides", "dilations")}
        space = range(2, w.rank)
        if groups > 1 and w.dims[1] == 1:
            own = self.transpose(w, [1, *space, 0])
            return self.depthwise_conv(x, own, bias, pads=SAME, groups=groups, **where)
        return self.conv(x, self.transpose(w, [0, *space, 1]), bias, pads=SAME, groups=groups, **where)
