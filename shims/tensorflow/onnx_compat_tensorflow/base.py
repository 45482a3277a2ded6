"""The base class of the TensorFlow emitters: apply raw ops in dtypes that have a kernel, create constants, read sizes."""

from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

from onnx_compat.shim import DType, Emitter, Ref, Spec
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.framework_types import Key, Size, TensorFlow, TfDType, TfGraph, TfTensor
from onnx_compat_tensorflow.kernels import Route, call
from onnx_compat_tensorflow.tensors import encode, static_shape, tf_dtype

__all__ = ["Base"]

#: Ops whose result has another dtype than their operands: a route does not convert the result back.
_OTHER_RESULT_DTYPE = frozenset("Equal NotEqual Less LessEqual Greater GreaterEqual ArgMax ArgMin IsNan IsInf".split())


class Base(Emitter):
    """The base class of emitters whose handles are TensorFlow tensors.

    `read_variable`: a function from the array of a constant to the value of its tf.Variable, or to None if the array
    has no variable. An array without a variable becomes a constant of the graph. If `read_variable` is omitted, every
    array becomes a constant.
    """

    #: The inputs of the model, if none of them is ever empty; else the empty set.
    model_inputs: FrozenSet[Ref] = frozenset()
    #: The ids of arrays whose variables store a filter of a transposed convolution with its channels swapped.
    swapped_filters: FrozenSet[int] = frozenset()
    layout = "channels_last"
    filter_layout = "HWIO"

    def __init__(self, features: Features, read_variable: Optional[Callable[[np.ndarray], TfTensor]] = None) -> None:
        self.features = features
        self.tf = features.tf
        self.raw = features.tf.raw_ops if features.holds("Reshape takes int64") else _RawOpsInt32Reshape(features.tf)
        self._read_variable = read_variable  # None for an array that is a constant of the graph
        self._constants: Dict[Tuple[int, int], Tuple[np.ndarray, TfTensor, TfGraph]] = {}
        self._arrays: Dict[int, np.ndarray] = {}
        self._swapped: Set[int] = set()  # the ids of the handles of `swapped_filters`
        self._derived: Dict[Tuple[int, Key], Tuple[np.ndarray, np.ndarray]] = {}

    # -- raw ops -------------------------------------------------------------------------------------------------------
    def op(self, name: str, *tensors: TfTensor, **attributes: Any) -> Any:
        """Apply the raw op `name` to tensors of one dtype. Return its result: a tensor or a named tuple of tensors.

        `attributes`: the other parameters of the op. For float32, the op is applied directly. For another dtype, a
        `Route` may convert the tensors to a third dtype, and the first result back (see `Features.route`).

        The results of comparisons, IsNan, IsInf, ArgMax and ArgMin are not converted back.

        Raises UnsupportedError if the op has neither a kernel for the dtype nor a route. Raises AttributeError for a
        float32 op that this TensorFlow lacks.
        """
        dtype = tensors[0].dtype.base_dtype
        if dtype.name == "float32":
            return call(self.raw, name, tensors, attributes)
        route = self.features.route(name, dtype.name, len(tensors))
        if route is None:
            return call(self.raw, name, tensors, attributes)
        result = call(self.raw, name, [self._to_route(tensor, route) for tensor in tensors], attributes)
        if name in _OTHER_RESULT_DTYPE:
            return result
        if isinstance(result, tuple):
            return type(result)(self._from_route(result[0], route, dtype), *result[1:])
        return self._from_route(result, route, dtype)

    def _to_route(self, tensor: TfTensor, route: Route) -> TfTensor:
        dtype = self.tf.as_dtype(route.dtype)
        if route.conversion == "cast":
            return self.raw.Cast(x=tensor, DstT=dtype)
        bits = self.raw.Bitcast(input=tensor, type=dtype)
        return bits if route.conversion == "bits" else self._flip_sign_bit(bits)

    def _from_route(self, tensor: TfTensor, route: Route, dtype: TfDType) -> TfTensor:
        if route.conversion == "cast":
            return self.raw.Cast(x=tensor, DstT=dtype)
        bits = tensor if route.conversion == "bits" else self._flip_sign_bit(tensor)
        return self.raw.Bitcast(input=bits, type=dtype)

    def _flip_sign_bit(self, bits: TfTensor) -> TfTensor:
        return self.raw.BitwiseXor(x=bits, y=self.number(np.iinfo(np.int64).min, bits.dtype))

    def accumulation_dtype(self, x: TfTensor) -> str:
        """Return the name of the dtype that accumulates products of x: "float64" for float64, else "float32"."""
        return "float64" if x.dtype == self.tf.float64 else "float32"

    # -- constants -----------------------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> TfTensor:
        if self.concrete:
            return self.tf.constant(encode(array), tf_dtype(self.tf, dtype))
        graph = self.tf.compat.v1.get_default_graph()
        key = (id(array), id(graph))
        if key not in self._constants:
            handle = self._read_variable(array) if self._read_variable is not None else None
            if handle is None:
                with self.tf.control_dependencies(
                    None
                ):  # a constant of the root graph, visible in every branch and loop
                    handle = self.tf.constant(encode(array), tf_dtype(self.tf, dtype))
                self._arrays[id(handle)] = array
            elif id(array) in self.swapped_filters:
                self._swapped.add(id(handle))
            self._constants[key] = (array, handle, graph)
        return self._constants[key][1]

    def number(self, value: Union[bool, float, np.generic], dtype: TfDType) -> TfTensor:
        """Return a scalar constant tensor with this value, cast to this TensorFlow dtype."""
        return self.tf.constant(np.asarray(value).astype(dtype.as_numpy_dtype))

    def known_value(self, handle: TfTensor) -> Optional[np.ndarray]:
        """Return the value of a tensor that is a constant of the graph, as an array.

        Returns None for any other tensor: a result, a weight that is a variable, an eager tensor.
        """
        array = self._arrays.get(id(handle))
        if array is None and not self.concrete and getattr(getattr(handle, "op", None), "type", "") == "Const":
            array = self.tf.get_static_value(handle)
        return array

    def derive_constant(
        self, handle: TfTensor, rewrite: Key, compute: Callable[[np.ndarray], np.ndarray]
    ) -> Optional[Any]:
        """Return a constant tensor with the value `compute(known value of handle)`.

        Returns None if the value is not known (see `known_value`). The computed array is cached by the known array and
        `rewrite`, a key that identifies `compute`, such as ("swap channels",).
        """
        known = self.known_value(handle)
        if known is None:
            return None
        if (id(known), rewrite) not in self._derived:
            self._derived[id(known), rewrite] = (known, np.asarray(compute(known), order="C"))
        array = self._derived[id(known), rewrite][1]
        return self.constant(array, DType.of(array.dtype))

    def reshape_to(self, handle: TfTensor, shape: Sequence[Size]) -> TfTensor:
        """Reshape a tensor. The sizes are ints (at most one is -1, the wildcard) or scalar tensors.

        If all sizes are ints, the result for a constant of the graph is a constant too.
        """
        if all(isinstance(size, (int, np.integer)) for size in shape):
            constant = self.derive_constant(handle, ("reshaped", *shape), lambda array: array.reshape(shape))
            if constant is not None:
                return constant
        return self.raw.Reshape(tensor=handle, shape=self.vector(shape))

    # -- sizes ---------------------------------------------------------------------------------------------------------
    def shape_list(self, handle: TfTensor) -> List[Optional[int]]:
        """Return the static shape of a tensor as a list, with None for an unknown size.

        Raises ValueError for an unknown rank.
        """
        sizes: List[Optional[int]] = handle.shape.as_list()
        return sizes

    def rank(self, handle: TfTensor) -> int:
        return len(handle.shape)

    def dim(self, handle: TfTensor, axis: int) -> Size:
        size = self.shape_list(handle)[axis]
        return size if size is not None else self.tf.shape(handle, out_type=self.tf.int64)[axis]

    def element(self, handle: TfTensor, index: Optional[int]) -> Size:
        scalar = handle if index is None else handle[index]
        if self.concrete:
            return int(scalar)
        return scalar if scalar.dtype == self.tf.int64 else self.raw.Cast(x=scalar, DstT=self.tf.int64)

    def stack(self, scalars: Sequence[TfTensor]) -> TfTensor:
        return self.raw.Pack(values=list(scalars), axis=0)

    def vector(self, sizes: Sequence[Size], dtype: Optional[TfDType] = None) -> TfTensor:
        """Return sizes (ints or scalar tensors) as a tensor of rank 1: a constant if all are ints.

        `dtype` defaults to int64.
        """
        dtype = dtype or self.tf.int64
        if all(isinstance(size, (int, np.integer)) for size in sizes):
            return self.tf.constant(np.asarray(sizes, dtype.as_numpy_dtype).reshape(-1))
        scalars = [
            self.number(size, dtype) if isinstance(size, (int, np.integer)) else self.raw.Cast(x=size, DstT=dtype)
            for size in sizes
        ]
        return self.raw.Pack(values=scalars, axis=0)

    def sizes(self, handle: TfTensor, dtype: Optional[TfDType] = None) -> TfTensor:
        """Return the shape of a tensor as a tensor of rank 1: a constant if the shape is static.

        `dtype` defaults to int64.
        """
        known = self.shape_list(handle)
        if all(size is not None for size in known):
            return self.vector(known, dtype)
        return self.tf.shape(handle, out_type=dtype or self.tf.int64)

    def lengths(self, handle: TfTensor) -> List[Size]:
        """Return the shape of a tensor as a list: an int for a static size, else a scalar int64 tensor."""
        return [self.dim(handle, axis) for axis in range(self.rank(handle))]

    # -- handles -------------------------------------------------------------------------------------------------------
    def placeholder(self, spec: Spec) -> TfTensor:
        return self.tf.compat.v1.placeholder(tf_dtype(self.tf, spec.dtype), static_shape(spec.shape))


class _RawOpsInt32Reshape:
    """A replacement for `tf.raw_ops` in which Reshape casts its sizes to int32.

    For TensorFlow releases whose graph optimiser drops a Reshape to int64 sizes.
    """

    def __init__(self, tf: TensorFlow) -> None:
        self._tf = tf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tf.raw_ops, name)

    def Reshape(self, tensor: TfTensor, shape: TfTensor) -> TfTensor:  # noqa: N802  (the name of the op)
        sizes = self._tf.raw_ops.Cast(x=shape, DstT=self._tf.int32)
        return self._tf.raw_ops.Reshape(tensor=tensor, shape=sizes)
