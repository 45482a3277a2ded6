"""Vectors of sizes: lengths of axes, elements of integer vectors, and vectors of scalars.

Elements that are picked from a vector and stacked again are the vector itself, and so is a vector that is reshaped and
reshaped back. A program that is written, read and written again would get more of these nodes each time.
"""

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.onnx_shim.graph_builder import Call, Value
from onnx_compat.onnx_shim.lowering.base import WRAPPING, Calls, Shape
from onnx_compat.shim.emission import Sizes

__all__ = ["VectorLowering"]


class VectorLowering(Calls):
    """Values that hold sizes, and reshapes."""

    def sizes_value(self, sizes: Sizes) -> Value:
        """Return sizes as an int64 vector: a constant if all of them are known."""
        known = sizes.known
        value: Value = sizes.tensor if known is None else self.vector(list(known))
        return value

    def dim(self, handle: Value, axis: int) -> Any:
        """Return the length of an axis: an int if it is known, else an int64 scalar `Value`."""
        size = handle.shape[axis]
        return int(size) if size is not None else self.pick(self.shape_value(handle), axis)

    def shape_value(self, handle: Value) -> Value:
        """Return the shape of a value as an int64 vector; a constant if it is known."""
        if None not in handle.shape:
            return self.vector(list(handle.shape))
        return self.result("Shape", [handle], dtypes.int64, (handle.rank,))

    # -- elements ------------------------------------------------------------------------------------------------------
    def pick(self, vector: Value, index: int) -> Value:
        """Return an element of a vector as a scalar: the scalar itself, if the vector was made of scalars.

        `index`: the position of the element, which is not negative.
        """
        if vector.array is not None:
            return self.builder.constant(np.asarray(vector.array[index]), vector.dtype)
        source = self.skip_reshapes(vector)
        if not source.rank:
            return source
        position = self._source_of_element(vector, index)
        if position is not None:
            return self.pick(*position)
        return self.result("Gather", [vector, self.vector(index)], vector.dtype, (), axis=0)

    def _source_of_element(self, vector: Value, index: int) -> Optional[Tuple[Value, int]]:
        """Return (vector, position) of an element that Concat or Slice took from another vector; None for other calls."""
        joined, sliced = (self.builder.producer_of(vector, operator) for operator in ("Concat", "Slice"))
        if sliced is not None:
            start = _first_position(sliced)
            return None if start is None or sliced.inputs[0] is None else (sliced.inputs[0], start + index)
        for part in joined.inputs if joined is not None else ():
            size = None if part is None else part.shape[0]
            if part is None or size is None:
                return None
            if index < size:
                return part, index
            index -= size
        return None

    def element(self, handle: Value, index: Optional[int]) -> Any:
        """Return an element of an integer vector, or a scalar itself if `index` is None.

        The result is an int if it is known, else an int64 scalar.
        """
        if handle.array is not None:
            return int(handle.array.reshape(-1)[index or 0])
        value = self.convert(handle, dtypes.int64)
        return value if index is None else self.pick(value, index)

    def stack(self, scalars: Sequence[Value]) -> Value:
        """Return int64 scalars as the elements of one vector: a constant if all of them are constants."""
        if all(scalar.array is not None for scalar in scalars):
            return self.vector([int(scalar.array.reshape(())) for scalar in scalars if scalar.array is not None])
        whole = self._whole_vector(scalars)
        if whole is not None:
            return whole
        vectors = [self.flat(scalar) for scalar in scalars]
        return vectors[0] if len(vectors) == 1 else self.join(vectors)

    def _whole_vector(self, scalars: Sequence[Value]) -> Optional[Value]:
        """Return the vector whose elements the scalars are, all of them and in order; None without such a vector."""
        picks = [self._match_pick(scalar) for scalar in scalars]
        vector = None if picks[0] is None else picks[0][0]
        if vector is None or vector.shape != (len(picks),):
            return None
        return vector if all(pick == (vector, index) for index, pick in enumerate(picks)) else None

    def _match_pick(self, scalar: Value) -> Optional[Tuple[Value, int]]:
        """Return (vector, position) of a scalar that Gather takes from a vector; None for another value."""
        call = self.builder.producer_of(scalar, "Gather") if not scalar.rank else None
        vector, index = (None, None) if call is None else call.inputs[:2]
        if vector is None or index is None or index.array is None or vector.rank != 1:
            return None
        return vector, int(index.array)

    # -- reshapes ------------------------------------------------------------------------------------------------------
    def flat(self, x: Value) -> Value:
        """Return the elements of a value as a vector."""
        return self.reshape_elements(x, [-1], (_count(x.shape),))

    def reshape_elements(self, x: Value, form: Sequence[int], shape: Shape) -> Value:
        """Return the elements of a value in another shape.

        - form: the sizes of the result, without 0. One of them may be -1, for the size that remains.
        - shape: the same sizes, with None for each size that is not known.
        """
        if x.array is not None:
            return self.builder.constant(x.array.reshape(form), x.dtype)
        source, sizes = self.skip_reshapes(x), self.vector(list(form if None in shape else shape))
        is_open_vector = source.rank == 1 and tuple(shape) == (None,)
        if is_open_vector or (None not in shape and source.shape == tuple(shape)):
            return source
        return self.call("Reshape", [source], [sizes], WRAPPING, shape=shape)

    def skip_reshapes(self, x: Value) -> Value:
        """Return the value whose elements Reshape gives another shape, through several calls; x itself without them.

        An element that Gather takes from a vector of one element is reshaped, too.
        """
        while True:
            call, picked = self.builder.producer_of(x, "Reshape"), self._match_pick(x)
            if call is not None and call.inputs[0] is not None:
                x = call.inputs[0]
            elif picked is not None and picked[0].shape == (1,):
                x = picked[0]
            else:
                return x

    def join(self, vectors: Sequence[Value]) -> Value:
        """Return vectors of one dtype as one vector."""
        sizes = [vector.shape[0] for vector in vectors]
        count = None if None in sizes else sum(size or 0 for size in sizes)
        return self.call("Concat", list(vectors), ladder=WRAPPING, shape=(count,), axis=0)


def _first_position(call: Call) -> Optional[int]:
    """Return the position of the first element that a Slice takes from a vector; None if it is not known.

    Only steps of 1 from a known position are followed: a negative position counts from the end.
    """
    bounds = [None if value is None or value.array is None else value.array.reshape(-1) for value in call.inputs[1:]]
    start, steps = (bounds[0] if bounds else None), (bounds[3] if len(bounds) > 3 else np.ones(1))
    if start is None or steps is None or start.size != 1 or start[0] < 0 or steps[0] != 1:
        return None
    return int(start[0])


def _count(shape: Shape) -> Optional[int]:
    """Return the number of elements; None if a size is not known."""
    return None if None in shape else int(np.prod(np.asarray(shape, np.int64)))
