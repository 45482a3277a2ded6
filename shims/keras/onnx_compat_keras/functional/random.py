"""Emitter methods for random numbers: `switch(0, [keras.random.uniform], sizes, 0, 1, dtype, seed)`.

Keras draws random numbers outside of models only. `switch` takes functions as arguments of its call, and so does the file. A
symbolic number, here the lower bound or the mean, makes the draw an operation of the model.
"""

from typing import Any, Optional

import keras
import numpy as np

from onnx_compat.shim import DType, Sizes, UnsupportedError
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Known, storage
from onnx_compat_keras.functional.saved_function import SavedFunction
from onnx_compat_keras.functional.shape import Shape, known_sizes
from onnx_compat_keras.functional.sizes import Counted

__all__ = ["Random"]

#: The digits of a float below 1 in each dtype: a uniform number is rounded down to them, and never up to 1.
_DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}


class Random(Shape):
    """Emitter methods for the primitives of `onnx_compat.primitives.random`.

    Without a seed, the file holds a `keras.random.SeedGenerator`: each call of a loaded model draws other numbers.
    """

    def random_uniform(self, shape: Sizes, dtype: DType, seed: Optional[float] = None) -> Handle:
        drawn, steps = self._draw("uniform", shape, dtype, seed), 2.0 ** _DIGITS[dtype.name]
        if isinstance(drawn, Known):
            return Known((np.floor(drawn.array * steps) / steps).astype(dtype.numpy), dtype)
        return self.ops.cast(
            self.ops.multiply(self.ops.floor(self.ops.multiply(drawn, steps)), 1 / steps), storage(dtype)
        )

    def random_normal(self, shape: Sizes, dtype: DType, seed: Optional[float] = None) -> Handle:
        drawn = self._draw("normal", shape, dtype, seed)
        if isinstance(drawn, Known):
            return Known(drawn.array.astype(dtype.numpy), dtype)
        return self.ops.cast(drawn, storage(dtype))

    def _draw(self, name: str, shape: Sizes, dtype: DType, seed: Optional[float]) -> Handle:
        """Return `keras.random.<name>` of a shape, drawn in float64 or float32.

        `name`: "uniform" or "normal". On JAX, the result is a constant (`Known`), whose array is not yet cast to
        `dtype`.

        Raises UnsupportedError on JAX without a seed, because functions of JAX keep no state. Raises it on JAX and
        torch for sizes that are known only at run time.
        """
        self.check_dtypes()
        sizes, drawn_in = known_sizes(shape), "float64" if dtype.name == "float64" else "float32"
        if self.back_end == "jax":
            if seed is None or sizes is None:
                raise UnsupportedError("a Keras model on JAX draws numbers of a seed and a known shape only")
            drawn = getattr(keras.random, name)(sizes, dtype=drawn_in, seed=_integer(seed))
            return Known(keras.ops.convert_to_numpy(drawn), dtype)
        if sizes is None and self.back_end == "torch":
            raise UnsupportedError("Keras on torch draws no random numbers of a shape that only the run tells")
        wanted: Any = sizes
        if sizes is None:
            scalars = tuple(shape.scalars)
            wanted = self.tensor(Counted(scalars, (len(scalars),), self.index_dtype))
        bounds = self.unchecked_ops.cast(self.unchecked_ops.reshape(self.zero(), ()), drawn_in), 1.0
        source: Any = keras.random.SeedGenerator() if seed is None else _integer(seed)
        function = SavedFunction.of(name, "random")
        return self.unchecked_ops.switch(0, [function], wanted, *bounds, drawn_in, source)


def _integer(seed: float) -> int:
    """Return an integer from 0 to 2**31 - 2 for the float seed of ONNX, computed from all bits of the float."""
    high, low = divmod(int(np.asarray(seed, np.float64).view(np.uint64)), 2**32)
    return (high ^ low) % (2**31 - 1)
