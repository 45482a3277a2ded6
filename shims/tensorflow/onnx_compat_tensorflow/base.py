"""What the families of primitives share: raw ops with their detours, constants, sizes, and the static shapes of results."""

from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import DType, Emitter, Ref, Spec
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.kernels import Route, call
from onnx_compat_tensorflow.tensors import encoded, static_shape, tf_dtype

__all__ = ["Base"]

#: Ops whose result is of a type of its own.
_FOREIGN = frozenset("Equal NotEqual Less LessEqual ArgMax ArgMin IsNan IsInf".split())


class Base(Emitter):
    """TensorFlow tensors as handles."""

    #: The inputs of the model. What has a size of theirs is never empty: a model with an empty input is built without.
    fed: FrozenSet[Ref] = frozenset()
    layout = "channels_last"
    filter_layout = "HWIO"

    def __init__(self, features: Features, stored: Optional[Callable[[np.ndarray], Any]] = None) -> None:
        self.features = features
        self.tf = features.tf
        self.raw = features.tf.raw_ops if features.holds("Reshape takes int64") else _Amended(features.tf)
        self._stored = stored  # where a constant lives that shall not be part of the graph
        self._constants: Dict[Tuple[int, int], Tuple[np.ndarray, Any, Any]] = {}
        self._arrays: Dict[int, np.ndarray] = {}
        self._derived: Dict[Any, Tuple[np.ndarray, np.ndarray]] = {}

    # -- raw ops -------------------------------------------------------------------------------------------------------
    def op(self, name: str, *tensors: Any, **attributes: Any) -> Any:
        """A raw op on tensors of one dtype; where it has no kernel for that, through a dtype for which it has one."""
        dtype = tensors[0].dtype.base_dtype
        if dtype.name == "float32":
            return call(self.raw, name, tensors, attributes)
        route = self.features.route(name, dtype.name, len(tensors))
        if route is None:
            return call(self.raw, name, tensors, attributes)
        result = call(self.raw, name, [self._there(tensor, route) for tensor in tensors], attributes)
        if name in _FOREIGN:
            return result
        if isinstance(result, tuple):
            return type(result)(self._back(result[0], route, dtype), *result[1:])
        return self._back(result, route, dtype)

    def _there(self, tensor: Any, route: Route) -> Any:
        dtype = self.tf.as_dtype(route.dtype)
        if route.how == "cast":
            return self.raw.Cast(x=tensor, DstT=dtype)
        bits = self.raw.Bitcast(input=tensor, type=dtype)
        return bits if route.how == "bits" else self._turned(bits)

    def _back(self, tensor: Any, route: Route, dtype: Any) -> Any:
        if route.how == "cast":
            return self.raw.Cast(x=tensor, DstT=dtype)
        bits = tensor if route.how == "bits" else self._turned(tensor)
        return self.raw.Bitcast(input=bits, type=dtype)

    def _turned(self, bits: Any) -> Any:
        return self.raw.BitwiseXor(x=bits, y=self.number(np.iinfo(np.int64).min, bits.dtype))

    def computed(self, x: Any) -> str:
        """The dtype that sums of products of these numbers are made in."""
        return "float64" if x.dtype == self.tf.float64 else "float32"

    # -- constants -----------------------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Any:
        if self.concrete:
            return self.tf.constant(encoded(array), tf_dtype(self.tf, dtype))
        graph = self.tf.compat.v1.get_default_graph()
        key = (id(array), id(graph))
        if key not in self._constants:
            handle = self._stored(array) if self._stored is not None else None
            if handle is None:
                with self.tf.control_dependencies(None):  # outside of every branch and loop
                    handle = self.tf.constant(encoded(array), tf_dtype(self.tf, dtype))
                self._arrays[id(handle)] = array
            self._constants[key] = (array, handle, graph)
        return self._constants[key][1]

    def number(self, value: Any, dtype: Any) -> Any:
        """A Python number as a scalar of a TensorFlow dtype."""
        return self.tf.constant(np.asarray(value).astype(dtype.as_numpy_dtype))

    def static(self, handle: Any) -> Optional[np.ndarray]:
        """The numbers of a constant; None if they are not known now."""
        found = self._arrays.get(id(handle))
        if found is None and not self.concrete and getattr(getattr(handle, "op", None), "type", "") == "Const":
            found = self.tf.get_static_value(handle)
        return found

    def derived(self, handle: Any, how: Tuple[Any, ...], make: Callable[[np.ndarray], np.ndarray]) -> Optional[Any]:
        """Another constant, made of a constant once; None if the handle is none. `how` tells apart what is made."""
        known = self.static(handle)
        if known is None:
            return None
        if (id(known), how) not in self._derived:
            self._derived[id(known), how] = (known, np.ascontiguousarray(make(known)))
        array = self._derived[id(known), how][1]
        return self.constant(array, DType.of(array.dtype))

    def reshaped(self, handle: Any, shape: Sequence[Any]) -> Any:
        """In another shape, of ints and scalars; a constant stays one."""
        if all(isinstance(size, (int, np.integer)) for size in shape):
            constant = self.derived(handle, ("reshaped", *shape), lambda array: array.reshape(shape))
            if constant is not None:
                return constant
        return self.raw.Reshape(tensor=handle, shape=self.vector(shape))

    # -- sizes ---------------------------------------------------------------------------------------------------------
    def shape_list(self, handle: Any) -> List[Optional[int]]:
        """The sizes of a handle, None for those that are not known now."""
        sizes: List[Optional[int]] = handle.shape.as_list()
        return sizes

    def rank(self, handle: Any) -> int:
        return len(handle.shape)

    def dim(self, handle: Any, axis: int) -> Any:
        size = self.shape_list(handle)[axis]
        return size if size is not None else self.tf.shape(handle, out_type=self.tf.int64)[axis]

    def element(self, handle: Any, index: Optional[int]) -> Any:
        chosen = handle if index is None else handle[index]
        if self.concrete:
            return int(chosen)
        return chosen if chosen.dtype == self.tf.int64 else self.raw.Cast(x=chosen, DstT=self.tf.int64)

    def stack(self, scalars: Sequence[Any]) -> Any:
        return self.raw.Pack(values=list(scalars), axis=0)

    def vector(self, sizes: Sequence[Any], dtype: Any = None) -> Any:
        """Sizes, each an int or a scalar, as one vector of an integer type (int64)."""
        dtype = dtype or self.tf.int64
        if all(isinstance(size, (int, np.integer)) for size in sizes):
            return self.tf.constant(np.asarray(sizes, dtype.as_numpy_dtype).reshape(-1))
        scalars = [
            self.number(size, dtype) if isinstance(size, (int, np.integer)) else self.raw.Cast(x=size, DstT=dtype)
            for size in sizes
        ]
        return self.raw.Pack(values=scalars, axis=0)

    def sizes(self, handle: Any, dtype: Any = None) -> Any:
        """The whole shape as a vector: a constant where it is known."""
        known = self.shape_list(handle)
        if all(size is not None for size in known):
            return self.vector(known, dtype)
        return self.tf.shape(handle, out_type=dtype or self.tf.int64)

    def lengths(self, handle: Any) -> List[Any]:
        """The shape as a list of ints and scalars."""
        return [self.dim(handle, axis) for axis in range(self.rank(handle))]

    # -- handles -------------------------------------------------------------------------------------------------------
    def placeholder(self, spec: Spec) -> Any:
        return self.tf.compat.v1.placeholder(tf_dtype(self.tf, spec.dtype), static_shape(spec.shape))


class _Amended:
    """The raw ops of a TensorFlow whose optimiser drops a Reshape to sizes in int64."""

    def __init__(self, tf: Any) -> None:
        self._tf = tf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tf.raw_ops, name)

    def Reshape(self, tensor: Any, shape: Any) -> Any:  # noqa: N802  (the name of the op)
        sizes = self._tf.raw_ops.Cast(x=shape, DstT=self._tf.int32)
        return self._tf.raw_ops.Reshape(tensor=tensor, shape=sizes)
