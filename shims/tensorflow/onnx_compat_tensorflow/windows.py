"""The base class of the emitter methods for convolutions and pools: padding, groups, dilations and strides."""

from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Const, Dim, Extent, Ref, UnsupportedError, Window
from onnx_compat_tensorflow.framework_types import TfTensor
from onnx_compat_tensorflow.linear import Linear
from onnx_compat_tensorflow.shape import Shape

__all__ = ["Windows", "full", "full_pads"]


def full_pads(window: Window) -> List[int]:
    """Return the padding of all axes of an NHWC tensor as a flat list: [0, 0, before, after, ..., 0, 0]."""
    return [0, 0, *(size for pair in window.pads for size in pair), 0, 0]


def full(values: Sequence[int]) -> List[int]:
    """Return strides, dilations or kernel sizes for all axes of an NHWC tensor: 1 for batch and channels."""
    return [1, *values, 1]


def _spread(array: np.ndarray, dilations: Sequence[int]) -> np.ndarray:
    """Return a filter [spatial..., channels...] with dilation - 1 zeros between the taps of each spatial axis."""
    size = [(n - 1) * step + 1 for n, step in zip(array.shape, dilations)]
    wide = np.zeros((*size, *array.shape[len(dilations) :]), array.dtype)
    wide[tuple(slice(None, None, step) for step in dilations)] = array
    return wide


