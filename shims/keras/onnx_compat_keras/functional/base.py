"""The base class of the emitter of functional Keras models: create named layers with weights, operations and constants."""

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

import keras
import numpy as np

from onnx_compat.shim import Const, DType, Emitter, Node, Ref, Spec, UnsupportedError, dtypes, have_exact_reciprocals
from onnx_compat_keras.features import back_end, has_type, is_exact
from onnx_compat_keras.framework_types import Handle, SymbolicTensor
from onnx_compat_keras.functional.names import Names
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Base", "Known", "Scope", "carrier", "is_known", "kernel_weights", "policy", "storage", "unify"]

#: A constant of at most this many elements may be a literal argument of an operation; a larger one is a layer's weight.
_LITERAL = 16


@dataclass(frozen=True)
class Known:
    """The handle of a constant. The method that reads it makes it a layer's weight, a literal argument or a tensor."""

    array: np.ndarray
    dtype: DType

    @property
    def shape(self) -> Tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim


def is_known(*handles: Handle) -> bool:
    """Whether all handles are constants (`Known`)."""
    return all(isinstance(handle, Known) for handle in handles)


@dataclass
class Scope:
    """A cache of the symbolic tensors of one Keras model. Its nodes share it; other models must not use it.

    The body of a branch or loop is a model with a scope of its own. The constants of a body are inputs, because Keras
    saves no weights of such a model. `lifted` maps the id of a constant's array to (constant, input). It is None for
    the whole model, whose constants are weights.
    """

    source: SymbolicTensor = None  # an input of the model, on which constants depend: Keras requires that
    zero: SymbolicTensor = None
    lifted: Optional[Dict[int, Tuple[Known, SymbolicTensor]]] = None
    held: Dict[int, Any] = field(default_factory=dict)
    ones_vectors: Dict[Any, SymbolicTensor] = field(default_factory=dict)
    positions: Dict[Any, SymbolicTensor] = field(default_factory=dict)


class Operations:
    """A proxy of `keras.ops`: an operation that is called through it is named after the current ONNX node.

    Raises UnsupportedError for a name that `keras.ops` lacks. With `checked`, a call also raises it if Keras cannot
    compute the operation exactly in the dtypes of the current node (see `Base.check`).
    """

    def __init__(self, emitter: "Base", checked: bool = True) -> None:
        self._emitter = emitter
        self._checked = checked

    def __getattr__(self, name: str) -> Any:
        function = getattr(keras.ops, name, None)
        if function is None:
            raise UnsupportedError("this Keras has no ops.%s" % name)

        def call_and_name(*args: Any, **kwargs: Any) -> Any:
            if self._checked:
                self._emitter.check(name)
            result = function(*args, **kwargs)
            for tensor in keras.tree.flatten(result):
                self._emitter.name(tensor)
            return result

        return call_and_name


