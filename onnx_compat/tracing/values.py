"""Traced values: the arguments and results of meanings.

A `Tensor` has either a `value` or a `ref`. `value` is a numpy array of numbers, or an object array of ints and symbolic
sizes (`Dim`) for the shape arithmetic of a graph. `ref` is a value that is computed at run time. `order` is the pending
permutation of `ref`: physical axis j of the recorded value is logical axis `order[j]`; None is the logical order.
`weight` is the name of the float weight of the model that a known value was computed from, or None.
"""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat import limits
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir import Ref, Spec
from onnx_compat.ir.dims import Dim, Extent, is_static
from onnx_compat.ir.dtypes import DType

__all__ = [
    "EMPTY_OPTIONAL",
    "OMITTED",
    "MapValue",
    "SequenceValue",
    "Tensor",
    "TensorLike",
    "as_sizes",
    "known_array",
    "lift",
    "scalar_like",
]

Order = Optional[Tuple[int, ...]]


def _arithmetic(name: str, reflected: bool = False) -> Callable[[Any, Any], "Tensor"]:
    """Return a method for an arithmetic operator of Tensor: it applies the primitive `name` to the operands.

    If `reflected`, the method swaps the operands.
    """

    def method(self: Any, operand: Any) -> "Tensor":
        from onnx_compat.primitives import elementwise

        function: Callable[[Any, Any], Tensor] = getattr(elementwise, name)
        return function(operand, self) if reflected else function(self, operand)

    return method


class Tensor:
    """An n-dimensional value of an ONNX dtype, known or traced. See the module docstring.

    Arithmetic operators and `<`, `<=`, `>`, `>=` apply primitives; `==` compares the identity of the objects.
    """

    __slots__ = ("dtype", "order", "ref", "shape", "value", "weight")

    def __init__(
        self,
        dtype: DType,
        shape: Sequence[Extent],
        value: Optional[np.ndarray] = None,
        ref: Optional[Ref] = None,
        order: Order = None,
        weight: Optional[str] = None,
    ) -> None:
        self.dtype = dtype
        self.shape = tuple(shape)
        self.value = value
        self.ref = ref
        self.order = order
        self.weight = weight

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def spec(self) -> Spec:
        """The type of the tensor: its dtype and its logical shape."""
        return Spec(self.dtype, self.shape)

    @property
    def known(self) -> bool:
        """Whether every element is available while tracing as a number or a text, not as a symbolic size."""
        return self.value is not None and (
            self.value.dtype != object or self.dtype.kind == "s" or not _has_symbols(self)
        )

    @property
    def size(self) -> Extent:
        """The number of elements: an int, or a symbolic size."""
        total: Extent = 1
        for extent in self.shape:
            total = total * extent
        return total

    def __repr__(self) -> str:
        return "Tensor(%s%s%s)" % (
            self.dtype.name,
            list(self.shape),
            " = %r" % self.value if self.value is not None else "",
        )

    __add__, __radd__ = _arithmetic("add"), _arithmetic("add", reflected=True)
    __sub__, __rsub__ = _arithmetic("sub"), _arithmetic("sub", reflected=True)
    __mul__, __rmul__ = _arithmetic("mul"), _arithmetic("mul", reflected=True)
    __truediv__, __rtruediv__ = _arithmetic("div"), _arithmetic("div", reflected=True)
    __floordiv__, __rfloordiv__ = _arithmetic("floordiv"), _arithmetic("floordiv", reflected=True)
    __mod__, __rmod__ = _arithmetic("mod"), _arithmetic("mod", reflected=True)
    __pow__, __rpow__ = _arithmetic("pow"), _arithmetic("pow", reflected=True)
    __lt__, __le__ = _arithmetic("less"), _arithmetic("less_equal")
    __gt__, __ge__ = _arithmetic("greater"), _arithmetic("greater_equal")

    def __neg__(self) -> "Tensor":
        from onnx_compat.primitives import elementwise

        return elementwise.neg(self)


#: A value that `lift` converts to a Tensor.
TensorLike = Union[Tensor, np.ndarray, int, float, bool, str, Sequence[Any]]


class SequenceValue(NamedTuple):
    """An ONNX sequence of Tensors or other values. Its length is known while tracing. `dtype` is the tensors' dtype."""

    dtype: DType
    items: Tuple[Any, ...]


class MapValue(NamedTuple):
    """An ONNX map: a vector of keys in ascending order, and the vector of their values in the same order."""

    keys: Tensor
    values: Tensor

    @property
    def dtype(self) -> DType:
        """The dtype of the map's values; the keys have their own dtype."""
        return self.values.dtype


