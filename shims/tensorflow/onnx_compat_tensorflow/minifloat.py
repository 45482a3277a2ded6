"""Back to the values of a type that TensorFlow computes in a wider one, as `DType.round` does it in numpy."""

from typing import Any

import numpy as np

from onnx_compat.dtypes import DType
from onnx_compat.minifloat import Format

__all__ = ["rounded"]


def rounded(emitter: Any, x: Any, dtype: DType) -> Any:
    """The numbers of a carrier tensor as values that the carried type has."""
    if dtype.format is None:
        return _wrapped(emitter, x, dtype)
    if dtype.name == "bfloat16":
        return _bfloat16(emitter, x)
    return _nearest(emitter, x, dtype.format)


def _wrapped(emitter: Any, x: Any, dtype: DType) -> Any:
    """The low bits of an integer, with their sign."""
    raw = emitter.raw
    mask = emitter.number((1 << dtype.bits) - 1, x.dtype)
    low = raw.BitwiseAnd(x=x, y=mask)
    if dtype.kind == "u":
        return low
    sign = emitter.number(1 << (dtype.bits - 1), x.dtype)
    return emitter.op("Sub", raw.BitwiseXor(x=low, y=sign), sign)


def _bfloat16(emitter: Any, x: Any) -> Any:
    """The upper half of a float32, rounded half to even."""
    raw, tf = emitter.raw, emitter.tf
    bits = raw.Bitcast(input=x, type=tf.int32)
    odd = raw.BitwiseAnd(x=raw.RightShift(x=bits, y=emitter.number(16, tf.int32)), y=emitter.number(1, tf.int32))
    up = raw.AddV2(x=bits, y=raw.AddV2(x=odd, y=emitter.number(0x7FFF, tf.int32)))
    upper = raw.Bitcast(input=raw.BitwiseAnd(x=up, y=emitter.number(-0x10000, tf.int32)), type=tf.float32)
    return raw.SelectV2(condition=raw.IsNan(x=x), t=x, e=upper)


def _nearest(emitter: Any, x: Any, form: Format) -> Any:
    """A search among the points where the answer changes."""
    raw, tf = emitter.raw, emitter.tf
    magnitudes = form.magnitude(np.arange(form.top + 2))
    steps = magnitudes[:-1] + np.diff(magnitudes) / 2
    if form.special != "scale":
        steps[::2] = np.nextafter(steps[::2], np.inf)  # a tie above an even code stays there
    too_large, missing = form.round(np.array([np.inf, np.nan], np.float32))
    values = np.append(magnitudes[:-1], too_large).astype(np.float32)
    size = raw.Cast(x=raw.Abs(x=x), DstT=tf.float64)
    flat = raw.Reshape(tensor=size, shape=[1, -1])
    code = raw.UpperBound(sorted_inputs=tf.constant(steps[None]), values=flat)
    code = raw.Reshape(tensor=code, shape=emitter.sizes(x, tf.int32))
    found = raw.GatherV2(params=tf.constant(values), indices=code, axis=0)
    negative = raw.Less(x=raw.Bitcast(input=x, type=tf.int32), y=emitter.number(0, tf.int32))
    if not form.signed:
        unfit = raw.Less(x=x, y=emitter.number(0, tf.float32))
        found = raw.SelectV2(condition=unfit, t=emitter.number(missing, tf.float32), e=found)
    else:
        zero = emitter.number(0, tf.float32)
        opposite = raw.Sub(x=zero, y=found) if form.special == "fnuz" else emitter.neg(found)
        found = raw.SelectV2(condition=negative, t=opposite, e=found)
    return raw.SelectV2(condition=raw.IsNan(x=x), t=emitter.number(missing, tf.float32), e=found)
