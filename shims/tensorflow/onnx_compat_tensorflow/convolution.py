"""Convolutions, by TensorFlow's own kernels: padded, dilated and grouped there wherever the kernel at hand can."""

from typing import Any, Sequence

import numpy as np

from onnx_compat_tensorflow.windows import Pads, Window, Windows, full

__all__ = ["Convolution"]

Ints = Sequence[int]


class Convolution(Windows):
    """conv, depthwise_conv and conv_transpose of `onnx_compat.primitives.linear`."""

    # -- dense ---------------------------------------------------------------------------------------------------------
    def conv(
        self, x: Any, w: Any, bias: Any = None, *, strides: Ints, dilations: Ints, pads: Pads, groups: int = 1
    ) -> Any:
        window = self._window(w, strides, dilations, pads)

        def apply(window: Window, x: Any, w: Any) -> Any:
            convolve = {2: self._plane, 3: self._volume}.get(len(window.strides))
            if convolve is None:
                raise self.unsupported_space("convolution", len(window.strides))
            if groups == 1 or (len(window.strides) == 2 and self.features.holds("grouped Conv2D", self.computed(x))):
                return convolve(window, x, w)
            return self.in_groups(lambda part, weight: convolve(window, part, weight), x, w, groups, -1)

        return self.biased(self.on_plane(window, apply, x, w), bias)

    def _window(self, w: Any, strides: Ints, dilations: Ints, pads: Pads) -> Window:
        kernel = self.shape_list(w)[: len(strides)]
        return Window(tuple(kernel), tuple(strides), tuple(dilations), tuple(tuple(p) for p in pads))  # type: ignore[misc]

    def _plane(self, window: Window, x: Any, w: Any) -> Any:
        x, padding, window = self.padded(x, window, self.features.holds("explicit Conv2D", self.computed(x)))
        return self.with_batch(lambda x: self.op("Conv2D", x, w, **self.options(padding, window)), x)

    def _volume(self, window: Window, x: Any, w: Any) -> Any:
        if window.dilated and not self.features.holds("dilated Conv3D", self.computed(x)):
            return self._dilated(self.tf.nn.convolution, "dilations", [1] * len(window.strides), window, x, w)
        x, padding, window = self.padded(x, window, explicit=False)
        return self.with_batch(lambda x: self.op("Conv3D", x, w, **self.options(padding, window)), x)

    def _dilated(self, convolve: Any, dilations: str, strides: Ints, window: Window, x: Any, w: Any) -> Any:
        """A dilated convolution by a function of TensorFlow that takes no strides beside dilations: computed with stride 1,
        then every few places. The padding is that of stride 1: SAME of the strided window pads less.
        """
        x, padding, steps = self.padded(x, window.in_steps(), explicit=False)

        def apply(x: Any, w: Any) -> Any:
            return convolve(x, w, strides=strides, padding=padding, **{dilations: list(steps.dilations)})

        return self.every(self.with_batch(lambda x: self.precisely(apply, x, w), x), window.strides)

    # -- depthwise -----------------------------------------------------------------------------------------------------
    def depthwise_conv(
        self, x: Any, w: Any, bias: Any = None, *, strides: Ints, dilations: Ints, pads: Pads, groups: int = 1
    ) -> Any:
        if len(strides) > 2:
            narrow = self.reshaped(w, [*self.lengths(w)[1:-1], 1, self.dim(w, -1)])
            return self.conv(x, narrow, bias, strides=strides, dilations=dilations, pads=pads, groups=groups)
        filters = self.shape_list(w)[-1]
        per = -1 if filters is None else filters // groups
        table = self.reshaped(w, [*self.lengths(w)[1:-1], groups, per])
        window = self._window(table, strides, dilations, pads)
        return self.biased(self.on_plane(window, self._depthwise, x, table), bias)

    def _depthwise(self, window: Window, x: Any, w: Any) -> Any:
        op, dtype, holds = "DepthwiseConv2dNative", self.computed(x), self.features.holds
        if window.strides[0] != window.strides[1] and not holds("unequal strides of " + op, dtype):
            return self.every(self._depthwise(window.in_steps(), x, w), window.strides)
        if window.dilated and not holds("dilated " + op, dtype):
            return self._dilated(self.tf.compat.v1.nn.depthwise_conv2d, "rate", [1, 1, 1, 1], window, x, w)
        # Not "EXPLICIT", although the kernel may know it: some releases fuse it with a bias, forget the padding on the
        # way, and end the process.
        x, padding, window = self.padded(x, window, explicit=False)
        return self.with_batch(lambda x: self.op(op, x, w, **self.options(padding, window)), x)

    # -- transposed ----------------------------------------------------------------------------------------------------
    def conv_transpose(
        self, x: Any, w: Any, bias: Any = None, *, strides: Ints, dilations: Ints, groups: int = 1
    ) -> Any:
        window = self._window(w, strides, dilations, [(0, 0)] * len(strides))

        def apply(window: Window, x: Any, w: Any) -> Any:
            if len(window.strides) > 3:
                raise self.unsupported_space("transposed convolution", len(window.strides))
            whole = len(window.strides) == 2 and self.features.holds("grouped Conv2DBackpropInput", self.computed(x))
            if groups == 1:
                return self._transposed(window, x, self._swapped(w), 1)
            if whole:
                return self._transposed(window, x, self._swapped(w), groups)
            return self.in_groups(
                lambda part, weight: self._transposed(window, part, self._swapped(weight), 1), x, w, groups, -2
            )

        return self.biased(self.on_plane(window, apply, x, w), bias)

    def _swapped(self, w: Any) -> Any:
        """The kernel sees the convolution whose gradient this is: our input channels are its outputs."""
        constant = self.derived(w, ("swapped",), lambda array: np.swapaxes(array, -1, -2))
        if constant is not None:
            return constant
        rank = self.rank(w)
        return self.op("Transpose", w, perm=self.vector([*range(rank - 2), rank - 1, rank - 2], self.tf.int32))

    def _transposed(self, window: Window, x: Any, w: Any, groups: int) -> Any:
        plane = len(window.strides) == 2
        if not (plane and self.features.holds("dilated Conv2DBackpropInput", self.computed(x))):
            w = self.spread(w, window.dilations)
            window = window._replace(dilations=(1,) * len(window.strides))
        lengths, kernel = self.lengths(x), self.lengths(w)
        space = [
            (size - 1) * stride + (taps - 1) * dilation + 1
            for size, taps, stride, dilation in zip(lengths[1:-1], kernel, window.strides, window.dilations)
        ]
        sizes = self.vector([lengths[0], *space, kernel[-2] * groups], self.tf.int32)
        options = {"strides": full(window.strides), "padding": "VALID"}
        if window.dilated:
            options["dilations"] = full(window.dilations)
        op = "Conv2DBackpropInput" if plane else "Conv3DBackpropInputV2"
        return self.op(op, x, w, input_sizes=sizes, **options)