class _EmptyOptional:
    """An ONNX optional without an element. It differs from an omitted input, which is None."""

    def __repr__(self) -> str:
        return "NOTHING"


EMPTY_OPTIONAL = _EmptyOptional()


class _Omitted:
    """An input of the model without a value and without a default. The nodes that read it see an omitted input."""

    def __repr__(self) -> str:
        return "OMITTED"


OMITTED = _Omitted()


def lift(value: Any, dtype: Optional[DType] = None) -> Tensor:
    """Convert an array, a number, a text, a size or a list to a Tensor with a `value`.

    A Tensor is returned unchanged, also with another `dtype`.

    `dtype`: the dtype of the result. By default, an array keeps its dtype, symbolic sizes get int64, and Python numbers
    get numpy's default: int64, float64 or bool. A list of symbolic sizes must be flat.

    Raises UnsupportedError if ONNX lacks the dtype of an array or a number. Raises InvalidModelError for a Python
    number that does not fit `dtype`, and for a sequence or a map.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (SequenceValue, MapValue)):
        raise InvalidModelError("a sequence or a map is given to an operator that takes a tensor")
    if isinstance(value, Dim) or (isinstance(value, (list, tuple)) and any(isinstance(v, Dim) for v in value)):
        array = np.empty(np.shape(value) if isinstance(value, (list, tuple)) else (), object)
        array[...] = value
        return Tensor(dtype or DType.of("int64"), array.shape, array)
    if dtype is not None:
        if dtype.kind in "iu" and isinstance(value, (int, float, list, tuple)):
            _check_range(value if isinstance(value, (list, tuple)) else [value], dtype)
        try:
            array = np.asarray(value, dtype.numpy)
        except OverflowError as error:
            raise InvalidModelError("the number %s does not fit %s" % (value, dtype.name)) from error
    else:
        array = np.asarray(value)
        dtype = DType.of(array.dtype)
    return Tensor(dtype, array.shape, array)


def _check_range(values: Sequence[Any], dtype: DType) -> None:
    """Raise InvalidModelError for a Python number outside of an integer dtype: numpy below 2 takes its lowest bits."""
    lowest, highest = dtype.min, dtype.max
    for value in values:
        if isinstance(value, (int, float)) and (value < lowest or value > highest):
            raise InvalidModelError("the number %s does not fit %s" % (value, dtype.name))


def scalar_like(value: TensorLike, like: Tensor) -> Tensor:
    """Convert a Python number or an array to a Tensor with the dtype of `like`.

    A Tensor is returned unchanged, also with another dtype.
    """
    return value if isinstance(value, Tensor) else lift(value, like.dtype)


def known_array(tensor: Tensor, subject: str) -> np.ndarray:
    """Return the elements of a tensor, in logical order. Raises NeedsKnownError if they depend on run-time values.

    A trace that executes at once computes every value, and raises nothing. `subject` describes the tensor in the error:
    "the axes of a Squeeze".
    """
    from onnx_compat.tracing.trace import current_trace

    if tensor.known:
        assert tensor.value is not None
        return tensor.value
    return current_trace().demand(tensor, subject)


def as_sizes(tensor: Tensor, length: Optional[Extent] = None) -> List[Extent]:
    """Return the elements of an integer vector or scalar as a list of sizes: ints if known, else symbolic sizes.

    A tensor with a `value` may have a higher rank: it is flattened. For a run-time tensor, a higher rank raises
    InvalidModelError, and a number of elements above the limit `sequence_items` raises LimitError.

    `length`: the number of elements that another input or attribute of the node requires, or None. For a run-time
    vector of symbolic length, `length` gives the number of elements. If `length` is not static either, NeedsKnownError
    is raised.
    """
    if tensor.value is not None:
        return [v if isinstance(v, Dim) else int(v) for v in tensor.value.reshape(-1)]
    if tensor.rank == 0:
        return [Dim.atom("element", tensor.ref, None)]
    if tensor.rank != 1:
        raise InvalidModelError("an integer vector was expected, not a tensor of rank %d" % tensor.rank)
    size = tensor.shape[0] if is_static(tensor.shape[0]) or length is None else length
    if not is_static(size):
        raise NeedsKnownError("the length of an integer vector (a rank) is not known", tensor)
    limits.check("sequence_items", int(size), "a vector of sizes")
    return [Dim.atom("element", tensor.ref, k) for k in range(int(size))]


def _has_symbols(tensor: Tensor) -> bool:
    assert tensor.value is not None
    return any(isinstance(v, Dim) for v in tensor.value.reshape(-1))
