"""Emitter methods for convolutions, by TensorFlow's kernels.

Padding, dilations and groups are passed to the kernel if it supports them; otherwise other operations compute them.
"""

from typing import Callable, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Window
from onnx_compat_tensorflow.framework_types import Size, TfTensor
from onnx_compat_tensorflow.windows import Windows, full

__all__ = ["Convolution"]

Ints = Sequence[int]


class Convolution(Windows):
    """Emitter methods for conv, depthwise_conv and conv_transpose of `onnx_compat.primitives.linear`."""

    # -- dense ---------------------------------------------------------------------------------------------------------
    def conv(
        self, x: TfTensor, w: TfTensor, bias: Optional[TfTensor] = None, *, window: Window, groups: int = 1
    ) -> TfTensor:
        x, w, groups = self._with_input_channels(x, w, groups, self.lengths(w)[-1])

        def apply(window: Window, x: TfTensor, w: TfTensor) -> TfTensor:
            convolve = {2: self._convolve_2d, 3: self._convolve_3d}.get(len(window.strides))
            if convolve is None:
                raise self.unsupported_space("convolution", len(window.strides))
            if groups == 1 or (
                len(window.strides) == 2 and self.features.holds("grouped Conv2D", self.accumulation_dtype(x))
            ):
                return convolve(window, x, w)
            return self.apply_to_groups(lambda part, weight: convolve(window, part, weight), x, w, groups, -1)

        return self.add_bias(self.apply_on_plane(window, apply, x, w), bias)

    def _with_input_channels(
        self, x: TfTensor, w: TfTensor, groups: int, outputs: Size
    ) -> Tuple[TfTensor, TfTensor, int]:
        """Return (x, w, groups) of an equivalent convolution with at least one input channel.

        The kernels fail without input channels.

        - The static number of channels of x or w is not 0: x, w and groups are returned unchanged.
        - The static number is 0: x and w are replaced by zeros with a single input channel, and groups by 1.
        - Both numbers are unknown, and groups is 1: a channel of zeros is added to x and w.
        - Both numbers are unknown, and groups is over 1: x, w and groups are returned unchanged.

        outputs: the number of output channels of all groups.
        """
        known = [size for size in (self.shape_list(x)[-1], self.shape_list(w)[-2]) if size is not None]
        if known and 0 not in known:
            return x, w, groups
        zero = self.number(0, x.dtype)
        image = self.raw.Fill(dims=self.vector([*self.lengths(x)[:-1], 1]), value=zero)
        width = outputs if known else self.lengths(w)[-1]
        filters = self.raw.Fill(dims=self.vector([*self.lengths(w)[:-2], 1, width]), value=zero)
        if known:
            return image, filters, 1
        if groups > 1:
            return x, w, groups
        return self.raw.ConcatV2(values=[x, image], axis=-1), self.raw.ConcatV2(values=[w, filters], axis=-2), groups

    def _convolve_2d(self, window: Window, x: TfTensor, w: TfTensor) -> TfTensor:
        if self._is_misread_column(window, x):
            return self._convolve_swapped(self._convolve_2d, window, x, w)
        x, padding, window = self.pad_for_kernel(
            x, window, self.features.holds("explicit Conv2D", self.accumulation_dtype(x))
        )
        return self.with_nonempty_batch(lambda x: self.op("Conv2D", x, w, **self.options(padding, window)), x)

    def _is_misread_column(self, window: Window, x: TfTensor) -> bool:
        """Whether the kernel of Conv2D or Conv3D may read wrong elements, because the result may have a width of 1.

        For such a result, oneDNN (TensorFlow 2.21 on CPUs) advances by the horizontal stride from row to row. This
        happens only for one channel, several rows, and a vertical stride of 1.

        Returns False if a probe shows that this TensorFlow computes the result correctly.
        """
        vertical, horizontal = window.strides[-2:]
        height, width, channels = self.shape_list(x)[-3:]
        if vertical > 1 or horizontal == 1 or channels not in (1, None) or height == 1:
            return False
        if width is not None and _has_several_columns(window, width):
            return False
        return not self.features.holds("Conv%dD of a column" % len(window.strides), self.accumulation_dtype(x))

    def _convolve_swapped(
        self, convolve: Callable[[Window, TfTensor, TfTensor], TfTensor], window: Window, x: TfTensor, w: TfTensor
    ) -> TfTensor:
        """Return a convolution by `convolve` with its last two spatial axes swapped in the operands and the result."""
        first = len(window.strides) - 2
        swapped = Window(*((*sizes[:first], sizes[first + 1], sizes[first]) for sizes in window))
        y = convolve(swapped, self._swap_axes(x, first + 1), self._swap_axes(w, first))
        return self._swap_axes(y, first + 1)

    def _swap_axes(self, x: TfTensor, axis: int) -> TfTensor:
        """Return a tensor with the axes `axis` and `axis + 1` swapped."""
        perm = list(range(self.rank(x)))
        perm[axis : axis + 2] = [axis + 1, axis]
        return self.op("Transpose", x, perm=self.vector(perm, self.tf.int32))

    def _convolve_3d(self, window: Window, x: TfTensor, w: TfTensor) -> TfTensor:
        if self._is_misread_column(window, x):
            return self._convolve_swapped(self._convolve_3d, window, x, w)
        if window.is_dilated and not self.features.holds("dilated Conv3D", self.accumulation_dtype(x)):
            return self._convolve_dilated(self.tf.nn.convolution, "dilations", [1] * len(window.strides), window, x, w)
        x, padding, window = self.pad_for_kernel(x, window, explicit=False)
        return self.with_nonempty_batch(lambda x: self.op("Conv3D", x, w, **self.options(padding, window)), x)

    def _convolve_dilated(
        self, convolve: Callable[..., TfTensor], dilations: str, strides: Ints, window: Window, x: TfTensor, w: TfTensor
    ) -> TfTensor:
        """Compute a dilated convolution with strides of 1 by `convolve`, then keep every stride-th element.

        convolve: a function of tf.nn that accepts no strides together with dilations.
        dilations: the name of the function's parameter for dilations.
        strides: the function's argument for strides, all ones. The strides of the result are in `window`.

        The padding is computed for a stride of 1, because SAME with strides pads less.
        """
        x, padding, steps = self.pad_for_kernel(x, _with_unit_strides(window), explicit=False)

        def apply(x: TfTensor, w: TfTensor) -> TfTensor:
            return convolve(x, w, strides=strides, padding=padding, **{dilations: list(steps.dilations)})

        return self.subsample(
            self.with_nonempty_batch(lambda x: self.in_accumulation_dtype(apply, x, w), x), window.strides
        )

    # -- depthwise -----------------------------------------------------------------------------------------------------
    def depthwise_conv(
        self, x: TfTensor, w: TfTensor, bias: Optional[TfTensor] = None, *, window: Window, groups: int = 1
    ) -> TfTensor:
        if len(window.strides) > 2:
            narrow = self.reshape_to(w, [*self.lengths(w)[1:-1], 1, self.dim(w, -1)])
            return self.conv(x, narrow, bias, window=window, groups=groups)
        filters = self.shape_list(w)[-1]
        multiplier = -1 if filters is None else filters // groups
        table = self.reshape_to(w, [*self.lengths(w)[1:-1], groups, multiplier])
        return self.add_bias(self.apply_on_plane(window, self._convolve_depthwise, x, table), bias)

    def _convolve_depthwise(self, window: Window, x: TfTensor, w: TfTensor) -> TfTensor:
        op, dtype, holds = "DepthwiseConv2dNative", self.accumulation_dtype(x), self.features.holds
        if window.strides[0] != window.strides[1] and not holds("unequal strides of " + op, dtype):
            return self.subsample(self._convolve_depthwise(_with_unit_strides(window), x, w), window.strides)
        if window.is_dilated and not holds("dilated " + op, dtype):
            return self._convolve_dilated(self.tf.compat.v1.nn.depthwise_conv2d, "rate", [1, 1, 1, 1], window, x, w)
        # Not "EXPLICIT", which some kernels support: some releases then fuse the convolution with a bias, lose the padding, and
        # end the process.
        x, padding, window = self.pad_for_kernel(x, window, explicit=False)
        return self.with_nonempty_batch(lambda x: self.op(op, x, w, **self.options(padding, window)), x)

    # -- transposed ----------------------------------------------------------------------------------------------------
    def conv_transpose(
        self, x: TfTensor, w: TfTensor, bias: Optional[TfTensor] = None, *, window: Window, groups: int = 1
    ) -> TfTensor:
        x, w, groups = self._with_input_channels(x, w, groups, self.lengths(w)[-1] * groups)

        def apply(window: Window, x: TfTensor, w: TfTensor) -> TfTensor:
            if len(window.strides) > 3:
                raise self.unsupported_space("transposed convolution", len(window.strides))
            takes_groups = len(window.strides) == 2 and self.features.holds(
                "grouped Conv2DBackpropInput", self.accumulation_dtype(x)
            )
            if groups == 1:
                return self._convolve_transposed(window, x, self._swap_channels(w), 1)
            if takes_groups:
                return self._convolve_transposed(window, x, self._swap_channels(w), groups)
            return self.apply_to_groups(
                lambda part, weight: self._convolve_transposed(window, part, self._swap_channels(weight), 1),
                x,
                w,
                groups,
                -2,
            )

        return self.add_bias(self.apply_on_plane(window, apply, x, w), bias)

    def _swap_channels(self, w: TfTensor) -> TfTensor:
        """Return a filter with the input and output channels (its last two axes) swapped. A constant stays a constant.

        If w is the value of a variable that already stores the swapped filter (see `swapped_filters`), w itself is
        returned. Conv2DBackpropInput and Conv3DBackpropInputV2 expect the filter of the convolution that they
        differentiate.
        """
        if id(w) in self._swapped:
            return w
        constant = self.derive_constant(w, ("swap channels",), lambda array: np.swapaxes(array, -1, -2))
        if constant is not None:
            return constant
        rank = self.rank(w)
        return self.op("Transpose", w, perm=self.vector([*range(rank - 2), rank - 1, rank - 2], self.tf.int32))

    def _convolve_transposed(self, window: Window, x: TfTensor, w: TfTensor, groups: int) -> TfTensor:
        is_2d = len(window.strides) == 2
        if not (is_2d and self.features.holds("dilated Conv2DBackpropInput", self.accumulation_dtype(x))):
            w = self.spread(w, window.dilations)
            window = window._replace(dilations=(1,) * len(window.strides))
        lengths, kernel = self.lengths(x), self.lengths(w)
        space = [
            (size - 1) * stride + (taps - 1) * dilation + 1
            for size, taps, stride, dilation in zip(lengths[1:-1], kernel, window.strides, window.dilations)
        ]
        sizes = self.vector([lengths[0], *space, kernel[-2] * groups], self.tf.int32)
        options = {"strides": full(window.strides), "padding": "VALID"}
        if window.is_dilated:
            options["dilations"] = full(window.dilations)
        op = "Conv2DBackpropInput" if is_2d else "Conv3DBackpropInputV2"
        return self.op(op, x, w, input_sizes=sizes, **options)


def _with_unit_strides(window: Window) -> Window:
    return window._replace(strides=(1,) * len(window.strides))


def _has_several_columns(window: Window, width: int) -> bool:
    """Whether a convolution along a last spatial axis of this static width has a result of at least two columns.

    Returns False if the kernel or the padding of the width is not static.
    """
    sizes = (window.kernel[-1], *window.pads[-1])
    leading = [0] * (len(window.strides) - 1)
    return all(isinstance(size, int) for size in sizes) and window.counts([*leading, width])[-1] > 1
