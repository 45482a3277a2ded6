"""What the emitter of functional models is made of: symbolic tensors, layers with weights and names, constants."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import keras
import numpy as np

from onnx_compat import dtypes
from onnx_compat.dtypes import DType
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import Node, Spec
from onnx_compat.shim import Emitter
from onnx_compat_keras.features import back_end, has_type, keeps
from onnx_compat_keras.functional.names import Names

__all__ = ["Base", "Counted", "Known", "Length", "is_known", "policy"]

_LITERAL = 16  # elements: a constant up to this size may stand in the model's description; a larger one is a weight


@dataclass(frozen=True)
class Known:
    """A value that is known now. It is up to its user whether it becomes a weight of a layer or a number in a call."""

    array: np.ndarray
    dtype: DType

    @property
    def shape(self) -> Any:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim


@dataclass(frozen=True)
class Length:
    """The length of an axis that is only known when the model runs."""

    handle: Any
    axis: int


@dataclass(frozen=True)
class Counted:
    """A tensor of lengths and numbers, of an integer type."""

    sizes: Tuple[Any, ...]
    shape: Tuple[int, ...]
    dtype: DType


Handle = Union[Known, Length, Counted, Any]


def is_known(*handles: Any) -> bool:
    return all(isinstance(handle, Known) for handle in handles)


class Operations:
    """keras.ops, whose results are named after the ONNX node that they are made for."""

    def __init__(self, emitter: "Base") -> None:
        self._emitter = emitter

    def __getattr__(self, name: str) -> Any:
        function = getattr(keras.ops, name, None)
        if function is None:
            raise UnsupportedError("this Keras has no ops.%s" % name)

        def recorded(*args: Any, **kwargs: Any) -> Any:
            self._emitter.check(name)
            result = function(*args, **kwargs)
            for one in result if isinstance(result, (tuple, list)) else [result]:
                self._emitter.name(one)
            return result

        return recorded


class Base(Emitter):
    """Symbolic tensors as handles. Where the model cannot be stock Keras and exact, a primitive is refused."""

    layout = "channels_last"
    filter_layout = "HWIO"
    index_dtype = dtypes.int64

    def __init__(self, names: Names) -> None:
        self.ops = Operations(self)
        self.names = names
        self.back_end = back_end()
        self.source: Any = None  # an input: what a constant hangs on, since every tensor comes from one
        self.computed: Optional[DType] = None  # the type of what is made, where it is not that of the result
        self._zero: Any = None
        self._held: Dict[int, Any] = {}
        self._ones: Dict[Any, Any] = {}

    # -- exactness -------------------------------------------------------------------------------------------------
    def check(self, name: str) -> None:
        """Refuse an operation that Keras would silently compute in fewer bits on this back end."""
        for dtype in self.types():
            if not dtype.native:
                raise UnsupportedError("a Keras model has no %s" % dtype.name)
            if not has_type(dtype.name):
                raise UnsupportedError("Keras on %s has no %s" % (self.back_end, dtype.name))
            if dtype.bits >= 64 and self.back_end != "tensorflow":
                if dtype.kind in "fc" or not keeps(name, dtype.name):
                    raise UnsupportedError(
                        "ops.%s of Keras computes %s in 32 bits on %s" % (name, dtype.name, self.back_end),
                        hint="use the TensorFlow back end for this model",
                    )

    def types(self) -> List[DType]:
        """The types that the node under way deals with."""
        specs = [arg.spec for arg in self.node.args if hasattr(arg, "spec")]
        return [spec.dtype for spec in specs + [output.spec for output in self.node.outputs]]

    # -- names and layers --------------------------------------------------------------------------------------------
    def name(self, result: Any) -> Any:
        """Name the operation that a symbolic tensor comes from after the node under way."""
        history = getattr(result, "_keras_history", None)
        if history is not None and id(history.operation) not in self.names.given:
            history.operation.name = self.names.fresh(self._origin())
            self.names.given[id(history.operation)] = history.operation
        return result

    def _origin(self) -> str:
        node: Optional[Node] = getattr(self, "node", None)
        return node.origin.node if node is not None and node.origin is not None else "values"

    def layer(
        self, kind: str, *inputs: Any, weights: Optional[Sequence[np.ndarray]] = None, call: Any = None, **config: Any
    ) -> Any:
        """The result of a new layer, whose weights are set when it is built."""
        self.check(kind)
        dtype = self.computed or self.node.outputs[0].spec.dtype
        made = getattr(keras.layers, kind)(name=self.names.fresh(self._origin()), dtype=policy(dtype), **config)
        self.names.given[id(made)] = made
        result = made(*inputs, **(call or {}))
        if weights is not None:
            made.set_weights(list(weights))
        return result

    # -- constants ---------------------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Known:
        return Known(array, dtype)

    def tensor(self, handle: Handle) -> Any:
        """A symbolic tensor of whatever a handle is."""
        if isinstance(handle, Known):
            return self.held(handle)
        if isinstance(handle, Counted):
            return self._of_sizes(handle)
        return self.counted(handle) if isinstance(handle, Length) else handle

    def operand(self, handle: Handle) -> Any:
        """What an operation can be called with: a small constant as a literal, beside at least one symbolic tensor."""
        if isinstance(handle, Known) and handle.array.size <= _LITERAL:
            return handle.array.item() if handle.array.ndim == 0 else np.ascontiguousarray(handle.array)
        return self.tensor(handle)

    def operands(self, *handles: Handle) -> List[Any]:
        """The same for several, of which one becomes symbolic if none is."""
        if is_known(*handles):
            return [self.tensor(handles[0])] + [self.operand(handle) for handle in handles[1:]]
        return [self.operand(handle) for handle in handles]

    def held(self, known: Known) -> Any:
        """A constant as the only row of an embedding: the one stock layer that holds any array and gives it exactly."""
        if id(known.array) not in self._held:
            array, dtype = known.array, known.dtype
            if dtype.kind in "iub" and dtype.bits < 32:  # too narrow for a weight
                value = keras.ops.cast(self._row(array.astype(np.int32), dtypes.int32), dtype.name)
            else:
                value = self._row(array, dtype)
            self._held[id(known.array)] = (self.name(value), known.array)
        return self._held[id(known.array)][0]

    def _row(self, array: np.ndarray, dtype: DType) -> Any:
        flat = np.ascontiguousarray(array).reshape(1, -1)
        if flat.size == 0:
            raise UnsupportedError("a Keras layer holds no empty constant")
        made = keras.layers.Embedding(
            1, flat.size, name=self.names.fresh(self._origin()), dtype=dtype.name, embeddings_initializer="zeros"
        )
        self.names.given[id(made)] = made
        row = made(self.zero())
        made.set_weights([flat])
        return self.name(keras.ops.reshape(row, array.shape))

    def zero(self) -> Any:
        """An index [0] that depends on an input, so that it belongs to the graph; of as little of it as can be."""
        if self._zero is None:
            if self.source is None:
                raise UnsupportedError("a functional Keras model needs an input")
            corner = self.source
            if len(corner.shape):
                corner = self.name(keras.ops.get_item(corner, tuple(slice(0, 1) for _ in corner.shape)))
            none = self.name(keras.ops.zeros_like(corner, dtype="int32"))
            self._zero = self.name(keras.ops.reshape(self.name(keras.ops.sum(none)), (1,)))
        return self._zero

    # -- sizes ---------------------------------------------------------------------------------------------------------
    def dim(self, handle: Any, axis: int) -> Any:
        size = handle.shape[axis]
        return Length(handle, axis) if size is None else int(size)

    def ones(self, length: Length) -> Any:
        """As many int64 ones as an axis is long."""
        key = (id(length.handle), length.axis)
        if key not in self._ones:
            others = [axis for axis in range(len(length.handle.shape)) if axis != length.axis]
            none = self.name(keras.ops.zeros_like(length.handle, dtype="int32"))
            if others:
                none = self.name(keras.ops.sum(none, axis=others))
            wide = self.name(keras.ops.cast(none, "int64"))
            self._ones[key] = (self.name(keras.ops.add(wide, 1)), length.handle)
        return self._ones[key][0]

    def counted(self, length: Length) -> Any:
        """A length as a scalar tensor."""
        return self.name(keras.ops.cast(self.name(keras.ops.sum(self.ones(length))), "int64"))

    def places(self, length: Any) -> Any:
        """0, 1, … as far as a size goes."""
        if isinstance(length, Length):
            counted = self.name(keras.ops.cumsum(self.name(keras.ops.cast(self.ones(length), "int32"))))
            return self.name(keras.ops.subtract(counted, 1))
        if isinstance(length, (int, np.integer)):
            return self.held(Known(np.arange(int(length), dtype=np.int32), dtypes.int32))
        raise UnsupportedError("a computed size is no axis of a functional Keras model")

    def element(self, handle: Any, index: Optional[int]) -> Any:
        if isinstance(handle, Counted):
            return handle.sizes[index or 0]
        return self.tensor(handle) if index is None else self.name(keras.ops.get_item(handle, (index,)))

    def stack(self, scalars: Sequence[Any]) -> Any:
        return Counted(tuple(scalars), (len(scalars),), self.index_dtype)

    def _of_sizes(self, counted: Counted) -> Any:
        parts = [self.tensor(size) for size in counted.sizes]
        whole = parts[0] if not counted.shape else self.name(keras.ops.stack(parts))
        whole = whole if len(counted.shape) < 2 else self.name(keras.ops.reshape(whole, counted.shape))
        return whole if counted.dtype.name == "int64" else self.name(keras.ops.cast(whole, counted.dtype.name))

    def placeholder(self, spec: Spec) -> Any:
        sizes = [int(size) if isinstance(size, (int, np.integer)) else None for size in spec.shape]
        return keras.Input(batch_shape=sizes, dtype=spec.dtype.name)


def policy(dtype: DType) -> str:
    """What a layer casts floats to, which are all that it casts: the type itself, so that nothing is cast."""
    return dtype.name if dtype.kind == "f" else "float32"