class Base(Emitter):
    """The base class of the emitter whose handles are symbolic Keras tensors (or `Known` constants).

    Its methods raise UnsupportedError if layers and operations of Keras cannot compute the primitive exactly.
    """

    layout = "channels_last"
    filter_layout = "HWIO"
    index_dtype = dtypes.int64

    def __init__(self, names: Names) -> None:
        self.ops = Operations(self)
        self.unchecked_ops = Operations(self, checked=False)  # for operations on sizes and indices, in 32 bits
        self.names = names
        self.back_end = back_end()
        self.computed: Optional[DType] = None  # the dtype of new layers; None: the dtype of the node's result
        self.scope = Scope()
        self._lifted_names: Dict[int, str] = {}
        self._created: Set[int] = set()  # the ids of the operations that the current node has created

    @property
    def has_weights(self) -> bool:
        """Whether layers of the current model may have weights: False in the body of a branch or loop (see `Scope`)."""
        return self.scope.lifted is None

    @contextmanager
    def inner_scope(self, zero: SymbolicTensor) -> Iterator[Scope]:
        """Return a context manager in which the emitter builds the body of a branch or loop. It yields the new scope.

        `zero`: the input of the body that holds the int32 tensor [0].
        """
        outer, self.scope = self.scope, Scope(zero=zero, lifted={})
        try:
            yield self.scope
        finally:
            self.scope = outer

    @property
    def out(self) -> Spec:
        """The physical type of the (first) result of the current node, with the carrier of a carried dtype."""
        spec = super().out
        return Spec(carrier(spec.dtype), spec.shape)

    # -- exactness -------------------------------------------------------------------------------------------------
    def check(self, name: str) -> None:
        """Raise UnsupportedError if Keras cannot compute the operation or layer `name` exactly for the current node.

        Every dtype of an argument or result of the node is checked (see `types`). Keras cannot compute exactly in

        - complex dtypes, and dtypes that Keras lacks (see `has_type`),
        - float64, except on TensorFlow,
        - a dtype for which `is_exact` returns False. For uint64, `is_exact` is asked about int64 (see `storage`).
        """
        self.check_dtypes()
        for dtype in self.types():
            if not is_exact(name, storage(dtype)):
                raise self._inexact(name, dtype)

    def check_dtypes(self) -> None:
        """Raise UnsupportedError if Keras cannot compute in the dtype of an argument or result of the current node.

        The dtypes are those of `types()`. Keras cannot compute in complex dtypes, and in dtypes that it lacks (see
        `has_type`); in float64 only on TensorFlow.
        """
        for dtype in self.types():
            if not has_type(dtype.name) or dtype.kind == "c":
                raise UnsupportedError("Keras on %s does not compute with %s" % (self.back_end, dtype.name))
            if dtype.name == "float64" and self.back_end != "tensorflow":
                raise self._inexact(self.node.primitive, dtype)

    def _inexact(self, name: str, dtype: DType) -> UnsupportedError:
        return UnsupportedError(
            "ops.%s of Keras on %s does not give %s for it" % (name, self.back_end, dtype.name),
            hint="use the TensorFlow back end for this model",
        )

    def restore_dtype(self, result: Handle) -> Handle:
        """Return `result` cast to the dtype of the node's first output, if this is an integer dtype below 64 bits.

        For another dtype, return `result` unchanged. The cast is needed because Keras returns a wider integer dtype
        than it declares on some back ends.
        """
        dtype = self.out.dtype
        if dtype.kind not in "iu" or dtype.bits == 64:
            return result
        return self.unchecked_ops.cast(result, dtype.name)

    def types(self) -> List[DType]:
        """Return the dtypes of the tensor arguments, then of the results, of the current node.

        Arguments that are lists of tensors are skipped. In place of a carried dtype, the result has its carrier.
        """
        specs = [arg.spec for arg in self.node.args if isinstance(arg, (Ref, Const))]
        return [carrier(spec.dtype) for spec in specs + [output.spec for output in self.node.outputs]]

    # -- names and layers --------------------------------------------------------------------------------------------
    def name(self, result: Handle) -> Handle:
        """Name the operation that computed `result` after the current node, and return `result`.

        Does nothing if the operation is in `names` already, or if `result` is no symbolic tensor.
        """
        history = getattr(result, "_keras_history", None)
        if history is not None and id(history.operation) not in self.names.operations:
            history.operation.name = self._fresh(type(history.operation).__name__, auxiliary=True)
            self.names.add(history.operation, self._current_node())
            self._created.add(id(history.operation))
        return result

    def _fresh(self, kind: str, auxiliary: bool = False) -> str:
        """Return an unused name for a layer or operation of a class, `kind`, of the current node.

        `auxiliary`: the operation does not do the work of the node. Its name is then the name of the ONNX node with
        `kind` appended. Before the first node, the name begins with "values".
        """
        node = self._current_node()
        return self.names.fresh("values") if node is None else self.names.of(node, kind, auxiliary)

    def _current_node(self) -> Optional[Node]:
        """Return the recorded node that is being emitted; None before the first node."""
        node: Optional[Node] = getattr(self, "node", None)
        return node

    def at(self, node: Node) -> Emitter:
        self._created = set()
        return super().at(node)

    def finish(self, handle: Handle, dtype: DType) -> Handle:
        """Give the name of the ONNX node to the operation that does its work, unless a layer has the name already.

        Names nothing if `handle` was computed for another node. Returns `handle`; for a carried `dtype`, returns it
        rounded to the values of the dtype.
        """
        history = getattr(handle, "_keras_history", None)
        if history is not None and id(history.operation) in self._created:
            self.names.rename(self.node, history.operation, self._created)
        return super().finish(handle, dtype)

    def layer(
        self,
        kind: str,
        *inputs: Union[Handle, Sequence[Handle]],
        weights: Optional[Sequence[np.ndarray]] = None,
        call: Optional[Mapping[str, Any]] = None,
        **config: Any,
    ) -> Any:
        """Create a layer `keras.layers.<kind>(**config)`, call it on `inputs`, and return the result.

        weights: arrays that replace the initial weights after the call. None keeps the initial weights.
        call: keyword arguments of the call.
        config: arguments of the layer.

        The layer computes in the dtype `self.computed` or, if this has the value None, in the dtype of the node's first
        output. Raises UnsupportedError if the layer is not exact in a dtype of the current node (see `check`).
        """
        self.check(kind)
        dtype = self.computed or self.out.dtype
        layer = getattr(keras.layers, kind)(name=self._fresh(kind), dtype=policy(dtype), **config)
        self.names.add(layer, self._current_node())
        self._created.add(id(layer))
        result = layer(*inputs, **(call or {}))
        if weights is not None:
            layer.set_weights(list(weights))
        return result

    # -- sums of float16 ---------------------------------------------------------------------------------------------
    def sums_in_float16(self) -> bool:
        """Whether a layer or operation for the current node would accumulate in float16.

        True for a float16 result on TensorFlow, except inside `through_float32`, which sets `self.computed`.
        """
        return self.back_end == "tensorflow" and self.computed is None and self.out.dtype.name == "float16"

    def through_float32(self, method: Callable[..., Any], *operands: Optional[Handle], **params: Any) -> Handle:
        """Call `method` with float16 operands as float32, and return its result as float16."""
        self.computed = dtypes.float32
        try:
            out = method(*map(self._to_float32, operands), **params)
        finally:
            self.computed = None
        return self.ops.cast(out, "float16")

    def _to_float32(self, handle: Optional[Handle]) -> Optional[Handle]:
        if isinstance(handle, Known):
            return Known(handle.array.astype(np.float32), dtypes.float32)
        return None if handle is None else self.ops.cast(handle, "float32")

    # -- constants ---------------------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Known:
        if dtype.name == "uint64":
            return Known(array.astype(np.int64), dtypes.int64)  # the cast wraps: see `storage`
        return Known(array, carrier(dtype))

    def tensor(self, handle: Handle) -> Handle:
        """Return a handle as a symbolic tensor. A constant becomes the result of a layer, by `constant_tensor`."""
        return self.constant_tensor(handle) if isinstance(handle, Known) else handle

    def operand(self, handle: Handle) -> Handle:
        """Return a handle as an argument of an operation: a literal for a constant of 1 to 16 elements, else a tensor.

        The literal of a scalar is a Python number, or an array for a signed integer beyond int32. The literal of a
        constant of rank 1 or more is an array.
        """
        # Keras reads an empty literal of a file as float32, whatever its dtype was.
        if isinstance(handle, Known) and 0 < handle.array.size <= _LITERAL:
            array = handle.array
            if array.ndim:
                return np.ascontiguousarray(array)
            # Keras on torch converts a Python integer to int32, and raises if it does not fit.
            is_wide = array.dtype.kind == "i" and not -(2**31) <= int(array) < 2**31
            return array if is_wide else array.item()
        return self.tensor(handle)

    def operands(self, *handles: Handle) -> List[Handle]:
        """Return handles as a list of arguments of an operation (see `operand`).

        If all are constants, the first becomes a symbolic tensor, because an operation of Keras needs one.
        """
        if is_known(*handles):
            return [self.tensor(handles[0])] + [self.operand(handle) for handle in handles[1:]]
        return [self.operand(handle) for handle in handles]

    def real_quotient(self, x: Handle, y: Handle) -> Handle:
        """Divide floats. For a constant divisor, operations are chosen such that TensorFlow's quotients are exact.

        TensorFlow's graph optimizer multiplies by an approximate reciprocal of a literal: 1.75 / 0.5 is 3.4999998 in
        TensorFlow 2.21. It rewrites neither a division by a weight nor `divide_no_nan`, which gives 0 for x / 0.
        """
        if not isinstance(y, Known) or y.array.dtype.kind != "f":
            return self.ops.divide(*self.operands(x, y))
        if have_exact_reciprocals(y.array):
            return self.ops.multiply(*self.operands(x, replace(y, array=np.asarray(np.reciprocal(y.array)))))
        is_normal = np.abs(y.array) >= np.finfo(y.array.dtype).tiny
        if is_normal.all() and hasattr(keras.ops, "divide_no_nan"):
            return self.ops.divide_no_nan(*self.operands(x, y))
        return self.ops.divide(self.operand(x), self.tensor(y))

    def constant_tensor(self, known: Known) -> Handle:
        """Return a constant as a symbolic tensor: row 0 of an Embedding layer with a single row, reshaped.

        Embedding is the only layer of Keras that can store any array exactly.

        - An array of bools, or of integers of at most 2**24 in magnitude, is stored as float32, not trainable, and
          cast.
        - Any other array is stored in its dtype. It is trainable if it has floats.

        An array that is used twice has a single layer.

        Two kinds of constants have no layer. In the body of a branch or loop, a constant is an input of the body. An
        empty array is an empty slice of `zero`.
        """
        held = self.scope.held
        if id(known.array) not in held:
            held[id(known.array)] = (self._new_constant(known), known.array)
        return held[id(known.array)][0]

    def _new_constant(self, known: Known) -> SymbolicTensor:
        array, dtype = known.array, known.dtype
        if not array.size:
            nothing = self.unchecked_ops.cast(cut(self.unchecked_ops, self.zero(), (slice(0, 0),)), dtype.name)
            return self.unchecked_ops.reshape(nothing, array.shape)
        if self.scope.lifted is not None:
            tensor = self.lifted_input(known)
            self.scope.lifted[id(array)] = (known, tensor)
            return tensor
        if dtype.kind in "iub" and np.abs(array.astype(np.float64)).max(initial=0) <= 2**24:
            return self.unchecked_ops.cast(self._row(array, dtypes.float32, trainable=False), dtype.name)
        return self._row(array, dtype, trainable=dtype.kind == "f")  # integers have no gradients

    def lifted_input(self, known: Known) -> SymbolicTensor:
        """Return a new input for a constant of the body of a branch or loop.

        The inputs of several bodies for the same array have the same name.
        """
        name = self._lifted_names.setdefault(id(known.array), "k%05d" % len(self._lifted_names))
        return keras.Input(batch_shape=known.shape, dtype=known.dtype.name, name=name)

    def _row(self, array: np.ndarray, dtype: DType, trainable: bool = True) -> Handle:
        """Return an array as a symbolic tensor: row 0 of a new Embedding layer in `dtype`, reshaped.

        `trainable`: whether training may change the weight of the layer.
        """
        flat = np.ascontiguousarray(array.astype(dtype.numpy)).reshape(1, -1)
        layer = keras.layers.Embedding(
            1, flat.size, name=self._fresh("Constant", auxiliary=True), dtype=dtype.name, embeddings_initializer="zeros",
            trainable=trainable,
        )  # fmt: skip
        self.names.add(layer, self._current_node())
        row = layer(self.zero())
        layer.set_weights([flat])
        return self.unchecked_ops.reshape(row, array.shape)

    def zero(self) -> Handle:
        """Return the int32 tensor [0], which is created once for the model.

        It is computed from an element of an input, because Keras requires that tensors depend on inputs. Raises
        UnsupportedError if the model has no input.
        """
        if self.scope.zero is None:
            if self.scope.source is None:
                raise UnsupportedError("a functional Keras model needs an input")
            corner = self.scope.source
            if len(corner.shape):
                corner = cut(self.unchecked_ops, corner, tuple(slice(0, 1) for _ in corner.shape))
            zeros = self.unchecked_ops.zeros_like(corner, dtype="int32")
            self.scope.zero = self.unchecked_ops.reshape(self.unchecked_ops.sum(zeros), (1,))
        return self.scope.zero

    def placeholder(self, spec: Spec) -> Handle:
        if spec.dtype.kind == "s" or not has_type(storage(spec.dtype)):
            raise UnsupportedError("a Keras model on %s has no %s" % (self.back_end, spec.dtype.name))
        sizes = [int(size) if isinstance(size, (int, np.integer)) else None for size in spec.shape]
        return keras.Input(batch_shape=sizes, dtype=storage(spec.dtype))


