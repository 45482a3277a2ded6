"""What the emitter of functional models is made of: symbolic tensors, layers with weights and names, constants."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Union

import keras
import numpy as np

from onnx_compat.shim import Const, DType, Emitter, Node, Ref, Spec, UnsupportedError, dtypes
from onnx_compat_keras.features import back_end, has_type, keeps
from onnx_compat_keras.functional.names import Names
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Base", "Known", "is_known", "policy"]

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


Handle = Union[Known, Any]


def is_known(*handles: Any) -> bool:
    return all(isinstance(handle, Known) for handle in handles)


class Operations:
    """keras.ops, whose results are named after the ONNX node that they are made for; checked for exactness, or not."""

    def __init__(self, emitter: "Base", checked: bool = True) -> None:
        self._emitter = emitter
        self._checked = checked

    def __getattr__(self, name: str) -> Any:
        function = getattr(keras.ops, name, None)
        if function is None:
            raise UnsupportedError("this Keras has no ops.%s" % name)

        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self._checked:
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
        self.free = Operations(self, checked=False)  # for what is in 32 bits whatever the model has
        self.names = names
        self.back_end = back_end()
        self.source: Any = None  # an input: what a constant hangs on, since every tensor comes from one
        self.computed: Optional[DType] = None  # the type of what is made, where it is not that of the result
        self._zero: Any = None
        self._held: Dict[int, Any] = {}

    # -- exactness -------------------------------------------------------------------------------------------------
    def check(self, name: str) -> None:
        """Refuse an operation that Keras would silently compute in fewer bits on this back end."""
        for dtype in self.types():
            if not dtype.native:
                raise UnsupportedError("a Keras model has no %s" % dtype.name)
            if not has_type(dtype.name) or dtype.kind == "c" or dtype.name == "uint64":
                raise UnsupportedError("Keras on %s does not compute with %s" % (self.back_end, dtype.name))
            if not keeps(name, dtype.name) or (dtype.name == "float64" and self.back_end != "tensorflow"):
                raise UnsupportedError(
                    "ops.%s of Keras on %s does not give %s for it" % (name, self.back_end, dtype.name),
                    hint="use the TensorFlow back end for this model",
                )

    def settled(self, result: Any) -> Any:
        """A computed integer in its own type: Keras widens some on some back ends, its own account aside."""
        dtype = self.node.outputs[0].spec.dtype
        if dtype.kind not in "iu" or dtype.name == "int64":
            return result
        return self.free.cast(result, dtype.name)

    def types(self) -> List[DType]:
        """The types that the node under way deals with."""
        specs = [arg.spec for arg in self.node.args if isinstance(arg, (Ref, Const))]
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
        return self.held(handle) if isinstance(handle, Known) else handle

    def operand(self, handle: Handle) -> Any:
        """What an operation can be called with: a small constant as a literal, beside at least one symbolic tensor."""
        if isinstance(handle, Known) and handle.array.size <= _LITERAL:
            array = handle.array
            if array.ndim:
                return np.ascontiguousarray(array)
            # torch takes a lone number for one of 32 bits, and complains if it is not
            wide = array.dtype.kind == "i" and not -(2**31) <= int(array) < 2**31
            return array if wide else array.item()
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
            if dtype.kind in "iub" and np.abs(array.astype(np.float64)).max(initial=0) <= 2**24:
                value = self.free.cast(self._row(array, dtypes.float32, trainable=False), dtype.name)
            else:
                value = self._row(array, dtype)
            self._held[id(known.array)] = (value, known.array)
        return self._held[id(known.array)][0]

    def _row(self, array: np.ndarray, dtype: DType, trainable: bool = True) -> Any:
        flat = np.ascontiguousarray(array.astype(dtype.numpy)).reshape(1, -1)
        if flat.size == 0:
            raise UnsupportedError("a Keras layer holds no empty constant")
        made = keras.layers.Embedding(
            1, flat.size, name=self.names.fresh(self._origin()), dtype=dtype.name, embeddings_initializer="zeros",
            trainable=trainable,
        )  # fmt: skip
        self.names.given[id(made)] = made
        row = made(self.zero())
        made.set_weights([flat])
        return self.free.reshape(row, array.shape)

    def zero(self) -> Any:
        """An index [0] that depends on an input, so that it belongs to the graph; of as little of it as can be."""
        if self._zero is None:
            if self.source is None:
                raise UnsupportedError("a functional Keras model needs an input")
            corner = self.source
            if len(corner.shape):
                corner = cut(self.free, corner, tuple(slice(0, 1) for _ in corner.shape))
            none = self.free.zeros_like(corner, dtype="int32")
            self._zero = self.free.reshape(self.free.sum(none), (1,))
        return self._zero

    def placeholder(self, spec: Spec) -> Any:
        sizes = [int(size) if isinstance(size, (int, np.integer)) else None for size in spec.shape]
        return keras.Input(batch_shape=sizes, dtype=spec.dtype.name)


def policy(dtype: DType) -> str:
    """What a layer casts floats to, which are all that it casts: the type itself, so that nothing is cast."""
    return dtype.name if dtype.kind == "f" else "float32"
