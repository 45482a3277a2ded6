"""What slides windows over space shares: one axis of space is taken as two, and padding as the kernels like it."""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Dim, Extent, UnsupportedError
from onnx_compat_tensorflow.linear import Linear
from onnx_compat_tensorflow.shape import Shape

__all__ = ["Pads", "Window", "Windows"]

Pads = Sequence[Tuple[int, int]]


class Window(NamedTuple):
    """How a window of `kernel` (None: only known at run time) moves; an entry for each axis of space."""

    kernel: Tuple[Any, ...]
    strides: Tuple[int, ...]
    dilations: Tuple[int, ...]
    pads: Tuple[Tuple[int, int], ...]

    @property
    def dilated(self) -> bool:
        return any(step != 1 for step in self.dilations)

    @property
    def around(self) -> List[int]:
        """The padding as a kernel takes it, of batch and channels too."""
        return [0, 0, *(size for pair in self.pads for size in pair), 0, 0]

    def in_steps(self) -> "Window":
        """The same at every place instead of every few."""
        return self._replace(strides=(1,) * len(self.strides))

    def unpadded(self) -> "Window":
        return self._replace(pads=((0, 0),) * len(self.pads))

    def as_plane(self) -> "Window":
        """Of one axis: with a second one of length one before it."""
        return Window((1, *self.kernel), self.strides * 2, (1, *self.dilations), ((0, 0), *self.pads))


def full(values: Sequence[int]) -> List[int]:
    """An entry for every axis, of batch and channels too."""
    return [1, *values, 1]


def _spread(array: np.ndarray, dilations: Sequence[int]) -> np.ndarray:
    size = [(n - 1) * step + 1 for n, step in zip(array.shape, dilations)]
    wide = np.zeros((*size, *array.shape[len(dilations) :]), array.dtype)
    wide[tuple(slice(None, None, step) for step in dilations)] = array
    return wide


class Windows(Linear, Shape):
    """For convolutions and pools."""

    def on_plane(self, window: Window, apply: Callable[..., Any], x: Any, *weights: Any) -> Any:
        """`apply(window, x, *weights)`, on a plane where space has one axis."""
        if len(window.strides) != 1:
            return apply(window, x, *weights)
        tall = self.raw.ExpandDims(input=x, axis=1)
        wide = [self.reshaped(w, [1, *self.lengths(w)]) for w in weights]
        return self.raw.Squeeze(input=apply(window.as_plane(), tall, *wide), axis=[1])

    def precisely(self, convolve: Callable[..., Any], *tensors: Any) -> Any:
        """In the dtype that sums of products are made in."""
        dtype = tensors[0].dtype
        wide = self.tf.as_dtype(self.computed(tensors[0]))
        if dtype == wide:
            return convolve(*tensors)
        return self.raw.Cast(x=convolve(*[self.raw.Cast(x=t, DstT=wide) for t in tensors]), DstT=dtype)

    def with_batch(self, convolve: Callable[[Any], Any], x: Any) -> Any:
        """Some releases give an empty batch a wrong shape, or end the process: there an image of zeros goes along."""
        if self.features.holds("empty Conv2D") or not self._may_be_empty(self.node.args[0].spec.shape[0]):  # type: ignore[union-attr]
            return convolve(x)
        image = self.raw.Fill(dims=self.vector([1, *self.lengths(x)[1:]]), value=self.number(0, x.dtype))
        return convolve(self.raw.ConcatV2(values=[x, image], axis=0))[:-1]

    def _may_be_empty(self, batch: Extent) -> bool:
        """Whether the batch can be empty though no input of the model is."""
        if not isinstance(batch, Dim):
            return batch == 0
        atoms = [atom for monomial in batch.terms for atom in monomial]
        return len(batch.terms) != 1 or not all(atom.kind == "axis" and atom.args[0] in self.fed for atom in atoms)

    def padded(
        self, x: Any, window: Window, explicit: bool, value: Any = 0, same: bool = True
    ) -> Tuple[Any, str, Window]:
        """x, how the kernel shall pad it, and the window that is left: padded before where the kernel cannot."""
        if not any(window.around):
            return x, "VALID", window
        if same and self._is_same(self.shape_list(x)[1:-1], window):
            return x, "SAME", window
        if explicit:
            return x, "EXPLICIT", window
        before = [0, *(low for low, _ in window.pads), 0]
        after = [0, *(high for _, high in window.pads), 0]
        return self.pad_with(x, before, after, self.number(value, x.dtype)), "VALID", window.unpadded()

    def _is_same(self, sizes: Sequence[Optional[int]], window: Window) -> bool:
        """Whether it is what TensorFlow calls SAME: as much as a full last window needs, the odd one at the end."""
        for size, kernel, stride, dilation, pair in zip(sizes, *window):
            if kernel is None or (size is None and stride != 1):
                return False
            reach = (kernel - 1) * dilation + 1
            beyond = (
                reach - 1 if size is None or stride == 1 else max((-(-size // stride) - 1) * stride + reach - size, 0)
            )
            if pair != (beyond // 2, beyond - beyond // 2):
                return False
        return True

    def options(self, padding: str, window: Window, dilations: bool = True) -> Any:
        """The attributes of a kernel."""
        found = {"strides": full(window.strides), "padding": padding}
        if padding == "EXPLICIT":
            found["explicit_paddings"] = window.around
        if dilations and window.dilated:
            found["dilations"] = full(window.dilations)
        return found

    def every(self, x: Any, strides: Sequence[int]) -> Any:
        """Every few places of space."""
        if all(step == 1 for step in strides):
            return x
        places = (slice(None), *(slice(None, None, step) for step in strides), slice(None))
        return x[places]

    def in_groups(self, apply: Callable[[Any, Any], Any], x: Any, w: Any, groups: int, filter_axis: int) -> Any:
        """`apply` to each group of channels by itself, for kernels that know no groups."""
        xs = self.raw.Split(axis=-1, value=x, num_split=groups)
        ws = self.raw.Split(axis=filter_axis, value=w, num_split=groups)
        return self.raw.ConcatV2(values=[apply(part, weight) for part, weight in zip(xs, ws)], axis=-1)

    def spread(self, w: Any, dilations: Sequence[int]) -> Any:
        """A filter with zeros between its taps, for kernels that know no dilation."""
        if all(step == 1 for step in dilations):
            return w
        constant = self.derived(w, ("spread", *dilations), lambda array: _spread(array, dilations))
        if constant is not None:
            return constant
        for axis, step in enumerate(dilations):
            w = self._spread_axis(w, axis, step)
        return w

    def _spread_axis(self, w: Any, axis: int, step: int) -> Any:
        lengths = self.lengths(w)
        apart = self.raw.ExpandDims(input=w, axis=axis + 1)
        paddings = np.zeros((self.rank(apart), 2), np.int32)
        paddings[axis + 1, 1] = step - 1
        apart = self.op("PadV2", apart, self.number(0, w.dtype), paddings=self.tf.constant(paddings))
        merged = self.raw.Reshape(tensor=apart, shape=self.vector([*lengths[:axis], -1, *lengths[axis + 1 :]]))
        ends = (slice(None),) * axis + (slice(None, 1 - step) if step > 1 else slice(None),)
        return merged[ends]

    def unsupported_space(self, what: str, rank: int) -> UnsupportedError:
        return UnsupportedError("TensorFlow has no %s with %d axes of space" % (what, rank))