def carrier(dtype: DType) -> DType:
    """Return the carrier of a dtype that numpy lacks: float32 for bfloat16. Any other dtype is returned unchanged.

    Keras computes in the carrier.
    """
    return dtype if dtype.native else DType.of(dtype.numpy)


def storage(dtype: DType) -> str:
    """Return the name of the dtype in which symbolic tensors store a dtype.

    It is "int64" for uint64, the name of the carrier for a carried dtype, and else the name of the dtype. An int64
    tensor stores the bits of uint64, because Keras declares 32-bit results for uint64 (see `FunctionalUnsigned64`).
    """
    return "int64" if dtype.name == "uint64" else carrier(dtype).name


def policy(dtype: DType) -> str:
    """Return the Keras dtype policy under which a layer keeps a dtype: a float dtype or its carrier, else "float32".

    Keras layers cast only floats to the dtype of their policy.
    """
    return carrier(dtype).name if dtype.kind == "f" else "float32"


def unify(sizes: Sequence[int]) -> Union[int, Tuple[int, ...]]:
    """Return sizes in a form that Keras layers accept: a single int if all are equal, else a tuple of ints.

    There must be at least one size.
    """
    return int(sizes[0]) if len(set(sizes)) == 1 else tuple(map(int, sizes))


def kernel_weights(kernel: np.ndarray, bias: Optional[Known]) -> List[np.ndarray]:
    """Return the weights of a layer with a kernel and a bias, which may be None for a layer without a bias."""
    return [np.ascontiguousarray(kernel)] + ([] if bias is None else [np.ascontiguousarray(bias.array)])
