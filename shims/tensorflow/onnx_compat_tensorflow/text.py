"""Emitter methods for the string primitives, on TensorFlow tensors, which store strings as UTF-8 bytes."""

from typing import Optional, Tuple

from onnx_compat.shim import DType, UnsupportedError
from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.framework_types import TfTensor
from onnx_compat_tensorflow.tensors import tf_dtype

__all__ = ["Text"]


class Text(Base):
    """Emitter methods for the primitives of `onnx_compat.primitives.text`.

    `string_rank` is missing, so it runs in the fallback: TensorFlow cannot compare strings by order.
    """

    def string_lower(self, x: TfTensor) -> TfTensor:
        return self.raw.StringLower(input=x, encoding="utf-8")

    def string_upper(self, x: TfTensor) -> TfTensor:
        return self.raw.StringUpper(input=x, encoding="utf-8")

    def string_concat(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self.raw.Add(x=x, y=y)

    def string_match(self, x: TfTensor, pattern: str) -> TfTensor:
        return self.raw.StaticRegexFullMatch(input=x, pattern=pattern)

    def string_split(self, x: TfTensor, delimiter: Optional[str], limit: Optional[int]) -> Tuple[TfTensor, TfTensor]:
        raw, tf = self.raw, self.tf
        flat = raw.Reshape(tensor=x, shape=self.vector([-1]))
        most = -1 if limit is None else limit
        pieces = raw.StringSplitV2(input=flat, sep=tf.constant((delimiter or "").encode("utf-8")), maxsplit=most)
        positions, values = pieces.indices, pieces.values
        if not delimiter:
            # With a limit, the rest after the last split keeps its trailing white space, or is empty: strip and drop it.
            values = raw.StringStrip(input=values)
            kept = raw.Reshape(tensor=raw.Where(condition=raw.NotEqual(x=values, y=tf.constant(b""))), shape=[-1])
            positions, values = [raw.GatherV2(params=params, indices=kept, axis=0) for params in (positions, values)]
        rows, count = positions[:, 0], pieces.shape[0]
        counts = raw.UnsortedSegmentSum(data=tf.ones_like(rows), segment_ids=rows, num_segments=count)
        longest = raw.Maximum(x=raw.Max(input=counts, axis=[0]), y=self.number(0, tf.int64))
        table = raw.SparseToDense(
            sparse_indices=positions,
            output_shape=self.vector([count, longest]),
            sparse_values=values,
            default_value=tf.constant(b""),
        )
        lengths = self.lengths(x)
        substrings = raw.Reshape(tensor=table, shape=self.vector([*lengths, longest]))
        return substrings, raw.Reshape(tensor=counts, shape=self.vector(lengths))

    def to_text(self, x: TfTensor, dtype: DType) -> TfTensor:
        if x.dtype.is_bool:
            return self.raw.SelectV2(condition=x, t=self.tf.constant(b"True"), e=self.tf.constant(b"False"))
        if not x.dtype.is_integer:
            raise UnsupportedError("TensorFlow does not format a float with the fewest digits that identify it")
        if x.dtype == self.tf.uint64:
            raise UnsupportedError("TensorFlow formats no integers beyond the range of int64")
        return self.raw.AsString(input=self.raw.Cast(x=x, DstT=self.tf.int64))

    def from_text(self, x: TfTensor, dtype: DType) -> TfTensor:
        raw, tf = self.raw, self.tf
        target = tf_dtype(tf, dtype)
        if dtype.kind == "f":
            return raw.Cast(x=raw.StringToNumber(string_tensor=x, out_type=tf.float64), DstT=target)
        if dtype.name == "uint64":
            raise UnsupportedError("TensorFlow parses no integers beyond the range of int64")
        whole = raw.StaticRegexFullMatch(input=x, pattern=r"\s*[+-]?[0-9]+\s*")
        zero = tf.constant(b"0")
        exact = raw.StringToNumber(string_tensor=raw.SelectV2(condition=whole, t=x, e=zero), out_type=tf.int64)
        number = raw.StringToNumber(string_tensor=raw.SelectV2(condition=whole, t=zero, e=x), out_type=tf.float64)
        integers = raw.SelectV2(condition=whole, t=exact, e=raw.Cast(x=number, DstT=tf.int64))
        return raw.Cast(x=integers, DstT=target)