class Windows(Linear, Shape):
    """Helper methods of the emitter methods for convolutions and pools."""

    def apply_on_plane(self, window: Window, apply: Callable[..., Any], x: TfTensor, *weights: TfTensor) -> TfTensor:
        """Return `apply(window, x, *weights)`. A single spatial axis is computed as a plane.

        With several spatial axes, the arguments are passed unchanged. For the plane, x, the weights and the window get
        a spatial axis of length 1 before the single axis. This axis is removed from the result. The window of the plane
        has the stride of the single axis for each axis, because some kernels accept no unequal strides.
        """
        if len(window.strides) != 1:
            return apply(window, x, *weights)
        tall = self.raw.ExpandDims(input=x, axis=1)
        wide = [self.reshape_to(w, [1, *self.lengths(w)]) for w in weights]
        plane = window.as_plane()._replace(strides=window.strides * 2)
        return self.raw.Squeeze(input=apply(plane, tall, *wide), axis=[1])

    def in_accumulation_dtype(self, convolve: Callable[..., Any], *tensors: TfTensor) -> TfTensor:
        """Return `convolve(*tensors)`, computed in the accumulator dtype: float64 for float64, else float32.

        The dtype of the first tensor decides. If it differs from its accumulator dtype, as float16 does, the tensors
        are cast to the accumulator dtype, and the result is cast back.
        """
        dtype = tensors[0].dtype
        wide = self.tf.as_dtype(self.accumulation_dtype(tensors[0]))
        if dtype == wide:
            return convolve(*tensors)
        return self.raw.Cast(x=convolve(*[self.raw.Cast(x=t, DstT=wide) for t in tensors]), DstT=dtype)

    def with_nonempty_batch(self, convolve: Callable[[TfTensor], TfTensor], x: TfTensor) -> TfTensor:
        """Return convolve(x), correct also for a batch without images.

        Some releases return a wrong shape for an empty batch, or end the process. On these, if the batch may be empty,
        an image of zeros is appended to x, and its result is removed. The batch size is that of the current node's
        first argument.
        """
        if self.features.holds("empty Conv2D"):
            return convolve(x)
        source = self.node.args[0]
        assert isinstance(source, (Ref, Const))
        if not self._may_be_empty(source.spec.shape[0]):
            return convolve(x)
        image = self.raw.Fill(dims=self.vector([1, *self.lengths(x)[1:]]), value=self.number(0, x.dtype))
        return convolve(self.raw.ConcatV2(values=[x, image], axis=0))[:-1]

    def _may_be_empty(self, batch: Extent) -> bool:
        """Whether the batch size may be 0.

        - An int: whether it is 0.
        - A product of sizes of tensors in `model_inputs`, which are never empty: False.
        - Any other symbolic size: True.
        """
        if not isinstance(batch, Dim):
            return batch == 0
        atoms = [atom for monomial in batch.terms for atom in monomial]
        return len(batch.terms) != 1 or not all(
            atom.kind == "axis" and atom.args[0] in self.model_inputs for atom in atoms
        )

    def pad_for_kernel(
        self, x: TfTensor, window: Window, explicit: bool, value: float = 0, same: bool = True
    ) -> Tuple[Any, str, Window]:
        """Return (x, padding mode of the kernel, window for the kernel).

        The first of these cases that holds gives the result:

        - The window has no padding: the mode is "VALID".
        - `same` is true, and SAME pads as the window does: the mode is "SAME".
        - `explicit` is true: the mode is "EXPLICIT".
        - Otherwise x is padded with `value`, the mode is "VALID", and the returned window has no pads.

        In the first three cases, x and the window are unchanged.

        explicit: whether the kernel has the mode "EXPLICIT".
        value: the number to pad with: 0, or the least number for a maximum.
        same: whether the mode "SAME" may be used.
        """
        if not window.is_padded:
            return x, "VALID", window
        if same and window.has_same_padding(self.shape_list(x)[1:-1]):
            return x, "SAME", window
        if explicit:
            return x, "EXPLICIT", window
        before = [0, *(low for low, _ in window.pads), 0]
        after = [0, *(high for _, high in window.pads), 0]
        return self.pad_with(x, before, after, self.number(value, x.dtype)), "VALID", window.without_pads()

    def options(self, padding: str, window: Window, dilations: bool = True) -> Dict[str, Any]:
        """Return the attributes of a raw op for this window: {"strides": ..., "padding": padding}.

        - For the padding "EXPLICIT", the dict also has explicit_paddings.
        - If the window is dilated and `dilations` is true, the dict also has dilations.
        """
        options: Dict[str, Any] = {"strides": full(window.strides), "padding": padding}
        if padding == "EXPLICIT":
            options["explicit_paddings"] = full_pads(window)
        if dilations and window.is_dilated:
            options["dilations"] = full(window.dilations)
        return options

    def subsample(self, x: TfTensor, strides: Sequence[int]) -> TfTensor:
        """Return x[:, ::strides[0], ::strides[1], ..., :]: every stride-th element of each spatial axis.

        If all strides are 1, x itself is returned.
        """
        if all(step == 1 for step in strides):
            return x
        key = (slice(None), *(slice(None, None, step) for step in strides), slice(None))
        return x[key]

    def apply_to_groups(
        self, apply: Callable[[TfTensor, TfTensor], TfTensor], x: TfTensor, w: TfTensor, groups: int, filter_axis: int
    ) -> TfTensor:
        """Compute a grouped convolution by `apply(part of x, part of w)` for each group. Return the joined results.

        x is split into `groups` equal parts along the channels (the last axis), w along `filter_axis`. The results are
        concatenated along the last axis.
        """
        xs = self.raw.Split(axis=-1, value=x, num_split=groups)
        ws = self.raw.Split(axis=filter_axis, value=w, num_split=groups)
        return self.raw.ConcatV2(values=[apply(part, weight) for part, weight in zip(xs, ws)], axis=-1)

    def spread(self, w: TfTensor, dilations: Sequence[int]) -> TfTensor:
        """Return the filter w [spatial..., channels...] with its dilations built in by zeros between its taps.

        Example: the dilation 2 changes the taps [a, b] to [a, 0, b]. `dilations`: one for each spatial axis. A constant
        stays a constant. With dilations of 1, w itself is returned.
        """
        if all(step == 1 for step in dilations):
            return w
        constant = self.derive_constant(w, ("spread", *dilations), lambda array: _spread(array, dilations))
        if constant is not None:
            return constant
        for axis, step in enumerate(dilations):
            w = self._spread_axis(w, axis, step)
        return w

    def _spread_axis(self, w: TfTensor, axis: int, step: int) -> TfTensor:
        """Return w with `step` - 1 zeros between the elements along an axis."""
        lengths = self.lengths(w)
        apart = self.raw.ExpandDims(input=w, axis=axis + 1)
        paddings = np.zeros((self.rank(apart), 2), np.int32)
        paddings[axis + 1, 1] = step - 1
        apart = self.op("PadV2", apart, self.number(0, w.dtype), paddings=self.tf.constant(paddings))
        merged = self.raw.Reshape(tensor=apart, shape=self.vector([*lengths[:axis], -1, *lengths[axis + 1 :]]))
        ends = (slice(None),) * axis + (slice(None, 1 - step) if step > 1 else slice(None),)
        return merged[ends]

    def unsupported_space(self, kind: str, rank: int) -> UnsupportedError:
        """Return the UnsupportedError for an operation `kind` with `rank` spatial axes. It is not raised."""
        return UnsupportedError("TensorFlow has no %s with %d spatial axes" % (kind, rank))
