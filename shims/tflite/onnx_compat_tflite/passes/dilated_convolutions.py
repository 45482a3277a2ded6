"""CONV_2D(x, w) of 3x3 taps  =>  CONV_2D(x, w[1, 1]) of one tap, where the other taps read padding at every position

First rewrite (padding_taps): a window of padding SAME, dilated or larger than the image, reaches past the image. Taps that
never read the image are dropped from the filter, per axis. Also DEPTHWISE_CONV_2D. Conditions:

- The filter is a finite float32 constant with one reader.
- The sizes of the image are known.
- SAME places the taps that stay as before.

Second rewrite (dilated_splitting): CONV_2D(x, w)  =>  CONV_2D(x, w[1, 1]) + PAD(CONV_2D(SLICE(x), w[0, 0])) + ...

Each tap is applied to the pixels that it reads: the kernel multiplies zeros of the padding as well. Conditions, besides those
of the first rewrite:

- The op is CONV_2D, without groups. The strides are 1.
- On each axis, a tap reads the image at every position.
- At most 0.7 of the products read the image.
- The products that are saved take a multiple of the time of the added operators.
"""

from typing import List, NamedTuple, Optional, Sequence

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["dilated_splitting", "padding_taps"]

#: The largest share of products that read the image, for which a convolution is split.
_MOST_LIVE = 0.7
#: The least number of saved products for each element that the added operators copy or add.
_LEAST_SAVED = 16


