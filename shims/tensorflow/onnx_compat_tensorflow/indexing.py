"""Emitter methods for the gather, scatter and sort primitives, on TensorFlow tensors."""

from typing import Tuple

from onnx_compat.shim import Sizes
from onnx_compat_tensorflow.elementwise import Elementwise
from onnx_compat_tensorflow.framework_types import Size, TfDType, TfTensor

__all__ = ["Indexing"]

_SCATTERS = {
    "none": "TensorScatterUpdate",
    "add": "TensorScatterAdd",
    "max": "TensorScatterMax",
    "min": "TensorScatterMin",
}
_SEGMENTS = {"mul": "UnsortedSegmentProd", "max": "UnsortedSegmentMax", "min": "UnsortedSegmentMin"}
#: The ops that `IsElementWiseMonotonic` of TensorFlow's graph optimizer lists.
_MONOTONIC = frozenset(
    "Acos Acosh Asin Asinh Atan Atanh Ceil Elu Erf Erfc Exp Expm1 Floor Log Log1p Neg Relu Relu6 Rint Rsqrt Selu "
    "Sigmoid Sign Sinh Softplus Softsign Sqrt Tanh".split()
)


class Indexing(Elementwise):
    """Emitter methods for the primitives of `onnx_compat.primitives.indexing`."""

    def take(self, x: TfTensor, indices: TfTensor, axis: int) -> TfTensor:
        return self.raw.GatherV2(params=x, indices=indices, axis=axis)

    def take_along(self, x: TfTensor, indices: TfTensor, axis: int) -> TfTensor:
        """Gather elements along an axis: result[i, j] = x[i, indices[i, j]] for axis 1.

        The result has the shape of `indices`, which has the rank of x. No index may be negative. On the other axes,
        `indices` may be shorter than x.
        """
        raw, rank = self.raw, self.rank(x)
        strides = self._strides(self.sizes(x))
        positions = raw.Mul(x=raw.Cast(x=indices, DstT=self.tf.int64), y=strides[axis])
        for free_axis in range(rank):
            if free_axis != axis and self.shape_list(indices)[free_axis] != 1:
                steps = raw.Mul(x=self._iota(self.dim(indices, free_axis)), y=strides[free_axis])
                offsets = raw.Reshape(tensor=steps, shape=[-1] + [1] * (rank - 1 - free_axis))
                positions = raw.AddV2(x=positions, y=offsets)
        return raw.GatherV2(params=raw.Reshape(tensor=x, shape=[-1]), indices=positions, axis=0)

    def _strides(self, lengths: TfTensor) -> TfTensor:
        """Return the row-major strides, in elements, of a tensor with these sizes: [2, 3, 4] => [12, 4, 1]."""
        return self.raw.Cumprod(x=lengths, axis=0, exclusive=True, reverse=True)

    def _iota(self, length: Size) -> TfTensor:
        return self.tf.range(self.vector([length])[0])

    def gather_nd(self, x: TfTensor, indices: TfTensor, batch_dims: int) -> TfTensor:
        if batch_dims == 0:
            return self._gather_slices(x, indices)
        raw = self.raw
        lead = self.lengths(indices)[:-1]
        coordinates = [raw.Cast(x=indices, DstT=self.tf.int64)]
        for axis in reversed(range(batch_dims)):
            positions = raw.Reshape(tensor=self._iota(lead[axis]), shape=[-1] + [1] * (len(lead) - axis))
            coordinates.insert(0, raw.BroadcastTo(input=positions, shape=self.vector([*lead, 1])))
        return self._gather_slices(x, raw.ConcatV2(values=coordinates, axis=-1))

    def _gather_slices(self, x: TfTensor, indices: TfTensor) -> TfTensor:
        """Return the slices of x at `indices`, as GatherNd does, also if a slice has no elements.

        GatherNd refuses an x without elements. If slices may be empty, the indexed axes of x are joined to one axis,
        and a gather takes the slices along it. Their positions come from GatherNd of a table of all positions, which
        refuses an index out of range.
        """
        raw, depth = self.raw, self.shape_list(indices)[-1]
        if not depth or all(self.shape_list(x)[depth:]):  # all sizes are known, and none is 0
            return self.op("GatherNd", x, indices=indices)
        lengths = self.lengths(x)
        count = raw.Prod(input=self.vector(lengths[:depth]), axis=[0])
        table = raw.Reshape(tensor=self._iota(count), shape=self.vector(lengths[:depth]))
        joined = raw.Reshape(tensor=x, shape=self.vector([count, *lengths[depth:]]))
        return raw.GatherV2(params=joined, indices=raw.GatherNd(params=table, indices=indices), axis=0)

    # -- scattering ----------------------------------------------------------------------------------------------------
    def scatter_nd(self, x: TfTensor, indices: TfTensor, updates: TfTensor, reduction: str) -> TfTensor:
        if x.dtype.is_bool and reduction != "none":
            return self._scatter_bools(x, indices, updates, reduction)
        op = _SCATTERS.get(reduction)
        if op is not None and reduction not in _SEGMENTS:  # without a kernel, `op` raises UnsupportedError
            return self.op(op, x, updates, indices=indices)
        if op is not None and x.dtype.is_integer and self.features.can_run(op, x.dtype.base_dtype.name, 2):
            return self.op(op, x, updates, indices=indices)
        return self._combine_updates(x, indices, updates, reduction)

    def _scatter_bools(self, x: TfTensor, indices: TfTensor, updates: TfTensor, reduction: str) -> TfTensor:
        narrow = self.tf.int32
        both = [self.raw.Cast(x=tensor, DstT=narrow) for tensor in (x, updates)]
        name = {"add": "max", "mul": "min"}.get(reduction, reduction)
        return self.raw.Cast(x=self.scatter_nd(both[0], indices, both[1], name), DstT=x.dtype)

    def _combine_updates(self, x: TfTensor, indices: TfTensor, updates: TfTensor, reduction: str) -> TfTensor:
        """Return x with `updates` combined into its slices at `indices`, as scatter_nd with "mul", "max" or "min" does.

        A segment reduction combines the updates of each slice of x, and the result is then combined with the slice. A
        slice without updates is unchanged. A NaN in an update is kept.
        """
        raw, tf = self.raw, self.tf
        depth = self.shape_list(indices)[-1] or 0
        lengths = self.lengths(x)
        rows = raw.Prod(input=self.vector(lengths[:depth]), axis=[0])
        inner = raw.Prod(input=self.vector(lengths[depth:]), axis=[0])
        strides = self._strides(self.vector(lengths[:depth]))
        positions = raw.Sum(input=raw.Mul(x=raw.Cast(x=indices, DstT=tf.int64), y=strides), axis=[-1])
        positions = raw.Reshape(tensor=positions, shape=[-1])
        table = raw.Reshape(tensor=x, shape=self.vector([rows, inner]))
        count = raw.Prod(input=raw.Shape(input=positions, out_type=tf.int64), axis=[0])
        changes = raw.Reshape(tensor=updates, shape=self.vector([count, inner]))
        combined = self.op(_SEGMENTS[reduction], changes, segment_ids=positions, num_segments=rows)
        combine = {"mul": lambda a, b: self.op("Mul", a, b), "max": self.maximum, "min": self.minimum}[reduction]
        hits = raw.UnsortedSegmentSum(data=tf.ones_like(positions), segment_ids=positions, num_segments=rows)
        touched = raw.Reshape(tensor=raw.Greater(x=hits, y=self.number(0, tf.int64)), shape=[-1, 1])
        result = self.where(touched, combine(table, combined), table)
        if x.dtype.is_floating and reduction != "mul":
            result = self._with_nan(result, changes, positions, rows, x.dtype)
        return raw.Reshape(tensor=result, shape=self.sizes(x))

    def _with_nan(
        self, result: TfTensor, changes: TfTensor, positions: TfTensor, rows: TfTensor, dtype: TfDType
    ) -> TfTensor:
        """Return `result` with NaN in each element that has NaN among its updates.

        The method is needed because UnsortedSegmentMax and UnsortedSegmentMin lose NaN.

        result: a tensor [rows, width].
        changes: the updates, [count, width].
        positions: the row of each update, [count].
        rows: the number of rows, as a scalar tensor.
        dtype: the dtype of `result`.
        """
        missing = self.raw.Cast(x=self.op("IsNan", changes), DstT=self.tf.int32)
        any_missing = self.raw.UnsortedSegmentSum(data=missing, segment_ids=positions, num_segments=rows)
        hit = self.raw.Greater(x=any_missing, y=self.number(0, self.tf.int32))
        return self.where(hit, self.number(float("nan"), dtype), result)

    # -- ordering ------------------------------------------------------------------------------------------------------
    def nonzero(self, x: TfTensor) -> TfTensor:
        raw, tf = self.raw, self.tf
        hit = x if x.dtype.is_bool else self.op("NotEqual", x, self.number(0, x.dtype))
        if self.rank(x) == 0:
            return raw.Fill(dims=self.vector([0, raw.Cast(x=hit, DstT=tf.int64)]), value=self.number(0, tf.int64))
        return raw.Transpose(x=raw.Where(condition=hit), perm=[1, 0])

    def top_k(self, x: TfTensor, k: Sizes, axis: int, largest: bool) -> Tuple[TfTensor, TfTensor]:
        (count,) = k.scalars
        rank = self.rank(x)
        swap = [*range(axis), rank - 1, *range(axis + 1, rank - 1), axis] if axis != rank - 1 else None
        keys = x if largest else self._reverse_order(x)
        keys = keys if swap is None else self.op("Transpose", keys, perm=self.vector(swap, self.tf.int32))
        top = self.op("TopKV2", keys, k=self.raw.Cast(x=self.vector([count])[0], DstT=self.tf.int32))
        values, indices = top[0], self.raw.Cast(x=top[1], DstT=self.tf.int64)
        values = values if largest else self._reverse_order(values)
        if swap is not None:
            values = self.op("Transpose", values, perm=self.vector(swap, self.tf.int32))
            indices = self.op("Transpose", indices, perm=self.vector(swap, self.tf.int32))
        return values, indices

    def _reverse_order(self, x: TfTensor) -> TfTensor:
        """Return -x, or ~x for integers: a strictly decreasing map, which is its own inverse."""
        return self.op("Invert" if x.dtype.is_integer else "Neg", x)

    def argmax(self, x: TfTensor, axis: int) -> TfTensor:
        return self._index_of_extreme("ArgMax", x, axis)

    def argmin(self, x: TfTensor, axis: int) -> TfTensor:
        return self._index_of_extreme("ArgMin", x, axis)

    def _index_of_extreme(self, op: str, x: TfTensor, axis: int) -> TfTensor:
        """Return the index of the first extreme element along an axis, by the op ArgMax or ArgMin.

        TensorFlow's graph optimizer rewrites ArgMin(Relu(x)) to ArgMin(x), and likewise for other monotonic functions.
        Elements that the function makes equal then differ. An EnsureShape in between prevents the rewrite.
        """
        if getattr(getattr(x, "op", None), "type", "") in _MONOTONIC:
            x = self.raw.EnsureShape(input=x, shape=x.shape)
        sizes = self.shape_list(x)
        if not sizes[axis] and not all(size for k, size in enumerate(sizes) if k != axis):
            x = self._without_empty_axis(x, axis)
        return self.op(op, x, dimension=axis, output_type=self.tf.int64)

    def _without_empty_axis(self, x: TfTensor, axis: int) -> TfTensor:
        """Reshape an empty x to size 1 along an axis, if this axis and another axis are empty. Else return x unchanged.

        ArgMax refuses an empty axis, also where the result is empty.
        """
        raw, lengths = self.raw, self.lengths(x)
        other_count = raw.Prod(input=self.vector([size for k, size in enumerate(lengths) if k != axis]), axis=[0])
        none = raw.Cast(x=raw.Equal(x=other_count, y=self.number(0, self.tf.int64)), DstT=self.tf.int64)
        lengths[axis] = raw.Maximum(x=self.vector([lengths[axis]])[0], y=none)
        return raw.Reshape(tensor=x, shape=self.vector(lengths))

    def cumsum(self, x: TfTensor, axis: int, exclusive: bool, reverse: bool) -> TfTensor:
        return self.op("Cumsum", x, axis=axis, exclusive=exclusive, reverse=reverse)