class _Axis(NamedTuple):
    """A spatial axis of a convolution with padding SAME: `size` elements of the image, and `taps` of the filter."""

    size: int
    taps: int
    stride: int
    dilation: int

    @property
    def length(self) -> int:
        """The number of window positions, which is the size of the result along the axis."""
        return -(-self.size // self.stride)

    @property
    def low(self) -> int:
        """The padding before the first element."""
        return max((self.length - 1) * self.stride + (self.taps - 1) * self.dilation + 1 - self.size, 0) // 2

    def positions(self, tap: int) -> range:
        """Return the window positions at which a tap reads the image."""
        first = self.low - tap * self.dilation
        return range(max(-(-first // self.stride), 0), min((first + self.size - 1) // self.stride + 1, self.length))

    def kept_taps(self) -> range:
        """Return the shortest range of taps with which the convolution computes the same. It may have all taps.

        The range has every tap that reads the image. With these taps alone, SAME still places each tap at the same
        elements of the image. Example: of three taps with dilation 12, on an axis of size 8, only the middle tap is
        kept: range(1, 2).
        """
        if self.positions(0) and self.positions(self.taps - 1):
            return range(self.taps)
        live = [tap for tap in range(self.taps) if self.positions(tap)]
        ranges = [range(a, b) for a in range(self.taps) for b in range(a + 1, self.taps + 1)]
        for taps in sorted(ranges, key=len):
            shorter = self._replace(taps=len(taps))
            has_live = bool(live) and taps[0] <= live[0] and live[-1] <= taps[-1]
            if has_live and shorter.low == self.low - taps[0] * self.dilation:
                return taps
        return range(self.taps)


def _axes(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[List[_Axis]]:
    """Return [axis of the rows, axis of the columns] of a CONV_2D or DEPTHWISE_CONV_2D.

    Returns None unless all of these conditions hold:

    - The padding is SAME.
    - The height and width of the image are known.
    - The filter is a float32 constant that no other operator reads.
    """
    if op.builtin not in ("CONV_2D", "DEPTHWISE_CONV_2D") or op.options.get("padding") != "SAME":
        return None
    filter_ = op.inputs[1] or 0
    weights = graph.constant(filter_)
    if weights is None or np.asarray(weights).dtype != np.float32 or not graph.is_only_read_by(filter_, op):
        return None
    sizes, taps, options = graph.sizes(op.inputs[0] or 0)[1:3], np.shape(weights)[1:3], op.options
    strides = options["stride_h"], options["stride_w"]
    dilations = options.get("dilation_h_factor", 1), options.get("dilation_w_factor", 1)
    return [_Axis(*along) for along in zip(sizes, taps, strides, dilations)] if min(sizes) > 0 else None


def _aspp_example(dilation: int, channels: int) -> fb.ModelSpec:
    graph = ExampleGraph((1, 8, 8, channels))
    x, filters = graph.inputs[0], graph.filters(channels, 3, 3, channels)
    result = graph.conv(
        x, filters, (1, 8, 8, channels), padding="SAME", dilation_h_factor=dilation, dilation_w_factor=dilation
    )
    return graph.model(result)


@graph_pass(
    "padding_taps", "CONV_2D of 3x3 taps => CONV_2D of one tap, where the others read only padding",
    lambda: _aspp_example(12, 2), after=("same_padding",), before=("integer_kernels",),
)  # fmt: skip
def padding_taps(graph: GraphRewriter, context: Context) -> int:
    """Drop filter taps that read padding at every position. Return the number of changed convolutions.

    Applies under the conditions of the first rewrite in the docstring of this module.
    """
    count = 0
    for op in graph.operators:
        axes = _axes(graph, op)
        kept = None if axes is None else [axis.kept_taps() for axis in axes]
        if axes is None or kept is None or all(len(taps) == axis.taps for taps, axis in zip(kept, axes)):
            continue
        filter_ = op.inputs[1] or 0
        weights = np.asarray(graph.constant(filter_))
        if not np.isfinite(weights).all():  # a zero of the padding times infinity is NaN
            continue
        rows, columns = (slice(taps[0], taps[-1] + 1) for taps in kept)
        trimmed = np.ascontiguousarray(weights[:, rows, columns])
        graph.set_input(op, 1, graph.add_constant(graph.tensor(filter_).name + "/taps", trimmed))
        steps = [axis.dilation if len(taps) > 1 else 1 for taps, axis in zip(kept, axes)]
        graph.set_options(op, dilation_h_factor=steps[0], dilation_w_factor=steps[1])
        count += 1
    return count


class _Part(NamedTuple):
    """A part of an axis: the taps `taps`, for the window positions `results`, which read the elements `sources`."""

    taps: slice
    dilation: int
    sources: range
    results: range


@graph_pass(
    "dilated_splitting", "CONV_2D that reads mostly padding => ADD of CONV_2D of a tap, on the pixels that it reads",
    lambda: _aspp_example(6, 96), after=("activation_fusion", "bias_folding", "channel_shuffles", "padding_taps"),
)  # fmt: skip
def dilated_splitting(graph: GraphRewriter, context: Context) -> int:
    """Split convolutions that read mostly padding into a sum over their taps. Return the number of split convolutions.

    Applies under the conditions of the second rewrite in the docstring of this module.
    """
    count = 0
    result: List[fb.OperatorSpec] = []
    for op in graph.operators:
        axes = _axes(graph, op) if op.builtin == "CONV_2D" else None
        parts = None if axes is None else _find_parts(graph, op, axes)
        result += [op] if parts is None else _Sum(graph, op).build(*parts)
        count += parts is not None
    if count:
        graph.reorder(result)
    return count


def _find_parts(graph: GraphRewriter, op: fb.OperatorSpec, axes: Sequence[_Axis]) -> Optional[List[List[_Part]]]:
    """Return [parts of the rows, parts of the columns] of a convolution to split.

    The first part of each axis has a result for every position. Returns None if a condition of the second rewrite in
    the docstring of this module does not hold.
    """
    if all(axis.dilation == 1 or axis.taps == 1 for axis in axes):
        return None
    filters, _, _, channels = np.shape(graph.constant(op.inputs[1]))
    if channels != graph.sizes(op.inputs[0] or 0)[-1] or any(axis.stride != 1 for axis in axes):
        return None
    parts = [_parts_of_axis(axis) for axis in axes]
    if not all(along and len(along[0].results) == axis.size for axis, along in zip(axes, parts)):
        return None
    pixels = axes[0].size * axes[1].size
    live = np.prod([sum(len(part.results) * (part.taps.stop - part.taps.start) for part in along) for along in parts])
    every = axes[0].taps * axes[1].taps * pixels
    if live > _MOST_LIVE * every:
        return None
    added = 3 * filters * pixels * (len(parts[0]) * len(parts[1]) - 1) + channels * live
    pays = (every - live) * channels * filters >= _LEAST_SAVED * added
    return parts if pays and np.isfinite(graph.constant(op.inputs[1])).all() else None


def _parts_of_axis(axis: _Axis) -> List[_Part]:
    """Return a part for each tap that reads the image, the part with the most results first.

    For an axis without dilation or with one tap, returns a single part with all taps.
    """
    parts = []
    for tap in range(axis.taps):
        results = axis.positions(tap)
        if results:
            shift = tap * axis.dilation - axis.low
            sources = range(results[0] + shift, results[-1] + 1 + shift)
            parts.append(_Part(slice(tap, tap + 1), 1, sources, results))
    if axis.dilation == 1 or axis.taps == 1:
        return [_Part(slice(0, axis.taps), axis.dilation, range(axis.size), range(axis.size))]
    return sorted(parts, key=lambda part: -len(part.results))


class _Sum:
    """Builder of the operators that replace the convolution `op`.

    Tensors are appended to the subgraph. The operators are not inserted: `build` returns them.
    """

    def __init__(self, graph: GraphRewriter, op: fb.OperatorSpec) -> None:
        self._graph = graph
        self._op = op
        self._name = graph.tensor(op.outputs[0]).name
        self._built: List[fb.OperatorSpec] = []

    def build(self, rows: Sequence[_Part], columns: Sequence[_Part]) -> List[fb.OperatorSpec]:
        """Return the operators, in the order of execution. The last writes the result of the convolution."""
        image, filter_, bias = self._op.inputs
        weights = np.asarray(self._graph.constant(filter_))
        zeros = self._graph.add_constant(self._name + "/zeros", np.zeros(len(weights), np.float32))
        height, width = len(rows[0].results), len(columns[0].results)
        total: Optional[int] = None
        for row in rows:
            band = self._slice(image or 0, 1, row.sources)
            sum_of_row: Optional[int] = None
            for column in columns:
                source = self._slice(band, 2, column.sources)
                taps = np.ascontiguousarray(weights[:, row.taps, column.taps])
                is_first = row is rows[0] and column is columns[0]
                part = self._convolve(source, taps, (bias or 0) if is_first else zeros, row, column)
                sum_of_row = self._add(sum_of_row, self._pad(part, 2, column.results, width))
            total = self._add(total, self._pad(sum_of_row or 0, 1, row.results, height))
        last = self._built[-1]
        activation = self._op.options.get("fused_activation_function", "NONE")
        options = dict(last.options, fused_activation_function=activation)
        return [*self._built[:-1], fb.OperatorSpec(last.builtin, last.inputs, list(self._op.outputs), options)]

    def _append(self, builtin: str, inputs: Sequence[int], sizes: Sequence[int], **options: object) -> int:
        result = self._graph.add_tensor("%s/part%d" % (self._name, len(self._built)), "float32", sizes)
        self._built.append(fb.OperatorSpec(builtin, list(inputs), [result], options))
        return result

    def _convolve(self, source: int, taps: np.ndarray, bias: int, row: _Part, column: _Part) -> int:
        kernel = self._graph.add_constant("%s/taps%d" % (self._name, len(self._built)), taps)
        dilations = {"dilation_h_factor": row.dilation, "dilation_w_factor": column.dilation}
        options = dict(self._op.options, fused_activation_function="NONE", **dilations)
        sizes = (*self._graph.sizes(source)[:3], len(taps))
        return self._append("CONV_2D", [source, kernel, bias], sizes, **options)

    def _slice(self, source: int, axis: int, elements: range) -> int:
        """Append a SLICE that keeps the positions `elements` of an axis, and return its result.

        If `elements` are all positions of the axis, returns the tensor `source` itself.
        """
        sizes = list(self._graph.sizes(source))
        if len(elements) == sizes[axis]:
            return source
        starts, sizes[axis] = [0, 0, 0, 0], len(elements)
        starts[axis] = elements[0]
        bounds = [self._constant("starts", starts), self._constant("sizes", sizes)]
        return self._append("SLICE", [source, *bounds], sizes)

    def _pad(self, source: int, axis: int, positions: range, size: int) -> int:
        """Append a PAD with zeros that puts the elements of a tensor at `positions` of an axis of `size` elements.

        Returns the result of the PAD. If the tensor already has `size` elements along the axis, returns the tensor
        itself.
        """
        if len(positions) == size:
            return source
        ends, sizes = [[0, 0] for _ in range(4)], list(self._graph.sizes(source))
        ends[axis], sizes[axis] = [positions[0], size - 1 - positions[-1]], size
        return self._append("PAD", [source, self._constant("ends", ends)], sizes)

    def _add(self, total: Optional[int], part: int) -> int:
        if total is None:
            return part
        return self._append("ADD", [total, part], self._graph.sizes(part), fused_activation_function="NONE")

    def _constant(self, subject: str, values: Sequence[object]) -> int:
        return self._graph.add_constant(
            "%s/%s%d" % (self._name, subject, len(self._built)), np.asarray(values, np.int32)
        )
